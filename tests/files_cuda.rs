//! Local files are read into device memory, and written from it, through pinned buffers, which the kernel fills and reads itself.

mod support;

use raskio::config::{Backend, LocalBackend, Overrides};
use raskio::error::ErrorKind;
use raskio::object::{Object, ObjectOptions, ReadOptions};
use raskio_testserver::{pattern, pattern_at};
use std::sync::Arc;
use support::cuda::{DeviceClient, DeviceMemory, Gpu, Kind, read, start_with, start_write};
use support::files::{Directory, each_local_backend};
use support::{LONG, child, eventually, ms};

const MIB: usize = 1 << 20;

#[test]
fn every_size_around_the_pieces_arrives_whole() {
    let _gpu = Gpu::new();
    let files = Directory::new();
    let path = files.put("data", 2 * MIB as u64);
    each_local_backend(|local| {
        for direct in [None, Some(true)] {
            let client = DeviceClient::new(Backend::EasyThreadpool, |options| {
                options.local_backend = Some(local);
                options.task_size = Some(256 << 10);
            });
            let options = raskio::object::ObjectOptions { direct, ..Default::default() };
            let object = client.client.open(&path, options).unwrap();
            for (offset, len) in
                [(5, 1), (0, 4096), (1, 65_537), (4096, 262_144), (5, 262_145), (0, 2 * MIB), (77, MIB)]
            {
                read(&object, offset, len);
            }
            let stats = client.stats();
            assert_eq!(stats.bytes_staged, stats.file_bytes_read);
            assert_eq!(stats.bounce_buffers_in_use, 0);
            if local == LocalBackend::Uring {
                assert_eq!(stats.file_bytes_uring, stats.file_bytes_read);
            }
        }
    });
}

#[test]
fn two_buffers_serve_many_reads_beside_reads_into_host_memory() {
    let _gpu = Gpu::new();
    let files = Directory::new();
    let path = files.put("data", 2 * MIB as u64);
    each_local_backend(|local| {
        let client = DeviceClient::new(Backend::EasyThreadpool, |options| {
            options.local_backend = Some(local);
            options.bounce_buffer_size = Some(128 << 10);
            options.max_pinned_bytes = Some(256 << 10);
            options.task_size = Some(128 << 10);
        });
        let object = client.open(&path);
        let memory: Vec<DeviceMemory> = (0..40).map(|_| DeviceMemory::new(200_000)).collect();
        let options = ReadOptions::default();
        let mut readings: Vec<_> =
            memory.iter().zip(0..).map(|(memory, i)| start_with(&object, i * 1000, memory, None, &options)).collect();
        support::read(&object, 3, 1_000_000);
        for ((reading, memory), i) in readings.iter_mut().zip(&memory).zip(0..) {
            reading.succeeds();
            memory.assert_pattern(i * 1000);
        }
        client.client.trim();
        // Buffers that are new, at addresses that may be those of old ones.
        readings = memory.iter().map(|memory| start_with(&object, 5, memory, None, &options)).collect();
        for (reading, memory) in readings.iter_mut().zip(&memory) {
            reading.succeeds();
            memory.assert_pattern(5);
        }
        drop(readings);
        memory.into_iter().for_each(DeviceMemory::free);
        assert!(client.stats().bounce_buffer_waits > 0);
    });
}

fn client(local: LocalBackend, change: impl FnOnce(&mut Overrides)) -> DeviceClient {
    DeviceClient::new(Backend::EasyThreadpool, |options| {
        options.local_backend = Some(local);
        change(options);
    })
}

fn writable(client: &DeviceClient, path: &str, direct: Option<bool>) -> Arc<Object> {
    let options = ObjectOptions { writable: true, direct, ..Default::default() };
    client.client.open(path, options).expect("an object")
}

#[test]
fn a_write_of_no_byte_of_device_memory_makes_the_file_and_takes_no_buffer() {
    let _gpu = Gpu::new();
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, |_| {});
        let object = writable(&client, &files.path(&format!("empty-{local:?}")), None);
        let memory = DeviceMemory::new(0);
        assert_eq!(start_write(&object, 0, &memory, None).succeeds().bytes, 0);
        assert_eq!(files.get(&format!("empty-{local:?}")), b"");
        assert_eq!(client.stats().bounce_buffers_total, 0);
        memory.free();
    });
}

