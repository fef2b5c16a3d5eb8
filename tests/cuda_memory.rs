//! Case 32: memory of each kind, of each context, on each stream; and what the caller's thread notices of it, which is nothing.

mod support;

use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio::sys::cuda::pointer::Memory;
use raskio::sys::mem::Buffer;
use raskio_testserver::{Object, Server};
use std::sync::Arc;
use support::cuda::{DeviceClient, DeviceMemory, Gpu, Kind, Sim, each_backend, start, start_with};
use support::{eventually, ms};

const LEN: usize = 300_000;
/// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
const GLOBAL: i32 = 0;

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(1 << 20));
    server
}

#[test]
fn memory_of_each_kind_gets_the_right_bytes() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        let object = client.open(&server.url("/data"));
        for kind in [Kind::Device, Kind::Managed, Kind::StreamOrdered, Kind::Pinned, Kind::Registered] {
            for memory in [Memory::Auto, Memory::Cuda] {
                let block = DeviceMemory::of(kind, LEN);
                let staged = client.stats().bytes_staged;
                let buffer = block.buffer(memory, None).unwrap();
                assert_eq!(
                    matches!(buffer, Buffer::Host(_)),
                    matches!(kind, Kind::Pinned | Kind::Registered),
                    "{kind:?}"
                );
                object.read_sync(7, buffer, &ReadOptions::default()).unwrap();
                block.assert_pattern(7);
                let copied = client.stats().bytes_staged - staged;
                assert_eq!(copied, if matches!(kind, Kind::Pinned | Kind::Registered) { 0 } else { LEN as u64 });
                block.free();
            }
        }
    });
}

#[test]
fn host_memory_needs_no_driver_and_is_refused_as_cuda_memory() {
    let gpu = Gpu::new();
    let mut host = vec![0u8; 100];
    let asks = |memory, stream: Option<usize>| {
        let stream = stream.map(|stream| stream as *mut _);
        // SAFETY: the vector outlives the buffer, which nothing reads into.
        unsafe { raskio::sys::cuda::pointer::buffer(host.as_ptr().cast_mut().cast(), 100, memory, stream) }
    };
    let before = gpu.sim.count("cuPointerGetAttributes");
    assert!(matches!(asks(Memory::Host, None), Ok(Buffer::Host(_))));
    assert_eq!(gpu.sim.count("cuPointerGetAttributes"), before, "nobody was asked");
    assert!(matches!(asks(Memory::Auto, None), Ok(Buffer::Host(_))));
    let error = asks(Memory::Cuda, None).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("not CUDA memory"), "{error}");
    for memory in [Memory::Auto, Memory::Host, Memory::Cuda] {
        let error = asks(memory, Some(0)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("RASKIO_READ_ON_STREAM"), "{error}");
    }
    host.clear();
}

#[test]
fn the_context_is_the_buffers_own_whichever_is_current() {
    let first = Gpu::new();
    each_backend(|backend| {
        let (server, mut client) = (server(), DeviceClient::new(backend, |_| {}));
        client.context_was_destroyed = true;
        let object = client.open(&server.url("/data"));
        first.make_current();
        let of_first = DeviceMemory::new(LEN);
        // Of another device.
        let second = Gpu::another(1);
        let of_second = DeviceMemory::new(LEN);
        for current in [first.context, second.context, 0] {
            first.sim.set_current(current);
            let both = [start(&object, 1, &of_first), start(&object, 2, &of_second)];
            both.iter().for_each(|reading| drop(reading.succeeds()));
            assert_eq!(first.sim.current(), current, "the caller's current context stays");
            first.make_current();
            of_first.assert_pattern(1);
            second.make_current();
            of_second.assert_pattern(2);
        }
        of_second.free();
        first.make_current();
        of_first.free();
        client.client.shut_down(Some(support::LONG)).unwrap();
    });
}

#[test]
fn memory_of_a_device_alone_is_written_in_the_current_context_or_the_primary_one() {
    let gpu = Gpu::new();
    let other = Gpu::another(1);
    gpu.make_current();
    each_backend(|backend| {
        let server = server();
        let block = DeviceMemory::of(Kind::StreamOrdered, LEN);
        for (current, primaries) in [(gpu.context, 0), (other.context, 1), (0, 1)] {
            let before = Sim::get().live();
            let client = DeviceClient::new(backend, |_| {});
            gpu.sim.set_current(current);
            let object = client.open(&server.url("/data"));
            let buffers = || [Memory::Auto, Memory::Cuda].map(|memory| block.buffer(memory, None).unwrap());
            for buffer in buffers() {
                object.read_sync(3, buffer, &ReadOptions::default()).unwrap();
            }
            assert_eq!(gpu.sim.current(), current);
            assert_eq!(gpu.sim.live().retained - before.retained, primaries, "held once, until the shutdown");
            gpu.make_current();
            block.assert_pattern(3);
        }
        block.free();
    });
}

