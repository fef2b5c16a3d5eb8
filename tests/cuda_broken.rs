//! A CUDA context that fails for good, or goes, while reads of it run: they end with CUDA's error, so do the client and the
//! process, and reads of other contexts go on.

mod support;

use raskio::error::{Error, ErrorKind};
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::{Object, Server};
use std::time::Instant;
use support::cuda::{
    self, DeviceClient, DeviceMemory, Gpu, each_backend, read, start, start_with, start_write, try_start,
};
use support::{LONG, child, eventually};

/// Whole pages, so that buffers of this size fill a cap exactly.
const LEN: usize = 192 << 10;
const INVALID_CONTEXT: i32 = 201;
const ILLEGAL_ADDRESS: i32 = 700;
const LAUNCH_FAILED: i32 = 719;

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(16 << 20));
    server
}

/// With room for two buffers.
fn client_of_two(backend: raskio::config::Backend) -> DeviceClient {
    DeviceClient::new(backend, |options| {
        options.bounce_buffer_size = Some(LEN as u64);
        options.max_pinned_bytes = Some(2 * LEN as u64);
    })
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the descriptors").count()
}

/// Breaks `gpu` once reads have copies in it and others wait for their buffers; those reads.
fn broken_under_reads(
    gpu: &Gpu,
    client: &DeviceClient,
    server: &Server,
    stream: Option<usize>,
    code: i32,
) -> Vec<cuda::DeviceReading> {
    let object = client.open(&server.url("/data"));
    let blocks: Vec<_> = (0..6).map(|_| DeviceMemory::new_unfilled(LEN)).collect();
    gpu.sim.sim_cuda_hold_all(1);
    let options = ReadOptions::default();
    let readings: Vec<_> = blocks.iter().map(|block| start_with(&object, 0, block, stream, &options)).collect();
    // One or two: a stager that waits for a copy of its own pins no second buffer meanwhile.
    eventually("a copy is on its way, and other reads wait", || {
        client.stats().bytes_received >= LEN as u64 && gpu.sim.live().pending >= 2
    });
    assert_eq!(gpu.sim.sim_cuda_poison(gpu.context, code), 0);
    readings
}

