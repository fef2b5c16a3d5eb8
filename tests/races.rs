//! Everything that threads share, shared by threads: alone, and in whole reads over both backends. Short here; the stage
//! `tsan` runs it under ThreadSanitizer, for longer.

mod support;

use raskio::callbacks::Callbacks;
use raskio::config::Backend;
use raskio::credentials::authority::{self, Authority, Granted, Provide, Renewals};
use raskio::credentials::{Grant, Held, Secret};
use raskio::endpoint::site::Site;
use raskio::endpoint::{self, Origin};
use raskio::error::{Error, ErrorKind};
use raskio::limit::{RequestLimiter, Wake};
use raskio::object::{ObjectOptions, ReadOptions};
use raskio::op::items::{Items, Part, Span};
use raskio::op::{OpOwner, OpResult, Operation};
use raskio::stats::{Stats, add, sub};
use raskio::sync::Mutex;
use raskio::sys::event::EventFd;
use raskio::transport::inbox::Inbox;
use raskio::transport::reactor::names::{Entry, Names, Tell};
use raskio::transport::waker::Waker;
use raskio_testserver::{Object, Server, pattern_at};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use support::{Guarded, LONG, TestClient, Watchdog};

const ROUNDS: usize = if cfg!(raskio_sanitizer = "thread") { 300 } else { 50 };
const THREADS: usize = 4;

/// Threads that all run `body`, joined. Not scoped: `std`'s scopes wait in a way that the sanitizer does not see.
fn together(body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let start = |index| {
        let body = body.clone();
        std::thread::spawn(move || body(index))
    };
    let threads: Vec<JoinHandle<()>> = (0..THREADS).map(start).collect();
    let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
    assert_eq!(failed, 0, "see above");
}

#[derive(Default)]
struct Owner {
    finished: AtomicUsize,
    cancels: AtomicUsize,
}
impl OpOwner for Owner {
    fn cancel_requested(&self, _: &Operation) {
        self.cancels.fetch_add(1, SeqCst);
    }
    fn run_completion(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
    fn op_starts_completion(&self, _: bool, _: std::time::Duration) {}
    fn op_finished(&self) {
        self.finished.fetch_add(1, SeqCst);
    }
}

#[test]
fn an_operation_ends_once_whoever_finishes_cancels_and_waits() {
    let _watchdog = Watchdog::start();
    let owner = Arc::new(Owner::default());
    for round in 0..ROUNDS {
        // Plain memory, handed from the threads that finish requests to the one that completes, and on to who waits.
        let told = Arc::new(Mutex::new(Vec::new()));
        let of_completion = told.clone();
        let done =
            Box::new(move |result: &OpResult<'_>| of_completion.lock().push((result.error.cloned(), result.bytes)));
        let op = Operation::new(owner.clone(), THREADS, 0, None, done);
        let shared = op.clone();
        together(move |index| {
            if round % 3 == index {
                shared.cancel();
            }
            shared.add_attempt(&Part::Whole);
            let failed = round % 5 == 1 && index == 1;
            let result = if failed { Err(Error::new(ErrorKind::Io, "planned")) } else { Ok(()) };
            shared.finish_one(10, result);
            shared.wait(Some(LONG)).unwrap();
        });
        let told = told.lock();
        assert_eq!(told.len(), 1, "one completion");
        let (error, bytes) = &told[0];
        assert_eq!(*bytes, 10 * THREADS as u64);
        if let Some(error) = error {
            assert!(matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Io), "{error}");
        }
    }
    assert_eq!(owner.finished.load(SeqCst), ROUNDS);
}

/// Requests that share items end on several threads, while another one cancels and all look at the results.
#[test]
fn the_items_of_a_batch_end_once_each_and_before_it() {
    let _watchdog = Watchdog::start();
    let owner = Arc::new(Owner::default());
    for round in 0..ROUNDS {
        let ended: Arc<Vec<AtomicUsize>> = Arc::new((0..5).map(|_| AtomicUsize::new(0)).collect());
        let counted = ended.clone();
        let told = Box::new(move |item: usize, _: &raskio::op::items::ItemResult<'_>| {
            counted[item].fetch_add(1, SeqCst);
        });
        let items = Items::new(5, Some(told)).unwrap();
        // Thread i has a request of item i alone and one of items 3 and 4.
        (0..THREADS as u32).for_each(|item| items.add_request(item));
        (0..THREADS).for_each(|_| [3, 4].iter().for_each(|item| items.add_request(*item)));
        let (over, of_completion) = (Arc::new(Mutex::new(None)), ended.clone());
        let written = over.clone();
        let done = Box::new(move |result: &OpResult<'_>| {
            assert!(of_completion.iter().all(|ended| ended.load(SeqCst) == 1), "each item ended before");
            let items = result.items.expect("items").results();
            let results: Vec<_> = items.map(|item| (item.error.map(|error| error.kind()), item.bytes)).collect();
            *written.lock() = Some((result.error.map(Error::kind), results));
        });
        let op = Operation::of_items(owner.clone(), items, None, done);
        let shared = op.clone();
        together(move |index| {
            let own = Part::Item(index as u32);
            let both = Part::Spans([Span { item: 3, at: 0, len: 5 }, Span { item: 4, at: 3, len: 7 }].into());
            shared.add_attempt(&both);
            if round % 7 == index {
                shared.cancel();
            }
            let failed = round % 5 == 1 && index == 1;
            let result = if failed { Err(Error::new(ErrorKind::Io, "planned")) } else { Ok(()) };
            // Enough for the first of the two.
            shared.finish(&both, if failed { 5 } else { 10 }, 10, result);
            let _ = shared.is_over_for(&both);
            shared.finish(&own, 1, 1, Ok(()));
            shared.wait(Some(LONG)).unwrap();
        });
        let (error, results) = over.lock().take().expect("the completion");
        let failed = round % 5 == 1;
        assert_eq!(results[..3], [(None, 1); 3]);
        assert_eq!(results[3], (None, 1 + 5 * THREADS as u64));
        assert_eq!(results[4].1, 7 * THREADS as u64 - if failed { 5 } else { 0 });
        assert_eq!(results[4].0.is_some(), failed);
        assert!(error.is_some() || !failed);
    }
    assert_eq!(owner.finished.load(SeqCst), ROUNDS);
}

