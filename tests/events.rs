//! A host that asks for it is told of every retry and of every new connection; the numbers are those of the reads.

mod support;

use raskio::client::Hooks;
use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::events::Event;
use raskio_testserver::{Object, Reply, Server};
use std::sync::{Arc, Mutex};
use support::{TestClient, for_both_backends, ms, read, read_fails};

fn heard(backend: Backend) -> (TestClient, Arc<Mutex<Vec<Event>>>) {
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let told = events.clone();
    let client = TestClient::in_environment(backend, &[], |hooks: &mut Hooks| {
        hooks.listener = Some(Box::new(move |event| told.lock().unwrap().push(*event)));
    });
    (client, events)
}

#[test]
fn retries_and_connections_are_told_as_they_happen() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.put("/data", Object::pattern(100));
        server.script("/data", [Reply::status(503), Reply::status(429), Reply::object()]);
        let (client, events) = heard(backend);
        read(&client.open(&server.url("/data")), 0, 100);
        let events = events.lock().unwrap();
        let retries: Vec<Event> = events.iter().copied().filter(|event| matches!(event, Event::Retry { .. })).collect();
        let [Event::Retry { wait: first, .. }, Event::Retry { wait: second, .. }] = retries[..] else {
            panic!("{retries:?}")
        };
        assert!(first >= ms(500) && second >= ms(1000), "{retries:?}");
        for (at, (http_status, wait)) in [(503, first), (429, second)].into_iter().enumerate() {
            let attempt = at as u32 + 1;
            let expected = Event::Retry { kind: ErrorKind::Unavailable, http_status, attempt, max_attempts: 3, wait };
            assert_eq!(retries[at], expected);
        }
        let connections: u64 = events
            .iter()
            .map(|event| match event {
                Event::Connected { connections, connect, tls, .. } => {
                    assert!(tls.is_zero() && *connect < ms(5000), "{connect:?}");
                    *connections
                }
                Event::Retry { .. } => 0,
            })
            .sum();
        assert_eq!(connections, client.stats().connections_opened);
        assert!(connections > 0);
    });
}

#[test]
fn a_failure_that_is_final_is_no_retry() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.put("/data", Object::pattern(100));
        server.script("/data", [Reply::status(404)]);
        let (client, events) = heard(backend);
        read_fails(&client.open(&server.url("/data")), 0, 100, ErrorKind::NotFound, &[]);
        let events = events.lock().unwrap();
        assert!(!events.iter().any(|event| matches!(event, Event::Retry { .. })), "{events:?}");
    });
}
