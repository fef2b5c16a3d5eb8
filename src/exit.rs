//! The end of the process: every client's threads stop before libcurl and OpenSSL are taken down under them.

use crate::sync::Mutex;
use crate::sys::per_process::PerProcess;
use crate::transport::Transport;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long the exit waits for threads, one of which may be inside a callback of the host. What is not over then ends
/// with the process.
const PATIENCE: Duration = Duration::from_secs(2);

static EXITING: AtomicBool = AtomicBool::new(false);
static TRANSPORTS: PerProcess<Mutex<Vec<Weak<dyn Transport>>>> = PerProcess::new();

/// Whether the process is on its way out: no callback is begun any more, the host may be half gone.
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire)
}

/// Has `transport` stopped when the process exits.
pub fn watch(transport: &Arc<dyn Transport>) {
    let mut transports = TRANSPORTS.get_or_make(Mutex::default).0.lock();
    transports.retain(|transport| transport.strong_count() > 0);
    transports.push(Arc::downgrade(transport));
}

/// The exit handler.
pub fn stop_everything() {
    EXITING.store(true, Ordering::Release);
    let deadline = Instant::now() + PATIENCE;
    // In a child that was forked and exits: its own clients alone, since the parent's threads do not exist here.
    let Some(transports) = TRANSPORTS.get() else { return };
    let transports: Vec<Arc<dyn Transport>> = transports.lock().iter().filter_map(Weak::upgrade).collect();
    transports.iter().for_each(|transport| transport.abandon());
    for transport in transports {
        transport.wait_stopped(Some(deadline));
        // Dropping what a stopped client owns is the end of the process's business.
        std::mem::forget(transport);
    }
}
