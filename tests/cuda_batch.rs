//! Batches into device memory: a request that items share is received into one pinned buffer and copied out of it to each.

mod support;

use raskio::batch::{BatchOptions, Gap, ReadSpec, Refused};
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object, ReadOptions};
use raskio::op::{OpResult, Operation};
use raskio::sys::cuda::pointer::Memory;
use raskio_testserver::{Reply, Server, get};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use support::cuda::{DeviceClient, DeviceMemory, Gpu, Kind, Sim, each_backend};
use support::{Guarded, LONG, ms};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", raskio_testserver::Object::pattern(len).etag("\"a\""));
    server
}

fn gap(gap: Gap) -> BatchOptions {
    BatchOptions { gap, ..BatchOptions::default() }
}

struct Item<'a> {
    object: &'a Arc<Object>,
    offset: u64,
    memory: &'a DeviceMemory,
    stream: Option<usize>,
}

fn item<'a>(object: &'a Arc<Object>, offset: u64, memory: &'a DeviceMemory) -> Item<'a> {
    Item { object, offset, memory, stream: None }
}

type Outcome = (Option<Error>, Vec<(Option<Error>, u64)>, u32);

struct Batch {
    op: Arc<Operation>,
    outcome: Receiver<Outcome>,
}

impl Batch {
    fn wait(&self) -> Outcome {
        let outcome = self.outcome.recv_timeout(LONG).expect("a callback");
        self.op.wait(Some(LONG)).expect("the callback returns");
        outcome
    }

    #[track_caller]
    fn succeeds(&self) -> u32 {
        let (error, _, attempts) = self.wait();
        if let Some(error) = error {
            panic!("expected success, got {error}");
        }
        attempts
    }
}

fn start_specs(client: &DeviceClient, specs: Vec<Result<ReadSpec, Error>>, options: BatchOptions) -> Batch {
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| {
        let items = result.items.expect("items").results();
        let items = items.map(|item| (item.error.map(|error| (**error).clone()), item.bytes)).collect();
        let _ = sender.send((result.error.cloned(), items, result.attempts));
    });
    let specs = specs.into_iter().map(|spec| spec.map_err(|error| Refused { offset: 0, error }));
    let pending = client.client.read_batch(specs, options, done).expect("the batch is accepted");
    let op = pending.op().clone();
    pending.submit();
    Batch { op, outcome }
}

fn start(client: &DeviceClient, items: &[Item<'_>], options: BatchOptions) -> Batch {
    let spec = |item: &Item<'_>| {
        let buffer = item.memory.buffer(Memory::Cuda, item.stream)?;
        Ok(ReadSpec { object: item.object.clone(), offset: item.offset, buffer, from_end: false })
    };
    start_specs(client, items.iter().map(spec).collect(), options)
}

/// Case 34, into device memory.
#[test]
fn near_ranges_share_a_buffer_and_an_event_and_results_come_in_the_callers_order() {
    let _gpu = Gpu::new();
    let sim = Sim::get();
    each_backend(|backend| {
        for (gap_of, requests, events) in [(Gap::Bytes(64), 3, 3), (Gap::Never, 5, 5)] {
            let server = server_of(5000);
            server.put("/other", raskio_testserver::Object::pattern(100));
            let client = DeviceClient::new(backend, |_| {});
            let (data, other) = (client.open(&server.url("/data")), client.open(&server.url("/other")));
            data.stat_sync().unwrap();
            let lens = [100, 50, 10, 10, 10, 2, 7];
            let memory: Vec<DeviceMemory> = lens.iter().map(|&len| DeviceMemory::new(len)).collect();
            let (copies_before, events_before) = (sim.count("cuMemcpyHtoDAsync"), sim.count("cuEventRecord"));
            let items = [
                item(&data, 0, &memory[0]),
                item(&data, 150, &memory[1]),
                item(&data, 4096, &memory[2]),
                item(&data, 4096, &memory[3]),
                item(&other, 10, &memory[4]),
                item(&data, 4999, &memory[5]),
            ];
            let (error, results, attempts) = start(&client, &items, gap(gap_of)).wait();
            assert_eq!((error.unwrap().kind(), attempts), (ErrorKind::InvalidArgument, requests));
            for (at, (error, bytes)) in results.iter().enumerate() {
                let good = at != 5;
                assert_eq!((error.is_none(), *bytes), (good, if good { lens[at] as u64 } else { 0 }), "{at} {error:?}");
            }
            for (at, offset) in [0, 150, 4096, 4096, 10].into_iter().enumerate() {
                memory[at].assert_pattern(offset);
            }
            memory[5].assert_untouched();
            assert_eq!(server.gets(), u64::from(requests));
            assert_eq!(sim.count("cuMemcpyHtoDAsync") - copies_before, 5, "one for each item");
            assert!(sim.count("cuEventRecord") - events_before <= events, "one for each buffer, at most");
            assert_eq!(client.stats().bytes_staged, 180);
            memory.into_iter().for_each(DeviceMemory::free);
        }
    });
}

