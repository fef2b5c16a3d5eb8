//! One user call: counts its requests down, keeps the first error, completes exactly once.
//!
//! A batch is an operation with [`items`]: it counts them down, one that fails ends nothing but itself, and only what is about
//! the whole (a cancel, the deadline, a shutdown) ends the rest.

pub mod items;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
use items::{Items, Part};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
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
    /// Of a batch: how each item ended.
    pub items: Option<&'a Items>,
}

/// The user's completion. Called once, on a RaskIO thread, with no lock held.
pub type Completion = Box<dyn FnOnce(&OpResult<'_>) + Send>;

/// Who is told about an operation's life: the client.
pub trait OpOwner: Send + Sync {
    /// `op` will never need the results of some transfers ([`Operation::is_over_for`]): look for them and end them.
    fn cancel_requested(&self, op: &Operation);
    /// Runs `job` where completions run; called once for each operation.
    fn run_completion(&self, job: Box<dyn FnOnce() + Send>);
    /// A request of an operation ended without all that it was for.
    fn request_failed(&self) {}
    /// The completion is about to be called; `cancelled`: with CANCELLED; `took`: since the operation was made.
    fn op_starts_completion(&self, cancelled: bool, took: Duration);
    /// The completion has returned.
    fn op_finished(&self);
}

/// What an operation is about: an object.
pub trait Named: Send + Sync {
    /// As messages show it.
    fn name(&self) -> &str;
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
    /// The first error; of a batch, that of the first item that failed.
    error: Option<Arc<Error>>,
    /// What ended everything that was left.
    ended_by: Option<Arc<Error>>,
    /// Dropped after the completion: a running operation keeps its client alive.
    owner: Option<Arc<dyn OpOwner>>,
    returned: bool,
    /// Called when the first request is sent, or at the end if none is.
    begun: Option<Box<dyn FnOnce() + Send>>,
}

/// One user call.
pub struct Operation {
    /// Requests that are not over; of a batch, items.
    remaining: AtomicUsize,
    bytes: AtomicU64,
    attempts: AtomicU32,
    /// Set by the first error or by a cancel: the requests that are left need not run.
    over: AtomicBool,
    offset: AtomicU64,
    /// Somebody wants to hear of the first request.
    is_watched: AtomicBool,
    started: Instant,
    deadline: Option<Instant>,
    /// Of a batch there is none.
    subject: OnceLock<Arc<dyn Named>>,
    outcome: Mutex<Outcome>,
    returned: Condvar,
    /// Of a batch.
    items: Option<Items>,
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
        Operation::build(owner, requests, offset, deadline, completion, None)
    }

    /// An operation of these items.
    pub fn of_items(
        owner: Arc<dyn OpOwner>,
        items: Items,
        deadline: Option<Instant>,
        completion: Completion,
    ) -> Arc<Operation> {
        Operation::build(owner, items.len(), 0, deadline, completion, Some(items))
    }

    fn build(
        owner: Arc<dyn OpOwner>,
        remaining: usize,
        offset: u64,
        deadline: Option<Instant>,
        completion: Completion,
        items: Option<Items>,
    ) -> Arc<Operation> {
        Arc::new(Operation {
            remaining: AtomicUsize::new(remaining.max(1)),
            bytes: AtomicU64::new(0),
            attempts: AtomicU32::new(0),
            over: AtomicBool::new(false),
            offset: AtomicU64::new(offset),
            is_watched: AtomicBool::new(false),
            started: Instant::now(),
            deadline,
            subject: OnceLock::new(),
            outcome: Mutex::new(Outcome {
                completion: Some(completion),
                error: None,
                ended_by: None,
                owner: Some(owner),
                returned: false,
                begun: None,
            }),
            returned: Condvar::new(),
            items,
        })
    }

    /// Before it is submitted: what it is about, for messages about the whole of it.
    pub fn concerns(&self, subject: Arc<dyn Named>) {
        // Said once.
        let _ = self.subject.set(subject);
    }

    /// What ends the whole of it, with the name of what it is about.
    fn about(&self, kind: ErrorKind, words: String) -> Error {
        let error = Error::new(kind, words);
        match (self.subject.get(), &self.items) {
            (Some(subject), _) => error.context(subject.name()),
            (None, Some(items)) => error.context(format_args!("a batch of {} ranges", items.len())),
            (None, None) => error,
        }
    }

    /// Its deadline is over.
    pub fn fail_late(&self) {
        let limit = self.deadline.unwrap_or_else(Instant::now).saturating_duration_since(self.started);
        let shown = match limit < Duration::from_millis(100) {
            true => format!("{:.0} ms", limit.as_secs_f64() * 1e3),
            false => format!("{:.1} s", limit.as_secs_f64()),
        };
        self.fail(self.about(ErrorKind::TimedOut, format!("the operation's deadline of {shown} is over")));
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

    /// Whether a request of this part need not run: nobody waits for its bytes any more.
    pub fn is_over_for(&self, part: &Part) -> bool {
        self.is_over() || self.items.as_ref().is_some_and(|items| items.have_failed(part))
    }

    /// Of a batch.
    pub fn items(&self) -> Option<&Items> {
        self.items.as_ref()
    }

    /// Before it is submitted: has this called when its first request is sent, or at the end if none is, with no lock held.
    pub fn when_begun(&self, tell: Box<dyn FnOnce() + Send>) {
        self.outcome.lock().begun = Some(tell);
        self.is_watched.store(true, Ordering::Release);
    }

    fn has_begun(&self) {
        if self.is_watched.load(Ordering::Relaxed) && self.is_watched.swap(false, Ordering::AcqRel) {
            let tell = self.outcome.lock().begun.take();
            if let Some(tell) = tell {
                tell();
            }
        }
    }

    /// Counts one request sent.
    pub fn add_attempt(&self, part: &Part) {
        self.has_begun();
        self.attempts.fetch_add(1, Ordering::Relaxed);
        if let Some(items) = &self.items {
            items.add_attempt(part);
        }
    }

    /// This part takes so many more requests than it seemed. Before the last that is counted has ended.
    pub fn add_requests(&self, part: &Part, more: u32) {
        match &self.items {
            Some(items) => items.add_requests(part, more),
            None => {
                self.remaining.fetch_add(more as usize, Ordering::Relaxed);
            }
        }
    }

    /// Where the first byte lies, once a read from the end has learned it.
    pub fn set_offset(&self, part: &Part, offset: u64) {
        match (&self.items, part) {
            (Some(items), Part::Item(item)) => items.set_offset(*item, offset),
            (Some(_), Part::Whole | Part::Spans(_)) => {}
            (None, _) => self.offset.store(offset, Ordering::Relaxed),
        }
    }

    /// Asks for an end. A request, not a result: the completion still comes, with CANCELLED or, if it lost the race, OK.
    pub fn cancel(&self) {
        self.fail(self.about(ErrorKind::Cancelled, "cancelled by the caller".into()));
    }

    /// Records `error` unless one came first, and has the transports end what is left.
    pub fn fail(&self, error: Error) {
        if let Some(owner) = self.end_by(error) {
            owner.cancel_requested(self);
        }
    }

    /// Records `error` for what this part belongs to: the operation, or items of a batch. Other requests for those end soon,
    /// unless they are for others too.
    pub fn fail_part(&self, part: &Part, error: Error) {
        let Some(items) = &self.items else { return self.fail(error) };
        let error = self.first_of_batch(Arc::new(error));
        let mut left = false;
        for item in part.items() {
            items.fail(item, error.clone());
            // The one that says so is not over itself.
            left |= items.requests_left(item) > 1;
        }
        if left {
            self.sweep();
        }
    }

    /// Has the transports look for requests that nobody waits for any more.
    fn sweep(&self) {
        let owner = self.outcome.lock().owner.clone();
        if let Some(owner) = owner {
            owner.cancel_requested(self);
        }
    }

    /// Keeps what ends the operation; returns whom to tell, if it was this.
    fn end_by(&self, error: Error) -> Option<Arc<dyn OpOwner>> {
        let mut outcome = self.outcome.lock();
        if outcome.completion.is_none() || outcome.ended_by.is_some() {
            return None;
        }
        let error = Arc::new(error);
        outcome.ended_by = Some(error.clone());
        // A batch fails by its items: this may come when each of them has its bytes.
        if self.items.is_none() {
            outcome.error.get_or_insert(error);
        }
        self.over.store(true, Ordering::Release);
        outcome.owner.clone()
    }

    /// One of its requests ended without all that it was for. Before it is finished.
    pub fn request_failed(&self) {
        let owner = self.outcome.lock().owner.clone();
        if let Some(owner) = owner {
            owner.request_failed();
        }
    }

    /// A request of this part is over: `bytes` of its `len` are where the caller wants them. The last one runs the completion.
    pub fn finish(self: &Arc<Self>, part: &Part, bytes: u64, len: u64, result: Result<()>) {
        match &self.items {
            Some(items) => self.finish_part(items, part, bytes, len, result),
            None => self.finish_one(bytes, result),
        }
    }

    /// One request of a read or a stat is over: `bytes` of it are in the caller's buffer.
    pub fn finish_one(self: &Arc<Self>, bytes: u64, result: Result<()>) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Err(error) = result {
            // The last request leaves nothing behind that somebody would have to look for.
            match self.end_by(error) {
                Some(owner) if self.remaining.load(Ordering::Acquire) > 1 => owner.cancel_requested(self),
                _ => {}
            }
        }
        self.less(1);
    }

    /// So many requests, or items, are over.
    fn less(self: &Arc<Self>, over: usize) {
        if over > 0 && self.remaining.fetch_sub(over, Ordering::AcqRel) == over {
            let op = self.clone();
            self.where_completions_run(move || op.complete());
        }
    }

    fn where_completions_run(&self, job: impl FnOnce() + Send + 'static) {
        let owner = self.outcome.lock().owner.clone();
        match owner {
            Some(owner) => owner.run_completion(Box::new(job)),
            None => job(),
        }
    }

    /// The one place where a user's completion is called.
    fn complete(&self) {
        self.has_begun();
        let (completion, error, cancelled, owner) = {
            let mut outcome = self.outcome.lock();
            let cancelled = outcome.error.as_ref().is_some_and(|error| error.kind() == ErrorKind::Cancelled);
            (outcome.completion.take(), outcome.error.take(), cancelled, outcome.owner.take())
        };
        let result = OpResult {
            error: error.as_deref(),
            bytes: self.bytes.load(Ordering::Relaxed),
            attempts: self.attempts.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
            items: self.items.as_ref(),
        };
        if let Some(owner) = &owner {
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
