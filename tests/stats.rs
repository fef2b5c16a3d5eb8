//! The numbers: they add up, say where the time went and why something was tried again.

mod support;

use raskio::config::Backend;
use raskio::object::ReadOptions;
use raskio::stats::{Snapshot, process};
use raskio_testserver::{Object, Reply, Server};
use support::{TestClient, config, for_both_backends, ms, read, start_with};

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(100_000));
    server
}

#[test]
fn each_retry_has_a_cause() {
    for_both_backends(|backend| {
        let server = server();
        let client = TestClient::with(backend, |options| {
            options.stall_timeout_ms = Some(200);
            options.max_attempts = Some(5);
        });
        let object = client.open(&server.url("/data"));
        let causes = |stats: Snapshot| {
            [
                stats.retries_after_status,
                stats.retries_after_timeout,
                stats.retries_after_connection,
                stats.retries_after_short_body,
                stats.retries_after_other,
            ]
        };
        let rows = [
            (Reply::status(503), [1, 0, 0, 0, 0]),
            (Reply::object().never_answer(), [0, 1, 0, 0, 0]),
            (Reply::object().reset_after(7), [0, 0, 1, 0, 0]),
            (Reply::object().short_by(1), [0, 0, 0, 1, 0]),
        ];
        read(&object, 0, 100);
        for (bad, expected) in rows {
            let before = client.stats();
            server.script("/data", [bad, Reply::object()]);
            read(&object, 0, 100);
            let after = client.stats();
            let new: Vec<u64> =
                causes(after).iter().zip(causes(before)).map(|(after, before)| after - before).collect();
            assert_eq!(new, expected);
            assert_eq!(after.requests_retried - before.requests_retried, 1);
        }
    });
}

#[test]
fn the_time_is_where_it_was_spent() {
    for_both_backends(|backend| {
        // Of several threads the one that has the connection may still be telling of the first read when the second comes.
        let mut config = config(backend, |options| options.num_threads = Some(1));
        // Or libcurl's words would be told between the request's being sent and libcurl's look at the clock, which the server does not
        // wait for: 7 ms where each write to the log took 1 ms.
        config.verbose = false;
        let client = TestClient::build(config, None);
        let server = server();
        let object = client.open(&server.url("/data"));
        server.script("/data", [Reply::object().delay(ms(600)), Reply::object().delay_body(ms(600))]);
        read(&object, 0, 100);
        let first = client.stats();
        // Half of it, on a machine that is busy with something else.
        assert!(first.wait_us >= 600_000 && first.body_us < 300_000, "{first:?}");
        assert!(first.connect_us > 0 && first.tls_us == 0, "{first:?}");
        read(&object, 0, 100);
        let second = client.stats();
        // The server's clock runs from when it has sent the head, and this one from when that is seen.
        assert!(second.body_us - first.body_us >= 400_000 && second.wait_us - first.wait_us < 300_000, "{second:?}");
        assert_eq!(second.connect_us, first.connect_us, "the connection was there");
        let took = client.latencies();
        assert_eq!((took.op.count, took.request.count, took.first_byte.count), (2, 2, 2));
        assert!(took.op.quantile(1.0) >= 600_000 && took.op.quantile(0.5) >= took.request.quantile(0.5));
    });
}

#[test]
fn the_limit_and_the_waits_for_it_are_told() {
    let (server, client) = (
        server(),
        TestClient::with(Backend::MultiPoll, |options| {
            options.max_concurrent_requests = Some(3);
            options.concurrency = Some(raskio::config::Concurrency::Fixed);
        }),
    );
    let object = client.open(&server.url("/data"));
    start_with(&object, 0, 20_000, &ReadOptions { task_size: Some(1000), ..ReadOptions::default() }).succeeds();
    let stats = client.stats();
    assert_eq!(stats.request_limit, 3);
    assert!(stats.permit_waits > 0, "{stats:?}");
}

/// One test for all that is the process's: others may run beside it in this process, so only differences count.
#[test]
fn the_process_adds_its_clients_up_and_keeps_those_that_are_gone() {
    let server = server();
    let (before, took_before) = process::read();
    {
        let (one, other) = (TestClient::new(Backend::MultiPoll), TestClient::new(Backend::EasyThreadpool));
        read(&one.open(&server.url("/data")), 0, 1000);
        read(&other.open(&server.url("/data")), 0, 500);
        assert!(process::read().0.bytes_received - before.bytes_received >= 1500);
    }
    // Nothing that counts ever goes back, also not while clients end.
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| {
            for _ in 0..20 {
                read(&TestClient::new(Backend::MultiPoll).open(&server.url("/data")), 0, 100);
            }
        });
        let mut last = process::read().0.ops_started;
        while !ending.is_finished() {
            let now = process::read().0.ops_started;
            assert!(now >= last, "{last} became {now}");
            last = now;
        }
    });
    let (after, took) = process::read();
    assert!(after.bytes_received - before.bytes_received >= 1500 && after.ops_finished - before.ops_finished >= 2);
    assert!(took.op.count - took_before.op.count >= 2);
}
