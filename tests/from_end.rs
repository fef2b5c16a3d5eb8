//! Reads from the end of an object, alone and in batches.

mod support;

use raskio::batch::BatchOptions;
use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio_testserver::{Object, Reply, Server, get};
use support::batch::{Batch, last, range};
use support::{TestClient, for_both_backends};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len).etag("\"a\""));
    server
}

fn sorted(server: &Server) -> Vec<String> {
    let mut ranges = server.ranges();
    ranges.sort();
    ranges
}

#[test]
fn the_end_of_an_object_costs_one_round_trip_and_tells_its_size() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(5000), TestClient::new(backend));
        let data = client.open(&server.url("/data"));
        let mut batch = Batch::start(&client, &[last(&data, 100)], BatchOptions::default());
        batch.wait().succeeds();
        let item = batch.item(0).succeeds_at(4900, 100);
        assert_eq!(item.attempts, 1);
        assert_eq!((data.size(), server.ranges()), (Some(5000), vec!["-100".into()]));
        // Known now: an ordinary range, that may be merged.
        let items = [last(&data, 100), range(&data, 4850, 50), last(&data, 6000), last(&data, 0)];
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        batch.wait().succeeds();
        batch.item(0).succeeds_at(4900, 100);
        batch.item(1).succeeds();
        batch.item(2).succeeds_at(0, 5000);
        batch.item(3).succeeds_at(5000, 0);
        assert_eq!(server.ranges(), ["-100", "0-4999"]);
    });
}

#[test]
fn a_read_from_the_end_delivers_what_there_is_and_says_where_it_lies() {
    for_both_backends(|backend| {
        for (size, len, offset, bytes) in [(5000, 100, 4900, 100), (70, 100, 0, 70), (100, 100, 0, 100)] {
            let (server, client) = (server_of(size), TestClient::new(backend));
            let data = client.open(&server.url("/data"));
            for _ in 0..2 {
                let mut reading = support::start_last(&data, len, &ReadOptions::default());
                reading.succeeds_at(offset, bytes);
            }
            assert_eq!(server.requests(), 2);
            assert_eq!(data.size(), Some(size));
        }
    });
}

#[test]
fn the_end_of_an_empty_object_is_empty() {
    for_both_backends(|backend| {
        for head in [false, true] {
            let (server, client) = (server_of(0), TestClient::new(backend));
            if head {
                server.script(get("/data"), [Reply::status(416)]);
            }
            let data = client.open(&server.url("/data"));
            support::start_last(&data, 100, &ReadOptions::default()).succeeds_at(0, 0);
            assert_eq!((data.size(), server.heads()), (Some(0), u64::from(head)));
        }
    });
}

#[test]
fn servers_without_such_ranges_are_asked_for_the_size_or_have_told_it() {
    for_both_backends(|backend| {
        let other = Reply::object().answer_range(0, 100);
        for (reply, size_asked) in [
            // What some take `-100` for, of which the size is known then.
            (other.clone(), false),
            (Reply::status(416).header("Content-Range", "bytes */5000"), false),
            (Reply::object().ignore_range(), false),
            (other.unknown_total(), true),
            (Reply::object().answer_range(0, 99).unknown_total(), true),
            (Reply::status(416), true),
            (Reply::status(400), true),
            (Reply::status(501), true),
        ] {
            let (server, client) = (server_of(5000), TestClient::new(backend));
            let answer = reply.clone();
            server.on(get("/data"), move |request| {
                request.range_text().is_some_and(|range| range.starts_with('-')).then(|| answer.clone())
            });
            let data = client.open(&server.url("/data"));
            let mut reading = support::start_last(&data, 100, &ReadOptions::default());
            let outcome = reading.succeeds_at(4900, 100);
            assert_eq!(outcome.attempts, 2 + u32::from(size_asked), "{reply:?}");
            assert_eq!(
                (server.ranges(), server.heads()),
                (vec!["-100".into(), "4900-4999".into()], u64::from(size_asked))
            );
        }
    });
}

