//! Nothing takes longer than its limit, and what is merely slow is let be.

mod support;

use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio::op::OpResult;
use raskio_testserver::{BlackHole, Gate, Object, Reply, Server};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use support::{Guarded, LONG, TestClient, for_both_backends, ms, read, read_fails, start, start_with};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

fn deadline(limit: Duration) -> ReadOptions {
    ReadOptions { task_size: None, deadline: Some(limit) }
}

/// Case 17.
#[test]
fn a_server_that_never_answers_is_given_up_and_holds_up_nobody() {
    for_both_backends(|backend| {
        let (dead, healthy) = (server_of(100), server_of(1 << 20));
        dead.script("/data", [Reply::never()]);
        let client = TestClient::with(backend, |options| {
            options.stall_timeout_ms = Some(1000);
            options.max_attempts = Some(2);
        });
        let began = Instant::now();
        let mut stuck = start(&client.open(&dead.url("/data")), 0, 100);
        let object = client.open(&healthy.url("/data"));
        let mut reads: Vec<_> = (0..10).map(|_| start(&object, 0, 1 << 20)).collect();
        for read in &mut reads {
            let took = read.succeeds().at - began;
            assert!(took < ms(1000), "a healthy read took {took:?}");
        }
        let outcome = stuck.wait();
        outcome.fails(ErrorKind::TimedOut, &["stall limit", "2 attempts"]);
        let took = outcome.at - began;
        assert!(took >= ms(2500) && took < ms(4000), "two limits of 1 s and a wait of 0.5 s took {took:?}");
        assert_eq!(dead.requests(), 2);
        stuck.buffer().assert_untouched();
    });
}

/// A thread of the pool went to sleep after it, with a request waiting.
#[test]
fn what_waits_behind_a_stalled_request_starts_as_soon_as_that_is_given_up() {
    for_both_backends(|backend| {
        let server = server_of(100);
        server.script("/data", [Reply::never(), Reply::object()]);
        let client = TestClient::with(backend, |options| {
            options.stall_timeout_ms = Some(500);
            options.max_attempts = Some(1);
            options.num_threads = Some(1);
            options.max_concurrent_requests = Some(1);
        });
        let object = client.open(&server.url("/data"));
        let mut stalled = start(&object, 0, 100);
        assert!(server.wait_for(|counts| counts.in_flight == 1, support::LONG));
        let mut waiting = start(&object, 0, 100);
        let given_up = stalled.wait();
        given_up.fails(ErrorKind::TimedOut, &["stall limit"]);
        let waited = waiting.succeeds().at - given_up.at;
        assert!(waited < Duration::from_secs(2), "{waited:?} after the stalled request was given up");
    });
}

/// Answers lie in the kernel, or come, while the only reactor is kept by callbacks for longer than the limit.
#[test]
fn the_time_that_callbacks_take_is_no_stall_of_others() {
    let server = server_of(1 << 20);
    let client = TestClient::with(Backend::MultiPoll, |options| {
        options.stall_timeout_ms = Some(2000);
        options.num_reactors = Some(1);
        options.max_attempts = Some(1);
    });
    let object = client.open(&server.url("/data"));
    server.put("/quick", Object::pattern(1));
    let quick = client.open(&server.url("/quick"));
    for (callbacks, takes, turns) in [(1, ms(3000), 0), (6, ms(500), 0), (1, ms(3000), 200)] {
        let (gate, later) = (Gate::new(), Gate::new());
        server.script("/data", std::iter::repeat_with(|| Reply::object().hold(&gate)).take(callbacks));
        let mut buffers: Vec<Guarded> = (0..callbacks).map(|_| Guarded::new(1)).collect();
        let (tell, told) = channel();
        for buffer in &mut buffers {
            let tell = tell.clone();
            let slow = Box::new(move |_: &OpResult<'_>| {
                tell.send(()).unwrap();
                std::thread::sleep(takes);
            });
            object.read(0, buffer.host(), &ReadOptions::default(), slow).expect("accepted").submit();
        }
        assert!(gate.wait_held(callbacks, LONG));
        server.script("/data", [Reply::object().hold(&later), Reply::object().hold(&later)]);
        let mut others = [start(&object, 0, 4096), start(&object, 0, 4096)];
        assert!(later.wait_held(2, LONG));
        // After so many turns libcurl no longer says which sockets it waits for.
        for _ in 0..turns {
            read(&quick, 0, 1);
        }
        gate.open();
        told.recv_timeout(LONG).unwrap();
        later.open();
        others.iter_mut().for_each(|other| drop(other.succeeds()));
        (1..callbacks).for_each(|_| told.recv_timeout(LONG).unwrap());
    }
}

/// Case 38, scaled: three times the stall limit instead of an eighth of the request limit.
#[test]
fn slow_progress_is_no_stall() {
    for_both_backends(|backend| {
        let server = server_of(64 << 10);
        let client = TestClient::with(backend, |options| {
            options.stall_timeout_ms = Some(1000);
            options.request_timeout_ms = Some(60_000);
        });
        server.script("/data", [Reply::object().rate(20 << 10)]);
        let began = Instant::now();
        let outcome = start(&client.open(&server.url("/data")), 0, 64 << 10).succeeds();
        assert!(began.elapsed() >= ms(2800), "it was to be slow: {:?}", began.elapsed());
        assert_eq!((outcome.attempts, server.requests()), (1, 1));
    });
}

