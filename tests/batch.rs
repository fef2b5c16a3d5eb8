//! Many ranges by one call: each item gets its bytes or its error, in the caller's order, by as few requests as were allowed.

mod support;

use raskio::batch::{BatchOptions, Gap, ReadSpec};
use raskio::error::{Error, ErrorKind};
use raskio::object::ReadOptions;
use raskio_testserver::{Object, Reply, Server, get};
use std::sync::mpsc::channel;
use support::batch::{Batch, last, range};
use support::{TestClient, child, for_both_backends, ms, read};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len).etag("\"a\""));
    server
}

fn gap(gap: Gap) -> BatchOptions {
    BatchOptions { gap, ..BatchOptions::default() }
}

fn sorted(server: &Server) -> Vec<String> {
    let mut ranges = server.ranges();
    ranges.sort();
    ranges
}

/// Case 34, on the host.
#[test]
fn near_ranges_share_a_request_and_results_come_in_the_callers_order() {
    for_both_backends(|backend| {
        let client = TestClient::new(backend);
        let requests = [
            (Gap::Bytes(64), &["/data 0-199", "/data 4096-4105", "/other 10-19"][..]),
            (Gap::Bytes(49), &["/data 0-99", "/data 150-199", "/data 4096-4105", "/other 10-19"]),
            (Gap::Never, &["/data 0-99", "/data 150-199", "/data 4096-4105", "/data 4096-4105", "/other 10-19"]),
        ];
        for (gap_of, requests) in requests {
            let server = server_of(5000);
            server.put("/other", Object::pattern(100));
            let (data, other) = (client.open(&server.url("/data")), client.open(&server.url("/other")));
            // So that the size is known, and what lies beyond it is not even asked for.
            read(&data, 0, 1);
            server.reset_counts();
            let items = [
                range(&data, 0, 100),
                range(&data, 150, 50),
                range(&data, 4096, 10),
                range(&data, 4096, 10),
                range(&other, 10, 10),
                range(&data, 4999, 2),
                range(&data, 7, 0),
            ];
            let mut batch = Batch::start(&client, &items, gap(gap_of));
            let outcome = batch.wait();
            for good in [0, 1, 2, 3, 4, 6] {
                batch.item(good).succeeds();
            }
            let words = ["item 5", "cannot read 4999+2 bytes into a 5000 bytes file", "/data"];
            batch.item(5).fails(ErrorKind::InvalidArgument, &words);
            outcome.fails(ErrorKind::InvalidArgument, &words);
            assert_eq!(outcome.bytes, 180);
            assert_eq!(outcome.attempts as usize, requests.len());
            let log = server.log();
            let mut asked: Vec<String> =
                log.iter().map(|one| format!("{} {}", one.path(), one.range_text().unwrap())).collect();
            asked.sort();
            assert_eq!(asked, requests, "{gap_of:?}");
        }
    });
}

#[test]
fn ranges_that_touch_overlap_or_repeat_share_a_request_unless_never() {
    for_both_backends(|backend| {
        let client = TestClient::new(backend);
        for (gap_of, requests) in [(Gap::Default, 1), (Gap::Bytes(1), 1), (Gap::Never, 6)] {
            let server = server_of(100_000);
            let data = client.open(&server.url("/data"));
            let items = [
                range(&data, 50_000, 20_000),
                range(&data, 0, 50_000),
                range(&data, 10, 60_000),
                range(&data, 10, 60_000),
                range(&data, 69_999, 1),
                range(&data, 30, 7),
            ];
            let mut batch = Batch::start(&client, &items, gap(gap_of));
            batch.wait().succeeds();
            for item in 0..items.len() {
                batch.item(item).succeeds();
            }
            assert_eq!(server.gets(), requests, "{gap_of:?}: {:?}", server.ranges());
        }
    });
}

