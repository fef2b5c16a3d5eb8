//! Everything that threads share, shared by threads: alone, and in whole reads over both backends. Short here; the stage
//! `tsan` runs it under ThreadSanitizer, for longer.

#[path = "races/reads.rs"]
mod reads;

mod support;

use raskio::callbacks::Callbacks;
use raskio::credentials::authority::{self, Authority, Granted, Provide, Renewals};
use raskio::credentials::{Grant, Held, Secret};
use raskio::endpoint::site::Site;
use raskio::endpoint::{self, Origin};
use raskio::error::{Error, ErrorKind};
use raskio::limit::{RequestLimiter, Wake};
use raskio::object::ObjectOptions;
use raskio::op::items::{Items, Part, Span};
use raskio::op::{OpOwner, OpResult, Operation};
use raskio::stats::{Stats, add, sub};
use raskio::sync::Mutex;
use raskio::sys::event::EventFd;
use raskio::transport::inbox::Inbox;
use raskio::transport::reactor::names::{Entry, Names, Tell};
use raskio::transport::waker::Waker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use support::{LONG, Watchdog};

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
