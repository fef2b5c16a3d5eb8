//! Case 33 and its kin: few pinned buffers, many requests. Nobody starves, nobody polls, nothing is left behind.

mod support;

use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio::sys::cuda::PinnedPool;
use raskio_testserver::{Gate, Object, Reply, Server, get};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use support::cuda::{DeviceClient, DeviceMemory, Gpu, Sim, each_backend, read, start, start_with};
use support::{eventually, ms};

const PIECE: usize = 128 << 10;

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(16 << 20));
    server.put("/host", Object::pattern(PIECE as u64));
    server
}

/// A client with so many buffers.
fn client_of(backend: raskio::config::Backend, buffers: usize) -> DeviceClient {
    DeviceClient::new(backend, |options| {
        options.task_size = Some(PIECE as u64);
        options.bounce_buffer_size = Some(PIECE as u64);
        options.max_pinned_bytes = Some((buffers * PIECE) as u64);
    })
}

/// Case 33.
#[test]
fn a_thousand_reads_share_two_buffers_beside_a_busy_stream() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of(backend, 2));
        let object = client.open(&server.url("/data"));
        let (stream, busy) = (gpu.sim.stream(), DeviceMemory::new(PIECE));
        gpu.sim.sim_cuda_hold_stream(stream, 1);
        assert_eq!(gpu.sim.cuMemsetD8Async(busy.address(), 1, PIECE, stream), 0);
        let blocks: Vec<_> = (0..1000).map(|_| DeviceMemory::new_unfilled(4096)).collect();
        let readings: Vec<_> = blocks.iter().zip(0..).map(|(block, i)| start(&object, i * 4096, block)).collect();
        readings.iter().for_each(|reading| drop(reading.succeeds()));
        let stats = client.stats();
        assert_eq!((stats.requests_finished, stats.bytes_staged), (1000, 1000 * 4096));
        assert!(stats.pinned_bytes <= 2 * PIECE as u64, "{stats:?}");
        assert!(stats.bounce_buffer_waits > 0);
        gpu.sim.sim_cuda_hold_stream(stream, 0);
        for (block, i) in blocks.into_iter().zip(0..) {
            block.assert_inside(i * 4096);
            block.free();
        }
        busy.free();
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn requests_larger_than_all_buffers_together_are_served_a_few_at_a_time() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of(backend, 2));
        read(&client.open(&server.url("/data")), 3, 8 << 20);
        let stats = client.stats();
        assert_eq!((stats.bounce_buffers_total, stats.pinned_bytes), (2, 2 * PIECE as u64));
    });
}

#[test]
fn buffers_are_pinned_as_load_asks_for_them_and_trim_gives_them_back() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of(backend, 8));
        let before = gpu.sim.live();
        let object = client.open(&server.url("/data"));
        for _ in 0..4 {
            read(&object, 0, PIECE);
        }
        assert_eq!(client.stats().bounce_buffers_total, 1, "one request at a time needs one buffer");
        assert_eq!(gpu.sim.live().pinned_bytes - before.pinned_bytes, PIECE as u64);
        client.client.trim();
        eventually("the buffer was given back", || client.stats().bounce_buffers_total == 0);
        assert_eq!(gpu.sim.live().pinned_bytes, before.pinned_bytes);
        assert_eq!(client.stats().events_total, 0);
        read(&object, 0, PIECE);
    });
}

#[test]
fn a_request_that_waits_for_a_buffer_does_not_hold_up_one_that_needs_none() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of(backend, 1));
        let (device, host) = (client.open(&server.url("/data")), client.open(&server.url("/host")));
        gpu.sim.sim_cuda_hold_all(1);
        let blocks: Vec<_> = (0..20).map(|_| DeviceMemory::new_unfilled(PIECE)).collect();
        let readings: Vec<_> = blocks.iter().map(|block| start(&device, 0, block)).collect();
        eventually("the only buffer is full", || client.stats().bytes_received == PIECE as u64);
        for _ in 0..3 {
            support::read(&host, 0, PIECE);
        }
        assert!(readings.iter().all(|reading| !reading.is_over()));
        assert_eq!(server.log().iter().filter(|request| request.path() == "/data").count(), 1);
        gpu.sim.sim_cuda_hold_all(0);
        readings.iter().for_each(|reading| drop(reading.succeeds()));
        blocks.into_iter().for_each(DeviceMemory::free);
    });
}

