//! Into device memory, and out of it, through pinned buffers.
//!
//! A request receives into a bounce buffer of its context ([`bounce_buffer`]); when it is over, the buffer goes to the context's
//! stager ([`stager`]), which copies it ([`lane`]) and, when an event of the pool says that the bytes are in place
//! ([`event_pool`]), gives the buffer to whoever waits longest for one and ends the request. What is written to a file goes the
//! same way back ([`feed`]). One stager a context and client, started by the first read into that context.

pub mod bounce_buffer;
pub mod event_pool;
pub mod feed;
pub mod lane;
pub mod stager;

use super::{Feed, Group, Kind, Owner, RequestDone, Room, Sink, Staging, Target, Told};
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::exit::Threads;
use crate::profile;
use crate::stats::Stats;
use crate::sync::Mutex;
use crate::sys::cuda::pointer::Home;
use crate::sys::cuda::{Context, CudaBuffer, CudaPart, Relaxed};
use crate::sys::mem::{Buffer, BufferPart, Span};
use crate::sys::process;
use bounce_buffer::{BounceBuffer, Limits, Place, Taken, Turn};
use feed::CudaFeed;
use lane::{Copy, Then};
use stager::Stager;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// The row in [`super::KINDS`].
pub const KIND: Kind = Kind {
    name: "CUDA",
    takes: |buffer| matches!(buffer, Buffer::Cuda(_)),
    start: |config, stats| Arc::new(CudaStaging::new(config, stats)),
};

/// The stagers of one client.
struct CudaStaging {
    limits: Limits,
    /// The most bytes of one request.
    request: u64,
    keep_events: usize,
    stats: Arc<Stats>,
    generation: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// One a context. Those whose context is gone end when another begins, and are gone themselves when the next does.
    stagers: Vec<Arc<Stager>>,
    /// Primary contexts that nobody else may hold.
    primaries: Vec<(i32, Arc<Context>)>,
    stopped: bool,
}

impl CudaStaging {
    fn new(config: &Config, stats: &Arc<Stats>) -> CudaStaging {
        let piece = config.task_size.min(config.bounce_buffer_size);
        CudaStaging {
            limits: Limits::new(piece, config.max_pinned_bytes, config.pinned_pool),
            request: config.bounce_buffer_size,
            keep_events: config.max_free_events as usize,
            stats: stats.clone(),
            generation: process::generation(),
            state: Mutex::default(),
        }
    }

    /// The context that `buffer` is written in, or read.
    fn context(&self, buffer: &CudaBuffer) -> Result<Arc<Context>> {
        let device = match buffer.home() {
            Home::Context(key) => return Ok(Arc::new(Context::new(buffer.driver(), key))),
            Home::Primary(device) => device,
        };
        let held = self.state.lock().primaries.iter().find(|(of, _)| *of == device).map(|(_, context)| context.clone());
        // No call to the driver under the lock.
        if let Some(context) = held.filter(|context| context.is_alive()) {
            return Ok(context);
        }
        let _relaxed = Relaxed::new(buffer.driver());
        let fresh = Arc::new(Context::primary(buffer.driver(), device)?);
        let mut state = self.state.lock();
        let replaced = state.primaries.iter().position(|(of, _)| *of == device).map(|at| state.primaries.remove(at));
        state.primaries.push((device, fresh.clone()));
        drop(state);
        drop(replaced);
        Ok(fresh)
    }

    fn stager(&self, context: Arc<Context>) -> Result<Arc<Stager>> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::new(ErrorKind::ShutDown, "the client was shut down"));
        }
        for stager in state.stagers.iter().filter(|stager| stager.key() == context.key()) {
            if stager.is_alive() {
                return Ok(stager.clone());
            }
            // Nothing heals it, and another stager would only find that out again.
            if let Some(error) = stager.broken() {
                return Err(error);
            }
        }
        // Seldom enough to look after the others: of a context that was destroyed while it was idle nobody tells.
        state.stagers.retain(|stager| !stager.has_ended());
        state.stagers.iter().for_each(|stager| stager.look());
        // Makes a thread, and calls no driver.
        let stager = Stager::start(context, self.limits, self.keep_events, self.stats.clone())?;
        state.stagers.push(stager.clone());
        Ok(stager)
    }
}

