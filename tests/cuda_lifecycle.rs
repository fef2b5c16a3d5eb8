//! Shutdown, release, exit, fork, and contexts that end, all with device reads in flight: no crash, no hang, nothing left.

mod support;

use raskio::client::Client;
use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio::op::OpResult;
use raskio::sys::cuda::pointer::{self, Memory};
use raskio::sys::mem::Buffer;
use raskio_testserver::{Gate, Object, Reply, Server};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use support::cuda::{self, DeviceClient, DeviceMemory, Gpu, Sim, each_backend, read, start, start_with};
use support::{LONG, TestClient, child, config, eventually, ms};

/// Whole pages, so that buffers of this size fill a cap exactly.
const LEN: usize = 192 << 10;

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(16 << 20));
    server
}

#[test]
fn shutdown_ends_queued_device_reads_and_gives_everything_back() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, before) = (server(), gpu.sim.live());
        gpu.sim.sim_cuda_speed(2000, 0.0);
        let client = DeviceClient::new(backend, |options| {
            options.bounce_buffer_size = Some(LEN as u64);
            options.max_pinned_bytes = Some(2 * LEN as u64);
        });
        let object = client.open(&server.url("/data"));
        let blocks: Vec<_> = (0..100).map(|_| DeviceMemory::new_unfilled(LEN)).collect();
        let readings: Vec<_> = blocks.iter().map(|block| start(&object, 0, block)).collect();
        eventually("some are done", || client.stats().bytes_staged > 3 * LEN as u64);
        client.client.shut_down(Some(LONG)).unwrap();
        let ends: Vec<_> = readings.iter().map(|reading| reading.wait().error.map(|error| error.kind())).collect();
        assert!(ends.iter().all(|end| matches!(end, None | Some(ErrorKind::ShutDown))), "{ends:?}");
        assert!(ends.contains(&Some(ErrorKind::ShutDown)));
        let live = gpu.sim.live();
        assert_eq!(
            (live.pinned_bytes, live.streams, live.events),
            (before.pinned_bytes, before.streams, before.events)
        );
        let error =
            object.read(0, blocks[0].buffer(Memory::Cuda, None).unwrap(), &ReadOptions::default(), Box::new(|_| {}));
        assert_eq!(error.err().unwrap().kind(), ErrorKind::ShutDown);
        blocks.into_iter().for_each(DeviceMemory::free);
    });
}

#[test]
fn shutdown_waits_for_the_device_no_longer_than_it_may() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), DeviceClient::new(backend, |_| {}));
        let (stream, memory) = (gpu.sim.stream(), DeviceMemory::new(LEN));
        gpu.sim.sim_cuda_hold_stream(stream, 1);
        let object = client.open(&server.url("/data"));
        let reading = start_with(&object, 0, &memory, Some(stream), &ReadOptions::default());
        eventually("the copy waits for the stream", || {
            client.stats().bytes_received == LEN as u64 && gpu.sim.live().pending > 0
        });
        let error = client.client.shut_down(Some(ms(100))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(!reading.is_over(), "the device may still write");
        gpu.sim.sim_cuda_hold_stream(stream, 0);
        client.client.shut_down(Some(LONG)).unwrap();
        reading.succeeds();
        memory.assert_pattern(0);
        memory.free();
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn a_trim_right_before_the_shutdown_holds_it_up_no_more_than_anything_else() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server();
        for _ in 0..50 {
            let client = DeviceClient::new(backend, |_| {});
            read(&client.open(&server.url("/data")), 0, 100);
            client.client.trim();
            client.client.shut_down(Some(LONG)).unwrap();
        }
    });
}

#[test]
fn a_client_that_nobody_holds_finishes_its_device_reads() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, memory) = (server(), DeviceMemory::new(LEN));
        let before = gpu.sim.live();
        let (sender, done) = channel();
        {
            let client = Client::new(config(backend, |_| {}), None).unwrap();
            let object = client.open(&server.url("/data"), ObjectOptions::default()).unwrap();
            let buffer = memory.buffer(Memory::Auto, None).unwrap();
            // The last reference goes in the callback, on the stager's own thread.
            let held = client.clone();
            let done = Box::new(move |result: &OpResult<'_>| {
                let _ = sender.send((result.bytes, std::thread::current().name().map(str::to_owned)));
                drop(held);
            });
            object.read(0, buffer, &ReadOptions::default(), done).unwrap().submit();
        }
        assert_eq!(done.recv_timeout(LONG).unwrap().0, LEN as u64);
        memory.assert_pattern(0);
        eventually("everything was given back", || {
            let live = gpu.sim.live();
            (live.pinned_bytes, live.streams, live.events) == (before.pinned_bytes, before.streams, before.events)
        });
        memory.free();
    });
}

