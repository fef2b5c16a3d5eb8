//! Every kind of misuse ends the process with its own message. Each of these is planted.

mod support;

use simcuda::calls::{context::*, copy::*, event::*, init::*, memory::*, stream::*};
use simcuda::control::*;
use std::ffi::c_void;
use support::*;

#[test]
fn a_copy_to_freed_memory() {
    aborts("a_copy_to_freed_memory", "this memory was freed", || {
        context();
        let (to, from) = (device(100), pinned(100, 1));
        ok(cuMemFree_v2(to));
        cuMemcpyHtoDAsync_v2(to + 10, from, 10, 0);
    });
}

#[test]
fn a_copy_from_freed_memory() {
    aborts("a_copy_from_freed_memory", "this memory was freed", || {
        context();
        let (to, from) = (device(100), pinned(100, 1));
        ok(cuMemFreeHost(from));
        cuMemcpyHtoDAsync_v2(to, from, 10, 0);
    });
}

#[test]
fn a_copy_out_of_range() {
    aborts("a_copy_out_of_range", "out of range, the memory ends 90 bytes after it", || {
        context();
        cuMemcpyHtoDAsync_v2(device(100) + 10, pinned(100, 1), 91, 0);
    });
}

#[test]
fn a_copy_from_out_of_range() {
    aborts("a_copy_from_out_of_range", "out of range", || {
        context();
        cuMemcpyHtoDAsync_v2(device(200), pinned(100, 1), 101, 0);
    });
}

#[test]
fn a_copy_to_what_is_no_device_memory() {
    aborts("a_copy_to_what_is_no_device_memory", "this is no device memory", || {
        context();
        let mut host = [0u8; 16];
        cuMemcpyHtoDAsync_v2(host.as_mut_ptr() as usize, pinned(16, 1), 16, 0);
    });
}

#[test]
fn memory_of_another_context() {
    aborts("memory_of_another_context", "another context than the current one", || {
        context();
        let to = device(16);
        get(|out| cuCtxCreate_v2(out, 0, 1));
        cuMemcpyHtoDAsync_v2(to, pinned(16, 1), 16, 0);
    });
}

#[test]
fn a_stream_of_another_context() {
    aborts("a_stream_of_another_context", "another context than the current one", || {
        context();
        let other = stream();
        get(|out| cuCtxCreate_v2(out, 0, 0));
        cuMemcpyHtoDAsync_v2(device(16), pinned(16, 1), 16, other);
    });
}

#[test]
fn a_destroyed_stream() {
    aborts("a_destroyed_stream", "is no stream, or was destroyed", || {
        context();
        let gone = stream();
        ok(cuStreamDestroy_v2(gone));
        cuMemcpyHtoDAsync_v2(device(16), pinned(16, 1), 16, gone);
    });
}

#[test]
fn a_destroyed_stream_that_still_works() {
    aborts("a_destroyed_stream_that_still_works", "which was destroyed", || {
        context();
        let (gone, to, from) = (stream(), device(16), pinned(16, 1));
        sim_cuda_hold_all(1);
        copy(to, from, 16, gone);
        ok(cuStreamDestroy_v2(gone));
        cuEventRecord(event(), gone);
    });
}

#[test]
fn a_stream_of_a_destroyed_context() {
    aborts("a_stream_of_a_destroyed_context", "is no stream, or was destroyed", || {
        let first = context();
        let gone = stream();
        ok(cuCtxDestroy_v2(first));
        context();
        cuStreamSynchronize(gone);
    });
}

#[test]
fn an_event_of_another_context() {
    aborts("an_event_of_another_context", "they are of different contexts", || {
        context();
        let other = event();
        get(|out| cuCtxCreate_v2(out, 0, 1));
        cuEventRecord(other, stream());
    });
}

#[test]
fn an_event_of_a_destroyed_context() {
    aborts("an_event_of_a_destroyed_context", "destroyed, or its context was", || {
        let first = context();
        let gone = event();
        ok(cuCtxDestroy_v2(first));
        assert_eq!(context(), first, "the handle is used again");
        cuEventDestroy_v2(gone);
    });
}

#[test]
fn an_event_destroyed_twice() {
    aborts("an_event_destroyed_twice", "cuEventDestroy with event", || {
        context();
        let gone = event();
        ok(cuEventDestroy_v2(gone));
        cuEventDestroy_v2(gone);
    });
}

