//! Waiting until enough of a body is there, so that a reactor is not woken for each packet of it.
//!
//! Where a reactor is faster than its server, it is woken for every few kilobytes: over TLS on loopback, 20,000 times a GiB.
//! `SO_RCVLOWAT` has the kernel tell of a socket once so many bytes are there. Measured on two cores, 16 connections of 4 MiB requests to
//! one nginx worker, CPU-seconds a GiB and nothing else changed: over TLS 0.74 instead of 1.03, plain 0.35 instead of 0.40.
//!
//! Bytes must never lie there unseen because the rest of them does not come:
//! - only what is known to come is waited for, less what OpenSSL may hold already;
//! - the kernel tells of fewer bytes when its memory runs out, the window is closed, the connection ends or fails;
//! - whoever looks after stalls calls [`Patience::end`] when nothing came for a quarter of a second, and the socket is told of at once.
//!
//! Kernels before 4.18 may wait for more than their window lets in (d1361840f8c5, "tcp: fix SO_RCVLOWAT and RCVBUF autotuning").

use super::straight::Connection;
use crate::sys::process;
use std::ffi::c_int;

/// Bytes to wait for. A connection at 64 MB/s has them in 4 ms. Half as many gain two thirds as much.
const ENOUGH: c_int = 256 << 10;
/// What may be held by who reads from the socket: OpenSSL reads 64 KiB ahead, twice where a proxy is spoken to by TLS too, and is
/// handed what libcurl asks for by records of 16 KiB.
const HELD: u64 = 192 << 10;
/// So much must still come when it begins: two system calls are worth a few wake-ups.
const WORTH_IT: u64 = ENOUGH as u64 + HELD + (512 << 10);

/// The first kernel that makes room for what is waited for.
const ABLE: (u32, u32) = (4, 18);

/// What one transfer waits for.
#[derive(Default)]
pub struct Patience {
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unused,
    /// On this socket.
    Waits(c_int),
    /// It had its time in this transfer.
    Over,
}

impl Patience {
    /// Bytes of a body came to a transfer on `own`, and `due` more of it will come; 0: nobody knows.
    #[inline]
    pub fn came(&mut self, due: u64, own: &impl Connection) {
        match self.state {
            State::Unused if due >= WORTH_IT => {
                let able = process::kernel() >= ABLE;
                let socket = own.socket().filter(|&socket| able && tell_from(socket, ENOUGH));
                self.state = socket.map_or(State::Over, State::Waits);
            }
            State::Waits(_) if due < ENOUGH as u64 + HELD => drop(self.end(own)),
            _ => {}
        }
    }

    /// Every byte is told of again, for the rest of this transfer. False: it was before.
    pub fn end(&mut self, own: &impl Connection) -> bool {
        let State::Waits(socket) = std::mem::replace(&mut self.state, State::Over) else { return false };
        // The connection may be gone, and the number be that of another one.
        own.socket() == Some(socket) && tell_from(socket, 1)
    }

    /// The transfer is over.
    pub fn leave(&mut self, own: &impl Connection) {
        self.end(own);
        self.state = State::Unused;
    }
}

/// Has the kernel tell of a socket once it has so many bytes. False: it does not.
fn tell_from(socket: c_int, bytes: c_int) -> bool {
    // SAFETY: reads one int of ours. Whatever the number is, it is not taken for more than a socket.
    unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<c_int>() as libc::socklen_t,
        ) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    struct On(Option<c_int>);

    impl Connection for On {
        fn number(&self) -> Option<i64> {
            None
        }
        fn socket(&self) -> Option<c_int> {
            self.0
        }
    }

    fn told_from(socket: &TcpStream) -> c_int {
        let (mut bytes, mut size) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
        // SAFETY: writes one int of ours.
        let code = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw mut bytes).cast(),
                &raw mut size,
            )
        };
        assert_eq!(code, 0);
        bytes
    }

    fn socket() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    }

    #[test]
    fn much_is_waited_for_and_the_rest_is_told_of_as_it_comes() {
        let socket = socket();
        let own = On(Some(socket.as_raw_fd()));
        let mut patience = Patience::default();
        patience.came(WORTH_IT - 1, &own);
        assert_eq!(told_from(&socket), 1, "too little to come");
        for due in [WORTH_IT, ENOUGH as u64 + HELD] {
            patience.came(due, &own);
            assert_eq!(told_from(&socket), ENOUGH);
        }
        patience.came(ENOUGH as u64 + HELD - 1, &own);
        assert_eq!(told_from(&socket), 1, "the last of it");
        patience.came(WORTH_IT, &own);
        assert_eq!(told_from(&socket), 1, "once a transfer");
        patience.leave(&own);
        patience.came(WORTH_IT, &own);
        assert_eq!(told_from(&socket), ENOUGH, "the next transfer");
        assert!(patience.end(&own), "something may lie there");
        assert_eq!(told_from(&socket), 1);
        assert!(!patience.end(&own), "nothing can");
    }

    #[test]
    fn a_transfer_that_ends_before_its_time_leaves_the_connection_as_it_was_and_others_alone() {
        let (socket, other) = (socket(), socket());
        let mut patience = Patience::default();
        patience.came(u64::MAX, &On(Some(socket.as_raw_fd())));
        patience.leave(&On(Some(other.as_raw_fd())));
        assert_eq!((told_from(&socket), told_from(&other)), (ENOUGH, 1), "it is not its connection any more");
        patience.came(u64::MAX, &On(Some(other.as_raw_fd())));
        patience.leave(&On(Some(other.as_raw_fd())));
        assert_eq!(told_from(&other), 1);
        patience.came(u64::MAX, &On(None));
        patience.came(u64::MAX, &On(Some(other.as_raw_fd())));
        assert_eq!(told_from(&other), 1, "it had no connection");
    }
}
