//! What happens to operations and on the way of their requests, told to a host that wants to know: for its own counters and its own words.

use crate::error::ErrorKind;
use crate::op::{OpResult, call_host};
use crate::stats::Stats;
use std::ffi::CString;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An attempt failed, and there will be another one.
    Retry {
        /// Why it failed.
        kind: ErrorKind,
        /// What the server said, 0 if it said nothing.
        http_status: u16,
        /// Attempts that have failed by now.
        attempt: u32,
        /// Attempts that there are without progress.
        max_attempts: u32,
        /// Until the next one.
        wait: Duration,
    },
    /// A transfer opened connections.
    Connected {
        /// How many.
        connections: u64,
        /// What that took.
        timings: Timings,
    },
    /// The first request of an operation is sent.
    OpStarted {
        /// Which one.
        op: Arc<Op>,
        /// Since the call.
        queued: Duration,
    },
    /// An operation is over: its callback comes next.
    OpFinished {
        /// Which one.
        op: Arc<Op>,
        /// Why it failed, and the HTTP status behind that.
        failure: Option<(ErrorKind, u16)>,
        /// Of the first byte; known now also of a read from the end.
        offset: u64,
        /// Bytes in the caller's buffers.
        bytes: u64,
        /// Requests sent, retries included.
        attempts: u32,
        /// From the call to the first request.
        queued: Duration,
        /// From the call to here.
        took: Duration,
    },
}

/// An operation, for those who watch.
#[derive(Debug, PartialEq, Eq)]
pub struct Op {
    /// Tells it apart from all others of the process.
    pub number: u64,
    /// What it does.
    pub kind: OpKind,
    /// The object as messages show it; of a batch, nothing.
    pub object: CString,
    /// As [`About::offset`].
    pub offset: u64,
    /// As [`About::size`].
    pub size: u64,
}

impl Op {
    fn new(about: &About<'_>) -> Op {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let object = CString::new(about.object).unwrap_or_default();
        let About { kind, offset, size, .. } = *about;
        Op { number: NEXT.fetch_add(1, Relaxed), kind, object, offset, size }
    }
}

/// Tells of one operation.
pub struct Watch {
    op: Arc<Op>,
    stats: Arc<Stats>,
    called: Instant,
    queued: OnceLock<Duration>,
}

impl Watch {
    /// `None`: nobody wants to hear.
    pub fn new(stats: &Arc<Stats>, about: &About<'_>) -> Option<Arc<Watch>> {
        stats.observer.is_heard().then(|| {
            let (op, stats) = (Arc::new(Op::new(about)), stats.clone());
            Arc::new(Watch { op, stats, called: Instant::now(), queued: OnceLock::new() })
        })
    }

    /// Its first request is sent, or it ends without any. Called once.
    pub fn started(&self) {
        let queued = *self.queued.get_or_init(|| self.called.elapsed());
        self.stats.observer.tell(&Event::OpStarted { op: self.op.clone(), queued });
    }

    /// It is over.
    pub fn finished(&self, result: &OpResult<'_>) {
        let took = self.called.elapsed();
        self.stats.observer.tell(&Event::OpFinished {
            op: self.op.clone(),
            failure: result.error.map(|error| (error.kind(), error.http_status())),
            offset: result.offset,
            bytes: result.bytes,
            attempts: result.attempts,
            queued: self.queued.get().copied().unwrap_or(took),
            took,
        });
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Asks for the size.
    Stat,
    /// Reads one range.
    Read,
    /// Reads many.
    Batch,
    /// Writes one range of a local file.
    Write,
}

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About<'a> {
    /// What it does.
    pub kind: OpKind,
    /// The object as messages show it; of a batch, nothing.
    pub object: &'a str,
    /// Of the first byte asked for; 0 for the end of an object whose size is not known.
    pub offset: u64,
    /// Bytes asked for; of a batch, of all its items.
    pub size: u64,
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OpKind::Stat => write!(f, "stat {}", self.object),
            OpKind::Read => write!(f, "read {}: {} bytes from {}", self.object, self.size, self.offset),
            OpKind::Write => write!(f, "write {}: {} bytes at {}", self.object, self.size, self.offset),
            OpKind::Batch => write!(f, "batch of {} bytes", self.size),
        }
    }
}

/// What the last connection of a transfer took, step by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Looking the name up.
    pub name_lookup: Duration,
    /// Connecting.
    pub connect: Duration,
    /// The TLS handshake; zero without one.
    pub tls: Duration,
}

/// Who is told.
pub type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// Tells the host, if it wants to know.
#[derive(Default)]
pub struct Observer(OnceLock<Listener>);

impl Observer {
    /// From now on this one is told. The first call counts.
    pub fn listen(&self, listener: Listener) {
        let _ = self.0.set(listener);
    }

    /// Whether anybody is told: what is not heard need not be found out.
    pub fn is_heard(&self) -> bool {
        self.0.get().is_some()
    }

    /// Tells it. Not while the process ends: the host may be half gone.
    pub fn tell(&self, event: &Event) {
        if let Some(listener) = self.0.get().filter(|_| !crate::exit::is_exiting()) {
            call_host(|| listener(event));
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.is_heard()).finish()
    }
}
