//! What the handles of one client share: the names that were looked up.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex};
use curl_sys::{CURL, CURLSH};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

/// A lock that libcurl takes and gives back in two calls.
#[derive(Default)]
struct Latch {
    held: Mutex<bool>,
    free: Condvar,
}

/// libcurl numbers what it locks below 16 (CURL_LOCK_DATA_LAST is 8 in 8.22).
const LATCHES: usize = 16;

/// Results of name look-ups, used by the threads of one client. Each handle that uses it keeps it alive.
pub struct Share {
    raw: NonNull<CURLSH>,
    /// Reached by the callbacks through a raw pointer.
    latches: NonNull<[Latch; LATCHES]>,
}

// SAFETY: libcurl guards everything in a share with the locks that it is given.
unsafe impl Send for Share {}
// SAFETY: as above.
unsafe impl Sync for Share {}

impl Share {
    /// An empty one.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, or INTERNAL when libcurl refuses an option.
    pub fn new() -> Result<Arc<Share>> {
        // SAFETY: libcurl is initialised (a client is being made), and null is checked.
        let raw = NonNull::new(unsafe { curl_sys::curl_share_init() })
            .ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "libcurl cannot make a share handle"))?;
        let latches = NonNull::from(Box::leak(Box::<[Latch; LATCHES]>::default()));
        let share = Arc::new(Share { raw, latches });
        let set = |option, value: *mut c_void| {
            // SAFETY: the handle is alive, the functions have the types that the options document, and the latches live
            // as long as the handle.
            match unsafe { curl_sys::curl_share_setopt(share.raw(), option, value) } {
                curl_sys::CURLSHE_OK => Ok(()),
                code => Err(Error::new(ErrorKind::Internal, format!("curl_share_setopt: CURLSHcode {code}"))),
            }
        };
        set(curl_sys::CURLSHOPT_LOCKFUNC, lock as *mut c_void)?;
        set(curl_sys::CURLSHOPT_UNLOCKFUNC, unlock as *mut c_void)?;
        set(curl_sys::CURLSHOPT_USERDATA, latches.as_ptr().cast())?;
        set(curl_sys::CURLSHOPT_SHARE, curl_sys::CURL_LOCK_DATA_DNS as usize as *mut c_void)?;
        Ok(share)
    }

    pub(super) fn raw(&self) -> *mut CURLSH {
        self.raw.as_ptr()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // SAFETY: no handle uses it any more, since each holds a reference; nor do the latches then.
        unsafe {
            if curl_sys::curl_share_cleanup(self.raw.as_ptr()) == curl_sys::CURLSHE_OK {
                drop(Box::from_raw(self.latches.as_ptr()));
            }
        }
    }
}

fn latch<'a>(data: curl_sys::curl_lock_data, user: *mut c_void) -> &'a Latch {
    // SAFETY: `user` is the latches of a share that is in use.
    let latches = unsafe { &*user.cast::<[Latch; LATCHES]>() };
    &latches[data as usize % LATCHES]
}

extern "C" fn lock(_: *mut CURL, data: curl_sys::curl_lock_data, _: c_int, user: *mut c_void) {
    let latch = latch(data, user);
    let mut held = latch.held.lock();
    while *held {
        held = latch.free.wait(held);
    }
    *held = true;
}

extern "C" fn unlock(_: *mut CURL, data: curl_sys::curl_lock_data, user: *mut c_void) {
    let latch = latch(data, user);
    *latch.held.lock() = false;
    latch.free.notify_one();
}
