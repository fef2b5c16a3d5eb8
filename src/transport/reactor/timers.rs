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
    /// The attempt of this number is late, if it is still the one of this token.
    Late {
        /// Its token.
        token: usize,
        /// Its number.
        number: u64,
    },
}

struct Timer {
    at: Instant,
    /// Among equals the older one is first.
    number: u64,
    due: Due,
}

impl Timer {
    /// The deadline of an operation that is gone.
    fn is_moot(&self) -> bool {
        matches!(&self.due, Due::Deadline(op) if op.strong_count() == 0)
    }
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

/// Fewer timers than this are not worth a look for deadlines that no longer matter.
const FEW: usize = 1024;

/// Timers in order of time.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Timer>,
    number: u64,
    /// Timers that were left after the last clearance.
    kept: usize,
}

impl Timers {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, at: Instant, due: Due) {
        // A deadline outlives its operation, and keeps its memory: with a limit of an hour that is every read of an hour.
        // Looking when their number has doubled costs a constant for each timer.
        if self.heap.len() >= FEW.max(2 * self.kept) {
            self.heap.retain(|timer| !timer.is_moot());
            self.kept = self.heap.len();
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
    use crate::op::OpOwner;
    use std::sync::Arc;
    use std::time::Duration;

    struct Nobody;
    impl OpOwner for Nobody {
        fn cancel_requested(&self, _: &Operation) {}
        fn run_completion(&self, job: Box<dyn FnOnce() + Send>) {
            job();
        }
        fn op_starts_completion(&self, _: bool, _: Duration) {}
        fn op_finished(&self) {}
    }

    fn operation() -> Arc<Operation> {
        Operation::new(Arc::new(Nobody), 1, 0, None, Box::new(|_| {}))
    }

    #[test]
    fn deadlines_of_operations_that_are_gone_do_not_pile_up() {
        let mut timers = Timers::default();
        let at = Instant::now() + Duration::from_secs(3600);
        let alive: Vec<_> = (0..10).map(|_| operation()).collect();
        alive.iter().for_each(|op| timers.push(at, Due::Deadline(Arc::downgrade(op))));
        for _ in 0..10 * FEW {
            timers.push(at, Due::Deadline(Arc::downgrade(&operation())));
        }
        assert!(timers.heap.len() <= FEW, "{} timers for 10 operations", timers.heap.len());
        let mut left = 0;
        while let Some(Due::Deadline(op)) = timers.pop_due(at) {
            left += usize::from(op.strong_count() > 0);
        }
        assert_eq!(left, 10, "the deadlines that still matter are kept");
    }
}
