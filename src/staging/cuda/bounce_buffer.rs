//! Pinned buffers between the network, or a file, and a device: one cache a context.
//!
//! Pinning takes milliseconds, so only the context's stager does it, and never with a lock held. Whoever needs a buffer takes
//! a free one or gets into line; what comes free is handed to the first in line, who is told.

use crate::error::{Error, ErrorKind};
use crate::limit::Wake;
use crate::staging::Told;
use crate::stats::{self, Stats};
use crate::sync::Mutex;
use crate::sys::cuda::{CudaPart, Current, Failure, Pinned, PinnedPool, Registration, Stream};
use crate::sys::mem::{Span, page_size};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests of at most so many bytes share the pinned memory in pieces of this size.
const SMALL: usize = 64 << 10;

/// How long nobody asks for more pinned memory after it was refused while there was some.
const REFUSED: Duration = Duration::from_secs(1);

/// What a cache must keep to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a buffer for a large request: whole pages.
    pub piece: usize,
    /// Bytes pinned, at most; but always one buffer.
    pub most: usize,
    /// Where pinned memory comes from, if the host has some.
    pub pool: Option<PinnedPool>,
}

impl Limits {
    /// For requests of at most `request` bytes.
    pub fn new(request: u64, most: u64, pool: Option<PinnedPool>) -> Limits {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX / 2);
        Limits { piece: size(request).next_multiple_of(page_size()), most: size(most), pool }
    }

    /// Bytes of the buffer that a request of `n` bytes gets.
    fn buffer_for(&self, n: usize) -> usize {
        if n <= SMALL.min(self.piece) { SMALL.min(self.piece) } else { self.piece.max(n.next_multiple_of(page_size())) }
    }
}

#[derive(Default)]
struct State {
    /// By size; the one that came back last is taken first: its bytes are still in the processor's caches.
    free: BTreeMap<usize, Vec<Pinned>>,
    line: VecDeque<Arc<Ticket>>,
    /// Bytes pinned, those of buffers in use included.
    pinned: usize,
    /// No more than so many bytes until then, since the driver or the system refused more.
    refused: Option<(usize, Instant)>,
    /// Nothing is handed out any more, for this reason.
    closed: Option<Error>,
    /// What comes back stays registered: the context is broken.
    broken: bool,
    /// Bytes that are kept because the driver answered the error of a broken context when it was to take them back.
    kept: usize,
}

/// The buffers of one context. From any thread.
pub struct Cache {
    limits: Limits,
    state: Mutex<State>,
    stats: Arc<Stats>,
    /// Has the stager look whether it must pin or release something.
    stager: Arc<dyn Wake>,
}

/// A buffer, for as long as this lives.
pub struct BounceBuffer {
    cache: Arc<Cache>,
    /// `None`: it has been given back.
    pinned: Option<Pinned>,
    written: usize,
}

enum Slot {
    Waiting(Told),
    Granted(BounceBuffer),
    Refused(Error),
    /// Whoever had it does not need it any more, or has got what it stood for.
    Empty,
}

/// A place in the line for a buffer. Dropping it gives it up.
pub struct Place(Arc<Ticket>);

struct Ticket {
    size: usize,
    slot: Mutex<Slot>,
}

/// What became of a place in the line.
pub enum Turn {
    /// Still in line.
    Waiting,
    /// Here it is.
    Granted(BounceBuffer),
    /// There will be none.
    Refused(Error),
}

/// What a request for a buffer leads to.
pub enum Taken {
    /// A buffer.
    Now(BounceBuffer),
    /// A place in the line.
    InLine(Place),
    /// There will be none.
    Never(Error),
}

/// What the stager has done for those in line.
pub enum Served {
    /// There was nothing to do.
    Nothing,
    /// Something.
    Something,
    /// Nothing more can be pinned now.
    Refused(Error),
}

/// What the stager has to do for those in line.
#[derive(Debug, PartialEq, Eq)]
pub enum Demand {
    /// Pin a buffer of so many bytes.
    Pin(usize),
    /// Release free ones that are too small, to make room.
    MakeRoom,
    /// Give a free one to the first: those before it gave their places up, and it is content with less.
    HandOut,
}

