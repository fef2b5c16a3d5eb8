//! Caller's memory.

/// A caller's host buffer: RaskIO's from the call until the completion begins.
#[derive(Debug)]
pub struct HostBuffer {
    start: *mut u8,
    len: u64,
    written: u64,
}

// SAFETY: the buffer is plain memory that its maker promised to RaskIO alone; any one thread may write it.
unsafe impl Send for HostBuffer {}

impl HostBuffer {
    /// The one unsafe promise about a buffer.
    ///
    /// # Safety
    /// `start` must be valid for writes of `len` bytes, and nothing else may read or write them, until this buffer and
    /// every part split from it are dropped.
    pub unsafe fn new(start: *mut u8, len: u64) -> HostBuffer {
        HostBuffer { start, len, written: 0 }
    }

    /// Bytes that the buffer holds.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Takes the first `n` bytes off as a buffer of their own (all of them, if there are fewer). Call before writing.
    pub fn split_to(&mut self, n: u64) -> HostBuffer {
        let n = n.min(self.len);
        let head = HostBuffer { start: self.start, len: n, written: 0 };
        // wrapping_add: for a zero-sized buffer the pointer may be anything; it is never used then.
        self.start = self.start.wrapping_add(n as usize);
        self.len -= n;
        head
    }

    /// Appends `bytes`; false, with nothing written, if they do not fit.
    #[must_use]
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        let n = bytes.len() as u64;
        if n > self.len - self.written {
            return false;
        }
        // SAFETY: the maker promised `len` writable bytes at `start`, `written + n <= len`, and a caller's buffer never
        // overlaps libcurl's receive buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(self.written as usize), bytes.len());
        }
        self.written += n;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_buffer_and_overflow_is_refused() {
        let mut memory = [0u8; 10];
        // SAFETY: the array outlives the buffers below and is not touched meanwhile.
        let mut all = unsafe { HostBuffer::new(memory.as_mut_ptr(), 10) };
        let mut head = all.split_to(4);
        assert!(head.write(b"abc"));
        assert!(!head.write(b"de"), "two bytes do not fit into one");
        assert!(head.write(b"d"));
        assert!(all.write(b"efghij"));
        assert_eq!((head.written(), all.written(), all.split_to(0).len()), (4, 6, 0));
        assert_eq!(&memory, b"abcdefghij");
    }
}
