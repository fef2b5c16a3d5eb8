//! A shutdown is bounded, may be asked for at any time and more than once, and every operation gets its completion.

mod support;

use raskio::client::Client;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::{BlackHole, Gate, Object, Reply, Server};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use support::{
    Guarded, LONG, Outcome, TestClient, child, config, for_both_backends, ms, read, start, start_with, try_start,
};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

/// Case 26, but for the process's exit.
#[test]
fn a_thousand_queued_reads_end_with_shut_down_at_once() {
    for_both_backends(|backend| {
        let server = server_of(100);
        server.script("/data", [Reply::never()]);
        let client = TestClient::with(backend, |options| options.max_concurrent_requests = Some(8));
        let object = client.open(&server.url("/data"));
        let mut reads: Vec<_> = (0..1000).map(|_| start(&object, 0, 100)).collect();
        std::thread::sleep(ms(100));
        let began = Instant::now();
        client.shut_down(Some(LONG)).unwrap();
        for reading in &mut reads {
            let outcome = reading.wait();
            outcome.fails(ErrorKind::ShutDown, &[]);
            assert!(outcome.at - began < ms(2000), "a callback came after {:?}", outcome.at - began);
            reading.buffer().assert_untouched();
        }
        assert!(began.elapsed() < ms(4000), "{:?}", began.elapsed());
        assert_eq!(client.stats().ops_finished, 1000);
    });
}

/// The rest of case 26, and a process that just ends: no release, no shutdown, reads in every stage.
#[test]
fn a_process_with_reads_in_flight_ends_well() {
    const NAME: &str = "a_process_with_reads_in_flight_ends_well";
    if !child::is_child() {
        for how in ["shut down", "exit", "exit from a thread", "return"] {
            let began = Instant::now();
            let output = child::run(child::again(NAME).env("HOW", how));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{how}: {}: {said}", output.status);
            assert!(began.elapsed() < ms(10_000), "{how}: {:?}", began.elapsed());
            assert!(!said.contains("panicked"), "{how}: {said}");
        }
        return;
    }
    let (server, hole) = (server_of(64 << 20), BlackHole::new());
    server.put("/never", Object::pattern(100));
    server.script("/never", [Reply::never()]);
    server.script("/data", [Reply::object().rate(4 << 20)]);
    server.put("/busy", Object::pattern(100));
    server.script("/busy", [Reply::status(503).retry_after(30)]);
    let how = std::env::var("HOW").expect("how to end");
    let mut kept = Vec::new();
    for backend in [raskio::config::Backend::EasyThreadpool, raskio::config::Backend::MultiPoll] {
        let client = Client::new(config(backend, |_| {}), None).unwrap();
        let open = |url: &str| client.open(url, ObjectOptions::default()).unwrap();
        let (never, data) = (open(&server.url("/never")), open(&server.url("/data")));
        kept.push(start(&data, 0, 64 << 20));
        kept.push(start(&open(&server.url("/busy")), 0, 100));
        kept.push(start(&open(&hole.url("/data")), 0, 100));
        kept.extend((0..1000).map(|_| start(&never, 0, 100)));
        std::thread::sleep(ms(100));
        if how == "shut down" {
            client.shut_down(Some(LONG)).unwrap();
        } else {
            std::mem::forget(client);
        }
    }
    // What is read into must outlive the process's last read.
    std::mem::forget(kept);
    std::mem::forget((server, hole));
    match how.as_str() {
        "exit" => std::process::exit(0),
        "exit from a thread" => {
            std::thread::spawn(|| std::process::exit(0));
            std::thread::sleep(LONG);
        }
        _ => {}
    }
}

#[test]
fn after_a_shutdown_everything_says_so() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        read(&object, 0, 100);
        client.shut_down(Some(LONG)).unwrap();
        let kinds = [
            client.0.open(&server.url("/data"), ObjectOptions::default()).err().map(|error| error.kind()),
            try_start(&object, 0, 100, &ReadOptions::default()).err().map(|error| error.kind()),
            try_start(&object, 0, 0, &ReadOptions::default()).err().map(|error| error.kind()),
            support::stat(&object).err().map(|error| error.kind()),
        ];
        assert_eq!(kinds, [Some(ErrorKind::ShutDown); 4]);
        // What needs no network still works.
        assert_eq!(object.size(), Some(100));
        assert_eq!(client.stats().ops_finished, 1);
        client.trim();
    });
}

#[test]
fn a_shutdown_may_be_asked_for_again_and_by_many() {
    for_both_backends(|backend| {
        let server = server_of(100);
        server.script("/data", [Reply::never()]);
        let calls = Arc::new(AtomicUsize::new(0));
        let of_client = calls.clone();
        let count = Box::new(move || {
            of_client.fetch_add(1, Ordering::SeqCst);
        });
        let client = TestClient::build(config(backend, |_| {}), Some(count));
        let object = client.open(&server.url("/data"));
        let mut reads: Vec<_> = (0..100).map(|_| start(&object, 0, 100)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| client.shut_down(Some(LONG)).unwrap());
            }
        });
        client.shut_down(Some(LONG)).unwrap();
        reads.iter_mut().for_each(|read| drop(read.fails(ErrorKind::ShutDown, &[])));
        assert_eq!(calls.load(Ordering::SeqCst), 1, "on_shut_down comes once");
    });
}

