//! What happens on the way of a request, told to a host that wants to know: for its own counters and its own words.

use crate::error::ErrorKind;
use crate::op::call_host;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An attempt failed, and there will be another one.
    Retry {
        /// Why it failed.
        kind: ErrorKind,
        /// What the server said, 0 if it said nothing.
        http_status: u16,
        /// Attempts that have failed by now.
        attempt: u32,
        /// Attempts that there are without progress.
        max_attempts: u32,
        /// Until the next one.
        wait: Duration,
    },
    /// A transfer opened connections.
    Connected {
        /// How many.
        connections: u64,
        /// What looking the name of the last one up took.
        name_lookup: Duration,
        /// And connecting.
        connect: Duration,
        /// And the TLS handshake; zero without one.
        tls: Duration,
    },
}

/// Who is told.
pub type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// Tells the host, if it wants to know.
#[derive(Default)]
pub struct Observer(OnceLock<Listener>);

impl Observer {
    /// From now on this one is told. The first call counts.
    pub fn listen(&self, listener: Listener) {
        let _ = self.0.set(listener);
    }

    /// Tells it. Not while the process ends: the host may be half gone.
    pub fn tell(&self, event: &Event) {
        if let Some(listener) = self.0.get().filter(|_| !crate::exit::is_exiting()) {
            call_host(|| listener(event));
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.0.get().is_some()).finish()
    }
}
