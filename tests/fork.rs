//! A forked child is told that its parent's handles are not its own, at once, and makes handles of its own; the parent
//! does not notice.
//!
//! Each test forks in a process of its own, and the server stays outside of it: a child would hold its sockets.

mod support;

use raskio::client::Client;
use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::{Object, Reply, Server};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use support::{LONG, TestClient, child, config, ms, read, start, stat, try_start};

const BOTH: [Backend; 2] = [Backend::EasyThreadpool, Backend::MultiPoll];

/// Runs `body` in a forked child, which must end well and soon.
#[track_caller]
fn forked(body: impl FnOnce()) {
    // SAFETY: glibc makes its allocator usable in the child of a process with threads, and the body takes no lock that
    // another thread of the parent may hold: that RaskIO does not either is what is tested.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: ends a child that hangs.
        unsafe { libc::alarm(40) };
        let fine = catch_unwind(AssertUnwindSafe(body)).is_ok();
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(if fine { 0 } else { 101 }) };
    }
    waited(child);
}

#[track_caller]
fn waited(child: libc::pid_t) {
    let (mut status, end) = (0, Instant::now() + LONG);
    // SAFETY: one writable int is passed.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        assert!(Instant::now() < end, "the forked child hangs");
        std::thread::sleep(ms(2));
    }
    // 14: SIGALRM, it hung; 101 << 8: it panicked, and its message is above.
    assert_eq!(status, 0, "the forked child failed: status {status:#x}");
}

/// Runs `inside` in a process of its own, with the URL of a server that stays here; `/held` answers late.
fn with_server(test: &str, inside: impl FnOnce(&str)) {
    if child::is_child() {
        return inside(&std::env::var("URL").expect("a URL"));
    }
    let server = Server::start();
    server.put("/data", Object::pattern(1000));
    server.put("/held", Object::pattern(1000));
    // Long enough for everything that is done meanwhile.
    server.script("/held", [Reply::object().delay(ms(1500))]);
    child::succeeds(child::again(test).env("URL", server.url("")));
    assert!(server.requests() > 0);
}

#[test]
fn inherited_handles_say_forked_at_once_and_the_parent_is_undisturbed() {
    with_server("inherited_handles_say_forked_at_once_and_the_parent_is_undisturbed", |url| {
        for backend in BOTH {
            let client = TestClient::new(backend);
            let object = client.open(&format!("{url}/data"));
            read(&object, 0, 1000);
            // One in flight, one in the middle of everything else.
            let mut held = start(&client.open(&format!("{url}/held")), 0, 1000);
            std::thread::sleep(ms(100));
            forked(|| {
                let began = Instant::now();
                let kinds = [
                    try_start(&object, 0, 100, &ReadOptions::default()).err().map(|error| error.kind()),
                    try_start(&object, 0, 0, &ReadOptions::default()).err().map(|error| error.kind()),
                    stat(&object).err().map(|error| error.kind()),
                    object.stat_sync().err().map(|error| error.kind()),
                    client.0.open(&format!("{url}/data"), ObjectOptions::default()).err().map(|error| error.kind()),
                    client.0.shut_down(None).err().map(|error| error.kind()),
                    client.0.check_process().err().map(|error| error.kind()),
                ];
                assert_eq!(kinds, [Some(ErrorKind::Forked); 7]);
                client.0.trim();
                held.op.cancel();
                // Releases neither block nor touch what is the parent's.
                drop(object.clone());
                drop(client.0.clone());
                assert!(began.elapsed() < ms(1000), "{:?}", began.elapsed());
            });
            held.succeeds();
            read(&object, 0, 1000);
        }
    });
}

#[test]
fn the_last_release_in_the_child_neither_blocks_nor_calls_back() {
    with_server("the_last_release_in_the_child_neither_blocks_nor_calls_back", |url| {
        for backend in BOTH {
            static CALLED: AtomicBool = AtomicBool::new(false);
            let last = Box::new(|| CALLED.store(true, Ordering::SeqCst));
            let client = Client::new(config(backend, |_| {}), Some(last)).unwrap();
            let object = client.open(&format!("{url}/data"), ObjectOptions::default()).unwrap();
            read(&object, 0, 1000);
            let mut handles = Some((client, object));
            forked(|| {
                drop(handles.take());
                std::thread::sleep(ms(100));
                assert!(!CALLED.load(Ordering::SeqCst), "the parent's last callback ran in the child");
            });
            let (client, object) = handles.take().unwrap();
            read(&object, 0, 1000);
            client.shut_down(Some(LONG)).unwrap();
            assert!(CALLED.swap(false, Ordering::SeqCst));
        }
    });
}

