//! Moving bytes: what every way of doing it has in common.

pub mod file;
pub mod inbox;
pub mod lanes;
pub mod reactor;
pub mod thread_pool;
pub mod waker;

use crate::config::{Backend, Config};
use crate::endpoint::{Amended, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::local::OpenFile;
use crate::memory;
use crate::object::ObjectCore;
use crate::op::Operation;
use crate::op::items::Part;
use crate::plan::{self, ByteRange};
use crate::profile::Span;
use crate::retry::History;
use crate::staging::{self, Feed, Owner, RequestDone, Room, Sink, Told};
use crate::stats::Stats;
use lanes::Weigh;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

/// A way of moving bytes. Threads of its own, started when it is made.
pub trait Transport: Send + Sync {
    /// Takes the requests of one operation: one lock and one wake-up per thread, however many they are.
    fn submit(&self, batch: Vec<Transfer>);
    /// This part of `op` sends nothing. It ends on a thread of the transport's, also one that is busy.
    fn end_soon(&self, op: Arc<Operation>, part: Part);
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

/// Every kind for remote objects; those for local files are in [`file::KINDS`].
pub const KINDS: &[Kind] = &[thread_pool::KIND, reactor::pool::KIND];

/// What a request does.
pub enum Job {
    /// There turned out to be nothing to read.
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
    /// Reads the last bytes of an object whose size is not known. It becomes a read when that is.
    End(Box<End>),
    /// Writes to a local file.
    Write(Box<Write>),
}

/// Bytes for a file.
pub struct Write {
    /// Where they go.
    pub range: ByteRange,
    /// Where they come from.
    pub feed: Box<dyn Feed>,
    /// So many are there.
    pub written: u64,
    /// Of a write that is to be durable: the requests of it that are not over. The last one waits for the device.
    pub unsynced: Option<Arc<AtomicUsize>>,
}

/// The last bytes of an object.
pub struct End {
    /// So many, or all that there are.
    pub len: u64,
    /// How the next attempt goes about it.
    pub ask: Ask,
    /// Where they go.
    pub to: EndTo,
}

/// What to ask a server for that is to give the end of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The end: one request for everything.
    End,
    /// The size first.
    Size {
        /// By a GET of the first byte.
        probe: bool,
    },
}

/// Where the end of an object goes.
pub enum EndTo {
    /// All of it comes by one request.
    Sink(Box<dyn Sink>),
    /// It is cut once its size is known, since it may take several requests of so many bytes.
    Target(Box<dyn staging::Target>, u64),
}

/// A request while a transport holds it. It must eventually be finished; dropping it finishes it as INTERNAL, so that
/// not even a bug leaves its operation waiting for ever.
pub struct Transfer {
    /// The operation it belongs to.
    pub op: Arc<Operation>,
    /// What of that it carries.
    pub part: Part,
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
    /// It was sent in case the attempt of this number is late.
    pub second_of: Option<u64>,
    /// Why its last attempt failed, and the HTTP status behind that.
    pub last_failure: Option<(ErrorKind, u16)>,
    /// What it waits for, as a profiler sees it.
    waits: Span,
}

impl Transfer {
    /// A request that nobody has tried yet.
    pub fn new(op: Arc<Operation>, part: Part, object: Arc<ObjectCore>, job: Job) -> Transfer {
        let history = History::default();
        let amended = Amended::default();
        Transfer {
            op,
            part,
            object,
            job: Some(job),
            history,
            moved_to: None,
            redirects: 0,
            stale: 0,
            went_back: false,
            amended,
            second_of: None,
            last_failure: None,
            waits: Span::default(),
        }
    }

    /// It waits, for this, until it is sent or over; unless it did before.
    pub fn waits_for(&mut self, what: &std::ffi::CStr) {
        if !self.waits.is_running() {
            self.waits = Span::wait(what);
        }
    }

    /// It waits no longer.
    pub fn goes_on(&mut self) {
        self.waits = Span::default();
    }

    /// What a request takes beside itself: its sink, of whichever kind.
    pub const PIECES: usize = 256;

    /// Room for so many requests, and memory for what they hold. `what`: what for.
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub fn room(count: usize, what: impl Fn() -> String) -> Result<Vec<Transfer>> {
        let room = memory::vec(count, &what)?;
        memory::check(count, Transfer::PIECES, &what)?;
        Ok(room)
    }

    /// What it does.
    pub fn job(&self) -> &Job {
        self.job.as_ref().unwrap_or(&Job::Nothing)
    }

    /// Whether it need not run.
    pub fn is_over(&self) -> bool {
        self.op.is_over_for(&self.part)
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

    /// The line that it may have to stand in for room in its sink, or for its bytes, if there is one.
    pub fn line(&self) -> Option<usize> {
        match self.job() {
            Job::Read { sink, .. } => sink.line(),
            Job::End(end) => match &end.to {
                EndTo::Sink(sink) => sink.line(),
                EndTo::Target(..) => None,
            },
            Job::Write(write) => write.feed.line(),
            Job::Nothing | Job::Stat { .. } => None,
        }
    }

    /// Whether it is for the transport of local files.
    pub fn is_local(&self) -> bool {
        self.object.endpoint().local().is_some()
    }

    /// Whether it is a durable write of a file whose name may not be on the device yet.
    pub fn syncs_name_of(&self, file: &OpenFile) -> bool {
        matches!(self.job(), Job::Write(write) if write.unsynced.is_some()) && file.has_new_name()
    }

    /// Whether its next attempt asks for the size, and if so, whether by a GET.
    pub fn asks_size(&self) -> Option<bool> {
        match self.job() {
            Job::Stat { probe } => Some(*probe),
            Job::End(end) => match end.ask {
                Ask::Size { probe } => Some(probe),
                Ask::End => None,
            },
            Job::Nothing | Job::Read { .. } | Job::Write(_) => None,
        }
    }

    /// How much of the end of its object it asks for, not knowing where that begins.
    pub fn asks_end(&self) -> Option<u64> {
        match self.job() {
            Job::End(end) if end.ask == Ask::End => Some(end.len),
            Job::End(_) | Job::Nothing | Job::Stat { .. } | Job::Read { .. } | Job::Write(_) => None,
        }
    }

    /// Its next attempt asks for the size.
    pub fn ask_size(&mut self, by_get: bool) {
        match &mut self.job {
            Some(Job::Stat { probe }) => *probe = by_get,
            Some(Job::End(end)) => end.ask = Ask::Size { probe: by_get },
            Some(Job::Nothing | Job::Read { .. } | Job::Write(_)) | None => {}
        }
    }

    /// The end that it asks for is this range, of which bytes come now: of one that is cut they never do.
    pub fn become_read(&mut self, range: ByteRange) {
        self.op.set_offset(&self.part, range.start);
        self.job = match self.job.take() {
            Some(Job::End(end)) => match end.to {
                EndTo::Sink(sink) => Some(Job::Read { range, sink }),
                EndTo::Target(mut target, _) => Some(Job::Read { range, sink: target.next(range.len) }),
            },
            other => other,
        };
    }

    /// The end that it asks for is this range, which may be empty. What it takes to read that: nothing, itself, or several.
    pub fn found_end(mut self, range: ByteRange) -> Found {
        let Some(Job::End(end)) = self.job.take() else { return Found::Nothing(self) };
        self.op.set_offset(&self.part, range.start);
        match end.to {
            _ if range.len == 0 => {
                self.job = Some(Job::Nothing);
                Found::Nothing(self)
            }
            EndTo::Sink(sink) => {
                self.job = Some(Job::Read { range, sink });
                Found::Read(self)
            }
            EndTo::Target(mut target, task_size) => {
                let count = plan::checked_count(self.object.name(), range.len, task_size);
                let room = count.and_then(|count| {
                    let words =
                        || format!("to queue its {count} requests of {task_size} bytes; use a larger task size");
                    Transfer::room(count, words)
                });
                let mut several = match room {
                    Ok(several) => several,
                    Err(error) => {
                        let to = EndTo::Target(target, task_size);
                        self.job = Some(Job::End(Box::new(End { len: end.len, ask: end.ask, to })));
                        return Found::No(self, error);
                    }
                };
                let make = |range: ByteRange| {
                    let job = Job::Read { range, sink: target.next(range.len) };
                    Transfer::new(self.op.clone(), self.part.clone(), self.object.clone(), job)
                };
                several.extend(plan::split(range.start, range.len, task_size).map(make));
                // No more than fit into the memory that holds them.
                let more = u32::try_from(several.len() - 1).unwrap_or(u32::MAX);
                self.op.add_requests(&self.part, more);
                Found::Several(several)
            }
        }
    }

    /// Its object ends at `end`, within what it reads. Items that lie beyond it fail, and it goes on for the others; false if
    /// there is nothing to choose from.
    pub fn cut_at(&mut self, end: u64) -> bool {
        let (Part::Spans(spans), Some(Job::Read { range, .. })) = (&self.part, &mut self.job) else { return false };
        for span in spans.iter().filter(|span| range.start + span.at + span.len > end) {
            let (start, len) = (range.start + span.at, span.len);
            let asked = ByteRange { start, len };
            let words = format!(
                "{}: bytes {asked}: the object ends after {end} bytes; read no further than its size",
                self.object.name()
            );
            self.op.fail_part(&Part::Item(span.item), Error::new(ErrorKind::Range, words));
        }
        range.len = end - range.start;
        true
    }

    /// What is still missing of its range.
    pub fn missing(&self) -> Option<ByteRange> {
        match self.job() {
            Job::Read { range, sink } => Some(range.skip(sink.written())),
            Job::Write(write) => Some(write.range.skip(write.written)),
            Job::Nothing | Job::Stat { .. } | Job::End(_) => None,
        }
    }

    /// Bytes received so far.
    pub fn written(&self) -> u64 {
        match self.job() {
            Job::Read { sink, .. } => sink.written(),
            Job::Write(write) => write.written,
            Job::Nothing | Job::Stat { .. } | Job::End(_) => 0,
        }
    }

    /// Has its sink get ready for bytes, or its feed for giving them. Called before each attempt, and again after `told` was called.
    pub fn prepare(&mut self, told: &mut dyn FnMut() -> Told) -> Room {
        if let Some(Job::Write(write)) = &mut self.job {
            let owner = Owner { op: self.op.clone(), part: self.part.clone(), object: self.object.clone() };
            return write.feed.prepare(&owner, told);
        }
        match &mut self.job {
            Some(Job::Read { sink, .. }) => sink.prepare(told),
            Some(Job::End(end)) => match (&mut end.to, end.ask) {
                (EndTo::Sink(sink), Ask::End) => sink.prepare(told),
                // Not before bytes may come.
                (EndTo::Sink(_) | EndTo::Target(..), _) => Room::Yes,
            },
            Some(Job::Nothing | Job::Stat { .. } | Job::Write(_)) | None => Room::Yes,
        }
    }

    /// It waits, for its next attempt or for a name: its sink gives up what others could use.
    pub fn pause(&mut self) {
        let sink = match &mut self.job {
            Some(Job::Read { sink, .. }) => sink,
            Some(Job::End(end)) => match &mut end.to {
                EndTo::Sink(sink) => sink,
                EndTo::Target(..) => return,
            },
            Some(Job::Nothing | Job::Stat { .. } | Job::Write(_)) | None => return,
        };
        sink.pause(&Owner { op: self.op.clone(), part: self.part.clone(), object: self.object.clone() });
    }

    /// What it is, for messages: the object and the range.
    pub fn describe(&self) -> String {
        match self.job() {
            Job::Read { range, .. } => format!("{}: bytes {range}", self.object.name()),
            Job::Write(write) if write.range.len == 0 => format!("{}: writing no byte", self.object.name()),
            Job::Write(write) => format!("{}: writing bytes {}", self.object.name(), write.range),
            Job::End(end) => format!("{}: the last {} bytes", self.object.name(), end.len),
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
        self.goes_on();
        let owner = Owner { op: self.op.clone(), part: self.part.clone(), object: self.object.clone() };
        match job {
            Job::Read { range, sink } => sink.commit(RequestDone::new(owner, range.len, result)),
            Job::Write(write) => {
                let Write { range, feed, written, .. } = *write;
                feed.end(written, RequestDone::new(owner, range.len, result));
            }
            // Of the end something is missing, whatever it is.
            Job::End(end) => {
                drop(end.to);
                RequestDone::new(owner, end.len.max(1), result).finish(0);
            }
            Job::Nothing | Job::Stat { .. } => RequestDone::new(owner, 0, result).finish(0),
        }
    }
}

/// What it takes to read the end of an object that was found.
pub enum Found {
    /// Nothing: the object is empty.
    Nothing(Transfer),
    /// The same request.
    Read(Transfer),
    /// Several.
    Several(Vec<Transfer>),
    /// What cannot be had.
    No(Transfer, Error),
}

impl Weigh for Transfer {
    fn weight(&self) -> u64 {
        match self.job() {
            Job::Read { range, .. } => range.len,
            Job::Write(write) => write.range.len,
            Job::End(end) => end.len,
            Job::Nothing | Job::Stat { .. } => 0,
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
