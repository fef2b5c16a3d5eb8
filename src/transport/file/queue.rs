//! What the threads of local files have before them. Nothing here waits, or calls anybody.

use crate::op::Operation;
use crate::op::items::Part;
use crate::transport::Transfer;
use crate::transport::lanes::Lanes;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A deadline in the heap, the earliest first.
struct Due(Instant, Weak<Operation>);

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.0 == other.0
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

/// What has to be done beside moving bytes.
pub(super) enum Chore {
    /// These are over, and were not begun.
    End(Vec<Transfer>),
    /// Parts of operations that send nothing.
    Nothing(Vec<(Arc<Operation>, Part)>),
    /// Their deadlines are over.
    Fail(Vec<Weak<Operation>>),
    /// They came too late.
    Refuse(Vec<Transfer>),
}

#[derive(Default)]
pub(super) struct Queue {
    pub lanes: Lanes<Transfer>,
    /// Requests that wait for their sinks, by the number that tells of it.
    pub waiting: BTreeMap<u64, Transfer>,
    /// Numbers that were told of before their requests had begun to wait.
    pub told: HashSet<u64>,
    /// Requests for which a thread asks the system something that may last for ever: it has no hand on them meanwhile.
    pub held: BTreeMap<u64, Transfer>,
    /// Files that a thread is opening, by address, and the requests that came for them since.
    pub opening: HashMap<usize, Vec<Transfer>>,
    /// Parts of operations that send nothing.
    pub nothing: Vec<(Arc<Operation>, Part)>,
    /// Somebody is to look for requests whose operation is over.
    pub sweep: bool,
    deadlines: BinaryHeap<Due>,
    /// Threads that serve.
    pub threads: usize,
    /// Of those: asleep.
    pub idle: usize,
    /// The keeper is asleep.
    pub keeper_sleeps: bool,
    /// When it was told to stop.
    pub stopped_at: Option<Instant>,
    /// Takes no more.
    pub closed: bool,
}

impl Queue {
    /// Has a deadline watched. True: it is the first of all now.
    pub fn watch(&mut self, at: Instant, op: &Arc<Operation>) -> bool {
        self.forget_ended();
        let first = self.deadlines.peek().is_none_or(|next| at < next.0);
        self.deadlines.push(Due(at, Arc::downgrade(op)));
        first
    }

    /// Operations that ended long ago need no watch.
    fn forget_ended(&mut self) {
        while self.deadlines.peek().is_some_and(|next| next.1.strong_count() == 0) {
            self.deadlines.pop();
        }
    }

    /// When the next deadline is over.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.forget_ended();
        self.deadlines.peek().map(|next| next.0)
    }

    /// What has to be done now.
    pub fn chore(&mut self) -> Option<Chore> {
        if !self.nothing.is_empty() {
            return Some(Chore::Nothing(std::mem::take(&mut self.nothing)));
        }
        let (now, mut due) = (Instant::now(), Vec::new());
        while self.deadlines.peek().is_some_and(|next| next.0 <= now) {
            due.extend(self.deadlines.pop().map(|due| due.1));
        }
        if !due.is_empty() {
            return Some(Chore::Fail(due));
        }
        if !std::mem::take(&mut self.sweep) {
            return None;
        }
        let over = self.extract_over();
        (!over.is_empty()).then_some(Chore::End(over))
    }

    fn extract_over(&mut self) -> Vec<Transfer> {
        let mut over = self.lanes.extract(Transfer::is_over);
        for wait in [&mut self.waiting, &mut self.held] {
            let numbers: Vec<u64> =
                wait.iter().filter(|(_, transfer)| transfer.is_over()).map(|(number, _)| *number).collect();
            over.extend(numbers.iter().filter_map(|number| wait.remove(number)));
        }
        for behind in self.opening.values_mut().filter(|behind| behind.iter().any(Transfer::is_over)) {
            let (out, stay): (Vec<_>, Vec<_>) = std::mem::take(behind).into_iter().partition(Transfer::is_over);
            *behind = stay;
            over.extend(out);
        }
        over
    }

    /// Takes no more, and gives up what there is, a piece at a time.
    pub fn close(&mut self) -> Option<Chore> {
        self.closed = true;
        if !self.nothing.is_empty() {
            return Some(Chore::Nothing(std::mem::take(&mut self.nothing)));
        }
        let mut rest = self.lanes.drain();
        rest.extend(std::mem::take(&mut self.waiting).into_values());
        rest.extend(std::mem::take(&mut self.held).into_values());
        rest.extend(std::mem::take(&mut self.opening).into_values().flatten());
        (!rest.is_empty()).then_some(Chore::Refuse(rest))
    }
}
