//! A cut reply costs what was not yet received, and an object that changed is never put together from two versions.

mod support;

use raskio::error::ErrorKind;
use raskio::retry::MAX_RESUMES;
use raskio_testserver::{Object, Reply, Server, get};
use support::{TestClient, for_both_backends, ms, read, read_fails, start, start_with};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len).etag("\"a\""));
    server
}

/// Case 2, on the host.
#[test]
fn after_a_stall_only_the_rest_is_asked_for() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.stall_timeout_ms = Some(500));
        server.script(get("/data"), [Reply::object().stall_after(7), Reply::object()]);
        let outcome = read(&client.open(&server.url("/data")), 0, 100);
        assert_eq!(server.ranges(), ["0-99", "7-99"]);
        assert_eq!(outcome.attempts, 2);
        let stats = client.stats();
        assert_eq!((stats.requests_started, stats.requests_retried, stats.requests_failed), (1, 1, 0));
    });
}

/// Case 3.
#[test]
fn after_a_reset_only_the_rest_is_asked_for() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1 << 20), TestClient::new(backend));
        server.script(get("/data"), [Reply::object().reset_after(300 << 10), Reply::object()]);
        read(&client.open(&server.url("/data")), 0, 1 << 20);
        let ranges = server.ranges();
        assert_eq!(ranges.len(), 2);
        // A reset may throw away what the kernel had received but nobody had read.
        let from: u64 = ranges[1].split('-').next().unwrap().parse().unwrap();
        assert!(from > 0 && from <= 300 << 10, "{ranges:?}");
        assert!(ranges[1].ends_with("-1048575"));
    });
}

#[test]
fn after_an_early_close_or_a_short_reply_only_the_rest_is_asked_for() {
    for_both_backends(|backend| {
        let client = TestClient::new(backend);
        for reply in [
            Reply::object().close_after(40),
            Reply::object().short_by(60),
            Reply::object().short_range_by(60),
            Reply::object().chunked().close_after(40),
        ] {
            let server = server_of(100);
            server.script(get("/data"), [reply, Reply::object()]);
            read(&client.open(&server.url("/data")), 0, 100);
            assert_eq!(server.ranges(), ["0-99", "40-99"]);
        }
    });
}

#[test]
fn a_server_without_ranges_is_resumed_by_reading_the_whole_object_again() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100_000), TestClient::new(backend));
        server.script(
            get("/data"),
            [
                Reply::object().ignore_range().close_after(40_000),
                Reply::object().ignore_range().close_after(30_000),
                Reply::object().ignore_range().close_after(70_000),
                Reply::object().ignore_range(),
            ],
        );
        read(&client.open(&server.url("/data")), 0, 100_000);
        assert_eq!(server.ranges(), ["0-99999", "40000-99999", "40000-99999", "70000-99999"]);
        // Another version, and a part of the object, cannot be continued like that.
        let object = client.open(&server.url("/data"));
        let changed = Reply::object().ignore_range().etag("\"b\"");
        server.script(get("/data"), [Reply::object().ignore_range().close_after(40_000), changed]);
        read_fails(&object, 0, 100_000, ErrorKind::ObjectChanged, &[]);
        let object = client.open(&server.url("/data"));
        server.script(get("/data"), [Reply::object().close_after(40), Reply::object().ignore_range()]);
        read_fails(&object, 10, 100, ErrorKind::Range, &["ignored the range"]);
    });
}

#[test]
fn a_resume_names_the_version_only_by_a_strong_etag() {
    for_both_backends(|backend| {
        for (etag, if_match) in [(Some("\"v1\""), Some("\"v1\"")), (Some("W/\"v1\""), None), (None, None)] {
            let (server, client) = (server_of(100), TestClient::new(backend));
            let object = Object::pattern(100);
            server.put("/data", if let Some(etag) = etag { object.etag(etag) } else { object.no_etag() });
            server.script(get("/data"), [Reply::object().close_after(40), Reply::object()]);
            read(&client.open(&server.url("/data")), 0, 100);
            let log = server.log();
            assert_eq!(log[0].header("If-Match"), None, "the first attempt has nothing to match");
            assert_eq!(log[1].header("If-Match"), if_match);
            assert!(log.iter().all(|request| request.header("If-Range").is_none()));
        }
    });
}