impl Cache {
    /// An empty cache, whose stager is woken when there is something to do.
    pub fn new(limits: Limits, stats: Arc<Stats>, stager: Arc<dyn Wake>) -> Arc<Cache> {
        Arc::new(Cache { limits, state: Mutex::new(State::default()), stats, stager })
    }

    /// A buffer for `n` bytes, or a place in the line for one.
    pub fn take(self: &Arc<Self>, n: u64, told: &mut dyn FnMut() -> Told) -> Taken {
        let size = self.limits.buffer_for(usize::try_from(n).unwrap_or(usize::MAX / 2));
        let place = {
            let mut state = self.state.lock();
            if let Some(error) = &state.closed {
                return Taken::Never(error.clone());
            }
            state.forget_empty();
            if state.line.is_empty() {
                if let Some(pinned) = state.take_free(size) {
                    drop(state);
                    return Taken::Now(self.lend(pinned));
                }
            }
            let ticket = Arc::new(Ticket { size, slot: Mutex::new(Slot::Waiting(told())) });
            state.line.push_back(ticket.clone());
            Place(ticket)
        };
        stats::add(&self.stats.bounce_buffer_waits, 1);
        self.stager.wake();
        Taken::InLine(place)
    }

    fn lend(self: &Arc<Self>, pinned: Pinned) -> BounceBuffer {
        stats::add(&self.stats.bounce_buffers_in_use, 1);
        BounceBuffer { cache: self.clone(), pinned: Some(pinned), written: 0 }
    }

    /// What those in line need from the stager.
    pub fn demand(&self) -> Option<Demand> {
        let mut state = self.state.lock();
        state.forget_empty();
        let size = state.line.front()?.size;
        if state.free.range(size..).next().is_some() {
            return Some(Demand::HandOut);
        }
        let refused = state.refused.filter(|(_, until)| Instant::now() < *until);
        let most = refused.map_or(self.limits.most, |(most, _)| most);
        if state.pinned == 0 || state.pinned.saturating_add(size) <= most {
            return Some(Demand::Pin(size));
        }
        (!state.free.is_empty()).then_some(Demand::MakeRoom)
    }

    /// Stager only: does what there is to do, in the current context. What is refused is for [`Cache::cannot_pin`].
    pub fn serve(self: &Arc<Self>, current: &Current<'_>) -> Served {
        match self.demand() {
            None => return Served::Nothing,
            Some(Demand::HandOut) => {
                let settled = self.state.lock().settle();
                self.grant(settled);
            }
            Some(Demand::MakeRoom) => {
                let smallest = {
                    let mut state = self.state.lock();
                    let size = state.free.keys().next().copied();
                    size.and_then(|size| state.take_free(size))
                };
                smallest.into_iter().for_each(|pinned| self.release(pinned, Registration::Ends(current)));
            }
            Some(Demand::Pin(size)) => {
                let pinned = match self.limits.pool {
                    Some(pool) => Pinned::take(pool, size),
                    None => Pinned::map(current, size),
                };
                match pinned {
                    Ok(pinned) => {
                        stats::add(&self.stats.bounce_buffers_total, 1);
                        stats::add(&self.stats.pinned_bytes, size as u64);
                        self.state.lock().pinned += size;
                        self.hand_out(pinned);
                    }
                    Err(error) => return Served::Refused(error),
                }
            }
        }
        Served::Something
    }

    /// With some buffers the line goes on more slowly. Without any, whoever is first in it fails.
    pub fn cannot_pin(&self, error: Error) {
        let refused = {
            let mut state = self.state.lock();
            if state.pinned > 0 {
                state.refused = Some((state.pinned, Instant::now() + REFUSED));
                None
            } else {
                state.forget_empty();
                state.line.pop_front()
            }
        };
        match refused {
            Some(ticket) => ticket.settle(Slot::Refused(error)),
            None => log::warn!(
                target: "raskio", "device reads go on with the pinned memory that there is: {}", error.message()
            ),
        }
    }

    /// The first in line fails, since nothing can be pinned or released now; unless buffers are in use, which will come
    /// free. Those that are free already are too small for it.
    pub fn fail_first(&self, error: &Error) {
        let first = {
            let mut state = self.state.lock();
            state.forget_empty();
            let free: usize = state.free.iter().map(|(size, buffers)| size * buffers.len()).sum();
            if state.pinned == free { state.line.pop_front() } else { None }
        };
        if let Some(ticket) = first {
            ticket.settle(Slot::Refused(error.clone()));
        }
    }

