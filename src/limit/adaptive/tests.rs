//! Clients on simulated paths.

use super::*;

/// A path: what it gives to so many requests in flight, in bytes a second, and how long a request then takes.
struct Path {
    request: u64,
    rate: fn(u32) -> f64,
    /// Each measurement is off by up to this part.
    noise: f64,
    /// For 60 ms at a time, a third of the time, so much is left: something else uses the machine.
    gusts: f64,
    /// The part of the time in which the reactor works.
    busy: fn(u32) -> f64,
}

/// A look at a client that sleeps most of the time.
fn look(adaptive: &mut Adaptive, start: Instant, ms: u64, bytes: u64) {
    let after = Duration::from_millis(ms);
    adaptive.look(start + after, Activity { bytes, slept: after * 9 / 10 }, adaptive.limit());
}

/// Lets a client with more than enough to read run for `seconds`; returns the limit every 10 ms.
fn run(path: &Path, ceiling: u32, seconds: f64) -> Vec<u32> {
    run_seeded(path, ceiling, seconds, 7)
}

fn run_seeded(path: &Path, ceiling: u32, seconds: f64, seed: u64) -> Vec<u32> {
    run_through(path, ceiling, seconds, seed, |_| false)
}

/// `stopped`: whether the server gives nothing, so many seconds after the start.
fn run_through(path: &Path, ceiling: u32, seconds: f64, seed: u64, stopped: impl Fn(f64) -> bool) -> Vec<u32> {
    let start = Instant::now();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut gust = 1.0;
    let mut adaptive = Adaptive::new(ceiling, 1, start);
    let (mut bytes, mut served, mut slept, mut limits) = (0.0, 0.0, 0.0, Vec::new());
    let step = 0.001;
    for i in 0..(seconds / step) as u64 {
        let now = start + Duration::from_secs_f64(i as f64 * step);
        if i % 60 == 0 {
            gust = if random.f64() < 1.0 / 3.0 { path.gusts } else { 1.0 };
        }
        let open = if stopped(i as f64 * step) { 0.0 } else { 1.0 };
        let rate = open * gust * (path.rate)(adaptive.limit()) * (1.0 + path.noise * (random.f64() - 0.5) * 2.0);
        bytes += rate * step;
        served += rate * step / path.request as f64;
        while served >= 1.0 {
            served -= 1.0;
            let took = path.request as f64 * f64::from(adaptive.limit()) / rate;
            adaptive.served(Duration::from_secs_f64(took));
        }
        adaptive.wanted();
        slept += step * (1.0 - (path.busy)(adaptive.limit()));
        let activity = Activity { bytes: bytes as u64, slept: Duration::from_secs_f64(slept) };
        adaptive.look(now, activity, adaptive.limit());
        if i % 10 == 0 {
            limits.push(adaptive.limit());
        }
    }
    limits
}

fn settled(limits: &[u32]) -> (u32, u32) {
    let tail = &limits[limits.len() / 2..];
    (*tail.iter().min().unwrap(), *tail.iter().max().unwrap())
}

/// 3 GB/s from 8 requests on; beyond 128 it gets less.
const LAN: Path = Path {
    request: 4 << 20,
    rate: |n| 3e9 * f64::from(n.min(8)) / 8.0 * if n > 128 { 0.7 } else { 1.0 },
    noise: 0.05,
    gusts: 1.0,
    busy: |_| 0.3,
};
/// 46 MB/s a request, 2.8 GB/s at most.
const STORE: Path =
    Path { request: 4 << 20, rate: |n| (46e6 * f64::from(n)).min(2.8e9), noise: 0.05, gusts: 1.0, busy: |_| 0.3 };
/// 5 ms a request of 4 KiB, however many.
const FAR: Path =
    Path { request: 4096, rate: |n| 4096.0 * f64::from(n) / 0.005, noise: 0.05, gusts: 1.0, busy: |_| 0.3 };

#[test]
fn a_fast_network_is_not_hurt_by_a_large_budget() {
    let (least, most) = settled(&run(&LAN, 256, 20.0));
    assert!(least >= 5 && most <= 96, "{least} to {most}");
}

