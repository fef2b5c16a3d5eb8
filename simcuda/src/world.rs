//! All state behind one lock, how every call begins, and the calling thread's contexts.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::env;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::abi::{self, Answer};
use crate::calls::context::destroy;
use crate::capture::Capture;
use crate::faults::Faults;
use crate::memory::{Block, Freed};
use crate::stream::{self, Stream};

/// A context by a number that is never used twice; its handle is.
pub type ContextId = u64;

/// A GPU.
#[derive(Default)]
pub struct Device {
    /// The primary context while it is retained.
    pub primary: Option<ContextId>,
    /// How often it is retained.
    pub retained: u32,
    /// Flags for its next primary context.
    pub flags: u32,
}

/// A context.
pub struct Context {
    /// What programs know it by. Used again after the context's end, as the real driver does.
    pub handle: usize,
    /// Its device.
    pub device: usize,
    /// Belongs to the device rather than to a caller.
    pub primary: bool,
    /// An asynchronous error: every later call of the context answers it. 0: none.
    pub sticky: i32,
    /// Such an error has come: nothing starts any more, and it is told when nothing moves any more.
    pub failing: bool,
    /// Is being destroyed: its streams run dry without delay.
    pub dying: bool,
    /// Its legacy stream, once used.
    pub legacy: Option<usize>,
    /// Its threads' own streams, once used.
    pub per_thread: HashMap<u64, usize>,
}

/// Progress of a stream: the number of its last operation that is done.
pub type Progress = Arc<AtomicU64>;
/// An operation of a stream: done once the progress has reached the number.
pub type Point = (Progress, u64);

/// Whether an operation is done.
pub fn is_done(point: &Point) -> bool {
    point.0.load(Ordering::SeqCst) >= point.1
}

/// An event.
pub struct Event {
    /// Its context.
    pub context: ContextId,
    /// What it was last recorded behind.
    pub recorded: Option<Point>,
    /// The capture it was last recorded in.
    pub captured: Option<u64>,
}

/// A context is to end, or to break, right before a call.
pub struct End {
    /// Calls until then, that one included.
    pub left: u64,
    /// Which.
    pub context: ContextId,
    /// The error that it breaks with. 0: it is destroyed.
    pub code: i32,
}

/// Everything.
pub struct World {
    /// GPUs.
    pub devices: Vec<Device>,
    /// Contexts that live.
    pub contexts: BTreeMap<ContextId, Context>,
    /// Streams by handle; a destroyed one stays until its work is done.
    pub streams: BTreeMap<usize, Stream>,
    /// Events by handle.
    pub events: HashMap<usize, Event>,
    /// Memory by its first byte.
    pub blocks: BTreeMap<usize, Block>,
    /// What was freed a while ago: its addresses stay out of use.
    pub freed: Freed,
    /// Captures that have not ended.
    pub captures: BTreeMap<u64, Capture>,
    /// Graphs that captures made.
    pub graphs: HashSet<usize>,
    /// Counts and failures.
    pub faults: Faults,
    /// What contexts end by, and when.
    pub ends: Vec<End>,
    /// `cuInit` has succeeded.
    pub initialised: bool,
    /// Streams start no operation.
    pub hold_all: bool,
    /// Operations being executed outside the lock.
    pub executing: usize,
    /// How long a copy takes, whatever its size.
    pub delay: Duration,
    /// And for each byte; 0: no time.
    pub gigabytes_per_second: f64,
    /// What `cuDriverGetVersion` says.
    pub version: i32,
    /// Functions that `cuGetProcAddress` does not find.
    pub missing: Vec<String>,
    last: u64,
}

impl World {
    /// A number that was never given before.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A handle that was never given before, and that no pointer equals.
    pub fn handle(&mut self) -> usize {
        0x5113_0000_0000_0000 + 16 * self.number() as usize
    }

