//! A cancelled read is over at once wherever it was, tells its caller once, and leaves the buffer alone from then on.

mod support;

use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio_testserver::{BlackHole, Gate, Object, Reply, Server};
use std::time::{Duration, Instant};
use support::{LONG, Reading, TestClient, eventually, for_both_backends, ms, read, start};

/// Prompt, as people see it; a busy machine included.
const PROMPT: Duration = Duration::from_millis(200);

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

/// One request at a time.
fn narrow(backend: Backend) -> TestClient {
    TestClient::with(backend, |options| {
        options.num_threads = Some(1);
        options.max_concurrent_requests = Some(1);
    })
}

/// Cancels, and checks what the caller then sees. What had arrived before stays as it was then.
#[track_caller]
fn cancelled(reading: &mut Reading) {
    let began = Instant::now();
    reading.op.cancel();
    let outcome = reading.wait();
    let took = outcome.at - began;
    outcome.fails(ErrorKind::Cancelled, &["cancelled"]);
    assert!(took < PROMPT, "the callback came after {took:?}");
    let then = reading.buffer().bytes().to_vec();
    // A second one is no news.
    reading.op.cancel();
    std::thread::sleep(ms(100));
    assert_eq!(reading.buffer().bytes(), then, "the buffer was written after the callback");
    reading.buffer().assert_guards();
}

#[test]
fn while_it_waits_for_a_permit() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), narrow(backend));
        let gate = Gate::new();
        server.script("/data", [Reply::object().hold(&gate)]);
        let object = client.open(&server.url("/data"));
        let mut first = start(&object, 0, 100);
        assert!(gate.wait_held(1, LONG));
        let mut waiting = start(&object, 0, 100);
        let mut last = start(&object, 0, 100);
        cancelled(&mut waiting);
        waiting.buffer().assert_untouched();
        gate.open();
        first.succeeds();
        last.succeeds();
        assert_eq!(server.requests(), 2, "what was cancelled before it was sent is never sent");
    });
}

#[test]
fn while_it_connects() {
    for_both_backends(|backend| {
        let hole = BlackHole::new();
        let client = TestClient::new(backend);
        let mut reading = start(&client.open(&hole.url("/data")), 0, 100);
        eventually("it connects", || client.stats().requests_in_flight == 1);
        std::thread::sleep(ms(50));
        cancelled(&mut reading);
        reading.buffer().assert_untouched();
    });
}

#[test]
fn before_the_first_byte() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::never()]);
        let mut reading = start(&client.open(&server.url("/data")), 0, 100);
        assert!(server.wait_for(|counts| counts.in_flight == 1, LONG));
        cancelled(&mut reading);
        reading.buffer().assert_untouched();
        assert!(server.wait_for(|counts| counts.aborted == 1, LONG), "the server is let go");
    });
}

#[test]
fn in_the_middle_of_a_body() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(64 << 20), TestClient::new(backend));
        server.script("/data", [Reply::object().rate(8 << 20)]);
        let object = client.open(&server.url("/data"));
        let mut reading = start(&object, 0, 64 << 20);
        assert!(server.wait_for(|counts| counts.in_flight > 0, LONG));
        std::thread::sleep(ms(200));
        cancelled(&mut reading);
        eventually("the connections are given up", || server.in_flight() == 0);
        let stats = client.stats();
        assert_eq!((stats.requests_in_flight, stats.requests_queued), (0, 0));
    });
}

#[test]
fn in_backoff() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::status(503).retry_after(30)]);
        let mut reading = start(&client.open(&server.url("/data")), 0, 100);
        eventually("it waits for its next attempt", || {
            let stats = client.stats();
            server.counts().completed == 1 && (stats.requests_in_flight, stats.requests_queued) == (0, 1)
        });
        cancelled(&mut reading);
        reading.buffer().assert_untouched();
        assert_eq!(server.requests(), 1);
    });
}

#[test]
fn right_after_the_start() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        let (mut won, mut lost) = (0, 0);
        for i in 0..300 {
            let mut reading = start(&object, 0, 100);
            if i % 3 > 0 {
                std::thread::sleep(Duration::from_micros(20 * (i % 30)));
            }
            reading.op.cancel();
            // OK if the cancel lost the race: then every byte is there.
            match reading.wait().error {
                None => {
                    lost += 1;
                    assert_eq!(reading.buffer().bytes(), raskio_testserver::pattern(100));
                }
                Some(error) => {
                    won += 1;
                    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                }
            }
        }
        let stats = client.stats();
        assert_eq!((stats.ops_cancelled, stats.ops_finished), (won, won + lost));
        read(&object, 0, 100);
    });
}

#[test]
fn after_the_end_nothing_happens() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let mut reading = start(&client.open(&server.url("/data")), 0, 100);
        reading.succeeds();
        reading.op.cancel();
        reading.op.wait(Some(Duration::ZERO)).unwrap();
        assert_eq!(client.stats().ops_cancelled, 0);
    });
}

#[test]
fn one_cancelled_read_leaves_the_others_alone() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(1 << 20), TestClient::new(backend));
        let gate = Gate::new();
        server.script("/data", [Reply::object().hold(&gate)]);
        let object = client.open(&server.url("/data"));
        let mut reads: Vec<_> = (0..6).map(|i| start(&object, i * 1000, 100_000)).collect();
        assert!(gate.wait_held(6, LONG));
        cancelled(&mut reads[2]);
        cancelled(&mut reads[4]);
        gate.open();
        for (i, read) in reads.iter_mut().enumerate() {
            if i != 2 && i != 4 {
                read.succeeds();
            }
        }
    });
}

#[test]
fn a_read_of_thousands_of_requests_is_cancelled_at_once() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(64 << 20), TestClient::new(backend));
        let gate = Gate::new();
        server.script("/data", [Reply::object().hold(&gate)]);
        let options = raskio::object::ReadOptions { task_size: Some(4096), deadline: None };
        let mut reading = support::start_with(&client.open(&server.url("/data")), 0, 64 << 20, &options);
        assert!(gate.wait_held(8, LONG));
        let began = Instant::now();
        reading.op.cancel();
        let outcome = reading.wait();
        outcome.fails(ErrorKind::Cancelled, &[]);
        assert!(outcome.at - began < ms(2000), "16,384 requests took {:?} to end", outcome.at - began);
        reading.buffer().assert_untouched();
        gate.open();
        assert_eq!(client.stats().requests_started, 16 << 10);
    });
}
