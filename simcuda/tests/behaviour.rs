//! What the simulator does as the real driver does.

mod support;

use simcuda::abi;
use simcuda::abi::{Out, Text};
use simcuda::calls::{context::*, copy::*, event::*, init::*, memory::*, pointer::*, stream::*};
use simcuda::control::*;
use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::{Duration, Instant};
use support::*;

#[test]
fn bytes_arrive_and_an_event_is_pending_until_then() {
    alone("bytes_arrive_and_an_event_is_pending_until_then", &[("SIM_CUDA_COPY_DELAY_US", "200000")], || {
        context();
        let (to, from, stream, event) = (device(1000), pinned(1000, 7), stream(), event());
        ok(cuEventQuery(event));
        let began = Instant::now();
        copy(to, from, 1000, stream);
        ok(cuEventRecord(event, stream));
        assert!(began.elapsed() < Duration::from_millis(150), "the call does not wait");
        assert_eq!(cuEventQuery(event), abi::NOT_READY);
        assert_eq!(cuStreamQuery(stream), abi::NOT_READY);
        ok(cuEventSynchronize(event));
        assert!(began.elapsed() >= Duration::from_millis(200), "the copy takes its time");
        ok(cuEventQuery(event));
        ok(cuStreamQuery(stream));
        assert_eq!(read(to, 1000), [7; 1000]);
        assert_eq!(live().pending, 0);
    });
}

#[test]
fn a_large_copy_takes_longer() {
    alone("a_large_copy_takes_longer", &[("SIM_CUDA_GBPS", "0.1")], || {
        context();
        let (to, from, stream) = (device(20_000_000), pinned(20_000_000, 7), stream());
        let began = Instant::now();
        copy(to, from, 20_000_000, stream);
        ok(cuStreamSynchronize(stream));
        assert!(began.elapsed() >= Duration::from_millis(200));
    });
}

