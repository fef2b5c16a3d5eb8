//! The simulated driver (`simcuda/`), device memory between guard bytes, and reads into it.
//!
//! The driver's state is the process's: faults, held streams, counts. Tests hold [`Sim::alone`] while they use it.

use super::{LONG, Outcome, Watchdog, config};
use raskio::client::Client;
use raskio::config::{Backend, Overrides};
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object, ObjectOptions, ReadOptions};
use raskio::op::{OpResult, Operation};
use raskio::stats::Snapshot;
use raskio::sys::cuda::pointer::{self, Memory};
use raskio::sys::mem::Buffer;
use raskio_testserver::pattern_at;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xEE;

const DRIVER: &str = "RASKIO_TEST_DRIVER";

/// Has a child find the driver in this directory: its own tests, and RaskIO.
pub fn with_driver(command: &mut std::process::Command, directory: &std::path::Path) {
    command.env("LD_LIBRARY_PATH", directory).env(DRIVER, directory.join("libcuda.so.1"));
}

/// Where cargo put the library, beside the tests. RASKIO_SIMCUDA names another one: a sanitizer's build of it does not load.
pub fn library() -> PathBuf {
    if let Some(path) = std::env::var_os("RASKIO_SIMCUDA") {
        return path.into();
    }
    let program = std::env::current_exe().expect("this program");
    let library = program.parent().expect("its directory").join("libsimcuda.so");
    assert!(library.exists(), "{} is missing: cargo builds it with the tests", library.display());
    library
}

/// A directory whose `libcuda.so.1` is the simulated driver without these functions.
pub fn installed(name: &str, without: &[&str]) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("simcuda-{name}-{}", std::process::id()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/simcuda/install.sh");
    let mut command = std::process::Command::new("sh");
    let output = command.arg(script).arg(library()).arg(&directory).args(without).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    directory
}

/// What is alive in the driver, as `simcuda.h` has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    pub contexts: u64,
    pub streams: u64,
    pub events: u64,
    pub device_buffers: u64,
    pub device_bytes: u64,
    pub pinned_buffers: u64,
    pub pinned_bytes: u64,
    pub pending: u64,
    pub retained: u64,
}

macro_rules! driver {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// The driver's functions that tests call.
        #[allow(non_snake_case)]
        pub struct Sim { $($name: unsafe extern "C" fn($($kind),*) -> c_int,)* }

        impl Sim {
            fn open() -> Sim {
                // A child may have been given another one.
                let path = std::env::var_os(DRIVER).unwrap_or_else(|| library().into_os_string());
                let path = CString::new(path.into_encoded_bytes()).unwrap();
                // SAFETY: loads a library of ours, and looks up functions of these types in it.
                unsafe {
                    let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
                    assert!(!handle.is_null(), "the simulated driver does not load");
                    Sim {
                        $($name: {
                            let symbol = libc::dlsym(handle, concat!(stringify!($name), "\0").as_ptr().cast());
                            assert!(!symbol.is_null(), concat!(stringify!($name), " is missing"));
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> c_int>(symbol)
                        },)*
                    }
                }
            }

            $(
                /// The driver's call, whatever it answers.
                #[allow(non_snake_case, clippy::too_many_arguments)]
                pub fn $name(&self, $($argument: $kind),*) -> c_int {
                    // SAFETY: the test passes what the function takes; the simulated driver checks the rest.
                    unsafe { (self.$name)($($argument),*) }
                }
            )*
        }
    };
}

