//! Streams: queues whose threads do the work, some time later.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::abi::{self, Answer};
use crate::faults::ASYNC;
use crate::memory::{self, Place};
use crate::world::{self, ContextId, Held, Point, Progress, World, is_done, misuse};

/// `CUhostFn`.
pub type HostFunction = extern "C" fn(*mut c_void);

/// What an operation does.
#[derive(Clone)]
pub enum Work {
    /// Copies; `sum`: of a page-locked source when it was submitted; `kept`: a pageable source, read when it was submitted.
    Copy {
        /// Where from.
        from: Place,
        /// Where to.
        to: Place,
        /// Check sum of a page-locked source.
        sum: Option<u64>,
        /// Bytes of a pageable source.
        kept: Option<Arc<Vec<u8>>>,
    },
    /// Fills.
    Set {
        /// Where.
        to: Place,
        /// With what.
        value: u8,
    },
    /// Nothing: an event, or a wait for another stream.
    Nothing,
    /// Calls the host.
    Call(HostFunction, usize),
    /// Stream-ordered memory begins to exist.
    Allocate,
    /// Stream-ordered memory ends.
    Free(usize),
}

impl Work {
    /// Driver's memory that it reads or writes.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let (one, two) = match self {
            Self::Copy { from, to, kept, .. } => (kept.is_none().then_some(from), Some(to)),
            Self::Set { to, .. } => (Some(to), None),
            _ => (None, None),
        };
        one.into_iter().chain(two)
    }
}

/// An entry of a queue.
#[derive(Clone)]
pub struct Operation {
    number: u64,
    after: Vec<Point>,
    /// What it does.
    pub work: Work,
}

/// A stream.
pub struct Stream {
    /// Its context.
    pub context: ContextId,
    /// Does not wait for the legacy stream, nor that for it.
    pub non_blocking: bool,
    /// The legacy stream itself.
    pub legacy: bool,
    /// As asked for.
    pub priority: i32,
    /// What is submitted and not done; the first may be under way.
    pub queue: VecDeque<Operation>,
    /// Number of the last operation submitted.
    pub submitted: u64,
    /// Number of the last one done.
    pub progress: Progress,
    /// A copy or a fill is under way: an asynchronous error waits until it is done, or has been given up.
    pub moving: bool,
    /// Held up by a test.
    pub held: bool,
    /// Destroyed: ends when its queue is empty.
    pub destroyed: bool,
    /// The capture that takes what is submitted.
    pub capture: Option<u64>,
    threaded: bool,
}

/// Makes a stream; its handle.
pub fn create(world: &mut World, context: ContextId, non_blocking: bool, legacy: bool, priority: i32) -> usize {
    let handle = world.handle();
    let stream = Stream {
        context,
        non_blocking,
        legacy,
        priority,
        queue: VecDeque::new(),
        submitted: 0,
        progress: Arc::new(AtomicU64::new(0)),
        moving: false,
        held: false,
        destroyed: false,
        capture: None,
        threaded: false,
    };
    world.streams.insert(handle, stream);
    handle
}

/// The stream that a parameter names. `own`: a NULL means the calling thread's own stream (the `_ptsz` functions).
pub fn resolve(world: &mut World, name: &str, handle: usize, own: bool) -> Answer<usize> {
    let own = handle == abi::STREAM_PER_THREAD || handle == 0 && own;
    if own || handle <= abi::STREAM_LEGACY {
        let id = world::current(world)?;
        let thread = world::thread();
        let context = world.contexts.get(&id).ok_or(abi::INVALID_CONTEXT)?;
        let known = if own { context.per_thread.get(&thread).copied() } else { context.legacy };
        if let Some(handle) = known {
            return Ok(handle);
        }
        let handle = create(world, id, false, !own, 0);
        if let Some(context) = world.contexts.get_mut(&id) {
            if own {
                context.per_thread.insert(thread, handle);
            } else {
                context.legacy = Some(handle);
            }
        }
        return Ok(handle);
    }
    match world.streams.get(&handle) {
        Some(stream) if !stream.destroyed => Ok(handle),
        // It went with the context that this thread is still in.
        _ if matches!(world::current(world), Err(abi::CONTEXT_IS_DESTROYED)) => Err(abi::CONTEXT_IS_DESTROYED),
        Some(_) => misuse(&format!("{name} with stream {handle:#x}, which was destroyed")),
        None => misuse(&format!("{name} with {handle:#x}, which is no stream, or was destroyed")),
    }
}