#[test]
fn the_host_cannot_touch_device_memory() {
    let crashed = again("the_host_cannot_touch_device_memory", &[], || {
        context();
        set_byte(device(100), 1);
    });
    if let Some(output) = crashed {
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn pageable_memory_is_read_before_the_call_returns() {
    alone("pageable_memory_is_read_before_the_call_returns", &[], || {
        context();
        let (to, stream, mut host) = (device(4), stream(), [1u8, 2, 3, 4]);
        sim_cuda_hold_all(1);
        copy(to, host.as_ptr() as usize, 4, stream);
        host.fill(9);
        sim_cuda_hold_all(0);
        ok(cuStreamSynchronize(stream));
        assert_eq!((read(to, 4), host), (vec![1, 2, 3, 4], [9; 4]));
    });
}

#[test]
fn the_host_may_touch_managed_memory() {
    alone("the_host_may_touch_managed_memory", &[], || {
        context();
        let managed = get(|out| cuMemAllocManaged(out, 16, 1));
        set_byte(managed, 5);
        copy(managed, pinned(16, 6), 8, 0);
        ok(cuCtxSynchronize());
        assert_eq!((byte(managed), byte(managed + 7), byte(managed + 8)), (6, 6, 0));
        ok(cuMemFree_v2(managed));
        assert_eq!(live().device_buffers, 0);
    });
}

#[test]
fn calls_need_initialisation_and_a_context() {
    alone("calls_need_initialisation_and_a_context", &[], || {
        let mut handle = 0;
        assert_eq!(cuCtxGetCurrent(out(&mut handle)), abi::NOT_INITIALIZED);
        assert_eq!(get(|out| cuDriverGetVersion(out)), 13000);
        ok(cuInit(0));
        assert_eq!(get(|out| cuDeviceGetCount(out)), 2);
        assert_eq!(get(|out| cuCtxGetCurrent(out)), 0);
        for code in [
            cuMemAlloc_v2(out(&mut handle), 16),
            cuStreamCreate(out(&mut handle), 0),
            cuEventCreate(out(&mut handle), 0),
            cuMemHostAlloc(out(&mut handle), 16, 0),
            cuMemHostRegister_v2(4096, 4096, 0),
            cuMemcpyHtoDAsync_v2(0, 0, 16, 0),
            cuCtxSynchronize(),
            cuCtxPopCurrent_v2(out(&mut handle)),
            cuMemFree_v2(4096),
        ] {
            assert_eq!(name_of(code), "CUDA_ERROR_INVALID_CONTEXT");
        }
    });
}

#[test]
fn contexts_are_a_stack_of_the_thread() {
    alone("contexts_are_a_stack_of_the_thread", &[], || {
        let first = context();
        let second = get(|out| cuCtxCreate_v2(out, 0, 1));
        assert_eq!((get(|out| cuCtxGetCurrent(out)), get(|out| cuCtxGetDevice(out))), (second, 1));
        ok(cuCtxPushCurrent_v2(first));
        assert_eq!((get(|out| cuCtxPopCurrent_v2(out)), get(|out| cuCtxGetCurrent(out))), (first, second));
        thread::spawn(|| assert_eq!(get(|out| cuCtxGetCurrent(out)), 0)).join().unwrap();
        ok(cuCtxSetCurrent(0));
        assert_eq!(get(|out| cuCtxGetCurrent(out)), first);
        let ids = [first, second].map(|context| get(|out| cuCtxGetId(context, out)));
        assert_eq!(ids[0], get(|out| cuCtxGetId(0, out)));

        // The handle comes back, the number does not.
        ok(cuCtxDestroy_v2(second));
        assert_eq!(cuCtxPushCurrent_v2(second), abi::INVALID_CONTEXT);
        assert_eq!(cuCtxGetId(second, out(&mut 0)), abi::CONTEXT_IS_DESTROYED);
        assert_eq!(get(|out| cuCtxCreate_v2(out, 0, 1)), second);
        let id = get(|out| cuCtxGetId(second, out));
        assert!(!ids.contains(&id));
    });
}

#[test]
fn a_destroyed_context_takes_everything_of_it_along() {
    alone("a_destroyed_context_takes_everything_of_it_along", &[], || {
        let own = context();
        let (to, from, stream) = (device(16), pinned(16, 1), stream());
        event();
        sim_cuda_hold_all(1);
        copy(to, from, 16, stream);
        copy(to, from, 16, 0);
        let other = thread::spawn(move || {
            ok(cuCtxSetCurrent(own));
            thread::sleep(Duration::from_millis(200));
            cuCtxSynchronize()
        });
        thread::sleep(Duration::from_millis(100));
        ok(cuCtxDestroy_v2(own));
        assert_eq!(live(), Live::default());
        assert_eq!(other.join().unwrap(), abi::CONTEXT_IS_DESTROYED);
    });
}

#[test]
fn a_primary_context_lives_while_it_is_retained() {
    alone("a_primary_context_lives_while_it_is_retained", &[], || {
        ok(cuInit(0));
        let active = || get(|active| cuDevicePrimaryCtxGetState(0, out(&mut 0), active));
        assert_eq!(active(), 0);
        let first = get(|out| cuDevicePrimaryCtxRetain(out, 0));
        assert_eq!(get(|out| cuDevicePrimaryCtxRetain(out, 0)), first);
        assert_eq!((get(|out| cuCtxGetCurrent(out)), active(), live().retained), (0, 1, 2));
        ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!((active(), live().contexts), (1, 1));
        ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!((active(), live().contexts), (0, 0));
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), abi::INVALID_CONTEXT);
        get(|out| cuDevicePrimaryCtxRetain(out, 0));
        ok(cuDevicePrimaryCtxReset_v2(0));
        assert_eq!(live(), Live::default());
    });
}

#[test]
fn each_kind_of_memory_has_its_attributes() {
    alone("each_kind_of_memory_has_its_attributes", &[], || {
        context();
        let own = get(|out| cuCtxCreate_v2(out, 0, 1));
        let registered = Box::leak(Box::new([0u8; 4096])).as_ptr() as usize;
        ok(cuMemHostRegister_v2(registered, 4096, 1));
        let ordered = get(|out| cuMemAllocAsync(out, 100, 0));
        let managed = get(|out| cuMemAllocManaged(out, 100, 1));
        let host = Box::leak(Box::new([0u8; 100])).as_ptr() as usize;
        // What, context, type, managed, device
        for (address, expected) in [
            (device(100) + 50, (own, 2, 0, 1)),
            (ordered, (0, 2, 0, 1)),
            (managed, (own, 2, 1, 1)),
            (pinned(100, 0), (own, 1, 0, 1)),
            (registered + 4095, (own, 1, 0, 1)),
            (host, (0, 0, 0, -2)),
        ] {
            let (mut context, mut kind, mut managed, mut ordinal) = (7usize, 7u32, 7u8, 7i32);
            let mut names = [1, 2, 8, 9];
            let mut places: [*mut c_void; 4] = [
                (&raw mut context).cast(),
                (&raw mut kind).cast(),
                (&raw mut managed).cast(),
                (&raw mut ordinal).cast(),
            ];
            ok(cuPointerGetAttributes(4, Out(names.as_mut_ptr()), Out(places.as_mut_ptr()), address));
            assert_eq!((context, kind, managed, ordinal), expected, "{address:#x}");
        }
        let mut number = 0u64;
        assert_eq!(cuPointerGetAttribute((&raw mut number).cast(), 2, host), abi::INVALID_VALUE);
        ok(cuPointerGetAttribute((&raw mut number).cast(), 12, ordered + 1));
        assert_eq!(number, 100);
    });
}