#[derive(Default)]
struct Woken(AtomicUsize);
impl Wake for Woken {
    fn wake(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_budget_is_never_exceeded_and_every_permit_comes_back() {
    let _watchdog = Watchdog::start();
    const BUDGET: usize = 2;
    let woken: Vec<Arc<Woken>> = (0..THREADS).map(|_| Arc::default()).collect();
    let limiter = RequestLimiter::new(BUDGET as u32, woken.iter().map(|wake| wake.clone() as Arc<dyn Wake>).collect());
    let (shared, held) = (limiter.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = held.clone();
    together(move |member| {
        let mut seen = 0;
        for _ in 0..ROUNDS {
            let permit = loop {
                if let Some(permit) = shared.acquire(member) {
                    break permit;
                }
                // Told when one is set aside.
                while woken[member].0.load(SeqCst) == seen {
                    std::thread::yield_now();
                }
                seen = woken[member].0.load(SeqCst);
            };
            assert!(counted.fetch_add(1, SeqCst) < BUDGET, "more than the budget");
            std::thread::yield_now();
            counted.fetch_sub(1, SeqCst);
            drop(permit);
        }
        shared.decline(member);
    });
    assert_eq!((held.load(SeqCst), limiter.free()), (0, BUDGET as u32));
}

#[test]
fn what_is_put_into_an_inbox_comes_out_once_and_wakes_its_owner() {
    let _watchdog = Watchdog::start();
    let inbox = Arc::new(Inbox::<Box<usize>>::new(Arc::new(Waker::new(EventFd::new().unwrap()))));
    let of_owner = inbox.clone();
    let owner = std::thread::spawn(move || {
        let (mut queue, mut sum, mut count) = (VecDeque::new(), 0, 0);
        while count < THREADS * ROUNDS * 2 {
            of_owner.drain(&mut queue);
            for item in queue.drain(..) {
                sum += *item;
                count += 1;
            }
            if of_owner.waker().may_sleep() {
                // Looks for itself what poll would tell: the descriptor is the reactor's affair.
                std::thread::sleep(std::time::Duration::from_micros(100));
                of_owner.waker().awake();
            }
        }
        assert!(of_owner.close().is_empty());
        sum
    });
    let of_senders = inbox.clone();
    together(move |index| {
        for round in 0..ROUNDS {
            of_senders.push(vec![Box::new(index), Box::new(round)]).map_err(|_| "closed").unwrap();
        }
    });
    let sum = owner.join().unwrap();
    assert_eq!(sum, ROUNDS * (0..THREADS).sum::<usize>() + THREADS * (0..ROUNDS).sum::<usize>());
    assert_eq!(inbox.push(vec![Box::new(7)]).unwrap_err(), [Box::new(7)], "its owner is gone");
}

#[derive(Default)]
struct Told(AtomicUsize);
impl Tell for Told {
    fn tell(&self, _: usize, _: &Origin, _: Option<&Error>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_name_is_looked_up_by_one_thread_and_known_to_all() {
    let _watchdog = Watchdog::start();
    for round in 0..ROUNDS {
        let endpoint =
            endpoint::open(&Site::of_process(), &format!("http://host-{round}/x"), &ObjectOptions::default()).unwrap();
        let (names, told) = (Arc::<Names>::default(), Arc::<Told>::default());
        let first = Arc::new(AtomicUsize::new(0));
        let (counted, heard) = (first.clone(), told.clone());
        together(move |index| {
            let tell: Arc<dyn Tell> = heard.clone();
            loop {
                match names.enter(&endpoint.target().origin, index, &tell) {
                    Entry::Go => return,
                    // The first one gives up; the next one gets an answer.
                    Entry::First(lookup) => match counted.fetch_add(1, SeqCst) {
                        0 if round % 3 == 0 => drop(lookup),
                        _ => lookup.known(),
                    },
                    Entry::Wait => std::thread::yield_now(),
                }
            }
        });
        let expected = if round % 3 == 0 { 2 } else { 1 };
        assert_eq!(first.load(SeqCst), expected, "threads that looked the name up");
        assert!(told.0.load(SeqCst) <= 2 * THREADS);
    }
}

/// Gives a new secret each time.
struct Host(AtomicUsize);
impl Provide for Host {
    fn fetch(&self, _: &dyn Fn() -> bool) -> Result<Grant, Error> {
        let n = self.0.fetch_add(1, SeqCst);
        Ok(Grant { held: Held::Bearer(Secret::new(n.to_string())), expires: None })
    }
}
impl Granted for Told {
    fn granted(&self, _: usize, _: usize, failure: Option<&Error>) {
        assert!(failure.is_none());
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_secret_that_is_refused_is_asked_for_by_one_thread_and_seen_by_all() {
    let _watchdog = Watchdog::start();
    let renewals = Arc::<Renewals>::default();
    let authority = Authority::new(Box::new(Host(AtomicUsize::new(0))), renewals);
    let told: Arc<dyn Granted> = Arc::<Told>::default();
    let shared = authority.clone();
    together(move |index| {
        for round in 0..ROUNDS {
            while shared.enter(index, &told).unwrap() == authority::Entry::Wait {
                std::thread::yield_now();
            }
            let (grant, version) = shared.current().expect("a secret");
            // Each version has its own.
            assert_eq!(grant.held, Held::Bearer(Secret::new((version - 1).to_string())));
            if round % 5 == index {
                shared.refused(version);
            }
        }
    });
    let (_, version) = authority.current().unwrap();
    assert!((1..=(THREADS * ROUNDS) as u64).contains(&version), "{version}");
}

#[test]
fn callback_threads_run_each_call_once_and_see_what_came_before_it() {
    let _watchdog = Watchdog::start();
    let callbacks = Arc::new(Callbacks::start(2).unwrap());
    let total = Arc::new(Mutex::new(0_usize));
    let (shared, counted) = (callbacks.clone(), total.clone());
    together(move |index| {
        for round in 0..ROUNDS {
            let (payload, total) = (vec![index, round], counted.clone());
            shared.run(Box::new(move || *total.lock() += payload.len()));
        }
    });
    callbacks.stop();
    assert!(callbacks.wait_stopped(std::time::Instant::now().checked_add(LONG)));
    assert_eq!(*total.lock(), 2 * THREADS * ROUNDS);
}

#[test]
fn counters_lose_nothing() {
    let stats = Arc::new(Stats::default());
    let shared = stats.clone();
    together(move |_| {
        for _ in 0..ROUNDS {
            add(&shared.requests_in_flight, 2);
            shared.snapshot();
            sub(&shared.requests_in_flight, 1);
        }
    });
    assert_eq!(stats.snapshot().requests_in_flight, (THREADS * ROUNDS) as u64);
}

/// Reads of many threads through one client, some cancelled, some failing and tried again, and a shutdown at the end.
fn whole_reads(backend: Backend) {
    let _watchdog = Watchdog::start();
    const SIZE: u64 = 1 << 20;
    // The stage starts the server as a process of its own, which is not looked at.
    let own = Server::start();
    own.put("/medium", Object::pattern(SIZE));
    let given = std::env::var("RASKIO_TEST_URL").ok();
    let base = given.clone().unwrap_or_else(|| own.url(""));
    let client = TestClient::with(backend, |options| {
        options.num_threads = Some(4);
        options.num_reactors = Some(2);
        options.max_concurrent_requests = Some(6);
        options.task_size = Some(64 << 10);
        options.callback_threads = Some(if base.len() % 2 == 0 { 0 } else { 1 });
    });
    let of_threads = client.0.clone();
    // The last ones fail for a while, and only on a server that takes such wishes.
    let wishes: &'static [&'static str] = if given.is_some() {
        &["", "?reset_after=5000&times=1", "?status=503&times=1", "?close_silently=1"]
    } else {
        &[""]
    };
    together(move |index| {
        for round in 0..ROUNDS / 25 {
            let wish = wishes[(index + round) % wishes.len()];
            let unique = if wish.is_empty() { String::new() } else { format!("&header=X-Round:{index}-{round}") };
            let object = of_threads.open(&format!("{base}/medium{wish}{unique}"), ObjectOptions::default()).unwrap();
            let (offset, len) = ((index * 1000 + round) as u64, 300_000);
            let mut buffer = Guarded::new(len);
            let outcome = Arc::new(Mutex::new(None));
            let of_completion = outcome.clone();
            let done = Box::new(move |result: &OpResult<'_>| *of_completion.lock() = Some(result.error.cloned()));
            let pending = object.read(offset, buffer.host(), &ReadOptions::default(), done).unwrap();
            let op = pending.op().clone();
            pending.submit();
            if (index + round) % 4 == 3 {
                op.cancel();
            }
            of_threads.stats();
            object.info();
            op.wait(Some(LONG)).unwrap();
            match outcome.lock().take().expect("the completion has returned") {
                None => assert!(buffer.bytes() == pattern_at(offset, len), "wrong bytes"),
                Some(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
            }
            buffer.assert_guards();
            if round % 4 == 0 {
                of_threads.trim();
            }
        }
    });
}

/// Threads that ask what is known of an object while the reply comes that tells.
#[test]
fn what_a_reply_says_of_an_object_is_seen_whole() {
    let _watchdog = Watchdog::start();
    let own = Server::start();
    own.put("/medium", Object::pattern(1 << 20));
    let base = std::env::var("RASKIO_TEST_URL").unwrap_or_else(|_| own.url(""));
    let client = TestClient::with(Backend::MultiPoll, |_| {});
    for _ in 0..ROUNDS {
        let object = Arc::new(client.0.open(&format!("{base}/medium"), ObjectOptions::default()).unwrap());
        let asked = object.clone();
        // One that never rests: it is to ask in the very moment in which the reply is taken in.
        let asking = std::thread::spawn(move || {
            loop {
                let info = asked.info();
                assert_eq!(info.size.is_some(), info.etag.is_some(), "one reply says both");
                if info.size.is_some() {
                    return;
                }
            }
        });
        let mut buffer = Guarded::new(1);
        let pending = object.read(0, buffer.host(), &ReadOptions::default(), Box::new(|_| {})).unwrap();
        let op = pending.op().clone();
        pending.submit();
        asking.join().unwrap();
        op.wait(Some(LONG)).unwrap();
    }
}

#[test]
fn whole_reads_of_reactors() {
    whole_reads(Backend::MultiPoll);
}

#[test]
fn whole_reads_of_a_thread_pool() {
    whole_reads(Backend::EasyThreadpool);
}

/// Device reads of many threads through few pinned buffers, some cancelled, with trims between them.
fn device_reads(backend: Backend) {
    use support::cuda::{DeviceMemory, Gpu};
    let gpu = Gpu::new();
    let own = Server::start();
    own.put("/medium", Object::pattern(1 << 20));
    let base = std::env::var("RASKIO_TEST_URL").unwrap_or_else(|_| own.url(""));
    let client = TestClient::with(backend, |options| {
        options.num_threads = Some(4);
        options.num_reactors = Some(2);
        options.bounce_buffer_size = Some(64 << 10);
        options.max_pinned_bytes = Some(192 << 10);
        options.max_free_events = Some(2);
    });
    let (of_threads, context) = (client.0.clone(), gpu.context);
    together(move |index| {
        support::cuda::Sim::get().set_current(context);
        let object = of_threads.open(&format!("{base}/medium"), ObjectOptions::default()).unwrap();
        for round in 0..ROUNDS / 25 {
            let (offset, memory) = ((index * 1000 + round) as u64, DeviceMemory::new(300_000));
            let reading = support::cuda::start(&object, offset, &memory);
            if (index + round) % 4 == 3 {
                reading.op.cancel();
            }
            of_threads.stats();
            match reading.wait().error {
                None => memory.assert_pattern(offset),
                Some(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
            }
            if round % 4 == 0 {
                of_threads.trim();
            }
            memory.free();
        }
        support::cuda::Sim::get().set_current(0);
    });
    let stats = client.stats();
    assert_eq!(stats.bounce_buffers_in_use, 0, "{stats:?}");
    client.shut_down(Some(LONG)).unwrap();
}

#[test]
fn device_reads_of_reactors() {
    device_reads(Backend::MultiPoll);
}

#[test]
fn device_reads_of_a_thread_pool() {
    device_reads(Backend::EasyThreadpool);
}

/// Files: read and written by many threads at a time, some reads cancelled or late, also while their file is opened, some objects
/// released at once, with trims between them.
#[test]
fn files_of_every_backend() {
    use support::files::{DIRECT, Directory, client, local_backends, source, writable};
    let _watchdog = Watchdog::start();
    let files = Directory::new();
    let path = files.put("data", 1 << 20);
    for local in local_backends() {
        let client = client(local, DIRECT, |options| {
            options.num_threads = Some(3);
            options.uring_queue_depth = Some(5);
            options.task_size = Some(50_000);
        });
        let (of_threads, path, copy) = (client.0.clone(), path.clone(), files.path(&format!("copy-{local:?}")));
        writable(&client, &copy);
        together(move |index| {
            let bytes = pattern_at(0, 30_000);
            for round in 0..ROUNDS / 10 {
                let object = of_threads.open(&path, ObjectOptions::default()).unwrap();
                let soon = std::time::Duration::from_micros(50 * (round as u64 + 1));
                let deadline = ((index + round) % 5 == 4).then_some(soon);
                let options = ReadOptions { deadline, ..ReadOptions::default() };
                let mut reading = support::start_with(&object, (index * 1000 + round) as u64, 300_000, &options);
                drop(object);
                match (index + round) % 5 {
                    4 => {
                        let outcome = reading.wait();
                        assert!(outcome.error.is_none_or(|error| error.kind() == ErrorKind::TimedOut));
                    }
                    3 => {
                        reading.op.cancel();
                        let outcome = reading.wait();
                        assert!(outcome.error.is_none_or(|error| error.kind() == ErrorKind::Cancelled));
                    }
                    2 => of_threads.trim(),
                    _ => drop(reading.succeeds()),
                }
                let options = ObjectOptions { writable: true, ..ObjectOptions::default() };
                let file = of_threads.open(&copy, options).unwrap();
                let at = (index * 30_000) as u64;
                let written = file.write_sync(at, source(&bytes), &ReadOptions::default(), round == 0).unwrap();
                assert_eq!(written, 30_000);
                of_threads.stats();
                if !reading.is_over() {
                    reading.succeeds();
                }
            }
        });
        client.shut_down(Some(LONG)).unwrap();
    }
}