#[test]
fn a_context_that_is_destroyed_fails_its_reads_and_the_next_one_works() {
    let first = Gpu::new();
    each_backend(|backend| {
        let server = server();
        let gate = Gate::new();
        server.put("/held", Object::pattern(1 << 20));
        server.script("/held", [Reply::object().hold_body(&gate)]);
        let mut client = DeviceClient::new(backend, |options| {
            options.bounce_buffer_size = Some(LEN as u64);
            options.max_pinned_bytes = Some(2 * LEN as u64);
        });
        client.context_was_destroyed = true;
        let mut gpu = Gpu::another(0);
        let (object, held) = (client.open(&server.url("/data")), client.open(&server.url("/held")));
        let blocks: Vec<_> = (0..6).map(|_| DeviceMemory::new(LEN)).collect();
        start(&object, 0, &blocks[0]).succeeds();
        let readings: Vec<_> = blocks.iter().map(|block| start(&held, 0, block)).collect();
        eventually("two have the buffers, the others wait", || client.stats().bounce_buffers_in_use == 2);
        gpu.destroy();
        // Perhaps with the same handle.
        let another = Gpu::another(0);
        gate.open();
        for reading in &readings {
            reading.fails(ErrorKind::Cuda, &["no longer there", "/held"]);
        }
        eventually("nothing of it is left", || {
            let stats = client.stats();
            (stats.bounce_buffers_total, stats.bounce_buffers_in_use, stats.events_total) == (0, 0, 0)
        });
        read(&object, 0, LEN);
        client.client.shut_down(Some(LONG)).unwrap();
        drop(another);
        first.make_current();
    });
}

/// Nobody tells of that: it is found when another context is read into.
#[test]
fn contexts_that_are_destroyed_one_after_the_other_leave_nothing_for_long() {
    let first = Gpu::new();
    each_backend(|backend| {
        let server = server();
        let mut client = DeviceClient::new(backend, |options| options.bounce_buffer_size = Some(LEN as u64));
        client.context_was_destroyed = true;
        let object = client.open(&server.url("/data"));
        let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mut after_three = 0;
        for number in 0..20 {
            let mut gpu = Gpu::another(0);
            read(&object, 0, LEN);
            gpu.destroy();
            if number == 2 {
                after_three = files();
            }
        }
        let another = Gpu::another(0);
        read(&object, 0, LEN);
        eventually("one is left", || client.stats().bounce_buffers_total == 1);
        // The stagers of the last ones are given up with the next.
        assert!(files() <= after_three + 3, "{} files, {after_three} after the first three", files());
        client.client.shut_down(Some(LONG)).unwrap();
        drop(another);
        first.make_current();
    });
}

#[test]
fn a_context_that_is_destroyed_under_its_copies_takes_nobody_along() {
    let first = Gpu::new();
    each_backend(|backend| {
        for round in 0..10 {
            let server = server();
            let mut client = DeviceClient::new(backend, |options| options.task_size = Some(20_000));
            client.context_was_destroyed = true;
            let mut gpu = Gpu::another(1);
            gpu.sim.sim_cuda_speed(300, 0.0);
            let memory = DeviceMemory::new(LEN);
            let reading = start(&client.open(&server.url("/data")), 0, &memory);
            std::thread::sleep(Duration::from_micros(400 * round));
            gpu.destroy();
            let outcome = reading.wait();
            if let Some(error) = outcome.error {
                assert_eq!(error.kind(), ErrorKind::Cuda, "{error}");
            }
            client.client.shut_down(Some(LONG)).unwrap();
            first.make_current();
        }
    });
}

/// Runs `inside` in a process of its own, with the URL of a server that stays here.
fn with_server(test: &str, inside: impl FnOnce(&str)) {
    if child::is_child() {
        return inside(&std::env::var("URL").expect("a URL"));
    }
    let server = server();
    let directory = cuda::installed(test, &[]);
    let mut command = child::again(test);
    cuda::with_driver(&mut command, &directory);
    let output = child::run(command.env("URL", server.url("")));
    std::fs::remove_dir_all(directory).expect("removing the copy of the driver");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
}

