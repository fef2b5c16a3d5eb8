//! One user call: counts its requests down, keeps the first error, completes exactly once.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a completion is told.
#[derive(Clone, Copy, Debug)]
pub struct OpResult<'a> {
    /// `None`: every byte is in its place.
    pub error: Option<&'a Error>,
    /// Bytes now in the caller's buffer.
    pub bytes: u64,
    /// Requests sent, retries included.
    pub attempts: u32,
    /// Offset of the first byte in the object.
    pub offset: u64,
}

/// The user's completion. Called once, on a RaskIO thread, with no lock held.
pub type Completion = Box<dyn FnOnce(&OpResult<'_>) + Send>;

/// Who is told about an operation's life: the client.
pub trait OpOwner: Send + Sync {
    /// `op` will never need its transfers' results: look for them and end them.
    fn cancel_requested(&self, op: &Operation);
    /// Runs `job` where completions run; called once for each operation.
    fn run_completion(&self, job: Box<dyn FnOnce() + Send>);
    /// The completion is about to be called; `cancelled`: with CANCELLED; `took`: since the operation was made.
    fn op_starts_completion(&self, cancelled: bool, took: Duration);
    /// The completion has returned.
    fn op_finished(&self);
}

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside one of the host's callbacks, where blocking would deadlock.
pub fn in_callback() -> bool {
    IN_CALLBACK.with(Cell::get)
}

/// Runs one of the host's callbacks: marks the thread, and survives a panic in it.
pub fn call_host<R>(callback: impl FnOnce() -> R) -> Option<R> {
    let before = IN_CALLBACK.with(|flag| flag.replace(true));
    let outcome = catch_unwind(AssertUnwindSafe(callback));
    IN_CALLBACK.with(|flag| flag.set(before));
    if outcome.is_err() {
        log::error!(target: "raskio", "a callback of the host panicked; RaskIO goes on");
    }
    outcome.ok()
}

struct Outcome {
    completion: Option<Completion>,
    error: Option<Error>,
    /// Dropped after the completion: a running operation keeps its client alive.
    owner: Option<Arc<dyn OpOwner>>,
    returned: bool,
}

/// One user call.
pub struct Operation {
    remaining: AtomicUsize,
    bytes: AtomicU64,
    attempts: AtomicU32,
    /// Set by the first error or by a cancel: the requests that are left need not run.
    over: AtomicBool,
    offset: AtomicU64,
    started: Instant,
    deadline: Option<Instant>,
    outcome: Mutex<Outcome>,
    returned: Condvar,
}

impl Operation {
    /// An operation of `requests` requests (at least one; a zero-byte read counts one that sends nothing).
    pub fn new(
        owner: Arc<dyn OpOwner>,
        requests: usize,
        offset: u64,
        deadline: Option<Instant>,
        completion: Completion,
    ) -> Arc<Operation> {
        Arc::new(Operation {
            remaining: AtomicUsize::new(requests.max(1)),
            bytes: AtomicU64::new(0),
            attempts: AtomicU32::new(0),
            over: AtomicBool::new(false),
            offset: AtomicU64::new(offset),
            started: Instant::now(),
            deadline,
            outcome: Mutex::new(Outcome {
                completion: Some(completion),
                error: None,
                owner: Some(owner),
                returned: false,
            }),
            returned: Condvar::new(),
        })
    }

    /// When the operation was made.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When it must be over.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether the requests that are left need not run.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Counts one request sent.
    pub fn add_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Where the first byte lies, once a read from the end has learned it.
    pub fn set_offset(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// Asks for an end. A request, not a result: the completion still comes, with CANCELLED or, if it lost the race, OK.
    pub fn cancel(&self) {
        self.fail(Error::new(ErrorKind::Cancelled, "cancelled by the caller"));
    }

    /// Records `error` unless one came first, and has the transports end what is left.
    pub fn fail(&self, error: Error) {
        if let Some(owner) = self.record(error) {
            owner.cancel_requested(self);
        }
    }

    /// Keeps the first error; returns whom to tell, if it was this one.
    fn record(&self, error: Error) -> Option<Arc<dyn OpOwner>> {
        let mut outcome = self.outcome.lock();
        if outcome.completion.is_none() || outcome.error.is_some() {
            return None;
        }
        outcome.error = Some(error);
        self.over.store(true, Ordering::Release);
        outcome.owner.clone()
    }

    /// One request is over: `bytes` of it are in the caller's buffer. The last one runs the completion.
    pub fn finish_one(self: &Arc<Self>, bytes: u64, result: Result<()>) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Err(error) = result {
            // The last request leaves nothing behind that somebody would have to look for.
            match self.record(error) {
                Some(owner) if self.remaining.load(Ordering::Acquire) > 1 => owner.cancel_requested(self),
                _ => {}
            }
        }
        if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            let owner = self.outcome.lock().owner.clone();
            let op = self.clone();
            match owner {
                Some(owner) => owner.run_completion(Box::new(move || op.complete())),
                None => op.complete(),
            }
        }
    }

    /// The one place where a user's completion is called.
    fn complete(&self) {
        let (completion, error, owner) = {
            let mut outcome = self.outcome.lock();
            (outcome.completion.take(), outcome.error.take(), outcome.owner.take())
        };
        let result = OpResult {
            error: error.as_ref(),
            bytes: self.bytes.load(Ordering::Relaxed),
            attempts: self.attempts.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
        };
        if let Some(owner) = &owner {
            let cancelled = error.as_ref().is_some_and(|error| error.kind() == ErrorKind::Cancelled);
            owner.op_starts_completion(cancelled, self.started.elapsed());
        }
        if let Some(completion) = completion {
            call_host(|| completion(&result));
        }
        self.outcome.lock().returned = true;
        self.returned.notify_all();
        if let Some(owner) = owner {
            owner.op_finished();
        }
    }

    /// Waits until the completion has returned.
    ///
    /// # Errors
    /// TIMED_OUT: not yet. WOULD_DEADLOCK: called from inside a callback.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        if in_callback() {
            return Err(would_deadlock("waiting for an operation"));
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut outcome = self.outcome.lock();
        while !outcome.returned {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::new(ErrorKind::TimedOut, "the operation is still running"));
            }
            outcome = self.returned.wait_until(outcome, deadline);
        }
        Ok(())
    }
}

/// The error of every blocking call made from inside a callback.
pub fn would_deadlock(what: &str) -> Error {
    Error::new(
        ErrorKind::WouldDeadlock,
        format!(
            "{what} from inside a RaskIO callback would wait for itself; use the asynchronous call, or another thread"
        ),
    )
}