#[test]
fn overlapping_ranges_and_gaps_larger_than_a_piece_of_the_network_arrive_whole() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(4 << 20);
        let client = DeviceClient::new(backend, |options| options.task_size = Some(1 << 20));
        let data = client.open(&server.url("/data"));
        let ranges =
            [(0, 300_000), (100_000, 200_000), (100_001, 1), (700_000, 50_000), (900_000, 1_500_000), (3_000_000, 5)];
        let memory: Vec<DeviceMemory> = ranges.iter().map(|&(_, len)| DeviceMemory::new(len)).collect();
        let items: Vec<_> =
            ranges.iter().zip(&memory).map(|(&(offset, _), memory)| item(&data, offset, memory)).collect();
        let attempts = start(&client, &items, gap(Gap::Bytes(500_000))).succeeds();
        assert!(attempts < 6, "{:?}", server.ranges());
        for (memory, (offset, _)) in memory.iter().zip(ranges) {
            memory.assert_pattern(offset);
        }
        memory.into_iter().for_each(DeviceMemory::free);
    });
}

#[test]
fn host_memory_several_contexts_and_streams_go_in_one_batch() {
    let first = Gpu::new();
    let second = Gpu::another(1);
    let sim = first.sim;
    each_backend(|backend| {
        let server = server_of(100_000);
        let client = DeviceClient::new(backend, |_| {});
        let data = client.open(&server.url("/data"));
        second.make_current();
        let of_second = [DeviceMemory::new(1000), DeviceMemory::of(Kind::Pinned, 500)];
        let stream = sim.stream();
        let on_stream = DeviceMemory::new(800);
        first.make_current();
        let of_first = [DeviceMemory::new(2000), DeviceMemory::new(100)];
        let mut host = Guarded::new(700);
        let items = [
            item(&data, 0, &of_first[0]),
            item(&data, 2000, &of_second[0]),
            item(&data, 3000, &of_first[1]),
            item(&data, 3100, &of_second[1]),
            Item { object: &data, offset: 3600, memory: &on_stream, stream: Some(stream) },
        ];
        let spec = |item: &Item<'_>| {
            let buffer = item.memory.buffer(Memory::Cuda, item.stream)?;
            Ok(ReadSpec { object: item.object.clone(), offset: item.offset, buffer, from_end: false })
        };
        let mut specs: Vec<_> = items.iter().map(spec).collect();
        specs.push(Ok(ReadSpec { object: data.clone(), offset: 4400, buffer: host.host().into(), from_end: false }));
        let batch = start_specs(&client, specs, BatchOptions::default());
        batch.succeeds();
        assert_eq!(server.gets(), 4, "one for each kind of memory: {:?}", server.ranges());
        first.make_current();
        of_first[0].assert_pattern(0);
        of_first[1].assert_pattern(3000);
        host.assert_guards();
        assert_eq!(host.bytes(), &*raskio_testserver::pattern_at(4400, 700));
        of_first.into_iter().for_each(DeviceMemory::free);
        second.make_current();
        of_second[0].assert_pattern(2000);
        of_second[1].assert_pattern(3100);
        on_stream.assert_pattern(3600);
        of_second.into_iter().for_each(DeviceMemory::free);
        on_stream.free();
        sim.cuStreamDestroy_v2(stream);
    });
}

#[test]
fn a_shared_request_is_resumed_in_the_middle_of_an_item() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(1000);
        server
            .script(get("/data"), [Reply::object().close_after(150), Reply::object().close_after(45), Reply::object()]);
        let client = DeviceClient::new(backend, |_| {});
        let data = client.open(&server.url("/data"));
        let ranges = [(0, 100), (140, 100), (180, 5), (260, 40)];
        let memory: Vec<DeviceMemory> = ranges.iter().map(|&(_, len)| DeviceMemory::new(len)).collect();
        let items: Vec<_> =
            ranges.iter().zip(&memory).map(|(&(offset, _), memory)| item(&data, offset, memory)).collect();
        start(&client, &items, gap(Gap::Bytes(50))).succeeds();
        assert_eq!(server.ranges(), ["0-299", "150-299", "195-299"]);
        for (memory, (offset, _)) in memory.iter().zip(ranges) {
            memory.assert_pattern(offset);
        }
        memory.into_iter().for_each(DeviceMemory::free);
    });
}