#[test]
fn what_is_written_from_device_memory_is_in_the_file() {
    let gpu = Gpu::new();
    let files = Directory::new();
    each_local_backend(|local| {
        for direct in [Some(false), Some(true)] {
            let client = client(local, |options| options.task_size = Some(256 << 10));
            let name = format!("written-{local:?}-{direct:?}");
            let object = writable(&client, &files.path(&name), direct);
            let mut all = 0;
            // In no order, ragged and not, of less and more than one buffer; what a stream was given before comes before.
            for (at, len, kind) in [
                (MIB, MIB, Kind::Device),
                (0, 4096, Kind::Managed),
                (4096, 1, Kind::Device),
                (4097, 262_145, Kind::StreamOrdered),
                (266_242, MIB - 266_242, Kind::Device),
                (2 * MIB, 77_777, Kind::Pinned),
                (2 * MIB + 77_777, 100_000, Kind::Registered),
            ] {
                let memory = DeviceMemory::of(kind, len).filled(at as u64);
                for stream in [None, Some(gpu.sim.stream())] {
                    let outcome = start_write(&object, at as u64, &memory, stream).succeeds();
                    assert_eq!((outcome.bytes, outcome.offset), (len as u64, at as u64));
                    assert_eq!(stream.map_or(0, |stream| gpu.sim.cuStreamDestroy_v2(stream)), 0);
                    all += len;
                }
                memory.assert_pattern(at as u64);
                memory.free();
            }
            assert!(files.get(&name) == pattern(2 * MIB + 177_777), "{name}");
            let stats = client.stats();
            assert_eq!(stats.file_bytes_written, all as u64);
            // Without a stream, host memory that the driver knows needs no copy.
            assert_eq!(stats.bytes_staged, (all - 177_777) as u64);
            assert_eq!(stats.bounce_buffers_in_use, 0);
            assert!(stats.file_bytes_written_direct == 0 || direct == Some(true));
            if local == LocalBackend::Uring {
                assert_eq!(stats.file_bytes_uring, stats.file_bytes_written);
            }
        }
    });
}

#[test]
fn two_buffers_serve_many_writes_beside_reads() {
    let _gpu = Gpu::new();
    let files = Directory::new();
    let path = files.put("data", 2 * MIB as u64);
    each_local_backend(|local| {
        let client = client(local, |options| {
            options.bounce_buffer_size = Some(128 << 10);
            options.max_pinned_bytes = Some(256 << 10);
            options.task_size = Some(128 << 10);
        });
        let name = format!("many-{local:?}");
        let (object, other) = (writable(&client, &files.path(&name), None), client.open(&path));
        let (len, pieces) = (200_000, 40);
        let memory: Vec<_> = (0..pieces).map(|i| DeviceMemory::new(len).filled(i * len as u64)).collect();
        let targets: Vec<_> = (0..10).map(|_| DeviceMemory::new(len)).collect();
        let writes: Vec<_> =
            memory.iter().zip(0..).map(|(memory, i)| start_write(&object, i * len as u64, memory, None)).collect();
        let reads: Vec<_> =
            targets.iter().map(|memory| start_with(&other, 5, memory, None, &ReadOptions::default())).collect();
        writes.iter().for_each(|write| drop(write.succeeds()));
        reads.iter().for_each(|read| drop(read.succeeds()));
        targets.iter().for_each(|memory| memory.assert_pattern(5));
        assert!(files.get(&name) == pattern(len * pieces as usize));
        let stats = client.stats();
        assert!(stats.bounce_buffer_waits > 0 && stats.pinned_bytes <= 256 << 10, "{stats:?}");
        memory.into_iter().chain(targets).for_each(DeviceMemory::free);
    });
}

