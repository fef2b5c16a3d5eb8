//! Hedging: a late request goes out a second time, into memory of its own, and the first answer counts.
//!
//! The second question is a request like any other, of an operation that nobody waits for. It ends with the attempt that it
//! stands in for: whichever of the two loses is out of libcurl's hands before the operation hears of its end.

use super::Local;
use super::attempt::{Attempt, Slot};
use super::timers::Due;
use crate::error::{Error, ErrorKind, Result};
use crate::limit::hedge::Hedges;
use crate::op::items::Part;
use crate::op::{OpOwner, Operation};
use crate::staging::{RequestDone, Sink};
use crate::stats;
use crate::sync::Mutex;
use crate::transport::{Job, Transfer};
use std::collections::HashMap;
use std::sync::Arc;

/// One thread's second questions.
#[derive(Default)]
pub struct Seconds {
    hedges: Hedges,
    /// By the number of the attempt that they stand in for.
    asked: HashMap<u64, Second>,
}

struct Second {
    op: Arc<Operation>,
    /// The token of the first.
    token: usize,
    /// Where its range begins, counted from the begin of the first's.
    from: u64,
    answer: Arc<Mutex<Vec<u8>>>,
}

/// Keeps the answer to a second question.
struct Kept {
    bytes: Vec<u8>,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Sink for Kept {
    fn write(&mut self, bytes: &[u8]) -> bool {
        // All the room there is was made when it was asked.
        let fits = self.bytes.capacity() - self.bytes.len() >= bytes.len();
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    fn written(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn commit(self: Box<Self>, done: RequestDone) {
        let written = self.written();
        *self.answer.lock() = self.bytes;
        done.finish(written);
    }
}

/// Of an operation that nobody waits for.
struct Nobody;

impl OpOwner for Nobody {
    fn cancel_requested(&self, _: &Operation) {}
    fn run_completion(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
    fn op_starts_completion(&self, _: bool, _: std::time::Duration) {}
    fn op_finished(&self) {}
}

fn lost() -> Error {
    Error::new(ErrorKind::Cancelled, "the other answer came first")
}

impl Local {
    /// An attempt started: when it will be late.
    pub(super) fn watch(&mut self, token: usize) {
        if !self.engine.hedging {
            return;
        }
        let Some(attempt) = self.multi.as_mut().and_then(|multi| multi.handler(token)).and_then(Slot::attempt) else {
            return;
        };
        if attempt.transfer().second_of.is_some() {
            return;
        }
        let Some(missing) = attempt.transfer().missing() else { return };
        if let Some(after) = self.seconds.hedges.late_after(attempt.origin(), missing.len) {
            let (at, number) = (attempt.started() + after, attempt.number());
            self.timers.push(at, Due::Late { token, number });
        }
    }

    /// An attempt is late, if it is still on its way: asks once more.
    pub(super) fn ask_again(&mut self, token: usize, number: u64) {
        let handler = self.multi.as_mut().and_then(|multi| multi.handler(token));
        let Some(attempt) = handler.and_then(Slot::attempt).filter(|attempt| attempt.number() == number) else {
            return;
        };
        let first = attempt.transfer();
        let Some(range) = first.missing().filter(|range| range.len > 0 && !first.is_over()) else { return };
        let mut bytes = Vec::new();
        let room = usize::try_from(range.len).is_ok_and(|len| bytes.try_reserve_exact(len).is_ok());
        if !room || !self.seconds.hedges.may_ask() {
            return;
        }
        let op = Operation::new(Arc::new(Nobody), 1, 0, None, Box::new(|_| {}));
        let answer = Arc::<Mutex<Vec<u8>>>::default();
        let sink = Box::new(Kept { bytes, answer: answer.clone() });
        let mut second = Transfer::new(op.clone(), Part::Whole, first.object.clone(), Job::Read { range, sink });
        second.amended = first.amended;
        second.second_of = Some(number);
        self.seconds.asked.insert(number, Second { op, token, from: first.written(), answer });
        let stats = &self.engine.stats;
        stats::add(&stats.requests_hedged, 1);
        stats::add(&stats.requests_started, 1);
        stats::add(&stats.requests_queued, 1);
        self.queue.push_first(second);
    }

    /// A first attempt is over; what was asked in its stead is not wanted any more.
    pub(super) fn first_is_over(&mut self, attempt: &Attempt) -> Result<()> {
        if !self.engine.hedging || attempt.transfer().second_of.is_some() {
            return Ok(());
        }
        if attempt.succeeded() {
            let took = attempt.started().elapsed();
            self.seconds.hedges.answered(attempt.origin(), attempt.wanted(), took);
        }
        self.give_up_second(attempt.number())
    }

    fn give_up_second(&mut self, number: u64) -> Result<()> {
        let Some(second) = self.seconds.asked.remove(&number) else { return Ok(()) };
        // One that waits ends when its turn comes.
        second.op.fail(lost());
        for token in self.tokens() {
            let handler = self.multi.as_mut().and_then(|multi| multi.handler(token));
            if handler.and_then(Slot::attempt).is_some_and(|it| it.transfer().second_of == Some(number)) {
                return self.reap(token, 0);
            }
        }
        Ok(())
    }

    /// A second question is over.
    pub(super) fn second_is_over(&mut self, transfer: Transfer, result: Result<()>) {
        let Some(number) = transfer.second_of else { return };
        let answered = result.is_ok() && !transfer.is_over();
        self.finish(transfer, result);
        let Some(second) = self.seconds.asked.remove(&number).filter(|_| answered) else { return };
        let handler = self.multi.as_mut().and_then(|multi| multi.handler(second.token));
        if handler.and_then(Slot::attempt).is_none_or(|attempt| attempt.number() != number) {
            return;
        }
        // An error is the multi handle's, and told to whoever drives it next.
        let Ok(Some((finished, Some(first)))) = self.take_out(second.token, 0) else { return };
        self.count(&finished, &first);
        self.seconds.hedges.answered(first.origin(), first.wanted(), first.started().elapsed());
        let mut first = first.into_transfer();
        let bytes = std::mem::take(&mut *second.answer.lock());
        // It may have received some more since it was found late.
        let known = usize::try_from(first.written() - second.from).unwrap_or(usize::MAX).min(bytes.len());
        let complete = match first.job_mut() {
            Some(Job::Read { sink, .. }) => sink.write(&bytes[known..]),
            _ => false,
        };
        if complete && first.missing().is_some_and(|missing| missing.len == 0) {
            self.finish(first, Ok(()));
        } else {
            self.retry_later(first, Error::new(ErrorKind::Internal, "a second answer did not fit"), true);
        }
    }

    /// Nothing is on its way any more.
    pub(super) fn forget_seconds(&mut self) {
        self.seconds.asked.drain().for_each(|(_, second)| second.op.fail(lost()));
    }
}
