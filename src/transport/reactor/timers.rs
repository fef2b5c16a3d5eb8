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
    /// At this size it is worth looking for deadlines of operations that are gone.
    crowded: usize,
}

/// Fewer timers than this are never worth a look.
const FEW: usize = 64;

impl Timers {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, at: Instant, due: Due) {
        // Most operations end long before their deadline, whose timer would keep its memory until then. Looking at twice
        // the size that was left the last time costs each timer a constant time.
        if self.heap.len() >= self.crowded.max(FEW) {
            self.heap.retain(|timer| !matches!(&timer.due, Due::Deadline(op) if op.strong_count() == 0));
            self.crowded = 2 * self.heap.len();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn deadlines_of_operations_that_are_gone_do_not_pile_up() {
        struct Nobody;
        impl crate::op::OpOwner for Nobody {
            fn cancel_requested(&self) {}
            fn run_completion(&self, job: Box<dyn FnOnce() + Send>) {
                job();
            }
            fn op_starts_completion(&self, _: bool) {}
            fn op_finished(&self) {}
        }
        let operation = || Operation::new(std::sync::Arc::new(Nobody), 1, 0, None, Box::new(|_| {}));
        let (mut timers, tomorrow) = (Timers::default(), Instant::now() + Duration::from_secs(86_400));
        let alive: Vec<_> = (0..100).map(|_| operation()).collect();
        for op in &alive {
            timers.push(tomorrow, Due::Deadline(std::sync::Arc::downgrade(op)));
        }
        for _ in 0..10_000 {
            timers.push(tomorrow, Due::Deadline(std::sync::Arc::downgrade(&operation())));
        }
        assert!(timers.heap.len() <= 2 * alive.len() + 1, "{} timers", timers.heap.len());
        let live = |timer: &&Timer| matches!(&timer.due, Due::Deadline(op) if op.strong_count() > 0);
        assert_eq!(timers.heap.iter().filter(live).count(), alive.len(), "none of a running operation is lost");
    }
}
