//! What tests call beside the driver's functions: `include/simcuda.h` describes them. They work in any state of the driver.

use std::time::Duration;

use crate::abi::{self, Out, Text};
use crate::stream;
use crate::world::{self, ContextId, End, World};

/// What is alive.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Contexts, primary ones included.
    pub contexts: u64,
    /// Streams that a program made and did not destroy.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Blocks of device, stream-ordered and managed memory.
    pub device_buffers: u64,
    /// Their bytes.
    pub device_bytes: u64,
    /// Blocks of page-locked memory, allocated or registered.
    pub pinned_buffers: u64,
    /// Their bytes.
    pub pinned_bytes: u64,
    /// Operations submitted and not done.
    pub pending: u64,
    /// References to primary contexts.
    pub retained: u64,
}

/// A call of this name, the `nth` from now on, answers `code`; `lasting`: all after it as well.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_fail(name: Text, nth: u64, lasting: i32, code: i32) {
    if let Ok(name) = name.get() {
        world::lock().faults.arm(name, nth, lasting != 0, code);
    }
}

/// How often a call was made.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_count(name: Text) -> u64 {
    name.get().map_or(0, |name| world::lock().faults.made(name))
}

/// What is alive.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_live(out: Out<Live>) {
    let world = world::lock();
    let mut live = Live {
        contexts: world.contexts.len() as u64,
        events: world.events.len() as u64,
        pending: world.streams.values().map(|stream| stream.queue.len() as u64).sum(),
        retained: world.devices.iter().map(|device| u64::from(device.retained)).sum(),
        ..Live::default()
    };
    let own: Vec<usize> = world
        .contexts
        .values()
        .flat_map(|context| context.legacy.into_iter().chain(context.per_thread.values().copied()))
        .collect();
    let made = world.streams.iter().filter(|(handle, stream)| !stream.destroyed && !own.contains(handle));
    live.streams = made.count() as u64;
    for block in world.blocks.values() {
        let (count, bytes) = if block.on_host() {
            (&mut live.pinned_buffers, &mut live.pinned_bytes)
        } else {
            (&mut live.device_buffers, &mut live.device_bytes)
        };
        *count += 1;
        *bytes += block.size as u64;
    }
    drop(world);
    out.put_if_wanted(live);
}

/// Keeps a stream (by its handle; the legacy ones cannot be named) from starting its next operation, or lets it go on.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_hold_stream(stream: usize, hold: i32) -> i32 {
    let mut world = world::lock();
    let Some(stream) = world.streams.get_mut(&stream) else { return abi::INVALID_HANDLE };
    stream.held = hold != 0;
    world::changed();
    0
}

/// The same for every stream, those made later included.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_hold_all(hold: i32) {
    world::lock().hold_all = hold != 0;
    world::changed();
}

/// How long copies take from now on.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_speed(delay_us: u64, gigabytes_per_second: f64) {
    let mut world = world::lock();
    world.delay = Duration::from_micros(delay_us);
    world.gigabytes_per_second = gigabytes_per_second;
}

/// The contexts that a parameter names. 0: each that there is.
fn contexts(world: &World, handle: usize) -> Vec<ContextId> {
    let named = |context: &world::Context| handle == 0 || context.handle == handle;
    world.contexts.iter().filter(|(_, context)| named(context)).map(|(id, _)| *id).collect()
}

/// Breaks a context as an asynchronous error of its own work would.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_poison(context: usize, code: i32) -> i32 {
    let mut world = world::lock();
    let ids = contexts(&world, context);
    if ids.is_empty() {
        return abi::INVALID_CONTEXT;
    }
    if code == 0 {
        return abi::INVALID_VALUE;
    }
    for id in ids {
        world = stream::poison(world, id, code);
    }
    0
}

/// Ends or breaks a context right before a call.
#[unsafe(no_mangle)]
pub extern "C" fn sim_cuda_end_at(context: usize, nth: u64, code: i32) -> i32 {
    let mut world = world::lock();
    if nth == 0 {
        world.ends.clear();
        return 0;
    }
    let Some(context) = world::by_handle(&world, context) else { return abi::INVALID_CONTEXT };
    // The device of a primary one would still name it.
    if code == 0 && world.contexts[&context].primary {
        return abi::INVALID_CONTEXT;
    }
    world.ends.push(End { left: nth, context, code });
    0
}