    fn from_environment() -> Self {
        let faults = Faults::parse(&env::var("SIM_CUDA_FAIL").unwrap_or_default()).unwrap_or_else(|text| misuse(&text));
        Self {
            devices: (0..variable("SIM_CUDA_DEVICES", 2usize)).map(|_| Device::default()).collect(),
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: HashMap::new(),
            blocks: BTreeMap::new(),
            freed: Freed::default(),
            captures: BTreeMap::new(),
            graphs: HashSet::new(),
            faults,
            ends: Vec::new(),
            initialised: false,
            hold_all: false,
            executing: 0,
            delay: Duration::from_micros(variable("SIM_CUDA_COPY_DELAY_US", 0)),
            gigabytes_per_second: variable("SIM_CUDA_GBPS", 0.0),
            version: variable("SIM_CUDA_VERSION", 13000),
            missing: env::var("SIM_CUDA_MISSING")
                .unwrap_or_default()
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
            last: 0,
        }
    }
}

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(value) if !value.is_empty() => {
            value.parse().unwrap_or_else(|_| misuse(&format!("{name} is {value:?}, which is no number of its kind")))
        }
        _ => default,
    }
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| Mutex::new(World::from_environment()));
static CHANGED: Condvar = Condvar::new();
/// The process that initialised the driver; 0: none has.
static OWNER: AtomicI32 = AtomicI32::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);
static TRACE: LazyLock<bool> = LazyLock::new(|| env::var_os("SIM_CUDA_TRACE").is_some());

/// The lock, held.
pub type Held = MutexGuard<'static, World>;