#[test]
fn each_step_that_fails_fails_its_write_by_name_and_writes_nothing() {
    const OUT_OF_MEMORY: i32 = 2;
    const ILLEGAL_ADDRESS: i32 = 700;
    let gpu = Gpu::new();
    let files = Directory::new();
    each_local_backend(|local| {
        for (call, code, name) in [
            ("cuMemHostRegister", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
            ("cuStreamCreate", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
            ("cuMemcpyDtoHAsync", ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"),
            ("cuEventCreate", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
            ("cuEventRecord", ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"),
            ("cuEventQuery", ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ] {
            let client = client(local, |_| {});
            let path = files.path(&format!("failed-{local:?}-{call}"));
            let (object, memory) = (writable(&client, &path, None), DeviceMemory::new(200_000).filled(0));
            gpu.sim.fail(call, 1, false, code);
            let outcome = start_write(&object, 0, &memory, None).wait();
            outcome.fails(ErrorKind::Cuda, &[call, name, &path]);
            assert_eq!((outcome.bytes, client.stats().requests_failed), (0, 1), "{call}");
            assert_eq!(client.stats().bounce_buffers_in_use, 0, "{call}");
            assert!(std::fs::read(&path).unwrap().is_empty(), "{call}");
            start_write(&object, 0, &memory, None).succeeds();
            assert!(std::fs::read(&path).unwrap() == pattern(200_000));
            memory.free();
        }
    });
}

/// The device may still write the buffer: what another request reads from it would be those bytes.
#[test]
fn a_buffer_that_the_driver_says_nothing_about_is_not_written_from() {
    let gpu = Gpu::new();
    let files = Directory::new();
    each_local_backend(|local| {
        let mut client = client(local, |options| {
            options.bounce_buffer_size = Some(1 << 18);
            options.max_pinned_bytes = Some(1 << 18);
        });
        client.context_was_destroyed = true;
        let before = gpu.sim.live().pinned_buffers;
        let path = files.path(&format!("unknown-{local:?}"));
        let (object, memory) = (writable(&client, &path, None), DeviceMemory::new(200_000).filled(0));
        gpu.sim.sim_cuda_speed(200_000, 0.0);
        gpu.sim.fail("cuEventQuery", 1, false, 2);
        gpu.sim.fail("cuStreamQuery", 1, false, 2);
        start_write(&object, 0, &memory, None).fails(ErrorKind::Cuda, &["cuStreamQuery", &path]);
        assert_eq!(client.stats().bounce_buffers_in_use, 0);
        gpu.sim.sim_cuda_speed(0, 0.0);
        std::thread::sleep(ms(250));
        start_write(&object, 0, &memory, None).succeeds();
        assert!(std::fs::read(&path).unwrap() == pattern(200_000));
        memory.free();
        client.client.shut_down(Some(LONG)).unwrap();
        assert_eq!(gpu.sim.live().pinned_buffers, before + 1, "it stays as it is");
    });
}

#[test]
fn a_write_on_a_stream_waits_for_it_also_when_it_is_cancelled() {
    let gpu = Gpu::new();
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, |options| {
            options.bounce_buffer_size = Some(128 << 10);
            options.max_pinned_bytes = Some(256 << 10);
            options.task_size = Some(128 << 10);
        });
        let name = format!("stream-{local:?}");
        let object = writable(&client, &files.path(&name), None);
        let (stream, len) = (gpu.sim.stream(), 128 << 10);
        let memory = DeviceMemory::new(2 * len).filled(0);
        let plain = DeviceMemory::new(len).filled(7);
        start_write(&object, 0, &plain, None).succeeds();
        assert!(files.get(&name)[..] == *pattern_at(7, len));
        gpu.sim.sim_cuda_hold_stream(stream, 1);
        assert_eq!(gpu.sim.cuMemsetD8Async(memory.address(), 0x55, 2 * len, stream), 0);
        // Both buffers are taken by this one, and the next is in line for one.
        let held = start_write(&object, 0, &memory, Some(stream));
        eventually("both pieces are to be copied", || client.stats().bounce_buffers_in_use == 2);
        let queued = start_write(&object, 0, &plain, None);
        queued.op.cancel();
        queued.fails(ErrorKind::Cancelled, &[]);
        held.op.cancel();
        std::thread::sleep(ms(30));
        assert!(!held.is_over(), "the device may still read the memory");
        gpu.sim.sim_cuda_hold_stream(stream, 0);
        let outcome = held.wait();
        outcome.fails(ErrorKind::Cancelled, &[]);
        assert_eq!(outcome.bytes, 0);
        assert!(files.get(&name)[..] == *pattern_at(7, len), "a cancelled write wrote");
        start_write(&object, 0, &memory, Some(stream)).succeeds();
        assert!(files.get(&name) == vec![0x55; 2 * len], "what the stream was given before comes before");
        assert_eq!(client.stats().bounce_buffers_in_use, 0);
        assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
        memory.free();
        plain.free();
    });
}

#[test]
fn a_shutdown_ends_writes_that_wait_and_waits_for_those_that_the_device_reads() {
    let gpu = Gpu::new();
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, |options| {
            options.bounce_buffer_size = Some(64 << 10);
            options.max_pinned_bytes = Some(128 << 10);
        });
        let object = writable(&client, &files.path("ended"), None);
        let memory: Vec<_> = (0..40).map(|_| DeviceMemory::new(64 << 10).filled(0)).collect();
        gpu.sim.sim_cuda_speed(3000, 0.0);
        let writes: Vec<_> = memory.iter().map(|memory| start_write(&object, 0, memory, None)).collect();
        eventually("some are done", || client.stats().file_bytes_written > 3 * (64 << 10));
        client.client.shut_down(Some(LONG)).unwrap();
        let ends: Vec<_> = writes.iter().map(|write| write.wait().error.map(|error| error.kind())).collect();
        assert!(ends.iter().all(|end| matches!(end, None | Some(ErrorKind::ShutDown))), "{ends:?}");
        assert!(ends.contains(&None) && ends.contains(&Some(ErrorKind::ShutDown)), "{ends:?}");
        gpu.sim.sim_cuda_speed(0, 0.0);
        memory.into_iter().for_each(DeviceMemory::free);
    });
}