#[test]
fn a_range_beyond_the_end_of_an_object_of_unknown_size_fails_alone_though_it_shares_a_request() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let data = client.open(&server.url("/data"));
        let items = [range(&data, 0, 10), range(&data, 50, 50), range(&data, 90, 20), range(&data, 100, 5)];
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        batch.wait().fails(ErrorKind::Range, &["ends after 100 bytes"]);
        batch.item(0).succeeds();
        batch.item(1).succeeds();
        batch.item(2).fails(ErrorKind::Range, &["bytes 90-109", "ends after 100 bytes", "/data"]);
        batch.item(3).fails(ErrorKind::Range, &["bytes 100-104"]);
        assert_eq!(server.ranges(), ["0-109"]);
        assert_eq!(data.size(), Some(100));
    });
}

#[test]
fn the_failure_of_a_request_is_that_of_its_items_and_of_no_others() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1 << 20), TestClient::new(backend));
        server.on(get("/data"), |request| {
            (request.range_text() == Some("1000-1199")).then(|| Reply::status(403).body("no"))
        });
        let data = client.open(&server.url("/data"));
        let items = [
            range(&data, 0, 100),
            range(&data, 1000, 100),
            range(&data, 500_000, 100),
            range(&data, 1100, 100),
            range(&data, 200, 100),
        ];
        let mut batch = Batch::start(&client, &items, gap(Gap::Bytes(100)));
        batch.wait().fails(ErrorKind::PermissionDenied, &["bytes 1000-1199"]);
        for good in [0, 2, 4] {
            batch.item(good).succeeds();
        }
        for bad in [1, 3] {
            let error = batch.item(bad).fails(ErrorKind::PermissionDenied, &["403", "/data"]).clone();
            assert_eq!(error.http_status(), 403);
            assert_eq!(batch.item(bad).attempts, 1);
        }
        assert_eq!(server.gets(), 3);
    });
}

#[test]
fn a_shared_request_goes_on_in_the_middle_of_an_item_and_each_is_told_its_attempts() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1 << 20), TestClient::new(backend));
        server
            .script(get("/data"), [Reply::object().close_after(150), Reply::object().close_after(45), Reply::object()]);
        let data = client.open(&server.url("/data"));
        let items = [range(&data, 0, 100), range(&data, 140, 100), range(&data, 180, 5), range(&data, 260, 40)];
        let mut batch = Batch::start(&client, &items, gap(Gap::Bytes(50)));
        batch.wait().succeeds();
        for item in 0..items.len() {
            assert_eq!(batch.item(item).succeeds().attempts, 3);
        }
        assert_eq!(server.ranges(), ["0-299", "150-299", "195-299"]);
        let stats = client.stats();
        assert_eq!((stats.requests_started, stats.requests_retried), (1, 2));
    });
}

#[test]
fn what_had_arrived_when_a_shared_request_failed_is_well() {
    for_both_backends(|backend| {
        let server = server_of(1000);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(1));
        server.script(get("/data"), [Reply::object().close_after(150)]);
        let data = client.open(&server.url("/data"));
        let items = [range(&data, 0, 100), range(&data, 110, 40), range(&data, 120, 100), range(&data, 200, 50)];
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        batch.wait().fails(ErrorKind::Connection, &["bytes 0-249"]);
        batch.item(0).succeeds();
        batch.item(1).succeeds();
        assert_eq!(batch.item(2).fails(ErrorKind::Connection, &[]).kind(), ErrorKind::Connection);
        assert_eq!(batch.item(2).bytes, 30);
        assert_eq!(batch.item(3).bytes, 0);
        batch.item(3).fails(ErrorKind::Connection, &[]);
    });
}

#[test]
fn an_object_that_changed_fails_what_was_not_there_yet() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1000), TestClient::new(backend));
        server.script(get("/data"), [Reply::object().close_after(150), Reply::object().etag("\"b\"")]);
        let data = client.open(&server.url("/data"));
        let mut batch = Batch::start(&client, &[range(&data, 0, 100), range(&data, 100, 100)], BatchOptions::default());
        batch.wait().fails(ErrorKind::ObjectChanged, &[]);
        batch.item(0).succeeds();
        batch.item(1).fails(ErrorKind::ObjectChanged, &["changed"]);
    });
}

