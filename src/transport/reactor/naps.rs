//! How long a thread has slept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a thread has waited for something to come, since ever. Written by that thread alone; whoever looks in the middle of a nap
/// counts it so far, and who looks at the very moment in which it ends may miss it, or count it twice.
#[derive(Debug)]
pub struct Naps {
    start: Instant,
    /// Nanoseconds, of those that are over.
    slept: AtomicU64,
    /// When the one going on began, in nanoseconds since `start`; [`AWAKE`]: there is none.
    since: AtomicU64,
}

const AWAKE: u64 = u64::MAX;

impl Naps {
    /// None so far.
    pub fn new(start: Instant) -> Naps {
        Naps { start, slept: AtomicU64::new(0), since: AtomicU64::new(AWAKE) }
    }

    /// The thread goes to sleep.
    pub fn begin(&self, now: Instant) {
        self.since.store(self.nanos(now), Ordering::Relaxed);
    }

    /// It is awake.
    pub fn end(&self, now: Instant) {
        let slept = self.slept.load(Ordering::Relaxed) + self.going_on(now);
        self.since.store(AWAKE, Ordering::Relaxed);
        self.slept.store(slept, Ordering::Relaxed);
    }

    /// All of them until now.
    pub fn so_far(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.slept.load(Ordering::Relaxed) + self.going_on(now))
    }

    fn going_on(&self, now: Instant) -> u64 {
        match self.since.load(Ordering::Relaxed) {
            AWAKE => 0,
            since => self.nanos(now).saturating_sub(since),
        }
    }

    /// Good for five centuries.
    fn nanos(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_add_up_and_the_one_going_on_counts() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let naps = Naps::new(start);
        let slept = |ms| naps.so_far(at(ms)).as_millis();
        assert_eq!(slept(5), 0);
        naps.begin(at(10));
        assert_eq!([slept(10), slept(13)], [0, 3]);
        naps.end(at(20));
        assert_eq!([slept(20), slept(100)], [10, 10], "it works");
        naps.begin(at(100));
        assert_eq!(slept(90), 10, "a look that was asked for earlier");
        naps.end(at(101));
        assert_eq!(slept(200), 11);
    }
}
