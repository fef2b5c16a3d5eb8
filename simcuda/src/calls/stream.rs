//! Streams, their capture, and host functions.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{self, Answer, Out};
use crate::calls::context::{end_stream, health};
use crate::capture::{self, Capture};
use crate::stream::{self, HostFunction, Work};
use crate::world::{self, World, call, call_in_context, is_done, misuse};

fn create(name: &str, out: Out<usize>, flags: u32, priority: i32) -> i32 {
    call_in_context(name, |mut world, context| {
        capture::forbid_unsafe_call(&mut world)?;
        if flags & !abi::STREAM_NON_BLOCKING != 0 {
            return Err(abi::INVALID_VALUE);
        }
        out.put(0)?;
        let handle = stream::create(&mut world, context, flags != 0, false, priority);
        out.put(handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreate(out: Out<usize>, flags: u32) -> i32 {
    create("cuStreamCreate", out, flags, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreateWithPriority(out: Out<usize>, flags: u32, priority: i32) -> i32 {
    create("cuStreamCreateWithPriority", out, flags, priority)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> i32 {
    call_in_context("cuCtxGetStreamPriorityRange", |_, _| {
        least.put_if_wanted(0);
        greatest.put_if_wanted(-5);
        Ok(())
    })
}

/// What is queued is still done.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(handle: usize) -> i32 {
    const NAME: &str = "cuStreamDestroy";
    call(NAME, |mut world| {
        if handle <= abi::STREAM_PER_THREAD {
            return Err(abi::INVALID_HANDLE);
        }
        let handle = stream::resolve(&mut world, NAME, handle, false)?;
        let context = world.streams[&handle].context;
        end_stream(&mut world, handle);
        match world.contexts.get(&context) {
            Some(context) if context.sticky != 0 => Err(context.sticky),
            _ => Ok(()),
        }
    })
}

/// Neither can be asked of a stream in a capture.
fn not_capturing(world: &mut World, handle: usize) -> Answer {
    capture::forbid_unsafe_call(world)?;
    let stream = &world.streams[&handle];
    if let Some(id) = stream.capture {
        capture::invalidate(world, id);
        return Err(abi::STREAM_CAPTURE_UNSUPPORTED);
    }
    if stream.legacy {
        let context = stream.context;
        capture::forbid_legacy_work(world, context)?;
    }
    Ok(())
}

fn query(handle: usize, own: bool) -> i32 {
    const NAME: &str = "cuStreamQuery";
    call(NAME, |mut world| {
        let handle = stream::resolve(&mut world, NAME, handle, own)?;
        not_capturing(&mut world, handle)?;
        let stream = &world.streams[&handle];
        health(&world, stream.context)?;
        if is_done(&stream::point(stream)) { Ok(()) } else { Err(abi::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: usize) -> i32 {
    query(stream, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery_ptsz(stream: usize) -> i32 {
    query(stream, true)
}

fn synchronize(handle: usize, own: bool) -> i32 {
    const NAME: &str = "cuStreamSynchronize";
    call(NAME, |mut world| {
        let handle = stream::resolve(&mut world, NAME, handle, own)?;
        not_capturing(&mut world, handle)?;
        let (context, legacy) = (world.streams[&handle].context, world.streams[&handle].legacy);
        if legacy {
            // It comes after everything in the blocking streams.
            stream::submit(&mut world, handle, Work::Nothing, Vec::new())?;
        }
        let point = stream::point(&world.streams[&handle]);
        world = stream::wait_until(world, &point);
        health(&world, context)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: usize) -> i32 {
    synchronize(stream, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize_ptsz(stream: usize) -> i32 {
    synchronize(stream, true)
}

/// The event may be of another context. One of a capture takes the stream into the capture.
fn wait_event(handle: usize, event: usize, own: bool) -> i32 {
    const NAME: &str = "cuStreamWaitEvent";
    call(NAME, |mut world| {
        let handle = stream::resolve(&mut world, NAME, handle, own)?;
        let Some(known) = world.events.get(&event) else {
            misuse(&format!("{NAME} with event {event:#x}, which was destroyed, or its context was"))
        };
        let (captured, recorded) = (known.captured, known.recorded.clone());
        if let Some(id) = captured.filter(|id| world.captures.contains_key(id)) {
            match world.streams.get_mut(&handle) {
                Some(stream) if stream.capture.is_none_or(|own| own == id) && !stream.legacy => {
                    stream.capture = Some(id)
                }
                _ => {
                    capture::invalidate(&mut world, id);
                    return Err(abi::STREAM_CAPTURE_UNSUPPORTED);
                }
            }
            return Ok(());
        }
        health(&world, world.streams[&handle].context)?;
        stream::submit(&mut world, handle, Work::Nothing, recorded.into_iter().collect())?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _flags: u32) -> i32 {
    wait_event(stream, event, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent_ptsz(stream: usize, event: usize, _flags: u32) -> i32 {
    wait_event(stream, event, true)
}

fn get_context(handle: usize, out: Out<usize>, own: bool) -> i32 {
    call("cuStreamGetCtx", |mut world| {
        let handle = stream::resolve(&mut world, "cuStreamGetCtx", handle, own)?;
        let id = world.streams[&handle].context;
        health(&world, id)?;
        out.put(world.contexts[&id].handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCtx(stream: usize, out: Out<usize>) -> i32 {
    get_context(stream, out, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCtx_ptsz(stream: usize, out: Out<usize>) -> i32 {
    get_context(stream, out, true)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetFlags(handle: usize, flags: Out<u32>) -> i32 {
    call("cuStreamGetFlags", |mut world| {
        let handle = stream::resolve(&mut world, "cuStreamGetFlags", handle, false)?;
        flags.put(u32::from(world.streams[&handle].non_blocking))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetPriority(handle: usize, priority: Out<i32>) -> i32 {
    call("cuStreamGetPriority", |mut world| {
        let handle = stream::resolve(&mut world, "cuStreamGetPriority", handle, false)?;
        priority.put(world.streams[&handle].priority)
    })
}

fn launch(handle: usize, function: Option<HostFunction>, data: *mut c_void, own: bool) -> i32 {
    const NAME: &str = "cuLaunchHostFunc";
    call(NAME, |mut world| {
        let function = function.ok_or(abi::INVALID_VALUE)?;
        let handle = stream::resolve(&mut world, NAME, handle, own)?;
        health(&world, world.streams[&handle].context)?;
        stream::submit(&mut world, handle, Work::Call(function, data as usize), Vec::new())?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) -> i32 {
    launch(stream, function, data, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchHostFunc_ptsz(stream: usize, function: Option<HostFunction>, data: *mut c_void) -> i32 {
    launch(stream, function, data, true)
}

fn begin_capture(handle: usize, mode: i32, own: bool) -> i32 {
    call("cuStreamBeginCapture", |mut world| {
        if !(0..=2).contains(&mode) {
            return Err(abi::INVALID_VALUE);
        }
        let origin = stream::resolve(&mut world, "cuStreamBeginCapture", handle, own)?;
        let id = world.number();
        let stream = world.streams.get_mut(&origin).ok_or(abi::INVALID_HANDLE)?;
        if stream.legacy {
            return Err(abi::STREAM_CAPTURE_UNSUPPORTED);
        }
        if stream.capture.is_some() {
            return Err(abi::ILLEGAL_STATE);
        }
        stream.capture = Some(id);
        world.captures.insert(id, Capture { origin, thread: world::thread(), mode, invalid: false });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: i32) -> i32 {
    begin_capture(stream, mode, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2_ptsz(stream: usize, mode: i32) -> i32 {
    begin_capture(stream, mode, true)
}

fn end_capture(handle: usize, graph: Out<usize>, own: bool) -> i32 {
    const RELAXED: i32 = 2;
    call("cuStreamEndCapture", |mut world| {
        graph.put(0)?;
        let handle = stream::resolve(&mut world, "cuStreamEndCapture", handle, own)?;
        let id = world.streams[&handle].capture.ok_or(abi::ILLEGAL_STATE)?;
        let capture = world.captures.get(&id).ok_or(abi::ILLEGAL_STATE)?;
        if capture.origin != handle {
            return Err(abi::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != world::thread() {
            return Err(abi::STREAM_CAPTURE_WRONG_THREAD);
        }
        let invalid = capture.invalid;
        world.captures.remove(&id);
        for stream in world.streams.values_mut().filter(|stream| stream.capture == Some(id)) {
            stream.capture = None;
        }
        if invalid {
            return Err(abi::STREAM_CAPTURE_INVALIDATED);
        }
        let made = world.handle();
        world.graphs.insert(made);
        graph.put(made)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamEndCapture(stream: usize, graph: Out<usize>) -> i32 {
    end_capture(stream, graph, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamEndCapture_ptsz(stream: usize, graph: Out<usize>) -> i32 {
    end_capture(stream, graph, true)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: usize) -> i32 {
    call("cuGraphDestroy", |mut world| if world.graphs.remove(&graph) { Ok(()) } else { Err(abi::INVALID_VALUE) })
}

/// `CUstreamCaptureStatus`, and the capture's number.
fn capture_state(world: &mut World, handle: usize) -> Answer<(i32, u64)> {
    let stream = &world.streams[&handle];
    if let Some(id) = stream.capture {
        let invalid = world.captures.get(&id).is_none_or(|capture| capture.invalid);
        return Ok((if invalid { 2 } else { 1 }, id));
    }
    if stream.legacy {
        let context = stream.context;
        let blocked =
            |other: &stream::Stream| other.context == context && !other.non_blocking && other.capture.is_some();
        if world.streams.values().any(blocked) {
            return Err(abi::STREAM_CAPTURE_IMPLICIT);
        }
    }
    Ok((0, 0))
}

fn is_capturing(handle: usize, status: Out<i32>, own: bool) -> i32 {
    call("cuStreamIsCapturing", |mut world| {
        let handle = stream::resolve(&mut world, "cuStreamIsCapturing", handle, own)?;
        health(&world, world.streams[&handle].context)?;
        let state = capture_state(&mut world, handle)?;
        status.put(state.0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamIsCapturing(stream: usize, status: Out<i32>) -> i32 {
    is_capturing(stream, status, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamIsCapturing_ptsz(stream: usize, status: Out<i32>) -> i32 {
    is_capturing(stream, status, true)
}

fn capture_info(handle: usize, status: Out<i32>, id: Out<u64>, own: bool) -> i32 {
    call("cuStreamGetCaptureInfo", |mut world| {
        let handle = stream::resolve(&mut world, "cuStreamGetCaptureInfo", handle, own)?;
        let state = capture_state(&mut world, handle)?;
        id.put_if_wanted(state.1);
        status.put(state.0)
    })
}

/// The simulator's captures have no nodes: a graph that is NULL, and no dependencies.
fn capture_info_nodes(
    handle: usize,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<usize>,
    nodes: Out<*const c_void>,
    count: Out<usize>,
    own: bool,
) -> i32 {
    graph.put_if_wanted(0);
    nodes.put_if_wanted(ptr::null());
    count.put_if_wanted(0);
    capture_info(handle, status, id, own)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCaptureInfo(stream: usize, status: Out<i32>, id: Out<u64>) -> i32 {
    capture_info(stream, status, id, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCaptureInfo_ptsz(stream: usize, status: Out<i32>, id: Out<u64>) -> i32 {
    capture_info(stream, status, id, true)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: usize,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<usize>,
    nodes: Out<*const c_void>,
    count: Out<usize>,
) -> i32 {
    capture_info_nodes(stream, status, id, graph, nodes, count, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCaptureInfo_v2_ptsz(
    stream: usize,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<usize>,
    nodes: Out<*const c_void>,
    count: Out<usize>,
) -> i32 {
    capture_info_nodes(stream, status, id, graph, nodes, count, true)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: usize,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<usize>,
    nodes: Out<*const c_void>,
    edges: Out<*const c_void>,
    count: Out<usize>,
) -> i32 {
    edges.put_if_wanted(ptr::null());
    capture_info_nodes(stream, status, id, graph, nodes, count, false)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuThreadExchangeStreamCaptureMode(mode: Out<i32>) -> i32 {
    call("cuThreadExchangeStreamCaptureMode", |_| {
        let wanted = mode.get()?;
        if !(0..=2).contains(&wanted) {
            return Err(abi::INVALID_VALUE);
        }
        mode.put(world::exchange_capture_mode(wanted))
    })
}
