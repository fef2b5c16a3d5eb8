//! Locks that ThreadSanitizer can follow, for its test build alone.
//!
//! `std` comes compiled without it: whoever gets one of `std`'s locks only after waiting does so in code that the sanitizer
//! does not see, and every access after that looks like a race. `try_lock` is compiled into this crate, and seen.
#![allow(missing_docs)]

use atomic::{AtomicU64, Ordering};
use std::ops::{Deref, DerefMut};
pub use std::sync::atomic;
use std::sync::{LockResult, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long a waiter sleeps before it looks again.
const NAP: Duration = Duration::from_micros(50);

#[derive(Debug, Default)]
pub(super) struct Mutex<T>(std::sync::Mutex<T>);

pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    held: std::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(held) => return Ok(MutexGuard { mutex: self, held }),
                // As the caller does: poisoning is ignored.
                Err(TryLockError::Poisoned(error)) => return Ok(MutexGuard { mutex: self, held: error.into_inner() }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(NAP),
            }
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

/// Wakes every waiter at each notification, which a condition may do, and which finds more.
#[derive(Debug, Default)]
pub(super) struct Condvar {
    notified: AtomicU64,
}

impl Condvar {
    pub(super) fn new() -> Condvar {
        Condvar::default()
    }

    pub(super) fn notify_one(&self) {
        self.notify_all();
    }

    pub(super) fn notify_all(&self) {
        // Relaxed: a condition orders nothing, its lock does.
        self.notified.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.nap(guard, Duration::MAX)
    }

    pub(super) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        self.nap(guard, limit).map(|guard| (guard, ())).map_err(|error| PoisonError::new((error.into_inner(), ())))
    }

    fn nap<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> LockResult<MutexGuard<'a, T>> {
        let (began, seen, mutex) = (Instant::now(), self.notified.load(Ordering::Relaxed), guard.mutex);
        drop(guard);
        while self.notified.load(Ordering::Relaxed) == seen && began.elapsed() < limit {
            std::thread::sleep(NAP);
        }
        mutex.lock()
    }
}