#[test]
fn reads_of_a_context_that_breaks_end_with_its_error_and_others_go_on() {
    let first = Gpu::new();
    each_backend(|backend| {
        for (on_stream, code, name, text) in [
            (false, LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
            (true, ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"),
        ] {
            let files_before = files();
            let server = server();
            let mut client = client_of_two(backend);
            client.context_was_destroyed = true;
            let mut gpu = Gpu::another(1);
            let stream = on_stream.then(|| gpu.sim.stream());
            let before = gpu.sim.live();
            let readings = broken_under_reads(&gpu, &client, &server, stream, code);
            for reading in &readings {
                reading.fails(ErrorKind::Cuda, &[name, text, &format!("({code})"), "/data"]);
            }
            gpu.sim.sim_cuda_hold_all(0);
            // It was given back: this driver takes it after such an error. A buffer whose request received just then stays.
            eventually("nothing of it is left", || {
                let (stats, live) = (client.stats(), gpu.sim.live());
                (stats.bounce_buffers_total, stats.bounce_buffers_in_use, stats.events_total) == (0, 0, 0)
                    && (live.streams, live.events) == (before.streams, before.events)
                    && live.pinned_buffers <= before.pinned_buffers + 1
            });
            let object = client.open(&server.url("/data"));
            first.make_current();
            read(&object, 0, LEN);
            support::start(&object, 0, LEN).succeeds();
            client.client.shut_down(Some(LONG)).unwrap();
            drop((client, object, server));
            gpu.destroy();
            eventually("no descriptor is left", || files() <= files_before);
        }
    });
}

#[test]
fn a_read_into_a_broken_context_is_refused_at_once_with_its_error() {
    let first = Gpu::new();
    each_backend(|backend| {
        for on_stream in [false, true] {
            let (server, mut client) = (server(), client_of_two(backend));
            client.context_was_destroyed = true;
            let mut gpu = Gpu::another(1);
            let stream = on_stream.then(|| gpu.sim.stream());
            let block = DeviceMemory::new_unfilled(LEN);
            for reading in broken_under_reads(&gpu, &client, &server, stream, LAUNCH_FAILED) {
                reading.wait();
            }
            gpu.sim.sim_cuda_hold_all(0);
            let object = client.open(&server.url("/data"));
            let received = client.stats().bytes_received;
            for _ in 0..3 {
                let options = ReadOptions::default();
                let error = try_start(&object, 0, &block, stream, &options).err().expect("refused");
                assert_eq!(error.kind(), ErrorKind::Cuda);
                assert!(error.message().contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{error}");
                assert!(on_stream || error.message().contains("start the process anew"), "{error}");
            }
            // A client that has never seen it finds out by itself, and receives nothing for it either.
            let mut another = client_of_two(backend);
            another.context_was_destroyed = true;
            let unseen = another.open(&server.url("/data"));
            let error = match try_start(&unseen, 0, &block, stream, &ReadOptions::default()) {
                Ok(reading) => reading.fails(ErrorKind::Cuda, &[]),
                Err(error) => error,
            };
            assert!(error.message().contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{error}");
            assert_eq!((client.stats().bytes_received, another.stats().bytes_received), (received, 0));
            drop((client, another));
            gpu.destroy();
            first.make_current();
        }
    });
}

/// Nobody can say that the driver has forgotten them. Nor is a copy torn down that runs all the same, in a context that is well.
#[test]
fn buffers_of_a_context_that_cannot_even_be_entered_stay_as_they_are() {
    let first = Gpu::new();
    each_backend(|backend| {
        for poisoned in [true, false] {
            let (server, mut client) = (server(), client_of_two(backend));
            client.context_was_destroyed = true;
            let mut gpu = Gpu::another(1);
            let before = gpu.sim.live();
            let object = client.open(&server.url("/data"));
            let blocks: Vec<_> = (0..6).map(|_| DeviceMemory::new_unfilled(LEN)).collect();
            gpu.sim.sim_cuda_hold_all(1);
            let readings: Vec<_> = blocks.iter().map(|block| start(&object, 0, block)).collect();
            eventually("a copy is on its way", || gpu.sim.live().pending >= 2);
            gpu.sim.fail("cuCtxPushCurrent", 1, true, LAUNCH_FAILED);
            if poisoned {
                gpu.sim.sim_cuda_poison(gpu.context, LAUNCH_FAILED);
            } else {
                // The wait for the copy ends, as a driver in trouble lets it.
                gpu.sim.fail("cuEventQuery", 1, true, LAUNCH_FAILED);
                gpu.sim.sim_cuda_speed(300_000, 0.0);
                gpu.sim.sim_cuda_hold_all(0);
            }
            for reading in &readings {
                let outcome = reading.wait();
                // The first copy may have been done before anybody looked.
                assert!(!poisoned || outcome.error.is_some());
                if let Some(error) = outcome.error {
                    assert!(error.message().contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
                }
            }
            client.client.shut_down(Some(LONG)).unwrap();
            assert_eq!(client.stats().pinned_bytes, 0);
            let kept = gpu.sim.live().pinned_buffers - before.pinned_buffers;
            assert!((1..=2).contains(&kept), "{kept} buffers stay");
            for call in ["cuCtxPushCurrent", "cuEventQuery"] {
                gpu.sim.fail(call, 1, false, 0);
            }
            eventually("the driver has nothing to do", || gpu.sim.live().pending == 0);
            gpu.sim.sim_cuda_speed(0, 0.0);
            gpu.destroy();
            first.make_current();
        }
    });
}

#[test]
fn every_context_of_a_process_may_break_and_the_client_ends_and_reads_into_host_memory() {
    let first = Gpu::new();
    each_backend(|backend| {
        let (server, mut client) = (server(), client_of_two(backend));
        client.context_was_destroyed = true;
        let mut gpus = [Gpu::another(0), Gpu::another(1)];
        let object = client.open(&server.url("/data"));
        gpus[0].sim.sim_cuda_speed(20_000, 0.0);
        let readings: Vec<_> = (0..8)
            .map(|number| {
                gpus[number % 2].make_current();
                start(&object, 0, &DeviceMemory::new_unfilled(LEN))
            })
            .collect();
        eventually("copies are on their way", || gpus[0].sim.live().pending > 0);
        for gpu in &gpus {
            gpu.sim.sim_cuda_poison(gpu.context, ILLEGAL_ADDRESS);
        }
        let ends: Vec<_> = readings.iter().map(|reading| reading.wait().error).collect();
        assert!(ends.iter().flatten().all(|error| error.message().contains("CUDA_ERROR_ILLEGAL_ADDRESS")), "{ends:?}");
        assert!(ends.iter().flatten().count() > 0);
        support::start(&object, 0, LEN).succeeds();
        client.client.shut_down(Some(LONG)).unwrap();
        gpus[0].sim.sim_cuda_speed(0, 0.0);
        gpus.iter_mut().for_each(Gpu::destroy);
        first.make_current();
    });
}

#[test]
fn a_write_out_of_a_context_that_breaks_ends_with_its_error() {
    let first = Gpu::new();
    each_backend(|backend| {
        let mut client = client_of_two(backend);
        client.context_was_destroyed = true;
        let path = std::env::temp_dir().join(format!("raskio-broken-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let options = ObjectOptions { writable: true, ..Default::default() };
        let object = client.client.open(path.to_str().unwrap(), options).unwrap();
        let mut gpu = Gpu::another(1);
        let blocks: Vec<_> = (0..4).map(|_| DeviceMemory::new_unfilled(LEN)).collect();
        gpu.sim.sim_cuda_hold_all(1);
        let writing: Vec<_> = blocks.iter().map(|block| start_write(&object, 0, block, None)).collect();
        eventually("a copy is on its way", || gpu.sim.live().pending >= 2);
        gpu.sim.sim_cuda_poison(gpu.context, LAUNCH_FAILED);
        for writing in &writing {
            writing.fails(ErrorKind::Cuda, &["CUDA_ERROR_LAUNCH_FAILED"]);
        }
        gpu.sim.sim_cuda_hold_all(0);
        client.client.shut_down(Some(LONG)).unwrap();
        gpu.destroy();
        first.make_current();
        std::fs::remove_file(path).unwrap();
    });
}

/// Neither the exit handler nor the driver's own end waits for what will never be done; and the log stays short.
#[test]
fn a_process_whose_context_breaks_exits_and_says_it_once() {
    const TEST: &str = "a_process_whose_context_breaks_exits_and_says_it_once";
    if child::is_child() {
        let gpu = std::mem::ManuallyDrop::new(Gpu::new());
        let server = server();
        let client = std::mem::ManuallyDrop::new(client_of_two(raskio::config::Backend::MultiPoll));
        let readings = broken_under_reads(&gpu, &client, &server, None, LAUNCH_FAILED);
        if std::env::var_os("WAIT").is_some() {
            readings.iter().for_each(|reading| drop(reading.fails(ErrorKind::Cuda, &["CUDA_ERROR_LAUNCH_FAILED"])));
            client.client.shut_down(Some(LONG)).unwrap();
        }
        std::process::exit(0);
    }
    for wait in [false, true] {
        let directory = cuda::installed(TEST, &[]);
        let mut command = child::again(TEST);
        cuda::with_driver(&mut command, &directory);
        if wait {
            command.env("WAIT", "1");
        }
        let (began, output) = (Instant::now(), child::run(command.env("RUST_LOG", "warn")));
        std::fs::remove_dir_all(directory).expect("removing the copy of the driver");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{err}", output.status);
        assert!(began.elapsed() < LONG);
        let told = err.lines().filter(|line| line.contains("CUDA_ERROR_LAUNCH_FAILED")).count();
        assert!(told == 1 || !wait && told == 0, "told {told} times:\n{err}");
    }
}

/// What a context that goes, or breaks, right before the nth call of the driver leads to, for each n until nothing is left to do.
#[track_caller]
fn at_each_call(code: i32, allowed: impl Fn(&Error) -> bool) {
    let first = Gpu::new();
    each_backend(|backend| {
        for on_stream in [false, true] {
            let (mut failed, mut succeeded) = (0, 0);
            for nth in 1..=90 {
                let (server, mut client) = (server(), client_of_two(backend));
                client.context_was_destroyed = true;
                let mut gpu = Gpu::another(1);
                let object = client.open(&server.url("/data"));
                let stream = on_stream.then(|| gpu.sim.stream());
                let block = DeviceMemory::new_unfilled(2 * LEN);
                gpu.sim.sim_cuda_speed(500, 0.0);
                assert_eq!(gpu.sim.sim_cuda_end_at(gpu.context, nth, code), 0);
                let error = match try_start(&object, 0, &block, stream, &ReadOptions::default()) {
                    Ok(reading) => reading.wait().error,
                    Err(error) => Some(error),
                };
                match error {
                    None => succeeded += 1,
                    Some(error) => {
                        assert!(allowed(&error), "at call {nth}: {error}");
                        failed += 1;
                    }
                }
                client.client.shut_down(Some(LONG)).unwrap_or_else(|error| panic!("at call {nth}: {error}"));
                gpu.sim.sim_cuda_end_at(0, 0, 0);
                drop(client);
                if code != 0 || gpu.sim.live().contexts > 1 {
                    gpu.destroy();
                } else {
                    gpu.forget();
                }
                first.make_current();
            }
            assert!(failed > 10 && succeeded > 0, "{failed} failed, {succeeded} succeeded");
        }
    });
}

#[test]
fn a_context_that_goes_at_any_call_ends_its_reads() {
    at_each_call(0, |error| {
        let message = error.message();
        // Its memory is unknown to the driver then.
        message.contains("the driver does not know it")
            || message.contains("that no CUDA driver knows")
            || message.contains("CUDA_ERROR_CONTEXT_IS_DESTROYED")
            || message.contains("CUDA_ERROR_INVALID_CONTEXT")
    });
}

#[test]
fn a_context_that_breaks_at_any_call_ends_its_reads() {
    at_each_call(LAUNCH_FAILED, |error| {
        error.kind() == ErrorKind::Cuda && error.message().contains("CUDA_ERROR_LAUNCH_FAILED")
    });
}

/// A mistake of one call, while the context is well: its read fails, and the next ones do not.
#[test]
fn an_error_that_the_context_does_not_repeat_breaks_nothing() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let (server, client) = (server(), client_of_two(backend));
        let object = client.open(&server.url("/data"));
        read(&object, 0, LEN);
        for call in ["cuEventQuery", "cuEventRecord", "cuMemcpyHtoDAsync", "cuCtxPushCurrent", "cuCtxGetId"] {
            for code in [ILLEGAL_ADDRESS, LAUNCH_FAILED, INVALID_CONTEXT] {
                gpu.sim.fail(call, 1, false, code);
                let block = DeviceMemory::new(LEN);
                if let Ok(reading) = try_start(&object, 0, &block, None, &ReadOptions::default()) {
                    reading.wait();
                }
                gpu.sim.fail(call, 1, false, 0);
                block.free();
                read(&object, 0, LEN);
            }
        }
    });
}
