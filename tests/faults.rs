//! A fault costs the transfers it touched, and nothing else: libcurl's calls, threads and callbacks fail on demand.
//!
//! Run with `cargo test --features fault-injection --test faults`; the points are the process's, so one test at a time.

mod support;

use raskio::client::Client;
use raskio::config::{Backend, Overrides};
use raskio::error::ErrorKind;
use raskio::object::{Object, ObjectOptions};
use raskio::stats::Snapshot;
use raskio::sys::fault::{self, Point};
use raskio_testserver::{Gate, Object as Served, Reply, Server, get};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use support::{LONG, Watchdog, config, start};

const SIZE: usize = 1 << 20;

struct Bench {
    server: Server,
    client: Arc<Client>,
    _alone: MutexGuard<'static, ()>,
    _watchdog: Watchdog,
}

impl Bench {
    fn new(backend: Backend, change: impl FnOnce(&mut Overrides)) -> Bench {
        Bench::armed(backend, change, || {})
    }

    /// With a fault that hits the client as it is made.
    fn armed(backend: Backend, change: impl FnOnce(&mut Overrides), arm: impl FnOnce()) -> Bench {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let server = Server::start();
        server.put("/o", Served::pattern(SIZE as u64));
        let config = config(backend, |overrides| {
            overrides.task_size = Some(64 << 10);
            overrides.num_reactors = Some(2);
            change(overrides);
        });
        arm();
        let client = Client::new(config, None).unwrap();
        Bench { server, client, _alone: alone, _watchdog: Watchdog::start() }
    }

    fn open(&self) -> Arc<Object> {
        self.client.open(&self.server.url("/o"), ObjectOptions::default()).unwrap()
    }

    /// A read of everything, and a second one after it.
    fn works(&self) {
        start(&self.open(), 0, SIZE).succeeds();
        start(&self.open(), 0, SIZE).succeeds();
    }

    /// Everything balances at the end.
    fn end(self) -> Snapshot {
        self.client.shut_down(Some(LONG)).unwrap();
        let stats = self.client.stats();
        assert_eq!(stats.ops_started, stats.ops_finished, "{stats:?}");
        assert_eq!(stats.requests_started, stats.requests_finished, "{stats:?}");
        assert_eq!((stats.requests_in_flight, stats.requests_queued), (0, 0), "{stats:?}");
        stats
    }
}

fn both(test: impl Fn(Backend)) {
    test(Backend::MultiPoll);
    test(Backend::EasyThreadpool);
}

#[test]
fn a_failing_multi_handle_costs_its_own_transfers_an_attempt_and_later_reads_nothing() {
    for point in [Point::MultiAction, Point::MultiWait] {
        both(|backend| {
            let bench = Bench::new(backend, |_| {});
            let before = fault::hits(point);
            start(&bench.open(), 0, SIZE).succeeds();
            // In the middle of the next read, and on one reactor alone.
            fault::arm(point, 2, 1);
            bench.works();
            assert_eq!(fault::hits(point) - before, 1, "{point:?} did not fail");
            let stats = bench.end();
            assert_eq!((stats.reactors_replaced, stats.handles_leaked), (1, 0), "{point:?} {backend:?}");
        });
    }
}

#[test]
fn without_attempts_left_the_transfers_of_a_failing_multi_handle_fail_and_the_client_goes_on() {
    both(|backend| {
        let bench = Bench::new(backend, |overrides| {
            overrides.max_attempts = Some(1);
            // The fault must not hit an idle thread.
            overrides.num_reactors = Some(1);
            overrides.num_threads = Some(1);
        });
        let gate = Gate::new();
        bench.server.script(get("/o"), [Reply::object().hold(&gate)]);
        let mut reading = start(&bench.open(), 0, 1000);
        assert!(gate.wait_held(1, LONG));
        // The call that sent the request may not have returned, and would take the reply in as well.
        std::thread::sleep(std::time::Duration::from_millis(200));
        fault::arm(Point::MultiAction, 0, 1);
        gate.open();
        reading.fails(ErrorKind::Internal, &["curl_multi_socket_action", "bytes 0-999", "/o"]);
        bench.server.clear_scripts();
        bench.works();
        assert_eq!(bench.end().reactors_replaced, 1);
    });
}

#[test]
fn a_handle_that_libcurl_keeps_is_leaked_and_its_request_starts_over() {
    both(|backend| {
        let bench = Bench::new(backend, |_| {});
        fault::arm(Point::MultiRemove, 3, 1);
        bench.works();
        let stats = bench.end();
        assert_eq!((stats.handles_leaked, stats.reactors_replaced), (1, 1), "{backend:?}");
    });
}

#[test]
fn a_handle_that_cannot_be_added_costs_one_transfer_an_attempt_and_no_reactor() {
    both(|backend| {
        let bench = Bench::new(backend, |_| {});
        fault::arm(Point::MultiAdd, 3, 1);
        bench.works();
        assert_eq!(bench.end().reactors_replaced, 0, "{backend:?}");
    });
}

