//! Sizes and rates, as people write and read them.

/// A size: plain bytes, or with K, M, G, T (powers of 1,024; KiB and KB are taken for the same).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(format!("{text:?} is no size: write bytes, or a number with K, M, G or T, such as 4MiB")),
    };
    let size = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor),
        Err(_) => number
            .parse::<f64>()
            .ok()
            .map(|part| part * factor as f64)
            .filter(|size| *size < 9e18)
            .map(|size| size as u64),
    };
    match size {
        Some(size) if size > 0 && i64::try_from(size).is_ok() => Ok(size),
        _ => Err(format!("{text:?} is no size: it must be more than 0 and less than 8 EiB")),
    }
}

/// Bytes, in the largest unit of 1,024 that leaves a number of at least 1.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value.fract() == 0.0 => format!("{value:.0} {}", UNITS[unit]),
        _ => format!("{value:.2} {}", UNITS[unit]),
    }
}

/// Bytes a second, in units of 1,000 as networks are sold.
pub fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s {
        rate if rate >= 1e9 => format!("{:.2} GB/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.1} MB/s", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} kB/s", rate / 1e3),
        rate => format!("{rate:.0} B/s"),
    }
}

/// A time in microseconds, in milliseconds.
pub fn ms(us: u64) -> String {
    format!("{:.1}", us as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kb", 4096),
            ("1.5 MiB", 3 << 19),
            ("2g", 2 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "-1", "x", "1x", "1e9", "16777216T", "99999999999999999999"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(
            (size(1023), size(1 << 20), size((1 << 20) + 1)),
            ("1023 B".into(), "1 MiB".into(), "1.00 MiB".into())
        );
        assert_eq!((rate(1.5e9), rate(2.5e6), rate(10.0)), ("1.50 GB/s".into(), "2.5 MB/s".into(), "10 B/s".into()));
    }
}
