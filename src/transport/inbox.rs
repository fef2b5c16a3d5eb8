//! How work reaches a thread: one lock and at most one wake-up for a whole batch.

use super::waker::{Signal, Waker};
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

struct State<T> {
    items: Vec<T>,
    closed: bool,
}

/// A queue that many threads fill and one thread empties.
pub struct Inbox<T, S: Signal = crate::sys::event::EventFd> {
    state: Mutex<State<T>>,
    waker: Arc<Waker<S>>,
}

impl<T, S: Signal> Inbox<T, S> {
    /// An empty queue whose owner sleeps on `waker`.
    pub fn new(waker: Arc<Waker<S>>) -> Inbox<T, S> {
        Inbox { state: Mutex::new(State { items: Vec::new(), closed: false }), waker }
    }

    /// Adds a batch.
    ///
    /// # Errors
    /// The batch itself, when the owner is gone.
    pub fn push(&self, batch: Vec<T>) -> Result<(), Vec<T>> {
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(batch);
            }
            if state.items.is_empty() {
                state.items = batch;
            } else {
                state.items.extend(batch);
            }
        }
        self.waker.wake();
        Ok(())
    }

    /// Owner only: moves everything behind what is in `into`.
    pub fn drain(&self, into: &mut VecDeque<T>) {
        let items = std::mem::take(&mut self.state.lock().items);
        into.extend(items);
    }

    /// Owner only: refuses whatever comes after this, and returns what came before.
    pub fn close(&self) -> Vec<T> {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.items)
    }

    /// What its owner sleeps on.
    pub fn waker(&self) -> &Arc<Waker<S>> {
        &self.waker
    }
}