#[test]
fn the_process_may_exit_with_device_reads_in_flight() {
    with_server("the_process_may_exit_with_device_reads_in_flight", |url| {
        let gpu = std::mem::ManuallyDrop::new(Gpu::new());
        gpu.sim.sim_cuda_speed(1000, 0.0);
        for backend in [Backend::EasyThreadpool, Backend::MultiPoll] {
            let client = std::mem::ManuallyDrop::new(DeviceClient::new(backend, |options| {
                options.task_size = Some(10_000);
            }));
            let object = std::mem::ManuallyDrop::new(client.open(&format!("{url}/data")));
            for _ in 0..4 {
                let memory = DeviceMemory::new_unfilled(8 << 20);
                let buffer = memory.buffer(Memory::Cuda, None).unwrap();
                let done = |_: &OpResult<'_>| assert!(!raskio_is_exiting(), "a callback after the exit began");
                object.read(0, buffer, &ReadOptions::default(), Box::new(done)).unwrap().submit();
            }
        }
        std::thread::sleep(ms(50));
        EXITING.store(true, std::sync::atomic::Ordering::SeqCst);
        std::process::exit(0);
    });
}

static EXITING: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// A callback may be under way when `exit` is called, but not for long.
fn raskio_is_exiting() -> bool {
    let was = EXITING.load(std::sync::atomic::Ordering::SeqCst);
    if was {
        std::thread::sleep(ms(1));
    }
    false
}

/// Runs `body` in a forked child, which must end well and soon.
#[track_caller]
fn forked(body: impl FnOnce()) {
    // SAFETY: as in tests/fork.rs.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(40) };
        let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(if fine { 0 } else { 101 }) };
    }
    let (mut status, end) = (0, Instant::now() + LONG);
    // SAFETY: one writable int is passed.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        assert!(Instant::now() < end, "the forked child hangs");
        std::thread::sleep(ms(2));
    }
    assert_eq!(status, 0, "the forked child failed: status {status:#x}");
}

/// In the child: host reads work, device memory is refused with words about the fork, however it is named.
fn a_child_reads_into_host_memory_only(url: &str, memory: &DeviceMemory, words: &str) {
    for backend in [Backend::EasyThreadpool, Backend::MultiPoll] {
        let client = TestClient::new(backend);
        let object = client.open(&format!("{url}/data"));
        let mut host = vec![0; LEN];
        // SAFETY: the read into it is waited for.
        let buffer = unsafe { pointer::buffer(host.as_mut_ptr().cast(), LEN as u64, Memory::Auto, None) }.unwrap();
        assert!(matches!(buffer, Buffer::Host(_)));
        object.read_sync(0, buffer, &ReadOptions::default()).unwrap();
        assert!(host == raskio_testserver::pattern_at(0, LEN)[..]);
    }
    for wanted in [Memory::Auto, Memory::Cuda] {
        let error = memory.buffer(wanted, None).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Cuda, "{error}");
        assert!(wanted == Memory::Auto && words.is_empty() || error.message().contains("fork"), "{error}");
    }
}

#[test]
fn a_forked_child_is_told_that_cuda_cannot_be_used_there() {
    with_server("a_forked_child_is_told_that_cuda_cannot_be_used_there", |url| {
        let gpu = Gpu::new();
        gpu.sim.sim_cuda_speed(1000, 0.0);
        for backend in [Backend::EasyThreadpool, Backend::MultiPoll] {
            let client = Client::new(config(backend, |options| options.task_size = Some(20_000)), None).unwrap();
            let object = client.open(&format!("{url}/data"), ObjectOptions::default()).unwrap();
            let (memory, busy) = (DeviceMemory::new(LEN), DeviceMemory::new(4 << 20));
            read(&object, 0, LEN);
            // One in flight, in every stage.
            let reading = start(&object, 0, &busy);
            std::thread::sleep(ms(20));
            let mut handles = Some((client, object));
            forked(|| {
                a_child_reads_into_host_memory_only(url, &memory, "fork");
                let (client, object) = handles.take().unwrap();
                assert_eq!(client.check_process().unwrap_err().kind(), ErrorKind::Forked);
                // The last release, without a word to the driver.
                drop(object);
                drop(client);
            });
            reading.succeeds();
            busy.assert_pattern(0);
            let (client, object) = handles.take().unwrap();
            read(&object, 0, LEN);
            memory.free();
            busy.free();
            client.shut_down(Some(LONG)).unwrap();
        }
    });
}

#[test]
fn a_child_of_a_process_that_used_cuda_by_itself_is_told_too() {
    with_server("a_child_of_a_process_that_used_cuda_by_itself_is_told_too", |url| {
        let _gpu = Gpu::new();
        let memory = DeviceMemory::new(LEN);
        forked(|| a_child_reads_into_host_memory_only(url, &memory, ""));
        assert!(memory.buffer(Memory::Auto, None).is_ok());
        assert!(Sim::get().live().contexts > 0);
        memory.free();
    });
}