/// As `resolve`, for work: the stream must be of the current context.
pub fn resolve_for_work(world: &mut World, name: &str, handle: usize, own: bool, current: ContextId) -> Answer<usize> {
    let handle = resolve(world, name, handle, own)?;
    if world.streams[&handle].context != current {
        misuse(&format!("{name} with stream {handle:#x}, which is of another context than the current one"));
    }
    Ok(handle)
}

/// Queues work. In a capturing stream it is noted only, and there is nothing to wait for.
pub fn submit(world: &mut World, handle: usize, work: Work, mut after: Vec<Point>) -> Answer<Option<Point>> {
    let Some(stream) = world.streams.get(&handle) else { return Err(abi::INVALID_HANDLE) };
    if let Some(capture) = stream.capture {
        let invalid = world.captures.get(&capture).is_none_or(|capture| capture.invalid);
        return if invalid { Err(abi::STREAM_CAPTURE_INVALIDATED) } else { Ok(None) };
    }
    let (context, legacy) = (stream.context, stream.legacy);
    if legacy {
        crate::capture::forbid_legacy_work(world, context)?;
        let others =
            world.streams.values().filter(|other| other.context == context && !other.non_blocking && !other.legacy);
        after.extend(others.map(|other| (other.progress.clone(), other.submitted)));
    } else if !stream.non_blocking {
        if let Some(legacy) = world.contexts.get(&context).and_then(|context| context.legacy) {
            let legacy = &world.streams[&legacy];
            after.push((legacy.progress.clone(), legacy.submitted));
        }
    }
    let Some(stream) = world.streams.get_mut(&handle) else { return Err(abi::INVALID_HANDLE) };
    stream.submitted += 1;
    let number = stream.submitted;
    stream.queue.push_back(Operation { number, after, work });
    let point = (stream.progress.clone(), number);
    if !stream.threaded {
        stream.threaded = true;
        std::thread::Builder::new()
            .name("simcuda".to_owned())
            .spawn(move || run(handle))
            .unwrap_or_else(|error| misuse(&format!("no thread for a stream: {error}")));
    }
    world::changed();
    Ok(Some(point))
}

/// Where a stream is now: done once everything submitted so far is.
pub fn point(stream: &Stream) -> Point {
    (stream.progress.clone(), stream.submitted)
}

/// Waits until a point is reached. At the end of the process, or of the context, nothing is waited for.
pub fn wait_until(mut world: Held, point: &Point) -> Held {
    while !is_done(point) && !world::ended() {
        world = world::wait(world);
    }
    world
}

/// Waits until every stream of a context is done with what it has now.
pub fn drain(mut world: Held, context: ContextId) -> Held {
    let points: Vec<Point> = world.streams.values().filter(|stream| stream.context == context).map(point).collect();
    for point in &points {
        world = wait_until(world, point);
    }
    world
}

fn may_start(world: &World, handle: usize) -> bool {
    let stream = &world.streams[&handle];
    let Some(first) = stream.queue.front() else { return false };
    let dying = world.contexts.get(&stream.context).is_none_or(|context| context.dying);
    first.after.iter().all(is_done) && (dying || !stream.held && !world.hold_all)
}

/// A stream's thread.
fn run(handle: usize) {
    let mut world = world::lock();
    loop {
        while !world::ended() && !may_start(&world, handle) {
            if world.streams[&handle].destroyed && world.streams[&handle].queue.is_empty() {
                world.streams.remove(&handle);
                world::changed();
                return;
            }
            world = world::wait(world);
        }
        if world::ended() {
            return;
        }
        let stream = &world.streams[&handle];
        let Some(operation) = stream.queue.front().cloned() else { continue };
        let context = stream.context;
        // After an asynchronous error nothing of the context runs any more, host functions included.
        if !is_failing(&world, context) {
            let moves = matches!(operation.work, Work::Copy { .. } | Work::Set { .. });
            if moves {
                set_moving(&mut world, handle, true);
            }
            world = execute(world, handle, context, &operation.work);
            if moves {
                set_moving(&mut world, handle, false);
            }
        }
        // What was not done does not look so: the error is told first.
        while is_failing(&world, context) && world.contexts[&context].sticky == 0 && !world::ended() {
            world = world::wait(world);
        }
        if world::ended() {
            return;
        }
        if let Some(stream) = world.streams.get_mut(&handle) {
            // The error may have taken it off.
            if stream.queue.front().is_some_and(|first| first.number == operation.number) {
                stream.queue.pop_front();
                stream.progress.store(operation.number, Ordering::SeqCst);
            }
        }
        world::changed();
    }
}

