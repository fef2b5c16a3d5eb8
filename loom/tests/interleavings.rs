//! Every interleaving of the small concurrent parts.
//!
//! loom fails a test in which threads wait for ever, so "nothing is lost" needs no time limit here.
#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use raskio_loom::error::{Error, ErrorKind};
use raskio_loom::limit::{RequestLimiter, Wake};
use raskio_loom::op::items::{Items, Part, Span};
use raskio_loom::op::{OpOwner, Operation};
use raskio_loom::transport::inbox::Inbox;
use raskio_loom::transport::waker::{Signal, Waker};
use std::collections::VecDeque;
use std::sync::Arc;

/// An eventfd in loom's world.
#[derive(Default)]
struct Event {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
    }
}

impl Signal for Event {
    fn signal(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_all();
    }
    fn clear(&self) {
        *self.set.lock().unwrap() = false;
    }
}

/// The owner's side of a waker: sleeps until something may have changed.
fn sleep(waker: &Waker<Event>) {
    if waker.may_sleep() {
        waker.signal().wait();
        waker.awake();
    }
}

#[test]
fn no_batch_is_left_in_an_inbox_whose_owner_sleeps() {
    loom::model(|| {
        let waker = Arc::new(Waker::new(Event::default()));
        let inbox = Arc::new(Inbox::new(waker.clone()));
        let senders: Vec<_> = (0..2)
            .map(|i| {
                let inbox = inbox.clone();
                thread::spawn(move || inbox.push(vec![i]).unwrap())
            })
            .collect();
        let mut got = VecDeque::new();
        while got.len() < 2 {
            inbox.drain(&mut got);
            if got.len() < 2 {
                sleep(&waker);
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn what_is_pushed_around_a_close_is_either_returned_or_refused() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new(Arc::new(Waker::new(Event::default()))));
        let sender = {
            let inbox = inbox.clone();
            thread::spawn(move || usize::from(inbox.push(vec![1]).is_err()))
        };
        let taken = inbox.close().len();
        assert_eq!(taken + sender.join().unwrap(), 1);
    });
}

/// A member of a limiter that wakes a sleeping thread.
struct Reactor(Arc<Waker<Event>>);
impl Wake for Reactor {
    fn wake(&self) {
        self.0.wake();
    }
}

#[test]
fn a_freed_permit_reaches_whoever_waits_and_the_budget_holds() {
    loom::model(|| {
        let wakers: Vec<_> = (0..2).map(|_| Arc::new(Waker::new(Event::default()))).collect();
        let members = wakers.iter().map(|waker| Arc::new(Reactor(waker.clone())) as Arc<dyn Wake>).collect();
        let limiter = RequestLimiter::new(1, members);
        let in_flight = Arc::new(AtomicUsize::new(0));
        let work = |member: usize| {
            let (limiter, waker, in_flight) = (limiter.clone(), wakers[member].clone(), in_flight.clone());
            move || {
                let permit = loop {
                    match limiter.acquire(member) {
                        Some(permit) => break permit,
                        None => sleep(&waker),
                    }
                };
                assert_eq!(in_flight.fetch_add(1, SeqCst), 0, "two in flight with a budget of one");
                in_flight.fetch_sub(1, SeqCst);
                drop(permit);
                limiter.decline(member);
            }
        };
        let other = thread::spawn(work(1));
        work(0)();
        other.join().unwrap();
        assert_eq!(limiter.free(), 1);
    });
}

#[derive(Default)]
struct Owner {
    swept: AtomicUsize,
    completed: AtomicUsize,
    finished: AtomicUsize,
}
impl OpOwner for Owner {
    fn cancel_requested(&self, _: &Operation) {
        self.swept.fetch_add(1, SeqCst);
    }
    fn run_completion(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
    fn op_starts_completion(&self, _: bool, _: std::time::Duration) {
        self.completed.fetch_add(1, SeqCst);
    }
    fn op_finished(&self) {
        self.finished.fetch_add(1, SeqCst);
    }
}

#[test]
fn an_operation_completes_once_with_the_first_error_whoever_comes_last() {
    loom::model(|| {
        let owner = Arc::new(Owner::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let op = Operation::new(
            owner.clone(),
            2,
            0,
            None,
            Box::new(move |result| told.lock().unwrap().push((result.bytes, result.error.map(Error::kind)))),
        );
        let finisher = {
            let op = op.clone();
            thread::spawn(move || op.finish_one(3, Ok(())))
        };
        let canceller = {
            let op = op.clone();
            thread::spawn(move || op.cancel())
        };
        op.finish_one(4, Err(Error::new(ErrorKind::Range, "wrong")));
        finisher.join().unwrap();
        canceller.join().unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].0, 7);
        assert!(matches!(seen[0].1, Some(ErrorKind::Range | ErrorKind::Cancelled)), "{:?}", seen[0]);
        assert_eq!((owner.completed.load(SeqCst), owner.finished.load(SeqCst)), (1, 1));
        assert!(owner.swept.load(SeqCst) <= 1, "the first error alone has the transports look");
    });
}

#[test]
fn whoever_waits_for_an_operation_is_woken() {
    loom::model(|| {
        let op = Operation::new(Arc::new(Owner::default()), 1, 0, None, Box::new(|_| {}));
        let finisher = {
            let op = op.clone();
            thread::spawn(move || op.finish_one(0, Ok(())))
        };
        op.wait(None).unwrap();
        finisher.join().unwrap();
    });
}

#[test]
fn a_batch_completes_once_when_each_of_its_items_has_ended_once() {
    loom::model(|| {
        let owner = Arc::new(Owner::default());
        let (seen, told) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (of_items, of_completion, written) = (told.clone(), told.clone(), seen.clone());
        let items = Items::new(2, Some(Box::new(move |item, _: &_| of_items.lock().unwrap().push(item)))).unwrap();
        // Two requests for the first item, one of which also carries the second.
        [0, 0, 1].into_iter().for_each(|item| items.add_request(item));
        let done = Box::new(move |result: &raskio_loom::op::OpResult<'_>| {
            assert_eq!(of_completion.lock().unwrap().len(), 2, "both items were told of before");
            let items = result.items.unwrap().results();
            written.lock().unwrap().extend(items.map(|item| (item.bytes, item.error.map(|error| error.kind()))));
        });
        let op = Operation::of_items(owner.clone(), items, None, done);
        let other = {
            let op = op.clone();
            let both = Part::Spans([Span { item: 0, at: 0, len: 2 }, Span { item: 1, at: 2, len: 2 }].into());
            thread::spawn(move || op.finish(&both, 2, 4, Err(Error::new(ErrorKind::Range, "short"))))
        };
        op.finish(&Part::Item(0), 3, 3, Ok(()));
        other.join().unwrap();
        assert_eq!(*seen.lock().unwrap(), [(5, None), (0, Some(ErrorKind::Range))]);
        assert_eq!((owner.completed.load(SeqCst), owner.finished.load(SeqCst)), (1, 1));
        assert_eq!(owner.swept.load(SeqCst), 0, "an item that fails ends nothing else");
    });
}

/// A planted bug: without it nobody would know that loom tries every interleaving.
#[test]
#[should_panic(expected = "an increment was lost")]
fn a_planted_lost_update_is_found() {
    loom::model(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let increment = |count: &AtomicUsize| count.store(count.load(SeqCst) + 1, SeqCst);
        let other = {
            let count = count.clone();
            thread::spawn(move || increment(&count))
        };
        increment(&count);
        other.join().unwrap();
        assert_eq!(count.load(SeqCst), 2, "an increment was lost");
    });
}