impl Staging for CudaStaging {
    fn open(&self, buffer: Buffer) -> Result<Box<dyn Target>> {
        let Buffer::Cuda(buffer) = buffer else {
            return Err(Error::new(ErrorKind::Internal, "a buffer of another kind was taken for CUDA memory"));
        };
        let stager = self.stager(self.context(&buffer)?)?;
        Ok(Box::new(CudaTarget { buffer, stager, limit: self.request }))
    }

    fn trim(&self) {
        self.state.lock().stagers.iter().for_each(|stager| stager.trim());
    }

    fn shut_down(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.stagers.iter().for_each(|stager| stager.shut_down());
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        let stagers = self.state.lock().stagers.clone();
        if !stagers.iter().all(|stager| stager.wait_stopped(deadline)) {
            return false;
        }
        let mut state = self.state.lock();
        let over = state.stopped.then(|| (std::mem::take(&mut state.stagers), std::mem::take(&mut state.primaries)));
        drop(state);
        // Outside the lock. Nothing of ours is left in them.
        over.into_iter().flat_map(|(_, primaries)| primaries).for_each(|(_, context)| context.give_back());
        true
    }
}

impl Drop for CudaStaging {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that is not there, and the stagers are the parent's.
        if self.generation == process::generation() {
            self.shut_down();
        }
    }
}

struct CudaTarget {
    buffer: CudaBuffer,
    stager: Arc<Stager>,
    limit: u64,
}

impl Target for CudaTarget {
    fn limit(&self) -> Option<u64> {
        Some(self.limit)
    }

    fn next(&mut self, n: u64) -> Box<dyn Sink> {
        let part = self.buffer.split_to(n);
        self.sink(part.len(), vec![(0, part)])
    }

    fn feed(&mut self, n: u64) -> Box<dyn Feed> {
        Box::new(CudaFeed::new(self.stager.clone(), self.buffer.split_to(n), self.buffer.stream()))
    }

    fn group(&self) -> Group {
        Group { stager: Arc::as_ptr(&self.stager) as usize, stream: self.buffer.stream() }
    }

    fn part(&mut self, n: u64) -> BufferPart {
        BufferPart::Cuda(self.buffer.split_to(n))
    }

    fn scatter(&self, len: u64, parts: Vec<(u64, BufferPart)>) -> Box<dyn Sink> {
        let cuda = |(at, part)| match part {
            BufferPart::Cuda(part) => Some((at, part)),
            // Of another group.
            BufferPart::Host(_) => None,
        };
        self.sink(len, parts.into_iter().filter_map(cuda).collect())
    }
}

impl CudaTarget {
    fn sink(&self, len: u64, parts: Vec<(u64, CudaPart)>) -> Box<dyn Sink> {
        Box::new(CudaSink {
            stager: self.stager.clone(),
            rest: Rest { len, parts },
            stream: self.buffer.stream(),
            hold: Hold::Nothing,
            sent: 0,
            placed: None,
        })
    }
}

/// What of a request was not sent to the stager yet.
struct Rest {
    len: u64,
    /// Where it goes, from so many bytes on.
    parts: Vec<(u64, CudaPart)>,
}

impl Rest {
    /// Takes the first `n` bytes off.
    fn split_to(&mut self, n: u64) -> Vec<(usize, CudaPart)> {
        let n = n.min(self.len);
        self.len -= n;
        let mut taken = Vec::new();
        for (at, part) in &mut self.parts {
            if *at < n {
                // No more than a buffer holds.
                taken.push((*at as usize, part.split_to(n - *at)));
            }
            *at = at.saturating_sub(n);
        }
        self.parts.retain(|(_, part)| !part.is_empty());
        taken
    }
}

/// What a request has of the buffers.
enum Hold {
    Nothing,
    InLine(Place),
    Buffer(BounceBuffer),
}

/// Parts of the caller's buffers in device memory: one, or those of a request that several items share.
struct CudaSink {
    stager: Arc<Stager>,
    rest: Rest,
    stream: Option<usize>,
    hold: Hold,
    /// Bytes that were sent to the stager.
    sent: u64,
    /// Those of them that are in place, once some were sent before the end.
    placed: Option<Arc<AtomicU64>>,
}

