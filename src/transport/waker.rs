//! Waking one thread: sticky, coalesced, and free while the thread is awake.

use crate::sync::atomic::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// Ends a sleep from any thread.
pub trait Signal: Send + Sync {
    /// Ends the sleep that is going on, or the next one.
    fn signal(&self);
    /// Takes that back.
    fn clear(&self);
}

impl Signal for crate::sys::event::EventFd {
    fn signal(&self) {
        crate::sys::event::EventFd::signal(self);
    }
    fn clear(&self) {
        crate::sys::event::EventFd::clear(self);
    }
}

/// The state of one thread that sleeps: a wake-up while it is awake costs one atomic write and no system call, and is
/// remembered, so that there is nothing to check again between deciding to sleep and sleeping.
#[derive(Debug)]
pub struct Waker<S: Signal = crate::sys::event::EventFd> {
    state: AtomicU8,
    signal: S,
}

impl<S: Signal> Waker<S> {
    /// For a thread that is awake.
    pub fn new(signal: S) -> Waker<S> {
        Waker { state: AtomicU8::new(AWAKE), signal }
    }

    /// Has the thread look around once more. From any thread.
    pub fn wake(&self) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            self.signal.signal();
        }
    }

    /// Owner only: true if it may sleep now, false if it was woken since it last looked around.
    pub fn may_sleep(&self) -> bool {
        if self.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        // A swap, not a store: it reads the wake-up it takes back, so what was done before that wake-up is seen after it.
        self.state.swap(AWAKE, Ordering::AcqRel);
        false
    }

    /// Owner only: the sleep is over, for whatever reason.
    pub fn awake(&self) {
        if self.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED {
            self.signal.clear();
        }
    }

    /// What its sleep must watch.
    pub fn signal(&self) -> &S {
        &self.signal
    }
}