#[test]
fn a_copy_that_fails_fails_the_items_of_its_request_and_no_others() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        // The first of the request, and one of which another runs already.
        for nth in [1, 2] {
            let server = server_of(100_000);
            let gate = raskio_testserver::Gate::new();
            let held = gate.clone();
            server.on(get("/data"), move |request| {
                (request.range_text() == Some("50000-50099")).then(|| Reply::object().hold(&held))
            });
            let client = DeviceClient::new(backend, |options| options.max_attempts = Some(1));
            let data = client.open(&server.url("/data"));
            let memory: Vec<DeviceMemory> = (0..4).map(|_| DeviceMemory::new(100)).collect();
            gpu.sim.fail("cuMemcpyHtoDAsync", nth, false, 1);
            let offsets = [0, 120, 240, 50_000];
            let items: Vec<_> =
                offsets.iter().zip(&memory).map(|(&offset, memory)| item(&data, offset, memory)).collect();
            let batch = start(&client, &items, gap(Gap::Bytes(50)));
            support::eventually("the first three have failed", || batch.op.items().unwrap().result(2).error.is_some());
            gate.open();
            let (error, results, _) = batch.wait();
            assert_eq!(error.unwrap().kind(), ErrorKind::Cuda);
            for (error, bytes) in &results[..3] {
                let error = error.as_ref().unwrap();
                assert_eq!((error.kind(), *bytes), (ErrorKind::Cuda, 0), "{error}");
                assert!(error.message().contains("copying 340 bytes to the device"), "{error}");
            }
            assert!(results[3].0.is_none());
            memory[3].assert_pattern(50_000);
            memory.into_iter().for_each(DeviceMemory::free);
        }
    });
}

#[test]
fn thousands_of_items_share_two_buffers_and_a_cancel_ends_them() {
    let gpu = Gpu::new();
    each_backend(|backend| {
        let server = server_of(1 << 20);
        let client = DeviceClient::new(backend, |options| {
            options.bounce_buffer_size = Some(64 << 10);
            options.max_pinned_bytes = Some(128 << 10);
        });
        let data = client.open(&server.url("/data"));
        let memory = DeviceMemory::new(4000 * 16);
        let address = memory.address();
        let specs = |count: usize| -> Vec<Result<ReadSpec, Error>> {
            let spec = |i: usize| {
                // SAFETY: a part of the memory for each, which lasts until the batch is over.
                let buffer = unsafe {
                    let start = (address + i * 16) as *mut std::ffi::c_void;
                    raskio::sys::cuda::pointer::buffer(start, 16, Memory::Cuda, None)
                }?;
                Ok(ReadSpec { object: data.clone(), offset: i as u64 * 16, buffer, from_end: false })
            };
            (0..count).map(spec).collect()
        };
        start_specs(&client, specs(4000), BatchOptions::default()).succeeds();
        memory.assert_pattern(0);
        assert!(server.gets() < 10, "{}", server.gets());
        gpu.sim.sim_cuda_speed(2000, 0.0);
        let batch = start_specs(&client, specs(4000), gap(Gap::Never));
        std::thread::sleep(ms(30));
        batch.op.cancel();
        let (error, results, _) = batch.wait();
        assert_eq!(error.unwrap().kind(), ErrorKind::Cancelled);
        assert!(results.iter().all(|(error, bytes)| error.is_some() == (*bytes < 16)));
        gpu.sim.sim_cuda_speed(0, 0.0);
        memory.free();
    });
}

#[test]
fn the_end_of_an_object_comes_into_device_memory() {
    let _gpu = Gpu::new();
    each_backend(|backend| {
        for (size, task_size) in [(5000, 1000), (5000, 40), (60, 1000), (60, 40)] {
            let server = server_of(size);
            let client = DeviceClient::new(backend, |_| {});
            let data = client.open(&server.url("/data"));
            let memory = DeviceMemory::new(100);
            let (sender, outcome) = channel();
            let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(support::Outcome::of(result))));
            let read = ReadOptions { task_size: Some(task_size), ..ReadOptions::default() };
            let pending = data.read_last(memory.buffer(Memory::Cuda, None).unwrap(), &read, done).unwrap();
            pending.submit();
            let outcome = outcome.recv_timeout(LONG).unwrap();
            outcome.succeeds();
            let bytes = size.min(100);
            assert_eq!((outcome.offset, outcome.bytes), (size - bytes, bytes));
            memory.assert_start(size - bytes, bytes as usize);
            memory.free();
        }
    });
}
