//! What a reactor must do later.

use crate::op::Operation;
use crate::transport::Transfer;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Weak;
use std::time::Instant;

/// What is due.
pub enum Due {
    /// The next attempt of a request; it holds no permit while it waits.
    Retry(Transfer),
    /// An operation's deadline.
    Deadline(Weak<Operation>),
}

struct Timer {
    at: Instant,
    /// Among equals the older one is first.
    number: u64,
    due: Due,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Timer) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// Timers in order of time.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Timer>,
    number: u64,
}

impl Timers {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, at: Instant, due: Due) {
        self.number += 1;
        self.heap.push(Timer { at, number: self.number, due });
    }

    /// When the first is due.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|timer| timer.at)
    }

    /// The first, if it is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|timer| timer.due)
    }

    /// Takes out the waiting requests for which `over` is true, and the deadlines of operations that are gone.
    pub fn sweep(&mut self, over: impl Fn(&Transfer) -> bool) -> Vec<Transfer> {
        let mut out = Vec::new();
        for timer in std::mem::take(&mut self.heap) {
            match timer.due {
                Due::Retry(transfer) if over(&transfer) => out.push(transfer),
                Due::Deadline(op) if op.strong_count() == 0 => {}
                due => self.heap.push(Timer { due, ..timer }),
            }
        }
        out
    }
}