/// Takes the lock.
pub fn lock() -> Held {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the lock up until something has changed.
pub fn wait(world: Held) -> Held {
    CHANGED.wait(world).unwrap_or_else(PoisonError::into_inner)
}

/// As `wait`, for at most `time`.
pub fn wait_for(world: Held, time: Duration) -> Held {
    CHANGED.wait_timeout(world, time).unwrap_or_else(PoisonError::into_inner).0
}

/// Wakes everybody who waits for a change.
pub fn changed() {
    CHANGED.notify_all();
}

/// Whether the process is past its exit handlers: streams do nothing any more.
pub fn ended() -> bool {
    ENDED.load(Ordering::SeqCst)
}

/// Ends the process: what was done would be undefined with a real driver.
pub fn misuse(text: &str) -> ! {
    eprintln!("simcuda: misuse: {text}");
    std::process::abort();
}

thread_local! {
    static STACK: RefCell<Vec<(ContextId, usize)>> = const { RefCell::new(Vec::new()) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
    static CAPTURE_MODE: Cell<i32> = const { Cell::new(0) };
}

/// A number for the calling thread.
pub fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

/// Runs a host function: no call of the driver is allowed inside.
pub fn in_host_function(run: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    run();
    IN_HOST_FUNCTION.set(false);
}

/// The calling thread's stream capture mode: global, thread-local or relaxed.
pub fn capture_mode() -> i32 {
    CAPTURE_MODE.get()
}

/// Sets the calling thread's mode, and returns the old one.
pub fn exchange_capture_mode(mode: i32) -> i32 {
    CAPTURE_MODE.replace(mode)
}

fn forked() -> bool {
    let owner = OWNER.load(Ordering::SeqCst);
    // SAFETY: getpid has no conditions.
    owner != 0 && owner != unsafe { libc::getpid() }
}

/// How every call begins: may it be made, is it to fail? `name` is without version suffixes.
fn begin(name: &str) -> Answer<Held> {
    if IN_HOST_FUNCTION.get() {
        misuse(&format!("{name} inside a host function: a real driver may deadlock"));
    }
    // Before the lock: another thread may have held it when the process forked.
    if forked() {
        return Err(abi::NOT_INITIALIZED);
    }
    if ended() {
        return Err(abi::DEINITIALIZED);
    }
    let mut world = end_contexts(lock());
    match world.faults.count(name) {
        Some(code) => Err(code),
        None => Ok(world),
    }
}

/// Counts a call, and does what is to happen right before it.
fn end_contexts(mut world: Held) -> Held {
    world.ends.iter_mut().for_each(|end| end.left = end.left.saturating_sub(1));
    while let Some(due) = world.ends.iter().position(|end| end.left == 0) {
        let End { context, code, .. } = world.ends.swap_remove(due);
        world = match code {
            0 if world.contexts.contains_key(&context) => destroy(world, context),
            0 => world,
            code => stream::poison(world, context, code),
        };
    }
    world
}

/// A call that works before `cuInit`.
pub fn early_call(name: &str, body: impl FnOnce(Held) -> Answer) -> i32 {
    let code = begin(name).and_then(body).err().unwrap_or(0);
    if *TRACE {
        eprintln!("simcuda: {name} = {code}");
    }
    code
}

/// Any other call.
pub fn call(name: &str, body: impl FnOnce(Held) -> Answer) -> i32 {
    early_call(name, |world| if world.initialised { body(world) } else { Err(abi::NOT_INITIALIZED) })
}

/// A call that needs a current context.
pub fn call_in_context(name: &str, body: impl FnOnce(Held, ContextId) -> Answer) -> i32 {
    call(name, |world| {
        let context = current(&world)?;
        body(world, context)
    })
}

/// `cuInit`.
pub fn initialise(mut world: Held) -> Answer {
    if world.devices.is_empty() {
        return Err(abi::NO_DEVICE);
    }
    if !world.initialised {
        world.initialised = true;
        // SAFETY: getpid has no conditions; `end` is a function for the life of the process (the library is not unloaded).
        unsafe {
            OWNER.store(libc::getpid(), Ordering::SeqCst);
            libc::atexit(end);
        }
    }
    Ok(())
}

/// The driver goes down with the process: what the host frees from now on is touched by no stream.
extern "C" fn end() {
    if forked() {
        return;
    }
    ENDED.store(true, Ordering::SeqCst);
    let mut world = lock();
    changed();
    for _ in 0..200 {
        if world.executing == 0 {
            return;
        }
        world = wait_for(world, Duration::from_millis(10));
    }
}

/// The calling thread's current context, fit for work.
pub fn current(world: &World) -> Answer<ContextId> {
    let Some((id, _)) = STACK.with_borrow(|stack| stack.last().copied()) else { return Err(abi::INVALID_CONTEXT) };
    // One that is being destroyed takes nothing new: it would outlive its memory.
    let context = world.contexts.get(&id).filter(|context| !context.dying).ok_or(abi::CONTEXT_IS_DESTROYED)?;
    if context.sticky != 0 { Err(context.sticky) } else { Ok(id) }
}

/// The handle of the calling thread's current context, whatever its state.
pub fn current_handle() -> Option<usize> {
    STACK.with_borrow(|stack| stack.last().map(|(_, handle)| *handle))
}

/// The number of the calling thread's current context, whatever its state.
pub fn current_id() -> Option<ContextId> {
    STACK.with_borrow(|stack| stack.last().map(|(id, _)| *id))
}

/// The context that has this handle now.
pub fn by_handle(world: &World, handle: usize) -> Option<ContextId> {
    world.contexts.iter().find(|(_, context)| context.handle == handle).map(|(id, _)| *id)
}

/// Makes a context current, on top of the others.
pub fn push(world: &World, handle: usize) -> Answer {
    let id = by_handle(world, handle).ok_or(abi::INVALID_CONTEXT)?;
    STACK.with_borrow_mut(|stack| stack.push((id, handle)));
    Ok(())
}

/// Takes the current context off the calling thread.
pub fn pop() -> Answer<usize> {
    STACK.with_borrow_mut(Vec::pop).map(|(_, handle)| handle).ok_or(abi::INVALID_CONTEXT)
}
