//! The threads of local files.

use super::queue::{Chore, Queue};
use super::ring::Rings;
use super::work::Work;
use crate::config::{Config, UNLIMITED};
use crate::error::{Error, Result};
use crate::exit::{self, Threads};
use crate::local::Bypass;
use crate::op::Operation;
use crate::op::items::Part;
use crate::stats::{self, Stats};
use crate::sync::{Condvar, Mutex};
use crate::sys::mem::Pages;
use crate::sys::process;
use crate::thread_group::ThreadGroup;
use crate::transport::reactor::engine::{Stop, shut_down};
use crate::transport::{Job, Transfer};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a shutdown without a limit waits for threads that the system does not let go. They hold nothing of the caller's.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a thread does next.
enum Next {
    Serve(Transfer),
    Do(Chore),
    Stop,
}

/// What a thread is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Asks the system for what requests need, and moves bytes.
    Server,
    /// Never asks the system for anything that may last: so deadlines, cancels and a shutdown are seen in time, whatever the others
    /// are busy with.
    Keeper,
}

/// The threads, and the rings beside them.
pub struct Pool {
    pub(super) bypass: Bypass,
    stats: Arc<Stats>,
    pub(super) rings: Option<Rings>,
    /// Threads, at most.
    pub(super) most: usize,
    pub(super) numbers: AtomicU64,
    pub(super) queue: Mutex<Queue>,
    /// Something is to be served.
    pub(super) work: Condvar,
    /// Something is to be done beside.
    chores: Condvar,
    stop: AtomicU8,
    pub(super) threads: ThreadGroup,
}

impl Pool {
    /// Starts the keeper and the first of the others; the rest come with the work.
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
            work: Condvar::new(),
            chores: Condvar::new(),
            stop: AtomicU8::new(Stop::No as u8),
            threads: ThreadGroup::default(),
        });
        exit::watch(pool.clone());
        pool.queue.lock().threads = 1;
        for role in [Role::Keeper, Role::Server] {
            // Without one of them the other is of no use.
            pool.add_thread(role).inspect_err(|_| pool.shut_down())?;
        }
        Ok(pool)
    }

    fn add_thread(self: &Arc<Self>, role: Role) -> Result<()> {
        let pool = self.clone();
        let name = if role == Role::Keeper { "raskio-keeper" } else { "raskio-file" };
        self.spawn(name, move || pool.run(role))
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
        let mut queue = self.queue.lock();
        if queue.watch(at, op) {
            self.chore_came(&queue);
        }
    }

    /// Wakes who does it: any of the others while the keeper is inside a callback of the host.
    pub(super) fn chore_came(&self, queue: &Queue) {
        if queue.keeper_sleeps { self.chores.notify_one() } else { self.work.notify_one() }
    }

    /// Hands to the rings what they can do at once; returns the rest.
    pub(super) fn to_rings(self: &Arc<Self>, batch: Vec<Transfer>) -> Vec<Transfer> {
        let Some(rings) = &self.rings else { return batch };
        let mut rest = Vec::new();
        let mut by_device: HashMap<u64, Vec<Transfer>> = HashMap::new();
        for transfer in batch {
            let moves = matches!(transfer.job(), Job::Read { .. } | Job::Write(_));
            let opened = transfer.object.endpoint().local().filter(|_| moves).and_then(|local| local.opened());
            // That of a new name asks for what no ring does.
            match opened.filter(|file| !transfer.syncs_name_of(file)) {
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
        // With rings they only open files.
        let move_bytes = self.rings.as_ref().is_none_or(Rings::lacks_some);
        let more = {
            let mut queue = self.queue.lock();
            if queue.closed {
                drop(queue);
                return self.refuse_soon(batch);
            }
            queue.lanes.push(batch);
            let wanted = if move_bytes { queue.lanes.len() } else { 1 };
            let more = wanted.saturating_sub(queue.idle).min(self.most.saturating_sub(queue.threads));
            queue.threads += more;
            for _ in 0..queue.idle.min(queue.lanes.len()) {
                self.work.notify_one();
            }
            more
        };
        self.add_servers(more);
    }

    /// Starts so many threads that are counted already.
    pub(super) fn add_servers(self: &Arc<Self>, more: usize) {
        for started in 0..more {
            if let Err(error) = self.add_thread(Role::Server) {
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
                return self.chore_came(&queue);
            }
        }
        let end = move || op.finish(&part, 0, 0, Err(shut_down()));
        if let Err(error) = process::spawn("raskio-late", end) {
            log::error!(target: "raskio", "{}", error.message());
        }
    }

    /// Has requests whose operation is over looked for.
    pub(super) fn sweep(&self) {
        {
            let mut queue = self.queue.lock();
            queue.sweep = true;
            self.chore_came(&queue);
        }
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
        self.queue.lock().stopped_at.get_or_insert_with(Instant::now);
        self.work.notify_all();
        self.chores.notify_all();
        if let Some(rings) = &self.rings {
            rings.wake();
        }
    }

    fn run(self: &Arc<Self>, role: Role) {
        let mut spare = Vec::new();
        loop {
            match self.next(role) {
                Next::Serve(transfer) => {
                    // A panic costs its request, whose drop ends it.
                    let served = catch_unwind(AssertUnwindSafe(|| self.serve(transfer, &mut spare)));
                    if served.is_err() {
                        log::error!(target: "raskio", "a panic in a thread for files was caught; this is a bug in RaskIO");
                    }
                }
                Next::Do(Chore::End(over)) => over.into_iter().for_each(|transfer| self.end_queued(transfer, Ok(()))),
                Next::Do(Chore::Nothing(parts)) => {
                    parts.into_iter().for_each(|(op, part)| op.finish(&part, 0, 0, Ok(())));
                }
                Next::Do(Chore::Fail(ops)) => ops.iter().filter_map(Weak::upgrade).for_each(|op| op.fail_late()),
                Next::Do(Chore::Refuse(late)) => late.into_iter().for_each(|transfer| self.refuse(transfer)),
                Next::Stop => return,
            }
        }
    }

    fn next(&self, role: Role) -> Next {
        let mut queue = self.queue.lock();
        loop {
            let chore = match self.stop() {
                Stop::No => queue.chore(),
                Stop::Abandon => return Next::Stop,
                Stop::ShutDown => return queue.close().map_or(Next::Stop, Next::Do),
            };
            if let Some(chore) = chore {
                return Next::Do(chore);
            }
            if role == Role::Server {
                if let Some(transfer) = queue.lanes.pop() {
                    return Next::Serve(transfer);
                }
            }
            let until = queue.next_deadline();
            if role == Role::Server {
                queue.idle += 1;
                queue = self.work.wait_until(queue, until);
                queue.idle -= 1;
            } else {
                queue.keeper_sleeps = true;
                queue = self.chores.wait_until(queue, until);
                queue.keeper_sleeps = false;
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
        let patience = self.queue.lock().stopped_at.and_then(|at| at.checked_add(PATIENCE));
        let Some(patience) = patience.filter(|patience| deadline.is_none_or(|deadline| *patience < deadline)) else {
            return self.threads.wait_ended(deadline);
        };
        if self.threads.wait_ended(Some(patience)) {
            return true;
        }
        let ended = self.threads.wait_ended_or_away(deadline);
        if ended {
            let words =
                "the system has not opened a file yet: the thread that waits for it is left behind, and ends with that";
            log::warn!(target: "raskio", "{words}");
        }
        ended
    }
}
