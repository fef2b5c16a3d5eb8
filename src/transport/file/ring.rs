//! The rings: a thread and an io_uring for each block device, so that a slow one holds no other up.

use super::pool::Pool;
use super::serve::FOR_A_BUFFER;
use super::work::{Step, Work};
use crate::config::{Config, UNLIMITED};
use crate::error::{Error, Result};
use crate::limit::Wake;
use crate::local::OpenFile;
use crate::staging::{Room, Told};
use crate::sync::Mutex;
use crate::sys::event::EventFd;
use crate::sys::mem::Pages;
use crate::sys::uring::{Io, Options, Ring};
use crate::transport::Transfer;
use crate::transport::inbox::Inbox;
use crate::transport::lanes::Lanes;
use crate::transport::reactor::board::Pace;
use crate::transport::reactor::engine::{Stop, shut_down};
use crate::transport::reactor::waiting::Waiting;
use crate::transport::waker::Waker;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Devices with a ring of their own; what is more shares those.
const MOST_RINGS: usize = 16;
/// Places for pinned buffers in the kernel's table: more than a client has, as a rule.
const BUFFERS: u16 = 256;
/// And for files, two descriptors each; what is more is named by its descriptor.
const FILES: u32 = 256;
/// So many requests are over before those that follow them are handed to the kernel. 4 KiB at random, 32 in flight, a virtual disk:
/// 1, 2, 4, 8 and all of them give 87, 86, 84, 75 and 70 thousand a second, for 6.3, 5.9, 5.1, 5.2 and 5.2 µs of CPU each; fio,
/// which hands over each, gives 87.
const HAND_OVER: usize = 4;
/// Requests that are taken in before the thread looks around.
const MOST_AT_ONCE: usize = 256;
/// Reads through the cache of at least so many bytes are done by threads of the kernel's, several at a time. What the cache holds of
/// smaller ones is copied by this thread faster than it is handed over: on two cores, 32 in flight, 256 KiB came at 19 GB/s by such
/// threads and at 14 without, 64 KiB with 4 in flight at 6.6 and 7.
const ASIDE: usize = 128 << 10;
/// A ring that the system had no descriptor or memory for is tried again after this, and then less and less often.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

enum Message {
    Work(Vec<Transfer>),
    /// The request with this number need not wait for its sink any more.
    Room(u64),
    Trim,
}

struct Member {
    inbox: Inbox<Message>,
    sweep: AtomicBool,
    /// A file was closed that the ring has registered.
    closed: AtomicBool,
}

impl Wake for Member {
    fn wake(&self) {
        self.closed.store(true, Ordering::Release);
        self.inbox.waker().wake();
    }
}

/// Of one device.
enum Place {
    Ring(Arc<Member>),
    /// There is none, and threads do it. Another try may be made after this moment; the next one so much later.
    None(Option<Retry>),
}

#[derive(Clone, Copy)]
struct Retry {
    at: Instant,
    wait: Duration,
}

impl Place {
    fn member(&self) -> Option<&Arc<Member>> {
        match self {
            Place::Ring(member) => Some(member),
            Place::None(_) => None,
        }
    }

    /// What there is after a try that failed, and what there was before it.
    fn after(error: &Error, before: Option<Retry>) -> Place {
        if !is_temporary(error) {
            return Place::None(None);
        }
        let wait = before.map_or(FIRST_RETRY, |before| (before.wait * 2).min(LAST_RETRY));
        Place::None(Some(Retry { at: Instant::now() + wait, wait }))
    }
}

/// Whether a ring that cannot be had for this reason may be had later: descriptors, memory or threads have run out.
pub(super) fn is_temporary(error: &Error) -> bool {
    matches!(error.os_code(), libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN)
}

struct Device {
    number: u64,
    place: Place,
    /// Of the try before the ring that is there, which may yet turn out not to be one.
    before: Option<Retry>,
}

/// The rings of one client, each started by the first request for its device.
pub struct Rings {
    options: Options,
    /// None could be had when a file was first named, which was told.
    before: Option<Retry>,
    devices: Mutex<Vec<Device>>,
}