#[test]
fn small_steps_down_do_not_add_up_to_a_loss() {
    // A third fewer costs 2.5 %, each time.
    let rate = |n: u32| 60e6 * (f64::from(n) / 256.0).powf(0.0624);
    for (request, ceiling, floor) in [(4096, 16, 16), (4096, 256, 64), (4 << 20, 256, 16)] {
        let path = Path { request, rate, noise: 0.01, gusts: 1.0, busy: |_| 0.3 };
        let (least, _) = settled(&run(&path, ceiling, 20.0));
        assert!(least >= floor, "{least} of {ceiling}");
    }
}

#[test]
fn a_slow_store_gets_what_it_needs_soon_and_not_much_more() {
    let limits = run(&STORE, 256, 20.0);
    let soon = limits.iter().position(|&limit| limit >= 56).unwrap() * 10;
    assert!(soon <= 150, "{soon} ms until the path was full");
    let (least, most) = settled(&limits);
    assert!(least >= 40 && most <= 144, "{least} to {most}");
}

#[test]
fn a_machine_that_is_busy_now_and_then_costs_the_store_little() {
    let path = Path { gusts: 0.4, ..STORE };
    let mut good = Vec::new();
    for seed in 0..40 {
        let limits = run_seeded(&path, 256, 6.0, seed);
        let share = |limits: &[u32]| {
            let rates: f64 = limits.iter().map(|&limit| (path.rate)(limit)).sum();
            rates / limits.len() as f64 / 2.8e9
        };
        good.push((share(&limits[..100]), share(&limits)));
    }
    let mean = |of: fn(&(f64, f64)) -> f64| good.iter().map(of).sum::<f64>() / good.len() as f64;
    let (soon, later) = (mean(|it| it.0), mean(|it| it.1));
    let worst = good.iter().map(|it| it.1).fold(1.0, f64::min);
    assert!(soon > 0.8 && later > 0.9, "{soon} of the path in the first second, {later} in six");
    assert!(worst > 0.8, "{worst} of the path in the worst of them");
}

#[test]
fn where_every_request_brings_as_much_as_the_one_before_the_budget_is_the_limit() {
    let limits = run(&FAR, 256, 10.0);
    let soon = limits.iter().position(|&limit| limit == 256).unwrap() * 10;
    assert!(soon <= 300, "{soon} ms");
    // A step down is tried now and then, and taken back.
    let full = limits.iter().filter(|&&limit| limit == 256).count();
    assert!(full * 10 > limits.len() * 9, "{full} of {}", limits.len());
}

#[test]
fn reactors_that_never_sleep_are_not_given_more_to_do_whatever_noise_says() {
    let path = Path { request: 4096, rate: |_| 120e6, noise: 0.5, gusts: 0.4, busy: |_| 0.97 };
    let most = (0..40).filter_map(|seed| run_seeded(&path, 256, 6.0, seed).into_iter().max()).max();
    assert_eq!(most, Some(64));
    // Seen by what comes alone, the same path looks worth more now and then.
    let idle = Path { busy: |_| 0.3, ..path };
    assert!((0..40).any(|seed| run_seeded(&idle, 256, 6.0, seed).contains(&256)), "the noise is none");
}

#[test]
fn reactors_that_sleep_until_there_is_more_to_do_are_given_as_much_as_keeps_them_busy() {
    // Busy from 160 on: 128 are the last number from which doubling may bring anything.
    let path = Path {
        request: 4096,
        rate: |n| 1e6 * f64::from(n.min(160)),
        noise: 0.05,
        gusts: 1.0,
        busy: |n| f64::from(n.min(160)) / 160.0,
    };
    let (least, most) = settled(&run(&path, 4096, 20.0));
    assert!(least >= 100 && most <= 256, "{least} to {most}");
}