/// Reactors that share what there is, and a budget that reads of device memory could fill.
#[test]
fn a_host_read_does_not_wait_for_the_device_reads_before_it() {
    let gpu = Gpu::new();
    for reactors in [1, 4] {
        let server = server();
        let client = DeviceClient::new(raskio::config::Backend::MultiPoll, |options| {
            options.num_reactors = Some(reactors);
            options.max_concurrent_requests = Some(16);
            options.concurrency = Some(raskio::config::Concurrency::Fixed);
            options.task_size = Some(PIECE as u64);
            options.bounce_buffer_size = Some(PIECE as u64);
            options.max_pinned_bytes = Some(4 * PIECE as u64);
        });
        let (device, host) = (client.open(&server.url("/data")), client.open(&server.url("/host")));
        read(&device, 0, PIECE);
        // 200 copies of 20 ms on one stream.
        gpu.sim.sim_cuda_speed(20_000, 0.0);
        let blocks: Vec<_> = (0..200).map(|_| DeviceMemory::new_unfilled(4096)).collect();
        let readings: Vec<_> = blocks.iter().map(|block| start(&device, 0, block)).collect();
        support::read(&host, 0, PIECE);
        let (finished, all) = (client.stats().ops_finished, 202);
        assert!(finished < all - 100, "{reactors} reactors: {finished} of {all} reads came before it");
        gpu.sim.sim_cuda_speed(0, 0.0);
        readings.iter().for_each(|reading| drop(reading.succeeds()));
        blocks.into_iter().for_each(DeviceMemory::free);
    }
}

/// Both buffers are handed to the two that wait at a reactor which is to have no request more, while another reactor and a
/// permit are free, and that one has two of its own in line.
#[test]
fn requests_that_are_handed_buffers_start_wherever_a_permit_is_free() {
    let gpu = Gpu::new();
    for _ in 0..3 {
        let (server, never) = (server(), Gate::new());
        server.put("/closes", Object::pattern(1 << 20));
        // No idle connection, over which there would be room for one more.
        server.script("/closes", [Reply::object().announce_close()]);
        server.put("/never", Object::pattern(100));
        server.script("/never", [Reply::object().hold(&never)]);
        let client = DeviceClient::new(raskio::config::Backend::MultiPoll, |options| {
            options.num_reactors = Some(2);
            options.max_concurrent_requests = Some(2);
            options.concurrency = Some(raskio::config::Concurrency::Fixed);
            options.task_size = Some(PIECE as u64);
            options.bounce_buffer_size = Some(PIECE as u64);
            options.max_pinned_bytes = Some(2 * PIECE as u64);
        });
        let [closes, never_answers] = ["/closes", "/never"].map(|path| client.open(&server.url(path)));
        let stream = gpu.sim.stream();
        gpu.sim.sim_cuda_hold_stream(stream, 1);
        let blocks: Vec<_> = (0..6).map(|_| DeviceMemory::new_unfilled(PIECE)).collect();
        let options = ReadOptions::default();
        let held: Vec<_> =
            blocks[..2].iter().map(|block| start_with(&closes, 0, block, Some(stream), &options)).collect();
        eventually("both buffers are in use", || client.stats().bytes_received == 2 * PIECE as u64);
        // One after the other, so that each reactor gets its part.
        let after_the_last = || std::thread::sleep(ms(20));
        let wait = |block| (start(&closes, 0, block), after_the_last()).0;
        let waiting: Vec<_> = blocks[2..].iter().map(wait).collect();
        let mut stalled = [0, 1].map(|_| (support::start(&never_answers, 0, 100), after_the_last()).0);
        eventually("each reactor has one", || client.stats().requests_in_flight == 2);
        stalled[1].op.cancel();
        eventually("one of them has none", || client.stats().requests_in_flight == 1);
        gpu.sim.sim_cuda_hold_stream(stream, 0);
        held.iter().chain(&waiting).for_each(|reading| drop(reading.succeeds()));
        assert!(!stalled[0].is_over(), "they waited for a request that was given up");
        never.open();
        stalled.iter_mut().for_each(|reading| drop(reading.wait()));
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
        blocks.into_iter().for_each(DeviceMemory::free);
    }
}