#[test]
fn the_precondition_does_not_stick_to_the_handle() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.num_threads = Some(1));
        server.script(get("/data"), [Reply::object().close_after(40), Reply::object()]);
        let object = client.open(&server.url("/data"));
        read(&object, 0, 100);
        read(&object, 0, 10);
        assert_eq!(server.log()[1].header("If-Match"), Some("\"a\""));
        assert_eq!(server.log()[2].header("If-Match"), None);
    });
}

#[test]
fn a_412_to_a_resume_means_that_the_object_changed() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script(get("/data"), [Reply::object().close_after(40), Reply::object().etag("\"b\"")]);
        let error = read_fails(&client.open(&server.url("/data")), 0, 100, ErrorKind::ObjectChanged, &["changed"]);
        assert_eq!(error.http_status(), 412);
        assert_eq!(server.ranges(), ["0-99", "40-99"], "not tried again");
    });
}

#[test]
fn another_version_that_ignores_the_precondition_is_seen_by_its_etag_or_size() {
    for_both_backends(|backend| {
        for second in [Reply::object().header("ETag", "\"b\""), Reply::object().total(101)] {
            let (server, client) = (server_of(100), TestClient::new(backend));
            server.script(get("/data"), [Reply::object().close_after(40), second]);
            let mut reading = start(&client.open(&server.url("/data")), 0, 100);
            reading.fails(ErrorKind::ObjectChanged, &["changed", "/data"]);
            assert_eq!(server.gets(), 2);
            let bytes = reading.buffer().bytes();
            assert!(bytes[40..].iter().all(|byte| *byte == 0xEE), "bytes of the other version were delivered");
        }
    });
}

/// Case 27.
#[test]
fn an_object_that_changes_between_the_requests_of_one_read_is_an_error() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(400), TestClient::new(backend));
        server.on(get("/data"), |request| match request.range_text() {
            Some("0-99") => Reply::object(),
            // Later than the first, so that the order is sure.
            _ => Reply::object().delay(ms(200)).header("ETag", "\"b\""),
        });
        let options = raskio::object::ReadOptions { task_size: Some(100), deadline: None };
        let mut reading = start_with(&client.open(&server.url("/data")), 0, 400, &options);
        reading.fails(ErrorKind::ObjectChanged, &["ETag", "\"a\"", "\"b\""]);
        assert!(server.gets() <= 4, "not tried again: {:?}", server.ranges());
    });
}

#[test]
fn an_object_that_changes_between_two_reads_is_an_error_until_it_is_opened_anew() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(400), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        read(&object, 0, 10);
        server.put("/data", Object::pattern(400).etag("\"b\""));
        read_fails(&object, 10, 10, ErrorKind::ObjectChanged, &["open it anew"]);
        read(&client.open(&server.url("/data")), 10, 10);
        assert_eq!(server.gets(), 3);
    });
}

#[test]
fn progress_uses_up_no_attempts() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(2));
        let cut = || Reply::object().close_after(20);
        server.script(get("/data"), [cut(), cut(), cut(), cut(), Reply::object()]);
        let outcome = read(&client.open(&server.url("/data")), 0, 100);
        assert_eq!(server.ranges(), ["0-99", "20-99", "40-99", "60-99", "80-99"]);
        assert_eq!(outcome.attempts, 5);
    });
}

#[test]
fn attempts_without_progress_are_counted_across_those_with_some() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(2));
        server.script(get("/data"), [Reply::close(), Reply::object().close_after(20), Reply::close()]);
        read_fails(&client.open(&server.url("/data")), 0, 100, ErrorKind::Connection, &["1 resumed"]);
        assert_eq!(server.ranges(), ["0-99", "0-99", "20-99"]);
    });
}

#[test]
fn a_byte_at_a_time_does_not_hold_a_read_for_ever() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script(get("/data"), [Reply::object().close_after(1)]);
        let error = read_fails(&client.open(&server.url("/data")), 0, 100, ErrorKind::Connection, &["resumed"]);
        assert!(error.message().contains(&format!("{} resumed", MAX_RESUMES + 1)), "{error}");
        assert_eq!(server.gets(), u64::from(MAX_RESUMES) + 1);
        assert_eq!(server.ranges().last().unwrap(), &format!("{MAX_RESUMES}-99"));
    });
}

#[test]
fn one_attempt_means_that_nothing_is_resumed() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(1));
        server.script(get("/data"), [Reply::object().close_after(40)]);
        read_fails(&client.open(&server.url("/data")), 0, 100, ErrorKind::Connection, &[]);
        assert_eq!(server.gets(), 1);
    });
}
