//! What is known of each operation: by the servers, which plant faults, and by the checks, which look for an explanation.

use raskio::error::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

/// What is known of one operation.
#[derive(Default)]
pub struct Entry {
    /// Errors that its planted faults explain, a bit each.
    explained: AtomicU32,
    /// Faults planted that a retry gets over.
    pub passing: AtomicU16,
    /// A fault was planted that no retry gets over.
    pub fatal: AtomicBool,
    /// Requests that the servers saw.
    pub requests: AtomicU16,
    /// Its last eight faults by number, the latest in the low byte.
    history: AtomicU64,
    /// Somebody is about to cancel it.
    pub cancelled: AtomicBool,
    /// Callbacks so far.
    pub callbacks: AtomicU8,
}

impl Entry {
    /// Fault number `fault` is about to happen to it, and explains these errors.
    pub fn plant(&self, fault: u8, kinds: &[ErrorKind], fatal: bool) {
        let mask = kinds.iter().fold(0, |mask, kind| mask | 1 << kind.code());
        self.explained.fetch_or(mask, SeqCst);
        let _ = self.history.fetch_update(SeqCst, SeqCst, |history| Some(history << 8 | u64::from(fault)));
        if fatal {
            self.fatal.store(true, SeqCst);
        } else if !kinds.is_empty() {
            self.passing.fetch_add(1, SeqCst);
        }
    }

    /// Whether a planted fault explains this error.
    pub fn explains(&self, kind: ErrorKind) -> bool {
        self.explained.load(SeqCst) >> kind.code() & 1 == 1
    }

    /// The numbers of its last faults, the first one first.
    pub fn faults(&self) -> Vec<u8> {
        let bytes = self.history.load(SeqCst).to_be_bytes();
        bytes.into_iter().skip_while(|byte| *byte == 0).collect()
    }
}

/// Every operation of a run. Made as a whole before the first, so that it does not look like growth.
pub struct Ledger(Vec<Entry>);

impl Ledger {
    /// For `total` operations.
    pub fn new(total: u64) -> Ledger {
        Ledger((0..total).map(|_| Entry::default()).collect())
    }

    /// One of them, if it is one of them.
    pub fn get(&self, id: u64) -> Option<&Entry> {
        self.0.get(usize::try_from(id).ok()?)
    }
}
