//! No fork while a thread is inside libcurl.
//!
//! A fork copies locks as they are. RaskIO's own are of no harm, since a child makes everything anew; but OpenSSL keeps
//! locks for the whole process, and one that another thread held at that moment stays locked in the child for ever. So
//! whoever forks waits until RaskIO's threads are outside, which they are within a millisecond or so.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Forks that are under way: between the prepare handler and the parent's or child's.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// Threads inside, spread over several counters: one would travel from core to core on every call.
static INSIDE: [Counter; 16] = [const { Counter(AtomicU32::new(0)) }; 16];
static NEXT: AtomicU32 = AtomicU32::new(0);
/// A fork waits no longer: something inside hangs, and hanging along would help nobody.
const PATIENCE: Duration = Duration::from_secs(1);

#[repr(align(128))]
struct Counter(AtomicU32);

thread_local! {
    /// This thread's counter, and how deep inside it is: libcurl calls back, and what it calls may call libcurl.
    static HERE: Cell<(Option<usize>, u32)> = const { Cell::new((None, 0)) };
}

/// A thread is inside libcurl.
pub struct Inside(());

impl Inside {
    /// Waits until no fork is under way.
    pub fn enter() -> Inside {
        let (counter, depth) = HERE.get();
        let counter = counter.unwrap_or_else(|| NEXT.fetch_add(1, SeqCst) as usize % INSIDE.len());
        HERE.set((Some(counter), depth + 1));
        if depth == 0 {
            loop {
                INSIDE[counter].0.fetch_add(1, SeqCst);
                if FORKING.load(SeqCst) == 0 {
                    break;
                }
                INSIDE[counter].0.fetch_sub(1, SeqCst);
                pause();
            }
        }
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let (counter, depth) = HERE.get();
        HERE.set((counter, depth - 1));
        if depth == 1 {
            if let Some(counter) = counter {
                INSIDE[counter].0.fetch_sub(1, SeqCst);
            }
        }
    }
}

fn pause() {
    // Not `std::thread::sleep`: this runs in a fork handler too, where nothing but system calls is sure to work.
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
    // SAFETY: one readable timespec is passed.
    unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
}

/// In the forking thread, before the fork: keeps everybody out and waits until they are.
pub fn before_fork() {
    FORKING.fetch_add(1, SeqCst);
    // A callback inside libcurl may fork: then this thread is inside itself.
    let own = u32::from(HERE.get().1 > 0);
    let began = Instant::now();
    while INSIDE.iter().map(|counter| counter.0.load(SeqCst)).sum::<u32>() > own && began.elapsed() < PATIENCE {
        pause();
    }
}

/// Whether a fork is under way.
pub fn is_forking() -> bool {
    FORKING.load(SeqCst) > 0
}

/// In the parent, after the fork.
pub fn after_fork_in_parent() {
    FORKING.fetch_sub(1, SeqCst);
}

/// In the child: nobody else is there. Atomics only.
pub fn after_fork_in_child() {
    FORKING.store(0, SeqCst);
    let (counter, depth) = HERE.get();
    for (index, inside) in INSIDE.iter().enumerate() {
        inside.0.store(u32::from(depth > 0 && counter == Some(index)), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Forks of other tests of this process would be in the way: one test for all.
    #[test]
    fn a_fork_waits_for_who_is_inside_and_nobody_gets_in_meanwhile() {
        let (entered, forked) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let inside = Inside::enter();
            let again = Inside::enter();
            let forking = scope.spawn(|| {
                before_fork();
                forked.store(true, SeqCst);
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!forked.load(SeqCst), "a thread was inside");
            drop(again);
            std::thread::sleep(Duration::from_millis(50));
            assert!(!forked.load(SeqCst), "it still was");
            drop(inside);
            forking.join().unwrap();
            let entering = scope.spawn(|| {
                let _inside = Inside::enter();
                entered.store(true, SeqCst);
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!entered.load(SeqCst), "a fork is under way");
            after_fork_in_parent();
            entering.join().unwrap();
        });
        // One who forks from inside does not wait for itself.
        let _inside = Inside::enter();
        let began = Instant::now();
        before_fork();
        after_fork_in_parent();
        assert!(began.elapsed() < PATIENCE / 2);
    }
}
