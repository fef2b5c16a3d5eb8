//! Pinned host memory.

use super::context::Current;
use super::library::{Driver, Failure};
use crate::error::{Error, ErrorKind, Result};
use crate::op::call_host;
use crate::sys::mem::{self, Fixed, Span};
use std::ffi::c_void;
use std::ptr;

/// `CU_MEMHOSTREGISTER_PORTABLE`: pinned for every context, so that copies on a caller's stream may belong to another one.
const PORTABLE: u32 = 1;
/// From this size on the memory lies on whole huge pages, if the system has any to give.
const HUGE_PAGE: usize = 2 << 20;

/// The host's own pool of pinned memory.
#[derive(Clone, Copy, Debug)]
pub struct PinnedPool {
    /// Gives so many bytes, or NULL.
    pub alloc: unsafe extern "C" fn(user_data: *mut c_void, size: usize) -> *mut c_void,
    /// Takes them back.
    pub free: unsafe extern "C" fn(user_data: *mut c_void, memory: *mut c_void, size: usize),
    /// Handed to both.
    pub user_data: *mut c_void,
}

// SAFETY: the C contract: both functions may be called from RaskIO's threads with this user data.
unsafe impl Send for PinnedPool {}
// SAFETY: the same.
unsafe impl Sync for PinnedPool {}

impl PartialEq for PinnedPool {
    fn eq(&self, other: &PinnedPool) -> bool {
        let parts = |pool: &PinnedPool| (pool.alloc as usize, pool.free as usize, pool.user_data as usize);
        parts(self) == parts(other)
    }
}
impl Eq for PinnedPool {}

/// What becomes of the driver's knowledge of pinned memory that is given back.
#[derive(Clone, Copy)]
pub enum Registration<'a> {
    /// The driver is told, in this context.
    Ends(&'a Current<'a>),
    /// It ended with its context.
    Ended,
    /// The context is broken, and the driver cannot be told.
    Stays,
}

/// Where pinned memory came from, and so where it goes.
enum Source {
    /// A mapping of our own, registered with the driver.
    Mapped(&'static Driver),
    /// The host's.
    Host(PinnedPool),
}

/// Pinned memory. It must eventually be given to [`Pinned::release`]; dropping it leaks it.
pub struct Pinned {
    start: *mut u8,
    size: usize,
    fixed: Fixed,
    source: Source,
}

// SAFETY: plain memory that this value alone refers to.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Maps `size` bytes (whole pages), and pins them. Takes about a millisecond for 4 MiB.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, CUDA.
    pub fn map(current: &Current<'_>, size: usize) -> Result<Pinned> {
        let start = mem::map_pages(size, if size >= HUGE_PAGE { HUGE_PAGE } else { 0 })?;
        let driver = current.driver();
        // SAFETY: just mapped, and nobody else's.
        if let Err(failure) = unsafe { driver.cuMemHostRegister_v2(start.cast(), size, PORTABLE) } {
            // SAFETY: mapped above, and nothing refers to it.
            unsafe { mem::unmap_pages(start, size) };
            return Err(Error::from(failure).context(format_args!("pinning {size} bytes of host memory")));
        }
        Ok(Pinned { start, size, fixed: Fixed::new(start, size), source: Source::Mapped(driver) })
    }

    /// Takes `size` bytes from the host's pool.
    ///
    /// # Errors
    /// OUT_OF_MEMORY: it has none.
    pub fn take(pool: PinnedPool, size: usize) -> Result<Pinned> {
        // SAFETY: the C contract of the two functions.
        let start = call_host(|| unsafe { (pool.alloc)(pool.user_data, size) }).unwrap_or(ptr::null_mut());
        if start.is_null() {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("pinned_alloc, the host's pool of pinned memory, gave no {size} bytes"),
            ));
        }
        let start = start.cast();
        Ok(Pinned { start, size, fixed: Fixed::new(start, size), source: Source::Host(pool) })
    }

    /// Bytes that it holds.
    pub fn size(&self) -> usize {
        self.size
    }

    pub(super) fn address(&self) -> usize {
        self.start as usize
    }

    /// Writes `bytes` at `at`; false, with nothing written, if they do not fit.
    #[must_use]
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        if at > self.size || bytes.len() > self.size - at {
            return false;
        }
        // SAFETY: `size` bytes are ours, `at + bytes.len()` is within them, and nobody's slice lies in them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) };
        true
    }

    /// The room from `at` on, to be filled by the kernel.
    pub fn room(&mut self, at: usize) -> Span<'_> {
        let at = at.min(self.size);
        Span::new(self.start.wrapping_add(at), self.size - at, Some(self.fixed))
    }

    /// What lies from `at` on, to be read by the kernel.
    pub fn rest(&self, at: usize) -> Span<'_> {
        let at = at.min(self.size);
        // A span that is written to a file is only read (`sys::file`, `sys::uring`).
        Span::new(self.start.wrapping_add(at), self.size - at, Some(self.fixed))
    }

    /// Gives it back.
    ///
    /// What the driver still knows stays mapped, for good: it would take whatever came to lie at these addresses for the memory
    /// that it pinned, and copy the old pages. It costs addresses only, since the pages are the driver's until it lets go. So
    /// it is after an error that broke the context: an H200 with driver 580 answers the error to the call that would end the
    /// registration, and does not say whether it ended.
    ///
    /// # Errors
    /// What the driver says. The memory is kept then.
    pub fn release(self, registration: Registration<'_>) -> std::result::Result<(), Failure> {
        match self.source {
            Source::Host(pool) => {
                // SAFETY: it came from this pool and nobody refers to it any more.
                call_host(|| unsafe { (pool.free)(pool.user_data, self.start.cast(), self.size) });
                return Ok(());
            }
            Source::Mapped(driver) => match registration {
                // SAFETY: registered by `map`, and no copy from it runs.
                Registration::Ends(_) => unsafe { driver.cuMemHostUnregister(self.start.cast()) }?,
                Registration::Ended => {}
                Registration::Stays => return Ok(()),
            },
        }
        // SAFETY: mapped by `map`, no longer registered, and nothing refers to it.
        unsafe { mem::unmap_pages(self.start, self.size) };
        Ok(())
    }
}
