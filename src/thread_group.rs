//! Threads that somebody waits for.

use crate::error::Result;
use crate::sync::{Condvar, Mutex};
use crate::sys::process;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

/// Counts threads. Part of what they share, which lasts as long as any of them.
#[derive(Default)]
pub struct ThreadGroup {
    count: Mutex<Count>,
    ended: Condvar,
}

#[derive(Default)]
struct Count {
    running: usize,
    /// Of those: inside the system, for as long as that likes.
    away: usize,
}

thread_local! {
    /// The group that this thread belongs to, by address; 0: none.
    static MINE: Cell<usize> = const { Cell::new(0) };
}

fn address(group: &ThreadGroup) -> usize {
    std::ptr::from_ref(group) as usize
}

impl ThreadGroup {
    /// Starts a thread with this body, in the group of `shared`, which it holds until it is no longer counted.
    ///
    /// # Errors
    /// IO when the system cannot make a thread.
    pub fn spawn<T: Send + Sync + 'static>(
        shared: &Arc<T>,
        group: fn(&T) -> &ThreadGroup,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let of_thread = shared.clone();
        group(shared).count.lock().running += 1;
        let started = process::spawn(name, move || {
            let group = group(&of_thread);
            MINE.with(|mine| mine.set(address(group)));
            body();
            group.count.lock().running -= 1;
            group.ended.notify_all();
        });
        if started.is_err() {
            group(shared).count.lock().running -= 1;
        }
        started
    }

    /// Makes a call of the system's that may last for ever, on a thread of this group. It must not panic.
    pub fn away<R>(&self, call: impl FnOnce() -> R) -> R {
        self.count.lock().away += 1;
        self.ended.notify_all();
        let result = call();
        self.count.lock().away -= 1;
        result
    }

    /// Waits until every thread but the calling one has ended; false if `deadline` came first.
    pub fn wait_ended(&self, deadline: Option<Instant>) -> bool {
        self.wait(deadline, |count| count.running)
    }

    /// Waits until every thread but the calling one has ended or is [`away`](ThreadGroup::away); false if `deadline` came first.
    pub fn wait_ended_or_away(&self, deadline: Option<Instant>) -> bool {
        self.wait(deadline, |count| count.running - count.away)
    }

    fn wait(&self, deadline: Option<Instant>, left: fn(&Count) -> usize) -> bool {
        let own = usize::from(MINE.with(Cell::get) == address(self));
        let mut count = self.count.lock();
        while left(&count) > own {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            count = self.ended.wait_until(count, deadline);
        }
        true
    }
}
