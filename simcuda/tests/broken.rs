//! Contexts that an error of their own work breaks, and contexts that end in the middle of something.

mod support;

use simcuda::abi;
use simcuda::calls::{context::*, copy::*, event::*, init::*, memory::*, stream::*};
use simcuda::control::*;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use support::*;

static CALLS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn counts(data: *mut c_void) {
    CALLS.fetch_add(data as usize, Ordering::SeqCst);
}

#[test]
fn an_asynchronous_error_stays() {
    alone("an_asynchronous_error_stays", &[("SIM_CUDA_FAIL", "async:2:700")], || {
        let own = context();
        let (to, from, stream, done) = (device(16), pinned(16, 3), stream(), event());
        ok(cuLaunchHostFunc(stream, Some(counts), 2 as *mut c_void));
        copy(to, from, 16, stream);
        ok(cuStreamSynchronize(stream));
        sim_cuda_hold_all(1);
        copy(to, from, 16, stream);
        ok(cuLaunchHostFunc(stream, Some(counts), 10 as *mut c_void));
        ok(cuEventRecord(done, stream));
        sim_cuda_hold_all(0);
        assert_eq!(cuEventSynchronize(done), abi::ILLEGAL_ADDRESS);
        assert_eq!(cuEventQuery(done), abi::ILLEGAL_ADDRESS);
        assert_eq!(cuMemcpyHtoDAsync_v2(to, from, 16, stream), abi::ILLEGAL_ADDRESS);
        assert_eq!(cuStreamSynchronize(stream), abi::ILLEGAL_ADDRESS);
        assert_eq!(CALLS.load(Ordering::SeqCst), 2, "host functions are not called after an error");
        // What is given back is gone, and the error is told again.
        assert_eq!(cuEventDestroy_v2(done), abi::ILLEGAL_ADDRESS);
        assert_eq!(cuMemFreeHost(from), abi::ILLEGAL_ADDRESS);
        assert_eq!((live().events, live().pinned_buffers), (0, 0));
        // Another context is well, and the end of this one ends the error.
        get(|out| cuCtxCreate_v2(out, 0, 0));
        ok(cuCtxSynchronize());
        ok(cuCtxDestroy_v2(own));
    });
}

