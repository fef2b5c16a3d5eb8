//! One range becomes requests of a size.

use super::ByteRange;
use crate::error::{Error, Result};

/// How many requests of at most `task_size` bytes cover `size` bytes.
pub fn request_count(size: u64, task_size: u64) -> u64 {
    size.div_ceil(task_size.max(1))
}

/// As many requests would take 300 GB to queue: a task size of a few bytes for an object of terabytes is a mistake.
pub const MOST_REQUESTS: u64 = 1 << 31;

/// [`request_count`], unless that is a mistake.
///
/// # Errors
/// INVALID_ARGUMENT, naming the object.
pub fn checked_count(name: &str, size: u64, task_size: u64) -> Result<usize> {
    let count = request_count(size, task_size);
    usize::try_from(count).ok().filter(|_| count < MOST_REQUESTS).ok_or_else(|| {
        Error::invalid(format!(
            "reading {size} bytes of {name} in requests of {task_size} bytes takes {count} requests, more than 2^31"
        ))
    })
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
}
