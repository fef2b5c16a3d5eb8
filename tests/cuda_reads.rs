//! A read into device memory delivers what one into host memory does, and its callback means that the bytes are there.

mod support;

use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio::op::OpResult;
use raskio::sys::cuda::pointer::Memory;
use raskio_testserver::{Object, Reply, Server, get};
use std::sync::mpsc::channel;
use std::time::Instant;
use support::cuda::{DeviceClient, DeviceMemory, Gpu, each_backend, read, start, start_with};
use support::{LONG, ms};

const MIB: usize = 1 << 20;

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len).etag("\"a\""));
    server
}

#[test]
fn every_size_around_the_pieces_arrives_whole() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(3 << 20);
        let client = DeviceClient::new(backend, |options| options.task_size = Some(256 << 10));
        let object = client.open(&server.url("/data"));
        for len in [1, 4095, 4096, 65_535, 65_537, 262_143, 262_144, 262_145, MIB, 2 * MIB + 77] {
            let before = server.gets();
            read(&object, 5, len);
            assert_eq!(server.gets() - before, len.div_ceil(256 << 10) as u64);
        }
        let stats = client.stats();
        assert_eq!(stats.bytes_staged, stats.bytes_received);
        assert_eq!(stats.bounce_buffers_in_use, 0);
    });
}

#[test]
fn a_task_larger_than_a_bounce_buffer_is_split() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(MIB as u64);
        let client = DeviceClient::new(backend, |options| {
            options.bounce_buffer_size = Some(100_000);
            options.task_size = Some(4 << 20);
        });
        read(&client.open(&server.url("/data")), 0, MIB);
        assert_eq!(server.gets(), (MIB as u64).div_ceil(100_000));
        // As an option of the read, too.
        let (object, memory) = (client.open(&server.url("/data")), DeviceMemory::new(MIB));
        let options = ReadOptions { task_size: Some(1 << 30), deadline: None };
        start_with(&object, 0, &memory, None, &options).succeeds();
        memory.assert_pattern(0);
        memory.free();
    });
}

#[test]
fn when_the_callback_comes_the_bytes_are_there() {
    let gpu = Gpu::new();
    gpu.sim.sim_cuda_speed(20_000, 0.0);
    each_backend(|backend| {
        let server = server_of(MIB as u64);
        let client = DeviceClient::new(backend, |options| options.task_size = Some(512 << 10));
        let memory = DeviceMemory::new(MIB);
        let (sender, first_byte) = channel();
        let (sim, context, last) = (gpu.sim, gpu.context, memory.address() + MIB - 1);
        let done = Box::new(move |_: &OpResult<'_>| {
            let mut byte = 0;
            // A callback may call CUDA, and finds no context but what it sets.
            let found = sim.current();
            let set = sim.cuCtxSetCurrent(context);
            let read = sim.cuMemcpyDtoH_v2(&mut byte, last, 1);
            let unset = sim.cuCtxSetCurrent(0);
            let _ = sender.send((found, set, read, unset, byte));
        });
        let object = client.open(&server.url("/data"));
        let buffer = memory.buffer(Memory::Auto, None).unwrap();
        object.read(0, buffer, &ReadOptions::default(), done).unwrap().submit();
        let expected = raskio_testserver::pattern_at(MIB as u64 - 1, 1)[0];
        assert_eq!(first_byte.recv_timeout(LONG).unwrap(), (0, 0, 0, 0, expected));
        memory.assert_pattern(0);
        memory.free();
    });
}

#[test]
fn a_read_of_nothing_needs_no_memory() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(10);
        let client = DeviceClient::new(backend, |_| {});
        let memory = DeviceMemory::new(0);
        assert_eq!(start(&client.open(&server.url("/data")), 0, &memory).succeeds().bytes, 0);
        assert_eq!(server.gets(), 0);
        memory.assert_untouched();
        memory.free();
    });
}

