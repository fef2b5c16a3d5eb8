//! The reactor: one thread, one multi handle, many transfers.

mod admission;
pub mod attempt;
pub mod board;
mod ends;
pub mod engine;
mod hedge;
pub mod names;
mod naps;
pub mod pool;
mod sleep;
mod timers;
pub(in crate::transport) mod waiting;

use crate::credentials::authority::Granted;
use crate::endpoint::Origin;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Timings};
use crate::stats;
use crate::sys::curl::{Done, Easy, Finished, Multi, Times};
use crate::sys::fault::{self, Point};
use crate::transport::Transfer;
use crate::transport::lanes::Lanes;
use attempt::{Attempt, Slot, Verdict};
use board::Pace;
use engine::{Engine, Member, Message, Stop};
use hedge::Seconds;
use names::Tell;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use timers::{Due, Timers};
use waiting::Waiting;

/// A connection that took so long was asked for twice: Linux repeats what got no answer after a second (RFC 6298).
const SYN_REPEATED: Duration = Duration::from_millis(950);
/// How long a reactor pauses after a fault, so that one that comes back at once does not spin.
const FAULT_PAUSE: Duration = Duration::from_millis(50);

/// Runs the thread `index` of `engine` to its end.
pub fn run(engine: &Arc<Engine>, index: usize) {
    let mut local = Local::new(engine.clone(), index);
    loop {
        // Whatever happens inside, the transfers stay reachable in `local`: a fault costs its cause, not them.
        match catch_unwind(AssertUnwindSafe(|| local.run())) {
            Ok(Ok(Stop::Abandon)) => {
                // libcurl, the host's callbacks and its memory may be half gone: touch nothing.
                std::mem::forget(local);
                return;
            }
            Ok(Ok(_)) => return,
            Ok(Err(error)) => local.recover(&error),
            Err(_) => {
                let error = Error::new(ErrorKind::Internal, "a panic in a reactor was caught; this is a bug in RaskIO");
                local.recover(&error);
            }
        }
    }
}

/// The deadline of what an attempt is for, and its number.
type Turn = (Option<Reverse<Instant>>, u64);

/// What only this thread touches.
struct Local {
    engine: Arc<Engine>,
    index: usize,
    multi: Option<Multi<Slot>>,
    /// Handles that no transfer uses.
    idle: Vec<Easy<Slot>>,
    /// Requests that wait for a permit.
    queue: Lanes<Transfer>,
    /// Requests that wait for something that is asked for once for all of them.
    parked: Vec<(Awaits, Transfer)>,
    /// Requests that wait for their sinks.
    waiting: Waiting,
    /// The transfers that look a name up for others.
    lookups: Vec<usize>,
    timers: Timers,
    messages: VecDeque<Message>,
    next_scan: Instant,
    /// When libcurl last looked at every socket, or there was none to look at.
    looked_at_all: Instant,
    /// When to close idle connections, since some of them have ended.
    close_idle_at: Option<Instant>,
    /// When to look for waiting requests whose operation is over, if some may be there.
    look_at: Option<Instant>,
    pace: Pace,
    /// When a new connection may be opened, if one has to wait.
    connect_at: Option<Instant>,
    held_up: HeldUp,
    /// The limiter may have this thread in line, or a permit set aside for it.
    in_line: bool,
    /// There was work on the boards when it had as much as it is to have.
    held_back: bool,
    /// The last request taken from the boards was one that may wait for its sink.
    sinks_had_theirs: bool,
    /// Those that are over and not taken in yet, with what says whose turn it is: the last one's. Empty between two turns.
    over: Vec<(Turn, Done)>,
    /// What was asked twice.
    seconds: Seconds,
    /// Attempts made so far.
    attempts: u64,
    /// What the limiter's limit was when it was last written into the statistics.
    limit: u64,
    /// The engine, as look-ups report to it.
    tell: Arc<dyn Tell>,
    /// The engine, as secrets report to it.
    granted: Arc<dyn Granted>,
}

/// Lanes of the queue that were found, one after the other, to need a connection that may not be opened yet.
#[derive(Default)]
struct HeldUp {
    /// How many.
    found: usize,
    /// Of so many.
    lanes: usize,
    /// While the gate was at this change.
    gate: usize,
    /// When the first of them may ask again.
    until: Option<Instant>,
}