#[test]
fn a_server_without_ranges_gives_the_end_if_that_is_the_whole_and_an_error_if_not() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script(get("/data"), [Reply::object().ignore_range()]);
        support::start_last(&client.open(&server.url("/data")), 100, &ReadOptions::default()).succeeds_at(0, 100);
        support::start_last(&client.open(&server.url("/data")), 400, &ReadOptions::default()).succeeds_at(0, 100);
        let mut reading = support::start_last(&client.open(&server.url("/data")), 99, &ReadOptions::default());
        reading.fails(ErrorKind::Range, &["ignored the range"]);
    });
}

#[test]
fn the_end_is_resumed_where_it_was_cut_and_errors_are_its_own() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(5000), TestClient::new(backend));
        server.script(get("/data"), [Reply::close(), Reply::object().close_after(40), Reply::object()]);
        let mut reading = support::start_last(&client.open(&server.url("/data")), 100, &ReadOptions::default());
        assert_eq!(reading.succeeds_at(4900, 100).attempts, 3);
        assert_eq!(server.ranges(), ["-100", "-100", "4940-4999"]);
        server.script(get("/data"), [Reply::status(404)]);
        let mut reading = support::start_last(&client.open(&server.url("/data")), 100, &ReadOptions::default());
        reading.fails(ErrorKind::NotFound, &["the last 100 bytes", "/data"]);
    });
}

#[test]
fn a_long_end_is_cut_once_the_size_is_known() {
    for_both_backends(|backend| {
        for (size, len, requests) in
            [(1000, 350, &["650-749", "750-849", "850-949", "950-999"][..]), (120, 350, &["0-99", "100-119"])]
        {
            let (server, client) = (server_of(size), TestClient::new(backend));
            let data = client.open(&server.url("/data"));
            let read = ReadOptions { task_size: Some(100), ..ReadOptions::default() };
            let mut reading = support::start_last(&data, len, &read);
            let bytes = size.min(len as u64);
            reading.succeeds_at(size - bytes, bytes as usize);
            assert_eq!(
                (server.heads(), sorted(&server)),
                (1, {
                    let mut all: Vec<String> = requests.iter().map(|one| (*one).to_owned()).collect();
                    all.sort();
                    all
                })
            );
            let data = client.open(&server.url("/data"));
            let items = [last(&data, len), range(&data, 0, 10), last(&data, 20)];
            let mut batch = Batch::start(&client, &items, BatchOptions { read, ..BatchOptions::default() });
            batch.wait().succeeds();
            batch.item(0).succeeds_at(size - bytes, bytes as usize);
            batch.item(1).succeeds();
            batch.item(2).succeeds_at(size - 20, 20);
        }
    });
}

#[test]
fn over_webhdfs_the_size_is_asked_for_first() {
    for_both_backends(|backend| {
        let hdfs = raskio_testserver::WebHdfs::start();
        hdfs.put("/f", raskio_testserver::webhdfs::Node::File(5000));
        hdfs.put("/empty", raskio_testserver::webhdfs::Node::File(0));
        let client = TestClient::new(backend);
        let file = client.open(&hdfs.url("/f"));
        assert_eq!(support::start_last(&file, 100, &ReadOptions::default()).succeeds_at(4900, 100).attempts, 3);
        let file = client.open(&hdfs.url("/f"));
        let items = [range(&file, 0, 10), range(&file, 4990, 20), range(&file, 100, 10), range(&file, 5010, 1)];
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        batch.wait().fails(ErrorKind::Range, &["ends after 5000 bytes"]);
        batch.item(0).succeeds();
        batch.item(2).succeeds();
        batch.item(1).fails(ErrorKind::Range, &[]);
        batch.item(3).fails(ErrorKind::Range, &[]);
        support::start_last(&client.open(&hdfs.url("/empty")), 100, &ReadOptions::default()).succeeds_at(0, 0);
    });
}
