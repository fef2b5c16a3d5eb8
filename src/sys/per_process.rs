//! A process-wide value that a forked child makes anew.

use crate::sys::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Node<T> {
    generation: u64,
    value: T,
}

/// One value per process, made on first use. A child that inherited its parent's value makes its own and never touches
/// the old one, whose locks may be held by threads that do not exist in the child. Takes no lock itself. Values are
/// never freed: one for each generation of a process that forks and goes on using RaskIO.
pub struct PerProcess<T> {
    node: AtomicPtr<Node<T>>,
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    /// A value that nobody has asked for yet.
    #[allow(clippy::new_without_default)] // for statics, which need `const`
    pub const fn new() -> PerProcess<T> {
        PerProcess { node: AtomicPtr::new(ptr::null_mut()) }
    }

    /// This process's value, and whether this call made it. Threads that come first together may each run `make`; all
    /// get the same value, and the others are dropped.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> (&T, bool) {
        if let Some(value) = self.get() {
            return (value, false);
        }
        // Fails only where memory ran out at start; then nothing but the fork of such a process is unguarded.
        let _ = process::watch_forks();
        let generation = process::generation();
        let fresh = Box::into_raw(Box::new(Node { generation, value: make() }));
        let mut old = self.node.load(Ordering::Acquire);
        loop {
            // SAFETY: a published node is never freed or changed, and `T: Sync`.
            if let Some(node) = unsafe { old.as_ref() }.filter(|node| node.generation == generation) {
                // SAFETY: `fresh` came from a box above and was never published.
                drop(unsafe { Box::from_raw(fresh) });
                return (&node.value, false);
            }
            match self.node.compare_exchange(old, fresh, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: just published: never freed or changed from here on.
                Ok(_) => return (unsafe { &(*fresh).value }, true),
                Err(other) => old = other,
            }
        }
    }

    /// This process's value, if it has been made.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: a published node is never freed or changed, and `T: Sync`.
        let node = unsafe { self.node.load(Ordering::Acquire).as_ref() }?;
        (node.generation == process::generation()).then_some(&node.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn threads_that_come_together_get_one_value() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        struct Value(usize);
        impl Drop for Value {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Ordering::SeqCst);
            }
        }
        // A static, as all of them are: a value that was published is never freed.
        static CELL: PerProcess<Value> = PerProcess::new();
        let (made, start) = (AtomicUsize::new(0), Barrier::new(8));
        let seen: Vec<(usize, bool)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        let (value, mine) = CELL.get_or_make(|| Value(made.fetch_add(1, Ordering::SeqCst)));
                        (value.0, mine)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|(value, _)| *value == seen[0].0), "{seen:?}");
        assert_eq!(seen.iter().filter(|(_, mine)| *mine).count(), 1, "{seen:?}");
        assert_eq!(DROPPED.load(Ordering::SeqCst), made.load(Ordering::SeqCst) - 1, "the others are freed");
    }

    #[test]
    fn a_forked_child_makes_its_own_value() {
        static CELL: PerProcess<i32> = PerProcess::new();
        assert_eq!(CELL.get_or_make(|| 1), (&1, true));
        // SAFETY: the child only runs lock-free code and leaves through _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            let right = CELL.get().is_none() && CELL.get_or_make(|| 2) == (&2, true) && CELL.get() == Some(&2);
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is a valid place.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child saw the parent's value");
        assert_eq!(CELL.get_or_make(|| 3), (&1, false), "the parent keeps its own");
    }
}
