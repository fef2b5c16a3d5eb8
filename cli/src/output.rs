//! Results on standard output, everything else on standard error.

use crate::failure::{Failure, Outcome};
use serde_json::Value;
use std::io::Write;

/// How results are written.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// One object a line, instead of text.
    pub json: bool,
}

/// A line on standard output. A reader that has gone, as `head` does, ends the program quietly.
pub fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(i32::from(crate::failure::code::SIGNAL) + signal_hook::consts::SIGPIPE);
    }
}

/// A line on standard error, if that is there.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

impl Output {
    /// A result: as JSON, or as text.
    pub fn result(&self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        print(&if self.json { json().to_string() } else { text() });
    }

    /// Reports a failure of one thing out of several, and hands it on.
    pub fn failed(&self, what: &str, failure: Failure) -> Failure {
        say(&format!("raskio: error: {}", failure.message));
        if self.json {
            print(&serde_json::json!({"object": what, "error": failure.json()}).to_string());
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
