//! Status
//!
//! One integer that names the cause, so that a program can branch on it. New numbers may be added; treat one that you
//! do not know as a failure. What the server, the system and libcurl report becomes a status by this table; HTTP
//! status and errno stay readable in the error object. "HTTP" means a status that is not the one asked for.
//!
//! ```text
//! HTTP     401 403                            RASKIO_ERR_PERMISSION_DENIED
//! HTTP     404 410                            RASKIO_ERR_NOT_FOUND
//! HTTP     408                                RASKIO_ERR_TIMED_OUT
//! HTTP     412                                RASKIO_ERR_OBJECT_CHANGED
//! HTTP     416                                RASKIO_ERR_RANGE
//! HTTP     429 500-599                        RASKIO_ERR_UNAVAILABLE
//! HTTP     other                              RASKIO_ERR_HTTP
//! errno    ENOENT ENOTDIR                     RASKIO_ERR_NOT_FOUND
//! errno    EACCES EPERM EROFS                 RASKIO_ERR_PERMISSION_DENIED
//! errno    ENOMEM                             RASKIO_ERR_OUT_OF_MEMORY
//! errno    ETIMEDOUT                          RASKIO_ERR_TIMED_OUT
//! errno    ECONNREFUSED ECONNRESET            RASKIO_ERR_CONNECTION
//! errno    ECONNABORTED EPIPE EHOSTUNREACH    RASKIO_ERR_CONNECTION
//! errno    ENETUNREACH ENETDOWN               RASKIO_ERR_CONNECTION
//! errno    EINVAL EISDIR ENAMETOOLONG         RASKIO_ERR_INVALID_ARGUMENT
//! errno    ENOSYS EOPNOTSUPP                  RASKIO_ERR_UNSUPPORTED
//! errno    other                              RASKIO_ERR_IO
//! CURLcode UNSUPPORTED_PROTOCOL NOT_BUILT_IN  RASKIO_ERR_UNSUPPORTED
//! CURLcode URL_MALFORMAT                      RASKIO_ERR_INVALID_ARGUMENT
//! CURLcode COULDNT_RESOLVE_PROXY              RASKIO_ERR_CONNECTION
//! CURLcode COULDNT_RESOLVE_HOST               RASKIO_ERR_CONNECTION
//! CURLcode COULDNT_CONNECT WEIRD_SERVER_REPLY RASKIO_ERR_CONNECTION
//! CURLcode PARTIAL_FILE GOT_NOTHING           RASKIO_ERR_CONNECTION
//! CURLcode SEND_ERROR RECV_ERROR PROXY        RASKIO_ERR_CONNECTION
//! CURLcode OUT_OF_MEMORY                      RASKIO_ERR_OUT_OF_MEMORY
//! CURLcode OPERATION_TIMEDOUT                 RASKIO_ERR_TIMED_OUT
//! CURLcode BAD_FUNCTION_ARGUMENT              RASKIO_ERR_TLS
//! CURLcode SSL_CONNECT_ERROR SSL_CIPHER       RASKIO_ERR_TLS
//! CURLcode SSL_ENGINE_NOTFOUND                RASKIO_ERR_TLS
//! CURLcode SSL_ENGINE_SETFAILED               RASKIO_ERR_TLS
//! CURLcode SSL_ENGINE_INITFAILED              RASKIO_ERR_TLS
//! CURLcode SSL_CERTPROBLEM SSL_CLIENTCERT     RASKIO_ERR_TLS
//! CURLcode PEER_FAILED_VERIFICATION           RASKIO_ERR_TLS
//! CURLcode USE_SSL_FAILED SSL_CACERT_BADFILE  RASKIO_ERR_TLS
//! CURLcode SSL_SHUTDOWN_FAILED                RASKIO_ERR_TLS
//! CURLcode SSL_CRL_BADFILE SSL_ISSUER_ERROR   RASKIO_ERR_TLS
//! CURLcode SSL_PINNEDPUBKEYNOTMATCH           RASKIO_ERR_TLS
//! CURLcode SSL_INVALIDCERTSTATUS              RASKIO_ERR_TLS
//! CURLcode other                              RASKIO_ERR_IO
//! ```

use crate::error::ErrorKind;
use std::ffi::{CStr, c_char};

/// RASKIO_OK or RASKIO_ERR_*.
pub type raskio_status = i32;

