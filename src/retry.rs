//! Whether and when a request is tried again. Pure: clock and chance are arguments.

use crate::error::ErrorKind;
use std::time::{Duration, SystemTime};

/// The first wait; doubled for each further failure. KvikIO's, from its thread-pool backend.
pub const BASE: Duration = Duration::from_millis(500);
/// The longest wait of the doubling. KvikIO's.
pub const CAP: Duration = Duration::from_secs(4);
/// Waits are stretched by up to a quarter, so that the requests that failed together do not come back together.
pub const JITTER: f64 = 0.25;
/// The longest `Retry-After` that is honoured; a server that asks for more is asked again after this.
pub const RETRY_AFTER_CEILING: Duration = Duration::from_secs(60);
/// Attempts of one request that delivered bytes before they failed. They use up no attempts, but a server that gives
/// one byte a time must not hold a caller for ever.
pub const MAX_RESUMES: u32 = 16;

/// What a client's settings say.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// Attempts that deliver nothing, the first included; 1: never retry, not even the rest of a cut body.
    pub max_attempts: u32,
    /// HTTP statuses worth a retry.
    pub statuses: Vec<u16>,
}

/// What one request has been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Attempts that failed without a byte.
    pub failures: u32,
    /// Failures since the last byte.
    pub in_a_row: u32,
    /// Attempts that failed after some bytes.
    pub resumes: u32,
    /// Why the last one failed.
    pub cause: Cause,
}

/// Why an attempt failed that may be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The server's status.
    Status,
    /// It took too long.
    Timeout,
    /// The network, TLS, or the name look-up.
    Connection,
    /// The body ended too early.
    ShortBody,
    /// Anything else.
    #[default]
    Other,
}

impl Cause {
    /// Of this kind of error.
    pub fn of(kind: ErrorKind) -> Cause {
        match kind {
            ErrorKind::Unavailable => Cause::Status,
            ErrorKind::TimedOut => Cause::Timeout,
            ErrorKind::Connection | ErrorKind::Tls => Cause::Connection,
            ErrorKind::Range => Cause::ShortBody,
            _ => Cause::Other,
        }
    }
}

impl RetryPolicy {
    /// Whether this status may go away by itself.
    pub fn retries_status(&self, status: u16) -> bool {
        self.statuses.contains(&status)
    }

    /// After a failure that may go away: how long to wait before the next attempt, or `None` if there is none left.
    /// `progress`: the attempt delivered bytes. `chance` is in [0, 1).
    pub fn next(
        &self,
        history: &mut History,
        progress: bool,
        retry_after: Option<Duration>,
        chance: f64,
    ) -> Option<Duration> {
        if progress {
            history.resumes += 1;
            history.in_a_row = 1;
            if self.max_attempts <= 1 || history.resumes > MAX_RESUMES {
                return None;
            }
        } else {
            history.failures += 1;
            history.in_a_row += 1;
            if history.failures >= self.max_attempts {
                return None;
            }
        }
        Some(delay(history.in_a_row, retry_after, chance))
    }
}

fn delay(in_a_row: u32, retry_after: Option<Duration>, chance: f64) -> Duration {
    let doubled = BASE.saturating_mul(1 << in_a_row.saturating_sub(1).min(16)).min(CAP);
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_CEILING);
    doubled.max(asked).mul_f64(1.0 + JITTER * chance)
}

/// The wait that a `Retry-After` header asks for: seconds, or a date; `None` if it is neither.
pub fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds ask for "very long", which the ceiling turns into a minute.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(max_attempts: u32) -> RetryPolicy {
        RetryPolicy { max_attempts, statuses: vec![503] }
    }

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn waits_double_from_half_a_second_to_four() {
        let mut history = History::default();
        let waits: Vec<_> = (0..6).map(|_| policy(7).next(&mut history, false, None, 0.0)).collect();
        assert_eq!(waits, [ms(500), ms(1000), ms(2000), ms(4000), ms(4000), ms(4000)]);
        assert_eq!(policy(7).next(&mut history, false, None, 0.0), None, "seven attempts are seven attempts");
    }

    #[test]
    fn jitter_adds_up_to_a_quarter_and_never_takes_away() {
        let wait = |chance| policy(3).next(&mut History::default(), false, None, chance);
        assert_eq!(wait(0.0), ms(500));
        assert_eq!(wait(0.5), Some(Duration::from_micros(562_500)));
        assert!(wait(0.999_999).unwrap() < Duration::from_millis(625));
    }

    #[test]
    fn retry_after_is_a_minimum_up_to_a_minute() {
        let wait = |secs| policy(3).next(&mut History::default(), false, Some(Duration::from_secs(secs)), 0.0);
        assert_eq!(wait(0), ms(500));
        assert_eq!(wait(1), ms(1000));
        assert_eq!(wait(3600), ms(60_000));
    }

    #[test]
    fn one_attempt_means_never_again() {
        assert_eq!(policy(1).next(&mut History::default(), false, None, 0.0), None);
        assert_eq!(policy(1).next(&mut History::default(), true, None, 0.0), None);
    }

    #[test]
    fn progress_uses_up_no_attempt_but_is_bounded() {
        let mut history = History::default();
        for _ in 0..MAX_RESUMES {
            assert_eq!(policy(2).next(&mut history, true, None, 0.0), ms(500));
        }
        assert_eq!(policy(2).next(&mut history, true, None, 0.0), None);

        let mut history = History::default();
        assert_eq!(policy(3).next(&mut history, false, None, 0.0), ms(500));
        assert_eq!(policy(3).next(&mut history, true, None, 0.0), ms(500), "bytes start the doubling anew");
        assert_eq!(policy(3).next(&mut history, false, None, 0.0), ms(1000));
        assert_eq!(policy(3).next(&mut history, false, None, 0.0), None);
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let parse = |value| parse_retry_after(value, now);
        assert_eq!(parse(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:39 GMT"), Some(Duration::from_secs(2)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO), "the past is now");
        assert_eq!(parse("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        for value in ["", "-1", "1.5", "soon", "+3"] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }
}