/// As a read of one range says it, and not that the range lies beyond the end.
#[test]
fn a_shared_request_of_an_object_that_became_shorter_says_so() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1000), TestClient::new(backend));
        for etag in ["\"a\"", "\"b\""] {
            let options = raskio::object::ObjectOptions { size: Some(2000), ..Default::default() };
            let data = client.0.open(&server.url("/data"), options).unwrap();
            server.script(get("/data"), [Reply::object().etag(etag)]);
            let items = [range(&data, 0, 10), range(&data, 990, 20), last(&data, 700)];
            let mut batch = Batch::start(&client, &items, BatchOptions::default());
            batch.wait().fails(ErrorKind::ObjectChanged, &["size was 2000, now it is 1000"]);
            (0..3).for_each(|item| drop(batch.item(item).fails(ErrorKind::ObjectChanged, &["changed"]).clone()));
        }
        let data = client.open(&server.url("/data"));
        read(&data, 0, 1);
        server.clear_scripts();
        server.put("/data", Object::pattern(500).etag("\"c\""));
        let mut batch = Batch::start(&client, &[range(&data, 0, 10), last(&data, 600)], BatchOptions::default());
        batch.wait().fails(ErrorKind::ObjectChanged, &["ETag was"]);
        (0..2).for_each(|item| drop(batch.item(item).fails(ErrorKind::ObjectChanged, &["changed"]).clone()));
    });
}

#[test]
fn long_ranges_are_cut_and_their_last_piece_has_company() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1 << 20), TestClient::new(backend));
        let data = client.open(&server.url("/data"));
        let read = ReadOptions { task_size: Some(100_000), ..ReadOptions::default() };
        let items = [range(&data, 0, 250_000), range(&data, 250_010, 10), range(&data, 20, 10)];
        let mut batch =
            Batch::start(&client, &items, BatchOptions { read, gap: Gap::Bytes(10), ..BatchOptions::default() });
        batch.wait().succeeds();
        assert_eq!(batch.item(0).succeeds().attempts, 3);
        batch.item(1).succeeds();
        batch.item(2).succeeds();
        assert_eq!(sorted(&server), ["0-99999", "100000-199999", "200000-250019"]);
    });
}

#[test]
fn the_batch_of_nothing_and_the_batch_of_empty_and_wrong_items_end_through_the_callback() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let other = TestClient::new(backend);
        let data = client.open(&server.url("/data"));
        for items in [&[][..], &[range(&data, 0, 0), range(&data, 7, 0)]] {
            let mut batch = Batch::start(&client, items, BatchOptions::default());
            let outcome = batch.wait();
            outcome.succeeds();
            assert_eq!((outcome.bytes, outcome.attempts), (0, 0));
            assert!(outcome.thread.starts_with("raskio-"), "{}", outcome.thread);
        }
        let foreign = other.open(&server.url("/data"));
        let items = [range(&data, u64::MAX - 3, 10), range(&foreign, 4, 10), range(&data, 5, 10)];
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        batch.wait().fails(ErrorKind::InvalidArgument, &["item 0", "2^63"]);
        batch.item(1).fails(ErrorKind::InvalidArgument, &["item 1", "another client"]);
        batch.item(2).succeeds();
        // Where the caller asked, also of what was refused.
        assert_eq!([0, 1, 2].map(|item| batch.item(item).offset), [u64::MAX - 3, 4, 5]);
        assert_eq!(server.gets(), 1);
    });
}

/// Nothing is written: the memory is not there.
#[test]
fn an_item_of_more_requests_than_can_be_meant_fails_alone() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let data = client.open(&server.url("/data"));
        let mut small = support::Guarded::new(10);
        // SAFETY: it is refused before anything is asked for.
        let huge = unsafe { raskio::sys::mem::HostBuffer::new(std::ptr::dangling_mut(), 1 << 40) };
        let specs = [huge, small.host()].map(|buffer| {
            Ok(raskio::batch::ReadSpec { object: data.clone(), offset: 0, buffer: buffer.into(), from_end: false })
        });
        let read = ReadOptions { task_size: Some(1), ..ReadOptions::default() };
        let (sender, outcome) = channel();
        let done = Box::new(move |result: &raskio::op::OpResult<'_>| {
            let items = result.items.unwrap().results();
            let items: Vec<_> = items.map(|item| (item.error.map(|error| error.to_string()), item.bytes)).collect();
            sender.send(items).unwrap();
        });
        let options = BatchOptions { read, ..BatchOptions::default() };
        client.read_batch(specs.into_iter(), options, done).unwrap().submit();
        let items = outcome.recv_timeout(support::LONG).unwrap();
        assert!(items[0].0.as_ref().unwrap().contains("more than 2^31"), "{items:?}");
        assert_eq!(items[1], (None, 10));
        assert_eq!(small.bytes(), &raskio_testserver::pattern(10)[..]);
    });
}

