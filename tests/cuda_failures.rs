//! Whatever the driver refuses fails the read that it hits, by CUDA's name and text, and costs nobody else anything.

mod support;

use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio::sys::cuda::pointer::Memory;
use raskio_testserver::{Object, Reply, Server, get};
use support::cuda::{DeviceClient, DeviceMemory, Gpu, each_backend, read, start, start_with, try_start};
use support::{LONG, ms};

const LEN: usize = 200_000;
const OUT_OF_MEMORY: i32 = 2;
const INVALID_CONTEXT: i32 = 201;
const ILLEGAL_ADDRESS: i32 = 700;

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(1 << 20));
    server
}

#[test]
fn each_step_that_fails_fails_its_read_by_name_and_recycles_what_it_held() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        for (call, code, name, text) in [
            ("cuMemHostRegister", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
            ("cuStreamCreate", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
            ("cuMemcpyHtoDAsync", ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"),
            ("cuEventCreate", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
            ("cuEventRecord", ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"),
            ("cuEventQuery", ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"),
        ] {
            let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
            let (object, memory) = (client.open(&server.url("/data")), DeviceMemory::new(LEN));
            gpu.sim.fail(call, 1, false, code);
            let error = start(&object, 0, &memory).fails(ErrorKind::Cuda, &[call, name, text, "/data"]);
            assert_eq!(client.stats().requests_failed, 1, "{call}");
            assert!(error.message().contains(&code.to_string()), "{error}");
            memory.free();
            assert_eq!(client.stats().bounce_buffers_in_use, 0, "{call}");
            read(&object, 1, LEN);
        }
    });
}

/// The device may still read the buffer: what another request puts into it would arrive in the memory of this one.
#[test]
fn a_buffer_that_the_driver_says_nothing_about_is_not_used_again() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        // Room for one, so that the next read would have to use it.
        let (server, mut client) = (
            server(),
            DeviceClient::new(backend, |options| {
                options.bounce_buffer_size = Some(1 << 18);
                options.max_pinned_bytes = Some(1 << 18);
            }),
        );
        client.context_was_destroyed = true;
        let before = gpu.sim.live().pinned_buffers;
        let (object, memory) = (client.open(&server.url("/data")), DeviceMemory::new(LEN));
        gpu.sim.sim_cuda_speed(200_000, 0.0);
        gpu.sim.fail("cuEventQuery", 1, false, OUT_OF_MEMORY);
        gpu.sim.fail("cuStreamQuery", 1, false, OUT_OF_MEMORY);
        start(&object, 0, &memory).fails(ErrorKind::Cuda, &["cuStreamQuery", "CUDA_ERROR_OUT_OF_MEMORY", "/data"]);
        assert_eq!(client.stats().bounce_buffers_in_use, 0);
        // It runs, and the memory is not free before its end.
        gpu.sim.sim_cuda_speed(0, 0.0);
        std::thread::sleep(ms(250));
        memory.free();
        for i in 0..20 {
            read(&object, i, LEN);
        }
        client.client.shut_down(Some(LONG)).unwrap();
        assert_eq!(gpu.sim.live().pinned_buffers, before + 1, "it stays as it is");
    });
}

/// In the stager's hands, so not with one that is made for the first read.
#[test]
fn a_context_that_cannot_be_entered_once_fails_one_read() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        let object = client.open(&server.url("/data"));
        read(&object, 0, LEN);
        gpu.sim.fail("cuCtxPushCurrent", 1, false, OUT_OF_MEMORY);
        let memory = DeviceMemory::new(LEN);
        start(&object, 0, &memory).fails(ErrorKind::Cuda, &["cuCtxPushCurrent", "CUDA_ERROR_OUT_OF_MEMORY", "/data"]);
        memory.free();
        // Asked twice before a context counts as gone.
        gpu.sim.fail("cuCtxPushCurrent", 1, false, INVALID_CONTEXT);
        read(&object, 0, LEN);
    });
}

/// Small buffers are there, and free; one for a large request cannot be made in their place.
#[test]
fn a_context_that_cannot_be_entered_any_more_fails_a_read_that_needs_a_larger_buffer() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        let object = client.open(&server.url("/data"));
        read(&object, 0, 1000);
        gpu.sim.fail("cuCtxPushCurrent", 1, true, OUT_OF_MEMORY);
        let memory = DeviceMemory::new(LEN);
        start(&object, 0, &memory).fails(ErrorKind::Cuda, &["cuCtxPushCurrent", "CUDA_ERROR_OUT_OF_MEMORY", "/data"]);
        gpu.sim.fail("cuCtxPushCurrent", 1, false, 0);
        memory.free();
        read(&object, 0, LEN);
    });
}

#[test]
fn a_wait_that_fails_costs_no_read() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        let object = client.open(&server.url("/data"));
        gpu.sim.sim_cuda_speed(5000, 0.0);
        gpu.sim.fail("cuEventSynchronize", 1, true, ILLEGAL_ADDRESS);
        read(&object, 0, LEN);
        gpu.sim.fail("cuEventSynchronize", 1, false, 0);
        read(&object, 0, LEN);
    });
}

