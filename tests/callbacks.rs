//! The contract of completions: on a RaskIO thread, never inside the call, once, with no lock held, and free to do
//! anything but block.

mod support;

use raskio::client::Client;
use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::object::{Object as RaskObject, ObjectOptions, ReadOptions};
use raskio::op::{Completion, OpResult};
use raskio_testserver::{Gate, Object, Reply, Server};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Guarded, LONG, Outcome, TestClient, config, for_both_backends, ms, read, start, try_start};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

/// Starts a read whose completion is `done`; its buffer is kept by the returned value.
#[must_use]
fn read_then(object: &Arc<RaskObject>, len: usize, done: Completion) -> Guarded {
    let mut buffer = Guarded::new(len);
    object.read(0, buffer.host(), &ReadOptions::default(), done).expect("accepted").submit();
    buffer
}

#[test]
fn a_completion_never_runs_inside_the_call_that_started_it() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        let own = support::thread_name();
        for len in [100, 0, 1, 0] {
            let outcome = start(&object, 0, len).succeeds();
            assert_ne!(outcome.thread, own);
            assert!(outcome.thread.starts_with("raskio-"), "{}", outcome.thread);
        }
        assert_eq!(server.requests(), 2, "a read of nothing sends nothing");
        // Nor when everything is refused.
        let gate = Gate::new();
        server.script("/data", [Reply::object().hold(&gate)]);
        let mut stuck = start(&object, 0, 100);
        stuck.op.cancel();
        assert_ne!(stuck.wait().thread, own);
    });
}

#[test]
fn completions_run_on_callback_threads_where_there_are_some() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.callback_threads = Some(2));
        let object = client.open(&server.url("/data"));
        for len in [100, 0] {
            let thread = start(&object, 0, len).succeeds().thread;
            assert!(thread.starts_with("raskio-done-"), "{thread}");
        }
    });
}

#[test]
fn a_slow_completion_on_a_callback_thread_does_not_hold_up_the_reads() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| {
            options.callback_threads = Some(2);
            options.num_threads = Some(1);
        });
        let object = client.open(&server.url("/data"));
        let (release, held) = channel::<()>();
        let (entered, inside) = channel();
        let _buffer = read_then(
            &object,
            100,
            Box::new(move |_| {
                entered.send(()).unwrap();
                held.recv_timeout(LONG).unwrap();
            }),
        );
        inside.recv_timeout(LONG).unwrap();
        for _ in 0..10 {
            read(&object, 0, 100);
        }
        release.send(()).unwrap();
    });
}

/// Reads with these deadlines, begun one after the other, are told of in the `wanted` order if they come together.
fn are_told_of<const READS: usize>(deadlines: [Option<Duration>; READS], wanted: [usize; READS]) {
    // Whether they come together is up to the machine, for once in twenty times.
    let told = (0..20).map(|_| {
        let server = server_of(READS as u64);
        server.put("/other", Object::pattern(1));
        let client = TestClient::with(Backend::MultiPoll, |options| options.num_reactors = Some(1));
        let object = client.open(&server.url("/data"));
        let gate = Gate::new();
        server.script("/data", std::iter::repeat_with(|| Reply::object().hold(&gate)).take(READS));
        let (tell, told) = channel();
        let mut buffers: Vec<Guarded> = (0..READS).map(|_| Guarded::new(1)).collect();
        for (i, (buffer, deadline)) in buffers.iter_mut().zip(deadlines).enumerate() {
            let tell = tell.clone();
            let done = Box::new(move |_: &OpResult<'_>| tell.send(i).unwrap());
            let options = ReadOptions { deadline, ..ReadOptions::default() };
            object.read(i as u64, buffer.host(), &options, done).expect("accepted").submit();
            // In this order.
            assert!(gate.wait_held(i + 1, LONG));
        }
        // The reactor is kept until all of them are there.
        let (release, kept) = channel::<()>();
        let (entered, inside) = channel();
        let keeping = Box::new(move |_: &OpResult<'_>| {
            entered.send(()).unwrap();
            kept.recv_timeout(LONG).unwrap();
        });
        let _buffer = read_then(&client.open(&server.url("/other")), 1, keeping);
        inside.recv_timeout(LONG).unwrap();
        gate.open();
        while server.in_flight() > 0 {
            std::thread::sleep(ms(1));
        }
        std::thread::sleep(ms(20));
        release.send(()).unwrap();
        (0..READS).map(|_| told.recv_timeout(LONG).unwrap()).collect::<Vec<_>>()
    });
    let mut seen = Vec::new();
    assert!(told.inspect(|order| seen.push(order.clone())).any(|order| order == wanted), "{seen:?}");
}

