//! The stager: the thread that moves filled buffers into the memory of one context, and what is there into empty ones.
//!
//! It starts copies as buffers come, puts an event behind them, and sleeps in the driver until the oldest is done; what comes
//! meanwhile waits for the length of one copy, some 80 µs for 4 MiB. It alone pins and releases memory. Nobody else calls the
//! driver, but for the caller's own thread when a read begins.

use super::bounce_buffer::{BounceBuffer, Cache, Limits, Served};
use super::event_pool::EventPool;
use super::lane::{Copy, Head, Lane};
use crate::error::{Error, ErrorKind, Result};
use crate::exit::{self, Threads};
use crate::stats::{self, Stats};
use crate::sync::Mutex;
use crate::sys::cuda::context::Key;
use crate::sys::cuda::pointer;
use crate::sys::cuda::stream::Capture;
use crate::sys::cuda::{Context, Current, Failure, Registration, Relaxed, Stream};
use crate::sys::event::EventFd;
use crate::sys::fault::{self, Point};
use crate::thread_group::ThreadGroup;
use crate::transport::inbox::Inbox;
use crate::transport::waker::Waker;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

mod ending;

/// The longest sleep while copies run that nobody can wait for: the driver tells of their end, but not of every failure.
const LOOK: Duration = Duration::from_millis(20);
/// The sleep after a call that should have waited and did not, so that a driver in trouble is not asked in a circle.
const PAUSE: Duration = Duration::from_millis(1);

/// What reaches a stager.
#[allow(clippy::large_enum_variant)] // nearly all of them are copies
pub enum Message {
    /// A buffer to copy or to fill, or the end of a request.
    Copy(Copy),
    /// Release what is idle.
    Trim,
    /// See whether the context is still there.
    Look,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Stop {
    No = 0,
    ShutDown = 1,
    /// The process ends: stop without touching anything.
    Abandon = 2,
}

/// Why a context takes no more copies.
struct Ended {
    error: Error,
    /// It is still there.
    broken: bool,
}

/// One context of one client, as everybody else sees it.
pub struct Stager {
    context: Arc<Context>,
    cache: Arc<Cache>,
    events: Arc<EventPool>,
    inbox: Inbox<Message>,
    stats: Arc<Stats>,
    stop: AtomicU8,
    /// The context is gone, or broken, for this reason.
    ended: Mutex<Option<Ended>>,
    threads: ThreadGroup,
}

impl Stager {
    /// Starts the thread for `context`.
    ///
    /// # Errors
    /// IO: the system has no threads or files left.
    pub fn start(context: Arc<Context>, limits: Limits, keep_events: usize, stats: Arc<Stats>) -> Result<Arc<Stager>> {
        let waker = Arc::new(Waker::new(EventFd::new()?));
        let stager = Arc::new(Stager {
            cache: Cache::new(limits, stats.clone(), waker.clone()),
            events: EventPool::new(context.clone(), keep_events, stats.clone()),
            context,
            inbox: Inbox::new(waker),
            stats,
            stop: AtomicU8::new(Stop::No as u8),
            ended: Mutex::new(None),
            threads: ThreadGroup::default(),
        });
        exit::watch(stager.clone());
        let of_thread = stager.clone();
        ThreadGroup::spawn(
            &stager,
            |stager| &stager.threads,
            "raskio-stager",
            move || {
                Local::new(of_thread).run_to_the_end();
            },
        )?;
        Ok(stager)
    }

    /// Its context.
    pub fn key(&self) -> Key {
        self.context.key()
    }

    /// Whether it still takes work.
    pub fn is_alive(&self) -> bool {
        self.ended.lock().is_none() && self.stop() == Stop::No
    }

    /// Why its context never works again, although it is still there.
    pub fn broken(&self) -> Option<Error> {
        let ended = self.ended.lock();
        // Without a number another context may have the same key by now.
        let broken = ended.as_ref().filter(|ended| ended.broken && self.context.is_known_by_number());
        broken.map(|ended| ended.error.clone())
    }