/// So that what cannot be had is refused, on a machine of any size.
fn limit_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: one readable rlimit is passed.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// How each item of a batch ended, buffers of any size allowed: nothing is checked but that it ended.
fn errors_of(client: &TestClient, specs: Vec<ReadSpec>, options: BatchOptions) -> Vec<Option<Error>> {
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &raskio::op::OpResult<'_>| {
        let items = result.items.unwrap().results();
        sender.send(items.map(|item| item.error.map(|error| (**error).clone())).collect::<Vec<_>>()).unwrap();
    });
    client.read_batch(specs.into_iter().map(Ok), options, done).unwrap().submit();
    outcome.recv_timeout(support::LONG).unwrap()
}

/// Nothing is written: neither the buffer is there nor memory for so many requests.
#[test]
#[cfg_attr(raskio_sanitizer = "address", ignore = "the sanitizer ends the process where memory runs out")]
fn the_end_of_a_huge_object_in_tiny_requests_is_an_error_of_that_item() {
    const NAME: &str = "the_end_of_a_huge_object_in_tiny_requests_is_an_error_of_that_item";
    if !child::is_child() {
        let server = server_of(100);
        server.put("/huge", Object::pattern(1 << 40));
        child::succeeds(child::again(NAME).env("URL", server.url("")));
        return;
    }
    limit_memory(4 << 30);
    for_both_backends(|backend| {
        let client = TestClient::new(backend);
        let url = std::env::var("URL").unwrap();
        let url = url.trim_end_matches('/');
        let (data, huge) = (client.open(&format!("{url}/data")), client.open(&format!("{url}/huge")));
        let mut small = support::Guarded::new(10);
        // SAFETY: it is refused before anything is written.
        let buffer = unsafe { raskio::sys::mem::HostBuffer::new(std::ptr::dangling_mut(), 1 << 40) };
        let specs = vec![
            ReadSpec { object: huge, offset: 0, buffer: buffer.into(), from_end: true },
            ReadSpec { object: data, offset: 0, buffer: small.host().into(), from_end: true },
        ];
        let read = ReadOptions { task_size: Some(1024), ..ReadOptions::default() };
        let errors = errors_of(&client, specs, BatchOptions { read, ..BatchOptions::default() });
        let error = errors[0].as_ref().expect("an error");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert!(error.message().contains("1073741824 requests") && error.message().contains("/huge"), "{error}");
        assert!(errors[1].is_none(), "{errors:?}");
        assert_eq!(small.bytes(), &raskio_testserver::pattern_at(90, 10)[..]);
    });
}

