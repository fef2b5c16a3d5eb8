//! What ends before its time: operations that are over, stalls, a shutdown, a fault.

use super::attempt::Slot;
use super::board::Board;
use super::engine::{self, Message};
use super::{FAULT_PAUSE, Local};
use crate::error::{Error, Result};
use crate::stats;
use crate::transport::Transfer;
use std::time::{Duration, Instant};

impl Local {
    /// Ends the transfers in flight whose operation is over.
    pub(super) fn sweep_in_flight(&mut self) -> Result<()> {
        for token in self.tokens() {
            let handler = self.multi.as_mut().and_then(|multi| multi.handler(token));
            if handler.and_then(Slot::attempt).is_some_and(|attempt| attempt.transfer().is_over()) {
                self.reap(token, 0)?;
            }
        }
        Ok(())
    }

    /// Ends the requests that wait although their operation is over. Returns when to look again, if it was too early.
    pub(super) fn sweep_waiting(&mut self) -> Option<Instant> {
        let began = Instant::now();
        if let Some(next) = self.pace.wait(began) {
            return Some(next);
        }
        let is_over = |transfer: &Transfer| transfer.is_over();
        let (mut over, mut again) = (Vec::new(), None);
        for board in self.engine.boards() {
            match board.sweep(is_over) {
                Ok(posted) => over.extend(posted),
                Err(next) => again = Some(again.map_or(next, |again: Instant| again.min(next))),
            }
        }
        over.extend(self.queue.extract(is_over));
        over.extend(self.timers.sweep(is_over));
        over.extend(self.waiting.sweep(is_over));
        let (out, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parked).into_iter().partition(|(_, transfer)| is_over(transfer));
        self.parked = stay;
        over.extend(out.into_iter().map(|(_, transfer)| transfer));
        // Ending them is work that has to be done anyhow.
        self.pace.looked(began);
        for transfer in over {
            self.dequeued();
            self.finish(transfer, Ok(()));
        }
        again
    }

    /// Ends the transfers that nothing comes for. Whether some were in question: then there may be something to take in.
    pub(super) fn scan_for_stalls(&mut self) -> Result<bool> {
        let Some(limit) = self.engine.stall else { return Ok(false) };
        let now = Instant::now();
        if now < self.next_scan {
            return Ok(false);
        }
        self.next_scan = now + scan_period(limit);
        let mut silent = self.tokens();
        silent.retain(|&token| {
            let Some(multi) = &mut self.multi else { return false };
            let Some(attempt) = multi.handler(token).and_then(Slot::attempt) else { return false };
            let quiet = attempt.quiet_for(now);
            // What the kernel may have of it comes now, and counts.
            let waited = !quiet.is_zero() && multi.wait_no_more(token);
            quiet >= limit && !waited
        });
        if silent.is_empty() {
            return Ok(false);
        }
        // The time may have gone by in callbacks of the host, or with the whole process stopped, and what came in it lies in the kernel.
        self.multi()?.advance_all()?;
        for token in silent {
            let Some(attempt) = self.multi()?.handler(token).and_then(Slot::attempt) else { continue };
            if attempt.quiet_for(now) >= limit {
                attempt.abort_stalled(limit);
                self.reap(token, 0)?;
            }
        }
        Ok(true)
    }

    pub(super) fn refuse(&self, transfer: Transfer) {
        self.dequeued();
        transfer.op.fail(engine::shut_down());
        self.finish(transfer, Err(engine::shut_down()));
    }

    /// Everything that is in hand ends with SHUT_DOWN.
    pub(super) fn end_everything(&mut self) {
        loop {
            self.take_messages();
            let mut rest = self.engine.boards().flat_map(Board::close).collect::<Vec<_>>();
            rest.extend(self.queue.drain());
            rest.extend(self.timers.sweep(|_| true));
            rest.extend(self.waiting.sweep(|_| true));
            rest.extend(self.parked.drain(..).map(|(_, transfer)| transfer));
            let tokens = self.tokens();
            if rest.is_empty() && tokens.is_empty() {
                break;
            }
            rest.into_iter().for_each(|transfer| self.refuse(transfer));
            for token in tokens {
                let handler = self.multi.as_mut().and_then(|multi| multi.handler(token));
                if let Some(attempt) = handler.and_then(Slot::attempt) {
                    attempt.transfer().op.fail(engine::shut_down());
                }
                // An error leaves a leaked handle and no transfer behind; there is nothing more to do for it here.
                let _ = self.reap(token, 0);
            }
        }
        for message in self.member().inbox.close() {
            match message {
                Message::Nothing(op, part) => op.finish(&part, 0, 0, Err(engine::shut_down())),
                Message::Work(batch) => batch.into_iter().for_each(|transfer| self.refuse(transfer)),
                Message::Deadline(..) | Message::Trim | Message::Name(..) | Message::Secret(..) | Message::Room(_) => {}
            }
        }
        self.leave_line();
    }

    /// Gives up the multi handle after a fault that says nothing about single transfers. They start over on a new one.
    pub(super) fn recover(&mut self, error: &Error) {
        log::error!(target: "raskio", "reactor {}: {}; its transfers start over on a new one", self.index, error.message());
        stats::add(&self.engine.stats.reactors_replaced, 1);
        stats::process::fault(&format!("reactor {}: {}", self.index, error.message()));
        self.lookups.clear();
        self.forget_seconds();
        if let Some(mut multi) = self.multi.take() {
            for token in multi.tokens() {
                let removed = multi.remove_keeping(token, Slot::take);
                stats::sub(&self.engine.stats.requests_in_flight, 1);
                let taken = match removed {
                    Ok(Some((_, taken))) => taken,
                    Ok(None) => None,
                    Err((taken, _)) => {
                        stats::add(&self.engine.stats.handles_leaked, 1);
                        taken
                    }
                };
                if let Some(attempt) = taken {
                    let progress = attempt.received() > 0;
                    stats::add(&self.engine.stats.bytes_received, attempt.received());
                    self.retry_later(attempt.into_transfer(), error.clone(), progress);
                }
            }
        }
        std::thread::sleep(FAULT_PAUSE);
    }
}

/// How often stalls are looked for: often enough to be late by an eighth, and to have what lies in the kernel within half a second, of which
/// a TLS server's farewell in the middle of a body is an example; seldom enough to cost nothing.
fn scan_period(limit: Duration) -> Duration {
    (limit / 8).clamp(Duration::from_millis(10), Duration::from_millis(250))
}
