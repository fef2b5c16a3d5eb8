//! Requests that wait for their sink: for a bounce buffer, that is.
//!
//! They wait beside the queue, so that what is behind them goes on. The order of resources is: first the sink's buffer, then the
//! permit. Whoever has a permit has everything it needs and gives both back, so that a request may keep its buffer while it
//! waits for a permit, and nobody waits for ever.

use crate::transport::Transfer;
use std::collections::BTreeMap;

/// The requests of one thread that wait for their sinks, each under a number of its own.
#[derive(Default)]
pub struct Waiting {
    /// The numbers grow, so that the first is the oldest.
    transfers: BTreeMap<u64, Transfer>,
    next: u64,
}

impl Waiting {
    /// How many of them are in this line.
    pub fn in_line(&self, line: usize) -> usize {
        self.transfers.values().filter(|transfer| transfer.line() == Some(line)).count()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.transfers.is_empty()
    }

    /// The number of the next request that has to wait.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Puts a request aside under [`Waiting::next_number`].
    pub fn put(&mut self, transfer: Transfer) {
        self.transfers.insert(self.next, transfer);
        self.next += 1;
    }

    /// The request with this number, unless it has been taken out for another reason.
    pub fn take(&mut self, number: u64) -> Option<Transfer> {
        self.transfers.remove(&number)
    }

    /// Takes out those for which `over` is true.
    pub fn sweep(&mut self, over: impl Fn(&Transfer) -> bool) -> Vec<Transfer> {
        let (out, stay): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.transfers).into_iter().partition(|(_, transfer)| over(transfer));
        self.transfers = stay;
        out.into_values().collect()
    }
}
