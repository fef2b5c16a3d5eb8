//! The end of the process: every client's threads stop before libcurl and OpenSSL are taken down under them.

use crate::sync::Mutex;
use crate::sys::per_process::PerProcess;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long the exit waits for threads, one of which may be inside a callback of the host. What is not over then ends
/// with the process.
const PATIENCE: Duration = Duration::from_secs(2);

static EXITING: AtomicBool = AtomicBool::new(false);
static THREADS: PerProcess<Mutex<Vec<Weak<dyn Threads>>>> = PerProcess::new();

/// Threads of one kind of one client. They own it, so that it lasts as long as any of them, also after their client.
pub trait Threads: Send + Sync {
    /// They stop where they are, without another callback. Does not wait.
    fn abandon(&self);
    /// Waits until every thread but the calling one is over; false if `deadline` came first.
    fn wait_stopped(&self, deadline: Option<Instant>) -> bool;
}

/// Whether the process is on its way out: no callback is begun any more, the host may be half gone.
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire)
}

/// Has these threads stopped when the process exits.
pub fn watch(threads: Arc<dyn Threads>) {
    let mut all = THREADS.get_or_make(Mutex::default).0.lock();
    all.retain(|threads| threads.strong_count() > 0);
    all.push(Arc::downgrade(&threads));
}

/// The exit handler.
pub fn stop_everything() {
    // Registered twice, so that it may come before others: what did not stop in time does not get as much time again.
    let patience = if EXITING.swap(true, Ordering::AcqRel) { Duration::ZERO } else { PATIENCE };
    let deadline = Instant::now() + patience;
    // In a child that was forked and exits: its own clients alone, since the parent's threads do not exist here.
    let Some(all) = THREADS.get() else { return };
    let all: Vec<Arc<dyn Threads>> = all.lock().iter().filter_map(Weak::upgrade).collect();
    all.iter().for_each(|threads| threads.abandon());
    for threads in all {
        threads.wait_stopped(Some(deadline));
        // Dropping what a stopped client owns is the end of the process's business.
        std::mem::forget(threads);
    }
}