/// What a parked request waits for.
#[derive(PartialEq)]
enum Awaits {
    /// The name of where it goes.
    Name(Origin),
    /// The secret that the authority of this number is asking for.
    Secret(usize),
}

impl Local {
    fn new(engine: Arc<Engine>, index: usize) -> Local {
        Local {
            tell: engine.clone(),
            granted: engine.clone(),
            engine,
            index,
            multi: None,
            idle: Vec::new(),
            queue: Lanes::default(),
            parked: Vec::new(),
            waiting: Waiting::default(),
            lookups: Vec::new(),
            timers: Timers::default(),
            messages: VecDeque::new(),
            next_scan: Instant::now(),
            looked_at_all: Instant::now(),
            close_idle_at: None,
            look_at: None,
            pace: Pace::default(),
            connect_at: None,
            held_up: HeldUp::default(),
            in_line: false,
            held_back: false,
            sinks_had_theirs: false,
            over: Vec::new(),
            seconds: Seconds::default(),
            attempts: 0,
            limit: 0,
        }
    }

    fn member(&self) -> &Member {
        &self.engine.members[self.index]
    }

    fn run(&mut self) -> Result<Stop> {
        loop {
            match self.engine.stop() {
                Stop::No => {}
                Stop::ShutDown => {
                    self.end_everything();
                    return Ok(Stop::ShutDown);
                }
                Stop::Abandon => return Ok(Stop::Abandon),
            }
            self.take_messages();
            assert!(!fault::hit(Point::PanicInLoop), "a planted panic");
            if self.member().sweep.swap(false, Ordering::AcqRel) {
                self.look_at = Some(Instant::now());
                self.sweep_in_flight()?;
            }
            if self.look_at.is_some_and(|at| at <= Instant::now()) {
                self.look_at = self.sweep_waiting();
            }
            self.expire_timers();
            if self.timers.is_empty() && self.parked.is_empty() && self.waiting.is_empty() {
                self.member().keeps_some.store(false, Ordering::Release);
            }
            self.admit()?;
            // After admission: as many are in flight now as may be, if there are so many.
            if let Some(limiter) = &self.engine.limiter {
                let now = Instant::now();
                limiter.look(now, || self.engine.activity(now));
                let limit = u64::from(limiter.limit_now());
                if limit != self.limit {
                    self.limit = limit;
                    self.engine.stats.request_limit.store(limit, Ordering::Relaxed);
                }
            }
            let finished = self.drive()?;
            let looked = self.scan_for_stalls()?;
            // Finished transfers made room: fill it before waiting.
            if finished == 0 && !looked {
                self.sleep()?;
            }
        }
    }

    fn take_messages(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        self.member().inbox.drain(&mut messages);
        let mut with_room = Vec::new();
        for message in messages.drain(..) {
            match message {
                Message::Nothing(op, part) => op.finish(&part, 0, 0, Ok(())),
                Message::Work(batch) => self.queue.push(batch),
                Message::Name(origin, failure) => self.told(&Awaits::Name(origin), failure),
                Message::Secret(authority, failure) => self.told(&Awaits::Secret(authority), failure),
                Message::Room(number) => with_room.extend(self.waiting.take(number)),
                Message::Deadline(at, op) => self.timers.push(at, Due::Deadline(op)),
                Message::Trim => {
                    self.idle.clear();
                    if let Some(multi) = &mut self.multi {
                        multi.close_idle();
                    }
                }
            }
        }
        self.messages = messages;
        // The first to be told stays the first.
        with_room.into_iter().rev().for_each(|transfer| self.ready(transfer));
    }

    /// The requests that waited for this go on, in their order, or fail as the question did.
    fn told(&mut self, what: &Awaits, failure: Option<Error>) {
        let (told, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parked).into_iter().partition(|(awaits, _)| awaits == what);
        self.parked = stay;
        for (_, transfer) in told.into_iter().rev() {
            match &failure {
                None => self.ready(transfer),
                Some(error) => {
                    self.dequeued();
                    match error.kind() {
                        ErrorKind::Connection | ErrorKind::TimedOut | ErrorKind::Unavailable => {
                            self.retry_later(transfer, error.clone(), false);
                        }
                        _ => self.conclude(attempt::fail(transfer, error.clone())),
                    }
                }
            }
        }
    }