#[test]
fn a_blocked_stream_keeps_its_own_buffers_and_no_others() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of(backend, 3));
        let (object, stream) = (client.open(&server.url("/data")), gpu.sim.stream());
        gpu.sim.sim_cuda_hold_stream(stream, 1);
        let blocked: Vec<_> = (0..2).map(|_| DeviceMemory::new(PIECE)).collect();
        let open: Vec<_> = (0..10).map(|_| DeviceMemory::new(PIECE)).collect();
        let options = ReadOptions::default();
        let wait: Vec<_> = blocked.iter().map(|block| start_with(&object, 1, block, Some(stream), &options)).collect();
        eventually("both are full", || client.stats().bytes_received == 2 * PIECE as u64);
        let others: Vec<_> = open.iter().map(|block| start(&object, 2, block)).collect();
        others.iter().for_each(|reading| drop(reading.succeeds()));
        assert!(wait.iter().all(|reading| !reading.is_over()));
        gpu.sim.sim_cuda_hold_stream(stream, 0);
        wait.iter().for_each(|reading| drop(reading.succeeds()));
        blocked.iter().for_each(|block| block.assert_pattern(1));
        open.iter().for_each(|block| block.assert_pattern(2));
        blocked.into_iter().chain(open).for_each(DeviceMemory::free);
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn buffers_go_to_those_who_wait_in_the_order_in_which_they_came() {
    let gpu = Gpu::new();
    // In the pool any thread takes what is ready, so that only the reactor's order can be seen from outside.
    let (server, client) = (server(), client_of(raskio::config::Backend::MultiPoll, 1));
    let object = client.open(&server.url("/data"));
    gpu.sim.sim_cuda_hold_all(1);
    let blocks: Vec<_> = (0..12).map(|_| DeviceMemory::new_unfilled(PIECE)).collect();
    let readings: Vec<_> = blocks.iter().zip(0..).map(|(block, i)| start(&object, i * PIECE as u64, block)).collect();
    eventually("the others are in line", || client.stats().bounce_buffer_waits >= 11);
    gpu.sim.sim_cuda_hold_all(0);
    readings.iter().for_each(|reading| drop(reading.succeeds()));
    let expected: Vec<_> = (0..12).map(|i| format!("{}-{}", i * PIECE, (i + 1) * PIECE - 1)).collect();
    assert_eq!(server.ranges(), expected);
    blocks.into_iter().for_each(DeviceMemory::free);
}

#[test]
fn contexts_do_not_starve_each_other() {
    let gpu = Gpu::new();
    let other = Gpu::another(1);
    each_backend(|backend| {
        let server = server();
        let mut client = DeviceClient::new(backend, |options| {
            options.task_size = Some(PIECE as u64);
            options.bounce_buffer_size = Some(PIECE as u64);
            options.max_pinned_bytes = Some(PIECE as u64);
            // They share what there is to do.
            options.num_reactors = Some(2);
        });
        client.context_was_destroyed = true;
        let object = client.open(&server.url("/data"));
        other.make_current();
        let theirs = DeviceMemory::new(PIECE);
        gpu.make_current();
        let (stream, ours) = (gpu.sim.stream(), DeviceMemory::new(PIECE));
        gpu.sim.sim_cuda_hold_stream(stream, 1);
        // More than the reactors would keep waiting.
        let blocked: Vec<_> =
            (0..20).map(|_| start_with(&object, 0, &ours, Some(stream), &ReadOptions::default())).collect();
        eventually("the first context has no buffer left", || client.stats().bytes_received == PIECE as u64);
        start(&object, 0, &theirs).succeeds();
        assert!(blocked.iter().all(|blocked| !blocked.is_over()));
        gpu.sim.sim_cuda_hold_stream(stream, 0);
        blocked.iter().for_each(|blocked| drop(blocked.succeeds()));
        ours.free();
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
        other.make_current();
        theirs.free();
        gpu.make_current();
        client.client.shut_down(Some(support::LONG)).unwrap();
    });
}

#[test]
fn the_permit_is_given_back_before_the_copy() {
    let gpu = Gpu::new();
    let server = server();
    let client = DeviceClient::new(raskio::config::Backend::MultiPoll, |options| {
        options.max_concurrent_requests = Some(1);
    });
    let object = client.open(&server.url("/data"));
    // The caller's: for a copy on its own stream the stager waits, and pins nothing meanwhile, which here would be for ever.
    let stream = gpu.sim.stream();
    gpu.sim.sim_cuda_hold_stream(stream, 1);
    let blocks: Vec<_> = (0..3).map(|_| DeviceMemory::new_unfilled(PIECE)).collect();
    let options = ReadOptions::default();
    let readings: Vec<_> = blocks.iter().map(|block| start_with(&object, 0, block, Some(stream), &options)).collect();
    // One request at a time in the network, three in the device's queue.
    eventually("all bytes came", || client.stats().bytes_received == 3 * PIECE as u64);
    assert_eq!(client.stats().requests_in_flight, 0);
    gpu.sim.sim_cuda_hold_stream(stream, 0);
    readings.iter().for_each(|reading| drop(reading.succeeds()));
    blocks.into_iter().for_each(DeviceMemory::free);
    assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
}

