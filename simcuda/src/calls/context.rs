//! Contexts.

use crate::abi::{self, Answer, Out};
use crate::calls::init::device;
use crate::memory;
use crate::stream;
use crate::world::{self, Context, ContextId, Held, World, call, call_in_context};
use std::collections::HashMap;
use std::ffi::c_void;

const NOTHING: usize = 0;

fn create(world: &mut World, device: usize, primary: bool) -> ContextId {
    let id = world.number();
    // The lowest free handle: whoever takes a handle for a context's identity is found out.
    let taken: Vec<usize> = world.contexts.values().map(|context| context.handle).collect();
    let handle =
        (1..).map(|slot| 0x5113_C000_0000_0000 + slot * 256).find(|handle| !taken.contains(handle)).unwrap_or(0);
    let context = Context {
        handle,
        device,
        primary,
        sticky: 0,
        failing: false,
        dying: false,
        legacy: None,
        per_thread: HashMap::new(),
    };
    world.contexts.insert(id, context);
    id
}

/// Lets the context's streams run dry, then everything of it goes.
pub(crate) fn destroy(mut world: Held, id: ContextId) -> Held {
    if let Some(context) = world.contexts.get_mut(&id) {
        context.dying = true;
    }
    world::changed();
    world = stream::drain(world, id);
    world.contexts.remove(&id);
    let streams: Vec<usize> =
        world.streams.iter().filter(|(_, stream)| stream.context == id).map(|(handle, _)| *handle).collect();
    for handle in streams {
        end_stream(&mut world, handle);
    }
    world.events.retain(|_, event| event.context != id);
    let blocks: Vec<usize> =
        world.blocks.iter().filter(|(_, block)| block.context == Some(id)).map(|(start, _)| *start).collect();
    for start in blocks {
        memory::release(&mut world, start);
    }
    world::changed();
    world
}

/// A stream's end, now or when its work is done.
pub(super) fn end_stream(world: &mut World, handle: usize) {
    let Some(stream) = world.streams.get_mut(&handle) else { return };
    stream.destroyed = true;
    if let Some(capture) = stream.capture.take() {
        world.captures.remove(&capture);
    }
    if world.streams[&handle].submitted == 0 {
        // It has no thread that could.
        world.streams.remove(&handle);
    }
    world::changed();
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxCreate_v2(out: Out<usize>, _flags: u32, ordinal: i32) -> i32 {
    call("cuCtxCreate", |mut world| {
        crate::capture::forbid_unsafe_call(&mut world)?;
        let device = device(&world, ordinal)?;
        out.put(NOTHING)?;
        let id = create(&mut world, device, false);
        let handle = world.contexts[&id].handle;
        world::push(&world, handle)?;
        out.put(handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxCreate_v4(out: Out<usize>, _params: *mut c_void, flags: u32, ordinal: i32) -> i32 {
    cuCtxCreate_v2(out, flags, ordinal)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(handle: usize) -> i32 {
    call("cuCtxDestroy", |world| {
        let id = world::by_handle(&world, handle).ok_or(abi::INVALID_CONTEXT)?;
        if world.contexts[&id].primary {
            return Err(abi::INVALID_CONTEXT);
        }
        if world::current_id() == Some(id) {
            world::pop()?;
        }
        drop(destroy(world, id));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(handle: usize) -> i32 {
    call("cuCtxPushCurrent", |world| world::push(&world, handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPopCurrent_v2(out: Out<usize>) -> i32 {
    call("cuCtxPopCurrent", |_| {
        let handle = world::pop()?;
        out.put_if_wanted(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetCurrent(out: Out<usize>) -> i32 {
    call("cuCtxGetCurrent", |_| out.put(world::current_handle().unwrap_or(NOTHING)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(handle: usize) -> i32 {
    call("cuCtxSetCurrent", |world| {
        if handle != NOTHING {
            world::by_handle(&world, handle).ok_or(abi::INVALID_CONTEXT)?;
        }
        let _ = world::pop();
        if handle == NOTHING { Ok(()) } else { world::push(&world, handle) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetDevice(out: Out<i32>) -> i32 {
    // A broken context has one too.
    call("cuCtxGetDevice", |world| {
        let id = world::current_id().ok_or(abi::INVALID_CONTEXT)?;
        out.put(world.contexts.get(&id).ok_or(abi::CONTEXT_IS_DESTROYED)?.device as i32)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> i32 {
    call_in_context("cuCtxSynchronize", |mut world, id| {
        crate::capture::forbid_unsafe_call(&mut world)?;
        let world = stream::drain(world, id);
        health(&world, id)
    })
}

/// What a call answers that has waited: an asynchronous error may have come meanwhile.
pub(super) fn health(world: &World, id: ContextId) -> Answer {
    if world::ended() {
        return Err(abi::DEINITIALIZED);
    }
    match world.contexts.get(&id) {
        None => Err(abi::CONTEXT_IS_DESTROYED),
        Some(context) if context.sticky != 0 => Err(context.sticky),
        Some(_) => Ok(()),
    }
}

/// NULL: the current context.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetId(handle: usize, out: Out<u64>) -> i32 {
    call("cuCtxGetId", |world| {
        let id = if handle == NOTHING {
            let id = world::current_id().ok_or(abi::INVALID_CONTEXT)?;
            world.contexts.contains_key(&id).then_some(id)
        } else {
            world::by_handle(&world, handle)
        };
        out.put(id.ok_or(abi::CONTEXT_IS_DESTROYED)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(out: Out<usize>, ordinal: i32) -> i32 {
    call("cuDevicePrimaryCtxRetain", |mut world| {
        let device = device(&world, ordinal)?;
        out.put(NOTHING)?;
        let id = match world.devices[device].primary {
            Some(id) => id,
            None => {
                crate::capture::forbid_unsafe_call(&mut world)?;
                let id = create(&mut world, device, true);
                world.devices[device].primary = Some(id);
                id
            }
        };
        world.devices[device].retained += 1;
        out.put(world.contexts[&id].handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(ordinal: i32) -> i32 {
    call("cuDevicePrimaryCtxRelease", |mut world| {
        let device = device(&world, ordinal)?;
        let id = world.devices[device].primary.ok_or(abi::INVALID_CONTEXT)?;
        world.devices[device].retained -= 1;
        if world.devices[device].retained == 0 {
            world.devices[device].primary = None;
            drop(destroy(world, id));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxReset_v2(ordinal: i32) -> i32 {
    call("cuDevicePrimaryCtxReset", |mut world| {
        let device = device(&world, ordinal)?;
        world.devices[device].retained = 0;
        if let Some(id) = world.devices[device].primary.take() {
            drop(destroy(world, id));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxGetState(ordinal: i32, flags: Out<u32>, active: Out<i32>) -> i32 {
    call("cuDevicePrimaryCtxGetState", |world| {
        let device = &world.devices[device(&world, ordinal)?];
        flags.put(device.flags)?;
        active.put(i32::from(device.primary.is_some()))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxSetFlags_v2(ordinal: i32, flags: u32) -> i32 {
    call("cuDevicePrimaryCtxSetFlags", |mut world| {
        let device = device(&world, ordinal)?;
        world.devices[device].flags = flags;
        Ok(())
    })
}
