//! Bodies that the kernel writes straight to where they belong: the right bytes at the right places, whatever a server does, and
//! whoever else is served by the same thread.
//!
//! This program's own `recvfrom`, `send` and `epoll_wait` are the ones that the library calls: they count what is received in place, and
//! hold the reactor up where a test needs it. The counts are the process's, so one test at a time.

// The system's libcurl is not linked in such a way.
#![cfg(feature = "bundled-curl")]

mod support;

use raskio::config::Backend;
use raskio::object::{Object, ObjectOptions, ReadOptions};
use raskio::op::OpResult;
use raskio::sys::mem::HostBuffer;
use raskio_testserver::{Object as Served, Reply, Server, get, pattern_at};
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_int, c_void};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::{LONG, Outcome, TestClient, Watchdog, eventually, for_both_backends, ms, tls};

const M: usize = 1 << 20;

// ---- what the library calls ----------------------------------------------------------------------------------------

/// Where buffers are, and how much of each was received in place.
static PLACES: Mutex<Vec<(usize, usize, Arc<AtomicUsize>)>> = Mutex::new(Vec::new());
/// The next wait that finds something ready holds its thread until this is taken back.
static HOLD_READY: AtomicBool = AtomicBool::new(false);
static HELD: AtomicBool = AtomicBool::new(false);
/// What is sent is given time to be answered.
static ANSWERED_FIRST: AtomicBool = AtomicBool::new(false);

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
    if n > 0 && ANSWERED_FIRST.load(Ordering::SeqCst) && support::thread_name().starts_with("raskio") {
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

fn alone() -> (MutexGuard<'static, ()>, Watchdog) {
    static ALONE: Mutex<()> = Mutex::new(());
    (ALONE.lock().unwrap_or_else(PoisonError::into_inner), Watchdog::start())
}

const PAGE: usize = 4096;
const UNTOUCHED: u8 = 0xEE;

/// Memory that begins so far behind a page, with a page before and behind it.
struct Place {
    start: *mut u8,
    layout: Layout,
    shift: usize,
    len: usize,
    straight: Arc<AtomicUsize>,
}

// SAFETY: plain memory of this value's own.
unsafe impl Send for Place {}

impl Place {
    fn new(len: usize, shift: usize) -> Place {
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

    fn host(&self) -> HostBuffer {
        // SAFETY: the memory stays until the read that has this buffer is over.
        unsafe { HostBuffer::new(self.start.add(PAGE + self.shift), self.len as u64) }
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

struct Reading {
    place: Option<Place>,
    outcome: Receiver<Outcome>,
    offset: u64,
}

/// Starts a read in one request, to the beginning of a page; `shift`: so far behind it.
fn start_at(object: &Arc<Object>, offset: u64, len: usize, shift: usize) -> Reading {
    let place = Place::new(len, shift);
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    let options = ReadOptions { task_size: Some(u64::MAX), deadline: None };
    object.read(offset, place.host(), &options, done).unwrap_or_else(|error| panic!("{error}")).submit();
    Reading { place: Some(place), outcome, offset }
}

fn start(object: &Arc<Object>, offset: u64, len: usize) -> Reading {
    start_at(object, offset, len, 0)
}

impl Reading {
    fn end(&mut self) -> (Outcome, usize) {
        let outcome = self.outcome.recv_timeout(LONG).expect("a completion");
        let place = self.place.as_ref().unwrap();
        let (before, rest) = place.all().split_at(PAGE + place.shift);
        let outside = before.iter().chain(&rest[place.len..]);
        assert!(outside.copied().all(|byte| byte == UNTOUCHED), "bytes outside of the buffer were written");
        (outcome, place.straight.load(Ordering::SeqCst))
    }

    /// Waits for success, and checks each byte. How many were received in place.
    #[track_caller]
    fn succeeds(&mut self) -> (Outcome, usize) {
        let (outcome, straight) = self.end();
        outcome.succeeds();
        let place = self.place.as_ref().unwrap();
        let bytes = &place.all()[PAGE + place.shift..][..place.len];
        assert_eq!(outcome.bytes, place.len as u64);
        if let Some(at) = bytes.iter().zip(pattern_at(self.offset, place.len)).position(|(got, want)| *got != want) {
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

fn server_of(len: usize) -> Server {
    let server = Server::start();
    server.put("/data", Served::pattern(len as u64).etag("\"a\""));
    server
}

// ---- promises ------------------------------------------------------------------------------------------------------

#[test]
fn a_large_body_is_received_in_place_on_a_new_connection_and_on_one_that_is_used_again() {
    let _alone = alone();
    for_both_backends(|backend| {
        let (server, client) = (server_of(8 * M), TestClient::with(backend, |options| options.num_threads = Some(1)));
        let object = client.open(&server.url("/data"));
        for offset in [0, 4096, 5, 1 << 20] {
            let (_, straight) = start(&object, offset, 4 * M).succeeds();
            assert!(straight > 3 * M, "{straight} bytes from {offset}");
        }
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn a_tls_connection_never_gets_the_bytes_of_a_plain_one_of_the_same_reactor() {
    let _alone = alone();
    let server = server_of(8 * M);
    let relay = tls::start(server.addr()).unwrap();
    let client = TestClient::new(Backend::MultiPoll);
    let options = ObjectOptions { tls_unverified: true, ..ObjectOptions::default() };
    let secret = client.0.open(&format!("https://{relay}/data"), options).unwrap();
    let plain = client.open(&server.url("/data"));
    for _ in 0..2 {
        // Behind the beginning of a page, for processors on which such places are copied to.
        let mut reads: Vec<_> = (0..4)
            .flat_map(|n| [start(&secret, n, 3 * M), start_at(&plain, n, 3 * M, 16), start(&plain, n, 3 * M)])
            .collect();
        for (number, read) in reads.iter_mut().enumerate() {
            let (outcome, straight) = read.succeeds();
            assert_eq!(outcome.attempts, 1);
            match number % 3 {
                0 => assert_eq!(straight, 0, "what comes over TLS is not what belongs there"),
                1 => {}
                _ => assert!(straight > 2 * M, "{straight}"),
            }
        }
    }
}

/// What is sent, in pieces of this many bytes each of which comes by itself; the last ones at once.
fn in_pieces(stream: &mut TcpStream, bytes: &[u8], piece: usize, alone: usize) {
    let (alone, rest) = bytes.split_at(alone.min(bytes.len()));
    for some in alone.chunks(piece) {
        stream.write_all(some).unwrap();
        std::thread::sleep(Duration::from_micros(300));
    }
    stream.write_all(rest).unwrap();
}

/// Where the range begins that is asked for; `None`: the connection ended.
fn asked(stream: &mut TcpStream) -> Option<usize> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    head.lines().find_map(|line| line.strip_prefix("Range: bytes=")?.split('-').next()?.parse().ok())
}

/// Answers each request by what `answer` does with its number on its connection and the begin of its range; true: another may come on it.
fn scripted(answer: impl Fn(&mut TcpStream, usize, usize) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut number = 0;
                while asked(&mut stream).is_some_and(|from| answer(&mut stream, number, from)) {
                    number += 1;
                }
            });
        }
    });
    address
}

const SIZE: usize = M;

/// The head of an answer of all bytes from these on, with these lines.
fn head_from(from: usize, status: &str, lines: &str) -> Vec<u8> {
    let last = SIZE - 1;
    format!("{status}\r\nContent-Range: bytes {from}-{last}/{SIZE}\r\nETag: \"a\"\r\n{lines}\r\n").into_bytes()
}

fn head(status: &str, lines: &str) -> Vec<u8> {
    head_from(0, status, lines)
}

const STATUS: &str = "HTTP/1.1 206 Partial Content";

fn usual_head() -> Vec<u8> {
    head(STATUS, &format!("Content-Length: {SIZE}\r\n"))
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Two reads by the same connection if there is one, the first answered as usual, the second by `answer`; how much of that was
/// received in place.
fn second(answer: impl Fn(&mut TcpStream, &[u8]) -> bool + Send + Sync + 'static) -> (Outcome, usize) {
    let bytes = pattern_at(0, SIZE);
    let address = scripted(move |stream, number, _| match number {
        0 => stream.write_all(&joined(&[&usual_head(), &bytes])).is_ok(),
        _ => answer(stream, &bytes),
    });
    let client = TestClient::new(Backend::MultiPoll);
    let object = client.open(&format!("http://{address}/data"));
    start(&object, 0, SIZE).succeeds();
    start(&object, 0, SIZE).succeeds()
}

#[test]
fn bytes_are_in_place_however_head_and_body_are_cut_into_segments() {
    let _alone = alone();
    let send = |piece: usize, alone: usize| {
        second(move |stream, bytes| {
            in_pieces(stream, &joined(&[&usual_head(), bytes]), piece, alone);
            true
        })
    };
    for (piece, alone) in [(1, 600), (7, 2000), (16 << 10, 400 << 10), (usize::MAX, 0)] {
        let (outcome, straight) = send(piece, alone);
        assert_eq!(outcome.attempts, 1);
        assert!(straight > SIZE / 2, "{straight} bytes in pieces of {piece}");
    }
    // The head by itself: then no byte is copied at all.
    let (_, straight) = send(usual_head().len(), usual_head().len());
    assert_eq!(straight, SIZE);
}

#[test]
fn interim_heads_do_not_pass_for_the_one_that_counts() {
    let _alone = alone();
    let interim: [Vec<u8>; 4] = [
        b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
        head("HTTP/1.1 103 Early Hints", &format!("Content-Length: {SIZE}\r\n")),
        // libcurl takes a tab there.
        head("HTTP/1.1\t100 206", &format!("Content-Length: {SIZE}\r\n")),
        head("HTTP/1.1 1000", &format!("Content-Length: {SIZE}\r\n")),
    ];
    for interim in interim {
        let text = String::from_utf8_lossy(&interim).into_owned();
        let n = interim.len();
        let (outcome, straight) = second(move |stream, bytes| {
            in_pieces(stream, &joined(&[&interim, &usual_head(), bytes]), n, n);
            true
        });
        assert_eq!(outcome.attempts, 1, "{text}");
        assert!(straight > SIZE / 2, "{straight} bytes after {text}");
    }
}

#[test]
fn what_is_not_sent_as_it_is_is_not_received_in_place() {
    let _alone = alone();
    let length = format!("Content-Length: {SIZE}\r\n");
    for lines in [
        "Transfer-Encoding: chunked\r\n".to_owned(),
        format!("{length}Transfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\n{length}"),
        format!("{length}transfer-encoding:\r\n\tchunked\r\n"),
    ] {
        let head = head(STATUS, &lines);
        let (outcome, straight) = second(move |stream, bytes| {
            in_pieces(stream, &head, head.len(), head.len());
            for chunk in bytes.chunks(100_000) {
                let size = format!("{:x}\r\n", chunk.len());
                stream.write_all(&joined(&[size.as_bytes(), chunk, b"\r\n"])).unwrap();
            }
            stream.write_all(b"0\r\nX-Trailer: 1\r\n\r\n").unwrap();
            true
        });
        assert_eq!((outcome.attempts, straight), (1, 0), "{lines}");
    }
}

#[test]
fn what_follows_a_body_is_never_part_of_it() {
    let _alone = alone();
    let follows: [&[u8]; 3] = [b"x", &[0x41; 300_000], b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"];
    for follows in follows {
        let (outcome, straight) = second(move |stream, bytes| {
            in_pieces(stream, &joined(&[&usual_head(), bytes, follows]), usual_head().len(), usual_head().len());
            true
        });
        assert_eq!((outcome.attempts, straight), (1, SIZE));
    }
}

#[test]
fn a_body_that_ends_early_is_resumed_behind_what_is_in_place() {
    let _alone = alone();
    for backend in [Backend::MultiPoll, Backend::EasyThreadpool] {
        let (server, client) = (server_of(4 * M), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        let cut = || Reply::object().delay_body(ms(20));
        server.script(
            get("/data"),
            [
                cut().close_after(300_001),
                cut().close_after(1),
                cut().short_range_by(77),
                cut().reset_after(500_000),
                cut(),
            ],
        );
        let (outcome, straight) = start(&object, 0, 2 * M).succeeds();
        assert!(outcome.attempts >= 3, "{outcome:?}");
        assert!(straight > M, "{straight} bytes");
        // Without ranges the beginning comes again, and is thrown away.
        let all = || Reply::object().ignore_range().delay_body(ms(20));
        server.script(get("/data"), [all().close_after(1_000_001), all()]);
        let (outcome, straight) = start(&object, 0, 4 * M).succeeds();
        assert_eq!(outcome.attempts, 2);
        assert!(straight > 3 * M, "{straight} bytes");
    }
}

#[test]
fn a_reply_shorter_than_its_range_gets_nothing_of_the_next_one_on_its_connection() {
    let _alone = alone();
    let gate = Arc::new(AtomicBool::new(false));
    let (bytes, opened) = (pattern_at(0, SIZE), gate.clone());
    let short = 600_000;
    let most = Arc::new(AtomicUsize::new(0));
    let counted = most.clone();
    let address = scripted(move |stream, number, from| {
        counted.fetch_max(number, Ordering::SeqCst);
        if number == 1 {
            let head = head(STATUS, &format!("Content-Length: {short}\r\n"));
            stream.write_all(&joined(&[&head, &bytes[..500_000]])).unwrap();
            eventually("the test goes on", || opened.load(Ordering::SeqCst));
            return stream.write_all(&bytes[500_000..short]).is_ok();
        }
        let head = head_from(from, STATUS, &format!("Content-Length: {}\r\n", SIZE - from));
        in_pieces(stream, &joined(&[&head, &bytes[from..]]), head.len(), head.len());
        true
    });
    let client = TestClient::new(Backend::MultiPoll);
    let object = client.open(&format!("http://{address}/data"));
    start(&object, 0, SIZE).succeeds();
    let mut first = start(&object, 0, SIZE);
    let received = first.place.as_ref().unwrap().straight.clone();
    eventually("most of it is there", || received.load(Ordering::SeqCst) > 200_000);
    std::thread::sleep(ms(100));
    // Its rest and the next request come to the reactor at once, so that this takes the connection before the first is gone.
    HOLD_READY.store(true, Ordering::SeqCst);
    gate.store(true, Ordering::SeqCst);
    eventually("the reactor is held", || HELD.load(Ordering::SeqCst));
    let mut next = start(&object, 0, SIZE);
    ANSWERED_FIRST.store(true, Ordering::SeqCst);
    HOLD_READY.store(false, Ordering::SeqCst);
    let (outcome, _) = next.succeeds();
    ANSWERED_FIRST.store(false, Ordering::SeqCst);
    assert_eq!(outcome.attempts, 1);
    first.succeeds();
    assert!(most.load(Ordering::SeqCst) >= 2, "the connection was not used again");
}
