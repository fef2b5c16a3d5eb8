//! What went wrong: a kind to branch on, a message to read, and the HTTP status or `errno` behind it.

use std::fmt;

/// The cause of a failure. The numbers are the C API's `RASKIO_ERR_*` and never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ErrorKind {
    /// The caller passed something that can never work.
    InvalidArgument = 1,
    /// This build, machine or version cannot do it.
    Unsupported = 2,
    /// The operation was cancelled.
    Cancelled = 3,
    /// A time limit ran out.
    TimedOut = 4,
    /// 404, 410, ENOENT.
    NotFound = 5,
    /// 401, 403, EACCES, EPERM.
    PermissionDenied = 6,
    /// 429 and every 5xx: the server may be able to answer later.
    Unavailable = 7,
    /// A range that was wrong, ignored, short, or beyond the object's end.
    Range = 8,
    /// Any other failure of a file, a socket or the system.
    Io = 9,
    /// The CUDA driver reported a failure.
    Cuda = 10,
    /// Memory could not be had.
    OutOfMemory = 11,
    /// The client is shut down.
    ShutDown = 12,
    /// A blocking call from inside a callback.
    WouldDeadlock = 13,
    /// The handle belongs to the parent of this forked process.
    Forked = 14,
    /// A bug in RaskIO: a panic was caught, or an invariant was broken.
    Internal = 15,
    /// The object is no longer the one that earlier replies described.
    ObjectChanged = 16,
    /// Name look-up failed, or the connection was refused, reset or closed early.
    Connection = 17,
    /// The TLS handshake or the certificate check failed.
    Tls = 18,
    /// Any other HTTP status.
    Http = 19,
}

impl ErrorKind {
    /// Every kind, in numeric order.
    pub const ALL: [ErrorKind; 19] = [
        ErrorKind::InvalidArgument,
        ErrorKind::Unsupported,
        ErrorKind::Cancelled,
        ErrorKind::TimedOut,
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::Unavailable,
        ErrorKind::Range,
        ErrorKind::Io,
        ErrorKind::Cuda,
        ErrorKind::OutOfMemory,
        ErrorKind::ShutDown,
        ErrorKind::WouldDeadlock,
        ErrorKind::Forked,
        ErrorKind::Internal,
        ErrorKind::ObjectChanged,
        ErrorKind::Connection,
        ErrorKind::Tls,
        ErrorKind::Http,
    ];

