//! Where received bytes go, and written ones come from.
//!
//! A staging takes the caller's buffer and cuts it into sinks, one a request; or into feeds, if it is to be written to a file. A
//! kind is a file and a row in [`KINDS`].

pub mod cuda;
pub mod host;

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectCore;
use crate::op::Operation;
use crate::op::items::Part;
use crate::stats::Stats;
use crate::sys::mem::{Buffer, BufferPart, Span};
use std::sync::Arc;
use std::time::Instant;

/// A way of getting received bytes to where the caller wants them.
pub trait Staging: Send + Sync {
    /// Takes a buffer of its kind. On the caller's thread.
    ///
    /// # Errors
    /// UNSUPPORTED, CUDA, IO: what it needs cannot be had.
    fn open(&self, buffer: Buffer) -> Result<Box<dyn Target>>;
    /// Gives back what is idle.
    fn trim(&self);
    /// Ends its threads, once no sink is left. Does not wait.
    fn shut_down(&self);
    /// Waits until every thread but the calling one is over; false if `deadline` came first.
    fn wait_stopped(&self, deadline: Option<Instant>) -> bool;
}

/// One way.
pub struct Kind {
    /// For messages and tests.
    pub name: &'static str,
    /// Whether it is the one for this buffer.
    pub takes: fn(&Buffer) -> bool,
    /// Makes it for a client. No thread is started before it is needed.
    pub start: fn(&Config, &Arc<Stats>) -> Arc<dyn Staging>,
}

/// Every kind. A buffer goes to the first that takes it.
pub const KINDS: &[Kind] = &[host::KIND, cuda::KIND];

/// A buffer that is about to be cut into sinks, or into feeds, from its begin to its end.
pub trait Target: Send {
    /// The most bytes that one sink can take, or one feed give; `None`: any number.
    fn limit(&self) -> Option<u64>;
    /// The most bytes of one request: no more than `task_size`.
    fn request_size(&self, task_size: u64) -> u64 {
        self.limit().map_or(task_size, |limit| task_size.min(limit))
    }
    /// The sink for the next `n` bytes.
    fn next(&mut self, n: u64) -> Box<dyn Sink>;
    /// The feed of the next `n` bytes, which are only read.
    fn feed(&mut self, n: u64) -> Box<dyn Feed>;
    /// Targets of the same group can share a sink.
    fn group(&self) -> Group;
    /// The next `n` bytes, for a sink that is shared.
    fn part(&mut self, n: u64) -> BufferPart;
    /// A sink for `len` bytes of a request, of which some go to each of `parts` of this group: those from so many bytes
    /// on. The parts are in order of that number; what none of them takes is dropped, what several take goes to each.
    fn scatter(&self, len: u64, parts: Vec<(u64, BufferPart)>) -> Box<dyn Sink>;
}

/// What targets have in common that can share a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// Whoever moves the bytes on, by address; 0: nobody has to.
    pub stager: usize,
    /// The caller's stream.
    pub stream: Option<usize>,
}

impl Group {
    /// Where its sinks may have to wait: [`Sink::line`].
    pub fn line(self) -> Option<usize> {
        (self.stager != 0).then_some(self.stager)
    }
}

/// Whom a request is for, and what it reads.
#[derive(Clone)]
pub struct Owner {
    /// The operation that it belongs to.
    pub op: Arc<Operation>,
    /// What of that it carries.
    pub part: Part,
    /// What it reads.
    pub object: Arc<ObjectCore>,
}

impl Owner {
    /// Whether nobody waits for its bytes any more.
    pub fn is_over(&self) -> bool {
        self.op.is_over_for(&self.part)
    }
}

/// The end of one request: whoever holds it must finish it, once, when the bytes are where the caller wants them. Dropping it
/// finishes it as INTERNAL, so that not even a bug leaves its operation waiting for ever.
pub struct RequestDone {
    owner: Owner,
    /// Bytes that it was to read.
    len: u64,
    /// `None`: it is finished.
    result: Option<Result<()>>,
}

impl RequestDone {
    /// The request, of `len` bytes, ended like this.
    pub fn new(owner: Owner, len: u64, result: Result<()>) -> RequestDone {
        RequestDone { owner, len, result: Some(result) }
    }

