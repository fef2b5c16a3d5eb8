//! The budget of requests in flight, and how requests are spread over reactors.

mod support;

use raskio::config::{Backend, Dispatch, Overrides};
use raskio::object::ReadOptions;
use raskio_testserver::{Gate, Object, Reply, Server, get, raise_open_file_limit};
use std::collections::BTreeSet;
use support::{TestClient, Watchdog, child, for_both_backends, start, start_with};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

fn tasks_of(bytes: u64) -> ReadOptions {
    ReadOptions { task_size: Some(bytes), deadline: None }
}

fn multi_poll(reactors: u32, budget: u32, more: impl FnOnce(&mut Overrides)) -> TestClient {
    TestClient::with(Backend::MultiPoll, |options| {
        options.num_reactors = Some(reactors);
        options.max_concurrent_requests = Some(budget);
        more(options);
    })
}

/// Case 25, for the thread pool with 8 threads.
#[test]
fn a_read_of_many_requests_uses_all_of_the_budget_and_no_more() {
    for_both_backends(|backend| {
        let server = server_of(64 << 20);
        let client = TestClient::with(backend, |options| options.max_concurrent_requests = Some(8));
        // Nobody is answered before 8 are there, so 8 it must be.
        let gate = Gate::barrier(8);
        server.script(get("/data"), [Reply::object().hold(&gate)]);
        start_with(&client.open(&server.url("/data")), 0, 64 << 20, &tasks_of(1 << 20)).succeeds();
        assert_eq!((server.requests(), server.max_in_flight()), (64, 8));
        assert!(server.connections() <= 8, "{} connections", server.connections());
        assert_eq!(client.stats().bytes_received, 64 << 20);
    });
}

/// Case 35.
#[test]
fn the_budget_is_one_for_all_reactors() {
    let _watchdog = Watchdog::start();
    for dispatch in [Dispatch::PerChunk, Dispatch::PerPread] {
        let server = server_of(200_000);
        let client = multi_poll(8, 3, |options| options.dispatch = Some(dispatch));
        let gate = Gate::barrier(3);
        server.script(get("/data"), [Reply::object().hold(&gate)]);
        let object = client.open(&server.url("/data"));
        let mut reads: Vec<_> = (0..8).map(|_| start_with(&object, 0, 200_000, &tasks_of(5000))).collect();
        reads.iter_mut().for_each(|read| drop(read.succeeds()));
        assert_eq!((server.requests(), server.max_in_flight()), (320, 3), "{dispatch:?}");
    }
}

#[test]
fn one_reactor_may_use_what_the_others_leave_idle() {
    let _watchdog = Watchdog::start();
    let server = server_of(8000);
    let client = multi_poll(4, 8, |options| options.dispatch = Some(Dispatch::PerPread));
    // A share of 2 for each reactor would never open this.
    let gate = Gate::barrier(8);
    server.script(get("/data"), [Reply::object().hold(&gate)]);
    start_with(&client.open(&server.url("/data")), 0, 8000, &tasks_of(1000)).succeeds();
    assert_eq!(server.max_in_flight(), 8);
}

/// Where more requests in flight bring more, the limit rises, whether reactors are in line for permits or leave work to each other.
#[test]
fn several_reactors_find_out_that_more_requests_bring_more() {
    let _watchdog = Watchdog::start();
    for reactors in [1, 2, 4] {
        let server = server_of(1 << 20);
        server.script(get("/data"), [Reply::object().delay(support::ms(30))]);
        let client = multi_poll(reactors, 256, |_| {});
        let object = client.open(&server.url("/data"));
        let mut reads: Vec<_> = (0..4000).map(|i| start(&object, i * 100, 100)).collect();
        reads.iter_mut().for_each(|read| drop(read.succeeds()));
        let most = server.max_in_flight();
        // All of them begin with 32, and double that where nothing speaks against it.
        assert!(most > 32, "{reactors} reactors: {most}");
    }
}

#[test]
fn no_limit_means_no_limit() {
    let _watchdog = Watchdog::start();
    let server = server_of(300_000);
    let client = multi_poll(1, 0, |_| {});
    let gate = Gate::barrier(300);
    server.script(get("/data"), [Reply::object().hold(&gate)]);
    raise_open_file_limit();
    // Made before the limit was raised, a client may have had it cut: so a fresh one.
    drop(client);
    let client = multi_poll(1, 0, |_| {});
    start_with(&client.open(&server.url("/data")), 0, 300_000, &tasks_of(1000)).succeeds();
    assert_eq!(server.max_in_flight(), 300);
}

