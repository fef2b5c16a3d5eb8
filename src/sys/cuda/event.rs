//! Events, as the driver has them: no pool, no owner.

use super::Stream;
use super::context::Current;
use super::library::{Driver, Failure, Outcome};
use cudarc::driver::sys as cu;
use std::ptr;

/// One event, by its handle: whoever owns it must eventually give it to [`Event::destroy`], or leave it to its context's end.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    handle: usize,
}

impl Event {
    /// A new event of the current context, without a clock: with one each record costs the device a time stamp. Waiting for
    /// it sleeps instead of spinning.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(current: &Current<'_>) -> std::result::Result<Event, Failure> {
        let flags =
            cu::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 | cu::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        let mut event = ptr::null_mut();
        // SAFETY: one writable handle is passed, and a context is current.
        unsafe { current.driver().cuEventCreate(&mut event, flags) }?;
        Ok(Event { handle: event as usize })
    }

    /// It is done when everything is that `stream` has been given so far.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self, current: &Current<'_>, stream: &Stream) -> Outcome {
        // SAFETY: both handles came from the driver, which checks them.
        unsafe { current.driver().cuEventRecord(self.raw(), stream.raw()) }
    }

    /// Whether it is done. One that was never recorded is.
    ///
    /// # Errors
    /// What the driver says, also of work that failed since.
    pub fn is_done(&self, driver: &Driver) -> std::result::Result<bool, Failure> {
        // SAFETY: the handle came from the driver, which checks it.
        match unsafe { driver.cuEventQuery(self.raw()) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_not_ready() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Waits until it is done.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait(&self, driver: &Driver) -> Outcome {
        // SAFETY: the handle came from the driver, which checks it.
        unsafe { driver.cuEventSynchronize(self.raw()) }
    }

    /// Its end. Work that it was recorded behind goes on.
    ///
    /// # Errors
    /// What the driver says; it is gone anyway.
    pub fn destroy(self, driver: &Driver) -> Outcome {
        // SAFETY: the handle came from the driver and is given up here.
        unsafe { driver.cuEventDestroy_v2(self.raw()) }
    }

    fn raw(&self) -> cu::CUevent {
        self.handle as cu::CUevent
    }
}