fn set_moving(world: &mut World, handle: usize, moving: bool) {
    if let Some(stream) = world.streams.get_mut(&handle) {
        stream.moving = moving;
    }
    if !moving {
        world::changed();
    }
}

fn is_failing(world: &World, context: ContextId) -> bool {
    world.contexts.get(&context).is_some_and(|context| context.failing)
}

/// An asynchronous error of a context, which keeps its first one: what is under way ends, or is given up before it touches
/// memory; what is queued is never done.
pub fn poison(mut world: Held, id: ContextId, code: i32) -> Held {
    match world.contexts.get_mut(&id) {
        Some(context) if !context.failing => context.failing = true,
        _ => return world,
    }
    world::changed();
    while world.streams.values().any(|stream| stream.context == id && stream.moving) && !world::ended() {
        world = world::wait(world);
    }
    if let Some(context) = world.contexts.get_mut(&id) {
        context.sticky = code;
    }
    for stream in world.streams.values_mut().filter(|stream| stream.context == id) {
        stream.queue.clear();
        stream.progress.store(stream.submitted, Ordering::SeqCst);
    }
    world::changed();
    world
}

/// Waits as long as a copy of this size takes.
fn take_time(mut world: Held, context: ContextId, size: usize) -> Held {
    let mut time = world.delay;
    if world.gigabytes_per_second > 0.0 {
        time += Duration::from_secs_f64(size as f64 / (world.gigabytes_per_second * 1e9));
    }
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let dying = world.contexts.get(&context).is_none_or(|context| context.dying || context.failing);
        if left.is_zero() || dying || world::ended() {
            return world;
        }
        world = world::wait_for(world, left);
    }
}

fn execute(mut world: Held, handle: usize, context: ContextId, work: &Work) -> Held {
    match work {
        Work::Copy { from, to, sum, kept } => {
            world = take_time(world, context, from.size);
            if world::ended() || is_failing(&world, context) {
                return world;
            }
            if let Some(code) = world.faults.count(ASYNC) {
                set_moving(&mut world, handle, false);
                return poison(world, context, code);
            }
            let target = memory::open(&world, "a copy to memory", to);
            let source = match kept {
                Some(bytes) => bytes.as_ptr() as usize,
                None => memory::open(&world, "a copy from memory", from),
            };
            world = unlocked(world, || {
                // SAFETY: `open` found both ranges, and who frees them waits for this operation or is told of misuse; the
                // ranges may overlap.
                unsafe { std::ptr::copy(source as *const u8, target as *mut u8, from.size) };
            });
            // SAFETY: as above.
            if sum.is_some_and(|sum| sum != memory::checksum(unsafe { memory::bytes(source, from.size) })) {
                misuse(&format!(
                    "{} bytes at {:#x} were overwritten while a copy from them was pending",
                    from.size, from.address
                ));
            }
        }
        Work::Set { to, value } => {
            let target = memory::open(&world, "setting memory", to);
            world = unlocked(world, || {
                // SAFETY: as for a copy.
                unsafe { std::ptr::write_bytes(target as *mut u8, *value, to.size) };
            });
        }
        Work::Call(function, data) => {
            world = unlocked(world, || world::in_host_function(|| function(*data as *mut c_void)));
        }
        Work::Free(start) => {
            if let Some(size) = world.blocks.get(start).map(|block| block.size) {
                if let Some(stream) = memory::pending_copy(&world, *start, size) {
                    misuse(&format!(
                        "cuMemFreeAsync of {start:#x} while a copy of it in stream {stream:#x} is pending"
                    ));
                }
                memory::release(&mut world, *start);
            }
        }
        Work::Nothing | Work::Allocate => {}
    }
    world
}

/// Does something without the lock. Counted, so that the end of the process can wait for it.
fn unlocked(mut world: Held, run: impl FnOnce()) -> Held {
    world.executing += 1;
    drop(world);
    run();
    world = world::lock();
    world.executing -= 1;
    world::changed();
    world
}
