//! Dates as AWS writes them. Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970, 0 for times before.
pub fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// `20130524T000000Z`.
pub fn amz_date(unix_seconds: u64) -> String {
    let (year, month, day) = civil(unix_seconds / 86_400);
    let rest = unix_seconds % 86_400;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// `2030-01-02T03:04:05Z`, with a fraction or another offset too; `None` for anything else.
pub fn parse_iso8601(text: &str) -> Option<SystemTime> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let mut parts = date.split('-');
    let (year, month, day) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    let (clock, offset) = time.split_at(time.find(['Z', 'z', '+', '-'])?);
    let mut parts = clock.split('.').next()?.split(':');
    let (hour, minute, second) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    let possible = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !possible || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let east = match offset.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign, rest) => {
            let (hours, minutes) = rest.split_once(':').or_else(|| rest.split_at_checked(2))?;
            let size = number(hours)?.min(99) * 3600 + number(minutes)?.min(99) * 60;
            if sign == "-" { -(size as i64) } else { size as i64 }
        }
    };
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds.checked_add_signed(-east)?))
}

/// Year, month and day of a day since 1970. After Howard Hinnant's `civil_from_days`: years begin in March, so that the
/// leap day is their last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// The other way round; the year is 1970 or later.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_aws_does() {
        assert_eq!(amz_date(0), "19700101T000000Z");
        assert_eq!(amz_date(1_369_353_600), "20130524T000000Z");
        assert_eq!(amz_date(1_440_938_160), "20150830T123600Z");
        assert_eq!(amz_date(951_782_399), "20000228T235959Z");
        assert_eq!(amz_date(951_782_400), "20000229T000000Z");
        assert_eq!(amz_date(4_107_542_399), "21000228T235959Z");
        assert_eq!(amz_date(4_107_542_400), "21000301T000000Z", "2100 is no leap year");
    }

    #[test]
    fn every_day_of_400_years_comes_back() {
        for day in 0..146_097 {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
    }

    #[test]
    fn dates_of_services_are_read() {
        let at = |text| parse_iso8601(text).map(unix_seconds);
        for text in [
            "2015-08-30T12:36:00Z",
            "2015-08-30T12:36:00.123456Z",
            "2015-08-30T14:36:00+02:00",
            "2015-08-30T10:36:00-0200",
            " 2015-08-30t12:36:00z ",
        ] {
            assert_eq!(at(text), Some(1_440_938_160), "{text}");
        }
        for text in [
            "",
            "2015-08-30",
            "2015-13-30T12:36:00Z",
            "2015-08-30T12:36:00",
            "x-08-30T12:36:00Z",
            "T",
            "2015-08-30T+",
            "1969-01-01T00:00:00Z",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
