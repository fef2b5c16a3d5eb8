//! How long things took: counts by the logarithm of the time, fine enough for quantiles within 3 %.
//!
//! The shape is that of HDR histograms: 32 steps for each power of two. Adding is two or three relaxed atomic operations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
/// The longest time that is told from longer ones: 2^36 µs are 19 hours.
const MOST: u64 = (1 << 36) - 1;
const BUCKETS: usize = (36 - STEP_BITS as usize + 1) * STEPS;

/// Counts times, from any thread.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_us: AtomicU64,
    max_us: AtomicU64,
}

/// What a histogram has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// By bucket; empty: nothing yet.
    buckets: Vec<u64>,
    /// How many times.
    pub count: u64,
    /// All times together, in microseconds.
    pub sum_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
}

fn bucket(us: u64) -> usize {
    let us = us.min(MOST);
    if us < STEPS as u64 {
        return us as usize;
    }
    let shift = us.ilog2() - STEP_BITS;
    (shift as usize * STEPS) + (us >> shift) as usize
}

/// The greatest time of a bucket.
fn end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = bucket / STEPS - 1;
    (((bucket % STEPS + STEPS + 1) as u64) << shift) - 1
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
            max_us: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(MOST).min(MOST);
        self.buckets[bucket(us)].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
        // Seldom more than the load.
        if us > self.max_us.load(Relaxed) {
            self.max_us.fetch_max(us, Relaxed);
        }
    }

    /// What it has counted.
    pub fn read(&self) -> Distribution {
        let buckets: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        Distribution {
            count: buckets.iter().sum(),
            buckets,
            sum_us: self.sum_us.load(Relaxed),
            max_us: self.max_us.load(Relaxed),
        }
    }
}

impl Distribution {
    /// The time, in microseconds, that `q` (0 to 1) of all took at most; right within 3.2 %, and 0 if nothing was counted.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((self.count as f64 * q).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return end(bucket).min(self.max_us);
            }
        }
        0
    }

    /// How many took at most `us` microseconds, which must be the end of a bucket: one less than a power of two.
    pub fn up_to(&self, us: u64) -> u64 {
        self.buckets.iter().take(bucket(us) + 1).sum()
    }

    /// What came to it since `before`, a reading of the same histogram. The most is that of all.
    pub fn since(&self, before: &Distribution) -> Distribution {
        let old = |at: usize| before.buckets.get(at).copied().unwrap_or(0);
        Distribution {
            count: self.count.wrapping_sub(before.count),
            buckets: self.buckets.iter().enumerate().map(|(at, n)| n.wrapping_sub(old(at))).collect(),
            sum_us: self.sum_us.wrapping_sub(before.sum_us),
            max_us: self.max_us,
        }
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Distribution) {
        self.buckets.resize(BUCKETS, 0);
        for (mine, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += others;
        }
        self.count += other.count;
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_three_per_cent_of_the_exact_ones() {
        fastrand::seed(7);
        let spread =
            |low: f64, high: f64| (0..20_000).map(move |_| (low + (high - low) * fastrand::f64()).exp() as u64);
        let sets: [Vec<u64>; 4] = [
            (0..1000).collect(),
            spread(0.0, 20.0).collect(),
            spread(8.0, 8.1).collect(),
            (0..1000).map(|i| if i % 100 == 0 { 5_000_000 } else { 250 }).collect(),
        ];
        for mut times in sets {
            let histogram = Histogram::default();
            times.iter().for_each(|us| histogram.add(Duration::from_micros(*us)));
            times.sort_unstable();
            let read = histogram.read();
            assert_eq!((read.count, read.max_us), (times.len() as u64, *times.last().unwrap()));
            assert_eq!(read.sum_us, times.iter().sum::<u64>());
            for q in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let exact = times[((times.len() as f64 * q).ceil() as usize).max(1) - 1];
                let told = read.quantile(q);
                assert!(told >= exact && told as f64 <= exact as f64 * 1.032, "{q}: {told} for {exact}");
            }
        }
    }

    #[test]
    fn every_time_is_in_the_bucket_whose_end_is_next() {
        for us in (0..5000).chain((0..36).flat_map(|shift| [(1 << shift) - 1, 1 << shift, (1 << shift) + 1])) {
            let at = bucket(us);
            assert!(us.min(MOST) <= end(at) && (at == 0 || us.min(MOST) > end(at - 1)), "{us} in {at}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(end(BUCKETS - 1), MOST);
    }

    #[test]
    fn nothing_and_the_longest_are_no_special_cases() {
        let histogram = Histogram::default();
        assert_eq!((histogram.read().quantile(0.5), Distribution::default().quantile(0.5)), (0, 0));
        histogram.add(Duration::MAX);
        assert_eq!(histogram.read().quantile(0.5), MOST);
        let mut sum = Distribution::default();
        sum.add(&histogram.read());
        sum.add(&histogram.read());
        assert_eq!((sum.count, sum.quantile(1.0), sum.up_to((1 << 20) - 1)), (2, MOST, 0));
    }

    #[test]
    fn the_difference_of_two_readings_is_what_came_between_them() {
        let histogram = Histogram::default();
        (0..100).for_each(|_| histogram.add(Duration::from_millis(500)));
        let before = histogram.read();
        (0..10).for_each(|_| histogram.add(Duration::from_micros(20)));
        let during = histogram.read().since(&before);
        assert_eq!((during.count, during.sum_us, during.quantile(1.0)), (10, 200, 20));
        assert_eq!(before.since(&Distribution::default()).count, 100);
        assert_eq!(before.since(&before).quantile(0.5), 0);
    }
}
