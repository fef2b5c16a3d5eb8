//! Contexts: which one a handle means, and making one current for a while.

use super::event::Event;
use super::library::{Driver, Failure, Outcome};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::process;
use cudarc::driver::sys as cu;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which context: handles are used again after their context's end, its number never is. 0: this driver has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    handle: usize,
    id: u64,
}

/// One context.
pub struct Context {
    driver: &'static Driver,
    key: Key,
    /// It is this device's primary context.
    primary_of: cu::CUdevice,
    /// The fork generation in which it was retained as such; 0: it is not held by this value.
    retained: AtomicU64,
}

/// A context is current for this thread until this is dropped; then the one before is again.
pub struct Current<'a> {
    context: &'a Context,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Key {
    /// What `handle` means now.
    ///
    /// # Errors
    /// CUDA: it means nothing.
    pub(super) fn of(driver: &Driver, handle: cu::CUcontext) -> std::result::Result<Key, Failure> {
        let mut id = 0;
        // SAFETY: the handle came from the driver, which checks it; one writable number is passed.
        match unsafe { driver.cuCtxGetId(handle, &mut id) } {
            Ok(()) => Ok(Key { handle: handle as usize, id }),
            Err(failure) if failure.is_missing() => Ok(Key { handle: handle as usize, id: 0 }),
            Err(failure) => Err(failure),
        }
    }
}

impl Context {
    /// The context that `key` names.
    pub fn new(driver: &'static Driver, key: Key) -> Context {
        Context { driver, key, primary_of: 0, retained: AtomicU64::new(0) }
    }

    /// A device's primary context, kept until this is dropped. May take long: it may have to be made.
    ///
    /// # Errors
    /// CUDA.
    pub fn primary(driver: &'static Driver, device: i32) -> Result<Context> {
        let mut handle = ptr::null_mut();
        // SAFETY: one writable handle is passed; the driver checks the device.
        unsafe { driver.cuDevicePrimaryCtxRetain(&mut handle, device) }?;
        let retained = AtomicU64::new(process::generation());
        let mut context = Context { driver, key: Key { handle: handle as usize, id: 0 }, primary_of: device, retained };
        // On a failure dropping it gives it back.
        context.key = Key::of(driver, handle)?;
        Ok(context)
    }

    /// The calling thread's current one.
    ///
    /// # Errors
    /// INVALID_ARGUMENT: there is none. UNSUPPORTED, CUDA: as [`Driver::need`].
    pub fn of_this_thread() -> Result<Context> {
        let driver = Driver::need()?;
        match current(driver)? {
            Some((handle, _)) => Ok(Context::new(driver, Key::of(driver, handle)?)),
            None => Err(Error::invalid("this thread has no current CUDA context")),
        }
    }

    /// Which it is.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The driver.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Makes it current for this thread.
    ///
    /// # Errors
    /// What the driver says; [`Failure::is_context_gone`] if it is no longer there.
    pub fn enter(&self) -> std::result::Result<Current<'_>, Failure> {
        self.check()?;
        // SAFETY: the handle came from the driver, and was seen to be alive just now.
        unsafe { self.driver.cuCtxPushCurrent_v2(self.key.handle as cu::CUcontext) }?;
        Ok(Current { context: self, _thread: PhantomData })
    }

    /// Whether no other context will ever have this key.
    pub fn is_known_by_number(&self) -> bool {
        self.key.id != 0
    }

    /// Ok if it is still the context that it was.
    fn check(&self) -> Outcome {
        if self.key.id == 0 {
            return Ok(());
        }
        let now = Key::of(self.driver, self.key.handle as cu::CUcontext)?;
        if now == self.key { Ok(()) } else { Err(Failure::handle_used_again()) }
    }

    /// Lets go of a primary context, if this value holds it: it may end when nobody else does.
    pub fn give_back(&self) {
        // A forked child has no right to its parent's.
        if self.retained.swap(0, Ordering::AcqRel) == process::generation() {
            // SAFETY: retained once by `primary`, and released once. A failure means that there is nothing left to release.
            let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.primary_of) };
        }
    }

    /// Whether it is still there.
    pub fn is_alive(&self) -> bool {
        self.check().is_ok()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: pushed by `enter` on this thread; one writable handle is passed.
        let outcome = unsafe { self.context.driver.cuCtxPopCurrent_v2(&mut popped) };
        if let Err(failure) = outcome {
            // A destroyed context takes itself off its threads. Of a broken one the stager tells, once.
            if !failure.has_ended_all_work() {
                log::error!(target: "raskio", "{}", Error::from(failure).message());
            }
        }
    }
}

