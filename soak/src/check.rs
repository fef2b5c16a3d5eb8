//! Is what became of an operation right, and explained?

use crate::chaos::{self, Moment};
use crate::data::fill;
use crate::faults;
use crate::ledger::Entry;
use crate::memory::Guarded;
use crate::plan::{Kind, Plan};
use crate::world::World;
use raskio::error::{Error, ErrorKind};
use raskio::object::Object;
use raskio::op::Operation;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How late a deadline or a cancel may take effect: RaskIO promises a second after a lost wake-up, and the machine is busy.
const LATE: Duration = Duration::from_secs(3);

/// What the checks need to know of a client.
pub struct Facts {
    /// Attempts without progress that a request has.
    pub max_attempts: u32,
    /// It is being shut down.
    pub closing: AtomicBool,
}

/// An operation that runs.
pub struct Running {
    /// What it does.
    pub plan: Plan,
    /// Of which object.
    pub object: Arc<Object>,
    /// Itself.
    pub op: Arc<Operation>,
    /// Where it reads to.
    pub buffer: Guarded,
    /// What had happened before it began.
    pub moment: Moment,
    /// When it began.
    pub begun: Instant,
    /// When it was cancelled, if that is known.
    pub cancelled_at: Option<Instant>,
}

/// What a callback was told.
#[derive(Debug)]
pub struct Outcome {
    /// The error.
    pub error: Option<Error>,
    /// Bytes read.
    pub bytes: u64,
    /// Requests sent.
    pub attempts: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// When.
    pub at: Instant,
}

/// What became of all.
#[derive(Default)]
pub struct Tally {
    /// Operations that succeeded.
    pub succeeded: u64,
    /// Operations that failed, by error.
    pub failed: BTreeMap<&'static str, u64>,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Failures that tell of a panic.
    pub panicked: u64,
    /// Operations that succeeded though something was planted on them.
    pub survived: u64,
    /// Latest effect of a deadline.
    pub latest_deadline: Duration,
    /// Latest effect of a cancel.
    pub latest_cancel: Duration,
    /// Longest shutdown.
    pub longest_shutdown: Duration,
    /// Buffers of failed reads that are still watched.
    pub given_back: Vec<(u64, Guarded)>,
    /// The clients' own counters.
    pub requests: u64,
    /// Attempts after the first.
    pub retried: u64,
    /// Connections opened.
    pub connections: u64,
    /// Connections reused.
    pub reused: u64,
    /// Operations that the counters call cancelled.
    pub cancelled_by_stats: u64,
    /// Reactors replaced.
    pub replaced: u64,
    /// Handles leaked.
    pub leaked: u64,
}

impl Tally {
    /// Joins two.
    pub fn add(&mut self, other: Tally) {
        self.succeeded += other.succeeded;
        for (kind, n) in other.failed {
            *self.failed.entry(kind).or_default() += n;
        }
        self.bytes += other.bytes;
        self.panicked += other.panicked;
        self.survived += other.survived;
        self.latest_deadline = self.latest_deadline.max(other.latest_deadline);
        self.latest_cancel = self.latest_cancel.max(other.latest_cancel);
        self.longest_shutdown = self.longest_shutdown.max(other.longest_shutdown);
        self.given_back.extend(other.given_back);
        self.requests += other.requests;
        self.retried += other.retried;
        self.connections += other.connections;
        self.reused += other.reused;
        self.cancelled_by_stats += other.cancelled_by_stats;
        self.replaced += other.replaced;
        self.leaked += other.leaked;
    }

    /// Operations that failed with this.
    pub fn failed_with(&self, kind: ErrorKind) -> u64 {
        self.failed.get(kind.name()).copied().unwrap_or(0)
    }

    /// All of them.
    pub fn operations(&self) -> u64 {
        self.succeeded + self.failed.values().sum::<u64>()
    }
}

