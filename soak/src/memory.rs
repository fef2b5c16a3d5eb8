//! Buffers between guard bytes, and what the process uses. The only unsafe code of the soak.

use raskio::sys::mem::HostBuffer;
use std::fs;

/// Outside a buffer, and inside it until something is written.
const FILL: u8 = 0xEE;
/// What the whole of a buffer holds after its read has failed.
const GIVEN_BACK: u8 = 0xA5;
const GUARD: usize = 64;

/// Memory for one read.
pub struct Guarded {
    start: *mut [u8],
    len: usize,
}

// SAFETY: the memory belongs to this value alone but for the HostBuffer made from it; see `host`.
unsafe impl Send for Guarded {}

impl Guarded {
    /// `len` bytes between guards.
    pub fn new(len: usize) -> Guarded {
        Guarded { start: Box::into_raw(vec![FILL; len + 2 * GUARD].into_boxed_slice()), len }
    }

    /// The part between the guards, for one read. A `Guarded` whose read is not over must be forgotten, not dropped.
    pub fn host(&mut self) -> HostBuffer {
        // SAFETY: in bounds. The memory is there until `self` is dropped, which happens after the completion only, and
        // nothing here reads or writes it before.
        unsafe { HostBuffer::new(self.start.cast::<u8>().add(GUARD), self.len as u64) }
    }

    fn all(&self) -> &[u8] {
        // SAFETY: made from a box in `new` and freed in `drop`; called only while RaskIO does not write it.
        unsafe { &*self.start }
    }

    fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `all`.
        unsafe { &mut *self.start }
    }

    /// What was read.
    pub fn bytes(&self) -> &[u8] {
        &self.all()[GUARD..GUARD + self.len]
    }

    /// Whether nothing was written outside the buffer.
    pub fn guards_are_whole(&self) -> bool {
        let (before, after) = (&self.all()[..GUARD], &self.all()[GUARD + self.len..]);
        before.iter().chain(after).all(|byte| *byte == FILL)
    }

    /// Whether each byte is either the right one or was never written.
    pub fn holds_nothing_but(&self, right: &[u8]) -> bool {
        self.bytes().iter().zip(right).all(|(got, right)| got == right || *got == FILL)
    }

    /// Marks every byte, as a caller does who uses the memory for something else.
    pub fn use_again(&mut self) {
        self.all_mut().fill(GIVEN_BACK);
    }

    /// Whether nobody wrote it since [`Guarded::use_again`].
    pub fn is_as_left(&self) -> bool {
        self.all().iter().all(|byte| *byte == GIVEN_BACK)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: came from a box, is dropped once, and its read is over.
        drop(unsafe { Box::from_raw(self.start) });
    }
}

/// What the process uses now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Open file descriptors.
    pub files: usize,
    /// Threads.
    pub threads: usize,
    /// Resident memory in KiB, after the allocator gave back what it can.
    pub resident_kib: u64,
}

/// What the process uses now.
pub fn usage() -> Usage {
    // SAFETY: a plain call into the C library's allocator.
    unsafe { libc::malloc_trim(0) };
    // One of the entries is the look itself.
    let files = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1));
    let threads = fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let resident_kib = line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
    Usage { files, threads, resident_kib }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_does_not_belong_is_seen() {
        let mut buffer = Guarded::new(10);
        assert!(buffer.host().write(b"01234"));
        assert!(buffer.holds_nothing_but(b"0123456789"), "five bytes are right, and five were never written");
        assert!(!buffer.holds_nothing_but(b"0123x56789"));
        assert!(buffer.guards_are_whole());
        for outside in [GUARD - 1, GUARD + 10] {
            buffer.all_mut()[outside] = 0;
            assert!(!buffer.guards_are_whole());
            buffer.all_mut()[outside] = FILL;
        }
        buffer.use_again();
        assert!(buffer.is_as_left());
        buffer.all_mut()[GUARD + 3] = b'3';
        assert!(!buffer.is_as_left());
    }
}
