//! The C API: the only `extern "C"` functions that leave the library.
//!
//! One file for each noun. `include/raskio.h` is written from these files, one section for each, by
//! `tests/header.rs`: the comments on public items are the specification that C programmers read. Every function
//! checks its pointers, stands behind the panic guard below, and leaves the work to the rest of the crate.
#![allow(unsafe_code, non_camel_case_types)]
// The safety contract of these functions is the C contract, printed once at the head of the header.
#![allow(clippy::missing_safety_doc)]

pub mod batch;
pub mod client;
pub mod error;
pub mod events;
pub mod handle;
mod layout;
pub mod log;
pub mod object;
pub mod op;
mod options;
pub mod read;
pub mod secrets;
pub mod stats;
pub mod status;
pub mod table;
pub mod version;

use crate::error::{Error, ErrorKind, Result};
use error::raskio_error;
use status::{RASKIO_OK, raskio_status};
use std::any::Any;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that returns a status and has an error output.
///
/// The error output is cleared before the body runs and not touched again on success: once the work is submitted, the
/// callback may free the memory that the output lies in.
///
/// # Safety
/// `error_out` is NULL or valid for a write during the call.
unsafe fn status(error_out: *mut *mut raskio_error, body: impl FnOnce() -> Result<()>) -> raskio_status {
    // SAFETY: promised by the caller.
    unsafe { put_optional(error_out, std::ptr::null_mut()) };
    match guard(body) {
        Ok(()) => RASKIO_OK,
        Err(error) => {
            let code = error.kind().code();
            if !error_out.is_null() {
                // SAFETY: not NULL, so valid for a write; a failed call has submitted nothing.
                unsafe { error_out.write(error::into_raw(&error)) };
            }
            code
        }
    }
}

/// Runs the body of a function that returns a status and has no error output.
fn bare_status(body: impl FnOnce() -> Result<()>) -> raskio_status {
    guard(body).map_or_else(|error| error.kind().code(), |()| RASKIO_OK)
}

/// Runs the body of a function that cannot report a failure; `otherwise` is what it returns then.
fn value<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    guard(body).unwrap_or(otherwise)
}

/// No panic crosses the C ABI: it becomes an INTERNAL error.
fn guard<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = format!("a panic inside RaskIO was caught ({}); this is a bug, please report it", said(&*payload));
        ::log::error!(target: "raskio", "{text}");
        Err(Error::new(ErrorKind::Internal, text))
    })
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// The error of a required pointer that is NULL.
fn null(parameter: &str, what: &str) -> Error {
    Error::invalid(format!("{parameter} is NULL; {what} is required"))
}

/// Writes an optional output.
///
/// # Safety
/// `out` is NULL or valid for a write.
unsafe fn put_optional<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: promised by the caller.
        unsafe { out.write(value) };
    }
}

/// Reads a required string.
///
/// # Safety
/// `text` is NULL or ends with NUL, and does not change while the result is used.
unsafe fn text<'a>(text: *const c_char, parameter: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(parameter, "a NUL-ended UTF-8 string"));
    }
    // SAFETY: not NULL; promised by the caller.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|error| {
        Error::invalid(format!("{parameter} is not UTF-8: byte {} does not belong there", error.valid_up_to()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_internal_with_its_message() {
        let mut error = std::ptr::null_mut();
        // SAFETY: the output is a local variable.
        let code = unsafe { status(&mut error, || panic!("{}", String::from("seven"))) };
        assert_eq!(code, ErrorKind::Internal.code());
        // SAFETY: just made by `status`, freed once.
        unsafe {
            let message = CStr::from_ptr(error::raskio_error_message(error)).to_str().unwrap();
            assert!(message.contains("(seven)"), "{message}");
            error::raskio_error_free(error);
        }
        assert_eq!(bare_status(|| panic!("eight")), ErrorKind::Internal.code());
        assert_eq!(value(9, || panic!("nine")), 9);
    }

    #[test]
    fn the_error_output_is_cleared_on_success_and_written_on_failure() {
        let mut error = std::ptr::dangling_mut();
        // SAFETY: the output is a local variable.
        assert_eq!(unsafe { status(&mut error, || Ok(())) }, RASKIO_OK);
        assert!(error.is_null());
        // SAFETY: as above; the error is freed once.
        unsafe {
            let code = status(&mut error, || Err(Error::invalid("no\0thing")));
            assert_eq!((code, error::raskio_error_status(error)), (1, 1));
            let message = CStr::from_ptr(error::raskio_error_message(error));
            assert_eq!(message.to_str().unwrap(), "no\u{fffd}thing", "a NUL inside is replaced, not a cut");
            error::raskio_error_free(error);
            assert_eq!(status(std::ptr::null_mut(), || Err(Error::invalid("unseen"))), 1);
        }
    }
}
