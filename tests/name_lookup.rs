//! A name is looked up once for many requests, and a look-up that hangs holds up nobody else.
//!
//! Each test runs itself again with a library preloaded that counts and delays `getaddrinfo`.

mod support;

use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio_testserver::{Object, Reply, Server, get};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;
use support::{LONG, TestClient, child, eventually, for_both_backends, ms, read, start, start_with};

/// The preloaded library, compiled once.
fn preload() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (library, fresh) = (folder.join("preload.so"), folder.join(format!("preload-{}.so", std::process::id())));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/preload.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-Wall", "-Werror", "-O1", "-o"]).arg(&fresh).args([source, "-ldl"]);
        let status = command.status().expect("a C compiler: cc, or what CC names");
        assert!(status.success(), "{command:?} failed");
        // In one step: another run of these tests may be using the one before.
        std::fs::rename(fresh, &library).expect("a place for the library");
        library
    })
}

/// Runs `test` again with the library, and `body` in that process.
fn preloaded(test: &str, body: impl FnOnce()) {
    if child::is_child() {
        return body();
    }
    child::succeeds(child::again(test).env("LD_PRELOAD", preload()));
}

/// Look-ups that the preloaded library has counted.
fn lookups() -> i32 {
    // SAFETY: looks a symbol of this process up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"raskio_test_lookups".as_ptr()) };
    assert!(!symbol.is_null(), "the library is not preloaded");
    // SAFETY: the symbol is the function in preload.c, of this type.
    let count: extern "C" fn() -> i32 = unsafe { std::mem::transmute(symbol) };
    count()
}

/// Case 37. The thread pool's threads share what they know no less than a reactor's transfers.
#[test]
fn two_hundred_cold_reads_look_a_name_up_twice_at_most() {
    preloaded("two_hundred_cold_reads_look_a_name_up_twice_at_most", || {
        for backend in [Backend::MultiPoll, Backend::EasyThreadpool] {
            let before = lookups();
            let server = Server::start();
            server.put("/data", Object::pattern(200_000));
            let client = TestClient::with(backend, |options| options.num_threads = Some(64));
            let object = client.open(&format!("http://raskio.test:{}/data", server.port()));
            let options = ReadOptions { task_size: Some(1000), deadline: None };
            start_with(&object, 0, 200_000, &options).succeeds();
            assert_eq!(server.requests(), 200);
            let lookups = lookups() - before;
            assert!((1..=2).contains(&lookups), "{lookups} look-ups with {backend:?}");
        }
    });
}

#[test]
fn reads_of_many_threads_at_once_look_a_name_up_twice_at_most() {
    preloaded("reads_of_many_threads_at_once_look_a_name_up_twice_at_most", || {
        for backend in [Backend::MultiPoll, Backend::EasyThreadpool] {
            let before = lookups();
            let server = Server::start();
            server.put("/data", Object::pattern(1000));
            let client = TestClient::with(backend, |options| {
                options.num_threads = Some(16);
                options.num_reactors = Some(4);
            });
            let url = format!("http://raskio.test:{}/data", server.port());
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| read(&client.open(&url), 0, 1000));
                }
            });
            let lookups = lookups() - before;
            assert!((1..=2).contains(&lookups), "{lookups} look-ups with {backend:?}");
        }
    });
}

#[test]
fn a_look_up_that_hangs_holds_up_no_other_read_and_ends_at_the_connect_limit() {
    preloaded("a_look_up_that_hangs_holds_up_no_other_read_and_ends_at_the_connect_limit", || {
        for_both_backends(|backend| {
            let server = Server::start();
            server.put("/data", Object::pattern(1000));
            let client = TestClient::with(backend, |options| {
                options.connect_timeout_ms = Some(1500);
                options.max_attempts = Some(1);
            });
            let began = Instant::now();
            let mut stuck = start(&client.open("http://hang.raskio.test:1/data"), 0, 1000);
            read(&client.open(&server.url("/data")), 0, 1000);
            // Another name too, which needs a look-up of its own.
            read(&client.open(&format!("http://raskio.test:{}/data", server.port())), 0, 1000);
            assert!(!stuck.is_over());
            let outcome = stuck.wait();
            outcome.fails(ErrorKind::TimedOut, &["hang.raskio.test"]);
            assert!(outcome.at - began < ms(4000), "{:?}", outcome.at - began);
        });
    });
}

