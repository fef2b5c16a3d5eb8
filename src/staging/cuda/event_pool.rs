//! Events that are used again: one pool a context.
//!
//! An event that comes back may still have work before it. Handed out like that, it would tell its next user about work that
//! this one never gave it: so it is set aside, and not free before the driver says that it is done.

use crate::error::{Error, Result};
use crate::stats::{self, Stats};
use crate::sync::Mutex;
use crate::sys::cuda::{Context, Current, Event, Failure, Stream};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Default)]
struct State {
    /// Nothing is before these.
    free: Vec<Event>,
    /// Returned while something was; the oldest first.
    pending: VecDeque<Event>,
    /// The context is gone, and with it every event.
    gone: bool,
}

/// The events of one context. From any thread.
pub struct EventPool {
    context: Arc<Context>,
    /// Events kept for later, at most.
    keep: usize,
    state: Mutex<State>,
    stats: Arc<Stats>,
}

/// What is known of the work before an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// There is none.
    None,
    /// There may be some.
    Some,
    /// The driver cannot tell.
    Unknown,
}

/// An event, for as long as this lives.
pub struct PooledEvent {
    pool: Arc<EventPool>,
    event: Event,
    work: Work,
}

impl EventPool {
    /// An empty pool that keeps at most `keep` events that nobody uses.
    pub fn new(context: Arc<Context>, keep: usize, stats: Arc<Stats>) -> Arc<EventPool> {
        Arc::new(EventPool { context, keep, state: Mutex::new(State::default()), stats })
    }

    /// An event: a free one, or a new one. Waits for nobody.
    ///
    /// # Errors
    /// What the driver says to making one.
    pub fn get(self: &Arc<Self>) -> std::result::Result<PooledEvent, Failure> {
        let free = self.state.lock().free.pop();
        let event = match free {
            Some(event) => {
                stats::sub(&self.stats.events_free, 1);
                event
            }
            None => {
                // Outside the lock: making one may take a while, and others may have one to return.
                let current = self.context.enter()?;
                match self.oldest_if_done(&current) {
                    Some(event) => event,
                    None => {
                        let event = Event::new(&current)?;
                        stats::add(&self.stats.events_total, 1);
                        event
                    }
                }
            }
        };
        Ok(PooledEvent { pool: self.clone(), event, work: Work::None })
    }

    /// Events that are free now.
    pub fn free(&self) -> usize {
        self.state.lock().free.len()
    }

