//! What the integration tests share: clients of both backends, buffers with guard bytes, and waits that end.
// Each test is a program of its own and uses a part of this.
#![allow(dead_code)]

pub mod batch;
pub mod child;
pub mod cuda;
pub mod files;
pub mod relay;
pub mod tls;

use raskio::client::{Client, Hooks, OnShutDown};
use raskio::config::{Backend, Config, Overrides};
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object, ObjectOptions, Pending, ReadOptions};
use raskio::op::{Completion, OpResult, Operation};
use raskio::sys::mem::HostBuffer;
use raskio::transport::{KINDS, Kind};
use raskio_testserver::pattern_at;
use std::ffi::OsString;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than anything takes that works, on a busy machine too.
pub const LONG: Duration = Duration::from_secs(60);
/// What a test that still runs after this hangs.
const HANG: Duration = Duration::from_secs(150);

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

// ---- both backends ------------------------------------------------------------------------------------------------

/// The calling thread's name as the system has it, 15 bytes of it: RaskIO's threads have no other.
pub fn thread_name() -> String {
    std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim_end().to_owned()
}

/// Runs `test` with every transport for remote objects, at the same time: most of a test is waiting. A panic names the
/// backend, which is the thread's name.
pub fn for_both_backends(test: impl Fn(Backend) + Sync) {
    let _watchdog = Watchdog::start();
    let test = &test;
    std::thread::scope(|scope| {
        let start = |kind: &'static Kind| {
            let thread = std::thread::Builder::new().name(kind.name.into());
            thread.spawn_scoped(scope, || test(kind.backend)).expect("a thread")
        };
        let all: Vec<_> = KINDS.iter().map(|kind| (kind.name, start(kind))).collect();
        let failed: Vec<_> = all.into_iter().filter_map(|(name, thread)| thread.join().err().map(|_| name)).collect();
        assert!(failed.is_empty(), "failed on {failed:?}; see above");
    });
}

/// Ends the process with a message when a test hangs in spite of its bounded waits: in a drop, say.
pub struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    pub fn start() -> Watchdog {
        let over = Arc::new(AtomicBool::new(false));
        let (of_thread, name) = (over.clone(), thread_name());
        std::thread::spawn(move || {
            let end = Instant::now() + HANG;
            while !of_thread.load(Ordering::Acquire) {
                if Instant::now() >= end {
                    eprintln!("{name} hangs: it is not over after {HANG:?}");
                    std::process::abort();
                }
                std::thread::sleep(ms(100));
            }
        });
        Watchdog(over)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

// ---- clients ------------------------------------------------------------------------------------------------------

/// The settings of the tests: 8 threads or 1 reactor, whatever the environment says.
pub fn config(backend: Backend, change: impl FnOnce(&mut Overrides)) -> Config {
    let mut overrides =
        Overrides { backend: Some(backend), num_threads: Some(8), num_reactors: Some(1), ..Overrides::default() };
    change(&mut overrides);
    let mut config = Config::resolve(&overrides, &|_| None).expect("settings");
    // So that a stage can look for secrets in what libcurl says, over all tests.
    config.verbose = std::env::var_os("RASKIO_TEST_VERBOSE").is_some();
    config
}

/// A client that is shut down at the end of its test, and whose counters must balance then.
pub struct TestClient(pub Arc<Client>);

impl TestClient {
    pub fn new(backend: Backend) -> TestClient {
        TestClient::with(backend, |_| {})
    }

    pub fn with(backend: Backend, change: impl FnOnce(&mut Overrides)) -> TestClient {
        TestClient::build(config(backend, change), None)
    }

    pub fn build(config: Config, on_shut_down: Option<OnShutDown>) -> TestClient {
        TestClient(Client::new(config, on_shut_down).expect("a client"))
    }

    /// In an environment of these variables and no others, with callbacks for secrets.
    pub fn in_environment(backend: Backend, variables: &[(&str, &str)], change: impl FnOnce(&mut Hooks)) -> TestClient {
        let variables: Vec<(String, OsString)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        let env = move |name: &str| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        let mut hooks = Hooks { env: Some(Arc::new(env)), ..Hooks::default() };
        change(&mut hooks);
        TestClient(Client::with(config(backend, |_| {}), hooks).expect("a client"))
    }

    /// Opens a URL with default options.
    pub fn open(&self, url: &str) -> Arc<Object> {
        self.0.open(url, ObjectOptions::default()).expect("an object")
    }
}

impl Deref for TestClient {
    type Target = Arc<Client>;
    fn deref(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.0.shut_down(Some(LONG)).expect("the client shuts down");
        let stats = self.0.stats();
        assert_eq!(stats.ops_started, stats.ops_finished, "operations: {stats:?}");
        assert_eq!(stats.requests_started, stats.requests_finished, "requests: {stats:?}");
        assert_eq!((stats.requests_in_flight, stats.requests_queued), (0, 0), "{stats:?}");
        assert_eq!((stats.reactors_replaced, stats.handles_leaked), (0, 0), "{stats:?}");
    }
}

// ---- buffers ------------------------------------------------------------------------------------------------------

const GUARD_BYTE: u8 = 0xEE;
const GUARD: usize = 256;

/// A buffer between guard bytes; filled with them too, so that what was not written is seen.
pub struct Guarded {
    start: *mut [u8],
    len: usize,
}

// SAFETY: the memory belongs to this value alone but for the HostBuffer made from it, whose user says when it is over.
unsafe impl Send for Guarded {}

impl Guarded {
    pub fn new(len: usize) -> Guarded {
        Guarded { start: Box::into_raw(vec![GUARD_BYTE; len + 2 * GUARD].into_boxed_slice()), len }
    }

    /// The part between the guards, for one read.
    pub fn host(&mut self) -> HostBuffer {
        // SAFETY: the memory is there until `self` is dropped, which `Reading` does after the completion, or never.
        unsafe { HostBuffer::new(self.start.cast::<u8>().add(GUARD), self.len as u64) }
    }

    fn all(&self) -> &[u8] {
        // SAFETY: made from a box in `new`, freed in `drop`; read only while nobody writes.
        unsafe { &*self.start }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.all()[GUARD..GUARD + self.len]
    }

    pub fn assert_guards(&self) {
        let (before, after) = (&self.all()[..GUARD], &self.all()[GUARD + self.len..]);
        assert!(before.iter().all(|byte| *byte == GUARD_BYTE), "bytes before the buffer were written");
        assert!(after.iter().all(|byte| *byte == GUARD_BYTE), "bytes behind the buffer were written");
    }

    /// Nothing was ever written.
    pub fn assert_untouched(&self) {
        assert!(self.all().iter().all(|byte| *byte == GUARD_BYTE), "the buffer was written");
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: came from a box and is dropped once.
        drop(unsafe { Box::from_raw(self.start) });
    }
}

// ---- reads --------------------------------------------------------------------------------------------------------

/// What a completion was told, to keep.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub error: Option<Error>,
    pub bytes: u64,
    pub attempts: u32,
    pub offset: u64,
    /// Name of the thread on which the completion ran.
    pub thread: String,
    pub at: Instant,
}