/// Case 2, on the device.
#[test]
fn after_a_stall_only_the_rest_is_asked_for() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(100);
        let client = DeviceClient::new(backend, |options| options.stall_timeout_ms = Some(500));
        server.script(get("/data"), [Reply::object().stall_after(7), Reply::object()]);
        let outcome = read(&client.open(&server.url("/data")), 0, 100);
        assert_eq!(server.ranges(), ["0-99", "7-99"]);
        assert_eq!(outcome.attempts, 2);
        assert_eq!(client.stats().bytes_staged, 100);
    });
}

/// Case 3, on the device.
#[test]
fn after_resets_and_early_closes_only_the_rest_is_asked_for() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(MIB as u64);
        let client = DeviceClient::new(backend, |_| {});
        let cuts = [10_000, 1, 300 << 10, 70_001].map(|n| Reply::object().close_after(n));
        server.script(get("/data"), cuts.into_iter().chain([Reply::object()]));
        let outcome = read(&client.open(&server.url("/data")), 0, MIB);
        assert_eq!(outcome.attempts, 5);
        assert_eq!(server.ranges().last().unwrap(), &format!("{}-1048575", 10_000 + 1 + (300 << 10) + 70_001));
    });
}

#[test]
fn a_request_that_fails_says_what_is_in_place() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(1000);
        let client = DeviceClient::new(backend, |options| options.max_attempts = Some(2));
        server.script(get("/data"), [Reply::object().close_after(400), Reply::close(), Reply::close()]);
        let memory = DeviceMemory::new(1000);
        let outcome = start(&client.open(&server.url("/data")), 0, &memory).wait();
        outcome.fails(ErrorKind::Connection, &["/data"]);
        assert_eq!(outcome.bytes, 400, "the prefix was copied before the second attempt");
        memory.free();
    });
}

#[test]
fn a_request_that_waits_for_its_next_attempt_holds_no_buffer() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(100_000);
        server.put("/other", Object::pattern(100_000));
        let client = DeviceClient::new(backend, |options| {
            options.bounce_buffer_size = Some(100_000);
            options.max_pinned_bytes = Some(100_000);
        });
        // Its next attempt comes in two seconds.
        let later = Reply::status(503).header("Retry-After", "2");
        server.script(get("/data"), [Reply::object().close_after(50_000), later, Reply::object()]);
        let memory = DeviceMemory::new(100_000);
        let began = Instant::now();
        let waiting = start(&client.open(&server.url("/data")), 0, &memory);
        support::eventually("the second attempt was refused", || server.gets() == 2);
        read(&client.open(&server.url("/other")), 0, 100_000);
        assert!(!waiting.is_over() && began.elapsed() < ms(1900), "the other one was first: {:?}", began.elapsed());
        waiting.succeeds();
        memory.assert_pattern(0);
        assert_eq!(client.stats().bounce_buffers_total, 1);
        memory.free();
    });
}

#[test]
fn a_cancelled_read_ends_and_its_buffers_come_back() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(MIB as u64);
        let client = DeviceClient::new(backend, |options| {
            options.bounce_buffer_size = Some(64 << 10);
            options.max_pinned_bytes = Some(128 << 10);
        });
        let object = client.open(&server.url("/data"));
        // Two buffers are full and held by the device, the rest waits for them.
        gpu.sim.sim_cuda_hold_all(1);
        let memory = DeviceMemory::new_unfilled(MIB);
        let reading = start(&object, 0, &memory);
        // Received, and in the device's hands: what the stager has not started yet ends at once.
        support::eventually("two buffers are on their way", || gpu.sim.live().pending >= 2);
        reading.op.cancel();
        std::thread::sleep(ms(50));
        assert!(!reading.is_over(), "the device may still write");
        gpu.sim.sim_cuda_hold_all(0);
        reading.fails(ErrorKind::Cancelled, &[]);
        memory.free();
        read(&object, 0, MIB);
    });
}