    /// Events that were returned with work before them, and have not been looked at since.
    pub fn pending(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Destroys those that nobody uses.
    pub fn trim(&self, current: &Current<'_>) {
        let unused = self.take_all();
        unused.into_iter().for_each(|event| self.destroy(event, current));
    }

    /// The context is gone: so is every event, and none of their handles means anything any more.
    pub fn abandon(&self) {
        self.state.lock().gone = true;
        let unused = self.take_all();
        stats::sub(&self.stats.events_total, unused.len() as u64);
    }

    fn take_all(&self) -> Vec<Event> {
        let (mut unused, pending) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.free), std::mem::take(&mut state.pending))
        };
        stats::sub(&self.stats.events_free, unused.len() as u64);
        unused.extend(pending);
        unused
    }

    /// The event that was set aside first, if its work is done.
    fn oldest_if_done(&self, current: &Current<'_>) -> Option<Event> {
        let event = self.state.lock().pending.pop_front()?;
        match event.is_done(self.context.driver()) {
            Ok(true) => Some(event),
            Ok(false) => {
                // Others may have returned some meanwhile.
                if let Some(surplus) = self.keep(event, false) {
                    self.destroy(surplus, current);
                }
                None
            }
            Err(failure) => {
                self.give_up(event, failure);
                None
            }
        }
    }

    /// Takes an event back.
    fn put_back(&self, event: Event, work: Work) {
        // Only an event whose end nobody saw costs a call, and that call needs its context.
        let (current, done) = match work {
            Work::None => (None, true),
            Work::Unknown => {
                return match self.context.enter() {
                    Ok(current) => self.destroy(event, &current),
                    Err(failure) => self.lost(failure),
                };
            }
            Work::Some => match self.context.enter() {
                Ok(current) => match event.is_done(self.context.driver()) {
                    Ok(done) => (Some(current), done),
                    Err(failure) => return self.give_up(event, failure),
                },
                Err(failure) => return self.lost(failure),
            },
        };
        let Some(event) = self.keep(event, done) else { return };
        match current.map_or_else(|| self.context.enter(), Ok) {
            Ok(current) => self.destroy(event, &current),
            Err(failure) => self.lost(failure),
        }
    }

    /// Keeps an event for later. Gives it back if there are enough.
    fn keep(&self, event: Event, done: bool) -> Option<Event> {
        let mut state = self.state.lock();
        if state.gone {
            stats::sub(&self.stats.events_total, 1);
            return None;
        }
        if state.free.len() + state.pending.len() >= self.keep {
            return Some(event);
        }
        if done {
            state.free.push(event);
            stats::add(&self.stats.events_free, 1);
        } else {
            state.pending.push_back(event);
        }
        None
    }

    fn destroy(&self, event: Event, current: &Current<'_>) {
        stats::sub(&self.stats.events_total, 1);
        if let Err(failure) = event.destroy(current.driver()) {
            tell("destroying a CUDA event", failure, current);
        }
    }

    /// An event that the driver does not take back is destroyed.
    fn give_up(&self, event: Event, failure: Failure) {
        match self.context.enter() {
            Ok(current) => {
                tell("a CUDA event cannot be used again and is destroyed", failure, &current);
                self.destroy(event, &current);
            }
            Err(failure) => self.lost(failure),
        }
    }

    /// Its context cannot be entered: the event is left to the context's end.
    fn lost(&self, failure: Failure) {
        stats::sub(&self.stats.events_total, 1);
        let for_good = failure.has_ended_all_work() && self.context.enter().is_err();
        if for_good && failure.is_context_gone() {
            // A context that was destroyed took its events along, and there is nothing to tell.
            self.abandon();
        } else if !for_good {
            log::error!(target: "raskio", "a CUDA event is left to its context: {}", Error::from(failure).message());
        }
    }
}

/// Of a context that is broken the stager tells, once and not for each event.
fn tell(what: &str, failure: Failure, current: &Current<'_>) {
    if !failure.has_broken_the_context() || current.why_broken().is_none() {
        log::error!(target: "raskio", "{what}: {}", Error::from(failure).message());
    }
}

impl PooledEvent {
    /// It is done when everything is that `stream` has been given so far.
    ///
    /// # Errors
    /// What the driver says. It goes back as it is.
    pub fn record(&mut self, current: &Current<'_>, stream: &Stream) -> std::result::Result<(), Failure> {
        self.event.record(current, stream)?;
        self.work = Work::Some;
        Ok(())
    }

    /// Whether it is done.
    ///
    /// # Errors
    /// What the driver says, also of work that failed since. It does not go back to the pool then.
    pub fn is_done(&mut self) -> std::result::Result<bool, Failure> {
        if self.work == Work::None {
            return Ok(true);
        }
        let done = self.event.is_done(self.pool.context.driver());
        match done {
            Ok(true) => self.work = Work::None,
            Ok(false) => {}
            Err(_) => self.work = Work::Unknown,
        }
        done
    }

    /// Waits until it is done; [`PooledEvent::is_done`] says how that was.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait(&self) -> std::result::Result<(), Failure> {
        self.event.wait(self.pool.context.driver())
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        self.pool.put_back(self.event, self.work);
    }
}

/// A pool for a context of the caller's, for tests and benchmarks.
///
/// # Errors
/// What [`Context`] says.
pub fn of_current(keep: usize, stats: Arc<Stats>) -> Result<Arc<EventPool>> {
    Ok(EventPool::new(Arc::new(Context::of_this_thread()?), keep, stats))
}
