//! What the threads of one transport share.

use super::board::Board;
use super::names::{Names, Tell};
use super::naps::Naps;
use crate::config::{Concurrency, Config};
use crate::credentials::authority::Granted;
use crate::endpoint::Origin;
use crate::error::{Error, ErrorKind, Result};
use crate::exit::Threads;
use crate::limit::RequestLimiter;
use crate::limit::adaptive::Activity;
use crate::limit::gate::ConnectionGate;
use crate::op::Operation;
use crate::op::items::Part;
use crate::retry::RetryPolicy;
use crate::stats::Stats;
use crate::sys::curl::{Settings, Share};
use crate::sys::event::EventFd;
use crate::sys::process;
use crate::thread_group::ThreadGroup;
use crate::transport::Transfer;
use crate::transport::inbox::Inbox;
use crate::transport::waker::Waker;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Receive buffer of a reactor. libcurl's 16 KiB cost 0.48 CPU-seconds a GiB on a 2-core machine, 128 to 512 KiB 0.26:
/// fewer passes through its loop for the same bytes.
const RECEIVE_BUFFER: usize = 256 << 10;

/// What reaches a thread through its inbox.
pub enum Message {
    /// Requests of one operation to work on.
    Work(Vec<Transfer>),
    /// A part of an operation that sends nothing.
    Nothing(Arc<Operation>, Part),
    /// An operation that must be over by then.
    Deadline(Instant, Weak<Operation>),
    /// Close what is idle.
    Trim,
    /// The request with this number need not wait for its sink any more.
    Room(u64),
    /// What became of a look-up that requests put aside wait for.
    Name(Origin, Option<Error>),
    /// What became of the secret, by its authority's number, that requests put aside wait for.
    Secret(usize, Option<Error>),
}

/// What a thread does about the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stop {
    /// Go on.
    No = 0,
    /// End every transfer with SHUT_DOWN, then the thread.
    ShutDown = 1,
    /// The process ends: stop without touching anything.
    Abandon = 2,
}

/// One thread as the others see it.
pub struct Member {
    /// Its work.
    pub inbox: Inbox<Message>,
    /// Look for transfers whose operation is over.
    pub sweep: AtomicBool,
    /// The operation whose request a pool's thread works on, by address; 0: none.
    pub works_for: AtomicUsize,
    /// The thread has requests that wait for a time or for a name.
    pub keeps_some: AtomicBool,
    /// Body bytes that it has received since ever. Written by that thread alone.
    pub received: AtomicU64,
    /// How long it had nothing to do.
    pub(super) naps: Naps,
}

/// What the threads of one transport share.
pub struct Engine {
    /// For new handles.
    pub settings: Settings,
    /// No byte for so long ends an attempt.
    pub stall: Option<Duration>,
    /// What is tried again.
    pub policy: RetryPolicy,
    /// Late requests are sent once more.
    pub hedging: bool,
    /// Connections kept open a thread.
    pub max_connections: u32,
    /// The client's counters.
    pub stats: Arc<Stats>,
    /// The reactors' budget; `None`: each thread works on one request at a time.
    pub limiter: Option<Arc<RequestLimiter>>,
    /// Lets new connections through, a few at a time.
    pub gate: Arc<ConnectionGate>,
    /// Where threads find work that any of them may do; `None`: each has its own, in its inbox.
    pub board: Option<Board>,
    /// The same for requests that may have to wait for their sink, where reactors share: each takes a few, so that the
    /// buffers go where there is time for them.
    pub sinks_board: Option<Board>,
    /// The names that were looked up.
    pub names: Arc<Names>,
    /// The threads.
    pub members: Vec<Member>,
    /// The thread that looks through the queue next.
    looker: AtomicUsize,
    stop: AtomicU8,
    threads: ThreadGroup,
}

/// What every operation of a client that was shut down ends with.
pub fn shut_down() -> Error {
    Error::new(ErrorKind::ShutDown, "the client was shut down")
}

impl Member {
    fn ask_to_sweep(&self) {
        if !self.sweep.swap(true, Ordering::AcqRel) {
            self.inbox.waker().wake();
        }
    }
}