#[test]
fn memory_is_registered_once() {
    alone("memory_is_registered_once", &[], || {
        context();
        let host = Box::leak(Box::new([0u8; 8192])).as_ptr() as usize;
        ok(cuMemHostRegister_v2(host, 8192, 0));
        assert_eq!(cuMemHostRegister_v2(host + 4096, 4096, 0), abi::HOST_MEMORY_ALREADY_REGISTERED);
        assert_eq!(live().pinned_bytes, 8192);
        ok(cuMemHostUnregister(host));
        assert_eq!(cuMemHostUnregister(host), abi::HOST_MEMORY_NOT_REGISTERED);
        assert_eq!(live().pinned_bytes, 0);
    });
}

#[test]
fn a_held_stream_holds_up_only_itself() {
    alone("a_held_stream_holds_up_only_itself", &[], || {
        context();
        let (held, free, done) = (stream(), stream(), [event(), event()]);
        ok(sim_cuda_hold_stream(held, 1));
        for (stream, event) in [(held, done[0]), (free, done[1])] {
            copy(device(16), pinned(16, 1), 16, stream);
            ok(cuEventRecord(event, stream));
        }
        ok(cuEventSynchronize(done[1]));
        assert_eq!(cuEventQuery(done[0]), abi::NOT_READY);
        ok(sim_cuda_hold_stream(held, 0));
        ok(cuEventSynchronize(done[0]));
    });
}

#[test]
fn streams_wait_for_events_and_for_the_legacy_stream() {
    alone("streams_wait_for_events_and_for_the_legacy_stream", &[], || {
        context();
        let (held, waits, done) = (stream(), stream(), event());
        let blocking = get(|out| cuStreamCreate(out, 0));
        ok(sim_cuda_hold_stream(held, 1));
        copy(device(16), pinned(16, 1), 16, held);
        ok(cuEventRecord(done, held));
        ok(cuStreamWaitEvent(waits, done, 0));
        assert_eq!(cuStreamQuery(waits), abi::NOT_READY);
        ok(sim_cuda_hold_stream(held, 0));
        ok(cuStreamSynchronize(waits));
        ok(cuStreamQuery(held));

        // The legacy stream and blocking streams wait for each other, non-blocking ones do not.
        ok(sim_cuda_hold_stream(blocking, 1));
        copy(device(16), pinned(16, 1), 16, blocking);
        ok(cuEventRecord(done, 0));
        copy(device(16), pinned(16, 1), 16, waits);
        ok(cuStreamSynchronize(waits));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(cuEventQuery(done), abi::NOT_READY);
        ok(sim_cuda_hold_stream(blocking, 0));
        ok(cuEventSynchronize(done));
    });
}

#[test]
fn a_destroyed_stream_ends_its_work() {
    alone("a_destroyed_stream_ends_its_work", &[], || {
        context();
        let (stream, done, to, from) = (stream(), event(), device(16), pinned(16, 3));
        sim_cuda_hold_all(1);
        copy(to, from, 16, stream);
        ok(cuEventRecord(done, stream));
        ok(cuStreamDestroy_v2(stream));
        assert_eq!(live().streams, 0);
        sim_cuda_hold_all(0);
        ok(cuEventSynchronize(done));
        assert_eq!(read(to, 16), [3; 16]);
    });
}

#[test]
fn any_call_fails_on_demand() {
    alone("any_call_fails_on_demand", &[("SIM_CUDA_FAIL", "cuEventRecord:2:700,cuMemHostAlloc:*:2")], || {
        context();
        let (done, stream) = (event(), stream());
        assert_eq!([(); 3].map(|()| cuEventRecord(done, stream)), [0, 700, 0]);
        assert_eq!(cuMemHostAlloc(out(&mut 0), 16, 0), abi::OUT_OF_MEMORY);
        fail(c"cuEventCreate", 2, true, 999);
        assert_eq!([(); 3].map(|()| cuEventCreate(out(&mut 0), 0)), [0, 999, 999]);
        fail(c"cuEventCreate", 0, false, 0);
        ok(cuEventCreate(out(&mut 0), 0));
        assert_eq!(sim_cuda_count(Text(c"cuEventCreate".as_ptr())), 5);
        assert_eq!(live().events, 3);
    });
}

