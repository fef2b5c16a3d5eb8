//! Batches whose items each have a buffer with guards of their own.

use super::{Guarded, LONG, Outcome};
use raskio::batch::{BatchOptions, ReadSpec};
use raskio::client::Client;
use raskio::error::{Error, ErrorKind};
use raskio::object::Object;
use raskio::op::{OpResult, Operation};
use raskio_testserver::pattern_at;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// An item to be read.
#[derive(Clone)]
pub struct Item {
    pub object: Arc<Object>,
    pub offset: u64,
    pub len: usize,
    pub from_end: bool,
}

pub fn range(object: &Arc<Object>, offset: u64, len: usize) -> Item {
    Item { object: object.clone(), offset, len, from_end: false }
}

pub fn last(object: &Arc<Object>, len: usize) -> Item {
    Item { object: object.clone(), offset: 0, len, from_end: true }
}

/// How an item ended.
pub struct ItemOutcome {
    pub error: Option<Error>,
    pub bytes: u64,
    pub attempts: u32,
    pub offset: u64,
    asked: Item,
    buffer: Guarded,
}

/// Error, bytes, attempts and offset of an item.
type Told = (Option<Error>, u64, u32, u64);

/// A batch that was started.
pub struct Batch {
    pub op: Arc<Operation>,
    outcome: Receiver<(Outcome, Vec<Told>)>,
    calls: Arc<AtomicUsize>,
    items: Vec<ItemOutcome>,
    over: bool,
}

impl Batch {
    #[track_caller]
    pub fn start(client: &Arc<Client>, items: &[Item], options: BatchOptions) -> Batch {
        let mut outcomes: Vec<ItemOutcome> = items
            .iter()
            .map(|asked| {
                let buffer = Guarded::new(asked.len);
                ItemOutcome { error: None, bytes: 0, attempts: 0, offset: 0, asked: asked.clone(), buffer }
            })
            .collect();
        let (sender, outcome) = channel();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let done = Box::new(move |result: &OpResult<'_>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let items = result.items.expect("a batch has items").results();
            let items =
                items.map(|item| (item.error.map(|error| (**error).clone()), item.bytes, item.attempts, item.offset));
            let _ = sender.send((Outcome::of(result), items.collect()));
        });
        let specs = outcomes.iter_mut().map(|item| {
            let Item { object, offset, from_end, .. } = item.asked.clone();
            Ok(ReadSpec { object, offset, buffer: item.buffer.host().into(), from_end })
        });
        let pending = client.read_batch(specs, options, done).expect("the batch is accepted");
        let op = pending.op().clone();
        pending.submit();
        Batch { op, outcome, calls, items: outcomes, over: false }
    }

    /// Waits for the completion, and for it to have returned. Checks all guards.
    #[track_caller]
    pub fn wait(&mut self) -> Outcome {
        self.wait_within(LONG)
    }

    #[track_caller]
    pub fn wait_within(&mut self, limit: Duration) -> Outcome {
        let (outcome, items) =
            self.outcome.recv_timeout(limit).unwrap_or_else(|_| panic!("no callback within {limit:?}"));
        self.over = true;
        self.op.wait(Some(LONG)).expect("the callback returns");
        assert_eq!(self.calls.load(Ordering::SeqCst), 1, "the callback ran more than once");
        assert_eq!(items.len(), self.items.len());
        let total: u64 = items.iter().map(|item| item.1).sum();
        assert_eq!(outcome.bytes, total, "the batch's bytes are those of its items");
        assert_eq!(outcome.error.is_some(), items.iter().any(|item| item.0.is_some()), "{outcome:?}");
        for (item, (error, bytes, attempts, offset)) in self.items.iter_mut().zip(items) {
            (item.error, item.bytes, item.attempts, item.offset) = (error, bytes, attempts, offset);
            item.buffer.assert_guards();
        }
        outcome
    }

    pub fn is_over(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > 0
    }

    pub fn item(&self, item: usize) -> &ItemOutcome {
        &self.items[item]
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The test gave up on it, and RaskIO did not.
        if !self.over {
            std::mem::forget(std::mem::take(&mut self.items));
        }
    }
}

impl ItemOutcome {
    /// It has all of its bytes, and they are right.
    #[track_caller]
    pub fn succeeds(&self) -> &ItemOutcome {
        self.succeeds_at(self.asked.offset, self.asked.len)
    }

    /// It has so many bytes from this offset on at its start, and nothing else was written.
    #[track_caller]
    pub fn succeeds_at(&self, offset: u64, len: usize) -> &ItemOutcome {
        if let Some(error) = &self.error {
            panic!("expected success, got {error}");
        }
        assert_eq!((self.offset, self.bytes), (offset, len as u64));
        let (bytes, rest) = self.buffer.bytes().split_at(len);
        if let Some(at) = bytes.iter().zip(pattern_at(offset, len)).position(|(got, want)| *got != want) {
            panic!("byte {at} of {len} from {offset} on is wrong");
        }
        assert!(rest.iter().all(|byte| *byte == 0xEE), "more than {len} bytes were written");
        self
    }

    /// It failed like this.
    #[track_caller]
    pub fn fails(&self, kind: ErrorKind, words: &[&str]) -> &Error {
        let error = self.error.as_ref().expect("an error");
        assert_eq!(error.kind(), kind, "{error}");
        for word in words {
            assert!(error.message().contains(word), "{word:?} is missing in: {error}");
        }
        error
    }
}