fn address(op: &Operation) -> usize {
    std::ptr::from_ref(op) as usize
}

impl Tell for Engine {
    fn tell(&self, member: usize, origin: &Origin, failure: Option<&Error>) {
        let message = Message::Name(origin.clone(), failure.cloned());
        // Refused only by a thread that has ended everything it had.
        let _ = self.members[member].inbox.push(vec![message]);
    }
}

impl Granted for Engine {
    fn granted(&self, member: usize, authority: usize, failure: Option<&Error>) {
        // As above.
        let _ = self.members[member].inbox.push(vec![Message::Secret(authority, failure.cloned())]);
    }
}

impl Engine {
    /// Everything shared, for `threads` threads that do not run yet. `budget`: requests in flight over all of them;
    /// `None`: each works on one at a time. `shared`: any of them may take any request.
    ///
    /// # Errors
    /// IO when the process is out of file descriptors, OUT_OF_MEMORY.
    pub fn new(
        config: &Config,
        stats: Arc<Stats>,
        threads: u32,
        max_connections: u32,
        budget: Option<u32>,
        shared: bool,
    ) -> Result<Engine> {
        let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let settings = Settings {
            receive_buffer: RECEIVE_BUFFER,
            // 0 would be libcurl's own 300 s; no limit is a limit of 24 days.
            connect_timeout_ms: config.connect_timeout.map_or(i32::MAX as u64, ms),
            request_timeout_ms: config.request_timeout.map_or(0, ms),
            patient: config.stall_timeout.is_some(),
            verbose: config.verbose,
            share: Share::new()?,
        };
        let policy = RetryPolicy { max_attempts: config.max_attempts, statuses: config.retry_status.clone() };
        let mut members = Vec::with_capacity(threads as usize);
        let now = Instant::now();
        for _ in 0..threads {
            let waker = Arc::new(Waker::new(EventFd::new()?));
            members.push(Member {
                inbox: Inbox::new(waker),
                sweep: AtomicBool::new(false),
                works_for: AtomicUsize::new(0),
                keeps_some: AtomicBool::new(false),
                received: AtomicU64::new(0),
                naps: Naps::new(now),
            });
        }
        let wakes: Vec<Arc<dyn crate::limit::Wake>> =
            members.iter().map(|member| member.inbox.waker().clone() as Arc<dyn crate::limit::Wake>).collect();
        let gate = ConnectionGate::new(wakes.clone());
        let limiter = budget.map(|budget| match config.concurrency {
            Concurrency::Adaptive => RequestLimiter::adaptive(budget, wakes),
            Concurrency::Fixed => RequestLimiter::new(budget, wakes),
        });
        Ok(Engine {
            settings,
            stall: config.stall_timeout,
            policy,
            hedging: config.hedging && limiter.is_some(),
            max_connections,
            stats,
            board: (limiter.is_none() || shared).then(Board::default),
            sinks_board: (limiter.is_some() && shared).then(Board::default),
            limiter,
            gate,
            names: Arc::default(),
            members,
            looker: AtomicUsize::new(0),
            stop: AtomicU8::new(Stop::No as u8),
            threads: ThreadGroup::default(),
        })
    }

    /// Starts thread `index` with this body.
    ///
    /// # Errors
    /// IO when the system cannot make a thread.
    pub fn spawn(self: &Arc<Self>, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        ThreadGroup::spawn(self, |engine| &engine.threads, name, body)
    }

