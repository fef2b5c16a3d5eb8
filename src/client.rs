//! The composition root: the only file that knows every part.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::object::{Object, ObjectOptions};
use crate::stats::Snapshot;
use std::sync::Arc;
use std::time::Duration;

/// Owns threads, caches and limits.
pub struct Client {}

impl Client {
    /// A client with these settings. Threads start with the first operation. `on_shut_down` runs once, on a RaskIO thread, as the last callback.
    ///
    /// # Errors
    /// UNSUPPORTED when the libcurl in use lacks what is needed.
    pub fn new(config: Config, on_shut_down: Option<Box<dyn FnOnce() + Send>>) -> Result<Arc<Client>> {
        let _ = (config, on_shut_down);
        todo!()
    }

    /// The process-wide client, made on first use from the environment alone; a forked child gets its own.
    pub fn process_default() -> Result<Arc<Client>> {
        todo!()
    }

    /// Ok, or FORKED in a child process that inherited this client. Takes no lock.
    pub fn check_process(&self) -> Result<()> {
        todo!()
    }

    /// Opens an object; no network I/O.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, UNSUPPORTED, SHUT_DOWN, FORKED.
    pub fn open(self: &Arc<Self>, url: &str, options: ObjectOptions) -> Result<Arc<Object>> {
        let _ = (url, options);
        todo!()
    }

    /// Ends every operation with SHUT_DOWN and stops the threads.
    ///
    /// # Errors
    /// TIMED_OUT, WOULD_DEADLOCK, FORKED.
    pub fn shut_down(&self, timeout: Option<Duration>) -> Result<()> {
        let _ = timeout;
        Err::<(), Error>(todo!())
    }

    /// Gives back idle memory and connections.
    pub fn trim(&self) {
        todo!()
    }

    /// The counters now.
    pub fn stats(&self) -> Snapshot {
        todo!()
    }
}
