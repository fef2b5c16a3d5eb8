//! An epoll set: which of many descriptors are ready, at a cost that does not grow with those that are not.

use crate::error::{Error, Result};
use crate::sys::limits::out_of_files;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Ready to be read.
pub const READ: u32 = libc::EPOLLIN as u32;
/// Ready to be written.
pub const WRITE: u32 = libc::EPOLLOUT as u32;
/// Broken or hung up; reported whether asked for or not.
pub const BROKEN: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Which.
    pub fd: RawFd,
    /// [`READ`], [`WRITE`], [`BROKEN`].
    pub what: u32,
}

/// Descriptors looked at by one wait, at most; what is ready beyond that is found by the next.
const BATCH: usize = 256;

/// The set.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// IO when the process or the system is out of file descriptors.
    pub fn new() -> Result<Epoll> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(out_of_files(Error::os("creating an epoll set", &std::io::Error::last_os_error())));
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Epoll { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH] })
    }

    /// Watches `fd`, which is not in the set, for this.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&self, fd: RawFd, what: u32) -> std::io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, what)
    }

    /// Watches `fd`, which is in the set, for this instead.
    ///
    /// # Errors
    /// The system's.
    pub fn change(&self, fd: RawFd, what: u32) -> std::io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, what)
    }

    /// Takes `fd`, which is open, out of the set.
    pub fn remove(&self, fd: RawFd) {
        // It was not in it: nothing to do.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0);
    }

    fn control(&self, operation: i32, fd: RawFd, what: u32) -> std::io::Result<()> {
        let mut event = libc::epoll_event { events: what, u64: fd as u64 };
        // SAFETY: an initialised event is passed.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Waits until something is ready, or for `timeout_ms`, and puts what is ready in place of what is in `into`.
    ///
    /// # Errors
    /// The system's; an interrupted wait is an empty one.
    pub fn wait(&mut self, timeout_ms: i32, into: &mut Vec<Ready>) -> std::io::Result<()> {
        into.clear();
        // SAFETY: so many writable events are passed.
        let ready = unsafe {
            libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), self.events.len() as i32, timeout_ms)
        };
        match usize::try_from(ready) {
            Ok(ready) => {
                into.extend(
                    self.events[..ready].iter().map(|event| Ready { fd: event.u64 as RawFd, what: event.events }),
                );
                Ok(())
            }
            Err(_) => match std::io::Error::last_os_error() {
                error if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::event::EventFd;

    #[test]
    fn only_what_is_ready_and_asked_for_is_told() {
        let (mut set, mut ready) = (Epoll::new().unwrap(), Vec::new());
        let (quiet, loud) = (EventFd::new().unwrap(), EventFd::new().unwrap());
        set.add(quiet.raw(), READ).unwrap();
        set.add(loud.raw(), READ).unwrap();
        set.wait(0, &mut ready).unwrap();
        assert!(ready.is_empty());
        loud.signal();
        set.wait(1000, &mut ready).unwrap();
        assert_eq!(ready.iter().map(|ready| (ready.fd, ready.what)).collect::<Vec<_>>(), [(loud.raw(), READ)]);
        set.change(loud.raw(), 0).unwrap();
        set.wait(0, &mut ready).unwrap();
        assert!(ready.is_empty(), "{ready:?}");
        set.change(loud.raw(), READ).unwrap();
        set.remove(loud.raw());
        set.remove(loud.raw());
        set.wait(0, &mut ready).unwrap();
        assert!(ready.is_empty(), "{ready:?}");
        assert!(set.change(loud.raw(), READ).is_err());
    }
}
