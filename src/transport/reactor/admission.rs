//! How a request starts: room in its sink, a permit, a name that is known, a handle.

use super::attempt::{self, Course, Slot};
use super::engine::Message;
use super::names::Entry;
use super::{Awaits, HeldUp, Local};
use crate::credentials::authority;
use crate::error::{Error, Result};
use crate::limit::gate::Opening;
use crate::retry::{Cause, History};
use crate::staging::{Room, Told};
use crate::stats;
use crate::sys::curl::Easy;
use crate::transport::Transfer;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Why nothing starts although something waits.
enum Held {
    /// No connection may be opened before then.
    Until(Instant),
    /// The first would need one more connection than this reactor is to have.
    WithoutRoom,
}

impl Local {
    /// Starts what may start.
    pub(super) fn admit(&mut self) -> Result<()> {
        let one_at_a_time = self.engine.limiter.is_none();
        loop {
            let mut permit = None;
            if one_at_a_time {
                if self.multi.as_ref().is_some_and(|multi| !multi.is_empty()) {
                    return Ok(());
                }
            } else if self.queue.is_empty() {
                self.take_share();
                if self.queue.is_empty() {
                    self.leave_line();
                    return Ok(());
                }
            }
            let opening = match self.next_opening(one_at_a_time) {
                Ok(opening) => opening,
                Err(Held::WithoutRoom) => {
                    self.give_back();
                    continue;
                }
                Err(Held::Until(_)) if !one_at_a_time && self.take_another() => continue,
                Err(Held::Until(at)) => {
                    self.connect_at = Some(at);
                    self.leave_line();
                    return Ok(());
                }
            };
            let transfer = match &self.engine.board {
                Some(board) if one_at_a_time => board.take(self.index),
                _ => self.queue.pop(),
            };
            let Some(transfer) = transfer else {
                self.leave_line();
                return Ok(());
            };
            if one_at_a_time {
                self.engine.works_for(self.index, &transfer.op);
            }
            if transfer.is_over() {
                self.dequeued();
                self.finish(transfer, Ok(()));
                continue;
            }
            // Before anything is taken: nothing is held while a secret is asked for.
            let Some(mut transfer) = self.with_secret(transfer) else { continue };
            match self.prepare(&mut transfer) {
                Room::Yes => {}
                Room::Later => {
                    transfer.waits_for(c"wait for a pinned buffer");
                    self.waiting.put(transfer);
                    self.member().keeps_some.store(true, Ordering::Release);
                    continue;
                }
                Room::No(error) => {
                    self.dequeued();
                    self.conclude(attempt::fail(transfer, error));
                    continue;
                }
            }
            if let Some(limiter) = &self.engine.limiter {
                permit = limiter.acquire(self.index);
                if permit.is_none() {
                    if !self.in_line {
                        stats::add(&self.engine.stats.permit_waits, 1);
                    }
                    self.in_line = true;
                    transfer.waits_for(c"wait for a permit");
                    self.queue.push_first(transfer);
                    return Ok(());
                }
            }
            let (target, remembered) = transfer.target();
            let mut lookup = None;
            if target.origin.is_name {
                match self.engine.names.enter(&target.origin, self.index, &self.tell) {
                    Entry::Go => {}
                    Entry::First(first) => lookup = Some(first),
                    Entry::Wait => {
                        transfer.pause();
                        transfer.waits_for(c"wait for a name");
                        self.parked.push((Awaits::Name(target.origin.clone()), transfer));
                        self.member().keeps_some.store(true, Ordering::Release);
                        continue;
                    }
                }
            }
            self.dequeued();
            self.start(transfer, Course { target, remembered, permit, lookup, opening })?;
        }
    }

    /// Takes some of what any reactor may do: a part of what there is, so that all end at the same time, and not one by one.
    fn take_share(&mut self) {
        /// One lock for so many small requests is little enough.
        const MOST: usize = 16;
        /// Requests that wait for buffers of one context on one reactor: enough to have one when a buffer comes.
        const WAITING: usize = 2;
        let room = self.room();
        if room == 0 {
            let more = self.engine.pass_on(self.index);
            self.hold_back(more);
            return;
        }
        // In turn: however many come for one kind of memory, those for the other do not wait for an end of them.
        if let Some(board) = self.engine.board.as_ref().filter(|_| std::mem::take(&mut self.sinks_had_theirs)) {
            self.queue.push(board.take_some(self.index, |_| 1));
        }
        if let Some(board) = self.engine.sinks_board.as_ref().filter(|_| self.queue.is_empty()) {
            let waiting = &self.waiting;
            // Past those whose context has no buffers for a long time, since a stream of the caller's is blocked, say.
            let first = board.take_first(self.index, |transfer: &Transfer| {
                transfer.line().is_none_or(|line| waiting.in_line(line) < WAITING)
            });
            self.queue.push(first.into_iter().collect());
            self.sinks_had_theirs = !self.queue.is_empty();
        }
        if let Some(board) = self.engine.board.as_ref().filter(|_| self.queue.is_empty()) {
            let reactors = self.engine.members.len();
            let some = board.take_some(self.index, |posted| (posted / (2 * reactors)).clamp(1, MOST.min(room)));
            self.queue.push(some);
        }
        if self.queue.is_empty() {
            self.hold_back(false);
        }
    }

