//! Hedging: when an answer is so late that asking again is worth it, and how often that may be done.
//!
//! A server with a slow tail (one request in a hundred waits for a disk, or for another machine) answers the second question
//! as soon as any other. Pure: what was measured comes in as arguments.

use std::collections::HashMap;
use std::time::Duration;

/// Of the answers, so many are later than what counts as late. The 99th percentile falls only if more than one in a hundred is
/// asked for again, hence not 1 % but 2.5 %.
const LATE: f64 = 0.025;
/// Answers to know before anything counts as late: two or three of them were later.
const ENOUGH: u32 = 100;
/// Answers after which the older ones count half.
const MEMORY: u32 = 4096;
/// Second questions that may be saved up: a burst of late answers, and no flood.
const SAVED: f64 = 8.0;
/// Nothing is late before this: the clock of waits has milliseconds.
const LEAST: Duration = Duration::from_millis(2);
/// Kinds of requests to know about.
const PATHS: usize = 1024;
/// Four for each power of two, in microseconds, up to 16 s.
const BUCKETS: usize = 96;

/// How long answers took.
struct Latencies {
    buckets: [u32; BUCKETS],
    total: u32,
}

/// What one thread knows of the answers that it got.
#[derive(Default)]
pub struct Hedges {
    /// By origin, and by size: the logarithm of the number of bytes.
    paths: HashMap<(u64, u32), Latencies>,
    /// Second questions that may be asked.
    allowed: f64,
}

fn path(origin: u64, bytes: u64) -> (u64, u32) {
    (origin, bytes.max(1).ilog2())
}

impl Hedges {
    /// How long after its start a request for so many bytes is late; `None`: too little is known.
    pub fn late_after(&self, origin: u64, bytes: u64) -> Option<Duration> {
        self.paths.get(&path(origin, bytes)).filter(|seen| seen.total >= ENOUGH).map(|seen| seen.late().max(LEAST))
    }

    /// A request for so many bytes was answered after this time, or is given up after it.
    pub fn answered(&mut self, origin: u64, bytes: u64, took: Duration) {
        let path = path(origin, bytes);
        if self.paths.len() >= PATHS && !self.paths.contains_key(&path) {
            self.paths.clear();
        }
        self.paths.entry(path).or_insert(Latencies { buckets: [0; BUCKETS], total: 0 }).add(took);
        self.allowed = (self.allowed + LATE).min(SAVED);
    }

    /// Whether one more second question may be asked; if so, it is counted.
    pub fn may_ask(&mut self) -> bool {
        let may = self.allowed >= 1.0;
        if may {
            self.allowed -= 1.0;
        }
        may
    }
}

impl Latencies {
    fn add(&mut self, took: Duration) {
        let micros = took.as_secs_f64() * 1e6;
        let bucket = (micros.max(1.0).log2() * 4.0) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.total += 1;
        if self.total >= MEMORY {
            self.buckets.iter_mut().for_each(|count| *count /= 2);
            self.total = self.buckets.iter().sum();
        }
    }

    /// The end of the bucket up to which all but the late ones are.
    fn late(&self) -> Duration {
        let mut later = self.total;
        for (bucket, count) in self.buckets.iter().enumerate() {
            later -= count;
            if f64::from(later) <= f64::from(self.total) * LATE {
                return Duration::from_secs_f64(((bucket + 1) as f64 / 4.0).exp2() / 1e6);
            }
        }
        Duration::MAX
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ORIGIN: u64 = 3;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn seen(hedges: &mut Hedges, bytes: u64, answers: impl IntoIterator<Item = u64>) {
        answers.into_iter().for_each(|took| hedges.answered(ORIGIN, bytes, ms(took)));
    }

    #[test]
    fn late_is_what_hardly_any_answer_is() {
        let mut hedges = Hedges::default();
        // One in fifty takes half a second.
        seen(&mut hedges, 4096, (0..1000).map(|i| if i % 50 == 0 { 500 } else { 10 }));
        let late = hedges.late_after(ORIGIN, 4096).unwrap();
        assert!(late >= ms(10) && late < ms(13), "{late:?}");
        // One in thirty: they are no exception any more.
        let mut hedges = Hedges::default();
        seen(&mut hedges, 4096, (0..1000).map(|i| if i % 30 == 0 { 500 } else { 10 }));
        assert!(hedges.late_after(ORIGIN, 4096).unwrap() >= ms(500));
    }

    #[test]
    fn nothing_is_late_where_little_is_known_or_everything_is_quick() {
        let mut hedges = Hedges::default();
        seen(&mut hedges, 4096, std::iter::repeat_n(10, 99));
        assert_eq!(hedges.late_after(ORIGIN, 4096), None);
        seen(&mut hedges, 4096, [10]);
        assert!(hedges.late_after(ORIGIN, 4096).is_some());
        // Other sizes and other servers take other times.
        assert_eq!(hedges.late_after(ORIGIN, 4 << 20), None);
        assert_eq!(hedges.late_after(ORIGIN + 1, 4096), None);
        seen(&mut hedges, 1 << 20, std::iter::repeat_n(0, 200));
        assert_eq!(hedges.late_after(ORIGIN, 1 << 20), Some(LEAST));
    }

    #[test]
    fn a_server_that_became_slower_is_not_asked_twice_for_ever() {
        let mut hedges = Hedges::default();
        seen(&mut hedges, 4096, std::iter::repeat_n(10, 100_000));
        seen(&mut hedges, 4096, std::iter::repeat_n(40, 1000));
        assert!(hedges.late_after(ORIGIN, 4096).unwrap() >= ms(40));
        // And the other way round.
        seen(&mut hedges, 4096, std::iter::repeat_n(10, 40_000));
        assert!(hedges.late_after(ORIGIN, 4096).unwrap() < ms(13));
    }

    #[test]
    fn second_questions_are_a_few_per_cent_whatever_happens() {
        let mut hedges = Hedges::default();
        let mut asked = 0;
        for i in 0..10_000 {
            hedges.answered(ORIGIN, 4096, ms(i % 1000));
            asked += u32::from(hedges.may_ask());
        }
        assert!((200..=250).contains(&asked), "{asked}");
        // After a long time without any there is a burst, and no more.
        seen(&mut hedges, 4096, std::iter::repeat_n(10, 100_000));
        assert_eq!((0..1000).filter(|_| hedges.may_ask()).count(), SAVED as usize);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut hedges = Hedges::default();
        (0..100_000).for_each(|origin| hedges.answered(origin, 1, ms(1)));
        assert!(hedges.paths.len() <= PATHS);
        hedges.answered(ORIGIN, 0, Duration::MAX);
        hedges.answered(ORIGIN, u64::MAX, Duration::ZERO);
    }
}
