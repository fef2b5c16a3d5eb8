//! Where completions run: on the thread that finished the work, or on threads of their own.

use crate::error::Result;
use crate::sync::{Condvar, Mutex};
use crate::sys::process;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// One completion.
pub type Call = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    stop: bool,
    running: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ended: Condvar,
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
        for index in 0..threads {
            let shared = callbacks.shared.clone();
            shared.state.lock().running += 1;
            let of_thread = shared.clone();
            if let Err(error) = process::spawn(format!("raskio-done-{index}"), move || of_thread.run()) {
                shared.state.lock().running -= 1;
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

    /// Waits until they have; false if `deadline` came first.
    pub fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.shared.state.lock();
        while state.running > 0 {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            state = self.shared.ended.wait_until(state, deadline);
        }
        true
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
                state.running -= 1;
                self.ended.notify_all();
                return;
            } else {
                state = self.changed.wait(state);
            }
        }
    }
}