#[test]
fn a_multi_handle_that_cannot_be_made_is_made_later() {
    both(|backend| {
        let bench = Bench::armed(backend, |_| {}, || fault::arm(Point::MultiNew, 0, 3));
        bench.works();
        bench.end();
    });
}

#[test]
fn a_handle_that_cannot_be_made_fails_its_request_as_out_of_memory() {
    both(|backend| {
        let bench = Bench::new(backend, |_| {});
        fault::arm(Point::EasyNew, 0, 1);
        start(&bench.open(), 0, 1000).fails(ErrorKind::OutOfMemory, &["/o"]);
        bench.works();
        bench.end();
    });
}

#[test]
fn a_panic_while_bytes_come_in_fails_that_request_alone() {
    both(|backend| {
        let bench = Bench::new(backend, |_| {});
        fault::arm(Point::PanicInBody, 0, 1);
        start(&bench.open(), 0, 1000).fails(ErrorKind::Internal, &["panic", "/o"]);
        bench.works();
        assert_eq!(bench.end().reactors_replaced, 0, "{backend:?}");
    });
}

#[test]
fn a_panic_in_a_reactor_costs_its_transfers_an_attempt() {
    both(|backend| {
        let bench = Bench::new(backend, |overrides| {
            // The fault must not hit an idle thread.
            overrides.num_reactors = Some(1);
            overrides.num_threads = Some(1);
        });
        let gate = Gate::new();
        bench.server.script(get("/o"), [Reply::object().hold(&gate), Reply::object()]);
        let mut reading = start(&bench.open(), 0, 1000);
        assert!(gate.wait_held(1, LONG));
        let before = fault::hits(Point::PanicInLoop);
        fault::arm(Point::PanicInLoop, 0, 1);
        // Wakes the thread. The reply is held until then: one that is quick could be taken in before the loop goes on.
        bench.client.trim();
        support::eventually("the loop panics", || fault::hits(Point::PanicInLoop) > before);
        gate.open();
        reading.succeeds();
        assert_eq!(bench.server.requests(), 2, "{backend:?}");
        assert_eq!(bench.end().reactors_replaced, 1, "{backend:?}");
    });
}

#[test]
fn a_client_without_threads_says_so_and_leaves_nothing_behind() {
    both(|backend| {
        let bench = Bench::new(backend, |_| {});
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        for skip in [0, 1] {
            fault::arm(Point::Thread, skip, 1);
            let error = Client::new(config(backend, |overrides| overrides.num_reactors = Some(2)), None).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(error.message().contains("raskio-"), "{error}");
        }
        support::eventually("the threads that ran are gone", || threads() <= before);
        bench.works();
        bench.end();
    });
}

#[test]
fn a_panic_in_a_stager_costs_the_read_that_it_hits() {
    use support::cuda::{DeviceMemory, Gpu};
    let gpu = Gpu::new();
    both(|backend| {
        let bench = Bench::new(backend, |_| {});
        let (object, memory) = (bench.open(), DeviceMemory::new(SIZE));
        support::cuda::start(&object, 0, &memory).succeeds();
        fault::arm(Point::PanicInStager, 3, 1);
        support::cuda::start(&object, 0, &memory).fails(ErrorKind::Internal, &["/o", "bug"]);
        support::cuda::start(&object, 0, &memory).succeeds();
        memory.assert_pattern(0);
        memory.free();
        let stats = bench.end();
        assert_eq!((stats.bounce_buffers_in_use, stats.bounce_buffers_total), (0, 0), "{stats:?}");
    });
    assert_eq!(gpu.sim.live().pinned_bytes, 0);
}

// The system's libcurl is not linked in such a way.
#[cfg(feature = "bundled-curl")]
#[test]
fn bytes_that_libcurl_hands_on_in_an_unknown_way_are_asked_for_again_and_from_then_on_copied() {
    // More than is received at once, together with the head.
    let bench = Bench::new(Backend::MultiPoll, |overrides| overrides.task_size = Some(SIZE as u64));
    fault::arm(Point::BodyElsewhere, 1, 1);
    // On some processors bytes are copied whose place in a page is a little behind that in their file: so two, half a page apart.
    start(&bench.open(), 0, SIZE).succeeds();
    start(&bench.open(), 2048, SIZE - 2048).succeeds();
    assert_eq!(fault::hits(Point::BodyElsewhere), 1, "the bytes were copied before");
    fault::arm(Point::BodyElsewhere, 0, 1);
    start(&bench.open(), 0, SIZE).succeeds();
    start(&bench.open(), 2048, SIZE - 2048).succeeds();
    assert_eq!(fault::hits(Point::BodyElsewhere), 1, "the bytes are still not copied");
    let stats = bench.end();
    assert_eq!(stats.retries_after_other, 1, "{stats:?}");
}