    /// A buffer that nobody uses: for the first in line, or for later.
    fn hand_out(self: &Arc<Self>, pinned: Pinned) {
        let (settled, late, more) = {
            let mut state = self.state.lock();
            if state.closed.is_some() {
                let registration = if state.broken { Registration::Stays } else { Registration::Ended };
                (Vec::new(), Some((pinned, registration)), false)
            } else {
                state.free.entry(pinned.size()).or_default().push(pinned);
                (state.settle(), None, !state.line.is_empty())
            }
        };
        self.grant(settled);
        if let Some((pinned, registration)) = late {
            // The context may be gone, and the stager is: nobody is left who could do it better.
            self.release(pinned, registration);
        }
        if more {
            // The one at the head may need another size than what came free.
            self.stager.wake();
        }
    }

    fn grant(self: &Arc<Self>, settled: Vec<(Arc<Ticket>, Pinned)>) {
        for (ticket, pinned) in settled {
            ticket.settle(Slot::Granted(self.lend(pinned)));
        }
    }

    fn release(&self, pinned: Pinned, registration: Registration<'_>) {
        let size = pinned.size();
        self.state.lock().pinned -= size;
        stats::sub(&self.stats.bounce_buffers_total, 1);
        stats::sub(&self.stats.pinned_bytes, size as u64);
        match pinned.release(registration) {
            Ok(()) => {}
            // The stager tells, once and not for each buffer.
            Err(failure) if failure.has_broken_the_context() => self.state.lock().kept += size,
            Err(failure) => log::error!(
                target: "raskio", "{size} bytes of pinned memory are given up: {}", Error::from(failure).message()
            ),
        }
    }

    /// Bytes that stay pinned, since a broken context does not take them back.
    pub fn kept(&self) -> usize {
        self.state.lock().kept
    }

    fn give_up(&self, pinned: Pinned) {
        let size = pinned.size();
        self.state.lock().pinned -= size;
        stats::sub(&self.stats.bounce_buffers_total, 1);
        stats::sub(&self.stats.pinned_bytes, size as u64);
        log::error!(
            target: "raskio",
            "{size} bytes of pinned memory are given up: the driver does not say whether the copy out of them, or into them, is over"
        );
        // Dropping it gives nothing back. Another may be pinned in its place.
        self.stager.wake();
    }

    /// Stager only: releases what is free.
    pub fn trim(&self, registration: Registration<'_>) {
        let free = {
            let mut state = self.state.lock();
            state.refused = None;
            std::mem::take(&mut state.free)
        };
        free.into_values().flatten().for_each(|pinned| self.release(pinned, registration));
    }

    /// [`Cache::close`] when the context is broken: buffers that come back later stay registered, and mapped.
    pub fn close_broken(&self, error: &Error) {
        self.state.lock().broken = true;
        self.close(error);
    }

    /// Refuses everybody from now on, those in line included.
    pub fn close(&self, error: &Error) {
        let line = {
            let mut state = self.state.lock();
            state.closed.get_or_insert_with(|| error.clone());
            std::mem::take(&mut state.line)
        };
        line.into_iter().for_each(|ticket| ticket.settle(Slot::Refused(error.clone())));
    }
}

impl State {
    /// The smallest free buffer that holds `size` bytes.
    fn take_free(&mut self, size: usize) -> Option<Pinned> {
        let (&found, buffers) = self.free.range_mut(size..).next()?;
        let pinned = buffers.pop();
        if buffers.is_empty() {
            self.free.remove(&found);
        }
        pinned
    }

    /// Takes those off the line, in their order, for whom there are free buffers.
    fn settle(&mut self) -> Vec<(Arc<Ticket>, Pinned)> {
        let mut settled = Vec::new();
        loop {
            self.forget_empty();
            let Some(size) = self.line.front().map(|ticket| ticket.size) else { return settled };
            let Some(pinned) = self.take_free(size) else { return settled };
            settled.extend(self.line.pop_front().map(|ticket| (ticket, pinned)));
        }
    }

