//! Events.

use crate::abi::{self, Answer, Out};
use crate::capture;
use crate::stream::{self, Work};
use crate::world::{self, Event, World, call, call_in_context, is_done, misuse};

#[unsafe(no_mangle)]
pub extern "C" fn cuEventCreate(out: Out<usize>, flags: u32) -> i32 {
    // Blocking synchronisation, no timing, interprocess.
    const KNOWN: u32 = 7;
    call_in_context("cuEventCreate", |mut world, context| {
        if flags & !KNOWN != 0 {
            return Err(abi::INVALID_VALUE);
        }
        let handle = world.handle();
        out.put(handle)?;
        world.events.insert(handle, Event { context, recorded: None, captured: None });
        Ok(())
    })
}

fn known<'a>(world: &'a World, name: &str, handle: usize) -> Answer<&'a Event> {
    if handle == 0 {
        return Err(abi::INVALID_HANDLE);
    }
    match world.events.get(&handle) {
        Some(event) => Ok(event),
        // It went with the context that this thread is still in: the other thread's end of it came first, and says so.
        None if matches!(world::current(world), Err(abi::CONTEXT_IS_DESTROYED)) => Err(abi::CONTEXT_IS_DESTROYED),
        None => misuse(&format!("{name} with event {handle:#x}, which was destroyed, or its context was")),
    }
}

/// An asynchronous error of the event's context.
fn sticky(world: &World, event: &Event) -> Answer {
    match world.contexts.get(&event.context) {
        Some(context) if context.sticky != 0 => Err(context.sticky),
        _ => Ok(()),
    }
}

/// The event goes, also after an asynchronous error, which is told again.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(handle: usize) -> i32 {
    const NAME: &str = "cuEventDestroy";
    call(NAME, |mut world| {
        let health = sticky(&world, known(&world, NAME, handle)?);
        world.events.remove(&handle);
        health
    })
}

fn record(name: &str, handle: usize, stream: usize, own: bool) -> i32 {
    call(name, |mut world| {
        let context = known(&world, name, handle)?.context;
        sticky(&world, known(&world, name, handle)?)?;
        let stream = stream::resolve(&mut world, name, stream, own)?;
        if world.streams[&stream].context != context {
            misuse(&format!("{name} of event {handle:#x} in stream {stream:#x}: they are of different contexts"));
        }
        let captured = world.streams[&stream].capture;
        let recorded = stream::submit(&mut world, stream, Work::Nothing, Vec::new())?;
        if let Some(event) = world.events.get_mut(&handle) {
            event.captured = captured;
            event.recorded = recorded;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: usize, stream: usize) -> i32 {
    record("cuEventRecord", event, stream, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord_ptsz(event: usize, stream: usize) -> i32 {
    record("cuEventRecord", event, stream, true)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecordWithFlags(event: usize, stream: usize, _flags: u32) -> i32 {
    record("cuEventRecordWithFlags", event, stream, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecordWithFlags_ptsz(event: usize, stream: usize, _flags: u32) -> i32 {
    record("cuEventRecordWithFlags", event, stream, true)
}

/// Refuses what cannot be asked of an event in a capture, or of any while another thread captures.
fn check(world: &mut World, name: &str, handle: usize) -> Answer {
    capture::forbid_unsafe_call(world)?;
    if let Some(id) = known(world, name, handle)?.captured {
        capture::invalidate(world, id);
        return Err(abi::CAPTURED_EVENT);
    }
    sticky(world, known(world, name, handle)?)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(handle: usize) -> i32 {
    const NAME: &str = "cuEventQuery";
    call(NAME, |mut world| {
        check(&mut world, NAME, handle)?;
        let event = known(&world, NAME, handle)?;
        if event.recorded.as_ref().is_none_or(is_done) { Ok(()) } else { Err(abi::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(handle: usize) -> i32 {
    const NAME: &str = "cuEventSynchronize";
    call(NAME, |mut world| {
        check(&mut world, NAME, handle)?;
        let event = known(&world, NAME, handle)?;
        let context = event.context;
        if let Some(point) = event.recorded.clone() {
            world = stream::wait_until(world, &point);
        }
        if world::ended() {
            return Err(abi::DEINITIALIZED);
        }
        match world.contexts.get(&context) {
            Some(context) if context.sticky != 0 => Err(context.sticky),
            _ => Ok(()),
        }
    })
}

fn elapsed(out: Out<f32>, start: usize, end: usize) -> i32 {
    const NAME: &str = "cuEventElapsedTime";
    call(NAME, |world| {
        known(&world, NAME, start)?;
        known(&world, NAME, end)?;
        out.put(0.0)
    })
}

/// Always 0: the simulator keeps no times.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventElapsedTime(out: Out<f32>, start: usize, end: usize) -> i32 {
    elapsed(out, start, end)
}

/// Always 0: the simulator keeps no times.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventElapsedTime_v2(out: Out<f32>, start: usize, end: usize) -> i32 {
    elapsed(out, start, end)
}
