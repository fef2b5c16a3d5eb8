//! How many requests in flight are worth having: as many as bring bytes, and no more.
//!
//! A fast network is full with a few connections, and more of them only cost: on a 2-core machine 1 GiB through 256
//! connections took 1.6 times the CPU of 16 to 128, and a third of the speed was gone. An object store that gives each
//! connection 64 MB/s after 25 ms needs some 64. Only trying tells: this starts low, doubles as long as that brings
//! bytes, and then tries a step up or down now and then. It judges by what arrives, not by latency: an object store's
//! first byte takes 20 to 200 ms whether it is busy or not.
//!
//! Pure: the clock and the counters are arguments.

use std::time::{Duration, Instant};

/// Requests in flight at the start. At 64 MB/s a connection and 25 ms to the first byte they bring 3 GB/s, and no listen queue is too
/// short for them, since connections are opened a few at a time (see [`super::gate`]). From 32 on, 1 GiB from such a store took 1.2 times
/// as long: most of it was over before the limit was found.
const START: u32 = 64;
/// Never fewer: large requests gain nothing from that (2 cores, loopback).
const FLOOR: u32 = 16;
/// Never fewer of small ones, of less than [`REQUEST_COST`] bytes: where each step down had seemed to cost next to nothing, requests of 4 KiB came at
/// 0.92 of the rate of 16, and through Python at 0.8 of that of 64. They fill no path, and no other one waits long for them.
const SMALL_FLOOR: u32 = START;
/// Never fewer for each reactor: below it a connection's pauses show.
const EACH: u32 = 4;
/// While nobody knows how long a request takes.
const FIRST_WINDOW: Duration = Duration::from_millis(50);
/// A measurement takes as long as a request, within these bounds: shorter ones are noise, longer ones too slow to learn.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);
/// What a request counts for beside its bytes: it costs as much as receiving so many.
const REQUEST_COST: u64 = 32 << 10;
/// Doubling has to bring so much.
const WORTH_DOUBLING: f64 = 1.15;
/// Looks at a limit before doubling is given up. On a simulated machine that is busy with something else a third of the time, the
/// worst of 40 reads from an object store got 0.68 of what the path gives with two looks, 0.85 with three and 0.96 with four.
const LOOKS: u32 = 4;
/// A step up has to bring so much, and a step down must leave so much: the lower of two that are alike is the better.
const WORTH_MORE: f64 = 1.05;
const GOOD_ENOUGH: f64 = 0.97;
/// Measurements between two tries, at first and at most: each one that fails doubles it.
const PATIENCE: u32 = 4;
const MOST_PATIENCE: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Doubling. What the limit before brought; and the best that this one did, at so many looks at which that was not enough: a
    /// machine that is busy with something else for a moment must not end it.
    Opening { before: Option<(u32, f64)>, best: f64, looks: u32 },
    /// At a limit that is good as far as is known.
    Resting { rate: f64, measured: u32, patience: u32, up: bool },
    /// At another one, to see; `home` brought `rate`.
    Trying { home: u32, rate: f64, patience: u32, up: bool },
}

/// What has come since ever.
#[derive(Clone, Copy, Debug)]
struct Work {
    bytes: u64,
    served: u64,
}

impl Work {
    /// Since then, in bytes.
    fn since(self, then: Work) -> u64 {
        self.bytes.saturating_sub(then.bytes) + (self.served - then.served) * REQUEST_COST
    }

    /// Whether what was served since then was small.
    fn is_small_since(self, then: Work) -> bool {
        self.bytes.saturating_sub(then.bytes) < (self.served - then.served) * REQUEST_COST
    }
}

/// The limit of requests in flight, and what is known about it.
#[derive(Debug)]
pub struct Adaptive {
    limit: u32,
    floor: u32,
    ceiling: u32,
    /// What was served of late was small.
    small: bool,
    phase: Phase,
    /// The measurement going on: from when, until when, and what had come by then. Nothing is measured before `from`:
    /// what was in flight when the limit changed says nothing about the new one.
    from: Instant,
    until: Instant,
    work_at_start: Option<Work>,
    /// Requests served since ever, and how long one takes, smoothed.
    served: u64,
    took: Option<Duration>,
    /// Since the measurement began, somebody had to wait, and somebody did not: a permit came free that nobody wanted.
    /// Only where the limit is what limits, all the time, is anything learnt about it.
    wanted: bool,
    idle: bool,
}

