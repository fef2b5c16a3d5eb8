//! The copies on one stream, in their order.

use super::bounce_buffer::BounceBuffer;
use super::event_pool::{EventPool, PooledEvent};
use super::feed::Fetch;
use crate::error::Error;
use crate::profile::Span;
use crate::staging::{Owner, RequestDone};
use crate::sys::cuda::{CudaPart, Current, Failure, Stream};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Copies of at least so many bytes are told about by an event of their own; smaller neighbours share one.
const BATCH_BYTES: usize = 1 << 20;

/// What a copy is for.
pub enum Then {
    /// The request is over when it is done.
    Finish(RequestDone),
    /// The request goes on later.
    GoOn(Owner),
    /// It goes the other way: the request writes to a file what is copied into the buffer.
    Fetch(Fetch),
}

/// One copy, or only the end of a request whose copies went before.
pub struct Copy {
    /// What to copy, or into which. `None`: nothing.
    pub buffer: Option<BounceBuffer>,
    /// Where to: what lies from so many bytes on in the buffer goes to each. Of [`Then::Fetch`]: where from.
    pub parts: Vec<(usize, CudaPart)>,
    /// The caller's stream; `None`: the stager's own.
    pub stream: Option<usize>,
    /// What follows.
    pub then: Then,
    /// Bytes of the request that are in place, over all its copies. `None`: this is the first and the last.
    pub placed: Option<Arc<AtomicU64>>,
    /// Some of it could not be started, and what was is only waited for.
    pub failed: bool,
    /// As a profiler sees it.
    pub range: Span,
}

impl Copy {
    /// Whom it is for.
    pub fn owner(&self) -> &Owner {
        match &self.then {
            Then::Finish(done) => done.owner(),
            Then::GoOn(owner) => owner,
            Then::Fetch(fetch) => fetch.owner(),
        }
    }

    /// Starts it on `stream`. `Err`, and whether some of it was started.
    pub fn start(&self, current: &Current<'_>, stream: &Stream) -> Result<(), (Failure, bool)> {
        let Some(buffer) = &self.buffer else { return Ok(()) };
        let fetch = matches!(self.then, Then::Fetch(_));
        for (number, (at, part)) in self.parts.iter().enumerate() {
            let started = match fetch {
                true => buffer.fetch(current, stream, *at, part),
                false => buffer.copy(current, stream, *at, part),
            };
            started.map_err(|failure| (failure, number > 0))?;
        }
        Ok(())
    }

    /// What it does, for messages.
    pub fn describe(&self) -> String {
        let way = if matches!(self.then, Then::Fetch(_)) { "from" } else { "to" };
        format!("copying {} bytes {way} the device", self.bytes())
    }

    /// Bytes to copy.
    pub fn bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, BounceBuffer::written)
    }

    /// The same without its bytes, which failed or are no longer wanted.
    pub fn without_bytes(mut self, error: Option<Error>) -> Copy {
        self.buffer = None;
        if let Some(error) = error {
            self.fail(error);
        }
        self
    }

    /// The same when nobody can say whether its bytes are still being copied.
    pub fn without_end(mut self, error: Error) -> Copy {
        if let Some(buffer) = self.buffer.take() {
            buffer.give_up();
        }
        self.fail(error);
        self
    }

    /// Those that it is for fail, unless something failed before.
    pub fn fail(&mut self, error: Error) {
        self.failed = true;
        match &mut self.then {
            Then::Finish(done) => done.fail(error.context(done.owner().object.name())),
            Then::GoOn(owner) => owner.op.fail_part(&owner.part, error.context(owner.object.name())),
            // Its request is told, which says what it is.
            Then::Fetch(fetch) => fetch.fail(error),
        }
    }

    /// The end of it: the buffer goes back first, then the operation hears of it. `copied`: the bytes are in place.
    pub fn end(mut self, copied: bool) {
        let in_place = copied && !self.failed;
        let bytes = if in_place { self.bytes() as u64 } else { 0 };
        let buffer = self.buffer.take();
        if let Then::Fetch(fetch) = self.then {
            return fetch.settle(buffer.filter(|_| in_place));
        }
        drop(buffer);
        let before = self.placed.as_ref().map_or(0, |placed| placed.fetch_add(bytes, Ordering::AcqRel));
        match self.then {
            Then::Finish(done) => done.finish(before + bytes),
            Then::GoOn(_) | Then::Fetch(_) => {}
        }
    }
}

/// How the end of copies is learned.
enum Sign {
    /// By an event behind them. A host function (`cuLaunchHostFunc`) tells of it too, but late: on an H200 a stream of 4 MiB
    /// copies gave 52 GB/s with events and 35 with host functions, of 4 KiB copies five times as many with events.
    Event(PooledEvent),
    /// By asking the stream, because there is neither; the copies run, and their requests fail for this.
    Stream(Failure),
}

struct Batch {
    copies: Vec<Copy>,
    sign: Sign,
    /// How often the driver said of them that their context is gone, in a context that it let the stager enter.
    odd: u32,
}