driver! {
    cuInit(flags: c_uint);
    cuCtxCreate_v2(context: *mut usize, flags: c_uint, device: c_int);
    cuCtxDestroy_v2(context: usize);
    cuCtxSetCurrent(context: usize);
    cuCtxGetCurrent(context: *mut usize);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuMemAlloc_v2(memory: *mut usize, size: usize);
    cuMemFree_v2(memory: usize);
    cuMemAllocManaged(memory: *mut usize, size: usize, flags: c_uint);
    cuMemAllocAsync(memory: *mut usize, size: usize, stream: usize);
    cuMemHostAlloc(memory: *mut usize, size: usize, flags: c_uint);
    cuMemFreeHost(memory: usize);
    cuMemHostRegister_v2(memory: usize, size: usize, flags: c_uint);
    cuMemHostUnregister(memory: usize);
    cuMemcpyDtoH_v2(to: *mut u8, from: usize, size: usize);
    cuMemcpyHtoD_v2(to: usize, from: *const u8, size: usize);
    cuMemsetD8_v2(to: usize, value: u8, size: usize);
    cuMemsetD8Async(to: usize, value: u8, size: usize, stream: usize);
    cuStreamCreate(stream: *mut usize, flags: c_uint);
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamBeginCapture_v2(stream: usize, mode: c_int);
    cuStreamEndCapture(stream: usize, graph: *mut usize);
    sim_cuda_fail(name: *const c_char, nth: u64, lasting: c_int, code: c_int);
    sim_cuda_count(name: *const c_char);
    sim_cuda_live(live: *mut Live);
    sim_cuda_hold_stream(stream: usize, hold: c_int);
    sim_cuda_hold_all(hold: c_int);
    sim_cuda_speed(delay_us: u64, gigabytes_per_second: f64);
    sim_cuda_poison(context: usize, code: c_int);
    sim_cuda_end_at(context: usize, nth: u64, code: c_int);
}

/// The driver, for one test at a time; it fails nothing, holds nothing and delays nothing at the test's begin and end.
pub struct Alone {
    _guard: MutexGuard<'static, ()>,
    _watchdog: Watchdog,
}

impl Drop for Alone {
    fn drop(&mut self) {
        Sim::get().calm();
    }
}

impl Sim {
    /// Loads it into this process, and initialises it.
    pub fn get() -> &'static Sim {
        static SIM: OnceLock<Sim> = OnceLock::new();
        SIM.get_or_init(|| {
            let sim = Sim::open();
            assert_eq!(sim.cuInit(0), 0);
            sim
        })
    }

    /// Loads it, and leaves it as it is. For a process of its own.
    pub fn uninitialised() -> Sim {
        Sim::open()
    }

    /// For one test at a time.
    pub fn alone() -> Alone {
        static LOCK: Mutex<()> = Mutex::new(());
        let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        Sim::get().calm();
        Alone { _guard: guard, _watchdog: Watchdog::start() }
    }

    fn calm(&self) {
        for call in FAILABLE {
            self.fail(call, 1, false, 0);
        }
        self.sim_cuda_end_at(0, 0, 0);
        self.sim_cuda_hold_all(0);
        self.sim_cuda_speed(0, 0.0);
    }

    /// The `nth` call of `name` from now on fails with `code`.
    pub fn fail(&self, name: &str, nth: u64, lasting: bool, code: i32) {
        let name = CString::new(name).unwrap();
        self.sim_cuda_fail(name.as_ptr(), nth, lasting.into(), code);
    }

    /// How often `name` was called.
    pub fn count(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap();
        self.sim_cuda_count(name.as_ptr()) as u64
    }

    pub fn live(&self) -> Live {
        let mut live = Live::default();
        self.sim_cuda_live(&mut live);
        live
    }

    pub fn context(&self, device: i32) -> usize {
        let mut context = 0;
        assert_eq!(self.cuCtxCreate_v2(&mut context, 0, device), 0);
        context
    }

    pub fn current(&self) -> usize {
        let mut context = 0;
        assert_eq!(self.cuCtxGetCurrent(&mut context), 0);
        context
    }

    /// Makes a context current, or none: NULL takes one off the thread's stack, no more.
    pub fn set_current(&self, context: usize) {
        while context == 0 && self.current() != 0 {
            assert_eq!(self.cuCtxSetCurrent(0), 0);
        }
        if context != 0 {
            assert_eq!(self.cuCtxSetCurrent(context), 0);
        }
    }

    /// A stream that the legacy one does not wait for.
    pub fn stream(&self) -> usize {
        let mut stream = 0;
        assert_eq!(self.cuStreamCreate(&mut stream, 1), 0);
        stream
    }
}

