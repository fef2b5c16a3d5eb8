//! Streams: RaskIO's own, and the caller's.

use super::context::Current;
use super::library::{Driver, Failure, Outcome};
use super::memory::Pinned;
use super::pointer::CudaPart;
use cudarc::driver::sys as cu;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

/// `CU_STREAM_LEGACY`: the legacy stream by name, whatever NULL means.
pub(super) const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`: another stream for each thread that says it.
pub(super) const PER_THREAD: usize = 2;

/// A stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Stream {
    handle: usize,
}

/// Whether a stream is being captured into a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Work runs.
    No,
    /// Work would become a part of the graph, or end somebody's capture.
    Yes,
}

impl Stream {
    /// A stream of RaskIO's own in the current context: the legacy stream neither waits for it nor holds it up. It must
    /// eventually be given to [`Stream::destroy`].
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(current: &Current<'_>) -> std::result::Result<Stream, Failure> {
        let flags = cu::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut stream = ptr::null_mut();
        // SAFETY: one writable handle is passed, and a context is current.
        unsafe { current.driver().cuStreamCreate(&mut stream, flags) }?;
        Ok(Stream { handle: stream as usize })
    }

    /// The caller's. It is the caller's business to keep it until the operation has ended.
    pub fn of_caller(handle: usize) -> Stream {
        Stream { handle }
    }

    /// The number by which the caller knows it.
    pub fn handle(&self) -> usize {
        self.handle
    }

    /// Starts copying the first `len` bytes of `from`. `from` must stay as it is until an event recorded behind the copy is
    /// done, or the stream is.
    ///
    /// # Errors
    /// What the driver says; nothing was started then.
    pub fn copy(&self, current: &Current<'_>, to: &CudaPart, from: &Pinned, at: usize) -> Outcome {
        // As much as memory holds, so a usize holds it too.
        let len = to.len() as usize;
        assert!(at <= from.size() && len <= from.size() - at, "a copy from behind the end of a buffer");
        let source = from.address() + at;
        if to.is_host() {
            // SAFETY: the buffer's maker promised `len` writable bytes at `to`; `from` holds as many at `at`, and stays.
            return unsafe { current.driver().cuMemcpyAsync(to.start(), source as u64, len, self.raw()) };
        }
        // SAFETY: the same.
        unsafe { current.driver().cuMemcpyHtoDAsync_v2(to.start(), source as *const c_void, len, self.raw()) }
    }

    /// Starts copying `from` to what lies at `at` of `to`, which nobody must read before an event recorded behind the copy is done,
    /// or the stream is; nor may `from` change before that.
    ///
    /// # Errors
    /// What the driver says; nothing was started then.
    pub fn fetch(&self, current: &Current<'_>, to: &Pinned, at: usize, from: &CudaPart) -> Outcome {
        // As much as memory holds, so a usize holds it too.
        let len = from.len() as usize;
        assert!(at <= to.size() && len <= to.size() - at, "a copy behind the end of a buffer");
        let target = to.address() + at;
        if from.is_host() {
            // SAFETY: the buffer's maker promised `len` readable bytes at `from`; `to` has as many at `at`, and stays.
            return unsafe { current.driver().cuMemcpyAsync(target as u64, from.start(), len, self.raw()) };
        }
        // SAFETY: the same.
        unsafe { current.driver().cuMemcpyDtoHAsync_v2(target as *mut c_void, from.start(), len, self.raw()) }
    }

    /// Whether everything that it was given is done.
    ///
    /// # Errors
    /// What the driver says, also of work that failed since.
    pub fn is_done(&self, driver: &Driver) -> std::result::Result<bool, Failure> {
        // SAFETY: the handle came from the driver or from the caller; the driver checks it.
        match unsafe { driver.cuStreamQuery(self.raw()) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_not_ready() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Whether it is being captured. Asking ends no capture.
    ///
    /// # Errors
    /// What the driver says.
    pub fn capture(&self, driver: &Driver) -> std::result::Result<Capture, Failure> {
        let mut status = cu::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: one writable status is passed, whose three values have been the same since captures exist.
        match unsafe { driver.cuStreamIsCapturing(self.raw(), &mut status) } {
            Ok(()) if status == cu::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(Capture::No),
            Ok(()) => Ok(Capture::Yes),
            Err(failure) if failure.is_capture_implicit() => Ok(Capture::Yes),
            Err(failure) if failure.is_missing() => Ok(Capture::No),
            Err(failure) => Err(failure),
        }
    }

    /// Has `told` called once, on a thread of the driver's, when everything is done that the stream has been given so far;
    /// perhaps never, if that fails. It must be brief, and neither take a lock nor call CUDA.
    ///
    /// # Errors
    /// What the driver says; `told` is not called then.
    pub fn tell(&self, current: &Current<'_>, told: Arc<dyn Fn() + Send + Sync>) -> Outcome {
        let data = Box::into_raw(Box::new(told));
        // SAFETY: the trampoline takes the box, once; it is given up below if the driver refuses it.
        let outcome = unsafe { current.driver().cuLaunchHostFunc(self.raw(), Some(call), data.cast()) };
        if outcome.is_err() {
            // SAFETY: made above, and the driver has not taken it.
            drop(unsafe { Box::from_raw(data) });
        }
        outcome
    }

    /// The end of one of RaskIO's own. Work that it was given goes on.
    ///
    /// # Errors
    /// What the driver says; it is gone anyway.
    pub fn destroy(self, current: &Current<'_>) -> Outcome {
        // SAFETY: made by `new`, and given up here.
        unsafe { current.driver().cuStreamDestroy_v2(self.raw()) }
    }

    pub(super) fn raw(&self) -> cu::CUstream {
        self.handle as cu::CUstream
    }
}

/// What the driver calls.
unsafe extern "C" fn call(data: *mut c_void) {
    // SAFETY: `tell` leaked this box for one call.
    let told = unsafe { Box::from_raw(data.cast::<Arc<dyn Fn() + Send + Sync>>()) };
    // Unwinding into the driver would abort the host.
    let _ = catch_unwind(AssertUnwindSafe(&**told));
}