    /// Tells the limiter, which learns nothing about the path where requests are too few, whether more would be done here.
    fn hold_back(&mut self, held: bool) {
        if let Some(limiter) = self.engine.limiter.as_ref().filter(|_| self.held_back != held) {
            limiter.hold_back(held);
            self.held_back = held;
        }
    }

    /// How many requests more this reactor may have in flight: its part of all that may be, or as many as it has connections. With more,
    /// each reactor would have as many connections in the end as there are requests in flight over all of them, since permits go to
    /// whoever asks first: 241 with 8 reactors and 32 requests in flight. While another permit is free, a reactor has room for it.
    fn room(&self) -> usize {
        let (Some(limiter), Some(_)) = (&self.engine.limiter, &self.engine.board) else { return usize::MAX };
        let share = (limiter.limit_now() as usize).div_ceil(self.engine.members.len()).max(1);
        let Some(multi) = &self.multi else { return share };
        share.max(multi.connections()).saturating_sub(multi.len())
    }

    /// The request at the front goes to a reactor that has room for it.
    fn give_back(&mut self) {
        let Some(transfer) = self.queue.pop() else { return };
        if let Err(refused) = self.engine.post(vec![transfer], true) {
            refused.into_iter().for_each(|transfer| self.refuse(transfer));
        }
    }

    /// Takes one of what any reactor may do although this one has some, which are all held up.
    fn take_another(&mut self) -> bool {
        /// Those that are held up are not to pile up here: another reactor may have the connection that they wait for.
        const MOST: usize = 64;
        let Some(board) = self.engine.board.as_ref().filter(|_| self.queue.len() < MOST) else { return false };
        let another = board.take_some(self.index, |posted| posted.min(1));
        let found = !another.is_empty();
        self.queue.push(another);
        found
    }

    /// Brings a request to the front whose connection is there or may be opened, with the leave to open it. Those that may not
    /// go behind the others: a server that is slow to answer holds up nobody who wants another.
    ///
    /// # Errors
    /// When to ask again: all of them wait for leave. Or the first is another reactor's.
    fn next_opening(&mut self, one_at_a_time: bool) -> std::result::Result<Option<Opening>, Held> {
        /// Looked at in one pass; the next goes on from there.
        const LOOKS: usize = 64;
        let now = Instant::now();
        self.connect_at = None;
        let board = self.engine.board.as_ref().filter(|_| one_at_a_time);
        let (gate, lanes) = (self.engine.gate.changes(), board.map_or(self.queue.lanes(), |board| board.lanes()));
        // If nothing has changed for them, an event of a running transfer is no reason to look through all of them.
        let before = &self.held_up;
        if (gate, lanes) != (before.gate, before.lanes) || before.until.is_none_or(|until| until <= now) {
            self.held_up = HeldUp { found: 0, lanes, gate, until: None };
        }
        for _ in 0..LOOKS {
            match self.held_up.until {
                Some(until) if self.held_up.found >= self.held_up.lanes => return Err(Held::Until(until)),
                _ => {}
            }
            let origin_of = |transfer: &Transfer| transfer.target().0.origin.id;
            // In a pool, another thread may take that one meanwhile: then this one opens a connection for the next.
            let origin = board.map_or_else(|| self.queue.front().map(origin_of), |board| board.first(origin_of));
            let Some(origin) = origin else { return Ok(None) };
            if self.multi.as_mut().is_some_and(|multi| multi.idle_connections(origin) > 0) {
                self.held_up.found = 0;
                return Ok(None);
            }
            // What has a buffer stays, though it is one request too many here: nobody else would come for it in particular, and those
            // that wait for buffers wait for this one.
            let may_be_given_back = self.queue.front().is_some_and(|one| one.line().is_none());
            if may_be_given_back && self.room() == 0 {
                return Err(Held::WithoutRoom);
            }
            let held_up = &mut self.held_up;
            match self.engine.gate.enter(origin, self.index, now) {
                Ok(opening) => {
                    held_up.found = 0;
                    return Ok(Some(opening));
                }
                Err(at) => {
                    held_up.found += 1;
                    held_up.until = Some(held_up.until.map_or(at, |until| until.min(at)));
                    match board {
                        Some(board) => board.rotate(),
                        None => self.queue.rotate(),
                    }
                }
            }
        }
        Err(Held::Until(now))
    }