    /// Takes those off the head of the line that gave their place up.
    fn forget_empty(&mut self) {
        while self.line.front().is_some_and(|ticket| matches!(*ticket.slot.lock(), Slot::Empty)) {
            self.line.pop_front();
        }
    }
}

impl Ticket {
    /// The end of waiting.
    fn settle(&self, end: Slot) {
        let before = {
            let mut slot = self.slot.lock();
            match &*slot {
                Slot::Waiting(_) => std::mem::replace(&mut *slot, end),
                // Given up meanwhile: what was meant for it goes on to the next, in its drop.
                _ => end,
            }
        };
        if let Slot::Waiting(told) = before {
            told();
        }
    }
}

impl Place {
    /// What became of it.
    pub fn look(&self) -> Turn {
        let mut slot = self.0.slot.lock();
        if matches!(*slot, Slot::Waiting(_)) {
            return Turn::Waiting;
        }
        match std::mem::replace(&mut *slot, Slot::Empty) {
            Slot::Granted(buffer) => Turn::Granted(buffer),
            Slot::Refused(error) => Turn::Refused(error),
            Slot::Waiting(_) | Slot::Empty => {
                Turn::Refused(Error::new(ErrorKind::Internal, "a place in the line for a buffer was used twice"))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Outside the lock: dropping a buffer hands it on.
        let slot = std::mem::replace(&mut *self.0.slot.lock(), Slot::Empty);
        drop(slot);
    }
}

impl BounceBuffer {
    /// Appends `bytes`; false, with nothing written, if they do not fit.
    #[must_use]
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        let fits = self.pinned.as_mut().is_some_and(|pinned| pinned.write(self.written, bytes));
        if fits {
            self.written += bytes.len();
        }
        fits
    }

    /// The room that is left, to be filled by the kernel.
    pub fn room(&mut self) -> Option<Span<'_>> {
        self.pinned.as_mut().map(|pinned| pinned.room(self.written))
    }

    /// The first `n` bytes of the room have been filled; false, with nothing changed, if there are not so many.
    #[must_use]
    pub fn filled(&mut self, n: usize) -> bool {
        let fits = self.pinned.as_ref().is_some_and(|pinned| n <= pinned.size() - self.written);
        if fits {
            self.written += n;
        }
        fits
    }

    /// Bytes written.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Starts copying what lies at `at` to a part. The buffer must live until the copy is done.
    ///
    /// # Errors
    /// What the driver says; nothing was started then.
    pub fn copy(
        &self,
        current: &Current<'_>,
        stream: &Stream,
        at: usize,
        to: &CudaPart,
    ) -> std::result::Result<(), Failure> {
        match &self.pinned {
            Some(pinned) => stream.copy(current, to, pinned, at),
            // Until its drop it has memory.
            None => Ok(()),
        }
    }

    /// The other way: starts copying a part to `at`, whose bytes were counted as written before.
    ///
    /// # Errors
    /// What the driver says; nothing was started then.
    pub fn fetch(
        &self,
        current: &Current<'_>,
        stream: &Stream,
        at: usize,
        from: &CudaPart,
    ) -> std::result::Result<(), Failure> {
        match &self.pinned {
            Some(pinned) => stream.fetch(current, pinned, at, from),
            None => Ok(()),
        }
    }

    /// What was written from `at` on, to be read by the kernel.
    pub fn rest(&self, at: u64) -> Option<Span<'_>> {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.written);
        self.pinned.as_ref().map(|pinned| pinned.rest(at).cut(self.written - at))
    }
}

impl BounceBuffer {
    /// Nobody gets it any more. Stager only.
    pub fn release(mut self, registration: Registration<'_>) {
        let Some(pinned) = self.pinned.take() else { return };
        stats::sub(&self.cache.stats.bounce_buffers_in_use, 1);
        self.cache.release(pinned, registration);
    }

    /// Nobody knows whether the device still uses it: it stays pinned, is never used again, and counts no more.
    pub fn give_up(mut self) {
        let Some(pinned) = self.pinned.take() else { return };
        stats::sub(&self.cache.stats.bounce_buffers_in_use, 1);
        self.cache.give_up(pinned);
    }
}

impl Drop for BounceBuffer {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            stats::sub(&self.cache.stats.bounce_buffers_in_use, 1);
            self.cache.hand_out(pinned);
        }
    }
}