impl Outcome {
    pub fn of(result: &OpResult<'_>) -> Outcome {
        Outcome {
            error: result.error.cloned(),
            bytes: result.bytes,
            attempts: result.attempts,
            offset: result.offset,
            thread: thread_name(),
            at: Instant::now(),
        }
    }

    /// The error; a success fails the test.
    #[track_caller]
    pub fn error(&self) -> &Error {
        self.error.as_ref().unwrap_or_else(|| panic!("expected an error, got success: {self:?}"))
    }

    /// The error, of this kind and with these words in its message.
    #[track_caller]
    pub fn fails(&self, kind: ErrorKind, words: &[&str]) -> &Error {
        let error = self.error();
        assert_eq!(error.kind(), kind, "{error}");
        for word in words {
            assert!(error.message().contains(word), "{word:?} is missing in: {error}");
        }
        error
    }

    #[track_caller]
    pub fn succeeds(&self) -> &Outcome {
        if let Some(error) = &self.error {
            panic!("expected success, got {error}");
        }
        self
    }
}

/// A read that was started.
pub struct Reading {
    pub op: Arc<Operation>,
    outcome: Receiver<Outcome>,
    calls: Arc<AtomicUsize>,
    /// `None` once it was leaked: RaskIO may still write it.
    buffer: Option<Guarded>,
    offset: u64,
    over: bool,
}

/// Starts a read of `len` bytes.
#[track_caller]
pub fn start(object: &Arc<Object>, offset: u64, len: usize) -> Reading {
    start_with(object, offset, len, &ReadOptions::default())
}

/// [`start`] with options.
#[track_caller]
pub fn start_with(object: &Arc<Object>, offset: u64, len: usize, options: &ReadOptions) -> Reading {
    try_start(object, offset, len, options).unwrap_or_else(|error| panic!("the read was not accepted: {error}"))
}

