//! The plugin of Nsight Systems that shows what goes through the network interfaces, beside everything else on its timeline.
//! nsys starts it with the program that is profiled, and ends it with a signal.

use raskio_nic::counters::Sysfs;
use raskio_nic::publish::Publisher;
use raskio_nic::rates::{Sample, Sampler};
use raskio_nic::select::Selection;
use raskio_nic::text;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "\
usage: raskio-nsys-nic [options]

Shows what goes through the network interfaces in Nsight Systems (nsys profile --enable=raskio_nic[,options]), or on
standard output.

  -d, --device NAME    an interface; * and ? stand for any characters; may be given several times
                       (default: all that are up, but loopback)
  -i, --interval US    microseconds between two samples, at least 100 (default: 20000)
  -n, --count N        samples to take (default: until a signal)
      --csv, --json    on standard output, not in a profiler
      --sysfs DIR      where the counters are (default: /sys/class/net)
  -h, --help           this
  -V, --version        the version";

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Nvtx,
    Csv,
    Json,
}

struct Options {
    devices: Vec<String>,
    interval: Duration,
    count: Option<u64>,
    form: Form,
    sysfs: String,
}

/// `Err`: what is to be said instead, and whether it is an error.
fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, (bool, String)> {
    let mut options = Options {
        devices: Vec::new(),
        interval: Duration::from_micros(20_000),
        count: None,
        form: Form::Nvtx,
        sysfs: "/sys/class/net".into(),
    };
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        // -d eth0, -deth0, --device eth0 and --device=eth0 are the same.
        let (name, attached) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ if argument.starts_with('-')
                && !argument.starts_with("--")
                && argument.is_char_boundary(2)
                && argument.len() > 2 =>
            {
                (argument[..2].to_owned(), Some(argument[2..].to_owned()))
            }
            _ => (argument.clone(), None),
        };
        let mut value = || attached.clone().or_else(|| arguments.next()).ok_or((true, format!("{name} needs a value")));
        let number = |text: String| {
            text.parse::<u64>()
                .ok()
                .filter(|n| *n > 0)
                .ok_or((true, format!("{name} is {text:?}, which is no number above 0")))
        };
        match name.as_str() {
            "-d" | "--device" => options.devices.push(value()?),
            "-i" | "--interval" => options.interval = Duration::from_micros(number(value()?)?.max(100)),
            "-n" | "--count" => options.count = Some(number(value()?)?),
            "--sysfs" => options.sysfs = value()?,
            "--csv" => options.form = Form::Csv,
            "--json" => options.form = Form::Json,
            "-h" | "--help" => return Err((false, HELP.into())),
            "-V" | "--version" => return Err((false, env!("CARGO_PKG_VERSION").into())),
            _ => return Err((true, format!("{argument:?} is no option; --help tells them"))),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let outcome = parse(std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()))
        .and_then(|options| run(&options).map_err(|words| (true, words)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((false, words)) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err((true, words)) => {
            eprintln!("raskio-nsys-nic: error: {words}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let mut publisher = match options.form {
        Form::Nvtx => Some(Publisher::new().ok_or(
            "no profiler is there: start it with nsys profile --enable=raskio_nic, or use --csv or --json for standard output",
        )?),
        _ => None,
    };
    let mut sampler = Sampler::new(Sysfs::new(&options.sysfs), Selection::new(options.devices.clone()));
    let mut take = || sampler.sample(Instant::now()).map_err(|error| format!("cannot read the counters: {error}"));
    let mut next = Instant::now();
    take()?;
    if options.form == Form::Csv {
        print(text::CSV_HEAD)?;
    }
    let mut taken = 0;
    while options.count.is_none_or(|count| taken < count) {
        next += options.interval;
        match next.checked_duration_since(Instant::now()) {
            Some(left) => std::thread::sleep(left),
            // The machine stood still: samples that are late are not made up for.
            None => next = Instant::now(),
        }
        let sample: Sample = take()?;
        taken += 1;
        match (&mut publisher, options.form) {
            (Some(publisher), _) => publisher.publish(&sample),
            (None, Form::Csv) => print(&text::csv(&sample))?,
            (None, _) => print(&text::json(&sample).to_string())?,
        }
    }
    Ok(())
}

fn print(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).or_else(|error| match error.kind() {
        // As `head` ends it: no error, and the exit code of a program that SIGPIPE ended.
        std::io::ErrorKind::BrokenPipe => std::process::exit(141),
        _ => Err(format!("cannot write to standard output: {error}")),
    })
}