/// At whatever point of it memory runs out. Nothing is sent.
#[test]
#[cfg_attr(raskio_sanitizer = "address", ignore = "the sanitizer ends the process where memory runs out")]
fn a_batch_that_memory_is_too_short_for_is_refused() {
    const NAME: &str = "a_batch_that_memory_is_too_short_for_is_refused";
    const ITEMS: u32 = 30_000;
    let gaps = [("never", Gap::Never), ("64", Gap::Bytes(64)), ("0", Gap::Bytes(0))];
    if !child::is_child() {
        for (name, _) in gaps {
            // Arenas of threads have memory in reserve, and so has a process that had more.
            child::succeeds(child::again(NAME).env("MALLOC_ARENA_MAX", "1").env("GAP", name));
        }
        return;
    }
    let client = TestClient::new(raskio::config::Backend::MultiPoll);
    let sized = raskio::object::ObjectOptions { size: Some(1 << 40), ..Default::default() };
    let data = client.0.open("http://127.0.0.1:9/data", sized).unwrap();
    let unknown = client.open("http://127.0.0.1:9/unknown");
    for (_, gap) in gaps.into_iter().filter(|(name, _)| std::env::var("GAP").as_deref() == Ok(*name)) {
        let (mut refused, mut room) = (0, 0);
        loop {
            let specs = (0..ITEMS).map(|i| {
                let i = u64::from(i);
                let (object, offset, len, from_end) = match i % 8 {
                    0 => (&data, 1 << 40, 10, false),
                    1 => (&data, 7, 0, false),
                    2 => (&unknown, 0, 10, true),
                    3 => (&data, i * 100, 100, false),
                    _ => (&data, i * 100, 70, false),
                };
                // SAFETY: nothing is asked for before it is cancelled.
                let buffer = unsafe { raskio::sys::mem::HostBuffer::new(std::ptr::dangling_mut(), len) };
                Ok(ReadSpec { object: object.clone(), offset, buffer: buffer.into(), from_end })
            });
            let (sender, outcome) = channel();
            let done = Box::new(move |result: &raskio::op::OpResult<'_>| sender.send(result.bytes).unwrap());
            let options = BatchOptions { gap, ..BatchOptions::default() };
            // SAFETY: no arguments that matter.
            unsafe { libc::malloc_trim(0) };
            let used = std::fs::read_to_string("/proc/self/statm").unwrap();
            let used: u64 = used.split(' ').next().unwrap().parse().unwrap();
            limit_memory(used * 4096 + room);
            let pending = client.read_batch(specs, options, done);
            limit_memory(libc::RLIM_INFINITY);
            room += 200_000;
            match pending {
                Ok(pending) => {
                    pending.op().cancel();
                    pending.submit();
                    assert_eq!(outcome.recv_timeout(support::LONG).unwrap(), 0);
                    break;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                    assert!(error.message().contains("no memory"), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 10, "{refused} refused with {gap:?}");
    }
}

#[test]
fn each_item_is_told_of_as_it_ends_once_and_before_the_batch() {
    for_both_backends(|backend| {
        for callback_threads in [0, 3] {
            let server = server_of(1 << 20);
            let client = TestClient::with(backend, |options| options.callback_threads = Some(callback_threads));
            let data = client.open(&server.url("/data"));
            let slow = raskio_testserver::Gate::new();
            let held = slow.clone();
            server.on(get("/data"), move |request| {
                (request.range_text() == Some("500000-500009")).then(|| Reply::object().hold(&held))
            });
            let (told, telling) = channel();
            let telling_of = std::sync::Mutex::new(told);
            let item_done = Box::new(move |item: usize, result: &raskio::op::items::ItemResult<'_>| {
                telling_of.lock().unwrap().send((item, result.error.map(|error| error.kind()), result.bytes)).unwrap();
            });
            let items = [range(&data, 0, 10), range(&data, 500_000, 10), range(&data, 20, 10), range(&data, 30, 0)];
            let options = BatchOptions { item_done: Some(item_done), ..BatchOptions::default() };
            let mut batch = Batch::start(&client, &items, options);
            let next = || telling.recv_timeout(support::LONG).unwrap();
            let mut first = [next(), next(), next()];
            first.sort_by_key(|told| told.0);
            assert_eq!(first, [(0, None, 10), (2, None, 10), (3, None, 0)]);
            assert!(!batch.is_over());
            slow.open();
            assert_eq!(next(), (1, None, 10));
            batch.wait().succeeds();
            assert!(telling.try_recv().is_err(), "told twice");
        }
    });
}

#[test]
fn a_cancel_ends_what_is_left_and_keeps_what_is_there() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1 << 20), TestClient::new(backend));
        let gate = raskio_testserver::Gate::new();
        let held = gate.clone();
        server.on(get("/data"), move |request| {
            (request.range_text() != Some("0-9")).then(|| Reply::object().hold(&held))
        });
        let data = client.open(&server.url("/data"));
        let mut items = vec![range(&data, 0, 10)];
        items.extend((1..2000).map(|i| range(&data, i * 500, 10)));
        let mut batch = Batch::start(&client, &items, gap(Gap::Never));
        support::eventually("the first item is there", || batch.op.items().unwrap().result(0).bytes == 10);
        batch.op.cancel();
        batch.op.cancel();
        let outcome = batch.wait();
        outcome.fails(ErrorKind::Cancelled, &["cancelled by the caller"]);
        batch.item(0).succeeds();
        for item in 1..items.len() {
            batch.item(item).fails(ErrorKind::Cancelled, &[]);
        }
        assert_eq!(client.stats().ops_cancelled, 1);
        gate.open();
    });
}

