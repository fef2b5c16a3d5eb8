//! State of the whole process that a forked child gets anew.

use super::process;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Slot<T> {
    generation: u64,
    value: T,
}

/// A value made on first use in each process: a child that was forked while another thread held a lock inside it never
/// touches that lock, but gets a value of its own. Those before it are leaked, one a fork.
pub struct PerProcess<T: Sync + 'static> {
    slot: AtomicPtr<Slot<T>>,
    make: fn() -> T,
}

impl<T: Sync> PerProcess<T> {
    /// Nothing is made yet.
    pub const fn new(make: fn() -> T) -> PerProcess<T> {
        PerProcess { slot: AtomicPtr::new(std::ptr::null_mut()), make }
    }

    /// This process's value.
    pub fn get(&self) -> &'static T {
        let mut current = self.slot.load(Ordering::Acquire);
        loop {
            if !current.is_null() {
                // SAFETY: a pointer that was published here came from `Box::into_raw` and is never freed.
                let slot = unsafe { &*current };
                if slot.generation == process::generation() {
                    return &slot.value;
                }
            }
            let fresh = Box::into_raw(Box::new(Slot { generation: process::generation(), value: (self.make)() }));
            match self.slot.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: published just now, never freed.
                Ok(_) => return unsafe { &(*fresh).value },
                Err(other) => {
                    // SAFETY: `fresh` was not published, so nobody else knows it.
                    drop(unsafe { Box::from_raw(fresh) });
                    current = other;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(|| Mutex::new(1));

    #[test]
    fn a_child_gets_a_value_of_its_own_even_if_the_lock_was_held() {
        process::watch_forks().unwrap();
        let mut held = VALUE.get().lock().unwrap();
        *held = 7;
        // SAFETY: the child takes a fresh lock, allocates a little, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let fine = VALUE.get().try_lock().is_ok_and(|value| *value == 1);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        let mut status = 0;
        // SAFETY: one writable int is passed.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(*held, 7);
    }
}
