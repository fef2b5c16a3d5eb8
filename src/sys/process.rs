//! The process: which side of a fork this is.

use crate::error::{Error, Result};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(1);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    // Async-signal-safe: one atomic add, no lock, no allocation.
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// Which fork generation this process is: a child's differs from its parent's. Read before any lock.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts counting forks. Called before the first thing that a child must not use exists.
///
/// # Errors
/// OUT_OF_MEMORY when the C library cannot store the handler.
pub fn watch_forks() -> Result<()> {
    let mut outcome = 0;
    INSTALL.call_once(|| {
        // SAFETY: the handler only touches a static atomic, and the library is linked `-z nodelete`, so its code stays.
        outcome = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    if outcome != 0 {
        return Err(Error::os("registering the fork handler", &std::io::Error::from_raw_os_error(outcome)));
    }
    Ok(())
}
