//! Handles are shared by many threads, which read, open, cancel and drop at the same time.

mod support;

use raskio::config::{Backend, Dispatch};
use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio_testserver::{Object, Server};
use std::sync::atomic::{AtomicU64, Ordering};
use support::{TestClient, for_both_backends, read, stat};

const SIZE: u64 = 1 << 20;

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(SIZE));
    server
}

/// Small and repeatable: not for chance, but for variety.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

#[test]
fn many_threads_share_one_object() {
    for_both_backends(|backend| {
        let (server, client) = (server(), TestClient::with(backend, |options| options.num_reactors = Some(3)));
        let object = client.open(&server.url("/data"));
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let object = &object;
                scope.spawn(move || {
                    let mut number = numbers(thread + 1);
                    for _ in 0..25 {
                        let offset = number(SIZE);
                        let len = number((SIZE - offset).min(100_000) + 1);
                        read(object, offset, len as usize);
                    }
                });
            }
        });
        let stats = client.stats();
        assert_eq!((stats.ops_started, stats.ops_finished), (400, 400));
        assert_eq!(server.requests(), server.counts().completed);
        assert!(server.requests() <= 400, "a read of no byte sends nothing, any other one request");
    });
}

#[test]
fn threads_with_handles_of_their_own_share_one_client() {
    for_both_backends(|backend| {
        let (server, client) = (server(), TestClient::with(backend, |options| options.num_reactors = Some(3)));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (client, url) = (&client, server.url("/data"));
                scope.spawn(move || {
                    for i in 0..15 {
                        let object = client.open(&url);
                        if i % 3 == 0 {
                            assert_eq!(stat(&object).unwrap(), SIZE);
                        }
                        read(&object, thread * 1000, 5000);
                    }
                });
            }
        });
        assert_eq!((server.gets(), server.heads()), (120, 40));
    });
}

#[test]
fn reads_that_are_cancelled_by_other_threads_end_once_and_disturb_nobody() {
    for_both_backends(|backend| {
        let client = TestClient::with(backend, |options| {
            options.num_reactors = Some(2);
            options.dispatch = Some(Dispatch::PerChunk);
            options.max_concurrent_requests = Some(16);
        });
        let server = server();
        let (object, ended) = (client.open(&server.url("/data")), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (object, ended) = (&object, &ended);
                scope.spawn(move || {
                    let mut number = numbers(thread + 77);
                    let options = ReadOptions { task_size: Some(10_000), deadline: None };
                    for _ in 0..20 {
                        let mut reading = support::start_with(object, 0, 200_000, &options);
                        let op = reading.op.clone();
                        let wait = std::time::Duration::from_micros(number(4000));
                        std::thread::scope(|inner| {
                            inner.spawn(move || {
                                std::thread::sleep(wait);
                                op.cancel();
                            });
                            match reading.wait().error {
                                None => assert_eq!(reading.buffer().bytes(), raskio_testserver::pattern(200_000)),
                                Some(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
                            }
                        });
                        ended.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(ended.load(Ordering::SeqCst), 120);
        read(&object, 0, 100_000);
    });
}

#[test]
fn clients_come_and_go_beside_each_other() {
    for_both_backends(|backend| {
        let server = server();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let url = server.url("/data");
                scope.spawn(move || {
                    for _ in 0..5 {
                        let client = TestClient::new(backend);
                        read(&client.open(&url), 1, 1000);
                    }
                });
            }
        });
        assert_eq!(server.requests(), 20);
    });
}

#[test]
fn both_backends_live_in_one_process() {
    let server = server();
    let (pool, reactors) = (TestClient::new(Backend::EasyThreadpool), TestClient::new(Backend::MultiPoll));
    read(&pool.open(&server.url("/data")), 0, 100_000);
    read(&reactors.open(&server.url("/data")), 0, 100_000);
    drop(pool);
    read(&reactors.open(&server.url("/data")), 0, 100_000);
    assert_eq!(server.requests(), 3);
}
