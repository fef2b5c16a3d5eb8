//! How many requests in flight are worth having: as many as bring bytes, and no more.
//!
//! A fast network is full with a few connections, and more of them only cost: on a 2-core machine 1 GiB through 256
//! connections took 1.6 times the CPU of 16 to 128, and a third of the speed was gone. An object store that gives each
//! connection 64 MB/s after 25 ms needs some 64. Only trying tells: this starts low, doubles as long as that brings
//! bytes, and then tries a step up or down now and then. It judges by what arrives, not by latency: an object store's
//! first byte takes 20 to 200 ms whether it is busy or not. Where the reactors themselves are busy all the time, more in flight
//! brings next to nothing, whatever a measurement says that the machine's other work has disturbed.
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
    /// Doubling. What the limit before brought; and the best that this one did, at so many looks at which that was not enough, or
    /// at which nobody had time for more: a machine that is busy with something else for a moment must not end it.
    Opening { before: Option<(u32, f64)>, best: f64, looks: u32 },
    /// At a limit that is good as far as is known.
    Resting { rate: f64, measured: u32, patience: u32, up: bool },
    /// At another one, to see; `home` brought `rate`.
    Trying { home: u32, rate: f64, patience: u32, up: bool },
}

/// What the reactors did since ever, all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activity {
    /// Body bytes received.
    pub bytes: u64,
    /// Time in which they waited for something to come.
    pub slept: Duration,
}

/// The same, and the requests served.
#[derive(Clone, Copy, Debug)]
struct Work {
    activity: Activity,
    served: u64,
}

impl Work {
    /// Since then.
    fn since(self, then: Work) -> Work {
        Work {
            activity: Activity {
                bytes: self.activity.bytes.saturating_sub(then.activity.bytes),
                slept: self.activity.slept.saturating_sub(then.activity.slept),
            },
            served: self.served - then.served,
        }
    }

    /// What the requests alone cost, in bytes.
    fn requests(self) -> u64 {
        self.served * REQUEST_COST
    }
}

/// The limit of requests in flight, and what is known about it.
#[derive(Debug)]
pub struct Adaptive {
    limit: u32,
    floor: u32,
    ceiling: u32,
    reactors: u32,
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
            reactors: reactors.max(1),
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

    /// Looks at what was done so far, and sets the limit anew if it is time. `in_flight`: requests that are; after a step up
    /// it takes a while until all of them have a connection.
    pub fn look(&mut self, now: Instant, activity: Activity, in_flight: u32) {
        let full = u64::from(in_flight) * 8 >= u64::from(self.limit) * 7;
        let work = Work { activity, served: self.served };
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
        let new = work.since(before);
        let rate = (new.activity.bytes + new.requests()) as f64 / seconds;
        self.small = new.activity.bytes < new.requests();
        let idle = std::mem::take(&mut self.idle);
        let wanted = std::mem::take(&mut self.wanted) && !idle && full;
        if wanted {
            let slept = new.activity.slept.as_secs_f64() / seconds / f64::from(self.reactors);
            self.judge(rate, slept.min(1.0));
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

    /// `slept`: the part of the time in which a reactor, on the average, had nothing to do.
    fn judge(&mut self, rate: f64, slept: f64) {
        // More work can fill the time in which they sleep; that it makes the rest cheaper was not seen.
        let may_bring = |times: f64| 1.0 - slept <= 1.0 / times;
        match self.phase {
            // Everybody works as it is; but the first connections make work of their own.
            Phase::Opening { before: None, looks, .. } if !may_bring(WORTH_DOUBLING) => self.stay_open(rate, looks + 1),
            // Everybody waits for a first byte: more may wait.
            Phase::Opening { before: None, .. } if rate == 0.0 => self.double(None),
            Phase::Opening { before: None, .. } => self.double(Some((self.limit, rate))),
            Phase::Opening { before: Some((limit, before)), best, looks } => {
                let (best, looks) = (best.max(rate), looks + 1);
                if best > before * WORTH_DOUBLING {
                    match may_bring(WORTH_DOUBLING) {
                        true => self.double(Some((self.limit, best))),
                        false => self.stay_open(best, 1),
                    }
                } else if looks < LOOKS {
                    self.phase = Phase::Opening { before: Some((limit, before)), best, looks };
                } else {
                    self.limit = limit;
                    self.rest(before, PATIENCE, false);
                }
            }
            // All of them stall, and others wait: whatever holds these up may not hold up the others.
            Phase::Resting { rate: at_home, .. } | Phase::Trying { rate: at_home, .. } if rate == 0.0 => {
                self.limit = self.limit.saturating_mul(2).min(self.ceiling);
                // A guess, whatever was known before: to be looked at soon.
                self.rest(at_home, PATIENCE, false);
            }
            Phase::Resting { rate: before, measured, patience, up } => {
                let rate = if measured == 0 { rate } else { (before * 3.0 + rate) / 4.0 };
                self.phase = Phase::Resting { rate, measured: measured + 1, patience, up };
                if measured + 1 >= patience {
                    self.attempt(rate, patience, up, may_bring(WORTH_MORE));
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

    /// To double later, unless it is seen `LOOKS` times that nothing would come of it.
    fn stay_open(&mut self, rate: f64, looks: u32) {
        if looks < LOOKS {
            self.phase = Phase::Opening { before: None, best: 0.0, looks };
        } else {
            self.rest(rate, PATIENCE, true);
        }
    }

    fn rest(&mut self, rate: f64, patience: u32, up: bool) {
        self.phase = Phase::Resting { rate, measured: 0, patience, up };
    }

    /// Tries the next limit, half as many again, if more `may_bring` something, or a third fewer.
    fn attempt(&mut self, rate: f64, patience: u32, up: bool, may_bring: bool) {
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
        let (turn, up) = (up, if step(up) == home { !up } else { up });
        // Where it is up's turn, not down in its stead: nothing would then balance the steps down that noise lets through.
        if (turn || up) && !may_bring {
            return self.rest(rate, patience, false);
        }
        let other = step(up);
        if other == home {
            return self.rest(rate, MOST_PATIENCE, up);
        }
        self.limit = other;
        self.phase = Phase::Trying { home, rate, patience, up };
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
