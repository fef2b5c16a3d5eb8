//! From two readings of an interface: what went through it between them.

use crate::counters::{Counters, Reading, Source};
use crate::select::Selection;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// What went through one interface, or all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rate {
    /// Of the interface; "total" for all of them.
    pub name: String,
    /// Bytes received a second.
    pub rx_bytes_per_s: f64,
    /// Bytes sent a second.
    pub tx_bytes_per_s: f64,
    /// Packets received a second.
    pub rx_packets_per_s: f64,
    /// Packets sent a second.
    pub tx_packets_per_s: f64,
    /// Packets lost since the sample before, in both directions: dropped.
    pub dropped: u64,
    /// Packets lost since the sample before, in both directions: errors.
    pub errors: u64,
    /// Megabits a second that the link can do; of the total, the sum of those that say it.
    pub speed_mbit: Option<u64>,
}

/// All interfaces at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the first sample.
    pub at: Duration,
    /// By name. An interface appears with its second reading.
    pub interfaces: Vec<Rate>,
    /// Their sum.
    pub total: Rate,
    /// Interfaces that were there at the sample before.
    pub vanished: Vec<String>,
}

/// Reads again and again.
pub struct Sampler<S> {
    source: S,
    selection: Selection,
    first: Option<Instant>,
    before: BTreeMap<String, (Instant, Counters)>,
}

impl<S: Source> Sampler<S> {
    /// Of these interfaces.
    pub fn new(source: S, selection: Selection) -> Sampler<S> {
        Sampler { source, selection, first: None, before: BTreeMap::new() }
    }

    /// Interfaces at the last sample.
    pub fn watched(&self) -> usize {
        self.before.len()
    }

    /// Reads them at `now`, which only grows.
    ///
    /// # Errors
    /// As the source.
    pub fn sample(&mut self, now: Instant) -> io::Result<Sample> {
        let first = *self.first.get_or_insert(now);
        let mut readings = self.source.read()?;
        readings.retain(|reading| self.selection.takes(reading));
        let mut sample = Sample { at: now.duration_since(first), ..Sample::default() };
        sample.vanished =
            self.before.keys().filter(|name| !readings.iter().any(|reading| reading.name == **name)).cloned().collect();
        self.before.retain(|name, _| !sample.vanished.contains(name));
        sample.total.name = "total".into();
        for reading in readings {
            let before = self.before.insert(reading.name.clone(), (now, reading.counters));
            if let Some(rate) = before.and_then(|before| rate(&reading, now, before)) {
                sample.total.add(&rate);
                sample.interfaces.push(rate);
            }
        }
        Ok(sample)
    }
}

impl Rate {
    fn add(&mut self, other: &Rate) {
        self.rx_bytes_per_s += other.rx_bytes_per_s;
        self.tx_bytes_per_s += other.tx_bytes_per_s;
        self.rx_packets_per_s += other.rx_packets_per_s;
        self.tx_packets_per_s += other.tx_packets_per_s;
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.errors = self.errors.saturating_add(other.errors);
        if let Some(speed) = other.speed_mbit {
            self.speed_mbit = Some(self.speed_mbit.unwrap_or(0).saturating_add(speed));
        }
    }
}

/// `None`: the counters began anew, or no time has passed.
fn rate(reading: &Reading, now: Instant, (then, old): (Instant, Counters)) -> Option<Rate> {
    let seconds = now.checked_duration_since(then)?.as_secs_f64();
    let new = reading.counters;
    // A driver may say anything.
    let both = u64::saturating_add;
    let a_second = |old, new| Some(difference(old, new)? as f64 / seconds);
    (seconds > 0.0).then_some(())?;
    Some(Rate {
        name: reading.name.clone(),
        rx_bytes_per_s: a_second(old.rx_bytes, new.rx_bytes)?,
        tx_bytes_per_s: a_second(old.tx_bytes, new.tx_bytes)?,
        rx_packets_per_s: a_second(old.rx_packets, new.rx_packets)?,
        tx_packets_per_s: a_second(old.tx_packets, new.tx_packets)?,
        dropped: both(difference(old.rx_dropped, new.rx_dropped)?, difference(old.tx_dropped, new.tx_dropped)?),
        errors: both(difference(old.rx_errors, new.rx_errors)?, difference(old.tx_errors, new.tx_errors)?),
        speed_mbit: reading.speed_mbit,
    })
}

/// How far a counter went. It wraps around at 64 bits, with some drivers at 32; one that fell from anywhere but the upper
/// half of its range began anew, as when a driver was loaded again: `None`.
fn difference(old: u64, new: u64) -> Option<u64> {
    const MOST_32: u64 = u32::MAX as u64;
    match old {
        _ if new >= old => Some(new - old),
        old if old > MOST_32 / 2 && old <= MOST_32 => Some(MOST_32 - old + 1 + new),
        old if old > u64::MAX / 2 => Some(new.wrapping_sub(old)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_say_nonsense_do_no_harm() {
        let now = Instant::now();
        let most =
            Counters { rx_dropped: u64::MAX, tx_dropped: 9, rx_errors: u64::MAX, tx_errors: 9, ..Counters::default() };
        let reading = Reading { counters: most, speed_mbit: Some(u64::MAX), ..Reading::default() };
        let rate = rate(&reading, now + Duration::from_secs(1), (now, Counters::default())).unwrap();
        let mut total = rate.clone();
        total.add(&rate);
        assert_eq!((rate.dropped, total.errors, total.speed_mbit), (u64::MAX, u64::MAX, Some(u64::MAX)));
    }

    #[test]
    fn a_counter_may_wrap_around_and_may_begin_anew() {
        assert_eq!(difference(5, 12), Some(7));
        assert_eq!(difference(7, 7), Some(0));
        assert_eq!(difference(0xFFFF_FFF0, 16), Some(32));
        assert_eq!(difference(u64::MAX - 1, 2), Some(4));
        assert_eq!(difference(1000, 3), None);
        assert_eq!(difference(1 << 40, 3), None);
    }
}