/// This thread's current context, and its device.
///
/// # Errors
/// CUDA.
pub(super) fn current(driver: &Driver) -> std::result::Result<Option<(cu::CUcontext, i32)>, Failure> {
    let mut context = ptr::null_mut();
    // SAFETY: one writable handle is passed.
    unsafe { driver.cuCtxGetCurrent(&mut context) }?;
    if context.is_null() {
        return Ok(None);
    }
    let mut device = 0;
    // SAFETY: one writable number is passed.
    unsafe { driver.cuCtxGetDevice(&mut device) }?;
    Ok(Some((context, device)))
}

/// A context's device.
///
/// # Errors
/// CUDA.
pub(super) fn device(driver: &'static Driver, key: Key) -> std::result::Result<i32, Failure> {
    if let Some((handle, device)) = current(driver)? {
        if handle as usize == key.handle {
            return Ok(device);
        }
    }
    let context = Context::new(driver, key);
    let _current = context.enter()?;
    let mut device = 0;
    // SAFETY: one writable number is passed, and the context is current.
    unsafe { driver.cuCtxGetDevice(&mut device) }?;
    Ok(device)
}

/// While this lives, no call of this thread ends another thread's stream capture.
pub struct Relaxed {
    driver: &'static Driver,
    before: cu::CUstreamCaptureMode,
    _thread: PhantomData<*const ()>,
}

impl Relaxed {
    /// From now on.
    pub fn new(driver: &'static Driver) -> Relaxed {
        let mut mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: one mode is passed, and the one before comes back in it. A driver without captures lacks the function.
        if unsafe { driver.cuThreadExchangeStreamCaptureMode(&mut mode) }.is_err() {
            mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        }
        Relaxed { driver, before: mode, _thread: PhantomData }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        let mut mode = self.before;
        // SAFETY: as above. It failed before if it fails now.
        let _ = unsafe { self.driver.cuThreadExchangeStreamCaptureMode(&mut mode) };
    }
}

/// The error of a context that a device read can do nothing without.
pub fn gone(failure: Failure) -> Error {
    let error = Error::from(failure);
    Error::new(ErrorKind::Cuda, format!("the CUDA context of the buffer is no longer there: {}", error.message()))
}

/// The error of a context in which nothing runs any more.
pub fn broken(failure: Failure) -> Error {
    let error = Error::from(failure);
    Error::new(
        ErrorKind::Cuda,
        format!(
            "the CUDA context of the buffer is broken for good, by an error of some work on the device: {}; find that work \
             (compute-sanitizer does), and start the process anew; reads into host memory go on",
            error.message()
        ),
    )
}

impl Current<'_> {
    /// Why the context is broken, if it is: an error that one call answered may be about that call.
    pub fn why_broken(&self) -> Option<Failure> {
        // Any call would do that is about the context's work and ends nobody's capture.
        let failure = match Event::new(self) {
            Ok(event) => event.destroy(self.context.driver).err()?,
            Err(failure) => failure,
        };
        failure.has_broken_the_context().then_some(failure)
    }

    /// The driver.
    pub fn driver(&self) -> &'static Driver {
        self.context.driver
    }
}