    /// What to do about the end.
    pub fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::No,
            1 => Stop::ShutDown,
            _ => Stop::Abandon,
        }
    }

    /// Tells every thread about the end.
    pub fn set_stop(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        self.wake_all();
    }

    /// `op` is over: has the threads that may hold requests of it look for them.
    pub fn sweep(&self, op: &Operation) {
        let Some(board) = self.board.as_ref().filter(|_| self.limiter.is_none()) else {
            for board in self.boards() {
                board.ask_to_sweep();
            }
            self.members.iter().for_each(Member::ask_to_sweep);
            return;
        };
        // Of a pool's many threads only those that work for it or keep requests, or one that looks through the queue: each
        // that is asked does.
        board.ask_to_sweep();
        // Pairs with the fence in `works_for`: either that thread sees that the operation is over, or this one sees it.
        fence(Ordering::SeqCst);
        let op = address(op);
        // In this order: a request is kept before its thread works for another operation.
        let concerned = self.members.iter().filter(|member| {
            member.works_for.load(Ordering::Acquire) == op || member.keeps_some.load(Ordering::Acquire)
        });
        if concerned.map(Member::ask_to_sweep).count() == 0 {
            let looker = self.looker.fetch_add(1, Ordering::Relaxed) % self.members.len();
            self.members[looker].ask_to_sweep();
        }
    }

    /// Notes what a pool's thread is about to work for, before it looks whether that is over.
    pub fn works_for(&self, member: usize, op: &Operation) {
        self.members[member].works_for.store(address(op), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Where requests wait that any thread may take.
    pub fn boards(&self) -> impl Iterator<Item = &Board> {
        self.board.iter().chain(&self.sinks_board)
    }

    /// Posts requests that any thread may take, and wakes as many as are needed and idle.
    ///
    /// # Errors
    /// The batch itself, once the threads are over.
    pub fn post(&self, batch: Vec<Transfer>, first: bool) -> std::result::Result<(), Vec<Transfer>> {
        let may_wait = batch.first().is_some_and(|transfer| transfer.line().is_some());
        let sinks = self.sinks_board.as_ref().filter(|_| may_wait);
        let Some(board) = sinks.or(self.board.as_ref()) else { return Err(batch) };
        for member in board.push(batch, first)? {
            self.members[member].inbox.waker().wake();
        }
        Ok(())
    }

    /// `member` has all the requests in flight that it is to have: what it may have been woken for is another's. Whether there is
    /// something to do.
    pub fn pass_on(&self, member: usize) -> bool {
        let mut any = false;
        for (some, other) in self.boards().map(|board| board.pass_on(member)) {
            any |= some;
            if let Some(other) = other {
                self.members[other].inbox.waker().wake();
            }
        }
        any
    }

    /// Has `member` end a part of `op` that sends nothing.
    pub fn end_soon(self: &Arc<Self>, member: usize, op: Arc<Operation>, part: Part) {
        if self.members[member].inbox.push(vec![Message::Nothing(op.clone(), part.clone())]).is_err() {
            self.end_late(move |_| op.finish(&part, 0, 0, Err(shut_down())));
        }
    }

    /// Requests that came too late end with SHUT_DOWN, on a thread of their own: the caller's completion never runs
    /// inside the caller's call.
    pub fn refuse(self: &Arc<Self>, late: Vec<Transfer>) {
        if late.is_empty() {
            return;
        }
        self.end_late(move |engine| {
            for transfer in late {
                crate::stats::sub(&engine.stats.requests_queued, 1);
                crate::stats::add(&engine.stats.requests_finished, 1);
                transfer.finish(Err(shut_down()));
            }
        });
    }

    /// Runs `end` on a thread of its own.
    fn end_late(self: &Arc<Self>, end: impl FnOnce(&Engine) + Send + 'static) {
        let engine = self.clone();
        // Without a thread transfers are dropped, and so finished, here.
        if let Err(error) = process::spawn("raskio-late", move || end(&engine)) {
            log::error!(target: "raskio", "{}", error.message());
        }
    }

    /// What its threads did since ever.
    pub(super) fn activity(&self, now: Instant) -> Activity {
        self.members.iter().fold(Activity::default(), |all, member| Activity {
            bytes: all.bytes + member.received.load(Ordering::Relaxed),
            slept: all.slept + member.naps.so_far(now),
        })
    }

    /// Has every thread close what is idle.
    pub fn trim(&self) {
        for member in &self.members {
            // Refused only by a thread that has ended, and closed everything.
            let _ = member.inbox.push(vec![Message::Trim]);
        }
    }

    /// Has every thread look around once more.
    pub fn wake_all(&self) {
        self.members.iter().for_each(|member| member.inbox.waker().wake());
    }
}

impl Threads for Engine {
    fn abandon(&self) {
        self.set_stop(Stop::Abandon);
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.threads.wait_ended(deadline)
    }
}
