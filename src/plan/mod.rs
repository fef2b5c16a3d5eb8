//! How reads are cut into requests, and merged into some. Pure.
//!
//! | file | what |
//! |---|---|
//! | [`split`](mod@split) | one range becomes requests of a size |
//! | [`direct`] | what of a file is moved past the system's cache |
//! | [`coalesce`] | many ranges become fewer requests, and each knows what of it goes where |

pub mod coalesce;
pub mod direct;
pub mod split;

pub use split::{MOST_REQUESTS, checked_count, request_count, split};

use crate::error::{Error, ErrorKind, Result};

/// Bytes `start` to `start + len` of an object; the end does not overflow, and what is asked for has at least one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// How many.
    pub len: u64,
}

impl ByteRange {
    /// The last `len` bytes of an object of `total`, or all that there are.
    pub fn last(len: u64, total: u64) -> ByteRange {
        let len = len.min(total);
        ByteRange { start: total - len, len }
    }

    /// The byte behind the last.
    pub fn end(self) -> u64 {
        self.start + self.len
    }

    /// What is left after the first `n` bytes.
    pub fn skip(self, n: u64) -> ByteRange {
        let n = n.min(self.len);
        ByteRange { start: self.start + n, len: self.len - n }
    }
}

impl std::fmt::Display for ByteRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.start, (self.start + self.len).saturating_sub(1))
    }
}

/// Checks a read against what is known about its object, before anything is sent.
///
/// # Errors
/// INVALID_ARGUMENT when the range overflows or leaves the object.
pub fn check_bounds(name: &str, offset: u64, size: u64, object_size: Option<u64>) -> Result<()> {
    let end = end_of("read", "of", name, offset, size)?;
    match object_size {
        Some(total) if end > total => Err(beyond_end(offset, size, total, name)),
        _ => Ok(()),
    }
}

/// Checks a write, before anything is done.
///
/// # Errors
/// INVALID_ARGUMENT when the range overflows.
pub fn check_write(name: &str, offset: u64, size: u64) -> Result<()> {
    end_of("write", "to", name, offset, size).map(drop)
}

fn end_of(doing: &str, of: &str, name: &str, offset: u64, size: u64) -> Result<u64> {
    // Ranges are sent as inclusive decimal numbers, and libcurl and the system count in i64.
    let end = offset.checked_add(size).filter(|&end| i64::try_from(end).is_ok());
    end.ok_or_else(|| {
        Error::invalid(format!("cannot {doing} {size} bytes at {offset} {of} {name}: the range ends beyond 2^63 - 1"))
    })
}

/// The error for a range that leaves the object, with the words that KvikIO's users know.
pub fn beyond_end(offset: u64, size: u64, total: u64, name: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("cannot read {offset}+{size} bytes into a {total} bytes file ({name}); read no further than its size"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked_without_overflow() {
        assert!(check_bounds("x", 0, 10, Some(10)).is_ok());
        assert!(check_bounds("x", 10, 0, Some(10)).is_ok());
        assert!(check_bounds("x", u64::MAX - 1, 1, None).is_err());
        for (offset, size) in [(u64::MAX - 1, 4), (4, u64::MAX), (i64::MAX as u64, 1), (11, 0), (0, 11)] {
            let error = check_bounds("http://h/x", offset, size, Some(10)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains("http://h/x"), "{error}");
        }
        let error = check_bounds("URL", 8, 4, Some(10)).unwrap_err();
        let words = "cannot read 8+4 bytes into a 10 bytes file (URL); read no further than its size";
        assert_eq!(error.message(), words);
    }

    #[test]
    fn a_range_prints_as_http_writes_it() {
        let range = ByteRange { start: 10, len: 10 };
        assert_eq!(range.to_string(), "10-19");
        assert_eq!(range.skip(7), ByteRange { start: 17, len: 3 });
        assert_eq!(range.skip(99).len, 0);
        assert_eq!(ByteRange::last(7, 20), ByteRange { start: 13, len: 7 });
        assert_eq!(ByteRange::last(21, 20), ByteRange { start: 0, len: 20 });
    }
}