#[test]
fn a_failed_item_does_not_keep_a_cancel_from_ending_the_rest() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1000), TestClient::new(backend));
        let gate = raskio_testserver::Gate::new();
        let held = gate.clone();
        server.on(get("/data"), move |_| Reply::object().hold(&held));
        let data = client.open(&server.url("/data"));
        let items = [range(&data, u64::MAX, 10), range(&data, 0, 10)];
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        support::eventually("the bad one has failed", || batch.op.items().unwrap().result(0).error.is_some());
        batch.op.cancel();
        let first = batch.wait();
        batch.item(0).fails(ErrorKind::InvalidArgument, &[]);
        batch.item(1).fails(ErrorKind::Cancelled, &[]);
        first.fails(ErrorKind::InvalidArgument, &["item 0"]);
        gate.open();
    });
}

#[test]
fn a_deadline_is_that_of_the_whole_batch() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1000), TestClient::new(backend));
        server.on(get("/data"), |request| (request.range_text() == Some("500-509")).then(Reply::never));
        let data = client.open(&server.url("/data"));
        let read = ReadOptions { deadline: Some(ms(500)), ..ReadOptions::default() };
        let items = [range(&data, 0, 10), range(&data, 500, 10)];
        let mut batch =
            Batch::start(&client, &items, BatchOptions { read, gap: Gap::Never, ..BatchOptions::default() });
        batch.wait().fails(ErrorKind::TimedOut, &["deadline of 0.5 s"]);
        batch.item(0).succeeds();
        batch.item(1).fails(ErrorKind::TimedOut, &["deadline"]);
    });
}

/// But not what others need.
#[test]
fn what_else_is_on_its_way_for_an_item_that_failed_ends_soon() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(10_000), TestClient::new(backend));
        let gate = raskio_testserver::Gate::new();
        let held = gate.clone();
        server.on(get("/data"), move |request| match request.range_text() {
            // When the others wait: for their next attempt, for an answer, for a permit.
            Some("0-999") => Some(Reply::status(403).hold(&held)),
            Some("1000-1999") => Some(Reply::status(503).retry_after(30)),
            Some("2000-2999") => Some(Reply::never()),
            Some("3000-3099") => Some(Reply::status(503).retry_after(1)),
            _ => None,
        });
        let data = client.open(&server.url("/data"));
        let read = ReadOptions { task_size: Some(1000), ..ReadOptions::default() };
        let (told, telling) = channel();
        let told = std::sync::Mutex::new(told);
        let item_done = Box::new(move |item: usize, _: &raskio::op::items::ItemResult<'_>| {
            told.lock().unwrap().send((item, std::time::Instant::now())).unwrap();
        });
        let items = [range(&data, 0, 3050), range(&data, 3050, 50)];
        let options = BatchOptions { read, gap: Gap::Bytes(0), item_done: Some(item_done), ..BatchOptions::default() };
        let mut batch = Batch::start(&client, &items, options);
        assert!(server.wait_for(|counts| counts.gets >= 4, support::LONG));
        // Answered by now, but for a machine that is very busy: then it ends before it waits.
        std::thread::sleep(ms(100));
        server.clear_scripts();
        let before = std::time::Instant::now();
        gate.open();
        batch.wait().fails(ErrorKind::PermissionDenied, &["bytes 0-999"]);
        assert!(before.elapsed() < ms(15_000), "{:?}", before.elapsed());
        batch.item(0).fails(ErrorKind::PermissionDenied, &[]);
        batch.item(1).succeeds();
        let (first, _) = telling.recv_timeout(support::LONG).unwrap();
        let (second, _) = telling.recv_timeout(support::LONG).unwrap();
        let mut both = [first, second];
        both.sort_unstable();
        assert_eq!(both, [0, 1]);
    });
}