    /// The number that crosses the C ABI.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The kind with this number, if there is one.
    pub fn from_code(code: i32) -> Option<ErrorKind> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The name as C programs know it, without the `RASKIO_ERR_` prefix.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "INVALID_ARGUMENT",
            ErrorKind::Unsupported => "UNSUPPORTED",
            ErrorKind::Cancelled => "CANCELLED",
            ErrorKind::TimedOut => "TIMED_OUT",
            ErrorKind::NotFound => "NOT_FOUND",
            ErrorKind::PermissionDenied => "PERMISSION_DENIED",
            ErrorKind::Unavailable => "UNAVAILABLE",
            ErrorKind::Range => "RANGE",
            ErrorKind::Io => "IO",
            ErrorKind::Cuda => "CUDA",
            ErrorKind::OutOfMemory => "OUT_OF_MEMORY",
            ErrorKind::ShutDown => "SHUT_DOWN",
            ErrorKind::WouldDeadlock => "WOULD_DEADLOCK",
            ErrorKind::Forked => "FORKED",
            ErrorKind::Internal => "INTERNAL",
            ErrorKind::ObjectChanged => "OBJECT_CHANGED",
            ErrorKind::Connection => "CONNECTION",
            ErrorKind::Tls => "TLS",
            ErrorKind::Http => "HTTP",
        }
    }

    /// The documented mapping of an HTTP status that is not the one that was asked for.
    pub const fn from_http_status(status: u16) -> ErrorKind {
        match status {
            401 | 403 => ErrorKind::PermissionDenied,
            404 | 410 => ErrorKind::NotFound,
            408 => ErrorKind::TimedOut,
            412 => ErrorKind::ObjectChanged,
            416 => ErrorKind::Range,
            429 | 500..=599 => ErrorKind::Unavailable,
            _ => ErrorKind::Http,
        }
    }

    /// The documented mapping of an `errno`.
    pub const fn from_errno(errno: i32) -> ErrorKind {
        match errno {
            libc::ENOENT | libc::ENOTDIR => ErrorKind::NotFound,
            libc::EACCES | libc::EPERM | libc::EROFS => ErrorKind::PermissionDenied,
            libc::ENOMEM => ErrorKind::OutOfMemory,
            libc::ETIMEDOUT => ErrorKind::TimedOut,
            libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::ECONNABORTED
            | libc::EPIPE
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::ENETDOWN => ErrorKind::Connection,
            libc::EINVAL | libc::EISDIR | libc::ENAMETOOLONG => ErrorKind::InvalidArgument,
            libc::ENOSYS | libc::EOPNOTSUPP => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        }
    }

    /// The documented mapping of a libcurl `CURLcode` (numbers from `curl/curl.h`, fixed by its ABI).
    pub const fn from_curl_code(code: u32) -> ErrorKind {
        match code {
            // UNSUPPORTED_PROTOCOL, NOT_BUILT_IN
            1 | 4 => ErrorKind::Unsupported,
            // URL_MALFORMAT
            3 => ErrorKind::InvalidArgument,
            // COULDNT_RESOLVE_PROXY, COULDNT_RESOLVE_HOST, COULDNT_CONNECT, WEIRD_SERVER_REPLY, PARTIAL_FILE,
            // GOT_NOTHING, SEND_ERROR, RECV_ERROR, PROXY
            5 | 6 | 7 | 8 | 18 | 52 | 55 | 56 | 97 => ErrorKind::Connection,
            // OUT_OF_MEMORY
            27 => ErrorKind::OutOfMemory,
            // OPERATION_TIMEDOUT
            28 => ErrorKind::TimedOut,
            // BAD_FUNCTION_ARGUMENT (a client's private key that cannot be used), SSL_CONNECT_ERROR, SSL_ENGINE_*, SSL_CERTPROBLEM, SSL_CIPHER, PEER_FAILED_VERIFICATION, USE_SSL_FAILED,
            // SSL_CACERT_BADFILE, SSL_SHUTDOWN_FAILED, SSL_CRL_BADFILE, SSL_ISSUER_ERROR, SSL_PINNEDPUBKEYNOTMATCH,
            // SSL_INVALIDCERTSTATUS, SSL_CLIENTCERT
            43 | 35 | 53 | 54 | 58 | 59 | 60 | 64 | 66 | 77 | 80 | 82 | 83 | 90 | 91 | 98 => ErrorKind::Tls,
            _ => ErrorKind::Io,
        }
    }
}

/// One failure: a kind, a message that names the object and what can be done, and what lies behind it.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    http_status: u16,
    os_code: i32,
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), http_status: 0, os_code: 0 }
    }

    /// Bad input of the caller.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// A failed system call: the kind follows from `errno`, the message says what was tried.
    pub fn os(what: impl fmt::Display, source: &std::io::Error) -> Error {
        let errno = source.raw_os_error().unwrap_or(0);
        let kind = if errno == 0 { ErrorKind::Io } else { ErrorKind::from_errno(errno) };
        Error::new(kind, format!("{what}: {source}")).with_os_code(errno)
    }

    /// The same error with the HTTP status that caused it.
    pub fn with_http_status(mut self, status: u16) -> Error {
        self.http_status = status;
        self
    }

    /// The same error with the `errno` that caused it.
    pub fn with_os_code(mut self, errno: i32) -> Error {
        self.os_code = errno;
        self
    }

    /// The same error with words put in front of its message.
    pub fn context(mut self, what: impl fmt::Display) -> Error {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The same error with words put behind its message.
    pub fn note(mut self, what: impl fmt::Display) -> Error {
        self.message = format!("{} ({what})", self.message);
        self
    }

    /// The cause to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message, UTF-8, one line, secrets redacted.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The HTTP status behind it, 0 if none.
    pub fn http_status(&self) -> u16 {
        self.http_status
    }

    /// The `errno` behind it, 0 if none.
    pub fn os_code(&self) -> i32 {
        self.os_code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_round_trip() {
        for (i, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.code(), i as i32 + 1);
            assert_eq!(ErrorKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(ErrorKind::from_code(0), None);
        assert_eq!(ErrorKind::from_code(20), None);
    }

    #[test]
    fn context_and_note_keep_the_cause() {
        let error =
            Error::new(ErrorKind::NotFound, "gone").with_http_status(404).context("http://h/x").note("1 attempt");
        assert_eq!(error.to_string(), "NOT_FOUND: http://h/x: gone (1 attempt)");
        assert_eq!(error.http_status(), 404);
    }
}