    fn expire_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(due) = self.timers.pop_due(now) {
            match due {
                Due::Retry(transfer) => self.ready(transfer),
                Due::Late { token, number } => self.ask_again(token, number),
                Due::Deadline(op) => {
                    if let Some(op) = op.upgrade() {
                        op.fail_late();
                    }
                }
            }
        }
    }

    /// A request may go on, before those that have not started yet. In a pool any thread may take it.
    fn ready(&mut self, transfer: Transfer) {
        if self.engine.limiter.is_some() {
            self.queue.push_first(transfer);
        } else if let Err(refused) = self.engine.post(vec![transfer], true) {
            refused.into_iter().for_each(|transfer| self.refuse(transfer));
        }
    }

    fn multi(&mut self) -> Result<&mut Multi<Slot>> {
        match &mut self.multi {
            Some(multi) => Ok(multi),
            empty => Ok(empty.insert(Multi::new(self.engine.max_connections)?)),
        }
    }

    /// Lets libcurl work, and takes in what is over. Returns how many transfers were.
    fn drive(&mut self) -> Result<usize> {
        let Some(multi) = &mut self.multi else { return Ok(0) };
        // Without transfers too: libcurl shuts connections down, and one that is idle may have ended.
        multi.advance()?;
        if multi.is_empty() {
            return Ok(0);
        }
        self.engine.members[self.index].received.store(attempt::received_by_this_thread(), Ordering::Relaxed);
        // Seldom any. Before the finished ones are taken out, while the tokens are theirs.
        self.lookups.retain(|&token| {
            let known = multi.name_is_known(token);
            if let (true, Some(attempt)) = (known, multi.handler(token).and_then(Slot::attempt)) {
                attempt.name_is_known();
            }
            !known
        });
        let mut over = std::mem::take(&mut self.over);
        while let Some(done) = multi.next_done() {
            let turn = multi
                .handler(done.token)
                .and_then(Slot::attempt)
                .map_or((None, 0), |attempt| (attempt.transfer().op.deadline().map(Reverse), attempt.number()));
            over.push((turn, done));
        }
        // From the end: those with a deadline, the nearest first, since each callback takes its time; and of the others the attempt that
        // began first last: who waits for all of them in order is woken once.
        over.sort_unstable_by_key(|&(turn, _)| turn);
        let finished = over.len();
        while let Some((_, done)) = over.pop() {
            self.reap(done.token, done.code)?;
        }
        self.over = over;
        if let Some(multi) = &mut self.multi {
            multi.settle()?;
        }
        Ok(finished)
    }

    /// Takes a transfer out of the multi handle first, then looks at what became of it.
    fn reap(&mut self, token: usize, code: u32) -> Result<()> {
        let Some((finished, Some(attempt))) = self.take_out(token, code)? else { return Ok(()) };
        self.count(&finished, &attempt);
        let outcome = self.first_is_over(&attempt);
        self.conclude(attempt.judge(&finished, &self.engine.policy, fastrand::f64()));
        outcome
    }

    /// What an attempt brought, and where its time went.
    fn count(&self, finished: &Finished, attempt: &Attempt) {
        let (stats, times) = (&self.engine.stats, &finished.times);
        if finished.connections == 0 && attempt.answered() {
            stats::add(&stats.connections_reused, 1);
        }
        if times.connect >= SYN_REPEATED {
            self.engine.gate.overrun(attempt.origin());
        }
        stats::add(&stats.bytes_received, attempt.received());
        for (counter, time) in [
            (&stats.name_lookup_us, times.name_lookup),
            (&stats.connect_us, times.connect),
            (&stats.tls_us, times.tls),
            (&stats.wait_us, times.wait),
            (&stats.body_us, times.body),
        ] {
            if !time.is_zero() {
                stats::add(counter, u64::try_from(time.as_micros()).unwrap_or_default());
            }
        }
        if !times.first_byte.is_zero() {
            stats.first_byte_latency.add(times.first_byte);
        }
        if attempt.succeeded() {
            stats.request_latency.add(attempt.started().elapsed());
        }
    }

    /// Takes a transfer out of the multi handle, with what became of it.
    fn take_out(&mut self, token: usize, code: u32) -> Result<Option<(Finished, Option<Attempt>)>> {
        let Some(multi) = &mut self.multi else { return Ok(None) };
        self.lookups.retain(|&other| other != token);
        let removed = multi.remove_keeping(token, Slot::take);
        if !matches!(removed, Ok(None)) {
            stats::sub(&self.engine.stats.requests_in_flight, 1);
        }
        let (easy, taken, error) = match removed {
            Ok(Some((easy, taken))) => (Some(easy), taken, None),
            Ok(None) => return Ok(None),
            Err((taken, error)) => (None, taken, Some(error)),
        };
        let Some(mut easy) = easy else {
            // libcurl still refers to the handle: it is leaked, and its transfer starts over on the next reactor.
            stats::add(&self.engine.stats.handles_leaked, 1);
            stats::process::fault(&format!("reactor {}: a libcurl handle was given up", self.index));
            let error = error.unwrap_or_else(|| Error::new(ErrorKind::Internal, "a handle was lost"));
            if let Some(attempt) = taken {
                self.retry_later(attempt.into_transfer(), error.clone(), false);
            }
            return Err(error);
        };
        let finished: Finished = easy.finished(code);
        self.idle.push(easy);
        stats::add(&self.engine.stats.connections_opened, finished.connections);
        // Its connection may be what somebody waits for.
        self.held_up.found = 0;
        if finished.connections > 0 {
            let Times { name_lookup, connect, tls, .. } = finished.times;
            let timings = Timings { name_lookup, connect, tls };
            self.engine.stats.observer.tell(&Event::Connected { connections: finished.connections, timings });
        }
        Ok(Some((finished, taken)))
    }

    fn conclude(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Done(transfer, result) if transfer.second_of.is_some() => self.second_is_over(transfer, result),
            Verdict::Again(transfer, _) if transfer.second_of.is_some() => {
                // Its first attempt goes on, and has all the patience that there is.
                self.second_is_over(
                    transfer,
                    Err(Error::new(ErrorKind::Unavailable, "it would have to be tried again")),
                );
            }
            Verdict::Done(transfer, result) => self.finish(transfer, result),
            Verdict::Several(transfers) => self.go_on_as(transfers),
            Verdict::Again(mut transfer, wait) => {
                stats::add(&self.engine.stats.requests_queued, 1);
                if wait.is_zero() {
                    self.ready(transfer);
                } else {
                    self.tell_of_retry(&transfer, wait);
                    transfer.waits_for(c"wait before another attempt");
                    transfer.pause();
                    self.timers.push(Instant::now() + wait, Due::Retry(transfer));
                    self.member().keeps_some.store(true, Ordering::Release);
                }
            }
        }
    }

    /// One request is over by becoming these, which wait in its place.
    fn go_on_as(&mut self, transfers: Vec<Transfer>) {
        let (stats, several) = (&self.engine.stats, transfers.len() as u64);
        stats::add(&stats.requests_started, several.saturating_sub(1));
        stats::add(&stats.requests_queued, several);
        if self.engine.board.is_none() {
            self.queue.push(transfers);
        } else if let Err(refused) = self.engine.post(transfers, false) {
            refused.into_iter().for_each(|transfer| self.refuse(transfer));
        }
    }

    fn tell_of_retry(&self, transfer: &Transfer, wait: Duration) {
        let Some((kind, http_status)) = transfer.last_failure else { return };
        let attempt = transfer.history.failures + transfer.history.resumes;
        let max_attempts = self.engine.policy.max_attempts;
        self.engine.stats.observer.tell(&Event::Retry { kind, http_status, attempt, max_attempts, wait });
    }

    fn finish(&self, transfer: Transfer, result: Result<()>) {
        stats::add(&self.engine.stats.requests_finished, 1);
        transfer.finish(result);
    }

    fn tokens(&self) -> Vec<usize> {
        self.multi.as_ref().map(Multi::tokens).unwrap_or_default()
    }
}
