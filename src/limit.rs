//! The request limiter: one budget for all reactors of a client.
//!
//! A reactor that gets no permit is put in line once; whoever frees a permit hands it to the first in line and wakes it.
//! Nothing is polled, and no reactor has a share of its own: what one leaves idle, another uses.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Somebody who can be told that a permit is theirs.
pub trait Wake: Send + Sync {
    /// Has its thread look around once more.
    fn wake(&self);
}

impl<S: crate::transport::waker::Signal> Wake for crate::transport::waker::Waker<S> {
    fn wake(&self) {
        crate::transport::waker::Waker::wake(self);
    }
}

struct Member {
    wake: Arc<dyn Wake>,
    granted: u32,
    waiting: bool,
}

struct State {
    free: u32,
    members: Vec<Member>,
    line: VecDeque<usize>,
}

/// Admits requests.
pub struct RequestLimiter {
    budget: u32,
    state: Mutex<State>,
}

/// The right to have one request in flight. Dropping it gives it on.
pub struct Permit(Arc<RequestLimiter>);

impl RequestLimiter {
    /// A budget of `budget` permits (at least one) for these members, named by their index from now on.
    pub fn new(budget: u32, members: Vec<Arc<dyn Wake>>) -> Arc<RequestLimiter> {
        let budget = budget.max(1);
        let members = members.into_iter().map(|wake| Member { wake, granted: 0, waiting: false }).collect();
        let state = Mutex::new(State { free: budget, members, line: VecDeque::new() });
        Arc::new(RequestLimiter { budget, state })
    }

    /// All permits there are.
    pub fn budget(&self) -> u32 {
        self.budget
    }

    /// A permit now; or `None`, and `member` is in line: it is woken when one has been set aside for it.
    pub fn acquire(self: &Arc<Self>, member: usize) -> Option<Permit> {
        let mut state = self.state.lock();
        if state.members[member].granted > 0 {
            state.members[member].granted -= 1;
            return Some(Permit(self.clone()));
        }
        if state.free > 0 {
            // Whoever is in line has been handed every permit that came free, so a free one means an empty line.
            state.free -= 1;
            return Some(Permit(self.clone()));
        }
        if !state.members[member].waiting {
            state.members[member].waiting = true;
            state.line.push_back(member);
        }
        None
    }

    /// `member` has nothing to send: it leaves the line, and what was set aside for it goes on to others.
    pub fn decline(&self, member: usize) {
        let mut wake = Vec::new();
        {
            let mut state = self.state.lock();
            if state.members[member].waiting {
                state.members[member].waiting = false;
                state.line.retain(|&other| other != member);
            }
            for _ in 0..std::mem::take(&mut state.members[member].granted) {
                wake.extend(state.give());
            }
        }
        wake.iter().for_each(|wake| wake.wake());
    }

    /// Permits that nobody holds and nobody was promised.
    pub fn free(&self) -> u32 {
        self.state.lock().free
    }
}

impl State {
    /// Hands one permit to the first in line, whom the caller wakes once the lock is free.
    fn give(&mut self) -> Option<Arc<dyn Wake>> {
        let Some(member) = self.line.pop_front() else {
            self.free += 1;
            return None;
        };
        let member = &mut self.members[member];
        member.waiting = false;
        member.granted += 1;
        Some(member.wake.clone())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let wake = self.0.state.lock().give();
        if let Some(wake) = wake {
            wake.wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counted(AtomicUsize);
    impl Wake for Counted {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn limiter(budget: u32, members: usize) -> (Arc<RequestLimiter>, Vec<Arc<Counted>>) {
        let wakes: Vec<Arc<Counted>> = (0..members).map(|_| Arc::default()).collect();
        let members = wakes.iter().map(|wake| wake.clone() as Arc<dyn Wake>).collect();
        (RequestLimiter::new(budget, members), wakes)
    }

    #[test]
    fn a_budget_is_a_budget_and_one_member_may_use_all_of_it() {
        let (limiter, _) = limiter(3, 8);
        let held: Vec<Permit> = (0..3).map(|_| limiter.acquire(5).unwrap()).collect();
        assert!((0..8).all(|member| limiter.acquire(member).is_none()));
        drop(held);
        assert_eq!(limiter.free(), 0, "all three went to those in line");
    }

    #[test]
    fn whoever_waits_longest_is_served_first_and_woken_once() {
        let (limiter, wakes) = limiter(1, 3);
        let held = limiter.acquire(0).unwrap();
        assert!(limiter.acquire(2).is_none() && limiter.acquire(2).is_none() && limiter.acquire(1).is_none());
        drop(held);
        assert_eq!([0, 1, 2].map(|i: usize| wakes[i].0.load(Ordering::SeqCst)), [0, 0, 1]);
        assert!(limiter.acquire(1).is_none(), "the permit is set aside for member 2");
        let held = limiter.acquire(2).unwrap();
        drop(held);
        assert!(limiter.acquire(1).is_some());
    }

    #[test]
    fn what_a_member_no_longer_needs_goes_on() {
        let (limiter, wakes) = limiter(1, 2);
        let held = limiter.acquire(0).unwrap();
        assert!(limiter.acquire(0).is_none() && limiter.acquire(1).is_none());
        drop(held);
        limiter.decline(0);
        assert_eq!(wakes[1].0.load(Ordering::SeqCst), 1);
        drop(limiter.acquire(1).unwrap());
        limiter.decline(1);
        assert_eq!(limiter.free(), 1);
    }
}
