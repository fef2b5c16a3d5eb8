//! What the library calls of the system, which counts what is received in place; and reads into places of their own.

use super::support::{LONG, Outcome, Watchdog, eventually, ms, thread_name};
use raskio::object::{Object, ReadOptions};
use raskio::op::{OpResult, Operation};
use raskio::sys::mem::HostBuffer;
use raskio_testserver::pattern_at;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

// ---- what the library calls ----------------------------------------------------------------------------------------

/// Where buffers are, and how much of each was received in place.
static PLACES: Mutex<Vec<(usize, usize, Arc<AtomicUsize>)>> = Mutex::new(Vec::new());
/// The next wait that finds something ready holds its thread until this is taken back.
pub static HOLD_READY: AtomicBool = AtomicBool::new(false);
pub static HELD: AtomicBool = AtomicBool::new(false);
/// What is sent is given time to be answered.
pub static ANSWERED_FIRST: AtomicBool = AtomicBool::new(false);

/// # Safety
/// As of the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    size: *mut libc::socklen_t,
) -> isize {
    // SAFETY: promised by the caller.
    let n = unsafe { libc::syscall(libc::SYS_recvfrom, fd, to, len, flags, from, size) } as isize;
    if let Ok(n @ 1..) = usize::try_from(n) {
        let at = to as usize;
        for (start, end, count) in PLACES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if at >= *start && at + n <= *end {
                count.fetch_add(n, Ordering::SeqCst);
            }
        }
    }
    n
}

/// # Safety
/// As of the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, from: *const c_void, len: usize, flags: c_int) -> isize {
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: promised by the caller.
    let n = unsafe { libc::syscall(libc::SYS_sendto, fd, from, len, flags, none, 0) } as isize;
    if n > 0 && ANSWERED_FIRST.load(Ordering::SeqCst) && thread_name().starts_with("raskio") {
        std::thread::sleep(ms(50));
    }
    n
}

/// # Safety
/// As of the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(fd: c_int, events: *mut libc::epoll_event, most: c_int, timeout: c_int) -> c_int {
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: promised by the caller.
    let n = unsafe { libc::syscall(libc::SYS_epoll_pwait, fd, events, most, timeout, none, 8) } as c_int;
    if n > 0 && HOLD_READY.load(Ordering::SeqCst) {
        HELD.store(true, Ordering::SeqCst);
        eventually("the thread goes on", || !HOLD_READY.load(Ordering::SeqCst));
    }
    n
}

// ---- reads into places of their own --------------------------------------------------------------------------------

pub fn alone() -> (MutexGuard<'static, ()>, Watchdog) {
    static ALONE: Mutex<()> = Mutex::new(());
    (ALONE.lock().unwrap_or_else(PoisonError::into_inner), Watchdog::start())
}

pub const PAGE: usize = 4096;
pub const UNTOUCHED: u8 = 0xEE;

/// Memory that begins so far behind a page, with a page before and behind it.
pub struct Place {
    start: *mut u8,
    layout: Layout,
    shift: usize,
    len: usize,
    pub straight: Arc<AtomicUsize>,
}

// SAFETY: plain memory of this value's own.
unsafe impl Send for Place {}

impl Place {
    pub fn new(len: usize, shift: usize) -> Place {
        let layout = Layout::from_size_align(2 * PAGE + shift + len, PAGE).unwrap();
        // SAFETY: the layout is not empty; the bytes are there.
        let start = unsafe { alloc(layout) };
        assert!(!start.is_null());
        // SAFETY: just allocated.
        unsafe { start.write_bytes(UNTOUCHED, layout.size()) };
        let at = start as usize + PAGE + shift;
        let straight = Arc::new(AtomicUsize::new(0));
        PLACES.lock().unwrap_or_else(PoisonError::into_inner).push((at, at + len, straight.clone()));
        Place { start, layout, shift, len, straight }
    }

    pub fn host(&self) -> HostBuffer {
        // SAFETY: the memory stays until the read that has this buffer is over.
        unsafe { HostBuffer::new(self.start.add(PAGE + self.shift), self.len as u64) }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.all()[PAGE + self.shift..][..self.len]
    }

    pub fn fill(&mut self, byte: u8) {
        // SAFETY: as in `all`.
        unsafe { self.start.add(PAGE + self.shift).write_bytes(byte, self.len) }
    }

    pub fn outside_is_untouched(&self) -> bool {
        let (before, rest) = self.all().split_at(PAGE + self.shift);
        before.iter().chain(&rest[self.len..]).all(|byte| *byte == UNTOUCHED)
    }

    fn all(&self) -> &[u8] {
        // SAFETY: allocated in `new`, and nobody writes any more.
        unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let at = self.start as usize + PAGE + self.shift;
        PLACES.lock().unwrap_or_else(PoisonError::into_inner).retain(|(start, ..)| *start != at);
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

pub struct Reading {
    pub op: Arc<Operation>,
    pub place: Option<Place>,
    outcome: Receiver<Outcome>,
    offset: u64,
}

/// Starts a read in one request, to so many bytes behind the beginning of a page.
pub fn start_at(object: &Arc<Object>, offset: u64, len: usize, shift: usize) -> Reading {
    start_as(object, offset, Place::new(len, shift), None)
}

pub fn start(object: &Arc<Object>, offset: u64, len: usize) -> Reading {
    start_at(object, offset, len, 0)
}

pub fn start_as(object: &Arc<Object>, offset: u64, place: Place, deadline: Option<Duration>) -> Reading {
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    let options = ReadOptions { task_size: Some(u64::MAX), deadline };
    let pending = object.read(offset, place.host(), &options, done).unwrap_or_else(|error| panic!("{error}"));
    let op = pending.op().clone();
    pending.submit();
    Reading { op, place: Some(place), outcome, offset }
}

impl Reading {
    pub fn end(&mut self) -> (Outcome, usize) {
        let outcome = self.outcome.recv_timeout(LONG).expect("a completion");
        let place = self.place.as_ref().unwrap();
        assert!(place.outside_is_untouched(), "bytes outside of the buffer were written");
        (outcome, place.straight.load(Ordering::SeqCst))
    }

    /// Waits for success, and checks each byte. How many were received in place.
    #[track_caller]
    pub fn succeeds(&mut self) -> (Outcome, usize) {
        let (outcome, straight) = self.end();
        outcome.succeeds();
        let place = self.place.as_ref().unwrap();
        assert_eq!(outcome.bytes, place.len as u64);
        if let Some(at) =
            place.bytes().iter().zip(pattern_at(self.offset, place.len)).position(|(got, want)| *got != want)
        {
            panic!("byte {at} of {} is wrong", place.len);
        }
        (outcome, straight)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // The test failed before the read was over.
        if std::thread::panicking() {
            std::mem::forget(self.place.take());
        }
    }
}
