//! Where completions run: on the thread that finished the work, or on threads of their own.

use crate::error::Result;
use crate::exit::{self, Threads};
use crate::sync::{Condvar, Mutex};
use crate::sys::process;
use std::cell::Cell;
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

thread_local! {
    /// The [`Shared`] that this thread belongs to, by address; 0: none.
    static MINE: Cell<usize> = const { Cell::new(0) };
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
        if threads > 0 {
            exit::watch(callbacks.shared.clone());
        }
        for index in 0..threads {
            let shared = callbacks.shared.clone();
            shared.state.lock().running += 1;
            let of_thread = shared.clone();
            if let Err(error) = process::spawn(&format!("raskio-done-{index}"), move || of_thread.run()) {
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
        std::mem::forget(std::mem::take(&mut state.calls));
        state.stop = true;
        drop(state);
        self.changed.notify_all();
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        let own = usize::from(MINE.with(Cell::get) == std::ptr::from_ref(self) as usize);
        let mut state = self.state.lock();
        while state.running > own {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            state = self.ended.wait_until(state, deadline);
        }
        true
    }
}

impl Shared {
    fn run(&self) {
        MINE.with(|mine| mine.set(std::ptr::from_ref(self) as usize));
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