impl Adaptive {
    /// At most `ceiling`, for so many reactors.
    pub fn new(ceiling: u32, reactors: u32, now: Instant) -> Adaptive {
        let floor = FLOOR.max(reactors.saturating_mul(EACH)).min(ceiling);
        Adaptive {
            limit: START.max(reactors.saturating_mul(2 * EACH)).clamp(floor, ceiling),
            floor,
            ceiling,
            small: false,
            phase: Phase::Opening { before: None, best: 0.0, looks: 0 },
            from: now,
            until: now + FIRST_WINDOW,
            work_at_start: None,
            served: 0,
            took: None,
            wanted: false,
            idle: false,
        }
    }

    /// Requests that may be in flight now.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// A request was served, after this time.
    pub fn served(&mut self, took: Duration) {
        self.served += 1;
        self.took = Some(self.took.map_or(took, |before| (before * 7 + took) / 8));
    }

    /// A request has to wait for its turn.
    pub fn wanted(&mut self) {
        self.wanted = true;
    }

    /// A permit came free that nobody waits for.
    pub fn idle(&mut self) {
        self.idle = true;
    }

    /// When [`Adaptive::look`] has something to do.
    pub fn next(&self) -> Instant {
        if self.work_at_start.is_none() { self.from } else { self.until }
    }

    /// Looks at what has come so far, `bytes` since ever, and sets the limit anew if it is time. `in_flight`: requests
    /// that are; after a step up it takes a while until all of them have a connection.
    pub fn look(&mut self, now: Instant, bytes: u64, in_flight: u32) {
        let full = u64::from(in_flight) * 8 >= u64::from(self.limit) * 7;
        let work = Work { bytes, served: self.served };
        let Some(before) = self.work_at_start else {
            if now >= self.from && !full {
                // Not yet.
                let measure = self.until.saturating_duration_since(self.from);
                self.from = now + SHORTEST / 2;
                self.until = self.from + measure;
            } else if now >= self.from {
                self.work_at_start = Some(work);
                self.until = now + self.until.saturating_duration_since(self.from);
                self.from = now;
                (self.wanted, self.idle) = (false, false);
            }
            return;
        };
        if now < self.until {
            return;
        }
        let seconds = now.saturating_duration_since(self.from).as_secs_f64().max(1e-6);
        let rate = work.since(before) as f64 / seconds;
        self.small = work.is_small_since(before);
        let idle = std::mem::take(&mut self.idle);
        let wanted = std::mem::take(&mut self.wanted) && !idle && full;
        if wanted {
            self.judge(rate);
        }
        let window = self.took.unwrap_or(FIRST_WINDOW).clamp(SHORTEST, LONGEST);
        let (settle, measure) = match self.phase {
            // Half a request's time: in the worst case, where all of it is waiting, half of the change is seen.
            Phase::Opening { .. } => (window / 2, window),
            Phase::Trying { .. } => (window, window * 2),
            Phase::Resting { .. } => (Duration::ZERO, window * 2),
        };
        self.from = now + settle;
        self.until = self.from + measure;
        self.work_at_start = settle.is_zero().then_some(work);
    }

    fn judge(&mut self, rate: f64) {
        match self.phase {
            // Everybody waits for a first byte: more may wait.
            Phase::Opening { before: None, .. } if rate == 0.0 => self.double(None),
            Phase::Opening { before: None, .. } => self.double(Some((self.limit, rate))),
            Phase::Opening { before: Some((limit, before)), best, looks } => {
                let (best, looks) = (best.max(rate), looks + 1);
                if best > before * WORTH_DOUBLING {
                    self.double(Some((self.limit, best)));
                } else if looks < LOOKS {
                    self.phase = Phase::Opening { before: Some((limit, before)), best, looks };
                } else {
                    self.limit = limit;
                    self.rest(before, PATIENCE, false);
                }
            }
            // All of them stall, and others wait: whatever holds these up may not hold up the others.
            Phase::Resting { rate: at_home, patience, .. } | Phase::Trying { rate: at_home, patience, .. }
                if rate == 0.0 =>
            {
                self.limit = self.limit.saturating_mul(2).min(self.ceiling);
                self.rest(at_home, patience, false);
            }
            Phase::Resting { rate: before, measured, patience, up } => {
                let rate = if measured == 0 { rate } else { (before * 3.0 + rate) / 4.0 };
                self.phase = Phase::Resting { rate, measured: measured + 1, patience, up };
                if measured + 1 >= patience {
                    self.attempt(rate, patience, up);
                }
            }
            Phase::Trying { home, rate: at_home, patience, up } => {
                let better = if up { rate > at_home * WORTH_MORE } else { rate >= at_home * GOOD_ENOUGH };
                if better {
                    // Where that came from there may be more.
                    self.rest(rate, 1, up);
                } else {
                    self.limit = home;
                    self.rest(at_home, (patience * 2).clamp(PATIENCE, MOST_PATIENCE), !up);
                }
            }
        }
    }

