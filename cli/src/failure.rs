//! What went wrong, and the exit code that says so.

use raskio::error::Error;
use serde_json::{Value, json};
use std::path::Path;

/// Exit codes.
pub mod code {
    /// An object could not be read, or a file not written.
    pub const FAILED: u8 = 1;
    /// The command line makes no sense.
    pub const USAGE: u8 = 2;
    /// The bytes are not those that were asked for.
    pub const CHECKSUM: u8 = 3;
    /// Stopped by a signal: 128 and its number are the exit code.
    pub const SIGNAL: u8 = 128;
}

/// An end other than success.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// A word for programs: the status of the C API without its prefix, or one of this tool's.
    pub status: String,
    /// A sentence for people.
    pub message: String,
    /// What the server said, 0 if that is not it.
    pub http_status: u16,
}

impl Failure {
    /// With a word and a sentence.
    pub fn new(code: u8, status: &str, message: impl Into<String>) -> Failure {
        Failure { code, status: status.into(), message: message.into(), http_status: 0 }
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(code::USAGE, "USAGE", message)
    }

    /// A file could not be used.
    pub fn file(what: &str, path: &Path, error: &std::io::Error) -> Failure {
        Failure::new(code::FAILED, "FILE", format!("cannot {what} {}: {error}", crate::output::path(path)))
    }

    /// Stopped by a signal.
    pub fn signal(number: i32, message: impl Into<String>) -> Failure {
        Failure::new(code::SIGNAL.saturating_add(number as u8), "INTERRUPTED", message)
    }

    /// Whoever read the output has gone, as `head` does: no error that anybody needs to hear of.
    pub fn reader_gone() -> Failure {
        Failure::signal(signal_hook::consts::SIGPIPE, String::new())
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({"status": self.status, "message": self.message, "http_status": self.http_status, "exit_code": self.code})
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            code: code::FAILED,
            status: error.kind().name().into(),
            message: error.message().into(),
            http_status: error.http_status(),
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        error.clone().into()
    }
}

/// What a command returns.
pub type Outcome<T> = Result<T, Failure>;