#[test]
fn a_shutdown_beside_threads_that_read_loses_no_completion() {
    for_both_backends(|backend| {
        for round in 0..10 {
            let (server, client) = (server_of(100), TestClient::new(backend));
            let object = client.open(&server.url("/data"));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        loop {
                            match try_start(&object, 0, 100, &ReadOptions::default()) {
                                Ok(mut reading) => match reading.wait().error {
                                    None => {}
                                    Some(error) => assert_eq!(error.kind(), ErrorKind::ShutDown, "{error}"),
                                },
                                Err(error) => break assert_eq!(error.kind(), ErrorKind::ShutDown, "{error}"),
                            }
                        }
                    });
                }
                std::thread::sleep(ms(round));
                client.shut_down(Some(LONG)).unwrap();
            });
        }
    });
}

#[test]
fn on_shut_down_is_the_last_callback() {
    for_both_backends(|backend| {
        for callback_threads in [0, 2] {
            let server = server_of(100);
            server.script("/data", [Reply::never()]);
            let order = Arc::new(Mutex::new(Vec::new()));
            let of_last = order.clone();
            let last = Box::new(move || of_last.lock().unwrap().push("last"));
            let settings = config(backend, |options| options.callback_threads = Some(callback_threads));
            let client = TestClient::build(settings, Some(last));
            let object = client.open(&server.url("/data"));
            let mut buffers = Vec::new();
            for _ in 0..50 {
                let (mut buffer, order) = (Guarded::new(100), order.clone());
                let done = Box::new(move |_: &raskio::op::OpResult<'_>| {
                    std::thread::sleep(ms(1));
                    order.lock().unwrap().push("read");
                });
                object.read(0, buffer.host(), &ReadOptions::default(), done).unwrap().submit();
                buffers.push(buffer);
            }
            client.shut_down(Some(LONG)).unwrap();
            let order = order.lock().unwrap();
            assert_eq!(order.len(), 51);
            assert_eq!(order.iter().position(|what| *what == "last"), Some(50));
        }
    });
}

#[test]
fn a_shutdown_that_takes_too_long_says_so_and_goes_on() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        let (release, held) = channel::<()>();
        let (entered, inside) = channel();
        let mut buffer = Guarded::new(100);
        let done = Box::new(move |_: &raskio::op::OpResult<'_>| {
            entered.send(()).unwrap();
            held.recv_timeout(LONG).unwrap();
        });
        object.read(0, buffer.host(), &ReadOptions::default(), done).unwrap().submit();
        inside.recv_timeout(LONG).unwrap();
        let began = Instant::now();
        let error = client.shut_down(Some(ms(200))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(error.message().contains('1'), "says how much still runs: {error}");
        assert!(began.elapsed() >= ms(200) && began.elapsed() < ms(2000), "{:?}", began.elapsed());
        release.send(()).unwrap();
        client.shut_down(Some(LONG)).unwrap();
    });
}

#[test]
fn a_shutdown_does_not_wait_for_the_network() {
    for_both_backends(|backend| {
        let (server, hole) = (server_of(64 << 20), BlackHole::new());
        server.put("/busy", Object::pattern(100));
        server.script("/busy", [Reply::status(503).retry_after(30)]);
        server.script("/data", [Reply::object().rate(1 << 20)]);
        let client = TestClient::new(backend);
        let mut reads = [
            start(&client.open(&server.url("/data")), 0, 64 << 20),
            start(&client.open(&server.url("/busy")), 0, 100),
            start(&client.open(&hole.url("/data")), 0, 100),
        ];
        assert!(server.wait_for(|counts| counts.requests >= 3, LONG));
        std::thread::sleep(ms(100));
        let began = Instant::now();
        client.shut_down(Some(LONG)).unwrap();
        assert!(began.elapsed() < ms(1000), "{:?}", began.elapsed());
        for reading in &mut reads {
            reading.fails(ErrorKind::ShutDown, &[]);
            let then = reading.buffer().bytes().to_vec();
            std::thread::sleep(ms(50));
            assert!(reading.buffer().bytes() == then, "the buffer was written after the callback");
        }
    });
}

#[test]
fn running_reads_hold_their_client_and_complete() {
    for_both_backends(|backend| {
        let server = server_of(1 << 20);
        let gate = Gate::new();
        server.script("/data", [Reply::object().hold(&gate)]);
        let (sender, last) = channel();
        let on_shut_down = Box::new(move || sender.send(Instant::now()).unwrap());
        let client = Client::new(config(backend, |_| {}), Some(on_shut_down)).unwrap();
        let object = client.open(&server.url("/data"), ObjectOptions::default()).unwrap();
        let options = ReadOptions { task_size: Some(100_000), deadline: None };
        let mut reading = start_with(&object, 0, 1 << 20, &options);
        assert!(gate.wait_held(8, LONG));
        drop((client, object));
        std::thread::sleep(ms(100));
        assert!(!reading.is_over(), "a release cancels nothing");
        gate.open();
        let outcome: Outcome = reading.succeeds();
        let last = last.recv_timeout(LONG).expect("on_shut_down comes with the last release too");
        assert!(last >= outcome.at);
    });
}

#[test]
fn an_idle_client_shuts_down_at_once() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        read(&client.open(&server.url("/data")), 0, 100);
        std::thread::sleep(ms(50));
        let began = Instant::now();
        client.shut_down(Some(LONG)).unwrap();
        assert!(began.elapsed() < ms(500), "{:?}", began.elapsed());
        assert!(server.wait_for(|counts| counts.open_connections == 0, LONG), "its connections are closed");
    });
}

#[test]
fn a_shutdown_without_a_time_limit_works() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        read(&client.open(&server.url("/data")), 0, 100);
        let (sender, over) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(client.shut_down(None).is_ok()));
            assert_eq!(over.recv_timeout(LONG), Ok(true));
        });
    });
}
