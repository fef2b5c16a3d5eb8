//! The threads of local files.

use super::ring::Rings;
use super::work::{Step, Work};
use crate::config::{Config, UNLIMITED};
use crate::error::{Error, ErrorKind, Result};
use crate::exit::{self, Threads};
use crate::local::{Bypass, OpenFile};
use crate::op::Operation;
use crate::op::items::Part;
use crate::plan::ByteRange;
use crate::staging::{Room, Told};
use crate::stats::{self, Stats};
use crate::sync::{Condvar, Mutex};
use crate::sys::mem::Pages;
use crate::sys::process;
use crate::thread_group::ThreadGroup;
use crate::transport::lanes::Lanes;
use crate::transport::reactor::engine::{Stop, shut_down};
use crate::transport::{Found, Job, Transfer, fail_late};
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// What a profiler shows of requests whose sink has no buffer yet.
pub(super) const FOR_A_BUFFER: &std::ffi::CStr = c"wait for a pinned buffer";

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

#[derive(Default)]
struct Queue {
    lanes: Lanes<Transfer>,
    /// Requests that wait for their sinks, by the number that tells of it.
    waiting: BTreeMap<u64, Transfer>,
    /// Numbers that were told of before their requests had begun to wait.
    told: HashSet<u64>,
    deadlines: BinaryHeap<Due>,
    /// Parts of operations that send nothing.
    nothing: Vec<(Arc<Operation>, Part)>,
    /// Somebody is to look for requests whose operation is over.
    sweep: bool,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// What a thread does next.
enum Next {
    Serve(Transfer),
    End(Vec<Transfer>),
    Nothing(Vec<(Arc<Operation>, Part)>),
    Fail(Vec<Weak<Operation>>),
    Refuse(Vec<Transfer>),
    Stop,
}

/// The threads, and the rings beside them.
pub struct Pool {
    bypass: Bypass,
    stats: Arc<Stats>,
    rings: Option<Rings>,
    /// Threads, at most.
    most: usize,
    numbers: AtomicU64,
    queue: Mutex<Queue>,
    changed: Condvar,
    stop: AtomicU8,
    threads: ThreadGroup,
}

impl Pool {
    /// Starts the first thread; the others come with the work.
    ///
    /// # Errors
    /// IO: the system has no thread left.
    pub(super) fn start(config: &Config, stats: Arc<Stats>, rings: Option<Rings>) -> Result<Arc<Pool>> {
        let budget =
            if config.max_concurrent_requests == UNLIMITED { u32::MAX } else { config.max_concurrent_requests };
        let pool = Arc::new(Pool {
            bypass: Bypass::of(config, None),
            stats,
            rings,
            most: config.num_threads.min(budget).max(1) as usize,
            numbers: AtomicU64::new(0),
            queue: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicU8::new(Stop::No as u8),
            threads: ThreadGroup::default(),
        });
        exit::watch(pool.clone());
        pool.queue.lock().threads = 1;
        pool.add_thread()?;
        Ok(pool)
    }

    fn add_thread(self: &Arc<Self>) -> Result<()> {
        let pool = self.clone();
        self.spawn("raskio-file", move || pool.run())
    }

    /// Starts a thread that [`Threads::wait_stopped`] waits for.
    pub(super) fn spawn(self: &Arc<Self>, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        ThreadGroup::spawn(self, |pool| &pool.threads, name, body)
    }

    /// Tells the rings of one that could not be made.
    pub(super) fn ring_is_gone(&self, tell: impl FnOnce(&Rings)) {
        if let Some(rings) = &self.rings {
            tell(rings);
        }
    }

