//! A host that asks for it is told of every retry and of every new connection; the numbers are those of the reads.

mod support;

use raskio::client::{Client, Hooks};
use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::events::{Event, Listener, OpKind};
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::{Gate, Object, Reply, Server};
use std::sync::{Arc, Mutex};
use support::{
    TestClient, config, eventually, for_both_backends, ms, read, read_fails, start, start_last, start_with, stat,
};

fn heard(backend: Backend) -> (TestClient, Arc<Mutex<Vec<Event>>>) {
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let told = events.clone();
    let client = TestClient::in_environment(backend, &[], |hooks: &mut Hooks| {
        hooks.listener = Some(Box::new(move |event| told.lock().unwrap().push(event.clone())));
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
        let retries: Vec<Event> = events.iter().filter(|event| matches!(event, Event::Retry { .. })).cloned().collect();
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
                Event::Connected { connections, timings } => {
                    assert!(timings.tls.is_zero() && timings.connect < ms(5000), "{timings:?}");
                    *connections
                }
                _ => 0,
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

/// The operations told of, each as started and as finished, in order.
fn operations(events: &[Event]) -> Vec<(Event, Event)> {
    let of = |event: &Event| match event {
        Event::OpStarted { op, .. } | Event::OpFinished { op, .. } => Some(op.number),
        _ => None,
    };
    let told: Vec<Event> = events.iter().filter(|event| of(event).is_some()).cloned().collect();
    let mut pairs = Vec::new();
    for (at, event) in told.iter().enumerate().filter(|(_, event)| matches!(event, Event::OpStarted { .. })) {
        let later: Vec<&Event> = told[at + 1..].iter().filter(|other| of(other) == of(event)).collect();
        assert!(matches!(later[..], [Event::OpFinished { .. }]), "{event:?}: {later:?}");
        pairs.push((event.clone(), later[0].clone()));
    }
    assert_eq!(told.len(), 2 * pairs.len(), "{told:?}");
    pairs
}

#[test]
fn operations_are_told_as_they_start_and_as_they_finish() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.put("/data", Object::pattern(100_000));
        let (client, events) = heard(backend);
        let object = client.open(&server.url("/data?token=secret"));
        assert_eq!(stat(&object).unwrap(), 100_000);
        server.script("/data", [Reply::status(503).retry_after(0), Reply::object()]);
        let options = ReadOptions { task_size: Some(10_000), deadline: None };
        start_with(&object, 5, 20_000, &options).succeeds();
        read(&object, 77, 0);
        start_last(&object, 10, &ReadOptions::default()).succeeds_at(99_990, 10);
        server.script("/data", [Reply::status(403)]);
        read_fails(&object, 0, 100, ErrorKind::PermissionDenied, &[]);
        let operations = operations(&events.lock().unwrap().clone());
        let expected = [
            (OpKind::Stat, 0, 0, 0, 1, None),
            (OpKind::Read, 5, 20_000, 20_000, 3, None),
            (OpKind::Read, 77, 0, 0, 0, None),
            (OpKind::Read, 99_990, 10, 10, 1, None),
            (OpKind::Read, 0, 100, 0, 1, Some((ErrorKind::PermissionDenied, 403))),
        ];
        assert_eq!(operations.len(), expected.len(), "{operations:?}");
        for ((_, finished), (kind, at, size, len, sent, why)) in operations.iter().zip(expected) {
            let Event::OpFinished { op, failure, offset, bytes, attempts, queued, took } = finished else { panic!() };
            assert_eq!((op.kind, *offset, op.size, *bytes, *attempts, *failure), (kind, at, size, len, sent, why));
            assert!(op.object.to_str().unwrap().contains("/data") && !op.object.to_str().unwrap().contains("secret"));
            assert!(queued <= took && *took < ms(20_000), "{finished:?}");
        }
    });
}

#[test]
fn an_operation_that_waits_for_its_turn_has_not_started() {
    let server = Server::start();
    server.put("/data", Object::pattern(100));
    let gate = Gate::new();
    server.script("/data", [Reply::object().hold(&gate), Reply::object()]);
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let told = events.clone();
    let listener: Listener = Box::new(move |event| told.lock().unwrap().push(event.clone()));
    let hooks = Hooks { listener: Some(listener), ..Hooks::default() };
    let one = config(Backend::MultiPoll, |options| options.max_concurrent_requests = Some(1));
    let client = Client::with(one, hooks).unwrap();
    let object = client.open(&server.url("/data"), ObjectOptions::default()).unwrap();
    let (mut first, mut second) = (start(&object, 0, 10), start(&object, 10, 10));
    eventually("a request waits", || server.in_flight() == 1);
    std::thread::sleep(ms(100));
    let started = |events: &[Event]| events.iter().filter(|event| matches!(event, Event::OpStarted { .. })).count();
    let seen = events.lock().unwrap().clone();
    assert_eq!(started(&seen), 1, "{seen:?}");
    gate.open();
    first.succeeds();
    second.succeeds();
    let operations = operations(&events.lock().unwrap());
    let Event::OpFinished { queued, .. } = &operations[1].1 else { panic!() };
    assert!(*queued >= ms(90), "{operations:?}");
}