#[test]
fn a_poisoned_context_touches_no_memory_again_and_answers_the_error() {
    alone("a_poisoned_context_touches_no_memory_again_and_answers_the_error", &[], || {
        let other = context();
        let safe = (device(16), pinned(16, 5), stream());
        let own = get(|out| cuCtxCreate_v2(out, 0, 0));
        let (to, size) = (device(4096), 4096);
        let (busy, held, before, behind) = (stream(), stream(), event(), event());
        ok(cuMemsetD8_v2(to, 7, size));
        ok(cuEventRecord(before, busy));
        ok(cuEventSynchronize(before));
        let from = mapped(size);
        ok(cuMemHostRegister_v2(from, size, 1));
        // One under way for a minute, one behind it, one that may not start, and one of another context behind that.
        ok(sim_cuda_hold_stream(held, 1));
        sim_cuda_speed(60_000_000, 0.0);
        copy(to, from, size, busy);
        copy(to, from, size, busy);
        copy(to, from, size, held);
        ok(cuLaunchHostFunc(held, Some(counts), 2 as *mut c_void));
        ok(cuEventRecord(behind, held));
        ok(cuStreamWaitEvent(safe.2, behind, 0));
        assert_eq!(sim_cuda_poison(own, abi::LAUNCH_FAILED), 0);
        sim_cuda_speed(0, 0.0);
        unmapped(from, size);
        assert_eq!(sim_cuda_poison(own, abi::ILLEGAL_ADDRESS), 0);
        ok(sim_cuda_hold_stream(held, 0));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(CALLS.load(Ordering::SeqCst), 0, "no host function is called");
        // The first error, whatever is asked, of what was done before it as well; these four as on a GPU.
        for (call, code) in [
            ("cuEventQuery", cuEventQuery(before)),
            ("cuEventQuery", cuEventQuery(behind)),
            ("cuEventSynchronize", cuEventSynchronize(behind)),
            ("cuStreamQuery", cuStreamQuery(held)),
            ("cuStreamSynchronize", cuStreamSynchronize(busy)),
            ("cuCtxSynchronize", cuCtxSynchronize()),
            ("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2(to, from, size, busy)),
            ("cuEventCreate", cuEventCreate(out(&mut 0), 2)),
            ("cuEventRecord", cuEventRecord(behind, busy)),
            ("cuStreamCreate", cuStreamCreate(out(&mut 0), 1)),
            ("cuLaunchHostFunc", cuLaunchHostFunc(busy, Some(counts), 2 as *mut c_void)),
            ("cuMemHostRegister", cuMemHostRegister_v2(from + size, size, 1)),
            ("cuStreamIsCapturing", cuStreamIsCapturing(busy, out(&mut 0))),
            ("cuStreamGetCtx", cuStreamGetCtx(busy, out(&mut 0))),
        ] {
            assert_eq!(code, abi::LAUNCH_FAILED, "{call}");
        }
        ok(cuCtxGetId(own, out(&mut 0)));
        ok(cuCtxPopCurrent_v2(out(&mut 0)));
        ok(cuCtxPushCurrent_v2(own));
        ok(cuCtxGetDevice(out(&mut 0)));
        assert_eq!(cuMemHostUnregister(from), abi::LAUNCH_FAILED);
        // The other one is well, and no longer waits.
        ok(cuCtxSetCurrent(other));
        copy(safe.0, safe.1, 16, safe.2);
        ok(cuStreamSynchronize(safe.2));
        assert_eq!((read(safe.0, 16), live().pending), (vec![5; 16], 0));
        ok(cuCtxDestroy_v2(own));
        assert_eq!(sim_cuda_poison(own, abi::LAUNCH_FAILED), abi::INVALID_CONTEXT);
    });
}

/// At many moments: none tears memory away from a copy that still moves.
#[test]
fn an_error_waits_for_the_copies_that_move() {
    alone("an_error_waits_for_the_copies_that_move", &[], || {
        ok(cuInit(0));
        for round in 0..80 {
            let own = get(|out| cuCtxCreate_v2(out, 0, 0));
            let (to, size) = ([device(1 << 20), device(1 << 20)], 1 << 20);
            let from = mapped(size);
            ok(cuMemHostRegister_v2(from, size, 1));
            for stream in [stream(), stream()] {
                (0..4).for_each(|_| copy(to[round % 2], from, size, stream));
            }
            thread::sleep(Duration::from_micros(50 * (round as u64 % 10)));
            assert_eq!(sim_cuda_poison(0, abi::ILLEGAL_ADDRESS), 0);
            assert_eq!(live().pending, 0);
            unmapped(from, size);
            // The streams' threads may still be on their way: the end of the context frees what they copied to.
            ok(cuCtxDestroy_v2(own));
        }
    });
}

#[test]
fn a_context_ends_or_breaks_right_before_the_call_that_was_named() {
    alone("a_context_ends_or_breaks_right_before_the_call_that_was_named", &[], || {
        let gone = context();
        assert_eq!(sim_cuda_end_at(gone, 2, 0), 0);
        ok(cuCtxSynchronize());
        assert_eq!(cuCtxSynchronize(), abi::CONTEXT_IS_DESTROYED);
        let broken = get(|out| cuCtxCreate_v2(out, 0, 0));
        assert_eq!(sim_cuda_end_at(broken, 1, abi::LAUNCH_FAILED), 0);
        assert_eq!(cuCtxSynchronize(), abi::LAUNCH_FAILED);
        ok(cuCtxDestroy_v2(broken));
        let kept = get(|out| cuCtxCreate_v2(out, 0, 0));
        assert_eq!((sim_cuda_end_at(kept, 1, 0), sim_cuda_end_at(kept, 0, 0)), (0, 0));
        ok(cuCtxSynchronize());
        let primary = get(|out| cuDevicePrimaryCtxRetain(out, 1));
        assert_eq!(sim_cuda_end_at(primary, 1, 0), abi::INVALID_CONTEXT);
    });
}
