//! Out of device memory: what a request writes to a file is copied into a pinned buffer first, and the kernel writes that.
//!
//! The buffer goes to the stager empty and comes back full, when the event behind the copy is done. A request that ends meanwhile
//! leaves its end with the copy: the device still reads the caller's memory.

use super::bounce_buffer::{BounceBuffer, Place, Taken, Turn};
use super::lane::{Copy, Then};
use super::stager::Stager;
use crate::error::{Error, ErrorKind, Result};
use crate::profile;
use crate::staging::{Feed, Owner, RequestDone, Room, Told};
use crate::sync::Mutex;
use crate::sys::cuda::CudaPart;
use crate::sys::mem::Span;
use std::sync::Arc;

/// A part of the caller's buffer in device memory.
pub struct CudaFeed {
    stager: Arc<Stager>,
    /// Until it is copied.
    part: Option<CudaPart>,
    len: u64,
    stream: Option<usize>,
    hold: Hold,
}

/// What a request has of the buffers.
enum Hold {
    Nothing,
    InLine(Place),
    Filling(Arc<Slot>),
    Full(BounceBuffer),
}

/// What a copy to the host leaves for its request.
enum State {
    /// It runs.
    Running(Told),
    /// It is over.
    Over(Result<BounceBuffer>),
    /// It runs, and its request has ended.
    Ended(RequestDone),
    /// Nobody waits, or nothing is left.
    Empty,
}

struct Slot(Mutex<State>);

/// A copy's side of it: it must eventually be settled; dropping it says that the copy was lost.
pub struct Fetch {
    owner: Owner,
    slot: Option<Arc<Slot>>,
    error: Option<Error>,
}

impl CudaFeed {
    /// The request for `part`; its copy is ordered on `stream`, if there is one.
    pub fn new(stager: Arc<Stager>, part: CudaPart, stream: Option<usize>) -> CudaFeed {
        CudaFeed { stager, len: part.len(), part: Some(part), stream, hold: Hold::Nothing }
    }

    /// Has the buffer filled.
    fn fetch(&mut self, mut buffer: BounceBuffer, owner: &Owner, told: Told) -> Room {
        // As many as memory holds, so a usize holds them too.
        let (true, Some(part)) = (buffer.filled(self.len as usize), self.part.take()) else {
            let words = "a pinned buffer was asked for twice, or is too small; this is a bug in RaskIO";
            return Room::No(Error::new(ErrorKind::Internal, words));
        };
        let slot = Arc::new(Slot(Mutex::new(State::Running(told))));
        self.hold = Hold::Filling(slot.clone());
        let range = profile::Span::begin(profile::Kind::Copy, self.len, || format!("{}: copy", owner.object.name()));
        self.stager.copy(Copy {
            buffer: Some(buffer),
            parts: vec![(0, part)],
            stream: self.stream,
            then: Then::Fetch(Fetch { owner: owner.clone(), slot: Some(slot), error: None }),
            placed: None,
            failed: false,
            range,
        });
        Room::Later
    }
}

impl Feed for CudaFeed {
    fn prepare(&mut self, owner: &Owner, told: &mut dyn FnMut() -> Told) -> Room {
        let turn = match std::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Full(buffer) => {
                self.hold = Hold::Full(buffer);
                return Room::Yes;
            }
            Hold::Filling(slot) => match slot.take() {
                None => {
                    self.hold = Hold::Filling(slot);
                    return Room::Later;
                }
                Some(Ok(buffer)) => {
                    self.hold = Hold::Full(buffer);
                    return Room::Yes;
                }
                Some(Err(error)) => return Room::No(error),
            },
            Hold::InLine(place) => match place.look() {
                Turn::Waiting => {
                    self.hold = Hold::InLine(place);
                    return Room::Later;
                }
                turn => turn,
            },
            Hold::Nothing => match self.stager.cache().take(self.len, told) {
                Taken::Now(buffer) => Turn::Granted(buffer),
                Taken::InLine(place) => {
                    self.hold = Hold::InLine(place);
                    return Room::Later;
                }
                Taken::Never(error) => Turn::Refused(error),
            },
        };
        match turn {
            Turn::Granted(buffer) => self.fetch(buffer, owner, told()),
            Turn::Refused(error) => Room::No(error),
            Turn::Waiting => Room::Later,
        }
    }

    fn line(&self) -> Option<usize> {
        Some(Arc::as_ptr(&self.stager) as usize)
    }

    fn rest(&self, at: u64) -> Option<Span<'_>> {
        match &self.hold {
            Hold::Full(buffer) => buffer.rest(at),
            Hold::Nothing | Hold::InLine(_) | Hold::Filling(_) => None,
        }
    }

    fn end(self: Box<Self>, written: u64, done: RequestDone) {
        match self.hold {
            Hold::Filling(slot) => slot.end_with(done),
            // The buffer goes back first, then the operation hears of it.
            hold => {
                drop(hold);
                done.finish(written);
            }
        }
    }
}

impl Slot {
    /// What the copy has left, if it is over.
    fn take(&self) -> Option<Result<BounceBuffer>> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Empty) {
            State::Over(result) => Some(result),
            State::Ended(done) => {
                *state = State::Ended(done);
                None
            }
            State::Running(told) => {
                *state = State::Running(told);
                None
            }
            State::Empty => None,
        }
    }

    /// Finishes `done`, of which nothing was written, when the copy is over.
    fn end_with(&self, done: RequestDone) {
        let before = {
            let mut state = self.0.lock();
            match &*state {
                State::Running(_) => {
                    *state = State::Ended(done);
                    return;
                }
                _ => std::mem::replace(&mut *state, State::Empty),
            }
        };
        // Outside the lock: a buffer that is dropped goes on to the next.
        drop(before);
        done.finish(0);
    }

    fn settle(&self, result: Result<BounceBuffer>) {
        let mut state = self.0.lock();
        let before = std::mem::replace(&mut *state, State::Empty);
        match before {
            State::Running(told) => {
                *state = State::Over(result);
                drop(state);
                told();
            }
            State::Ended(done) => {
                drop(state);
                drop(result);
                done.finish(0);
            }
            State::Over(_) | State::Empty => {}
        }
    }
}

impl Fetch {
    /// Whom it is for.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// It fails, unless it failed before.
    pub fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// The end of the copy: here is the full buffer, unless it failed or was not made.
    pub fn settle(mut self, buffer: Option<BounceBuffer>) {
        let Some(slot) = self.slot.take() else { return };
        let result = match (self.error.take(), buffer) {
            (None, Some(buffer)) => Ok(buffer),
            (Some(error), _) => Err(error),
            // Nobody sees it: the operation has ended otherwise, or nothing would have been left out.
            (None, None) => Err(Error::new(ErrorKind::Cancelled, "it was over before its bytes were copied")),
        };
        slot.settle(result);
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let words = "a copy from the device was lost; this is a bug in RaskIO";
            slot.settle(Err(Error::new(ErrorKind::Internal, words)));
        }
    }
}