    /// Its buffers.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Its events.
    pub fn events(&self) -> &Arc<EventPool> {
        &self.events
    }

    /// Has a copy made. Too late, it fails at once.
    pub fn copy(&self, copy: Copy) {
        let Err(refused) = self.inbox.push(vec![Message::Copy(copy)]) else { return };
        let error = self.ended.lock().as_ref().map(|ended| ended.error.clone());
        let error = error.unwrap_or_else(|| Error::new(ErrorKind::ShutDown, "the client was shut down"));
        for message in refused {
            if let Message::Copy(copy) = message {
                copy.without_bytes(Some(error.clone())).end(false);
            }
        }
    }

    /// Releases what is idle, soon.
    pub fn trim(&self) {
        // Refused only by a thread that has released everything.
        let _ = self.inbox.push(vec![Message::Trim]);
    }

    /// Has it see whether its context is still there, and end if not.
    pub fn look(&self) {
        // Refused only by a thread that has ended.
        let _ = self.inbox.push(vec![Message::Look]);
    }

    /// Whether nothing of it is left but what others hold.
    pub fn has_ended(&self) -> bool {
        !self.is_alive() && self.threads.wait_ended(Some(Instant::now()))
    }

    /// Ends the thread when nothing is left to do.
    pub fn shut_down(&self) {
        self.set_stop(Stop::ShutDown);
    }

    fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::No,
            1 => Stop::ShutDown,
            _ => Stop::Abandon,
        }
    }

    fn set_stop(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        self.inbox.waker().wake();
    }
}

impl Threads for Stager {
    fn abandon(&self) {
        self.set_stop(Stop::Abandon);
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.threads.wait_ended(deadline)
    }
}

/// What only the thread touches.
struct Local {
    shared: Arc<Stager>,
    own: Option<Lane>,
    /// The callers' streams that have copies.
    callers: Vec<Lane>,
    messages: VecDeque<Message>,
    /// What says that the context may be broken: an error of its work, answered by one call.
    doubt: Option<Failure>,
    /// The buffers of copies that failed with it: for the next requests if the context is well.
    doubtful: Vec<BounceBuffer>,
    /// Copies that are over, and whether their bytes are in place. Ended outside the context: the host is called from there.
    over: Vec<(Copy, bool)>,
}

enum Next {
    /// There may be more to do.
    Again,
    /// Sleep until woken, or so long.
    Sleep(Option<Duration>),
    /// The driver is no longer there.
    Ending,
}

impl Local {
    fn new(shared: Arc<Stager>) -> Local {
        Local {
            shared,
            own: None,
            callers: Vec::new(),
            messages: VecDeque::new(),
            doubt: None,
            doubtful: Vec::new(),
            over: Vec::new(),
        }
    }

