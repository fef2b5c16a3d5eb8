//! Results on standard output, everything else on standard error.

use crate::failure::{Failure, Outcome};
use raskio::endpoint::redact;
use serde_json::Value;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// How results are written.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// One object a line, instead of text.
    pub json: bool,
    /// Standard output holds the bytes of an object: results go to standard error.
    pub aside: bool,
}

/// A line on standard output. A reader that has gone, as `head` does, ends the program quietly; a disk that is full does not.
pub fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(Failure::reader_gone().code.into());
    }
    say(&format!("raskio: error: cannot write to standard output: {error}"));
    std::process::exit(crate::failure::code::FAILED.into());
}

/// A line on standard error, if that is there. What others named or said, such as a server, does not get to command the
/// terminal.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", tame(line));
}

/// Without characters that command a terminal, but ends of lines.
pub fn tame(text: &str) -> String {
    let tame = |c: char| if c.is_control() && c != '\n' { c.escape_default().to_string() } else { c.into() };
    text.chars().map(tame).collect()
}

/// A path as it is shown: a file's name may hold anything.
pub fn path(path: &Path) -> String {
    redact::printable(&path.to_string_lossy(), 4096)
}

impl Output {
    /// A result: as JSON, or as text.
    pub fn result(&self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        self.line(&if self.json { json().to_string() } else { tame(&text()) });
    }

    fn line(&self, line: &str) {
        if self.aside { say(line) } else { print(line) }
    }

    /// Reports a failure of one thing out of several, and hands it on.
    pub fn failed(&self, what: &str, failure: Failure) -> Failure {
        if failure.message.is_empty() {
            return failure;
        }
        say(&format!("raskio: error: {}", failure.message));
        if self.json {
            self.line(&serde_json::json!({"object": what, "error": failure.json()}).to_string());
        }
        failure
    }
}

/// RaskIO's log, until the process ends.
pub fn log_to_stderr(level: log::LevelFilter) -> Outcome<()> {
    let hook = Box::new(|record: &log::Record<'_>| {
        say(&format!("raskio: {}: {}", record.level().as_str().to_ascii_lowercase(), record.args()));
    });
    Ok(raskio::log::set_hook(Some(hook), level)?)
}