/// Calls that tests make fail.
pub const FAILABLE: &[&str] = &[
    "async",
    "cuCtxPushCurrent",
    "cuCtxGetId",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuLaunchHostFunc",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",
    "cuPointerGetAttributes",
    "cuStreamCreate",
    "cuStreamQuery",
];

/// A context of a test's own, current until the end of the test.
pub struct Gpu {
    pub sim: &'static Sim,
    pub context: usize,
    destroyed: bool,
    _alone: Option<Alone>,
}

impl Gpu {
    pub fn new() -> Gpu {
        let alone = Sim::alone();
        let mut gpu = Gpu::another(0);
        gpu._alone = Some(alone);
        gpu
    }

    /// Another one, also current from now on.
    pub fn another(device: i32) -> Gpu {
        let sim = Sim::get();
        Gpu { sim, context: sim.context(device), destroyed: false, _alone: None }
    }

    pub fn make_current(&self) {
        self.sim.set_current(self.context);
    }

    /// It went in another way.
    pub fn forget(mut self) {
        self.destroyed = true;
    }

    pub fn destroy(&mut self) {
        self.destroyed = true;
        assert_eq!(self.sim.cuCtxDestroy_v2(self.context), 0);
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.sim.calm();
        // A test that failed may leave its reads running.
        if !self.destroyed && !std::thread::panicking() {
            self.destroy();
        }
    }
}

/// What a block is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Device,
    Managed,
    StreamOrdered,
    Pinned,
    Registered,
}

/// Memory between guard bytes, of the context that is current when it is made.
pub struct DeviceMemory {
    pub kind: Kind,
    start: usize,
    len: usize,
}

impl DeviceMemory {
    pub fn new(len: usize) -> DeviceMemory {
        DeviceMemory::of(Kind::Device, len)
    }

    /// Device memory without known bytes: filling it would need a stream.
    pub fn new_unfilled(len: usize) -> DeviceMemory {
        let mut start = 0;
        assert_eq!(Sim::get().cuMemAlloc_v2(&mut start, len + 2 * GUARD), 0);
        DeviceMemory { kind: Kind::Device, start, len }
    }

    pub fn of(kind: Kind, len: usize) -> DeviceMemory {
        let (sim, size) = (Sim::get(), len + 2 * GUARD);
        let mut start = 0;
        let code = match kind {
            Kind::Device => sim.cuMemAlloc_v2(&mut start, size),
            Kind::Managed => sim.cuMemAllocManaged(&mut start, size, 1),
            Kind::StreamOrdered => sim.cuMemAllocAsync(&mut start, size, 0),
            Kind::Pinned => sim.cuMemHostAlloc(&mut start, size, 0),
            Kind::Registered => {
                start = Box::into_raw(vec![0u8; size].into_boxed_slice()).cast::<u8>() as usize;
                sim.cuMemHostRegister_v2(start, size, 0)
            }
        };
        assert_eq!(code, 0, "{kind:?}");
        match kind {
            // SAFETY: host memory of this size, just made.
            Kind::Pinned | Kind::Registered => unsafe { (start as *mut u8).write_bytes(GUARD_BYTE, size) },
            _ => assert_eq!(sim.cuMemsetD8_v2(start, GUARD_BYTE, size), 0),
        }
        if kind == Kind::StreamOrdered {
            assert_eq!(sim.cuStreamSynchronize(0), 0);
        }
        DeviceMemory { kind, start, len }
    }

