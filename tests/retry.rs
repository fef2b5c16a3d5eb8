//! What may go away by itself is tried again, after the right wait and the right number of times; nothing else is.

mod support;

use raskio::error::ErrorKind;
use raskio_testserver::{Object, Reply, Server, get};
use std::time::{Duration, SystemTime};
use support::{TestClient, for_both_backends, ms, read, read_fails, start};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

/// Time between the arrivals of the requests.
fn gaps(server: &Server) -> Vec<Duration> {
    server.log().windows(2).map(|two| two[1].arrived - two[0].arrived).collect()
}

/// Case 13.
#[test]
fn a_busy_server_is_asked_again_after_half_a_second_and_a_whole_one() {
    for_both_backends(|backend| {
        // In a pool any thread may take the next attempt, and each has a connection of its own.
        let (server, client) = (server_of(100), TestClient::with(backend, |options| options.num_threads = Some(1)));
        server.script("/data", [Reply::status(503), Reply::status(503), Reply::object()]);
        let outcome = read(&client.open(&server.url("/data")), 0, 100);
        assert_eq!((server.requests(), outcome.attempts), (3, 3));
        let gaps = gaps(&server);
        assert!(gaps[0] >= ms(500) && gaps[1] >= ms(1000), "{gaps:?}");
        let stats = client.stats();
        assert_eq!((stats.requests_started, stats.requests_retried, stats.requests_failed), (1, 2, 0));
        assert_eq!(server.connections(), 1, "a 503 costs no connection");
    });
}

/// Case 14.
#[test]
fn a_server_that_stays_busy_is_unavailable_after_the_attempts() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script(
            "/data",
            [Reply::status(503).body("<Error><Code>SlowDown</Code><Message>Later.</Message></Error>")],
        );
        let mut reading = start(&client.open(&server.url("/data")), 0, 100);
        let error = reading.fails(ErrorKind::Unavailable, &["503", "3 attempts", "SlowDown: Later.", "/data"]);
        assert_eq!(error.http_status(), 503);
        assert_eq!(server.requests(), 3);
        reading.buffer().assert_untouched();
    });
}

#[test]
fn the_statuses_worth_a_retry_are_the_callers() {
    for_both_backends(|backend| {
        for (statuses, status, kind, requests) in [
            (vec![418], 418, ErrorKind::Http, 2),
            (vec![418], 503, ErrorKind::Unavailable, 1),
            (vec![], 429, ErrorKind::Unavailable, 1),
            (vec![404], 404, ErrorKind::NotFound, 2),
        ] {
            let server = server_of(100);
            let client = TestClient::with(backend, |options| {
                options.retry_status = Some(statuses);
                options.max_attempts = Some(2);
            });
            server.script("/data", [Reply::status(status)]);
            read_fails(&client.open(&server.url("/data")), 0, 100, kind, &[]);
            assert_eq!(server.requests(), requests, "{status}");
        }
    });
}

#[test]
fn each_of_the_default_statuses_is_tried_again() {
    for_both_backends(|backend| {
        let client = TestClient::new(backend);
        let servers: Vec<Server> = [408, 429, 500, 502, 503, 504]
            .into_iter()
            .map(|status| {
                let server = server_of(100);
                server.script("/data", [Reply::status(status), Reply::object()]);
                server
            })
            .collect();
        let mut reads: Vec<_> =
            servers.iter().map(|server| start(&client.open(&server.url("/data")), 0, 100)).collect();
        for (read, server) in reads.iter_mut().zip(&servers) {
            read.succeeds();
            assert_eq!(server.requests(), 2);
        }
    });
}

/// Case 16, in seconds.
#[test]
fn a_wait_that_the_server_asks_for_in_seconds_is_kept() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::status(429).retry_after(1), Reply::object()]);
        read(&client.open(&server.url("/data")), 0, 100);
        let gaps = gaps(&server);
        assert!(gaps.len() == 1 && gaps[0] >= ms(1000), "{gaps:?}");
    });
}

/// Case 16, as a date.
#[test]
fn a_wait_that_the_server_asks_for_as_a_date_is_kept() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        // Computed when the request is there; a date has whole seconds, so two of them are at least one.
        server.on(get("/data"), {
            let first = std::sync::atomic::AtomicBool::new(true);
            move |_| match first.swap(false, std::sync::atomic::Ordering::SeqCst) {
                true => Reply::status(429).retry_after_date(SystemTime::now() + Duration::from_secs(2)),
                false => Reply::object(),
            }
        });
        read(&client.open(&server.url("/data")), 0, 100);
        let gaps = gaps(&server);
        assert!(gaps.len() == 1 && gaps[0] >= ms(1000), "{gaps:?}");
    });
}