#[test]
fn a_look_up_that_hangs_is_cancelled_at_once() {
    preloaded("a_look_up_that_hangs_is_cancelled_at_once", || {
        for_both_backends(|backend| {
            let client = TestClient::new(backend);
            let mut stuck = start(&client.open("http://hang.raskio.test:1/data"), 0, 1000);
            eventually("the look-up runs", || client.stats().requests_in_flight == 1);
            std::thread::sleep(ms(100));
            let began = Instant::now();
            stuck.op.cancel();
            let outcome = stuck.wait();
            outcome.fails(ErrorKind::Cancelled, &[]);
            assert!(outcome.at - began < ms(200), "{:?}", outcome.at - began);
        });
    });
}

#[test]
fn a_look_up_that_fails_fails_whoever_waits_for_it_at_the_same_time() {
    preloaded("a_look_up_that_fails_fails_whoever_waits_for_it_at_the_same_time", || {
        for_both_backends(|backend| {
            let client = TestClient::with(backend, |options| {
                options.connect_timeout_ms = Some(1500);
                options.max_attempts = Some(1);
            });
            let began = Instant::now();
            let mut stuck: Vec<_> =
                (0..50).map(|_| start(&client.open("http://hang.raskio.test:1/data"), 0, 1000)).collect();
            let mut unknown: Vec<_> =
                (0..50).map(|_| start(&client.open("http://none.raskio.test:1/data"), 0, 1000)).collect();
            unknown.iter_mut().for_each(|read| drop(read.fails(ErrorKind::Connection, &["none.raskio.test"])));
            stuck.iter_mut().for_each(|read| drop(read.fails(ErrorKind::TimedOut, &["hang.raskio.test"])));
            assert!(began.elapsed() < ms(6000), "one after the other: {:?}", began.elapsed());
        });
    });
}

#[test]
fn a_look_up_that_hangs_does_not_hold_up_the_shutdown() {
    preloaded("a_look_up_that_hangs_does_not_hold_up_the_shutdown", || {
        for_both_backends(|backend| {
            let client = TestClient::new(backend);
            let mut stuck: Vec<_> =
                (0..8).map(|_| start(&client.open("http://hang.raskio.test:1/data"), 0, 1000)).collect();
            eventually("one look-up runs and seven reads wait for it", || {
                let stats = client.stats();
                (stats.requests_in_flight, stats.requests_queued) == (1, 7)
            });
            std::thread::sleep(ms(100));
            let began = Instant::now();
            client.shut_down(Some(LONG)).unwrap();
            assert!(began.elapsed() < ms(2000), "{:?}", began.elapsed());
            stuck.iter_mut().for_each(|read| drop(read.fails(ErrorKind::ShutDown, &[])));
        });
    });
}

#[test]
fn a_name_is_looked_up_again_where_its_address_stopped_answering() {
    preloaded("a_name_is_looked_up_again_where_its_address_stopped_answering", || {
        for_both_backends(|backend| {
            let server = Server::start();
            server.put("/data", Object::pattern(1000));
            server.script(get("/data"), [Reply::object().announce_close()]);
            let client = TestClient::new(backend);
            let object = client.open(&format!("http://raskio.test:{}/data", server.port()));
            read(&object, 0, 1000);
            server.refuse_connections();
            let mut reading = start(&object, 0, 1000);
            std::thread::sleep(ms(200));
            server.accept_connections();
            reading.succeeds();
        });
    });
}

#[test]
fn a_name_that_does_not_exist_is_a_connection_error_that_names_it() {
    preloaded("a_name_that_does_not_exist_is_a_connection_error_that_names_it", || {
        for_both_backends(|backend| {
            let client = TestClient::with(backend, |options| options.max_attempts = Some(2));
            let before = Instant::now();
            let mut reading = start(&client.open("http://none.raskio.test:1/data"), 0, 1000);
            reading.fails(ErrorKind::Connection, &["none.raskio.test", "2 attempts"]);
            assert!(before.elapsed() >= ms(500), "tried again, after the wait");
        });
    });
}