#[test]
fn one_reactor_that_sleeps_may_be_given_what_others_are_too_busy_for() {
    // Of four, as many work all the time.
    for (work, most) in [(4, 64), (3, 256)] {
        let start = Instant::now();
        let mut adaptive = Adaptive::new(256, 4, start);
        let mut highest = 0;
        for ms in 0..2000 {
            adaptive.wanted();
            // More and more comes.
            let activity = Activity { bytes: ms * ms * 1000, slept: Duration::from_millis(ms) * (4 - work) };
            adaptive.look(start + Duration::from_millis(ms), activity, adaptive.limit());
            highest = highest.max(adaptive.limit());
        }
        assert_eq!(highest, most, "{work}");
    }
}

#[test]
fn while_nothing_comes_at_all_more_may_wait() {
    let start = Instant::now();
    let mut adaptive = Adaptive::new(5000, 1, start);
    for ms in 0..2000 {
        adaptive.wanted();
        look(&mut adaptive, start, ms, 0);
    }
    assert_eq!(adaptive.limit(), 5000);
}

#[test]
fn requests_that_all_stall_do_not_keep_others_out() {
    let start = Instant::now();
    let mut adaptive = Adaptive::new(256, 1, start);
    let mut bytes = 0;
    for ms in 0..20_000 {
        // 200 MB/s however many there are, then nothing.
        bytes += if ms < 15_000 { 200_000 } else { 0 };
        adaptive.wanted();
        look(&mut adaptive, start, ms, bytes);
        if ms == 14_999 {
            assert!(adaptive.limit() < 64, "{}", adaptive.limit());
        }
    }
    assert_eq!(adaptive.limit(), 256);
}

#[test]
fn nothing_is_learnt_while_nobody_waits() {
    let start = Instant::now();
    let mut adaptive = Adaptive::new(256, 1, start);
    for ms in 0..5000 {
        look(&mut adaptive, start, ms, ms * 1000);
    }
    assert_eq!(adaptive.limit(), START);
}

#[test]
fn a_small_budget_is_never_exceeded_and_every_reactor_has_work() {
    for budget in [1, 2, 3, 5, 40] {
        assert!(run(&FAR, budget, 3.0).iter().all(|&limit| limit >= 1 && limit <= budget), "{budget}");
    }
    assert_eq!(Adaptive::new(256, 8, Instant::now()).limit(), 64);
    assert_eq!(Adaptive::new(256, 100, Instant::now()).limit(), 256);
}

#[test]
fn a_path_that_gets_faster_is_noticed() {
    let start = Instant::now();
    let mut adaptive = Adaptive::new(256, 1, start);
    let (mut bytes, mut served) = (0.0, 0.0);
    for ms in 0..40_000u64 {
        // From 200 MB/s in all to 46 MB/s a request.
        let most = if ms < 10_000 { 200e6 } else { 2.8e9 };
        let rate = (46e6 * f64::from(adaptive.limit())).min(most);
        bytes += rate / 1e3;
        served += rate / 1e3 / f64::from(4 << 20);
        while served >= 1.0 {
            served -= 1.0;
            adaptive.served(Duration::from_secs_f64(f64::from(4 << 20) * f64::from(adaptive.limit()) / rate));
        }
        adaptive.wanted();
        look(&mut adaptive, start, ms, bytes as u64);
        if ms == 9_999 {
            assert!(adaptive.limit() <= 32, "{}", adaptive.limit());
        }
    }
    assert!(adaptive.limit() >= 40, "{}", adaptive.limit());
}

/// Nothing comes for 3 s: whoever waits is let in, and once the server is back the guess is looked at as at the start.
#[test]
fn a_server_that_stops_for_a_while_does_not_leave_the_limit_at_the_ceiling() {
    let mut back = Vec::new();
    for seed in 0..10 {
        let limits = run_through(&LAN, 256, 25.0, seed, |at| (5.0..8.0).contains(&at));
        assert_eq!(limits[795], 256, "everybody is let in");
        back.push(limits[800..].iter().position(|&limit| limit <= 128).map(|at| at * 10));
    }
    assert!(back.iter().all(|ms| ms.is_some_and(|ms| ms <= 8000)), "{back:?} ms until the limit was down");
}