    /// Holds the pattern from `offset` on.
    pub fn filled(self, offset: u64) -> DeviceMemory {
        let bytes = pattern_at(offset, self.len);
        match self.kind {
            // SAFETY: host memory of this size.
            Kind::Pinned | Kind::Registered => unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address() as *mut u8, self.len);
            },
            _ => assert_eq!(Sim::get().cuMemcpyHtoD_v2(self.address(), bytes.as_ptr(), self.len), 0),
        }
        self
    }

    /// The first byte between the guards.
    pub fn address(&self) -> usize {
        self.start + GUARD
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Everything, guards included. In the memory's own context.
    fn all(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len + 2 * GUARD];
        match self.kind {
            // SAFETY: host memory of this size.
            Kind::Pinned | Kind::Registered => unsafe {
                std::ptr::copy_nonoverlapping(self.start as *const u8, bytes.as_mut_ptr(), bytes.len());
            },
            _ => assert_eq!(Sim::get().cuMemcpyDtoH_v2(bytes.as_mut_ptr(), self.start, bytes.len()), 0),
        }
        bytes
    }

    /// The bytes are those of the pattern from `offset` on, and nothing beside them was written.
    #[track_caller]
    pub fn assert_pattern(&self, offset: u64) {
        let bytes = self.all();
        let (before, rest) = bytes.split_at(GUARD);
        let (inside, behind) = rest.split_at(self.len);
        // Not assert_eq: nobody reads megabytes of numbers.
        if let Some(at) = inside.iter().zip(pattern_at(offset, self.len)).position(|(got, want)| *got != want) {
            panic!("byte {at} of {} is wrong", self.len);
        }
        assert!(before.iter().chain(behind).all(|byte| *byte == GUARD_BYTE), "guard bytes were written");
    }

    /// The bytes are those of the pattern; for memory without known bytes around them.
    #[track_caller]
    pub fn assert_inside(&self, offset: u64) {
        assert!(self.all()[GUARD..GUARD + self.len] == *pattern_at(offset, self.len), "the bytes are wrong");
    }

    /// The first `len` bytes are those of the pattern, and nothing else was written.
    #[track_caller]
    pub fn assert_start(&self, offset: u64, len: usize) {
        let bytes = self.all();
        assert!(bytes[GUARD..GUARD + len] == *pattern_at(offset, len), "the bytes are wrong");
        let rest = bytes[..GUARD].iter().chain(&bytes[GUARD + len..]);
        assert!(rest.copied().all(|byte| byte == GUARD_BYTE), "more than {len} bytes were written");
    }

    /// Nothing was ever written.
    #[track_caller]
    pub fn assert_untouched(&self) {
        assert!(self.all().iter().all(|byte| *byte == GUARD_BYTE), "the memory was written");
    }

    /// As RaskIO takes it.
    pub fn buffer(&self, memory: Memory, stream: Option<usize>) -> Result<Buffer, Error> {
        // SAFETY: tests keep the memory until the read is over, or end the process.
        unsafe {
            pointer::buffer(
                self.address() as *mut c_void,
                self.len as u64,
                memory,
                stream.map(|stream| stream as *mut c_void),
            )
        }
    }

    /// Gives it back; its context is gone if that was destroyed.
    pub fn free(self) {
        let sim = Sim::get();
        match self.kind {
            Kind::Pinned => drop(sim.cuMemFreeHost(self.start)),
            Kind::Registered => {
                sim.cuMemHostUnregister(self.start);
                let slice = std::ptr::slice_from_raw_parts_mut(self.start as *mut u8, self.len + 2 * GUARD);
                // SAFETY: came from a box in `of`.
                drop(unsafe { Box::from_raw(slice) });
            }
            _ => drop(sim.cuMemFree_v2(self.start)),
        }
    }
}

/// A read into device memory, or a write from it.
pub struct DeviceReading {
    pub op: Arc<Operation>,
    outcome: Receiver<Outcome>,
}

impl DeviceReading {
    #[track_caller]
    pub fn wait(&self) -> Outcome {
        let outcome = self.outcome.recv_timeout(LONG).expect("a callback");
        self.op.wait(Some(LONG)).expect("the callback returns");
        outcome
    }

    pub fn is_over(&self) -> bool {
        self.op.wait(Some(std::time::Duration::ZERO)).is_ok()
    }

    #[track_caller]
    pub fn succeeds(&self) -> Outcome {
        let outcome = self.wait();
        outcome.succeeds();
        outcome
    }

    #[track_caller]
    pub fn fails(&self, kind: ErrorKind, words: &[&str]) -> Error {
        self.wait().fails(kind, words).clone()
    }
}