    /// Whom it is for.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// It fails after all, unless it failed before.
    pub fn fail(&mut self, error: Error) {
        if let Some(result @ Ok(())) = &mut self.result {
            *result = Err(error);
        }
    }

    /// The first `bytes` of the request are in the caller's buffers.
    pub fn finish(mut self, bytes: u64) {
        if let Some(result) = self.result.take() {
            self.end(bytes, result);
        }
    }

    /// The one place where a request ends, and counts as failed: only here it is known what became of its copy.
    fn end(&self, bytes: u64, result: Result<()>) {
        let nothing = self.len == 0 && self.owner.is_over();
        if result.is_err() || bytes < self.len || nothing {
            self.owner.op.request_failed();
        }
        self.owner.op.finish(&self.owner.part, bytes, self.len, result);
    }
}

impl Drop for RequestDone {
    fn drop(&mut self) {
        if self.result.take().is_some() {
            let name = self.owner.object.name();
            let words = format!("{name}: the end of a request was lost; this is a bug in RaskIO");
            let error = Error::new(ErrorKind::Internal, words);
            self.end(0, Err(error));
        }
    }
}

/// Called once when a request that had to wait for its sink may go on. Takes no lock and is brief.
pub type Told = Box<dyn FnOnce() + Send>;

/// Whether a sink can take bytes.
#[derive(Debug)]
pub enum Room {
    /// Now.
    Yes,
    /// Not yet: whoever asked is told when to ask again.
    Later,
    /// Never.
    No(Error),
}

/// What a transfer writes into.
pub trait Sink: Send {
    /// Has it get ready for bytes. Called before each attempt; costs nothing if it is ready. A sink that is not calls what
    /// `told` makes once it may be, unless it is dropped first.
    fn prepare(&mut self, told: &mut dyn FnMut() -> Told) -> Room {
        let _ = told;
        Room::Yes
    }

    /// Where [`Sink::prepare`] may have it wait: the same number for all that wait for the same. `None`: it never does.
    fn line(&self) -> Option<usize> {
        None
    }

    /// Appends `bytes`; false, with nothing written, if they do not fit.
    #[must_use]
    fn write(&mut self, bytes: &[u8]) -> bool;

    /// Where the next bytes go, for who can put them there without a copy; `None`: write them. What is lent may be less than
    /// what is missing. It stays where it is until the sink is written to, paused or committed.
    fn lend(&mut self) -> Option<Span<'_>> {
        None
    }

    /// The first `n` bytes of what was lent are there; false, with nothing changed, if there were not so many.
    #[must_use]
    fn filled(&mut self, n: usize) -> bool {
        n == 0
    }

    /// Bytes written so far, over all attempts.
    fn written(&self) -> u64;

    /// No bytes will come for a while: it gives up what others could use meanwhile.
    fn pause(&mut self, owner: &Owner) {
        let _ = owner;
    }

    /// The request is over: all of it was written, or a prefix. Finishes `done` once the bytes are in place.
    fn commit(self: Box<Self>, done: RequestDone);
}

/// Where a request that writes has its bytes from.
pub trait Feed: Send {
    /// Has its bytes brought to where the kernel can read them; the rest as for [`Sink::prepare`]. `owner`: the request's.
    fn prepare(&mut self, owner: &Owner, told: &mut dyn FnMut() -> Told) -> Room {
        let _ = (owner, told);
        Room::Yes
    }

    /// Where [`Feed::prepare`] may have it wait, as for [`Sink::line`].
    fn line(&self) -> Option<usize> {
        None
    }

    /// What lies from `at` on, to be read by the kernel. `None`: it is not ready.
    fn rest(&self, at: u64) -> Option<Span<'_>>;

    /// The request is over, with so many bytes written. Finishes `done` once nobody reads the caller's memory any more.
    fn end(self: Box<Self>, written: u64, done: RequestDone);
}

/// Of a request that writes no byte.
pub struct NoBytes;

impl Feed for NoBytes {
    fn rest(&self, _: u64) -> Option<Span<'_>> {
        None
    }

    fn end(self: Box<Self>, _: u64, done: RequestDone) {
        done.finish(0);
    }
}
