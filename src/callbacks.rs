//! Where completions run: on the thread that finished the work, or on threads of their own.

use crate::error::Result;
use crate::exit::{self, Threads};
use crate::sync::{Condvar, Mutex};
use crate::thread_group::ThreadGroup;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// One completion.
pub type Call = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    threads: ThreadGroup,
}

/// The threads that run completions; without any, whoever brings one runs it.
pub struct Callbacks {
    threads: u32,
    shared: Arc<Shared>,
}

impl Callbacks {
    /// Starts this many threads.
    ///
    /// # Errors
    /// IO when the system cannot make one.
    pub fn start(threads: u32) -> Result<Callbacks> {
        let callbacks = Callbacks { threads, shared: Arc::default() };
        if threads > 0 {
            exit::watch(callbacks.shared.clone());
        }
        for index in 0..threads {
            let shared = callbacks.shared.clone();
            let name = format!("raskio-done-{index}");
            let started = ThreadGroup::spawn(&callbacks.shared, |shared| &shared.threads, &name, move || shared.run());
            if let Err(error) = started {
                callbacks.stop();
                return Err(error);
            }
        }
        Ok(callbacks)
    }

    /// Runs `call`, here or there.
    pub fn run(&self, call: Call) {
        if self.threads == 0 {
            return call();
        }
        self.shared.state.lock().calls.push_back(call);
        self.shared.changed.notify_one();
    }

    /// The threads end when they have run what there is.
    pub fn stop(&self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_all();
    }

    /// Waits until every thread but the calling one has ended; false if `deadline` came first.
    pub fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.shared.wait_stopped(deadline)
    }
}

impl Threads for Shared {
    /// The threads end after what they run now. What waits is never run, nor dropped: it is the host's, which may be
    /// half gone.
    fn abandon(&self) {
        let mut state = self.state.lock();
        // One by one: the queue itself is RaskIO's, and is freed with the rest if the client had ended before.
        state.calls.drain(..).for_each(std::mem::forget);
        state.stop = true;
        drop(state);
        self.changed.notify_all();
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.threads.wait_ended(deadline)
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(call) = state.calls.pop_front() {
                drop(state);
                call();
                state = self.state.lock();
            } else if state.stop {
                return;
            } else {
                state = self.changed.wait(state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_of_a_process_leaks_nothing_of_a_client_that_had_ended() {
        let shared = Shared::default();
        shared.state.lock().calls.push_back(Box::new(|| {}));
        let call = shared.state.lock().calls.pop_front();
        let room = shared.state.lock().calls.capacity();
        drop(call);
        shared.abandon();
        assert!(room > 0);
        assert_eq!(shared.state.lock().calls.capacity(), room, "the queue's memory is lost");
    }
}
