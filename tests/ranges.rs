//! A reply is taken only for the bytes that were asked for, all of them and no others.

mod support;

use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::{Object, Reply, Server, get};
use support::{TestClient, for_both_backends, read, read_fails, start_with, stat, try_start};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

/// Case 1.
#[test]
fn a_body_that_stays_short_is_a_range_error_after_the_attempts() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        // 99 bytes of 100, then never the last one: an empty body whose head promises it.
        server.script(get("/data"), [Reply::object().short_by(1), Reply::object().short_by(1)]);
        let object = client.open(&server.url("/data"));
        read_fails(&object, 0, 100, ErrorKind::Range, &["short", "/data", "bytes 0-99"]);
        let ranges = server.ranges();
        assert_eq!(ranges[0], "0-99");
        assert!(ranges.len() <= 4, "more than 1 + 3 attempts: {ranges:?}");
        assert!(ranges[1..].iter().all(|range| range == "99-99"), "only what is missing: {ranges:?}");
        let stats = client.stats();
        assert_eq!((stats.requests_started, stats.requests_failed), (1, 1));
        assert_eq!(stats.requests_retried, server.gets() - 1);
    });
}

/// Case 4.
#[test]
fn a_server_that_ignores_ranges_is_named_and_asked_once() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::object().ignore_range()]);
        let object = client.open(&server.url("/data"));
        let error = read_fails(&object, 10, 10, ErrorKind::Range, &["support file ranges", "200"]);
        assert_eq!(error.http_status(), 200);
        assert_eq!(server.requests(), 1);
    });
}

/// Case 5.
#[test]
fn a_read_of_the_whole_object_may_be_a_200() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::object().ignore_range(), Reply::object().ignore_range().chunked()]);
        let object = client.open(&server.url("/data"));
        read(&object, 0, 100);
        assert_eq!(object.size(), Some(100), "its length is the object's size");
        let unknown = client.open(&server.url("/data"));
        read(&unknown, 0, 100);
        assert_eq!(server.requests(), 2);
    });
}

#[test]
fn a_longer_whole_object_is_not_cut_to_a_range_that_begins_at_its_start() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::object().ignore_range(), Reply::object().ignore_range().chunked()]);
        for _ in 0..2 {
            read_fails(&client.open(&server.url("/data")), 0, 50, ErrorKind::Range, &[]);
        }
        assert_eq!(server.requests(), 2);
    });
}

/// Case 6.
#[test]
fn another_range_than_the_one_asked_for_is_refused() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        for (i, (first, last)) in [(0, 9), (49, 58), (51, 60), (50, 99), (0, 99)].into_iter().enumerate() {
            server.script("/data", [Reply::object().answer_range(first, last)]);
            let mut reading = support::start(&object, 50, 10);
            reading.fails(ErrorKind::Range, &["bytes 50-59", &format!("bytes {first}-{last}/100")]);
            reading.buffer().assert_untouched();
            assert_eq!(server.requests(), i as u64 + 1, "not asked again");
        }
        server.clear_scripts();
        read(&object, 50, 10);
    });
}

#[test]
fn a_206_must_say_which_bytes_it_sends() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        for (reply, words) in [
            (Reply::object().without_header("Content-Range"), "no Content-Range"),
            (Reply::object().multipart(), "no Content-Range"),
            (Reply::object().header("Content-Range", "bytes ten-nineteen/100"), "makes no sense"),
            (Reply::object().header("Content-Range", "bytes 19-10/100"), "makes no sense"),
            (Reply::object().header("Content-Range", "bytes */100"), "bytes */100"),
        ] {
            server.reset_counts();
            server.script("/data", [reply]);
            let mut reading = support::start(&object, 10, 10);
            reading.fails(ErrorKind::Range, &[words]);
            reading.buffer().assert_untouched();
            assert_eq!(server.requests(), 1, "{words}");
        }
        server.clear_scripts();
        read(&object, 10, 10);
    });
}

#[test]
fn more_bytes_than_asked_for_never_reach_the_buffer() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        // Announced, and then not announced at all.
        server.script(
            "/data",
            [
                Reply::object().extra_body(50).header("Content-Length", "60"),
                Reply::object().extra_body(50).chunked(),
                Reply::object().extra_body(50).without_header("Content-Length"),
            ],
        );
        for n in 1..=3 {
            // Each with an object of its own: an error says nothing about the next one.
            read_fails(&client.open(&server.url("/data")), 10, 10, ErrorKind::Range, &[]);
            assert_eq!(server.requests(), n);
        }
    });
}