    fn double(&mut self, before: Option<(u32, f64)>) {
        if self.limit == self.ceiling {
            return self.rest(before.map_or(0.0, |(_, rate)| rate), PATIENCE, false);
        }
        self.limit = self.limit.saturating_mul(2).min(self.ceiling);
        self.phase = Phase::Opening { before, best: 0.0, looks: 0 };
    }

    fn rest(&mut self, rate: f64, patience: u32, up: bool) {
        self.phase = Phase::Resting { rate, measured: 0, patience, up };
    }

    /// Tries the next limit, half as many again or a third fewer.
    fn attempt(&mut self, rate: f64, patience: u32, up: bool) {
        let home = self.limit;
        let least = if self.small { SMALL_FLOOR.clamp(self.floor, self.ceiling) } else { self.floor };
        if home < least {
            self.limit = least;
            return self.rest(rate, PATIENCE, up);
        }
        let step = |up| match up {
            true => home.saturating_add((home / 2).max(1)).min(self.ceiling),
            false => (home - (home / 3).max(1).min(home)).max(least),
        };
        let up = if step(up) == home { !up } else { up };
        let other = step(up);
        if other == home {
            return self.rest(rate, MOST_PATIENCE, up);
        }
        self.limit = other;
        self.phase = Phase::Trying { home, rate, patience, up };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A path: what it gives to so many requests in flight, in bytes a second, and how long a request then takes.
    struct Path {
        request: u64,
        rate: fn(u32) -> f64,
        /// Each measurement is off by up to this part.
        noise: f64,
        /// For 60 ms at a time, a third of the time, so much is left: something else uses the machine.
        gusts: f64,
    }

    /// Lets a client with more than enough to read run for `seconds`; returns the limit every 10 ms.
    fn run(path: &Path, ceiling: u32, seconds: f64) -> Vec<u32> {
        run_seeded(path, ceiling, seconds, 7)
    }

    fn run_seeded(path: &Path, ceiling: u32, seconds: f64, seed: u64) -> Vec<u32> {
        let start = Instant::now();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut gust = 1.0;
        let mut adaptive = Adaptive::new(ceiling, 1, start);
        let (mut bytes, mut served, mut limits) = (0.0, 0.0, Vec::new());
        let step = 0.001;
        for i in 0..(seconds / step) as u64 {
            let now = start + Duration::from_secs_f64(i as f64 * step);
            if i % 60 == 0 {
                gust = if random.f64() < 1.0 / 3.0 { path.gusts } else { 1.0 };
            }
            let rate = gust * (path.rate)(adaptive.limit()) * (1.0 + path.noise * (random.f64() - 0.5) * 2.0);
            bytes += rate * step;
            served += rate * step / path.request as f64;
            while served >= 1.0 {
                served -= 1.0;
                let took = path.request as f64 * f64::from(adaptive.limit()) / rate;
                adaptive.served(Duration::from_secs_f64(took));
            }
            adaptive.wanted();
            adaptive.look(now, bytes as u64, adaptive.limit());
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
    };
    /// 46 MB/s a request, 2.8 GB/s at most.
    const STORE: Path = Path { request: 4 << 20, rate: |n| (46e6 * f64::from(n)).min(2.8e9), noise: 0.05, gusts: 1.0 };
    /// 5 ms a request of 4 KiB, however many.
    const FAR: Path = Path { request: 4096, rate: |n| 4096.0 * f64::from(n) / 0.005, noise: 0.05, gusts: 1.0 };

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
            let path = Path { request, rate, noise: 0.01, gusts: 1.0 };
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
    fn while_nothing_comes_at_all_more_may_wait() {
        let start = Instant::now();
        let mut adaptive = Adaptive::new(5000, 1, start);
        for ms in 0..2000 {
            adaptive.wanted();
            adaptive.look(start + Duration::from_millis(ms), 0, adaptive.limit());
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
            adaptive.look(start + Duration::from_millis(ms), bytes, adaptive.limit());
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
            adaptive.look(start + Duration::from_millis(ms), ms * 1000, adaptive.limit());
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
            adaptive.look(start + Duration::from_millis(ms), bytes as u64, adaptive.limit());
            if ms == 9_999 {
                assert!(adaptive.limit() <= 32, "{}", adaptive.limit());
            }
        }
        assert!(adaptive.limit() >= 40, "{}", adaptive.limit());
    }
}