/// By a cancel or by the deadline, that come while the last item is told of.
#[test]
fn a_batch_whose_items_are_all_well_is_well_whatever_asked_it_to_end() {
    for_both_backends(|backend| {
        for deadline in [None, Some(ms(300))] {
            let server = server_of(1000);
            // So that the callback does not hold up who watches the deadline.
            let client = TestClient::with(backend, |options| options.callback_threads = Some(1));
            let data = client.open(&server.url("/data"));
            let (told, telling) = channel();
            let (go, going) = channel::<()>();
            let (told, going) = (std::sync::Mutex::new(told), std::sync::Mutex::new(going));
            let item_done = Box::new(move |item: usize, _: &raskio::op::items::ItemResult<'_>| {
                told.lock().unwrap().send(item).unwrap();
                going.lock().unwrap().recv_timeout(support::LONG).unwrap();
            });
            let read = ReadOptions { deadline, ..ReadOptions::default() };
            let options = BatchOptions { read, item_done: Some(item_done), ..BatchOptions::default() };
            let mut batch = Batch::start(&client, &[range(&data, 0, 100)], options);
            telling.recv_timeout(support::LONG).unwrap();
            if deadline.is_none() {
                batch.op.cancel();
            }
            support::eventually("it is asked to end", || batch.op.is_over());
            go.send(()).unwrap();
            batch.wait().succeeds();
            batch.item(0).succeeds();
            assert_eq!(client.stats().ops_cancelled, 0);
        }
    });
}

#[test]
fn a_shutdown_ends_a_batch_whole() {
    for_both_backends(|backend| {
        let server = server_of(1 << 20);
        let client = TestClient::new(backend);
        server.on(get("/data"), |_| Reply::never());
        let data = client.open(&server.url("/data"));
        let items: Vec<_> = (0..3000).map(|i| range(&data, i * 300, 10)).collect();
        let mut batch = Batch::start(&client, &items, gap(Gap::Never));
        assert!(server.wait_for(|counts| counts.gets > 0, support::LONG));
        client.shut_down(Some(support::LONG)).unwrap();
        batch.wait().fails(ErrorKind::ShutDown, &[]);
        for item in 0..items.len() {
            batch.item(item).fails(ErrorKind::ShutDown, &[]);
        }
    });
}

/// One lock and one wake-up however many they are, and all of them come.
#[test]
fn twenty_thousand_items_come_as_one_batch() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1 << 24), TestClient::new(backend));
        let data = client.open(&server.url("/data"));
        let items: Vec<_> = (0..20_000u64).map(|i| range(&data, (i * 7919) % ((1 << 24) - 16), 16)).collect();
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        batch.wait_within(support::LONG * 2).succeeds();
        for item in 0..items.len() {
            batch.item(item).succeeds();
        }
        assert!(server.gets() < 200, "{} requests", server.gets());
        let mut again = Batch::start(&client, &items[..2000], gap(Gap::Never));
        again.wait_within(support::LONG * 2).succeeds();
    });
}

/// A read that comes after a huge batch waits for a turn of it, not for all of it.
#[test]
fn a_small_read_is_not_held_up_by_a_huge_batch_before_it() {
    for_both_backends(|backend| {
        let server = server_of(1 << 20);
        let client = TestClient::with(backend, |options| {
            options.num_threads = Some(2);
            options.max_concurrent_requests = Some(2);
        });
        // 2 at a time take 5 ms each: the whole batch takes 5 s.
        server.on(get("/data"), |request| {
            (request.range_text() != Some("1000000-1000009")).then(|| Reply::object().delay(ms(5)))
        });
        let data = client.open(&server.url("/data"));
        let items: Vec<_> = (0..2000).map(|i| range(&data, i * 400, 10)).collect();
        let mut batch = Batch::start(&client, &items, gap(Gap::Never));
        assert!(server.wait_for(|counts| counts.gets > 10, support::LONG));
        read(&data, 1_000_000, 10);
        let before = server.ranges().iter().position(|range| range == "1000000-1000009").unwrap();
        assert!(before < 10 + 3 * 64, "{before} requests of the batch went first");
        assert!(!batch.is_over());
        batch.wait().succeeds();
    });
}

// ---- the end of an object -----------------------------------------------------------------------------------------