/// Checks an operation that is over, and gives its buffer back. `scratch` is room for the right bytes.
pub fn check(
    world: &World,
    facts: &Facts,
    id: u64,
    mut over: Running,
    outcome: Outcome,
    tally: &mut Tally,
    scratch: &mut Vec<u8>,
) -> Option<Guarded> {
    let entry = world.script.ledger.get(id)?;
    let wrong = |what: &str| {
        let faults: Vec<_> = entry.faults().into_iter().map(faults::name).collect();
        let elapsed = outcome.at.duration_since(over.begun);
        world.violation(format!(
            "operation {id}: {what}; {outcome:?} after {elapsed:?}, faults {faults:?}, {:?}",
            over.plan
        ));
    };
    if let Err(error) = over.op.wait(Some(Duration::from_secs(20))) {
        wrong(&format!("its callback does not return: {error}"));
    }
    if entry.callbacks.load(SeqCst) != 1 {
        wrong("its callback did not come exactly once");
    }
    if !over.buffer.guards_are_whole() {
        wrong("bytes outside the buffer were written");
    }
    let read = over.plan.kind != Kind::Stat;
    scratch.resize(over.buffer.bytes().len(), 0);
    fill(over.plan.object, over.plan.offset, scratch);
    let now = chaos::now();
    let quiet = now == over.moment && now.drops % 2 == 0;
    match &outcome.error {
        None => {
            tally.succeeded += 1;
            tally.bytes += outcome.bytes;
            tally.survived += u64::from(entry.passing.load(SeqCst) > 0);
            if over.buffer.bytes() != scratch {
                wrong("success with a wrong byte");
            }
            if read && (outcome.bytes, outcome.offset) != (over.plan.size, over.plan.offset) {
                wrong("success with a wrong count");
            }
            if !read && over.object.size() != Some(world.script.size) {
                wrong("success with a wrong size");
            }
            if !matches!(over.plan.kind, Kind::Read | Kind::Stat) {
                wrong("success where there is nothing to read");
            }
            let untried = u64::from(outcome.attempts) == over.plan.requests();
            if entry.fatal.load(SeqCst) && untried && quiet && over.plan.size > 0 {
                wrong("success although a reply was wrong and was not asked for again");
            }
        }
        Some(error) => {
            *tally.failed.entry(error.kind().name()).or_default() += 1;
            let told_of_panic = error.message().contains("a panic was caught while the reply came in");
            tally.panicked += u64::from(told_of_panic);
            if !over.buffer.holds_nothing_but(scratch) {
                wrong("a wrong byte in the buffer of a failed read");
            }
            if outcome.bytes > over.plan.size {
                wrong("more bytes than there is room for");
            }
            if !explained(&over, entry, facts, &outcome, error) {
                wrong("nothing explains this error");
            } else if quiet && gave_up_early(&over, entry, facts, &outcome, error) {
                wrong("it failed before its attempts were used up");
            }
        }
    }
    let late =
        |since: Option<Instant>| since.map_or(Duration::ZERO, |since| outcome.at.saturating_duration_since(since));
    let deadline = late(over.plan.deadline.map(|limit| over.begun + limit));
    let cancel = late(over.cancelled_at);
    if deadline.max(cancel) > LATE && now.standstills == over.moment.standstills {
        wrong("a deadline or a cancel took effect late");
    }
    tally.latest_deadline = tally.latest_deadline.max(deadline);
    tally.latest_cancel = tally.latest_cancel.max(cancel);
    over.buffer.use_again();
    Some(over.buffer)
}

fn deadline_was_over(over: &Running, outcome: &Outcome) -> bool {
    over.plan.deadline.is_some_and(|limit| outcome.at.duration_since(over.begun) >= limit)
}

/// Whether something that was planted, or done, can end in this error.
fn explained(over: &Running, entry: &Entry, facts: &Facts, outcome: &Outcome, error: &Error) -> bool {
    let now = chaos::now();
    if error.message().contains("was lost") {
        return false;
    }
    let by_chaos = match error.kind() {
        ErrorKind::Internal | ErrorKind::OutOfMemory => now.injected != over.moment.injected,
        ErrorKind::Connection => now.drops != over.moment.drops || over.moment.drops % 2 == 1,
        ErrorKind::TimedOut => now.standstills != over.moment.standstills || deadline_was_over(over, outcome),
        ErrorKind::Cancelled => entry.cancelled.load(SeqCst),
        ErrorKind::ShutDown => facts.closing.load(SeqCst),
        _ => false,
    };
    let by_plan = matches!(
        (over.plan.kind, error.kind()),
        (Kind::Beyond, ErrorKind::Range)
            | (Kind::Refused, ErrorKind::Connection)
            | (Kind::BlackHole, ErrorKind::TimedOut)
    );
    by_chaos || by_plan || entry.explains(error.kind())
}

/// A failure that a retry gets over ends a request only after all its attempts, each of which met a fault.
fn gave_up_early(over: &Running, entry: &Entry, facts: &Facts, outcome: &Outcome, error: &Error) -> bool {
    let passing =
        matches!(error.kind(), ErrorKind::Connection | ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::Range);
    let apart = entry.fatal.load(SeqCst) || deadline_was_over(over, outcome);
    passing
        && !apart
        && matches!(over.plan.kind, Kind::Read | Kind::Stat)
        && u32::from(entry.passing.load(SeqCst)) < facts.max_attempts
}
