//! Waiting: for time, for a gate, and always for the client going away.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Holds the replies that wait at it ([`crate::Reply::hold`], [`crate::Reply::hold_body`]) until it is opened. Clones are
/// the same gate. Once open it stays open.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({})", if self.is_open() { "open" } else { "closed" })
    }
}

struct Inner {
    /// Hung up when `key` is dropped, which is how an open gate looks to poll().
    lock: UnixStream,
    state: Mutex<State>,
    arrived: Condvar,
}

struct State {
    key: Option<UnixStream>,
    held: usize,
    seen: usize,
    opens_at: Option<usize>,
}

impl Gate {
    /// A gate that the test opens.
    #[allow(clippy::new_without_default)] // A default gate would read as an open one.
    pub fn new() -> Gate {
        Gate::with(None)
    }

    /// A barrier: opens by itself as soon as `n` requests have arrived at it.
    pub fn barrier(n: usize) -> Gate {
        Gate::with(Some(n))
    }

    fn with(opens_at: Option<usize>) -> Gate {
        let (lock, key) = UnixStream::pair().expect("a gate needs a pair of sockets");
        let state = Mutex::new(State { key: Some(key), held: 0, seen: 0, opens_at });
        Gate(Arc::new(Inner { lock, state, arrived: Condvar::new() }))
    }

    /// Lets everything through, now and later.
    pub fn open(&self) {
        self.0.state.lock().unwrap().key = None;
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.0.state.lock().unwrap().key.is_none()
    }

    /// How many replies are held right now.
    pub fn held(&self) -> usize {
        self.0.state.lock().unwrap().held
    }

    /// Waits until at least `n` replies are held at once; false when that took longer than `timeout`.
    #[must_use]
    pub fn wait_held(&self, n: usize, timeout: Duration) -> bool {
        let state = self.0.state.lock().unwrap();
        !self.0.arrived.wait_timeout_while(state, timeout, |state| state.held < n).unwrap().1.timed_out()
    }

    pub(crate) fn pass(&self, stream: &TcpStream) -> Wake {
        {
            let mut state = self.0.state.lock().unwrap();
            state.held += 1;
            state.seen += 1;
            if state.opens_at.is_some_and(|n| state.seen >= n) {
                state.key = None;
            }
            self.0.arrived.notify_all();
        }
        let wake = wait(stream, Some(&self.0.lock), None);
        self.0.state.lock().unwrap().held -= 1;
        wake
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The time is up, or the gate is open.
    Ready,
    /// The client closed its side, or the server is stopping: nobody waits for the reply any more.
    Gone,
}

/// Waits until `until`, for ever without it, or until the client goes away. Stopping the server shuts the socket down,
/// which looks the same.
pub(crate) fn wait_until(stream: &TcpStream, until: Option<Instant>) -> Wake {
    wait(stream, None, until)
}

/// Waits until more can be written, until `until`, or until the client goes away.
pub(crate) fn wait_writable(stream: &TcpStream, until: Instant) {
    poll_until(&mut [PollFd::new(stream, PollFlags::OUT | PollFlags::RDHUP)], Some(until));
}

fn wait(stream: &TcpStream, gate: Option<&UnixStream>, until: Option<Instant>) -> Wake {
    // RDHUP and not IN: a pipelined request is no reason to wake up.
    let mut fds = vec![PollFd::new(stream, PollFlags::RDHUP)];
    if let Some(gate) = gate {
        fds.push(PollFd::new(gate, PollFlags::IN));
    }
    poll_until(&mut fds, until);
    if fds[0].revents().is_empty() { Wake::Ready } else { Wake::Gone }
}

fn poll_until(fds: &mut [PollFd], until: Option<Instant>) {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout =
            left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) as _ });
        match poll(fds, timeout.as_ref()) {
            Ok(_) => return,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll() failed: {error}"),
        }
    }
}
