//! What the server saw: counts, the log of requests, and waiting for either.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::request::RequestInfo;

/// Counts at one moment. `/ctl/…` requests and connections that begin with one are in none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests whose head arrived.
    pub requests: u64,
    /// GETs among them.
    pub gets: u64,
    /// HEADs among them.
    pub heads: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections that are open now.
    pub open_connections: u64,
    /// Requests being answered now: from the arrival of the head until the last bytes of the reply are handed to the
    /// kernel, or until the server notices that the client is gone. Counted down just *before* the last bytes (at most 16
    /// KiB) are written, so that a client which sends its next request as soon as it has a reply is never counted twice.
    pub in_flight: u64,
    /// The most that were in flight at once.
    pub max_in_flight: u64,
    /// Replies sent completely.
    pub completed: u64,
    /// Replies that the client did not wait for.
    pub aborted: u64,
    /// Replies that the script broke off.
    pub cut: u64,
}

/// How the answer to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    Aborted,
    Cut,
}

#[derive(Default)]
struct State {
    counts: Counts,
    log: Vec<Arc<RequestInfo>>,
    waiters: usize,
}

pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
    max_log: usize,
}

impl Watch {
    pub(crate) fn new(max_log: usize) -> Watch {
        Watch { state: Mutex::default(), changed: Condvar::new(), max_log }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap();
        change(&mut state);
        if state.waiters > 0 {
            self.changed.notify_all();
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().unwrap().counts
    }

    pub(crate) fn log(&self) -> Vec<Arc<RequestInfo>> {
        self.state.lock().unwrap().log.clone()
    }

    /// Forgets the log and all counts but those of what is open and in flight.
    pub(crate) fn reset(&self) {
        self.change(|state| {
            state.log.clear();
            let Counts { open_connections, in_flight, .. } = state.counts;
            state.counts = Counts { open_connections, in_flight, max_in_flight: in_flight, ..Counts::default() };
        });
    }

    pub(crate) fn wait_for(&self, condition: impl Fn(&Counts) -> bool, timeout: Duration) -> bool {
        let mut state = self.state.lock().unwrap();
        state.waiters += 1;
        let waited = self.changed.wait_timeout_while(state, timeout, |state| !condition(&state.counts));
        let (mut state, result) = waited.unwrap();
        state.waiters -= 1;
        !result.timed_out()
    }

    /// Counts a connection for as long as the returned value lives.
    pub(crate) fn connected(self: &Arc<Watch>) -> Connected {
        self.change(|state| {
            state.counts.connections += 1;
            state.counts.open_connections += 1;
        });
        Connected { watch: self.clone(), counted: true }
    }

    /// Logs a request and counts it as in flight until the ticket is finished.
    pub(crate) fn arrived(self: &Arc<Watch>, request: &Arc<RequestInfo>) -> Ticket {
        self.change(|state| {
            let counts = &mut state.counts;
            counts.requests += 1;
            counts.gets += u64::from(request.method == "GET");
            counts.heads += u64::from(request.method == "HEAD");
            counts.in_flight += 1;
            counts.max_in_flight = counts.max_in_flight.max(counts.in_flight);
            if state.log.len() < self.max_log {
                state.log.push(request.clone());
            }
        });
        Ticket { watch: Some(self.clone()) }
    }
}

pub(crate) struct Connected {
    watch: Arc<Watch>,
    counted: bool,
}

impl Connected {
    /// Takes the connection out of the counts.
    pub(crate) fn forget(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.watch.change(|state| {
                state.counts.connections = state.counts.connections.saturating_sub(1);
                state.counts.open_connections -= 1;
            });
        }
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if self.counted {
            self.watch.change(|state| state.counts.open_connections -= 1);
        }
    }
}

/// One request in flight. Dropped unfinished it counts as aborted.
pub(crate) struct Ticket {
    /// Taken by the first outcome.
    watch: Option<Arc<Watch>>,
}

impl Ticket {
    /// For a request that is in no count.
    pub(crate) fn uncounted() -> Ticket {
        Ticket { watch: None }
    }

    /// Only the first call counts.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        let Some(watch) = self.watch.take() else { return };
        watch.change(|state| {
            state.counts.in_flight -= 1;
            match outcome {
                Outcome::Completed => state.counts.completed += 1,
                Outcome::Aborted => state.counts.aborted += 1,
                Outcome::Cut => state.counts.cut += 1,
            }
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.finish(Outcome::Aborted);
    }
}
