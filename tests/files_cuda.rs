//! Local files are read into device memory through pinned buffers, which the kernel fills itself.

mod support;

use raskio::config::{Backend, LocalBackend};
use raskio::object::ReadOptions;
use support::cuda::{DeviceClient, DeviceMemory, Gpu, read, start_with};
use support::files::{Directory, each_local_backend};

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
