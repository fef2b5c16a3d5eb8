//! How a read is cut into requests. Pure.

use crate::error::{Error, ErrorKind, Result};

/// Bytes `start` to `start + len` of an object; `len` is at least 1 and the end does not overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// How many.
    pub len: u64,
}

impl ByteRange {
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
    // Ranges are sent as inclusive decimal numbers and libcurl counts in i64.
    let end = offset.checked_add(size).filter(|&end| i64::try_from(end).is_ok());
    let Some(end) = end else {
        return Err(Error::invalid(format!(
            "cannot read {size} bytes at {offset} of {name}: the range ends beyond 2^63 - 1"
        )));
    };
    match object_size {
        Some(total) if end > total => Err(beyond_end(offset, size, total, name)),
        _ => Ok(()),
    }
}

/// The error for a range that leaves the object, with the words that KvikIO's users know.
pub fn beyond_end(offset: u64, size: u64, total: u64, name: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("cannot read {offset}+{size} bytes into a {total} bytes file ({name})"),
    )
}

/// How many requests of at most `task_size` bytes cover `size` bytes.
pub fn request_count(size: u64, task_size: u64) -> u64 {
    size.div_ceil(task_size.max(1))
}

/// The requests of at most `task_size` bytes that cover `size` bytes from `offset`, in order.
pub fn split(offset: u64, size: u64, task_size: u64) -> impl Iterator<Item = ByteRange> {
    let task_size = task_size.max(1);
    (0..request_count(size, task_size)).map(move |i| {
        let start = i * task_size;
        ByteRange { start: offset + start, len: task_size.min(size - start) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_covered_once_and_in_order() {
        for (offset, size, task) in
            [(0, 10, 4), (7, 1, 4), (3, 8, 4), (0, 0, 4), (5, 9, 1), (1, 100, u64::MAX), (i64::MAX as u64 - 9, 9, 2)]
        {
            let mut next = offset;
            for range in split(offset, size, task) {
                assert_eq!(range.start, next);
                assert!(range.len > 0 && range.len <= task);
                next = range.end();
            }
            assert_eq!(next, offset + size);
            assert_eq!(split(offset, size, task).count() as u64, request_count(size, task));
        }
    }

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
        assert_eq!(error.message(), "cannot read 8+4 bytes into a 10 bytes file (URL)");
    }

    #[test]
    fn a_range_prints_as_http_writes_it() {
        let range = ByteRange { start: 10, len: 10 };
        assert_eq!(range.to_string(), "10-19");
        assert_eq!(range.skip(7), ByteRange { start: 17, len: 3 });
        assert_eq!(range.skip(99).len, 0);
    }
}