impl Rings {
    /// None yet.
    pub(super) fn new(config: &Config) -> Rings {
        let budget =
            if config.max_concurrent_requests == UNLIMITED { u32::MAX } else { config.max_concurrent_requests };
        let options = Options {
            depth: config.uring_queue_depth.min(budget).max(1),
            sqpoll_idle_ms: config.uring_sqpoll_idle_ms,
            buffers: BUFFERS,
            files: FILES,
        };
        Rings { options, before: None, devices: Mutex::default() }
    }

    /// None yet, for a reason that is told already.
    pub(super) fn after_a_failure(config: &Config) -> Rings {
        Rings { before: Some(Retry { at: Instant::now(), wait: FIRST_RETRY }), ..Rings::new(config) }
    }

    pub(super) fn options(&self) -> Options {
        self.options
    }

    /// Hands requests of open files to the ring of their device. Returns them if there is none.
    pub(super) fn post(&self, device: u64, transfers: Vec<Transfer>, pool: &Arc<Pool>) -> Vec<Transfer> {
        let Some(member) = self.of(device, pool) else { return transfers };
        let refused = member.inbox.push(vec![Message::Work(transfers)]);
        let work = |message| match message {
            Message::Work(transfers) => transfers,
            Message::Room(_) | Message::Trim => Vec::new(),
        };
        refused.err().into_iter().flatten().flat_map(work).collect()
    }

    fn of(&self, number: u64, pool: &Arc<Pool>) -> Option<Arc<Member>> {
        let mut devices = self.devices.lock();
        let known = devices.iter().position(|device| device.number == number);
        let at = match known {
            Some(at) => at,
            None if devices.len() < MOST_RINGS => devices.len(),
            None => number as usize % MOST_RINGS,
        };
        let before = match devices.get(at).map(|device| &device.place) {
            Some(Place::Ring(member)) => return Some(member.clone()),
            Some(Place::None(Some(retry))) if retry.at <= Instant::now() => Some(*retry),
            Some(Place::None(_)) => return None,
            None => self.before,
        };
        let place = match self.start(pool) {
            Ok(member) => Place::Ring(member),
            Err(error) => {
                tell_missing(&error, before);
                Place::after(&error, before)
            }
        };
        let member = place.member().cloned();
        match devices.get_mut(at) {
            Some(device) => (device.place, device.before) = (place, before),
            None => devices.push(Device { number, place, before }),
        }
        member
    }

    /// Whether threads do the work of some device.
    pub(super) fn lacks_some(&self) -> bool {
        self.devices.lock().iter().any(|device| device.place.member().is_none())
    }