/// Case 7.
#[test]
fn a_range_that_overflows_is_refused_before_anything_is_sent() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(10), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        for (offset, len) in [(u64::MAX - 1, 4), (u64::MAX, 1), (i64::MAX as u64, 1), (i64::MAX as u64 - 2, 4)] {
            let error = try_start(&object, offset, len, &ReadOptions::default()).err().expect("a refusal");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.message().contains("/data"), "{error}");
        }
        assert_eq!(server.requests(), 0);
        assert_eq!(client.stats().ops_started, 0);
    });
}

#[test]
fn a_range_beyond_a_known_end_is_refused_before_anything_is_sent() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(10), TestClient::new(backend));
        let options = ObjectOptions { size: Some(10), ..ObjectOptions::default() };
        let object = client.0.open(&server.url("/data"), options).unwrap();
        for (offset, len) in [(8, 4), (11, 0), (0, 11)] {
            let error = try_start(&object, offset, len, &ReadOptions::default()).err().expect("a refusal");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.message().contains(&format!("cannot read {offset}+{len} bytes into a 10 bytes file")));
        }
        assert_eq!(server.requests(), 0);
        read(&object, 0, 10);
        assert_eq!(server.requests(), 1);
    });
}

#[test]
fn a_range_beyond_an_unknown_end_is_a_range_error() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let url = server.url("/data");
        // Wholly beyond: a 416. Partly: a 206 that ends with the object.
        let error = read_fails(&client.open(&url), 200, 10, ErrorKind::Range, &["beyond the end", "100"]);
        assert_eq!(error.http_status(), 416);
        read_fails(&client.open(&url), 90, 20, ErrorKind::Range, &["ends after 100 bytes"]);
        assert_eq!(server.requests(), 2, "neither is worth another attempt");
    });
}

#[test]
fn any_read_learns_the_size_and_later_ones_are_checked_against_it() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        assert_eq!(object.size(), None);
        read(&object, 20, 10);
        assert_eq!(object.size(), Some(100));
        assert!(object.info().etag.is_some());
        let error = try_start(&object, 95, 10, &ReadOptions::default()).err().expect("a refusal");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(server.requests(), 1);
    });
}

/// Case 8.
#[test]
fn an_empty_object_has_size_0_and_a_read_of_nothing_sends_nothing() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(0), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        assert_eq!(stat(&object).unwrap(), 0);
        assert_eq!(read(&object, 0, 0).bytes, 0);
        assert_eq!((server.heads(), server.gets()), (1, 0));
    });
}

#[test]
fn an_empty_object_whose_head_is_refused_is_measured_by_its_416() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(0), TestClient::new(backend));
        server.script(raskio_testserver::head("/data"), [Reply::status(403)]);
        assert_eq!(stat(&client.open(&server.url("/data"))).unwrap(), 0);
        assert_eq!(server.ranges(), ["0-0"]);
        assert_eq!(server.log().last().unwrap().method, "GET");
    });
}

#[test]
fn a_read_is_cut_into_requests_of_the_task_size() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1000), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        start_with(&object, 5, 95, &ReadOptions { task_size: Some(40), deadline: None }).succeeds();
        let mut ranges = server.ranges();
        ranges.sort();
        assert_eq!(ranges, ["45-84", "5-44", "85-99"]);
        assert_eq!(client.stats().requests_started, 3);
    });
}

/// Case 28.
#[test]
fn identity_is_asked_for_and_an_encoded_reply_is_an_error() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(5000), TestClient::new(backend));
        server.script("/data", [Reply::object().gzip_if_accepted()]);
        read(&client.open(&server.url("/data")), 100, 1000);
        let accepted = server.log()[0].header("Accept-Encoding").unwrap().to_owned();
        assert_eq!(accepted, "identity");

        server.script("/data", [Reply::object().gzip_always()]);
        let mut reading = support::start(&client.open(&server.url("/data")), 100, 1000);
        reading.fails(ErrorKind::Range, &["gzip", "identity"]);
        reading.buffer().assert_untouched();
        assert_eq!(server.requests(), 2, "an encoded reply is not asked for again");
    });
}
