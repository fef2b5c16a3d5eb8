//! An eventfd: wakes a thread that waits in `poll`, from any thread, without touching libcurl.

use crate::error::{Error, Result};
use crate::sys::limits::out_of_files;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A wake-up that the kernel keeps until it is taken: unlike `curl_multi_wakeup`, it cannot get lost, and it outlives
/// every libcurl handle.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A wake-up that has not happened.
    ///
    /// # Errors
    /// IO when the process or the system is out of file descriptors.
    pub fn new() -> Result<EventFd> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(out_of_files(Error::os("creating an eventfd", &std::io::Error::last_os_error())));
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Wakes the waiter.
    pub fn signal(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes are passed. The result does not matter: EAGAIN means that it is signalled already.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes a wake-up back that has come, or is about to: who has said that it wakes may have been interrupted before it did. Left
    /// behind, that wake-up would end every sleep from then on at once.
    pub fn clear(&self) {
        /// Far more than it takes to be scheduled again; without an end, one that never comes would hang the thread.
        const TRIES: u32 = 10_000;
        let mut count = 0u64;
        for _ in 0..TRIES {
            // SAFETY: eight writable bytes are passed.
            if unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) } == 8 {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Sleeps until the wake-up comes, or `limit` is over (`None`: no limit).
    pub fn wait(&self, limit: Option<Duration>) {
        // Rounded up: waking a moment early only means looking twice.
        let ms = limit.map_or(-1, |limit| i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
        let mut file = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd is passed. The result does not matter: whoever slept looks around.
        let _ = unsafe { libc::poll(&mut file, 1, ms) };
    }

    /// The descriptor, for `poll`.
    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_wake_up_that_is_on_its_way_is_taken_back_too() {
        let event = Arc::new(EventFd::new().unwrap());
        for _ in 0..100 {
            let late = event.clone();
            let thread = std::thread::spawn(move || late.signal());
            event.clear();
            thread.join().unwrap();
            let began = std::time::Instant::now();
            event.wait(Some(Duration::from_millis(1)));
            assert!(began.elapsed() >= Duration::from_millis(1), "nothing is left to end a sleep");
        }
    }
}