impl CudaSink {
    /// The bytes in the buffer, as a copy to be made.
    fn copy(&mut self, then: Then) -> Copy {
        let buffer = match std::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Buffer(buffer) if buffer.written() > 0 => Some(buffer),
            // An empty buffer or a place in the line: dropped, and so handed on.
            Hold::Buffer(_) | Hold::InLine(_) | Hold::Nothing => None,
        };
        let len = buffer.as_ref().map_or(0, BounceBuffer::written) as u64;
        self.sent += len;
        let parts = self.rest.split_to(len);
        let mut copy = Copy {
            buffer,
            parts,
            stream: self.stream,
            then,
            placed: self.placed.clone(),
            failed: false,
            range: profile::Span::default(),
        };
        if len > 0 {
            copy.range =
                profile::Span::begin(profile::Kind::Copy, len, || format!("{}: copy", copy.owner().object.name()));
        }
        copy
    }
}

impl Sink for CudaSink {
    fn prepare(&mut self, told: &mut dyn FnMut() -> Told) -> Room {
        let turn = match &self.hold {
            Hold::Buffer(_) => return Room::Yes,
            Hold::InLine(place) => place.look(),
            Hold::Nothing => match self.stager.cache().take(self.rest.len, told) {
                Taken::Now(buffer) => Turn::Granted(buffer),
                Taken::InLine(place) => {
                    self.hold = Hold::InLine(place);
                    Turn::Waiting
                }
                Taken::Never(error) => Turn::Refused(error),
            },
        };
        match turn {
            Turn::Waiting => Room::Later,
            Turn::Granted(buffer) => {
                self.hold = Hold::Buffer(buffer);
                Room::Yes
            }
            Turn::Refused(error) => {
                self.hold = Hold::Nothing;
                Room::No(error)
            }
        }
    }

    fn line(&self) -> Option<usize> {
        Some(Arc::as_ptr(&self.stager) as usize)
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        match &mut self.hold {
            // The buffer may be larger than the part.
            Hold::Buffer(buffer) if (buffer.written() + bytes.len()) as u64 <= self.rest.len => buffer.write(bytes),
            Hold::Buffer(_) | Hold::InLine(_) | Hold::Nothing => false,
        }
    }

    fn lend(&mut self) -> Option<Span<'_>> {
        let Hold::Buffer(buffer) = &mut self.hold else { return None };
        // The buffer may be larger than the part.
        let left = self.rest.len.saturating_sub(buffer.written() as u64);
        buffer.room().map(|room| room.cut(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    fn filled(&mut self, n: usize) -> bool {
        match &mut self.hold {
            Hold::Buffer(buffer) if (buffer.written() + n) as u64 <= self.rest.len => buffer.filled(n),
            Hold::Buffer(_) | Hold::InLine(_) | Hold::Nothing => false,
        }
    }

    fn written(&self) -> u64 {
        match &self.hold {
            Hold::Buffer(buffer) => self.sent + buffer.written() as u64,
            Hold::InLine(_) | Hold::Nothing => self.sent,
        }
    }

    fn pause(&mut self, owner: &Owner) {
        if matches!(&self.hold, Hold::Buffer(buffer) if buffer.written() > 0) {
            self.placed.get_or_insert_with(Arc::default);
            let copy = self.copy(Then::GoOn(owner.clone()));
            self.stager.copy(copy);
        } else {
            self.hold = Hold::Nothing;
        }
    }

    fn commit(mut self: Box<Self>, done: RequestDone) {
        let copy = self.copy(Then::Finish(done));
        if copy.buffer.is_none() && copy.placed.is_none() {
            // Nothing came, and nothing was sent: there is nothing to wait for.
            return copy.end(false);
        }
        self.stager.copy(copy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_goes_where_it_belongs_and_the_rest_follows() {
        let part = |start, len| crate::sys::cuda::pointer::part(start, len);
        let mut rest = Rest { len: 100, parts: vec![(0, part(1000, 10)), (5, part(2000, 60)), (90, part(3000, 10))] };
        let shown = |taken: Vec<(usize, CudaPart)>| -> Vec<(usize, u64, u64)> {
            taken.into_iter().map(|(at, part)| (at, part.address(), part.len())).collect()
        };
        assert_eq!(shown(rest.split_to(7)), [(0, 1000, 7), (5, 2000, 2)]);
        assert_eq!(shown(rest.split_to(40)), [(0, 1007, 3), (0, 2002, 40)]);
        assert_eq!(shown(rest.split_to(50)), [(0, 2042, 18), (43, 3000, 7)]);
        assert_eq!(shown(rest.split_to(50)), [(0, 3007, 3)], "no more than there is");
        assert_eq!(shown(rest.split_to(50)), []);
    }
}
