//! Error objects
//!
//! Every function that can fail for more than one reason takes an optional `error_out`. Pass NULL to go without the
//! detail. Reading an error never blocks; all functions of this section work in a forked child too, and in callbacks.

use super::handle;
use super::status::{RASKIO_OK, raskio_status};
use super::value;
use crate::error::Error;
use std::ffi::{CString, c_char};
use std::sync::Arc;

pub use super::handle::raskio_error;

/// What a `raskio_error` stands for.
pub(super) struct ErrorInner {
    status: raskio_status,
    http_status: i32,
    os_code: i32,
    message: CString,
}

impl ErrorInner {
    fn new(error: &Error) -> ErrorInner {
        // A server's words may hold a NUL; everything behind it would be invisible to C.
        let message = CString::new(error.message().replace('\0', "\u{fffd}")).unwrap_or_default();
        ErrorInner {
            status: error.kind().code(),
            http_status: i32::from(error.http_status()),
            os_code: error.os_code(),
            message,
        }
    }
}

/// A new error object; the one reference is the receiver's.
pub(super) fn into_raw(error: &Error) -> *mut raskio_error {
    handle::into_raw(shared(error))
}

/// A new error object that RaskIO lends to a callback.
pub(super) fn shared(error: &Error) -> Arc<ErrorInner> {
    Arc::new(ErrorInner::new(error))
}

/// The pointer under which C may look at `error` while the Arc lives.
pub(super) fn lend(error: &Arc<ErrorInner>) -> *const raskio_error {
    Arc::as_ptr(error).cast()
}

/// The cause to branch on, RASKIO_ERR_*. RASKIO_OK for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_error_status(error: *const raskio_error) -> raskio_status {
    // SAFETY: NULL, or an error object that the caller may use.
    value(RASKIO_OK, || Ok(unsafe { handle::peek(error) }.map_or(RASKIO_OK, |error| error.status)))
}

/// What happened, to which object, and what can be done: UTF-8, one line, NUL-ended, free of secrets. Belongs to the
/// error object and lives as long as it. An empty string for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_error_message(error: *const raskio_error) -> *const c_char {
    // SAFETY: as above. The text is on the heap and lives as long as the error object.
    value(c"".as_ptr(), || Ok(unsafe { handle::peek(error) }.map_or(c"".as_ptr(), |error| error.message.as_ptr())))
}

/// The HTTP status that caused the error, 0 if none did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_error_http_status(error: *const raskio_error) -> i32 {
    // SAFETY: as above.
    value(0, || Ok(unsafe { handle::peek(error) }.map_or(0, |error| error.http_status)))
}

/// The errno that caused the error, 0 if none did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_error_os_code(error: *const raskio_error) -> i32 {
    // SAFETY: as above.
    value(0, || Ok(unsafe { handle::peek(error) }.map_or(0, |error| error.os_code)))
}

/// Keeps an error beyond the callback that lent it. The result must eventually be given to raskio_error_free.
/// NULL gives NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_error_clone(error: *const raskio_error) -> *mut raskio_error {
    // SAFETY: as above.
    unsafe { handle::acquire(error) }
}

/// Frees an error that came from an `error_out` or from raskio_error_clone; never one that a callback was lent.
/// NULL is accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_error_free(error: *mut raskio_error) {
    value((), || {
        // SAFETY: NULL, or a reference that the caller gives up.
        unsafe { handle::release(error) };
        Ok(())
    });
}