#[test]
fn a_deadline_ends_reads_that_wait_for_a_buffer() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of(backend, 1));
        let gate = Gate::new();
        server.script(get("/data"), [Reply::object().hold_body(&gate), Reply::object()]);
        let object = client.open(&server.url("/data"));
        let blocks: Vec<_> = (0..2).map(|_| DeviceMemory::new(PIECE)).collect();
        let first = start(&object, 0, &blocks[0]);
        eventually("the only buffer is taken", || server.gets() == 1);
        let options = ReadOptions { deadline: Some(ms(100)), ..ReadOptions::default() };
        let began = Instant::now();
        start_with(&object, 0, &blocks[1], None, &options).fails(ErrorKind::TimedOut, &["deadline"]);
        assert!(began.elapsed() < ms(5000));
        gate.open();
        first.succeeds();
        blocks[1].assert_untouched();
        blocks.into_iter().for_each(DeviceMemory::free);
        assert_eq!(gpu.sim.live().pending, 0);
    });
}

#[test]
fn small_and_large_requests_share_the_cap() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of(backend, 2));
        let object = client.open(&server.url("/data"));
        // Four small buffers fill the cap; a large request has two of them released.
        let small: Vec<_> = (0..40).map(|_| DeviceMemory::new(1000)).collect();
        let readings: Vec<_> = small.iter().map(|block| start(&object, 5, block)).collect();
        readings.iter().for_each(|reading| drop(reading.succeeds()));
        read(&object, 0, 2 << 20);
        let stats = client.stats();
        assert!(stats.pinned_bytes <= 2 * PIECE as u64, "{stats:?}");
        small.into_iter().for_each(|block| {
            block.assert_pattern(5);
            block.free();
        });
    });
}

static TAKEN: AtomicU64 = AtomicU64::new(0);
static RETURNED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn pool_alloc(most: *mut c_void, size: usize) -> *mut c_void {
    let mut memory = 0;
    if TAKEN.load(Ordering::SeqCst) - RETURNED.load(Ordering::SeqCst) >= most as u64
        || Sim::get().cuMemHostAlloc(&mut memory, size, 1) != 0
    {
        return std::ptr::null_mut();
    }
    TAKEN.fetch_add(1, Ordering::SeqCst);
    memory as *mut c_void
}

unsafe extern "C" fn pool_free(_: *mut c_void, memory: *mut c_void, size: usize) {
    assert_eq!(size, PIECE);
    assert_eq!(Sim::get().cuMemFreeHost(memory as usize), 0, "the context is current");
    RETURNED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn the_hosts_own_pool_is_used_and_gets_everything_back() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        // It gives three buffers, and then none: the reads go on with three.
        for most in [3, 0] {
            let server = server();
            let pool = PinnedPool { alloc: pool_alloc, free: pool_free, user_data: most as *mut c_void };
            let taken = TAKEN.load(Ordering::SeqCst);
            let registered = gpu.sim.count("cuMemHostRegister");
            let client = DeviceClient::new(backend, |options| {
                options.task_size = Some(PIECE as u64);
                options.pinned_pool = Some(pool);
            });
            let object = client.open(&server.url("/data"));
            if most == 0 {
                let block = DeviceMemory::new(PIECE);
                start(&object, 0, &block).fails(ErrorKind::OutOfMemory, &["pinned_alloc", "/data"]);
                block.free();
                assert_eq!(server.gets(), 0);
                continue;
            }
            read(&object, 0, 4 << 20);
            assert!((1..=3).contains(&(TAKEN.load(Ordering::SeqCst) - taken)));
            assert_eq!(gpu.sim.count("cuMemHostRegister"), registered);
            drop(client);
            assert_eq!(TAKEN.load(Ordering::SeqCst), RETURNED.load(Ordering::SeqCst));
        }
    });
}