#[test]
fn a_destroyed_event_is_queried() {
    aborts("a_destroyed_event_is_queried", "cuEventQuery with event", || {
        context();
        let gone = event();
        ok(cuEventDestroy_v2(gone));
        cuEventQuery(gone);
    });
}

#[test]
fn device_memory_freed_twice() {
    aborts("device_memory_freed_twice", "a double free", || {
        context();
        let gone = device(16);
        ok(cuMemFree_v2(gone));
        cuMemFree_v2(gone);
    });
}

#[test]
fn pinned_memory_freed_twice() {
    aborts("pinned_memory_freed_twice", "a double free", || {
        context();
        let gone = pinned(16, 0);
        ok(cuMemFreeHost(gone));
        cuMemFreeHost(gone);
    });
}

#[test]
fn pinned_memory_freed_during_a_copy() {
    aborts("pinned_memory_freed_during_a_copy", "while a copy of it in stream", || {
        context();
        let (to, from) = (device(16), pinned(16, 1));
        sim_cuda_hold_all(1);
        copy(to, from, 16, stream());
        cuMemFreeHost(from);
    });
}

#[test]
fn memory_unregistered_during_a_copy() {
    aborts("memory_unregistered_during_a_copy", "cuMemHostUnregister", || {
        context();
        let (to, from) = (device(4096), Box::leak(Box::new([0u8; 4096])).as_ptr() as usize);
        ok(cuMemHostRegister_v2(from, 4096, 0));
        sim_cuda_speed(60_000_000, 0.0);
        copy(to, from + 4000, 10, stream());
        cuMemHostUnregister(from);
    });
}

#[test]
fn a_buffer_overwritten_before_its_copy() {
    aborts("a_buffer_overwritten_before_its_copy", "were overwritten while a copy from them was pending", || {
        context();
        let (to, from, stream) = (device(1000), pinned(1000, 1), stream());
        sim_cuda_hold_all(1);
        copy(to, from, 1000, stream);
        set_byte(from + 999, 2);
        sim_cuda_hold_all(0);
        cuStreamSynchronize(stream);
    });
}

extern "C" fn calls_cuda(_: *mut c_void) {
    let mut version = 0;
    cuDriverGetVersion(out(&mut version));
}

#[test]
fn a_host_function_calls_cuda() {
    aborts("a_host_function_calls_cuda", "cuDriverGetVersion inside a host function", || {
        context();
        let stream = stream();
        ok(cuLaunchHostFunc(stream, Some(calls_cuda), null()));
        cuStreamSynchronize(stream);
    });
}

#[test]
fn stream_ordered_memory_used_before_it_exists() {
    aborts("stream_ordered_memory_used_before_it_exists", "has not come to this memory", || {
        context();
        let (slow, quick, from) = (stream(), stream(), pinned(16, 1));
        ok(sim_cuda_hold_stream(slow, 1));
        let to = get(|out| cuMemAllocAsync(out, 16, slow));
        copy(to, from, 16, quick);
        cuStreamSynchronize(quick);
    });
}

#[test]
fn stream_ordered_memory_used_after_its_free() {
    aborts("stream_ordered_memory_used_after_its_free", "cuMemFreeAsync was called", || {
        context();
        let (stream, from) = (stream(), pinned(16, 1));
        sim_cuda_hold_all(1);
        let to = get(|out| cuMemAllocAsync(out, 16, stream));
        ok(cuMemFreeAsync(to, stream));
        copy(to, from, 16, stream);
    });
}

#[test]
fn stream_ordered_memory_freed_under_another_streams_copy() {
    aborts("stream_ordered_memory_freed_under_another_streams_copy", "while a copy of it in stream", || {
        context();
        let (one, two, from) = (stream(), stream(), pinned(16, 1));
        let to = get(|out| cuMemAllocAsync(out, 16, one));
        ok(cuStreamSynchronize(one));
        ok(sim_cuda_hold_stream(two, 1));
        copy(to, from, 16, two);
        ok(cuMemFreeAsync(to, one));
        cuStreamSynchronize(one);
    });
}

#[test]
fn a_copy_that_runs_from_pageable_into_pinned_memory() {
    aborts("a_copy_that_runs_from_pageable_into_pinned_memory", "from pageable into page-locked memory", || {
        context();
        let host = Box::leak(Box::new([0u8; 8192])).as_ptr() as usize;
        ok(cuMemHostRegister_v2(host + 4096, 4096, 0));
        cuMemcpyHtoDAsync_v2(device(8192), host + 4000, 200, 0);
    });
}