    pub(super) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    pub(super) fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::No,
            1 => Stop::ShutDown,
            _ => Stop::Abandon,
        }
    }

    /// Counts a batch in, and has the deadline of its operation watched.
    pub(super) fn accept(&self, batch: &[Transfer]) {
        let requests = batch.len() as u64;
        stats::add(&self.stats.requests_started, requests);
        stats::add(&self.stats.requests_queued, requests);
        let Some((at, op)) = batch.first().and_then(|transfer| Some((transfer.op.deadline()?, &transfer.op))) else {
            return;
        };
        self.queue.lock().deadlines.push(Due(at, Arc::downgrade(op)));
        self.changed.notify_one();
    }

    /// Hands to the rings what they can do at once; returns the rest.
    pub(super) fn to_rings(self: &Arc<Self>, batch: Vec<Transfer>) -> Vec<Transfer> {
        let Some(rings) = &self.rings else { return batch };
        let mut rest = Vec::new();
        let mut by_device: HashMap<u64, Vec<Transfer>> = HashMap::new();
        for transfer in batch {
            let moves = matches!(transfer.job(), Job::Read { .. } | Job::Write(_));
            let opened = transfer.object.endpoint().local().filter(|_| moves).and_then(|local| local.opened());
            match opened {
                Some(file) => by_device.entry(file.device()).or_default().push(transfer),
                None => rest.push(transfer),
            }
        }
        for (device, transfers) in by_device {
            rest.extend(rings.post(device, transfers, self));
        }
        rest
    }

    /// Queues requests for the threads.
    pub(super) fn post(self: &Arc<Self>, batch: Vec<Transfer>) {
        if batch.is_empty() {
            return;
        }
        let more = {
            let mut queue = self.queue.lock();
            if queue.closed {
                drop(queue);
                return self.refuse_soon(batch);
            }
            queue.lanes.push(batch);
            // With rings they only open files.
            let wanted = if self.rings.is_some() { 1 } else { queue.lanes.len() };
            let more = wanted.saturating_sub(queue.idle).min(self.most.saturating_sub(queue.threads));
            queue.threads += more;
            for _ in 0..queue.idle.min(queue.lanes.len()) {
                self.changed.notify_one();
            }
            more
        };
        for started in 0..more {
            if let Err(error) = self.add_thread() {
                // Those that there are do it, more slowly.
                log::warn!(target: "raskio", "{}", error.message());
                self.queue.lock().threads -= more - started;
                break;
            }
        }
    }

    /// Requests that came too late end with SHUT_DOWN, on a thread of their own: the caller's completion never runs inside the
    /// caller's call.
    pub(super) fn refuse_soon(self: &Arc<Self>, late: Vec<Transfer>) {
        let pool = self.clone();
        // Without a thread transfers are dropped, and so finished, here.
        if let Err(error) = process::spawn("raskio-late", move || late.into_iter().for_each(|one| pool.refuse(one))) {
            log::error!(target: "raskio", "{}", error.message());
        }
    }

    pub(super) fn end_soon(self: &Arc<Self>, op: Arc<Operation>, part: Part) {
        {
            let mut queue = self.queue.lock();
            if !queue.closed {
                queue.nothing.push((op, part));
                return self.changed.notify_one();
            }
        }
        let end = move || op.finish(&part, 0, 0, Err(shut_down()));
        if let Err(error) = process::spawn("raskio-late", end) {
            log::error!(target: "raskio", "{}", error.message());
        }
    }

    /// Has requests whose operation is over looked for.
    pub(super) fn sweep(&self) {
        self.queue.lock().sweep = true;
        self.changed.notify_one();
        if let Some(rings) = &self.rings {
            rings.sweep();
        }
    }

    pub(super) fn trim(&self) {
        if let Some(rings) = &self.rings {
            rings.trim();
        }
    }

    pub(super) fn shut_down(&self) {
        self.set_stop(Stop::ShutDown);
    }

    fn set_stop(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        // Under the lock: nobody is between looking and sleeping.
        drop(self.queue.lock());
        self.changed.notify_all();
        if let Some(rings) = &self.rings {
            rings.wake();
        }
    }

    fn run(self: &Arc<Self>) {
        let mut spare = Vec::new();
        loop {
            match self.next() {
                Next::Serve(transfer) => {
                    // A panic costs its request, whose drop ends it.
                    let served = catch_unwind(AssertUnwindSafe(|| self.serve(transfer, &mut spare)));
                    if served.is_err() {
                        log::error!(target: "raskio", "a panic in a thread for files was caught; this is a bug in RaskIO");
                    }
                }
                Next::End(over) => over.into_iter().for_each(|transfer| self.end_queued(transfer, Ok(()))),
                Next::Nothing(parts) => parts.into_iter().for_each(|(op, part)| op.finish(&part, 0, 0, Ok(()))),
                Next::Fail(ops) => ops.iter().filter_map(Weak::upgrade).for_each(|op| fail_late(&op)),
                Next::Refuse(transfers) => transfers.into_iter().for_each(|transfer| self.refuse(transfer)),
                Next::Stop => return,
            }
        }
    }

    fn next(&self) -> Next {
        let mut queue = self.queue.lock();
        loop {
            match self.stop() {
                Stop::No => {}
                Stop::Abandon => return Next::Stop,
                Stop::ShutDown => {
                    queue.closed = true;
                    let nothing = std::mem::take(&mut queue.nothing);
                    if !nothing.is_empty() {
                        return Next::Nothing(nothing);
                    }
                    let mut rest = queue.lanes.drain();
                    rest.extend(std::mem::take(&mut queue.waiting).into_values());
                    return if rest.is_empty() { Next::Stop } else { Next::Refuse(rest) };
                }
            }
            if !queue.nothing.is_empty() {
                return Next::Nothing(std::mem::take(&mut queue.nothing));
            }
            let now = Instant::now();
            let mut due = Vec::new();
            while queue.deadlines.peek().is_some_and(|next| next.0 <= now) {
                due.extend(queue.deadlines.pop().map(|due| due.1));
            }
            if !due.is_empty() {
                return Next::Fail(due);
            }
            if std::mem::take(&mut queue.sweep) {
                let mut over = queue.lanes.extract(Transfer::is_over);
                let numbers: Vec<u64> = queue
                    .waiting
                    .iter()
                    .filter(|(_, transfer)| transfer.is_over())
                    .map(|(number, _)| *number)
                    .collect();
                over.extend(numbers.iter().filter_map(|number| queue.waiting.remove(number)));
                if !over.is_empty() {
                    return Next::End(over);
                }
            }
            if let Some(transfer) = queue.lanes.pop() {
                return Next::Serve(transfer);
            }
            // Operations that ended long ago need no watch.
            while queue.deadlines.peek().is_some_and(|next| next.1.strong_count() == 0) {
                queue.deadlines.pop();
            }
            let until = queue.deadlines.peek().map(|next| next.0);
            queue.idle += 1;
            queue = self.changed.wait_until(queue, until);
            queue.idle -= 1;
        }
    }

    /// A request that has not begun.
    fn serve(self: &Arc<Self>, mut transfer: Transfer, spare: &mut Vec<Pages>) {
        if transfer.is_over() {
            return self.end_queued(transfer, Ok(()));
        }
        let file = match self.open(&transfer) {
            Ok(file) => file,
            Err(error) => return self.end_queued(transfer, Err(error)),
        };
        match transfer.job() {
            Job::Nothing => return self.end_queued(transfer, Ok(())),
            Job::Stat { .. } => {
                let learned = transfer.object.learn_file(&file);
                transfer.op.add_attempt(&transfer.part);
                return self.end_queued(transfer, learned.map(drop));
            }
            Job::End(end) => {
                let len = end.len;
                let size = match transfer.object.learn_file(&file) {
                    Ok(size) => size,
                    Err(error) => return self.end_queued(transfer, Err(error)),
                };
                match transfer.found_end(ByteRange::last(len, size)) {
                    Found::Nothing(transfer) => return self.end_queued(transfer, Ok(())),
                    Found::No(transfer, error) => return self.end_queued(transfer, Err(error)),
                    Found::Read(found) => transfer = found,
                    Found::Several(several) => {
                        let more = several.len() as u64 - 1;
                        stats::add(&self.stats.requests_started, more);
                        stats::add(&self.stats.requests_queued, more);
                        return self.post(self.to_rings(several));
                    }
                }
            }
            Job::Read { .. } | Job::Write(_) => {}
        }
        if self.rings.is_some() {
            match self.to_rings(vec![transfer]).pop() {
                // It has no ring after all.
                Some(back) => transfer = back,
                None => return,
            }
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        match self.prepare(&mut transfer, number) {
            Room::Yes => self.carry_out(Work::new(self.begin(transfer), file), spare),
            Room::Later => self.put_aside(number, transfer),
            Room::No(error) => self.end_unready(transfer, error),
        }
    }

    /// The file of a request, opened.
    fn open(&self, transfer: &Transfer) -> Result<Arc<OpenFile>> {
        let Some(local) = transfer.object.endpoint().local() else {
            let words = format!("{}: no file is read like one; this is a bug in RaskIO", transfer.object.name());
            return Err(Error::new(ErrorKind::Internal, words));
        };
        if let Some(file) = local.opened() {
            return Ok(file);
        }
        let file = local.open(self.bypass, matches!(transfer.job(), Job::Write(_)));
        let file = file.map_err(|error| error.context(transfer.describe()))?;
        transfer.object.learn_file(&file)?;
        Ok(file)
    }

    /// Has the sink of a request get ready. Under this number it is told when it may go on.
    fn prepare(self: &Arc<Self>, transfer: &mut Transfer, number: u64) -> Room {
        transfer.prepare(&mut || -> Told {
            let pool = Arc::downgrade(self);
            Box::new(move || {
                let Some(pool) = pool.upgrade() else { return };
                let mut queue = pool.queue.lock();
                match queue.waiting.remove(&number) {
                    Some(transfer) => queue.lanes.push_first(transfer),
                    None => drop(queue.told.insert(number)),
                }
                drop(queue);
                pool.changed.notify_one();
            })
        })
    }

    fn put_aside(&self, number: u64, mut transfer: Transfer) {
        transfer.waits_for(FOR_A_BUFFER);
        let mut queue = self.queue.lock();
        if queue.told.remove(&number) {
            queue.lanes.push_first(transfer);
        } else {
            // It may have become over since it was looked at, and after those that wait were.
            queue.sweep |= transfer.is_over();
            queue.waiting.insert(number, transfer);
        }
    }

    fn carry_out(&self, mut work: Work, spare: &mut Vec<Pages>) {
        loop {
            match self.stop() {
                Stop::No => {}
                Stop::ShutDown => work.transfer.op.fail(shut_down()),
                // The host's memory may be half gone.
                Stop::Abandon => return std::mem::forget(work),
            }
            let step = work.next(spare);
            let file = work.file.clone();
            let outcome = match step {
                Step::Over(result) => return self.finish(work, result, spare),
                Step::Sync => file.sync().map(|()| 0),
                Step::Read { at, direct, .. } => match work.lend(&step) {
                    Some(mut span) => file.file(direct).read_at(&mut span, at),
                    None => Ok(0),
                },
                Step::Write { at, direct, .. } => match work.lend(&step) {
                    Some(span) => file.file(direct).write_at(&span, at),
                    None => Ok(0),
                },
            };
            if let Some(result) = work.done(&step, outcome, &self.stats, false) {
                return self.finish(work, result, spare);
            }
        }
    }

    /// A request is no longer queued, but worked on.
    pub(super) fn begin(&self, mut transfer: Transfer) -> Transfer {
        transfer.goes_on();
        stats::sub(&self.stats.requests_queued, 1);
        stats::add(&self.stats.requests_in_flight, 1);
        transfer
    }

    /// The end of a request that had begun.
    pub(super) fn finish(&self, mut work: Work, result: Result<()>, spare: &mut Vec<Pages>) {
        spare.extend(work.spare());
        stats::sub(&self.stats.requests_in_flight, 1);
        if result.is_ok() && !work.transfer.is_over() {
            self.stats.request_latency.add(work.started.elapsed());
        }
        self.end(work.transfer, result);
    }

    /// The end of a request that has not begun.
    pub(super) fn end_queued(&self, transfer: Transfer, result: Result<()>) {
        stats::sub(&self.stats.requests_queued, 1);
        self.end(transfer, result);
    }

    /// The end of a request whose sink or feed cannot get ready.
    pub(super) fn end_unready(&self, transfer: Transfer, error: Error) {
        let error = error.context(transfer.describe());
        self.end_queued(transfer, Err(error));
    }

    fn end(&self, transfer: Transfer, result: Result<()>) {
        stats::add(&self.stats.requests_finished, 1);
        transfer.finish(result);
    }

    pub(super) fn refuse(&self, transfer: Transfer) {
        transfer.op.fail(shut_down());
        self.end_queued(transfer, Err(shut_down()));
    }
}

impl Threads for Pool {
    fn abandon(&self) {
        self.set_stop(Stop::Abandon);
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.threads.wait_ended(deadline)
    }
}