#[test]
fn copies_on_a_callers_stream_come_after_what_it_was_given_before() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |options| options.task_size = Some(100_000)));
        let object = client.open(&server.url("/data"));
        for kind in [Kind::Device, Kind::Managed, Kind::Pinned] {
            let (stream, block) = (gpu.sim.stream(), DeviceMemory::of(kind, LEN));
            // Made and freed outside the hold: both may wait for the whole context.
            let other = DeviceMemory::new(LEN);
            gpu.sim.sim_cuda_hold_stream(stream, 1);
            // Were the copies before it, it would wipe their bytes out.
            if kind != Kind::Pinned {
                assert_eq!(gpu.sim.cuMemsetD8Async(block.address(), 0x55, LEN, stream), 0);
            }
            let reading = start_with(&object, 9, &block, Some(stream), &ReadOptions::default());
            // Its own buffers wait for it, and nobody else.
            start(&object, 0, &other).succeeds();
            std::thread::sleep(ms(30));
            assert!(!reading.is_over());
            gpu.sim.sim_cuda_hold_stream(stream, 0);
            reading.succeeds();
            block.assert_pattern(9);
            other.assert_pattern(0);
            other.free();
            assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
            block.free();
        }
        // The legacy stream, by its two names.
        for name in [0, 1] {
            let block = DeviceMemory::new(LEN);
            start_with(&object, 4, &block, Some(name), &ReadOptions::default()).succeeds();
            block.assert_pattern(4);
            block.free();
        }
    });
}

#[test]
fn a_stream_that_cannot_be_used_is_refused_at_the_call() {
    let gpu = Gpu::new();
    let other = Gpu::another(1);
    let elsewhere = gpu.sim.stream();
    gpu.make_current();
    let (block, stream) = (DeviceMemory::new(100), gpu.sim.stream());
    let ordered = DeviceMemory::of(Kind::StreamOrdered, 100);
    let refused = |block: &DeviceMemory, stream, words: &str| {
        let error = block.buffer(Memory::Auto, Some(stream)).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(words), "{error}");
    };
    refused(&block, 2, "per-thread");
    refused(&block, elsewhere, "another context or device");
    refused(&ordered, elsewhere, "another context or device");
    assert_eq!(gpu.sim.current(), gpu.context);
    // RELAXED, so that this thread's own calls below are allowed.
    assert_eq!(gpu.sim.cuStreamBeginCapture_v2(stream, 2), 0);
    refused(&block, stream, "captured");
    let mut graph = 0;
    assert_eq!(gpu.sim.cuStreamEndCapture(stream, &mut graph), 0, "the capture was not disturbed");
    // A blocking stream's capture bars the legacy stream.
    let mut blocking = 0;
    assert_eq!(gpu.sim.cuStreamCreate(&mut blocking, 0), 0);
    assert_eq!(gpu.sim.cuStreamBeginCapture_v2(blocking, 2), 0);
    refused(&block, 0, "captured");
    assert_eq!(gpu.sim.cuStreamEndCapture(blocking, &mut graph), 0, "the capture was not disturbed");
    ordered.free();
    block.free();
    other.make_current();
    gpu.make_current();
}

#[test]
fn a_stream_that_is_captured_after_the_call_fails_the_read_and_not_the_capture() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        let gate = raskio_testserver::Gate::new();
        server.script("/data", [raskio_testserver::Reply::object().hold(&gate)]);
        let (stream, block) = (gpu.sim.stream(), DeviceMemory::new(LEN));
        let reading = start_with(&client.open(&server.url("/data")), 0, &block, Some(stream), &ReadOptions::default());
        eventually("the request is there", || server.gets() == 1);
        assert_eq!(gpu.sim.cuStreamBeginCapture_v2(stream, GLOBAL), 0);
        gate.open();
        reading.fails(ErrorKind::InvalidArgument, &["captured", "/data"]);
        let mut graph = 0;
        assert_eq!(gpu.sim.cuStreamEndCapture(stream, &mut graph), 0, "the capture was not disturbed");
        block.assert_untouched();
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
        block.free();
    });
}

#[test]
fn reads_never_end_another_threads_capture() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |options| options.task_size = Some(50_000)));
        let (stream, object) = (gpu.sim.stream(), client.open(&server.url("/data")));
        let blocks: Vec<Arc<DeviceMemory>> = (0..4).map(|_| Arc::new(DeviceMemory::new(LEN))).collect();
        assert_eq!(gpu.sim.cuStreamBeginCapture_v2(stream, GLOBAL), 0);
        // Pinning, streams, events and copies, all in the time of the capture; called for on another thread.
        std::thread::scope(|scope| {
            let reads = || blocks.iter().for_each(|block| drop(start(&object, 5, block).succeeds()));
            scope.spawn(reads).join().unwrap();
        });
        let mut graph = 0;
        assert_eq!(gpu.sim.cuStreamEndCapture(stream, &mut graph), 0, "the capture was not disturbed");
        for block in blocks {
            block.assert_pattern(5);
            Arc::into_inner(block).unwrap().free();
        }
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
    });
}
