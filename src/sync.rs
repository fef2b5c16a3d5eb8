//! Locks and atomics: `std`'s, or loom's under `--cfg loom`, behind one small face. Under ThreadSanitizer, ones that it
//! can follow.
//!
//! Why `std` and not `parking_lot`: `parking_lot` parks threads in one table for the whole process, whose bucket locks
//! a `fork` in another thread can leave locked for ever in the child. `std`'s locks are one futex word each, so the
//! locks of a client made in the child are free of the parent's. Poisoning is ignored: every panic is caught at its
//! thread's or the ABI's edge, and the state behind each lock is consistent at every point where user code can run.

#[cfg(all(not(loom), not(raskio_sanitizer = "thread")))]
mod imp {
    pub use std::sync::atomic;
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}
#[cfg(raskio_sanitizer = "thread")]
#[path = "sync/watched.rs"]
mod imp;
#[cfg(loom)]
mod imp {
    pub use loom::sync::atomic;
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

use atomic::Ordering::Relaxed;
pub use imp::atomic;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// A mutual exclusion lock without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

/// The right to use what a [`Mutex`] protects.
pub type Guard<'a, T> = imp::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(imp::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition to wait for under a [`Mutex`], which must be held when it changes. `std`'s makes a system call each time it
/// is notified, whether anybody waits or not: two a request, a sixth of the CPU of a 4 KiB read.
#[derive(Debug)]
pub struct Condvar {
    inner: imp::Condvar,
    /// Changed under the mutex: who notifies after the condition has changed sees everyone who looked at it before.
    waiters: atomic::AtomicUsize,
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl Condvar {
    /// A condition that nobody waits for.
    pub fn new() -> Condvar {
        Condvar { inner: imp::Condvar::new(), waiters: atomic::AtomicUsize::new(0) }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        if self.waiters.load(Relaxed) > 0 {
            self.inner.notify_one();
        }
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        if self.waiters.load(Relaxed) > 0 {
            self.inner.notify_all();
        }
    }

    /// Waits until woken (or spuriously).
    pub fn wait<'a, T>(&self, guard: Guard<'a, T>) -> Guard<'a, T> {
        self.waiters.fetch_add(1, Relaxed);
        let guard = self.inner.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_sub(1, Relaxed);
        guard
    }

    /// Waits until woken or until `deadline` (`None`: no limit). Returns the guard; the caller looks at the clock.
    pub fn wait_until<'a, T>(&self, guard: Guard<'a, T>, deadline: Option<Instant>) -> Guard<'a, T> {
        let Some(deadline) = deadline else { return self.wait(guard) };
        let left = deadline.saturating_duration_since(Instant::now());
        // A day at most, so that an absurd deadline cannot overflow the kernel's clock.
        let left = left.min(Duration::from_secs(86_400));
        self.waiters.fetch_add(1, Relaxed);
        let guard = self.inner.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        self.waiters.fetch_sub(1, Relaxed);
        guard
    }
}