#[test]
fn requests_that_failed_together_do_not_come_back_together() {
    for_both_backends(|backend| {
        let server = server_of(4096);
        let client = TestClient::with(backend, |options| options.num_threads = Some(32));
        let gate = raskio_testserver::Gate::barrier(32);
        server.on(get("/data"), {
            let seen = std::sync::atomic::AtomicUsize::new(0);
            move |_| match seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0..32 => Reply::status(503).hold(&gate),
                _ => Reply::object(),
            }
        });
        let options = raskio::object::ReadOptions { task_size: Some(128), deadline: None };
        support::start_with(&client.open(&server.url("/data")), 0, 4096, &options).succeeds();
        let log = server.log();
        assert_eq!(log.len(), 64);
        let (first, last) = (log[32].arrived, log[63].arrived);
        // 32 chances in a window of 125 ms: all within 30 ms of it is as good as impossible.
        assert!(last - first >= ms(30), "the second attempts came within {:?}", last - first);
    });
}

#[test]
fn what_the_network_breaks_is_tried_again() {
    for_both_backends(|backend| {
        let client = TestClient::new(backend);
        let cut_head = |head: &str| Reply::raw(head.as_bytes());
        for reply in [
            Reply::close(),
            Reply::reset(),
            Reply::object().reset_after(0),
            cut_head("HTTP/1."),
            cut_head("HTTP/1.1 206 Partial Content\r\n"),
            cut_head("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-99/1"),
            cut_head("HTTP/1.1 404 Not Fou"),
            cut_head("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n"),
        ] {
            let server = server_of(100);
            server.script("/data", [reply, Reply::object()]);
            read(&client.open(&server.url("/data")), 0, 100);
            assert_eq!(server.ranges(), ["0-99", "0-99"]);
            assert!(gaps(&server)[0] >= ms(500), "a fresh connection that breaks is a failure, and is waited for");
        }
    });
}

#[test]
fn a_server_that_comes_back_within_the_attempts_is_read() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.refuse_connections();
        let mut reading = start(&client.open(&server.url("/data")), 0, 100);
        std::thread::sleep(ms(300));
        assert!(!reading.is_over());
        server.accept_connections();
        let outcome = reading.succeeds();
        assert_eq!(server.requests(), 1);
        assert!(outcome.attempts >= 2, "{outcome:?}");
    });
}

#[test]
fn a_server_that_stays_away_is_a_connection_error() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(2));
        server.refuse_connections();
        let object = client.open(&server.url("/data"));
        let error = read_fails(&object, 0, 100, ErrorKind::Connection, &["2 attempts", "/data"]);
        // ECONNREFUSED
        assert_eq!(error.os_code(), 111, "{error}");
        server.accept_connections();
        read(&object, 0, 100);
    });
}

#[test]
fn a_waiting_request_holds_no_permit_and_no_thread() {
    for_both_backends(|backend| {
        let server = server_of(100);
        server.put("/healthy", Object::pattern(1000));
        let client = TestClient::with(backend, |options| {
            options.max_concurrent_requests = Some(1);
            options.num_threads = Some(1);
        });
        server.script("/data", [Reply::status(503).retry_after(2), Reply::object()]);
        let mut waiting = start(&client.open(&server.url("/data")), 0, 100);
        support::eventually("the first answer is in", || {
            let stats = client.stats();
            server.counts().completed == 1 && (stats.requests_in_flight, stats.requests_queued) == (0, 1)
        });
        let healthy = client.open(&server.url("/healthy"));
        for _ in 0..10 {
            start(&healthy, 0, 1000).succeeds();
        }
        assert!(!waiting.is_over(), "ten reads fit into the wait of the other");
        waiting.succeeds();
    });
}

#[test]
fn what_cannot_get_better_is_not_tried_again() {
    for_both_backends(|backend| {
        let client = TestClient::new(backend);
        for (status, kind) in [
            (400, ErrorKind::Http),
            (401, ErrorKind::PermissionDenied),
            (403, ErrorKind::PermissionDenied),
            (404, ErrorKind::NotFound),
            (409, ErrorKind::Http),
            (410, ErrorKind::NotFound),
            (501, ErrorKind::Unavailable),
            (505, ErrorKind::Unavailable),
        ] {
            let server = server_of(100);
            server.script("/data", [Reply::status(status)]);
            let error = read_fails(&client.open(&server.url("/data")), 0, 100, kind, &[&status.to_string()]);
            assert_eq!(error.http_status(), status);
            assert_eq!(server.requests(), 1, "{status}");
        }
    });
}