/// Success.
pub const RASKIO_OK: raskio_status = 0;
/// It can never work: a NULL, a bad option, a bad range.
pub const RASKIO_ERR_INVALID_ARGUMENT: raskio_status = 1;
/// This version, build or machine cannot do it.
pub const RASKIO_ERR_UNSUPPORTED: raskio_status = 2;
/// raskio_op_cancel won the race.
pub const RASKIO_ERR_CANCELLED: raskio_status = 3;
/// A time limit ran out.
pub const RASKIO_ERR_TIMED_OUT: raskio_status = 4;
/// There is no such object.
pub const RASKIO_ERR_NOT_FOUND: raskio_status = 5;
/// The server or the system refused access.
pub const RASKIO_ERR_PERMISSION_DENIED: raskio_status = 6;
/// The server cannot answer now; attempts are used up.
pub const RASKIO_ERR_UNAVAILABLE: raskio_status = 7;
/// A range wrong, ignored (HTTP status 200), short, too far.
pub const RASKIO_ERR_RANGE: raskio_status = 8;
/// Any other failure of a file, a socket or the system.
pub const RASKIO_ERR_IO: raskio_status = 9;
/// The CUDA driver reported a failure.
pub const RASKIO_ERR_CUDA: raskio_status = 10;
/// Memory could not be had.
pub const RASKIO_ERR_OUT_OF_MEMORY: raskio_status = 11;
/// The client is shut down.
pub const RASKIO_ERR_SHUT_DOWN: raskio_status = 12;
/// A blocking call from inside a callback.
pub const RASKIO_ERR_WOULD_DEADLOCK: raskio_status = 13;
/// The handle is one of this forked process's parent.
pub const RASKIO_ERR_FORKED: raskio_status = 14;
/// A bug in RaskIO: a panic was caught.
pub const RASKIO_ERR_INTERNAL: raskio_status = 15;
/// The object is not the one of earlier replies any more.
pub const RASKIO_ERR_OBJECT_CHANGED: raskio_status = 16;
/// Name look-up failed; refused, reset or closed early.
pub const RASKIO_ERR_CONNECTION: raskio_status = 17;
/// The TLS handshake or the certificate check failed.
pub const RASKIO_ERR_TLS: raskio_status = 18;
/// Any other HTTP status.
pub const RASKIO_ERR_HTTP: raskio_status = 19;

/// The name of a status without its prefix, such as "OK" or "NOT_FOUND"; "unknown" for a number that this library
/// does not know. Static: never free it. Any thread; never blocks; never fails.
#[unsafe(no_mangle)]
pub extern "C" fn raskio_status_name(status: raskio_status) -> *const c_char {
    name(status).as_ptr()
}

fn name(status: raskio_status) -> &'static CStr {
    let Some(kind) = ErrorKind::from_code(status) else {
        return if status == RASKIO_OK { c"OK" } else { c"unknown" };
    };
    match kind {
        ErrorKind::InvalidArgument => c"INVALID_ARGUMENT",
        ErrorKind::Unsupported => c"UNSUPPORTED",
        ErrorKind::Cancelled => c"CANCELLED",
        ErrorKind::TimedOut => c"TIMED_OUT",
        ErrorKind::NotFound => c"NOT_FOUND",
        ErrorKind::PermissionDenied => c"PERMISSION_DENIED",
        ErrorKind::Unavailable => c"UNAVAILABLE",
        ErrorKind::Range => c"RANGE",
        ErrorKind::Io => c"IO",
        ErrorKind::Cuda => c"CUDA",
        ErrorKind::OutOfMemory => c"OUT_OF_MEMORY",
        ErrorKind::ShutDown => c"SHUT_DOWN",
        ErrorKind::WouldDeadlock => c"WOULD_DEADLOCK",
        ErrorKind::Forked => c"FORKED",
        ErrorKind::Internal => c"INTERNAL",
        ErrorKind::ObjectChanged => c"OBJECT_CHANGED",
        ErrorKind::Connection => c"CONNECTION",
        ErrorKind::Tls => c"TLS",
        ErrorKind::Http => c"HTTP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_error_kinds() {
        for kind in ErrorKind::ALL {
            assert_eq!(name(kind.code()).to_str(), Ok(kind.name()));
        }
        for (status, expected) in [(RASKIO_OK, c"OK"), (20, c"unknown"), (-1, c"unknown"), (i32::MIN, c"unknown")] {
            assert_eq!(name(status), expected);
        }
    }
}