#[test]
fn a_context_that_is_destroyed_fails_its_writes() {
    let first = Gpu::new();
    let files = Directory::new();
    each_local_backend(|local| {
        let mut client = client(local, |options| {
            options.bounce_buffer_size = Some(64 << 10);
            options.max_pinned_bytes = Some(128 << 10);
        });
        client.context_was_destroyed = true;
        let mut gpu = Gpu::another(0);
        let object = writable(&client, &files.path("destroyed"), None);
        let stream = gpu.sim.stream();
        let memory: Vec<_> = (0..6).map(|_| DeviceMemory::new(64 << 10)).collect();
        gpu.sim.sim_cuda_hold_stream(stream, 1);
        let writes: Vec<_> = memory.iter().map(|memory| start_write(&object, 0, memory, Some(stream))).collect();
        eventually("two have the buffers", || client.stats().bounce_buffers_in_use == 2);
        gpu.destroy();
        // Those whose copies the end of the context has let go are written.
        let ends: Vec<_> = writes.iter().map(|write| write.wait().error.map(|error| error.kind())).collect();
        assert!(ends.iter().all(|end| matches!(end, None | Some(ErrorKind::Cuda))), "{ends:?}");
        assert!(ends.contains(&Some(ErrorKind::Cuda)), "{ends:?}");
        eventually("nothing of it is left", || client.stats().bounce_buffers_total == 0);
        first.make_current();
        let memory = DeviceMemory::new(1000).filled(3);
        start_write(&object, 0, &memory, None).succeeds();
        memory.free();
    });
}

#[test]
fn a_full_file_system_says_what_was_written_before() {
    if !child::is_child() {
        eprintln!("{}", child::succeeds(&mut child::again("a_full_file_system_says_what_was_written_before")));
        return;
    }
    let files = Directory::new();
    if !files.mount_one_mebibyte() {
        println!("not possible here: {}", std::io::Error::last_os_error());
        return;
    }
    let _gpu = Gpu::new();
    each_local_backend(|local| {
        let client = client(local, |_| {});
        let object = writable(&client, &files.path("full"), Some(false));
        let memory = DeviceMemory::new(3 * MIB).filled(0);
        let outcome = start_write(&object, 0, &memory, None).wait();
        let error = outcome.fails(ErrorKind::Io, &[object.name(), "make room"]);
        assert_eq!(error.os_code(), libc::ENOSPC);
        let there = files.get("full");
        assert_eq!(outcome.bytes, there.len() as u64, "one request: the first bytes");
        assert!(!there.is_empty() && there[..] == pattern(there.len())[..]);
        assert_eq!(client.stats().bounce_buffers_in_use, 0);
        memory.free();
        std::fs::remove_file(files.path("full")).unwrap();
    });
}
