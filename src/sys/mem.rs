//! Caller's memory, and pages of our own.

use crate::error::{Error, Result};
use crate::sys::cuda::{CudaBuffer, CudaPart};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A caller's buffer, wherever it is.
pub enum Buffer {
    /// In host memory.
    Host(HostBuffer),
    /// In memory that the CUDA driver writes.
    Cuda(CudaBuffer),
}

impl Buffer {
    /// Bytes that it holds.
    pub fn len(&self) -> u64 {
        match self {
            Buffer::Host(buffer) => buffer.len(),
            Buffer::Cuda(buffer) => buffer.len(),
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its first `n` bytes (all of them, if there are fewer). The rest is the caller's again.
    pub fn split_to(self, n: u64) -> Buffer {
        match self {
            Buffer::Host(mut buffer) => Buffer::Host(buffer.split_to(n)),
            Buffer::Cuda(buffer) => Buffer::Cuda(buffer.cut_to(n)),
        }
    }
}

/// A part of a caller's buffer.
pub enum BufferPart {
    /// In host memory.
    Host(HostBuffer),
    /// In memory that the CUDA driver writes.
    Cuda(CudaPart),
}

impl From<HostBuffer> for Buffer {
    fn from(buffer: HostBuffer) -> Buffer {
        Buffer::Host(buffer)
    }
}

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
    /// every part split from it are dropped. Of one that is only written to a file, as
    /// [`Object::write`](crate::object::Object::write) does: valid for reads, and nothing may write them.
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

impl HostBuffer {
    /// The room that is left, to be filled by the kernel.
    pub fn room(&mut self) -> Span<'_> {
        Span::new(self.start.wrapping_add(self.written as usize), (self.len - self.written) as usize, None)
    }

    /// The first `n` bytes of the room have been filled; false, with nothing changed, if there are not so many.
    #[must_use]
    pub fn filled(&mut self, n: u64) -> bool {
        let fits = n <= self.len - self.written;
        if fits {
            self.written += n;
        }
        fits
    }

    /// The same memory, to be written to a file: from now on it is only read.
    pub fn into_source(self) -> HostSource {
        HostSource { start: self.start, len: self.len }
    }
}

/// Host memory of a caller's that goes into a file: nobody changes it from the call until the completion begins.
#[derive(Debug)]
pub struct HostSource {
    start: *const u8,
    len: u64,
}

// SAFETY: plain memory that its maker promised to be readable by RaskIO from any one thread.
unsafe impl Send for HostSource {}

impl HostSource {
    /// What lies from `at` on, to be read by the kernel.
    pub fn rest(&self, at: u64) -> Span<'_> {
        let at = at.min(self.len);
        // A span that is written to a file is only read (`sys::file`, `sys::uring`).
        Span::new(self.start.wrapping_add(at as usize).cast_mut(), (self.len - at) as usize, None)
    }
}

/// Memory that is lent to the kernel: to be filled by a read, or to be read by a write. It lies outside of whoever lends it, so
/// that moving the lender moves nothing.
#[derive(Debug)]
pub struct Span<'a> {
    start: *mut u8,
    len: usize,
    fixed: Option<Fixed>,
    lent: PhantomData<&'a mut [u8]>,
}

/// The pinned memory that a span is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Its number, never used again for other memory.
    pub id: u64,
    /// Where it begins.
    pub start: usize,
    /// Bytes that it has.
    pub len: usize,
}

impl Fixed {
    /// For this memory, which keeps the number for as long as it lives.
    pub(in crate::sys) fn new(start: *mut u8, len: usize) -> Fixed {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Fixed { id: NEXT.fetch_add(1, Ordering::Relaxed), start: start as usize, len }
    }
}

impl Span<'_> {
    /// `len` bytes at `start`, which the lender has to lend.
    pub(in crate::sys) fn new(start: *mut u8, len: usize, fixed: Option<Fixed>) -> Self {
        Span { start, len, fixed, lent: PhantomData }
    }

    /// Bytes that it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it begins.
    pub fn address(&self) -> usize {
        self.start as usize
    }

    /// Its first `n` bytes, or all of it.
    pub fn cut(self, n: usize) -> Self {
        Span { len: self.len.min(n), ..self }
    }

    /// What the kernel does: puts `bytes` at its start; false if they do not fit.
    #[cfg(test)]
    pub fn fill(self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.len;
        if fits {
            // SAFETY: the lender lends `len` bytes.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, bytes.len()) };
        }
        fits
    }

    pub(in crate::sys) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(in crate::sys) fn fixed(&self) -> Option<Fixed> {
        self.fixed
    }
}

/// Pages of our own, for what cannot be read to where it belongs at once.
#[derive(Debug)]
pub struct Pages {
    start: *mut u8,
    size: usize,
    fixed: Fixed,
}

// SAFETY: plain memory that this value alone refers to.
unsafe impl Send for Pages {}