/// So often is believed to be a mistake, or the end of a context in the very moment between the two.
const ODD: u32 = 3;

/// What has become of the copies at the head.
pub enum Head {
    /// There are none.
    Empty,
    /// They run.
    Running,
    /// They are over: well, or with an error.
    Over(Vec<Copy>, Option<Failure>),
    /// The driver does not say what has become of them.
    Unknown(Vec<Copy>, Failure),
}

/// The copies on one stream.
pub struct Lane {
    stream: Stream,
    /// Started, but without a sign behind them.
    open: Vec<Copy>,
    open_bytes: usize,
    running: VecDeque<Batch>,
    /// Tells the stager to look.
    told: Arc<dyn Fn() + Send + Sync>,
    /// The caller's stream: work of the caller's may be before the copies for as long as it likes.
    of_caller: bool,
}

impl Lane {
    /// The copies on `stream`; `told` has the stager look at them.
    pub fn new(stream: Stream, of_caller: bool, told: Arc<dyn Fn() + Send + Sync>) -> Lane {
        Lane { stream, open: Vec::new(), open_bytes: 0, running: VecDeque::new(), told, of_caller }
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The stream, once nothing is left on it.
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Whether nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.running.is_empty()
    }

    /// Takes a copy that was started.
    pub fn push(&mut self, copy: Copy) {
        self.open_bytes += copy.bytes();
        self.open.push(copy);
    }

    /// Takes a copy of nothing, which is over when those before it are. Gives it back if there are none.
    pub fn push_end(&mut self, copy: Copy) -> Option<Copy> {
        if !self.open.is_empty() {
            self.open.push(copy);
            return None;
        }
        // No sign of its own: the stream may be one by now that must not be given anything.
        match self.running.back_mut() {
            Some(batch) => {
                batch.copies.push(copy);
                None
            }
            None => Some(copy),
        }
    }

    /// Whether what was pushed is worth a sign of its own.
    pub fn is_full(&self) -> bool {
        self.open_bytes >= BATCH_BYTES
    }

    /// Puts a sign behind what was pushed.
    pub fn seal(&mut self, current: &Current<'_>, events: &Arc<EventPool>) {
        if self.open.is_empty() {
            return;
        }
        let copies = std::mem::take(&mut self.open);
        self.open_bytes = 0;
        let sign = self.event(current, events);
        self.running.push_back(Batch { copies, sign: sign.unwrap_or_else(Sign::Stream), odd: 0 });
    }

    fn event(&self, current: &Current<'_>, events: &Arc<EventPool>) -> Result<Sign, Failure> {
        let mut event = events.get()?;
        event.record(current, &self.stream)?;
        if self.of_caller {
            // Nobody can wait for the event: it may take as long as the caller's work before it. A hint, no more: the stager
            // looks now and then anyway, since the driver calls nobody when something fails, or has no such function.
            let _ = self.stream.tell(current, self.told.clone());
        }
        Ok(Sign::Event(event))
    }

    /// Looks at the copies at the head, and takes them out if they are over.
    pub fn head(&mut self, current: &Current<'_>) -> Head {
        let Some(batch) = self.running.front_mut() else { return Head::Empty };
        let told = match &mut batch.sign {
            Sign::Event(event) => event.is_done(),
            Sign::Stream(_) => Ok(false),
        };
        if matches!(told, Err(failure) if failure.is_context_gone()) && batch.odd < ODD {
            // Entering the context will tell.
            batch.odd += 1;
            return Head::Running;
        }
        if let Err(failure) = told {
            // It says nothing about the copies, whose buffers must not be used again while they run.
            batch.sign = Sign::Stream(failure);
        }
        let (done, refused) = match &batch.sign {
            Sign::Event(_) => (told, None),
            Sign::Stream(failure) => (self.stream.is_done(current.driver()), Some(*failure)),
        };
        if matches!(done, Ok(false)) {
            return Head::Running;
        }
        let Some(Batch { copies, sign, .. }) = self.running.pop_front() else { return Head::Empty };
        // An event goes back before its buffers do.
        drop(sign);
        match done {
            Ok(_) => Head::Over(copies, refused),
            Err(failure) if failure.has_ended_all_work() => Head::Over(copies, Some(failure)),
            Err(failure) => Head::Unknown(copies, failure),
        }
    }

    /// Waits for the copies at the head, if that is possible and they are not behind work of the caller's. Returns whether it
    /// waited.
    pub fn wait(&self) -> bool {
        match self.running.front().map(|batch| &batch.sign) {
            Some(Sign::Event(event)) if !self.of_caller => event.wait().is_ok(),
            _ => false,
        }
    }

    /// Everything on it, when its context is gone.
    pub fn drain(&mut self) -> Vec<Copy> {
        let mut all = Vec::new();
        for batch in self.running.drain(..) {
            all.extend(batch.copies);
        }
        all.append(&mut self.open);
        self.open_bytes = 0;
        all
    }
}
