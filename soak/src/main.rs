//! Reads for minutes from servers that misbehave, and checks every byte and every error. `raskio-soak --help` says how.
#![doc = include_str!("help.txt")]

mod chaos;
mod check;
mod data;
mod faults;
mod latency;
mod ledger;
mod memory;
mod plan;
mod round;
mod worker;
mod world;

use check::Tally;
use memory::{Usage, usage};
use round::Round;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use world::World;

/// The part of the operations that the first round gets: everything is in use after it, and what it lost is lost.
const WARM_UP: f64 = 0.2;
/// Resident memory that may come on top after the warm-up. The allocator's own waste moves by about this much.
const GROWTH_KIB: u64 = 24 << 10;

/// Panics that nobody planted.
static PANICS: AtomicU64 = AtomicU64::new(0);

struct Arguments {
    seed: u64,
    reads: u64,
    minutes: f64,
    rounds: u64,
    latency: bool,
    json: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let mut arguments = Arguments { seed: clock, reads: 100_000, minutes: 5.0, rounds: 4, latency: false, json: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value; see --help"));
        fn number<T: std::str::FromStr>(word: &str, value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{word} takes a number, not {value:?}"))
        }
        match word.as_str() {
            "--seed" => arguments.seed = number(&word, &value()?)?,
            "--reads" => arguments.reads = number(&word, &value()?)?,
            "--minutes" => arguments.minutes = number(&word, &value()?)?,
            "--rounds" => arguments.rounds = number(&word, &value()?)?,
            "--latency" => arguments.latency = true,
            "--json" => arguments.json = Some(value()?),
            "--help" => {
                print!("{}", include_str!("help.txt"));
                std::process::exit(0);
            }
            _ => return Err(format!("there is no argument {word:?}; see --help")),
        }
    }
    match arguments {
        Arguments { rounds: 0..2, .. } => Err("--rounds must be at least 2: one to warm up, one to compare".into()),
        Arguments { reads: 0..100, .. } => Err("--reads must be at least 100".into()),
        Arguments { minutes, .. } if !(minutes > 0.0 && minutes < 1e6) => Err("--minutes must be more than 0".into()),
        _ => Ok(arguments),
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    raskio_testserver::raise_open_file_limit();
    if arguments.latency {
        return latency::run(arguments.json.as_deref());
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&"a planted panic") {
            PANICS.fetch_add(1, SeqCst);
            usual(panic);
        }
    }));
    soak(&arguments)
}

fn soak(arguments: &Arguments) -> ExitCode {
    let Arguments { seed, reads, minutes, rounds, .. } = *arguments;
    println!("seed {seed}, {reads} operations or {minutes} minutes, faults inside: {}", chaos::inside::BUILT_IN);
    let world = Arc::new(World::new(seed, reads));
    let begun = Instant::now();
    let part = |round: u64| match round {
        0 => 0.0,
        round => WARM_UP + (1.0 - WARM_UP) * (round - 1) as f64 / (rounds - 1) as f64,
    };
    let bound = |round: u64| if round == rounds { reads } else { (reads as f64 * part(round)) as u64 };
    println!(
        "{:>5} {:>9} {:>7} {:>9} {:>8} {:>6} {:>7} {:>9}",
        "round", "ops", "failed", "MB", "seconds", "files", "threads", "RSS KiB"
    );
    let (mut all, mut warm): (Tally, Option<Usage>) = (Tally::default(), None);
    for number in 0..rounds {
        let round = Round {
            number,
            ids: bound(number)..bound(number + 1),
            end: begun + Duration::from_secs_f64(60.0 * minutes * part(number + 1)),
            leaks: number == 0,
            under_load: number % 2 == 1,
        };
        let before = Instant::now();
        let tally = round.run(&world);
        if round.leaks {
            // A lost handle's connections are lost as well; the server's side of them is not.
            world.servers.iter().for_each(|server| server.drop_connections());
        }
        if !world.wait_for_quiet() {
            world.violation(format!("round {number}: connections stay open after the clients are gone"));
        }
        let now = settled(warm);
        println!(
            "{number:>5} {:>9} {:>7} {:>9} {:>8.1} {:>6} {:>7} {:>9}",
            tally.operations(),
            tally.operations() - tally.succeeded,
            tally.bytes / 1_000_000,
            before.elapsed().as_secs_f64(),
            now.files,
            now.threads,
            now.resident_kib
        );
        all.add(tally);
        let warm = warm.get_or_insert(now);
        if (now.files, now.threads) != (warm.files, warm.threads) {
            world.violation(format!("round {number}: {now:?}, and after the first it was {warm:?}"));
        }
        if now.resident_kib > warm.resident_kib + GROWTH_KIB {
            world.violation(format!("round {number}: memory grew to {now:?}, and after the first it was {warm:?}"));
        }
        if world.violations() >= world::ENOUGH {
            break;
        }
    }
    report(&world, &all, begun.elapsed(), reads);
    let panics = PANICS.load(SeqCst);
    if panics > 0 {
        world.violation(format!("{panics} panics that nobody planted"));
    }
    let failed = world.violations() as u64;
    println!("{} passed, {failed} failed, 0 skipped", u64::from(failed == 0));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is in use once threads that are over are gone.
fn settled(wanted: Option<Usage>) -> Usage {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let now = usage();
        let same = wanted.is_some_and(|wanted| (now.files, now.threads) == (wanted.files, wanted.threads));
        if same || Instant::now() >= end {
            return now;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn report(world: &World, all: &Tally, took: Duration, reads: u64) {
    let operations = all.operations();
    println!(
        "\n{operations} of {reads} operations in {:.1} s ({:.0} a second): {} succeeded, {} of them after faults; {} MB",
        took.as_secs_f64(),
        operations as f64 / took.as_secs_f64(),
        all.succeeded,
        all.survived,
        all.bytes / 1_000_000
    );
    let failed: Vec<_> = all.failed.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
    println!("failed, each for a reason: {}", failed.join(", "));
    println!(
        "requests {}, attempts after the first {}, connections opened {}, reused {}",
        all.requests, all.retried, all.connections, all.reused
    );
    let planted = world.script.planted.iter().map(|n| n.load(SeqCst));
    let names: Vec<_> =
        planted.clone().enumerate().map(|(i, n)| format!("{} {n}", faults::name(i as u8 + 1))).collect();
    println!("planted {}: {}", planted.sum::<u64>(), names.join(", "));
    let inside: Vec<_> = chaos::inside::hits().into_iter().map(|(name, n)| format!("{name} {n}")).collect();
    println!("inside: {}", if inside.is_empty() { "nothing, in this build".into() } else { inside.join(", ") });
    println!("reactors replaced {}, handles leaked {}, {:?}", all.replaced, all.leaked, chaos::now());
    println!(
        "latest effect of a deadline {:.1} ms, of a cancel {:.1} ms; longest shutdown {:.1} ms",
        all.latest_deadline.as_secs_f64() * 1e3,
        all.latest_cancel.as_secs_f64() * 1e3,
        all.longest_shutdown.as_secs_f64() * 1e3
    );
}