#[test]
fn per_pread_keeps_a_read_on_one_reactor_and_per_chunk_spreads_it() {
    let _watchdog = Watchdog::start();
    // One request at a time, and each reactor has connections of its own: so many connections, so many reactors.
    for (dispatch, connections) in [(Dispatch::PerPread, 1), (Dispatch::PerChunk, 4)] {
        let server = server_of(20_000);
        let client = multi_poll(4, 1, |options| options.dispatch = Some(dispatch));
        start_with(&client.open(&server.url("/data")), 0, 20_000, &tasks_of(1000)).succeeds();
        assert_eq!((server.requests(), server.connections()), (20, connections), "{dispatch:?}");
    }
}

#[test]
fn per_pread_gives_each_read_the_next_reactor() {
    let _watchdog = Watchdog::start();
    let server = server_of(1000);
    let client = multi_poll(4, 8, |options| options.dispatch = Some(Dispatch::PerPread));
    let object = client.open(&server.url("/data"));
    let threads: BTreeSet<String> = (0..4).map(|_| start(&object, 0, 1000).succeeds().thread).collect();
    assert_eq!(threads.len(), 4, "{threads:?}");
}

#[test]
fn a_thread_pool_uses_all_of_its_threads() {
    let _watchdog = Watchdog::start();
    let server = server_of(160_000);
    let client = TestClient::with(Backend::EasyThreadpool, |options| options.num_threads = Some(16));
    let gate = Gate::barrier(16);
    server.script(get("/data"), [Reply::object().hold(&gate)]);
    start_with(&client.open(&server.url("/data")), 0, 160_000, &tasks_of(1000)).succeeds();
    assert_eq!((server.requests(), server.max_in_flight()), (160, 16));
}

#[test]
fn five_thousand_requests_are_in_flight_on_one_reactor() {
    const WANTED: usize = 5000;
    let _watchdog = Watchdog::start();
    // Both ends are in this process.
    let limit = raise_open_file_limit() as usize;
    assert!(limit > 2 * WANTED + 500, "this test needs `ulimit -Hn` to be {} or more", 2 * WANTED + 500);
    let server = Server::builder().stack_size(128 << 10).start();
    server.put("/data", Object::pattern(WANTED as u64 * 100));
    let gate = Gate::barrier(WANTED);
    server.script(get("/data"), [Reply::object().hold(&gate)]);
    let client = multi_poll(1, WANTED as u32, |options| {
        options.connect_timeout_ms = Some(60_000);
        options.request_timeout_ms = Some(120_000);
        options.stall_timeout_ms = Some(100_000);
    });
    let outcome = start_with(&client.open(&server.url("/data")), 0, WANTED * 100, &tasks_of(100)).succeeds();
    assert_eq!(outcome.attempts as usize, WANTED);
    assert_eq!((server.requests(), server.max_in_flight()), (WANTED as u64, WANTED as u64));
}

/// What select() cannot do: the host of a data loader may well have thousands of files open.
#[test]
fn file_descriptors_above_1024_are_as_good_as_any() {
    for_both_backends(|backend| {
        raise_open_file_limit();
        let files: Vec<std::fs::File> = (0..1100).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        assert!(files.last().is_some_and(|file| std::os::fd::AsRawFd::as_raw_fd(file) > 1024));
        let (server, client) =
            (server_of(1 << 20), TestClient::with(backend, |options| options.max_attempts = Some(1)));
        let object = client.open(&server.url("/data"));
        for _ in 0..3 {
            start_with(&object, 0, 1 << 20, &tasks_of(100_000)).succeeds();
        }
        assert_eq!(server.requests(), 33);
    });
}

#[test]
fn a_budget_above_the_open_file_limit_is_cut_and_said_so() {
    const NAME: &str = "a_budget_above_the_open_file_limit_is_cut_and_said_so";
    const LIMIT: u64 = 100;
    if child::is_child() {
        let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT };
        // SAFETY: one readable rlimit is passed.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        let client = multi_poll(1, 5000, |_| {});
        let url = std::env::var("URL").expect("a URL");
        let outcome = start_with(&client.open(&url), 0, 400_000, &tasks_of(1000)).succeeds();
        assert_eq!(outcome.attempts, 400, "no request failed for want of a file");
        return;
    }
    let server = server_of(400_000);
    // At a limit of 100 files half of them are for connections.
    let gate = Gate::barrier(50);
    server.script(get("/data"), [Reply::object().hold(&gate)]);
    let output = child::succeeds(child::again(NAME).env("URL", server.url("/data")).env("RUST_LOG", "warn"));
    assert_eq!((server.requests(), server.max_in_flight()), (400, 50));
    assert!(output.contains("5000") && output.contains("100"), "the warning gives both numbers: {output}");
}