#[test]
fn a_machine_without_devices_says_so() {
    alone("a_machine_without_devices_says_so", &[("SIM_CUDA_DEVICES", "0")], || {
        assert_eq!(cuInit(0), abi::NO_DEVICE);
    });
}

#[test]
fn a_capture_takes_what_is_submitted() {
    alone("a_capture_takes_what_is_submitted", &[], || {
        context();
        let (to, from, stream) = (device(16), pinned(16, 3), stream());
        let status = || get(|out| cuStreamIsCapturing(stream, out));
        assert_eq!(status(), 0);
        assert_eq!(cuStreamBeginCapture_v2(0, 0), abi::STREAM_CAPTURE_UNSUPPORTED);
        ok(cuStreamBeginCapture_v2(stream, 2));
        assert_eq!(status(), 1);
        copy(to, from, 16, stream);
        assert_eq!(live().pending, 0);
        let graph = get(|out| cuStreamEndCapture(stream, out));
        assert_eq!(status(), 0);
        ok(cuGraphDestroy(graph));
        assert_eq!(read(to, 16), [0; 16]);
    });
}

#[test]
fn an_unsafe_call_breaks_another_threads_global_capture() {
    alone("an_unsafe_call_breaks_another_threads_global_capture", &[], || {
        let own = context();
        let (stream, other, done) = (stream(), stream(), event());
        let (to, from) = (device(16), pinned(16, 1));
        let elsewhere = move |mode: i32| {
            thread::spawn(move || {
                ok(cuCtxSetCurrent(own));
                capture_mode(mode);
                let code = cuMemAlloc_v2(out(&mut 0), 16);
                // These are safe in any mode.
                copy(to, from, 16, other);
                ok(cuEventRecord(done, other));
                code
            })
            .join()
            .unwrap()
        };
        ok(cuStreamBeginCapture_v2(stream, 0));
        assert_eq!(elsewhere(2), 0, "relaxed");
        assert_eq!(elsewhere(1), 0, "thread-local");
        assert_eq!(get(|out| cuStreamIsCapturing(stream, out)), 1);
        assert_eq!(elsewhere(0), abi::STREAM_CAPTURE_UNSUPPORTED, "global");
        assert_eq!(get(|out| cuStreamIsCapturing(stream, out)), 2);
        assert_eq!(cuStreamEndCapture(stream, out(&mut 0)), abi::STREAM_CAPTURE_INVALIDATED);

        // A query of what was recorded in a capture breaks it, in any mode.
        ok(cuStreamBeginCapture_v2(stream, 2));
        ok(cuEventRecord(done, stream));
        capture_mode(2);
        assert_eq!(cuEventQuery(done), abi::CAPTURED_EVENT);
        assert_eq!(cuStreamEndCapture(stream, out(&mut 0)), abi::STREAM_CAPTURE_INVALIDATED);

        // The legacy stream would wait for a blocking one that captures.
        let blocking = get(|out| cuStreamCreate(out, 0));
        ok(cuStreamBeginCapture_v2(blocking, 2));
        assert_eq!(cuEventRecord(done, 0), abi::STREAM_CAPTURE_IMPLICIT);
        assert_eq!(cuStreamEndCapture(blocking, out(&mut 0)), abi::STREAM_CAPTURE_INVALIDATED);
    });
}

#[test]
fn after_fork_every_call_says_not_initialised() {
    alone("after_fork_every_call_says_not_initialised", &[], || {
        let own = context();
        let (stream, done) = (stream(), event());
        // SAFETY: the child makes calls that take no lock, and leaves with _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let codes = [
                cuInit(0),
                cuDriverGetVersion(out(&mut 0)),
                cuCtxGetCurrent(out(&mut 0)),
                cuCtxPushCurrent_v2(own),
                cuEventQuery(done),
                cuStreamSynchronize(stream),
                cuMemcpyHtoDAsync_v2(0, 0, 1, stream),
                cuPointerGetAttributes(0, Out(null().cast()), Out(null().cast()), 0),
            ];
            let wrong = codes.iter().filter(|code| **code != abi::NOT_INITIALIZED).count();
            // SAFETY: ends the child without the test's clean-up.
            unsafe { libc::_exit(wrong as i32) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        ok(cuEventQuery(done));
    });
}

#[test]
fn the_process_may_end_with_copies_pending() {
    alone("the_process_may_end_with_copies_pending", &[("SIM_CUDA_COPY_DELAY_US", "1000")], || {
        context();
        let (to, stream) = (device(1 << 20), stream());
        let from = pinned(1 << 20, 1);
        for _ in 0..1000 {
            copy(to, from, 1 << 20, stream);
        }
    });
}