    fn run_to_the_end(mut self) {
        // For good: the thread is ours.
        std::mem::forget(Relaxed::new(self.shared.context.driver()));
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.run())) {
                Ok(Stop::Abandon) => {
                    // The driver, the host's callbacks and its memory may be half gone: touch nothing.
                    std::mem::forget(self);
                    return;
                }
                Ok(_) => return,
                Err(_) => {
                    log::error!(target: "raskio", "a panic in a stager was caught; this is a bug in RaskIO");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn run(&mut self) -> Stop {
        loop {
            let stop = self.shared.stop();
            if stop == Stop::Abandon {
                return stop;
            }
            self.shared.inbox.drain(&mut self.messages);
            let idle = self.messages.is_empty() && self.is_idle();
            if stop == Stop::ShutDown && idle {
                self.release_everything();
                return stop;
            }
            let next = self.pass();
            // The buffers have gone back, no lock is held, no context is current.
            for (copy, copied) in self.over.drain(..) {
                copy.end(copied);
            }
            match next {
                None => return Stop::ShutDown,
                Some(Next::Again) => {}
                // What was done was the last: nobody will wake this thread for the end.
                Some(Next::Sleep(None)) if stop == Stop::ShutDown => {}
                Some(Next::Ending) => return Stop::Abandon,
                Some(Next::Sleep(limit)) => self.sleep(limit),
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.own.as_ref().is_none_or(Lane::is_empty) && self.callers.is_empty()
    }

    fn sleep(&self, limit: Option<Duration>) {
        let waker = self.shared.inbox.waker();
        if waker.may_sleep() {
            waker.signal().wait(limit);
            waker.awake();
        }
    }

    /// Everything that needs the context. `None`: it is gone or broken, and the thread has nothing left to do.
    fn pass(&mut self) -> Option<Next> {
        if self.messages.is_empty() && self.is_idle() && self.shared.cache.demand().is_none() {
            return Some(Next::Sleep(None));
        }
        let context = self.shared.context.clone();
        // Once more: only a context that is gone twice is gone, or broken.
        let entered = context
            .enter()
            .or_else(|failure| if failure.has_ended_all_work() { context.enter() } else { Err(failure) });
        match entered {
            Ok(current) => self.work(&current),
            Err(failure) if failure.is_deinitialized() => Some(Next::Ending),
            Err(failure) if failure.has_ended_all_work() => {
                self.end_context(failure, None);
                None
            }
            Err(failure) => {
                self.refuse_new(failure);
                Some(Next::Sleep(Some(LOOK)))
            }
        }
    }

    fn work(&mut self, current: &Current<'_>) -> Option<Next> {
        for message in std::mem::take(&mut self.messages) {
            match message {
                Message::Copy(copy) => {
                    assert!(!fault::hit(Point::PanicInStager), "a planted panic");
                    self.start(copy, current);
                }
                Message::Trim => {
                    self.shared.cache.trim(Registration::Ends(current));
                    self.shared.events.trim(current);
                }
                Message::Look => {}
            }
        }
        let events = self.shared.events.clone();
        self.own.iter_mut().chain(&mut self.callers).for_each(|lane| lane.seal(current, &events));
        let ended = self.collect(current);
        // One at a time: copies that came meanwhile go first.
        let served = self.shared.cache.serve(current);
        if self.doubt.is_some() || matches!(served, Served::Refused(_)) {
            if let Some(failure) = current.why_broken() {
                let first = self.doubt.take();
                self.end_context(first.unwrap_or(failure), Some(current));
                return None;
            }
            self.doubt = None;
            self.doubtful.clear();
        }
        let pinned = match served {
            Served::Nothing => false,
            Served::Something => true,
            Served::Refused(error) => {
                self.shared.cache.cannot_pin(error);
                true
            }
        };
        if ended || pinned || !self.over.is_empty() {
            return Some(Next::Again);
        }
        Some(match &self.own {
            Some(own) if !own.is_empty() => {
                if own.wait() {
                    Next::Again
                } else {
                    Next::Sleep(Some(PAUSE))
                }
            }
            _ if self.is_idle() => Next::Sleep(None),
            _ => Next::Sleep(Some(LOOK)),
        })
    }

    /// The bytes of `copy` failed with this. If that may be the context's end, its buffer is nobody's before that is known.
    fn set_aside(doubt: &mut Option<Failure>, doubtful: &mut Vec<BounceBuffer>, copy: &mut Copy, failure: Failure) {
        if failure.has_broken_the_context() {
            doubt.get_or_insert(failure);
            doubtful.extend(copy.buffer.take());
        }
    }

    /// Starts a copy on its stream.
    fn start(&mut self, copy: Copy, current: &Current<'_>) {
        // Nobody wants the bytes any more. Those that are on their way are waited for all the same.
        let mut copy = if copy.owner().is_over() { copy.without_bytes(None) } else { copy };
        if copy.buffer.is_none() {
            return self.end(copy);
        }
        let events = self.shared.events.clone();
        let lane = match self.lane(copy.stream, current) {
            Ok(lane) => lane,
            Err(failure) => {
                let error = Error::from(failure).context("making a stream for copies");
                Local::set_aside(&mut self.doubt, &mut self.doubtful, &mut copy, failure);
                return self.end(copy.without_bytes(Some(error)));
            }
        };
        let started = match copy.stream.map(|_| lane.stream().capture(current.driver())) {
            Some(Ok(Capture::Yes)) => Err((pointer::captures(), None, false)),
            Some(Err(failure)) => Err((failure.into(), Some(failure), false)),
            Some(Ok(Capture::No)) | None => {
                copy.start(current, lane.stream()).map_err(|(failure, any)| (Error::from(failure), Some(failure), any))
            }
        };
        if let Err((error, failure, any)) = started {
            let error = error.context(copy.describe());
            if !any {
                if let Some(failure) = failure {
                    Local::set_aside(&mut self.doubt, &mut self.doubtful, &mut copy, failure);
                }
                return self.end(copy.without_bytes(Some(error)));
            }
            // The buffer must not be used again before what was started is done.
            copy.fail(error);
        }
        lane.push(copy);
        if lane.is_full() {
            lane.seal(current, &events);
        }
    }

    /// Ends a copy of nothing, once those of its request that run are over.
    fn end(&mut self, copy: Copy) {
        let lane = match copy.stream {
            _ if copy.placed.is_none() => None,
            None => self.own.as_mut(),
            Some(handle) => self.callers.iter_mut().find(|lane| lane.stream().handle() == handle),
        };
        let at_once = match lane {
            Some(lane) => lane.push_end(copy),
            None => Some(copy),
        };
        self.over.extend(at_once.map(|copy| (copy, false)));
    }

    fn lane(&mut self, stream: Option<usize>, current: &Current<'_>) -> std::result::Result<&mut Lane, Failure> {
        let stager = self.shared.clone();
        let told = || -> Arc<dyn Fn() + Send + Sync> {
            // Weak: a driver in trouble calls nobody, and keeps what it was given.
            let waker = Arc::downgrade(stager.inbox.waker());
            Arc::new(move || {
                if let Some(waker) = waker.upgrade() {
                    waker.wake();
                }
            })
        };
        match stream {
            None => match &mut self.own {
                Some(own) => Ok(own),
                empty => Ok(empty.insert(Lane::new(Stream::new(current)?, false, told()))),
            },
            Some(handle) => {
                let known = self.callers.iter().position(|lane| lane.stream().handle() == handle);
                let at = known.unwrap_or_else(|| {
                    self.callers.push(Lane::new(Stream::of_caller(handle), true, told()));
                    self.callers.len() - 1
                });
                Ok(&mut self.callers[at])
            }
        }
    }

    /// Takes the copies out that are over. Returns whether there were any.
    fn collect(&mut self, current: &Current<'_>) -> bool {
        let mut any = false;
        for lane in self.own.iter_mut().chain(&mut self.callers) {
            loop {
                let (copies, failure, known) = match lane.head(current) {
                    Head::Empty | Head::Running => break,
                    Head::Over(copies, failure) => (copies, failure, true),
                    Head::Unknown(copies, failure) => (copies, Some(failure), false),
                };
                any = true;
                for mut copy in copies {
                    match failure {
                        None => {
                            let placed: u64 = copy.parts.iter().map(|(_, part)| part.len()).sum();
                            stats::add(&self.shared.stats.bytes_staged, if copy.failed { 0 } else { placed });
                            self.over.push((copy, true));
                        }
                        // The copies that its request had failed by themselves.
                        Some(_) if copy.buffer.is_none() => self.over.push((copy, false)),
                        Some(failure) => {
                            let error = Error::from(failure).context(format_args!("after {}", copy.describe()));
                            if known {
                                Local::set_aside(&mut self.doubt, &mut self.doubtful, &mut copy, failure);
                            }
                            let copy = if known { copy.without_bytes(Some(error)) } else { copy.without_end(error) };
                            self.over.push((copy, false));
                        }
                    }
                }
            }
        }
        self.callers.retain(|lane| !lane.is_empty());
        any
    }
}