#[test]
fn one_attempt_is_limited_as_a_whole_and_the_rest_is_resumed() {
    for_both_backends(|backend| {
        let server = server_of(64 << 10);
        let client = TestClient::with(backend, |options| options.request_timeout_ms = Some(1000));
        server.script("/data", [Reply::object().rate(16 << 10), Reply::object()]);
        start(&client.open(&server.url("/data")), 0, 64 << 10).succeeds();
        assert_eq!(server.requests(), 2);
        let resumed: u64 = server.ranges()[1].split('-').next().unwrap().parse().unwrap();
        assert!(resumed > 0 && resumed < 40 << 10, "{resumed}");
    });
}

#[test]
fn an_attempt_without_a_byte_ends_at_the_request_limit() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| {
            options.request_timeout_ms = Some(700);
            options.max_attempts = Some(1);
        });
        server.script("/data", [Reply::never()]);
        let began = Instant::now();
        read_fails(&client.open(&server.url("/data")), 0, 100, ErrorKind::TimedOut, &["/data"]);
        assert!(began.elapsed() >= ms(690) && began.elapsed() < ms(3000), "{:?}", began.elapsed());
    });
}

#[test]
fn a_connect_that_goes_nowhere_ends_at_the_connect_limit() {
    for_both_backends(|backend| {
        let (hole, healthy) = (BlackHole::new(), server_of(100));
        let client = TestClient::with(backend, |options| {
            options.connect_timeout_ms = Some(700);
            options.max_attempts = Some(1);
        });
        let began = Instant::now();
        let mut stuck = start(&client.open(&hole.url("/data")), 0, 100);
        start(&client.open(&healthy.url("/data")), 0, 100).succeeds();
        let outcome = stuck.wait();
        outcome.fails(ErrorKind::TimedOut, &["/data"]);
        let took = outcome.at - began;
        assert!(took >= ms(690) && took < ms(3000), "{took:?}");
    });
}

#[test]
fn a_deadline_ends_a_read_in_flight() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::object().stall_after(7)]);
        let began = Instant::now();
        let mut reading = start_with(&client.open(&server.url("/data")), 0, 100, &deadline(ms(500)));
        let outcome = reading.wait();
        outcome.fails(ErrorKind::TimedOut, &["deadline", "0.5 s"]);
        let took = outcome.at - began;
        assert!(took >= ms(500) && took < ms(2000), "{took:?}");
        assert_eq!(server.requests(), 1);
        assert!(server.wait_for(|counts| counts.aborted == 1, support::LONG), "the server is let go");
    });
}

#[test]
fn a_deadline_ends_a_read_that_waits_for_a_permit() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| {
            options.num_threads = Some(1);
            options.max_concurrent_requests = Some(1);
        });
        let gate = Gate::new();
        server.script("/data", [Reply::object().hold(&gate)]);
        let object = client.open(&server.url("/data"));
        let mut first = start(&object, 0, 100);
        assert!(gate.wait_held(1, support::LONG));
        let began = Instant::now();
        let mut queued = start_with(&object, 0, 100, &deadline(ms(300)));
        let outcome = queued.wait();
        outcome.fails(ErrorKind::TimedOut, &["deadline"]);
        assert!(outcome.at - began < ms(2000));
        assert_eq!(outcome.attempts, 0);
        queued.buffer().assert_untouched();
        gate.open();
        first.succeeds();
        assert_eq!(server.requests(), 1);
    });
}

#[test]
fn a_deadline_ends_a_read_in_backoff() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::status(503).retry_after(30)]);
        let began = Instant::now();
        let outcome = start_with(&client.open(&server.url("/data")), 0, 100, &deadline(ms(600))).wait();
        outcome.fails(ErrorKind::TimedOut, &["deadline"]);
        let took = outcome.at - began;
        assert!(took >= ms(600) && took < ms(3000), "{took:?}");
        assert_eq!(server.requests(), 1);
    });
}

#[test]
fn a_deadline_ends_a_stat() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::never()]);
        let (sender, outcome) = std::sync::mpsc::channel();
        let done = Box::new(move |result: &raskio::op::OpResult<'_>| drop(sender.send(support::Outcome::of(result))));
        client.open(&server.url("/data")).stat(&deadline(ms(400)), done).unwrap().submit();
        outcome.recv_timeout(support::LONG).unwrap().fails(ErrorKind::TimedOut, &["deadline"]);
    });
}

#[test]
fn a_deadline_that_is_not_reached_changes_nothing() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        for _ in 0..100 {
            start_with(&object, 0, 100, &deadline(Duration::from_secs(3600))).succeeds();
        }
        // One that has no end at all.
        start_with(&object, 0, 100, &deadline(Duration::MAX)).succeeds();
        assert_eq!(server.requests(), 101);
    });
}

#[test]
fn an_idle_client_starts_a_read_at_once() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        start(&object, 0, 100).succeeds();
        // Asleep by now; a lost wake-up would show as its longest sleep of 15 s.
        std::thread::sleep(ms(300));
        for _ in 0..50 {
            let began = Instant::now();
            start(&object, 0, 100).succeeds();
            assert!(began.elapsed() < ms(1000), "{:?}", began.elapsed());
        }
    });
}

#[test]
fn a_busy_reactor_starts_a_read_at_once() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.put("/stuck", Object::pattern(100));
        let gate = Gate::new();
        server.script("/stuck", [Reply::object().hold(&gate)]);
        let mut stuck = start(&client.open(&server.url("/stuck")), 0, 100);
        assert!(gate.wait_held(1, support::LONG));
        let object = client.open(&server.url("/data"));
        for _ in 0..50 {
            let began = Instant::now();
            start(&object, 0, 100).succeeds();
            assert!(began.elapsed() < ms(900), "{:?}: longer than the loop's longest sleep", began.elapsed());
            std::thread::sleep(ms(5));
        }
        gate.open();
        stuck.succeeds();
    });
}