#[test]
fn a_stream_without_host_functions_is_looked_after_all_the_same() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        let (object, stream) = (client.open(&server.url("/data")), gpu.sim.stream());
        gpu.sim.fail("cuLaunchHostFunc", 1, true, OUT_OF_MEMORY);
        let memory = DeviceMemory::new(LEN);
        start_with(&object, 0, &memory, Some(stream), &ReadOptions::default()).succeeds();
        memory.assert_pattern(0);
        memory.free();
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn while_some_buffers_are_there_more_are_not_needed() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |options| options.task_size = Some(100_000)));
        let object = client.open(&server.url("/data"));
        read(&object, 0, 100_000);
        gpu.sim.fail("cuMemHostRegister", 1, true, OUT_OF_MEMORY);
        read(&object, 0, 1 << 20);
        assert_eq!(client.stats().bounce_buffers_total, 1);
        // Asked again after a while.
        gpu.sim.fail("cuMemHostRegister", 1, false, 0);
        std::thread::sleep(ms(1100));
        gpu.sim.sim_cuda_speed(10_000, 0.0);
        read(&object, 0, 1 << 20);
        assert!(client.stats().bounce_buffers_total > 1);
    });
}

#[test]
fn a_prefix_that_cannot_be_copied_fails_the_read() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        server.script(get("/data"), [Reply::object().close_after(50_000), Reply::object()]);
        gpu.sim.fail("cuMemcpyHtoDAsync", 1, false, ILLEGAL_ADDRESS);
        let memory = DeviceMemory::new(LEN);
        let object = client.open(&server.url("/data"));
        let outcome = start(&object, 0, &memory).wait();
        outcome.fails(ErrorKind::Cuda, &["cuMemcpyHtoDAsync", "CUDA_ERROR_ILLEGAL_ADDRESS", "/data"]);
        assert_eq!(outcome.bytes, 0);
        memory.free();
        read(&object, 0, LEN);
    });
}

#[test]
fn an_error_of_the_device_itself_fails_every_read_of_its_context_and_no_other() {
    let mut first = Gpu::new();
    each_backend(|backend| {
        let mut broken = Gpu::another(1);
        let (server, mut client) = (server(), DeviceClient::new(backend, |_| {}));
        client.context_was_destroyed = true;
        let object = client.open(&server.url("/data"));
        let memory = DeviceMemory::new_unfilled(LEN);
        first.sim.fail("async", 1, false, ILLEGAL_ADDRESS);
        start(&object, 0, &memory).fails(ErrorKind::Cuda, &["CUDA_ERROR_ILLEGAL_ADDRESS", "/data"]);
        // Whatever is asked of it from now on says so, at the call or at the end.
        match try_start(&object, 0, &memory, None, &ReadOptions::default()) {
            Ok(reading) => drop(reading.fails(ErrorKind::Cuda, &["CUDA_ERROR_ILLEGAL_ADDRESS"])),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cuda, "{error}"),
        }
        first.make_current();
        read(&object, 0, LEN);
        let mut host = support::start(&object, 0, LEN);
        host.succeeds();
        assert_eq!(client.stats().bounce_buffers_in_use, 0);
        client.client.shut_down(Some(LONG)).unwrap();
        broken.make_current();
        broken.destroy();
        first.make_current();
    });
    first.destroy();
}

#[test]
fn an_error_on_a_callers_stream_is_noticed_without_its_host_function() {
    let first = Gpu::new();
    each_backend(|backend| {
        let mut broken = Gpu::another(0);
        let (server, mut client) = (server(), DeviceClient::new(backend, |_| {}));
        client.context_was_destroyed = true;
        let (stream, memory) = (first.sim.stream(), DeviceMemory::new_unfilled(LEN));
        first.sim.fail("async", 1, false, ILLEGAL_ADDRESS);
        let object = client.open(&server.url("/data"));
        let reading = start_with(&object, 0, &memory, Some(stream), &ReadOptions::default());
        let began = std::time::Instant::now();
        reading.fails(ErrorKind::Cuda, &["CUDA_ERROR_ILLEGAL_ADDRESS"]);
        assert!(began.elapsed() < ms(5000));
        client.client.shut_down(Some(LONG)).unwrap();
        broken.destroy();
        first.make_current();
    });
}

#[test]
fn a_driver_that_cannot_say_where_memory_is_fails_device_reads_and_not_host_reads() {
    let gpu = Gpu::new();
    let memory = DeviceMemory::new(LEN);
    let mut host = vec![0u8; 100];
    for wanted in [Memory::Auto, Memory::Cuda] {
        gpu.sim.fail("cuPointerGetAttributes", 1, false, 999);
        let error = memory.buffer(wanted, None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Cuda);
        assert!(error.message().contains("cuPointerGetAttributes"), "{error}");
    }
    gpu.sim.fail("cuPointerGetAttributes", 1, false, 999);
    // SAFETY: nothing is read into it.
    let buffer = unsafe { raskio::sys::cuda::pointer::buffer(host.as_mut_ptr().cast(), 100, Memory::Auto, None) };
    assert!(matches!(buffer, Ok(raskio::sys::mem::Buffer::Host(_))));
    memory.free();
}