/// Starts a read of all of `memory`.
#[track_caller]
pub fn start(object: &Arc<Object>, offset: u64, memory: &DeviceMemory) -> DeviceReading {
    start_with(object, offset, memory, None, &ReadOptions::default())
}

/// [`start`] on a stream, and with options.
#[track_caller]
pub fn start_with(
    object: &Arc<Object>,
    offset: u64,
    memory: &DeviceMemory,
    stream: Option<usize>,
    options: &ReadOptions,
) -> DeviceReading {
    let started = try_start(object, offset, memory, stream, options);
    started.unwrap_or_else(|error| panic!("the read was not accepted: {error}"))
}

/// [`start_with`] where it may be refused.
pub fn try_start(
    object: &Arc<Object>,
    offset: u64,
    memory: &DeviceMemory,
    stream: Option<usize>,
    options: &ReadOptions,
) -> Result<DeviceReading, Error> {
    let buffer = memory.buffer(Memory::Cuda, stream)?;
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    let pending = object.read(offset, buffer, options, done)?;
    let op = pending.op().clone();
    pending.submit();
    Ok(DeviceReading { op, outcome })
}

/// Starts a write of all of `memory` to a file.
#[track_caller]
pub fn start_write(object: &Arc<Object>, offset: u64, memory: &DeviceMemory, stream: Option<usize>) -> DeviceReading {
    let buffer = memory.buffer(Memory::Auto, stream).unwrap_or_else(|error| panic!("the buffer was refused: {error}"));
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    let pending = object.write(offset, buffer, &ReadOptions::default(), true, done);
    let pending = pending.unwrap_or_else(|error| panic!("the write was not accepted: {error}"));
    let op = pending.op().clone();
    pending.submit();
    DeviceReading { op, outcome }
}

/// Reads, and checks every byte.
#[track_caller]
pub fn read(object: &Arc<Object>, offset: u64, len: usize) -> Outcome {
    let memory = DeviceMemory::new(len);
    let outcome = start(object, offset, &memory).succeeds();
    assert_eq!(outcome.bytes, len as u64);
    memory.assert_pattern(offset);
    memory.free();
    outcome
}

/// A client of which nothing is left at the end: neither in its counters nor in the driver.
pub struct DeviceClient {
    pub client: Arc<Client>,
    before: Live,
    /// What the driver keeps may be other than before: a context was destroyed meanwhile, or a buffer given up.
    pub context_was_destroyed: bool,
}

impl DeviceClient {
    pub fn new(backend: Backend, change: impl FnOnce(&mut Overrides)) -> DeviceClient {
        let before = Sim::get().live();
        let client = Client::new(config(backend, change), None).expect("a client");
        DeviceClient { client, before, context_was_destroyed: false }
    }

    pub fn open(&self, url: &str) -> Arc<Object> {
        self.client.open(url, ObjectOptions::default()).expect("an object")
    }

    pub fn stats(&self) -> Snapshot {
        self.client.stats()
    }
}

impl Drop for DeviceClient {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.client.shut_down(Some(LONG)).expect("the client shuts down");
        let stats = self.client.stats();
        assert_eq!(stats.ops_started, stats.ops_finished, "{stats:?}");
        assert_eq!(stats.requests_started, stats.requests_finished, "{stats:?}");
        assert_eq!((stats.requests_in_flight, stats.requests_queued), (0, 0), "{stats:?}");
        assert_eq!((stats.bounce_buffers_total, stats.bounce_buffers_in_use), (0, 0), "{stats:?}");
        assert_eq!((stats.pinned_bytes, stats.events_free, stats.events_total), (0, 0, 0), "{stats:?}");
        if !self.context_was_destroyed {
            let live = Sim::get().live();
            let ours = |live: Live| (live.streams, live.events, live.pinned_buffers, live.pending, live.retained);
            assert_eq!(ours(live), ours(self.before), "left behind in the driver");
        }
    }
}

/// Runs `test` with each backend, one after the other: the driver is the process's.
pub fn each_backend(test: impl Fn(Backend)) {
    for kind in raskio::transport::KINDS {
        test(kind.backend);
    }
}