#[test]
fn a_child_makes_clients_of_its_own_and_so_does_its_child() {
    with_server("a_child_makes_clients_of_its_own_and_so_does_its_child", |url| {
        let url = format!("{url}/data");
        for backend in BOTH {
            let client = TestClient::new(backend);
            read(&client.open(&url), 0, 1000);
            forked(|| {
                let own = TestClient::new(backend);
                read(&own.open(&url), 10, 500);
                assert_eq!(stat(&own.open(&url)).unwrap(), 1000);
                forked(|| {
                    let own_again = TestClient::new(backend);
                    read(&own_again.open(&url), 20, 500);
                    assert_eq!(own.0.check_process().unwrap_err().kind(), ErrorKind::Forked);
                    drop(own_again);
                });
                read(&own.open(&url), 10, 500);
                drop(own);
            });
            read(&client.open(&url), 0, 1000);
        }
    });
}

#[test]
fn the_default_client_is_each_processes_own() {
    with_server("the_default_client_is_each_processes_own", |url| {
        let url = format!("{url}/data");
        let open = |client: &std::sync::Arc<Client>| client.open(&url, ObjectOptions::default()).unwrap();
        let default = Client::process_default().unwrap();
        read(&open(&default), 0, 1000);
        forked(|| {
            let own = Client::process_default().unwrap();
            assert!(!std::sync::Arc::ptr_eq(&own, &default));
            read(&open(&own), 0, 1000);
            assert!(std::sync::Arc::ptr_eq(&own, &Client::process_default().unwrap()), "made once");
        });
        assert!(std::sync::Arc::ptr_eq(&default, &Client::process_default().unwrap()));
        read(&open(&default), 0, 1000);
    });
}

/// Whatever lock a thread of the parent holds at that moment stays locked in the child for ever.
#[test]
fn a_fork_at_any_moment_leaves_the_child_able_to_read() {
    with_server("a_fork_at_any_moment_leaves_the_child_able_to_read", |url| {
        let url = format!("{url}/data");
        // The pattern's static is the test's own, and made before a fork can come in the middle of that.
        raskio_testserver::pattern(1);
        let over = AtomicBool::new(false);
        let clients = BOTH.map(TestClient::new);
        std::thread::scope(|scope| {
            for client in &clients {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let object = client.open(&url);
                        while !over.load(Ordering::Acquire) {
                            read(&object, 0, 1000);
                        }
                    });
                }
            }
            // Clients made and ended all the time: the process-wide state is in use too.
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    read(&TestClient::new(Backend::MultiPoll).open(&url), 0, 10);
                    drop(Client::process_default().unwrap());
                }
            });
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                for i in 0..40 {
                    forked(|| {
                        let own = TestClient::new(BOTH[i % 2]);
                        read(&own.open(&url), 0, 1000);
                        assert_eq!(clients[i % 2].0.check_process().unwrap_err().kind(), ErrorKind::Forked);
                        if i % 4 == 0 {
                            let default = Client::process_default().unwrap();
                            read(&default.open(&url, ObjectOptions::default()).unwrap(), 0, 1000);
                        }
                        drop(own);
                    });
                }
            }));
            over.store(true, Ordering::Release);
            assert!(outcome.is_ok(), "see above");
        });
    });
}

#[test]
fn a_child_that_exits_normally_does_not_wait_for_its_parents_threads() {
    with_server("a_child_that_exits_normally_does_not_wait_for_its_parents_threads", |url| {
        let client = TestClient::new(Backend::MultiPoll);
        let mut held = start(&client.open(&format!("{url}/held")), 0, 1000);
        std::thread::sleep(ms(100));
        let began = Instant::now();
        // SAFETY: as in `forked`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends a child that hangs; then ends it by way of the exit handlers, RaskIO's among them.
            unsafe {
                libc::alarm(40);
                libc::exit(0)
            }
        }
        waited(child);
        assert!(began.elapsed() < ms(1400), "{:?}", began.elapsed());
        held.succeeds();
    });
}

#[test]
fn a_completion_may_fork() {
    with_server("a_completion_may_fork", |url| {
        let url = format!("{url}/data");
        for backend in BOTH {
            let client = TestClient::new(backend);
            let object = client.open(&url);
            let (sender, forks) = std::sync::mpsc::channel();
            let mut buffer = support::Guarded::new(100);
            let (of_callback, its_object) = (url.clone(), object.clone());
            let done = Box::new(move |_: &raskio::op::OpResult<'_>| {
                forked(|| {
                    // The child's only thread is the one inside this callback.
                    let error = try_start(&its_object, 0, 10, &ReadOptions::default()).err();
                    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Forked));
                    let own = Client::new(config(backend, |_| {}), None).unwrap();
                    read_outside_of_callbacks(&own, &of_callback);
                });
                sender.send(()).unwrap();
            });
            object.read(0, buffer.host(), &ReadOptions::default(), done).unwrap().submit();
            forks.recv_timeout(LONG).expect("the completion returned");
            client.shut_down(Some(LONG)).unwrap();
            drop(buffer);
        }
    });
}

/// A read by another thread: this one is inside a callback, where waiting is refused.
fn read_outside_of_callbacks(client: &std::sync::Arc<Client>, url: &str) {
    let object = client.open(url, ObjectOptions::default()).unwrap();
    std::thread::spawn(move || read(&object, 0, 1000)).join().expect("the read");
}
