//! Hedging: what is late is asked for again, the first answer counts, and nothing is asked for twice without need.

mod support;

use raskio::config::{Backend, Overrides};
use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio::stats::Snapshot;
use raskio_testserver::{Object, Reply, RequestInfo, Server, any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{TestClient, ms, start_with};

const SLOW: Duration = Duration::from_millis(600);
const READS: usize = 2000;

fn client(change: impl FnOnce(&mut Overrides)) -> TestClient {
    TestClient::with(Backend::MultiPoll, |options| {
        options.hedging = Some(true);
        change(options);
    })
}

/// Answers after 5 ms, and one question in `slow` after [`SLOW`]; says how many it was asked.
fn server_with_a_tail(slow: usize) -> (Server, Arc<AtomicUsize>) {
    let (server, asked) = (Server::start(), Arc::new(AtomicUsize::new(0)));
    let counter = asked.clone();
    server.put("/data", Object::pattern(1 << 20));
    server.on(any(), move |_: &RequestInfo| {
        let n = counter.fetch_add(1, Ordering::SeqCst);
        Some(Reply::object().delay(if n % slow == slow - 1 { SLOW } else { ms(5) }))
    });
    (server, asked)
}

/// How long each of the reads took, 20 at a time.
fn latencies(client: &TestClient, server: &Server) -> Vec<Duration> {
    let object = client.open(&server.url("/data"));
    // So that the size is known and what counts is reads alone.
    start_with(&object, 0, 4096, &ReadOptions::default()).succeeds();
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..20)
            .map(|reader| {
                let object = &object;
                scope.spawn(move || {
                    let mut took = Vec::new();
                    for i in 0..READS / 20 {
                        let (offset, began) = (((reader * 100 + i) * 37 % 250 * 4096) as u64, Instant::now());
                        start_with(object, offset, 4096, &ReadOptions::default()).succeeds();
                        took.push(began.elapsed());
                    }
                    took
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| all.extend(reader.join().unwrap()));
    });
    all.sort();
    all
}

#[test]
fn a_slow_tail_is_cut_off_for_a_few_per_cent_of_requests() {
    let (server, asked) = server_with_a_tail(70);
    let plain = latencies(&TestClient::new(Backend::MultiPoll), &server);
    assert_eq!(asked.swap(0, Ordering::SeqCst), READS + 1);
    let p99 = |sorted: &[Duration]| sorted[sorted.len() * 99 / 100];
    assert!(p99(&plain) >= SLOW, "the server has a tail: {:?}", p99(&plain));
    // On a machine that is busy with something else everything is late now and then: the best of three counts.
    let hedged = (0..3).map(|_| {
        asked.store(0, Ordering::SeqCst);
        let hedging = client(|_| {});
        let hedged = latencies(&hedging, &server);
        let (extra, stats) = (asked.load(Ordering::SeqCst) - READS - 1, hedging.stats());
        // Some turn out not to be needed before they are sent.
        assert!(extra as u64 <= stats.requests_hedged);
        assert!((1..READS * 3 / 100).contains(&extra), "{extra} extra requests for {READS}");
        assert_eq!(stats.requests_failed, 0, "a question that was not needed is no failure");
        p99(&hedged)
    });
    let hedged: Vec<Duration> = hedged
        .scan(false, |over, p99| {
            let before = std::mem::replace(over, *over || p99 <= SLOW / 2);
            (!before).then_some(p99)
        })
        .collect();
    assert!(hedged.iter().any(|p99| *p99 <= SLOW / 2), "{:?} became {hedged:?}", p99(&plain));
}

#[test]
fn without_it_nothing_is_asked_twice() {
    let (server, asked) = server_with_a_tail(70);
    let client = TestClient::new(Backend::MultiPoll);
    latencies(&client, &server);
    assert_eq!((asked.load(Ordering::SeqCst), client.stats().requests_hedged), (READS + 1, 0));
}

#[test]
fn a_server_that_is_slow_throughout_is_not_asked_much_more() {
    let (server, asked) = server_with_a_tail(4);
    let client = client(|_| {});
    latencies(&client, &server);
    let extra = asked.load(Ordering::SeqCst) - READS - 1;
    assert!(extra <= READS * 3 / 100, "{extra}");
}

/// A server that answers at once until it is armed, then its next questions by turns.
fn server_armed_with(
    object: Object,
    replies: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> (Server, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (server, armed, asked) = (Server::start(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (switch, counter) = (armed.clone(), asked.clone());
    server.put("/data", object);
    server.on(any(), move |_: &RequestInfo| {
        Some(match switch.load(Ordering::SeqCst) {
            true => replies(counter.fetch_add(1, Ordering::SeqCst)),
            false => Reply::object(),
        })
    });
    (server, armed, asked)
}

/// On a machine that is busy with something else everything may be late, and nothing is asked twice: then once more.
fn until_hedged(client: &TestClient, mut attempt: impl FnMut()) {
    for _ in 0..8 {
        let before = client.stats().requests_hedged;
        attempt();
        if client.stats().requests_hedged > before {
            return;
        }
    }
    panic!("nothing was asked twice");
}

/// Reads until it is known what is late.
fn learn(object: &Arc<raskio::object::Object>) {
    for i in 0..600 {
        start_with(object, i % 250 * 4096, 4096, &ReadOptions::default()).succeeds();
    }
}

/// The body comes late, not the head; the second answer is another version, an error, or longer in coming than the first.
#[test]
fn a_second_answer_that_is_no_good_changes_nothing() {
    for bad in ["error", "changed", "slower", "reset"] {
        let object = || Object::pattern(1 << 20).etag("\"a\"");
        let (server, armed, asked) = server_armed_with(object(), move |n| match (n, bad) {
            (0, _) => Reply::object().delay_body(ms(500)),
            (_, "error") => Reply::status(503),
            (_, "changed") => Reply::serve(Object::pattern(1 << 20).etag("\"b\"")),
            (_, "slower") => Reply::object().delay(ms(2000)),
            _ => Reply::object().reset_after(100),
        });
        let client = client(|_| {});
        let object = client.open(&server.url("/data"));
        let mut hedged = 0;
        until_hedged(&client, || {
            armed.store(false, Ordering::SeqCst);
            learn(&object);
            hedged = client.stats().requests_hedged;
            asked.store(0, Ordering::SeqCst);
            armed.store(true, Ordering::SeqCst);
            let began = Instant::now();
            start_with(&object, 0, 4096, &ReadOptions::default()).succeeds();
            assert!(began.elapsed() < ms(1500), "{bad}: {:?}", began.elapsed());
            hedged = client.stats().requests_hedged - hedged;
            assert_eq!(asked.load(Ordering::SeqCst), 1 + hedged as usize, "{bad}");
        });
    }
}

/// What the first had received when it was found late stays; the answer to the second continues it.
#[test]
fn a_body_that_stops_in_the_middle_is_completed_by_the_second_answer() {
    let (server, armed, asked) = server_armed_with(Object::pattern(1 << 20), |n| match n {
        0 => Reply::object().stall_after(1000),
        _ => Reply::object(),
    });
    let client = client(|options| options.stall_timeout_ms = Some(2000));
    let object = client.open(&server.url("/data"));
    until_hedged(&client, || {
        armed.store(false, Ordering::SeqCst);
        learn(&object);
        asked.store(0, Ordering::SeqCst);
        armed.store(true, Ordering::SeqCst);
        let before = client.stats();
        // Every byte is checked.
        start_with(&object, 4096, 4096, &ReadOptions::default()).succeeds();
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        let after = client.stats();
        let connections = |stats: &Snapshot| stats.connections_opened + stats.connections_reused;
        assert_eq!(connections(&after) - connections(&before), 2, "each of the two had one");
    });
    assert!(
        server.log().last().unwrap().header("Range").unwrap().starts_with("bytes=5096-"),
        "only the rest is asked for"
    );
}

#[test]
fn both_are_ended_by_a_cancel_and_by_a_shutdown() {
    for shutdown in [false, true] {
        let (server, armed, asked) = server_armed_with(Object::pattern(1 << 20), |_| Reply::object().never_answer());
        let client = client(|_| {});
        let object = client.open(&server.url("/data"));
        let mut read = None;
        until_hedged(&client, || {
            // One that was not asked twice.
            read.take().into_iter().for_each(|read: support::Reading| read.op.cancel());
            armed.store(false, Ordering::SeqCst);
            learn(&object);
            asked.store(0, Ordering::SeqCst);
            armed.store(true, Ordering::SeqCst);
            read = Some(start_with(&object, 0, 4096, &ReadOptions::default()));
            let end = Instant::now() + ms(3000);
            while asked.load(Ordering::SeqCst) < 2 && Instant::now() < end {
                std::thread::sleep(ms(5));
            }
        });
        let mut read = read.unwrap();
        if shutdown {
            client.shut_down(Some(support::LONG)).unwrap();
        } else {
            read.op.cancel();
        }
        read.wait().fails(if shutdown { ErrorKind::ShutDown } else { ErrorKind::Cancelled }, &[]);
    }
}