    /// A request whose secret is there; one that must wait for it is put aside.
    fn with_secret(&mut self, mut transfer: Transfer) -> Option<Transfer> {
        let Some(secret) = transfer.object.endpoint().authority().cloned() else { return Some(transfer) };
        match secret.enter(self.index, &self.granted) {
            Ok(authority::Entry::Go) => Some(transfer),
            Ok(authority::Entry::Wait) => {
                // It may have been sent before, and refused.
                transfer.pause();
                transfer.waits_for(c"wait for credentials");
                self.parked.push((Awaits::Secret(secret.number()), transfer));
                self.member().keeps_some.store(true, Ordering::Release);
                None
            }
            Err(error) => {
                self.dequeued();
                self.conclude(attempt::fail(transfer, error));
                None
            }
        }
    }

    /// Has the sink of a request get ready; if it must wait, [`Message::Room`] says when it need not any more.
    fn prepare(&self, transfer: &mut Transfer) -> Room {
        let (engine, index, number) = (&self.engine, self.index, self.waiting.next_number());
        transfer.prepare(&mut || -> Told {
            let engine = engine.clone();
            Box::new(move || {
                // Refused only by a thread that has ended everything it had.
                let _ = engine.members[index].inbox.push(vec![Message::Room(number)]);
            })
        })
    }

    /// Gives back what the limiter may have set aside for a thread that has nothing to send.
    pub(super) fn leave_line(&mut self) {
        if std::mem::take(&mut self.in_line) {
            if let Some(limiter) = &self.engine.limiter {
                limiter.decline(self.index);
            }
        }
    }

    pub(super) fn dequeued(&self) {
        stats::sub(&self.engine.stats.requests_queued, 1);
    }

    pub(super) fn start(&mut self, transfer: Transfer, course: Course) -> Result<()> {
        // The second hop of a second attempt is not a third one.
        let History { failures, resumes, cause, .. } = transfer.history;
        let retry = (transfer.moved_to.is_none() && failures + resumes > 0).then_some(cause);
        let (looks_up, origin) = (course.lookup.is_some(), course.target.origin.id);
        let plain = course.target.origin.scheme == "http" && !course.target.access.may_be_proxied;
        let easy = match self.idle.pop() {
            Some(easy) => Ok(easy),
            None => Easy::new(Slot::default(), &self.engine.settings),
        };
        let mut easy = match easy {
            Ok(easy) => easy,
            Err(error) => {
                self.conclude(attempt::fail(transfer, error));
                return Ok(());
            }
        };
        if let Err((transfer, error)) = attempt::start(&mut easy, transfer, course, Instant::now(), self.attempts) {
            self.idle.push(easy);
            self.conclude(attempt::fail(transfer, error));
            return Ok(());
        }
        self.attempts += 1;
        let engine = self.engine.clone();
        let multi = match self.multi() {
            Ok(multi) => multi,
            Err(error) => {
                self.take_back(easy, error);
                return Ok(());
            }
        };
        match multi.add(easy, origin, plain) {
            Ok(token) => {
                stats::add(&engine.stats.requests_in_flight, 1);
                if looks_up {
                    self.lookups.push(token);
                }
                if let Some(cause) = retry {
                    let stats = &engine.stats;
                    stats::add(&stats.requests_retried, 1);
                    let of_cause = match cause {
                        Cause::Status => &stats.retries_after_status,
                        Cause::Timeout => &stats.retries_after_timeout,
                        Cause::Connection => &stats.retries_after_connection,
                        Cause::ShortBody => &stats.retries_after_short_body,
                        Cause::Other => &stats.retries_after_other,
                    };
                    stats::add(of_cause, 1);
                }
                self.watch(token);
            }
            // Only this transfer fails; the multi handle and the others in it are well.
            Err((easy, error)) => self.take_back(easy, error),
        }
        Ok(())
    }

    /// A handle that could not be started: its transfer fails, or is tried again.
    pub(super) fn take_back(&mut self, mut easy: Easy<Slot>, error: Error) {
        let taken = easy.handler().take();
        self.idle.push(easy);
        if let Some(attempt) = taken {
            self.retry_later(attempt.into_transfer(), error, false);
        }
    }

    pub(super) fn retry_later(&mut self, transfer: Transfer, error: Error, progress: bool) {
        let verdict = attempt::retry_later(transfer, error, progress, &self.engine.policy, None, fastrand::f64());
        self.conclude(verdict);
    }
}
