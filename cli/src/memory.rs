//! Memory that is lent to a read and comes back with its result: the only unsafe code of the tool.

use raskio::sys::mem::HostBuffer;

/// Bytes on the heap, used again and again.
pub struct Memory {
    /// From `Box::into_raw`, so that no reference to the bytes exists while they are written.
    bytes: *mut [u8],
}

// SAFETY: it owns its bytes, like a box.
unsafe impl Send for Memory {}

impl Memory {
    /// Zeroed.
    pub fn new(size: usize) -> Memory {
        Memory { bytes: Box::into_raw(vec![0; size].into_boxed_slice()) }
    }

    /// The first `len` bytes (all, if there are fewer) for a read, whose completion must own this memory: RaskIO is done with
    /// the buffer before the completion begins, or is dropped.
    pub fn lend(&mut self, len: u64) -> HostBuffer {
        let len = len.min(self.bytes.len() as u64);
        // SAFETY: the bytes are this value's own, and nothing refers to them until `get` is called, which is after the read:
        // the callers of `lend` move this value into the completion of the read that the buffer goes to.
        unsafe { HostBuffer::new(self.bytes.cast(), len) }
    }

    /// The first `len` bytes (all, if there are fewer). Not while a read may still write them.
    pub fn get(&self, len: u64) -> &[u8] {
        // SAFETY: from a box that was not freed, initialised, and no read writes them any more (see `lend`).
        let all = unsafe { &*self.bytes };
        &all[..all.len().min(len as usize)]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and dropped once.
        drop(unsafe { Box::from_raw(self.bytes) });
    }
}