#[test]
fn of_those_that_come_together_the_oldest_is_told_of_last() {
    are_told_of([None; 8], [7, 6, 5, 4, 3, 2, 1, 0]);
}

/// Or the callbacks of the others would have it miss its deadline, with its bytes in hand.
#[test]
fn of_those_that_come_together_the_one_with_the_nearest_deadline_is_told_of_first() {
    are_told_of([None, Some(LONG), Some(2 * LONG), None, Some(LONG / 2), None], [4, 1, 2, 5, 3, 0]);
}

#[test]
fn blocking_calls_inside_a_completion_are_refused() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let gate = Gate::new();
        server.put("/stuck", Object::pattern(100));
        server.script("/stuck", [Reply::object().hold(&gate)]);
        let object = client.open(&server.url("/data"));
        let mut stuck = start(&client.open(&server.url("/stuck")), 0, 100);
        let (sender, kinds) = channel();
        let (of_callback, op, its_client) = (object.clone(), stuck.op.clone(), client.0.clone());
        let _buffer = read_then(
            &object,
            100,
            Box::new(move |_| {
                let mut buffer = Guarded::new(10);
                let options = ReadOptions::default();
                let errors = [
                    of_callback.read_sync(0, buffer.host(), &options).map(drop),
                    of_callback.stat_sync().map(drop),
                    op.wait(Some(ms(10))),
                    op.wait(None),
                    its_client.shut_down(Some(ms(10))),
                ];
                buffer.assert_untouched();
                let _ = sender.send(errors.map(|error| error.map_err(|error| error.kind())));
            }),
        );
        assert_eq!(kinds.recv_timeout(LONG).unwrap(), [Err(ErrorKind::WouldDeadlock); 5]);
        gate.open();
        stuck.succeeds();
        // Nothing of it had an effect.
        read(&object, 0, 100);
        assert_eq!(client.stats().ops_started, 3);
    });
}

/// If a completion ran under a lock of RaskIO's, one of these would wait for it for ever.
#[test]
fn everything_else_is_allowed_inside_a_completion() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let gate = Gate::new();
        server.put("/stuck", Object::pattern(100));
        server.script("/stuck", [Reply::object().hold(&gate)]);
        let object = client.open(&server.url("/data"));
        let mut stuck = start(&client.open(&server.url("/stuck")), 0, 100);
        let (sender, started) = channel();
        let (of_callback, op, its_client) = (object.clone(), stuck.op.clone(), client.0.clone());
        let url = server.url("/data");
        let _buffer = read_then(
            &object,
            100,
            Box::new(move |_| {
                op.cancel();
                its_client.trim();
                assert!(its_client.stats().ops_started >= 2);
                let opened = its_client.open(&url, ObjectOptions::default()).unwrap();
                let again = try_start(&opened, 0, 50, &ReadOptions::default()).unwrap();
                let other = Client::new(config(backend, |_| {}), None).unwrap();
                let opened = other.open(&url, ObjectOptions::default()).unwrap();
                let elsewhere = try_start(&opened, 0, 60, &ReadOptions::default()).unwrap();
                assert_eq!(of_callback.info().size, Some(100));
                // The other client's last handles go with this call; its read holds it.
                let _ = sender.send((again, elsewhere));
            }),
        );
        let (mut again, mut elsewhere) = started.recv_timeout(LONG).unwrap();
        again.succeeds();
        elsewhere.succeeds();
        stuck.fails(ErrorKind::Cancelled, &[]);
    });
}

