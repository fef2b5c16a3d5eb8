//! Whole reads and writes of many threads at a time, from servers and files, into host and device memory.

use crate::support::{self, Guarded, LONG, TestClient, Watchdog};
use crate::{ROUNDS, together};
use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio::op::OpResult;
use raskio::sync::Mutex;
use raskio_testserver::{Object, Server, pattern_at};
use std::sync::Arc;

/// Where `/medium` is, of 1 MiB, and whether replies can be wished for there: the stage starts the server as a process of its own,
/// which is not looked at.
fn served() -> (Server, String, bool) {
    let own = Server::start();
    own.put("/medium", Object::pattern(1 << 20));
    let given = std::env::var("RASKIO_TEST_URL").ok();
    let takes_wishes = given.is_some();
    let base = given.unwrap_or_else(|| own.url(""));
    (own, base, takes_wishes)
}

/// Reads of many threads through one client, some cancelled, some failing and tried again, and a shutdown at the end.
fn whole_reads(backend: Backend) {
    let _watchdog = Watchdog::start();
    let (_server, base, takes_wishes) = served();
    let client = TestClient::with(backend, |options| {
        options.num_threads = Some(4);
        options.num_reactors = Some(2);
        options.max_concurrent_requests = Some(6);
        options.task_size = Some(64 << 10);
        options.callback_threads = Some(if base.len() % 2 == 0 { 0 } else { 1 });
    });
    let of_threads = client.0.clone();
    // The last ones fail for a while, and only on a server that takes such wishes.
    let wishes: &'static [&'static str] = if takes_wishes {
        &["", "?reset_after=5000&times=1", "?status=503&times=1", "?close_silently=1"]
    } else {
        &[""]
    };
    together(move |index| {
        for round in 0..ROUNDS / 25 {
            let wish = wishes[(index + round) % wishes.len()];
            let unique = if wish.is_empty() { String::new() } else { format!("&header=X-Round:{index}-{round}") };
            let object = of_threads.open(&format!("{base}/medium{wish}{unique}"), ObjectOptions::default()).unwrap();
            let (offset, len) = ((index * 1000 + round) as u64, 300_000);
            let mut buffer = Guarded::new(len);
            let outcome = Arc::new(Mutex::new(None));
            let of_completion = outcome.clone();
            let done = Box::new(move |result: &OpResult<'_>| *of_completion.lock() = Some(result.error.cloned()));
            let pending = object.read(offset, buffer.host(), &ReadOptions::default(), done).unwrap();
            let op = pending.op().clone();
            pending.submit();
            if (index + round) % 4 == 3 {
                op.cancel();
            }
            of_threads.stats();
            object.info();
            op.wait(Some(LONG)).unwrap();
            match outcome.lock().take().expect("the completion has returned") {
                None => assert!(buffer.bytes() == pattern_at(offset, len), "wrong bytes"),
                Some(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
            }
            buffer.assert_guards();
            if round % 4 == 0 {
                of_threads.trim();
            }
        }
    });
}

/// Threads that ask what is known of an object while the reply comes that tells.
#[test]
fn what_a_reply_says_of_an_object_is_seen_whole() {
    let _watchdog = Watchdog::start();
    let (_server, base, _) = served();
    let client = TestClient::with(Backend::MultiPoll, |_| {});
    for _ in 0..ROUNDS {
        let object = Arc::new(client.0.open(&format!("{base}/medium"), ObjectOptions::default()).unwrap());
        let asked = object.clone();
        // One that never rests: it is to ask in the very moment in which the reply is taken in.
        let asking = std::thread::spawn(move || {
            loop {
                let info = asked.info();
                assert_eq!(info.size.is_some(), info.etag.is_some(), "one reply says both");
                if info.size.is_some() {
                    return;
                }
            }
        });
        let mut buffer = Guarded::new(1);
        let pending = object.read(0, buffer.host(), &ReadOptions::default(), Box::new(|_| {})).unwrap();
        let op = pending.op().clone();
        pending.submit();
        asking.join().unwrap();
        op.wait(Some(LONG)).unwrap();
    }
}

#[test]
fn whole_reads_of_reactors() {
    whole_reads(Backend::MultiPoll);
}

#[test]
fn whole_reads_of_a_thread_pool() {
    whole_reads(Backend::EasyThreadpool);
}

/// Device reads of many threads through few pinned buffers, some cancelled, with trims between them.
fn device_reads(backend: Backend) {
    use support::cuda::{DeviceMemory, Gpu};
    let gpu = Gpu::new();
    let (_server, base, _) = served();
    let client = TestClient::with(backend, |options| {
        options.num_threads = Some(4);
        options.num_reactors = Some(2);
        options.bounce_buffer_size = Some(64 << 10);
        options.max_pinned_bytes = Some(192 << 10);
        options.max_free_events = Some(2);
    });
    let (of_threads, context) = (client.0.clone(), gpu.context);
    together(move |index| {
        support::cuda::Sim::get().set_current(context);
        let object = of_threads.open(&format!("{base}/medium"), ObjectOptions::default()).unwrap();
        for round in 0..ROUNDS / 25 {
            let (offset, memory) = ((index * 1000 + round) as u64, DeviceMemory::new(300_000));
            let reading = support::cuda::start(&object, offset, &memory);
            if (index + round) % 4 == 3 {
                reading.op.cancel();
            }
            of_threads.stats();
            match reading.wait().error {
                None => memory.assert_pattern(offset),
                Some(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
            }
            if round % 4 == 0 {
                of_threads.trim();
            }
            memory.free();
        }
        support::cuda::Sim::get().set_current(0);
    });
    let stats = client.stats();
    assert_eq!(stats.bounce_buffers_in_use, 0, "{stats:?}");
    client.shut_down(Some(LONG)).unwrap();
}

#[test]
fn device_reads_of_reactors() {
    device_reads(Backend::MultiPoll);
}

#[test]
fn device_reads_of_a_thread_pool() {
    device_reads(Backend::EasyThreadpool);
}

/// Files: read and written by many threads at a time, some reads cancelled or late, also while their file is opened, some objects
/// released at once, with trims between them.
#[test]
fn files_of_every_backend() {
    use support::files::{DIRECT, Directory, client, local_backends, source, writable};
    let _watchdog = Watchdog::start();
    let files = Directory::new();
    let path = files.put("data", 1 << 20);
    for local in local_backends() {
        let client = client(local, DIRECT, |options| {
            options.num_threads = Some(3);
            options.uring_queue_depth = Some(5);
            options.task_size = Some(50_000);
        });
        let (of_threads, path, copy) = (client.0.clone(), path.clone(), files.path(&format!("copy-{local:?}")));
        writable(&client, &copy);
        together(move |index| {
            let bytes = pattern_at(0, 30_000);
            for round in 0..ROUNDS / 10 {
                let object = of_threads.open(&path, ObjectOptions::default()).unwrap();
                let soon = std::time::Duration::from_micros(50 * (round as u64 + 1));
                let deadline = ((index + round) % 5 == 4).then_some(soon);
                let options = ReadOptions { deadline, ..ReadOptions::default() };
                let mut reading = support::start_with(&object, (index * 1000 + round) as u64, 300_000, &options);
                drop(object);
                match (index + round) % 5 {
                    4 => {
                        let outcome = reading.wait();
                        assert!(outcome.error.is_none_or(|error| error.kind() == ErrorKind::TimedOut));
                    }
                    3 => {
                        reading.op.cancel();
                        let outcome = reading.wait();
                        assert!(outcome.error.is_none_or(|error| error.kind() == ErrorKind::Cancelled));
                    }
                    2 => of_threads.trim(),
                    _ => drop(reading.succeeds()),
                }
                let options = ObjectOptions { writable: true, ..ObjectOptions::default() };
                let file = of_threads.open(&copy, options).unwrap();
                let at = (index * 30_000) as u64;
                let written = file.write_sync(at, source(&bytes), &ReadOptions::default(), round == 0).unwrap();
                assert_eq!(written, 30_000);
                of_threads.stats();
                if !reading.is_over() {
                    reading.succeeds();
                }
            }
        });
        client.shut_down(Some(LONG)).unwrap();
    }
}