impl Pages {
    /// At least `size` bytes, zeroed.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub fn new(size: usize) -> Result<Pages> {
        let size = size.max(1).next_multiple_of(page_size());
        let start = map_pages(size, 0)?;
        Ok(Pages { start, size, fixed: Fixed::new(start, size) })
    }

    /// All of it, to be filled.
    pub fn span(&mut self) -> Span<'_> {
        Span::new(self.start, self.size, Some(self.fixed))
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `size` bytes are mapped and zeroed at first; whoever fills them has lent them from `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start, self.size) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no span of it is left.
        unsafe { unmap_pages(self.start, self.size) };
    }
}

/// A test's memory as a caller's buffer; it must outlive that, and is not touched meanwhile.
#[cfg(test)]
pub(crate) fn lent(memory: &mut [u8]) -> HostBuffer {
    // SAFETY: the tests that call this keep the memory until the buffer is dropped.
    unsafe { HostBuffer::new(memory.as_mut_ptr(), memory.len() as u64) }
}

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: no pointers are passed.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Maps `size` bytes (whole pages) of zeroed memory of our own, not inherited by forked children; with an `alignment`, on
/// huge pages if the system has some.
///
/// # Errors
/// OUT_OF_MEMORY.
pub fn map_pages(size: usize, alignment: usize) -> Result<*mut u8> {
    let failed = |what: &str| {
        let source = std::io::Error::last_os_error();
        Error::os(format_args!("{what} {size} bytes of memory"), &source)
    };
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, wherever the kernel likes.
    let start = unsafe { libc::mmap(ptr::null_mut(), size + alignment, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(failed("mapping"));
    }
    let start = start.cast::<u8>();
    let before = if alignment == 0 { 0 } else { (start as usize).next_multiple_of(alignment) - start as usize };
    // SAFETY: the parts before and behind what is kept were mapped above, and nothing refers to them. Advice changes nothing
    // but speed, except that a child does not get the pages: a copy-on-write fault of the parent's would leave the device with
    // a page that is no longer the parent's.
    unsafe {
        if before > 0 {
            unmap_pages(start, before);
        }
        if alignment > before {
            unmap_pages(start.add(before + size), alignment - before);
        }
        let start = start.add(before);
        if alignment > 0 {
            libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE);
        }
        libc::madvise(start.cast(), size, libc::MADV_DONTFORK);
        Ok(start)
    }
}

/// Unmaps whole pages.
///
/// # Safety
/// They were mapped by [`map_pages`], and nothing refers to them any more.
pub unsafe fn unmap_pages(start: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    let outcome = unsafe { libc::munmap(start.cast(), size) };
    debug_assert_eq!(outcome, 0, "munmap: {}", std::io::Error::last_os_error());
}

/// Whether the processor can write at this address; `None`: the kernel does not say.
pub fn is_writable(at: *mut u8) -> Option<bool> {
    /// `MADV_POPULATE_WRITE`, since Linux 5.14: faults a page in for writing, and changes nothing in it.
    const POPULATE_WRITE: i32 = 23;
    let page = page_size();
    let start = (at as usize / page * page) as *mut libc::c_void;
    // SAFETY: touches no memory; the kernel checks the address.
    if unsafe { libc::madvise(start, page, POPULATE_WRITE) } == 0 {
        return Some(true);
    }
    if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM) {
        return Some(false);
    }
    // An older kernel, or a page that does not bear it. Whether it can be read is known, and almost as good.
    let mut byte = 0u8;
    let to = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let from = libc::iovec { iov_base: at.cast(), iov_len: 1 };
    // SAFETY: one writable byte; the kernel checks the other address.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    match got {
        1 => Some(true),
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => Some(false),
        _ => None,
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

    #[test]
    fn pages_of_our_own_lie_where_they_should_and_can_be_written() {
        for (size, alignment) in [(page_size(), 0), (4 << 20, 2 << 20), (5 << 20, 2 << 20)] {
            let start = map_pages(size, alignment).unwrap();
            assert_eq!(start as usize % alignment.max(page_size()), 0);
            // SAFETY: mapped above.
            unsafe {
                start.write(1);
                start.add(size - 1).write(1);
                unmap_pages(start, size);
            }
        }
    }

    #[test]
    fn memory_that_nobody_can_write_is_told_from_memory_that_one_can() {
        let mut byte = 7u8;
        assert_eq!(is_writable(&raw mut byte), Some(true));
        assert_eq!(byte, 7);
        assert_eq!(is_writable(ptr::null_mut()), Some(false));
        // SAFETY: a new mapping, and its end.
        unsafe {
            let closed =
                libc::mmap(ptr::null_mut(), 4096, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(closed, libc::MAP_FAILED);
            assert_eq!(is_writable(closed.cast()), Some(false));
            libc::munmap(closed, 4096);
        }
    }
}