    fn start(&self, pool: &Arc<Pool>) -> Result<Arc<Member>> {
        let waker = Arc::new(Waker::new(EventFd::new()?));
        let member = Arc::new(Member {
            inbox: Inbox::new(waker),
            sweep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let (of_thread, of_pool, options) = (member.clone(), pool.clone(), self.options);
        pool.spawn("raskio-uring", move || run(&of_pool, &of_thread, options))?;
        Ok(member)
    }

    fn each(&self, what: impl Fn(&Arc<Member>)) {
        self.devices.lock().iter().filter_map(|device| device.place.member()).for_each(what);
    }

    pub(super) fn sweep(&self) {
        self.each(|member| {
            if !member.sweep.swap(true, Ordering::AcqRel) {
                member.inbox.waker().wake();
            }
        });
    }

    pub(super) fn trim(&self) {
        // Refused only by a thread that has given everything back.
        self.each(|member| drop(member.inbox.push(vec![Message::Trim])));
    }

    pub(super) fn wake(&self) {
        self.each(|member| member.inbox.waker().wake());
    }

    /// The ring of this member cannot be had: threads do its work from now on.
    fn give_up(&self, member: &Arc<Member>, error: &Error) {
        for device in self.devices.lock().iter_mut() {
            if device.place.member().is_some_and(|other| Arc::ptr_eq(other, member)) {
                tell_missing(error, device.before);
                device.place = Place::after(error, device.before);
            }
        }
    }
}

/// Says so once, not at every try.
fn tell_missing(error: &Error, before: Option<Retry>) {
    let level = if before.is_none() { log::Level::Warn } else { log::Level::Debug };
    let until = if is_temporary(error) { ", until a ring can be had" } else { "" };
    log::log!(target: "raskio", level, "files of one device are read by pread on threads{until}: {}", error.message());
}

/// The thread of one ring.
fn run(pool: &Arc<Pool>, member: &Arc<Member>, options: Options) {
    // On this thread: the ring belongs to it.
    let ring = match Ring::new(options, Some(member.clone())) {
        Ok(ring) => ring,
        Err(error) => {
            pool.ring_is_gone(|rings| rings.give_up(member, &error));
            let left = member.inbox.close().into_iter().flat_map(|message| match message {
                Message::Work(transfers) => transfers,
                Message::Room(_) | Message::Trim => Vec::new(),
            });
            return pool.post(left.collect());
        }
    };
    let mut local = Local {
        pool: pool.clone(),
        member: member.clone(),
        ring,
        queue: Lanes::default(),
        waiting: Waiting::default(),
        going_on: Vec::new(),
        spare: Vec::new(),
        messages: VecDeque::new(),
        pace: Pace::default(),
        sweep_at: None,
    };
    loop {
        match catch_unwind(AssertUnwindSafe(|| local.run())) {
            // The kernel may still write the host's memory, and that may be half gone: touch nothing.
            Ok(Stop::Abandon) => return std::mem::forget(local),
            Ok(Stop::No | Stop::ShutDown) => return,
            Err(_) => {
                log::error!(target: "raskio", "a panic in a thread for files was caught; this is a bug in RaskIO");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// What only the thread touches.
struct Local {
    pool: Arc<Pool>,
    member: Arc<Member>,
    ring: Ring<(Work, Step)>,
    queue: Lanes<Transfer>,
    waiting: Waiting,
    /// Requests that have begun, and whose next piece is to be started.
    going_on: Vec<Work>,
    spare: Vec<Pages>,
    messages: VecDeque<Message>,
    pace: Pace,
    /// When to look for waiting requests whose operation is over.
    sweep_at: Option<Instant>,
}

impl Local {
    fn run(&mut self) -> Stop {
        loop {
            let stop = self.pool.stop();
            match stop {
                Stop::Abandon => return stop,
                Stop::ShutDown => self.refuse_everything(),
                Stop::No => {}
            }
            self.take_messages();
            if self.member.closed.swap(false, Ordering::AcqRel) {
                self.ring.forget_closed();
            }
            if self.member.sweep.swap(false, Ordering::AcqRel) {
                self.sweep_at = Some(Instant::now());
            }
            if self.sweep_at.is_some_and(|at| at <= Instant::now()) {
                self.sweep_at = self.sweep();
            }
            self.admit();
            if stop == Stop::ShutDown && self.ring.in_flight() == 0 && self.is_idle() {
                if self.close() {
                    return stop;
                }
                continue;
            }
            self.submit();
            self.reap();
        }
    }

    /// Takes in what is over. What that makes room for is handed to the kernel every few requests, not after all of them: a device
    /// that waits for the next read meanwhile is one that does not work.
    fn reap(&mut self) {
        for number in 1..=MOST_AT_ONCE {
            let Some(((mut work, step), result)) = self.ring.next_done() else { return };
            match work.done(&step, result, self.pool.stats(), true) {
                Some(result) => self.finish(work, result),
                None => self.going_on.push(work),
            }
            if number % HAND_OVER == 0 {
                self.take_messages();
                self.admit();
                self.ring.submit(None);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.going_on.is_empty() && self.waiting.is_empty()
    }

    fn finish(&mut self, work: Work, result: Result<()>) {
        self.pool.finish(work, result, &mut self.spare);
    }

    fn take_messages(&mut self) {
        self.member.inbox.drain(&mut self.messages);
        for message in std::mem::take(&mut self.messages) {
            match message {
                Message::Work(transfers) => self.queue.push(transfers),
                Message::Room(number) => {
                    if let Some(transfer) = self.waiting.take(number) {
                        self.queue.push_first(transfer);
                    }
                }
                Message::Trim => {
                    self.ring.forget_buffers();
                    self.spare.clear();
                }
            }
        }
    }

    /// Ends the requests that wait although their operation is over. Returns when to look again, if it was too early.
    fn sweep(&mut self) -> Option<Instant> {
        let began = Instant::now();
        if let Some(next) = self.pace.wait(began) {
            return Some(next);
        }
        let mut over = self.queue.extract(Transfer::is_over);
        over.extend(self.waiting.sweep(Transfer::is_over));
        self.pace.looked(began);
        over.into_iter().for_each(|transfer| self.pool.end_queued(transfer, Ok(())));
        None
    }

    /// Starts what there is room for: first what has begun.
    fn admit(&mut self) {
        while self.ring.has_room() {
            let Some(mut work) = self.going_on.pop().or_else(|| self.begin_next()) else { return };
            let step = work.next(&mut self.spare);
            let (io, direct) = match &step {
                Step::Over(_) => {
                    if let Step::Over(result) = step {
                        self.finish(work, result);
                    }
                    continue;
                }
                Step::Read { at, len, direct, .. } => (Io::Read { at: *at, aside: !direct && *len >= ASIDE }, *direct),
                Step::Write { at, direct, .. } => (Io::Write { at: *at }, *direct),
                Step::Sync => (Io::Sync, false),
            };
            let file = work.file.file(direct).clone();
            let started = self.ring.start((work, step), io, file, |(work, step)| work.lend(step));
            if let Err((work, _)) = started {
                // The kernel takes nothing now: after the next completion.
                self.going_on.push(work);
                return;
            }
        }
    }

    /// The next request that can begin.
    fn begin_next(&mut self) -> Option<Work> {
        loop {
            let mut transfer = self.queue.pop()?;
            if transfer.is_over() {
                self.pool.end_queued(transfer, Ok(()));
                continue;
            }
            let Some(file) = opened(&transfer) else {
                self.pool.post(vec![transfer]);
                continue;
            };
            let (member, number) = (&self.member, self.waiting.next_number());
            let room = transfer.prepare(&mut || -> Told {
                let member = member.clone();
                // Refused only by a thread that has ended everything it had.
                Box::new(move || drop(member.inbox.push(vec![Message::Room(number)])))
            });
            match room {
                Room::Yes => return Some(Work::new(self.pool.begin(transfer), file)),
                Room::Later => {
                    transfer.waits_for(FOR_A_BUFFER);
                    self.waiting.put(transfer);
                }
                Room::No(error) => self.pool.end_unready(transfer, error),
            }
        }
    }

    /// Hands over what was started, and sleeps if there is nothing else to do.
    fn submit(&mut self) {
        let waker = self.member.inbox.waker().clone();
        let busy = self.ring.has_done() || self.ring.has_room() && !self.going_on.is_empty();
        if busy || !waker.may_sleep() {
            return self.ring.submit(None);
        }
        if self.ring.in_flight() > 0 {
            self.ring.submit(Some(waker.signal()));
        } else {
            waker.signal().wait(self.sweep_at.map(|at| at.saturating_duration_since(Instant::now())));
        }
        waker.awake();
    }

    /// What waits ends with SHUT_DOWN; what is in flight does when the kernel is done with it.
    fn refuse_everything(&mut self) {
        let mut rest = self.queue.drain();
        rest.extend(self.waiting.sweep(|_| true));
        rest.into_iter().for_each(|transfer| self.pool.refuse(transfer));
        self.ring
            .owners()
            .map(|(work, _)| work)
            .chain(&self.going_on)
            .for_each(|work| work.transfer.op.fail(shut_down()));
    }

    /// Takes no more; false if something had come.
    fn close(&mut self) -> bool {
        let left = self.member.inbox.close();
        let none = left.is_empty();
        self.messages.extend(left);
        none
    }
}

fn opened(transfer: &Transfer) -> Option<Arc<OpenFile>> {
    transfer.object.endpoint().local()?.opened()
}