/// [`start_with`], or why it was not accepted. The completion is not called then, which is checked.
pub fn try_start(object: &Arc<Object>, offset: u64, len: usize, options: &ReadOptions) -> Result<Reading, Error> {
    try_reading(offset, len, |buffer, done| object.read(offset, buffer, options, done))
}

/// Starts a read of the last `len` bytes.
#[track_caller]
pub fn start_last(object: &Arc<Object>, len: usize, options: &ReadOptions) -> Reading {
    let started = try_reading(0, len, |buffer, done| object.read_last(buffer, options, done));
    started.unwrap_or_else(|error| panic!("the read was not accepted: {error}"))
}

fn try_reading(
    offset: u64,
    len: usize,
    read: impl FnOnce(HostBuffer, Completion) -> Result<Pending, Error>,
) -> Result<Reading, Error> {
    let mut buffer = Guarded::new(len);
    let (sender, outcome) = channel();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let done = Box::new(move |result: &OpResult<'_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = sender.send(Outcome::of(result));
    });
    match read(buffer.host(), done) {
        Ok(pending) => {
            let op = pending.op().clone();
            pending.submit();
            Ok(Reading { op, outcome, calls, buffer: Some(buffer), offset, over: false })
        }
        Err(error) => {
            assert_eq!(outcome.recv_timeout(LONG).unwrap_err(), RecvTimeoutError::Disconnected);
            buffer.assert_untouched();
            Err(error)
        }
    }
}

impl Reading {
    /// Waits for the completion, and for it to have returned. Checks the guards.
    #[track_caller]
    pub fn wait(&mut self) -> Outcome {
        self.wait_within(LONG)
    }

    /// [`Reading::wait`] with another limit.
    #[track_caller]
    pub fn wait_within(&mut self, limit: Duration) -> Outcome {
        let outcome = self.outcome.recv_timeout(limit);
        let outcome = outcome.unwrap_or_else(|_| panic!("no callback within {limit:?}"));
        self.over = true;
        self.op.wait(Some(LONG)).expect("the callback returns");
        assert_eq!(self.calls.load(Ordering::SeqCst), 1, "the callback ran more than once");
        self.buffer().assert_guards();
        outcome
    }

    /// Whether the completion has come.
    pub fn is_over(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > 0
    }

    pub fn buffer(&self) -> &Guarded {
        self.buffer.as_ref().expect("a buffer")
    }

    /// Waits for success, and checks every byte against the pattern.
    #[track_caller]
    pub fn succeeds(&mut self) -> Outcome {
        self.succeeds_at(self.offset, self.buffer().len)
    }

    /// Waits for success with so many bytes from this offset on, and checks them and that nothing else was written.
    #[track_caller]
    pub fn succeeds_at(&mut self, offset: u64, len: usize) -> Outcome {
        let outcome = self.wait();
        outcome.succeeds();
        let (bytes, rest) = self.buffer().bytes().split_at(len);
        assert_eq!((outcome.offset, outcome.bytes), (offset, len as u64));
        assert!(rest.iter().all(|byte| *byte == GUARD_BYTE), "more than {len} bytes were written");
        // Not assert_eq: nobody reads megabytes of numbers.
        if let Some(at) = bytes.iter().zip(pattern_at(offset, bytes.len())).position(|(got, want)| *got != want) {
            panic!("byte {at} of {} is wrong", bytes.len());
        }
        outcome
    }

    /// Waits for an error of this kind, with these words in its message.
    #[track_caller]
    pub fn fails(&mut self, kind: ErrorKind, words: &[&str]) -> Error {
        self.wait().fails(kind, words).clone()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // The test gave up on it, and RaskIO did not.
        if !self.over {
            std::mem::forget(self.buffer.take());
        }
    }
}

/// Reads and checks every byte.
#[track_caller]
pub fn read(object: &Arc<Object>, offset: u64, len: usize) -> Outcome {
    start(object, offset, len).succeeds()
}

/// Reads and expects an error.
#[track_caller]
pub fn read_fails(object: &Arc<Object>, offset: u64, len: usize, kind: ErrorKind, words: &[&str]) -> Error {
    start(object, offset, len).fails(kind, words)
}

/// Asks for the size, with a bounded wait.
pub fn stat(object: &Arc<Object>) -> Result<u64, Error> {
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    object.stat(&ReadOptions::default(), done)?.submit();
    let outcome = outcome.recv_timeout(LONG).expect("a callback");
    match outcome.error {
        Some(error) => Err(error),
        None => Ok(object.size().expect("the size is known after a stat")),
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "not within {LONG:?}: {what}");
        std::thread::sleep(ms(2));
    }
}