#[test]
fn a_completion_may_start_the_next_read_for_ever() {
    struct Chain {
        object: Arc<RaskObject>,
        left: AtomicUsize,
        buffers: Mutex<Vec<Guarded>>,
        over: std::sync::mpsc::Sender<()>,
    }
    fn next(chain: Arc<Chain>) {
        let of_callback = chain.clone();
        let done = Box::new(move |result: &OpResult<'_>| {
            assert!(result.error.is_none(), "{result:?}");
            match of_callback.left.fetch_sub(1, Ordering::SeqCst) {
                1 => of_callback.over.send(()).unwrap(),
                _ => next(of_callback.clone()),
            }
        });
        let buffer = read_then(&chain.object, 100, done);
        chain.buffers.lock().unwrap().push(buffer);
    }
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let (over, ended) = channel();
        let object = client.open(&server.url("/data"));
        let chain = Arc::new(Chain { object, left: AtomicUsize::new(500), buffers: Mutex::default(), over });
        next(chain.clone());
        ended.recv_timeout(LONG).unwrap();
        assert_eq!(server.requests(), 500);
        client.shut_down(Some(LONG)).unwrap();
        for buffer in chain.buffers.lock().unwrap().iter() {
            assert_eq!(buffer.bytes(), raskio_testserver::pattern(100));
            buffer.assert_guards();
        }
    });
}

#[test]
fn the_last_handles_may_be_dropped_inside_a_completion() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let (sender, last) = channel();
        let on_shut_down = Box::new(move || sender.send(support::thread_name()).unwrap());
        let client = Client::new(config(backend, |_| {}), Some(on_shut_down)).unwrap();
        let object = client.open(&server.url("/data"), ObjectOptions::default()).unwrap();
        let (sender, done) = channel();
        let (of_callback, its_client) = (Mutex::new(Some(object.clone())), client.clone());
        let mut buffer = Guarded::new(100);
        let pending = object.read(
            0,
            buffer.host(),
            &ReadOptions::default(),
            Box::new(move |result| {
                drop(of_callback.lock().unwrap().take());
                drop(its_client);
                sender.send(Outcome::of(result)).unwrap();
            }),
        );
        let pending = pending.unwrap();
        drop((client, object));
        pending.submit();
        done.recv_timeout(LONG).unwrap().succeeds();
        assert_eq!(buffer.bytes(), raskio_testserver::pattern(100));
        let thread = last.recv_timeout(LONG).expect("on_shut_down comes");
        assert!(thread.starts_with("raskio-"), "{thread}");
    });
}

#[test]
fn a_panic_in_a_completion_ends_nothing_but_itself() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        for _ in 0..10 {
            let mut buffer = Guarded::new(100);
            let done: Completion = Box::new(|_| panic!("planted: a completion that panics"));
            let pending = object.read(0, buffer.host(), &ReadOptions::default(), done).expect("accepted");
            let op = pending.op().clone();
            pending.submit();
            read(&object, 0, 100);
            // The other read may be over first, and this one's buffer is RaskIO's until its completion.
            op.wait(Some(LONG)).expect("the completion has returned");
            assert_eq!(buffer.bytes(), raskio_testserver::pattern(100));
        }
    });
}

#[test]
fn waiting_for_an_operation_means_that_its_completion_has_returned() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        let returned = Arc::new(AtomicUsize::new(0));
        let of_callback = returned.clone();
        let mut buffer = Guarded::new(100);
        let pending = object.read(
            0,
            buffer.host(),
            &ReadOptions::default(),
            Box::new(move |_| {
                std::thread::sleep(ms(200));
                of_callback.store(1, Ordering::SeqCst);
            }),
        );
        let pending = pending.unwrap();
        let op = pending.op().clone();
        assert_eq!(op.wait(Some(ms(20))).unwrap_err().kind(), ErrorKind::TimedOut, "nothing was submitted yet");
        pending.submit();
        op.wait(Some(LONG)).unwrap();
        assert_eq!(returned.load(Ordering::SeqCst), 1);
        op.wait(Some(ms(0))).unwrap();
    });
}

#[test]
fn blocking_reads_work_outside() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        assert_eq!(object.stat_sync().unwrap(), 100);
        let mut buffer = Guarded::new(50);
        assert_eq!(object.read_sync(10, buffer.host(), &ReadOptions::default()).unwrap(), 50);
        assert_eq!(buffer.bytes(), raskio_testserver::pattern_at(10, 50));
        buffer.assert_guards();
        server.remove("/data");
        let error = object.read_sync(10, buffer.host(), &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    });
}
