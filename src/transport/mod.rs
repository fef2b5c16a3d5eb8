//! Moving bytes: what every way of doing it has in common.

pub mod inbox;
pub mod reactor;
pub mod thread_pool;
pub mod waker;

use crate::config::{Backend, Config};
use crate::endpoint::{Amended, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectCore;
use crate::op::Operation;
use crate::plan::ByteRange;
use crate::retry::History;
use crate::staging::{Owner, RequestDone, Room, Sink, Told};
use crate::stats::Stats;
use std::sync::Arc;
use std::time::Instant;

/// A way of moving bytes. Threads of its own, started when it is made.
pub trait Transport: Send + Sync {
    /// Takes the requests of one operation: one lock and one wake-up per thread, however many they are.
    fn submit(&self, batch: Vec<Transfer>);
    /// `op` is over: end what is left of it, soon.
    fn sweep(&self, op: &Operation);
    /// Closes what is idle.
    fn trim(&self);
    /// Ends every transfer with SHUT_DOWN, then the threads. Does not wait.
    fn shut_down(&self);
    /// Waits until every thread but the calling one is over; false if `deadline` came first.
    fn wait_stopped(&self, deadline: Option<Instant>) -> bool;
}

/// Starts a transport for a client.
pub type Start = fn(&Config, Arc<Stats>) -> Result<Arc<dyn Transport>>;

/// One way of moving bytes.
pub struct Kind {
    /// As `KVIKIO_REMOTE_IO_BACKEND` names it.
    pub name: &'static str,
    /// The setting that chooses it.
    pub backend: Backend,
    /// Starts it for a client.
    pub start: Start,
}

/// Every kind.
pub const KINDS: &[Kind] = &[thread_pool::KIND, reactor::pool::KIND];

/// What a request does.
pub enum Job {
    /// A read of no bytes: sends nothing, completes on a RaskIO thread all the same.
    Nothing,
    /// Asks for the size; `probe`: by a GET of the first byte.
    Stat {
        /// HEAD did not tell.
        probe: bool,
    },
    /// Reads `range` into `sink`; both count from the first attempt on.
    Read {
        /// The whole of it, whatever has been received.
        range: ByteRange,
        /// Where it goes.
        sink: Box<dyn Sink>,
    },
}

/// A request while a transport holds it. It must eventually be finished; dropping it finishes it as INTERNAL, so that
/// not even a bug leaves its operation waiting for ever.
pub struct Transfer {
    /// The operation it belongs to.
    pub op: Arc<Operation>,
    /// What it reads.
    pub object: Arc<ObjectCore>,
    /// What it does; `None` once it is finished.
    job: Option<Job>,
    /// What it has been through.
    pub history: History,
    /// Where a redirect led this request, until the next answer.
    pub moved_to: Option<Arc<Target>>,
    /// Redirects followed.
    pub redirects: u32,
    /// Attempts that a stale connection cost; they count for nothing else.
    pub stale: u32,
    /// It has gone back once from a remembered redirect to the object's own URL.
    pub went_back: bool,
    /// What was wrong with it and was put right.
    pub amended: Amended,
    /// Why its last attempt failed, and the HTTP status behind that.
    pub last_failure: Option<(ErrorKind, u16)>,
}

impl Transfer {
    /// A request that nobody has tried yet.
    pub fn new(op: Arc<Operation>, object: Arc<ObjectCore>, job: Job) -> Transfer {
        let history = History::default();
        let amended = Amended::default();
        Transfer {
            op,
            object,
            job: Some(job),
            history,
            moved_to: None,
            redirects: 0,
            stale: 0,
            went_back: false,
            amended,
            last_failure: None,
        }
    }

    /// What it does.
    pub fn job(&self) -> &Job {
        self.job.as_ref().unwrap_or(&Job::Nothing)
    }

    /// What it does, to go on with it.
    pub fn job_mut(&mut self) -> Option<&mut Job> {
        self.job.as_mut()
    }

    /// Where its next attempt goes, and whether that is where a redirect led an earlier request.
    pub fn target(&self) -> (Arc<Target>, bool) {
        match &self.moved_to {
            Some(target) => (target.clone(), false),
            None => self.object.target(),
        }
    }

    /// The line that it may have to stand in for room in its sink, if there is one.
    pub fn line(&self) -> Option<usize> {
        match self.job() {
            Job::Read { sink, .. } => sink.line(),
            Job::Nothing | Job::Stat { .. } => None,
        }
    }

    /// Whether it sends nothing.
    pub fn is_nothing(&self) -> bool {
        matches!(self.job(), Job::Nothing)
    }

    /// What is still missing of its range.
    pub fn missing(&self) -> Option<ByteRange> {
        match self.job() {
            Job::Read { range, sink } => Some(range.skip(sink.written())),
            Job::Nothing | Job::Stat { .. } => None,
        }
    }

    /// Bytes received so far.
    pub fn written(&self) -> u64 {
        match self.job() {
            Job::Read { sink, .. } => sink.written(),
            Job::Nothing | Job::Stat { .. } => 0,
        }
    }

    /// Has its sink get ready for bytes. Called before each attempt, and again after `told` was called.
    pub fn prepare(&mut self, told: &mut dyn FnMut() -> Told) -> Room {
        match &mut self.job {
            Some(Job::Read { sink, .. }) => sink.prepare(told),
            Some(Job::Nothing | Job::Stat { .. }) | None => Room::Yes,
        }
    }

    /// It waits, for its next attempt or for a name: its sink gives up what others could use.
    pub fn pause(&mut self) {
        if let Some(Job::Read { sink, .. }) = &mut self.job {
            sink.pause(&Owner { op: self.op.clone(), object: self.object.clone() });
        }
    }

    /// What it is, for messages: the object and the range.
    pub fn describe(&self) -> String {
        match self.job() {
            Job::Read { range, .. } => format!("{}: bytes {range}", self.object.name()),
            Job::Stat { .. } => format!("{}: stat", self.object.name()),
            Job::Nothing => self.object.name().to_owned(),
        }
    }

    /// The end of it.
    pub fn finish(mut self, result: Result<()>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<()>) {
        let Some(job) = self.job.take() else { return };
        let owner = Owner { op: self.op.clone(), object: self.object.clone() };
        let done = RequestDone::new(owner, result);
        match job {
            Job::Read { sink, .. } => sink.commit(done),
            Job::Nothing | Job::Stat { .. } => done.finish(0),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.job.is_some() {
            let error = Error::new(
                ErrorKind::Internal,
                format!("{}: the request was lost; this is a bug in RaskIO", self.describe()),
            );
            self.end(Err(error));
        }
    }
}
