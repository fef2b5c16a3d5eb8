//! The request limiter: one budget for all reactors of a client, of which as much is used as brings bytes.
//!
//! A reactor that gets no permit is put in line once; whoever frees a permit hands it to the first in line and wakes it.
//! Nothing is polled, and no permit is any reactor's: what one leaves idle, another uses. (How many a reactor asks for that shares its work
//! with others is its own decision, see `transport::reactor::admission`; it says so if there would be work for more.)

pub mod adaptive;
pub mod gate;
pub mod hedge;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use adaptive::{Activity, Adaptive};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    /// Permits that there may be now.
    limit: u32,
    /// Permits that somebody holds or was promised.
    given: u32,
    members: Vec<Member>,
    line: VecDeque<usize>,
    adaptive: Option<Adaptive>,
}

/// Admits requests.
pub struct RequestLimiter {
    budget: u32,
    /// Adaptive: when to look, in nanoseconds since `start`. Read on every pass of a reactor.
    next_look: AtomicU64,
    /// [`RequestLimiter::limit`], to be read without the lock.
    limit_now: AtomicU32,
    /// Members that would take more if more were theirs to take, and are not in line.
    held_back: AtomicUsize,
    start: Instant,
    state: Mutex<State>,
}

/// The right to have one request in flight. Dropping it gives it on.
pub struct Permit {
    limiter: Arc<RequestLimiter>,
    /// Adaptive: since when.
    since: Option<Instant>,
}

impl RequestLimiter {
    /// A budget of `budget` permits (at least one) for these members, named by their index from now on.
    pub fn new(budget: u32, members: Vec<Arc<dyn Wake>>) -> Arc<RequestLimiter> {
        RequestLimiter::with(budget.max(1), budget.max(1), members, None)
    }

    /// At most `budget` permits (at least one), of which as many are given out as bring bytes.
    pub fn adaptive(budget: u32, members: Vec<Arc<dyn Wake>>) -> Arc<RequestLimiter> {
        let budget = budget.max(1);
        let adaptive = Adaptive::new(budget, u32::try_from(members.len()).unwrap_or(u32::MAX), Instant::now());
        RequestLimiter::with(budget, adaptive.limit(), members, Some(adaptive))
    }

    fn with(budget: u32, limit: u32, members: Vec<Arc<dyn Wake>>, adaptive: Option<Adaptive>) -> Arc<RequestLimiter> {
        let members = members.into_iter().map(|wake| Member { wake, granted: 0, waiting: false }).collect();
        let next_look = AtomicU64::new(if adaptive.is_some() { 0 } else { u64::MAX });
        let state = Mutex::new(State { limit, given: 0, members, line: VecDeque::new(), adaptive });
        let limit_now = AtomicU32::new(limit);
        let held_back = AtomicUsize::new(0);
        Arc::new(RequestLimiter { budget, next_look, limit_now, held_back, start: Instant::now(), state })
    }

    /// All permits there may ever be.
    pub fn budget(&self) -> u32 {
        self.budget
    }

    /// Permits that there may be now.
    pub fn limit(&self) -> u32 {
        self.state.lock().limit
    }

    /// The same a moment ago, without a lock.
    pub fn limit_now(&self) -> u32 {
        self.limit_now.load(Ordering::Relaxed)
    }

    /// A permit now; or `None`, and `member` is in line: it is woken when one has been set aside for it.
    pub fn acquire(self: &Arc<Self>, member: usize) -> Option<Permit> {
        let mut state = self.state.lock();
        let since = state.adaptive.is_some().then(Instant::now);
        if state.members[member].granted > 0 {
            state.members[member].granted -= 1;
            return Some(Permit { limiter: self.clone(), since });
        }
        if state.given < state.limit {
            // Whoever is in line has been handed every permit that came free, so a free one means an empty line.
            state.given += 1;
            return Some(Permit { limiter: self.clone(), since });
        }
        if let Some(adaptive) = &mut state.adaptive {
            adaptive.wanted();
        }
        if !state.members[member].waiting {
            state.members[member].waiting = true;
            state.line.push_back(member);
        }
        None
    }

    /// A member that has as much as it is to have finds work for more, or does not any more: what becomes free is then not in
    /// vain, although nobody is in line for it.
    pub fn hold_back(&self, held: bool) {
        if held {
            self.held_back.fetch_add(1, Ordering::Relaxed);
        } else {
            self.held_back.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn more_is_wanted(&self) -> bool {
        self.held_back.load(Ordering::Relaxed) > 0
    }

    /// When [`RequestLimiter::look`] has something to do.
    pub fn next_look(&self) -> Option<Instant> {
        match self.next_look.load(Ordering::Relaxed) {
            u64::MAX => None,
            nanos => Some(self.start + Duration::from_nanos(nanos)),
        }
    }

    /// Sets the limit anew, if it is time: `activity` tells what the members did since ever. Whoever is in line for what a
    /// higher limit makes free is woken.
    pub fn look(&self, now: Instant, activity: impl FnOnce() -> Activity) {
        if self.next_look().is_none_or(|next| next > now) {
            return;
        }
        let mut wake = Vec::new();
        {
            let mut state = self.state.lock();
            let state = &mut *state;
            let Some(adaptive) = &mut state.adaptive else { return };
            if self.more_is_wanted() {
                adaptive.wanted();
            }
            adaptive.look(now, activity(), state.given);
            if state.limit != adaptive.limit() {
                log::trace!(target: "raskio", "at most {} requests in flight, before {}", adaptive.limit(), state.limit);
            }
            state.limit = adaptive.limit();
            self.limit_now.store(state.limit, Ordering::Relaxed);
            let next = adaptive.next().saturating_duration_since(self.start).as_nanos();
            self.next_look.store(u64::try_from(next).unwrap_or(u64::MAX - 1), Ordering::Relaxed);
            while state.given < state.limit {
                match state.give_one() {
                    Some(next) => wake.push(next),
                    None => break,
                }
            }
        }
        wake.iter().for_each(|wake| wake.wake());
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
                wake.extend(state.give(self.more_is_wanted()));
            }
        }
        wake.iter().for_each(|wake| wake.wake());
    }

    /// Permits that nobody holds and nobody was promised.
    pub fn free(&self) -> u32 {
        let state = self.state.lock();
        state.limit.saturating_sub(state.given)
    }
}

impl State {
    /// Takes a permit back, and hands it to the first in line, whom the caller wakes once the lock is free. `wanted`: it would be put to
    /// use even if nobody is.
    fn give(&mut self, wanted: bool) -> Option<Arc<dyn Wake>> {
        self.given -= 1;
        if self.given >= self.limit {
            return None;
        }
        let next = self.give_one();
        // Who has been promised one and has not come for it yet will take more when it does.
        let nobody = next.is_none() && self.members.iter().all(|member| member.granted == 0);
        if let (true, Some(adaptive)) = (nobody && !wanted, &mut self.adaptive) {
            adaptive.idle();
        }
        next
    }

    /// Hands a free permit to the first in line.
    fn give_one(&mut self) -> Option<Arc<dyn Wake>> {
        let member = self.line.pop_front()?;
        self.given += 1;
        let member = &mut self.members[member];
        member.waiting = false;
        member.granted += 1;
        Some(member.wake.clone())
    }
}

impl Permit {
    /// The request was served.
    pub fn served(self) {
        if let Some(since) = self.since {
            let took = since.elapsed();
            if let Some(adaptive) = &mut self.limiter.state.lock().adaptive {
                adaptive.served(took);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let wake = self.limiter.state.lock().give(self.limiter.more_is_wanted());
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

    /// Two members that have slept for so long.
    fn asleep(ms: u64) -> Activity {
        Activity { bytes: 0, slept: 2 * Duration::from_millis(ms) }
    }

    #[test]
    fn what_is_held_back_is_wanted_although_nobody_is_in_line() {
        for held_back in [false, true] {
            let wakes: Vec<Arc<Counted>> = (0..2).map(|_| Arc::default()).collect();
            let limiter =
                RequestLimiter::adaptive(1000, wakes.iter().map(|wake| wake.clone() as Arc<dyn Wake>).collect());
            let (first, now) = (limiter.limit(), Instant::now());
            let mut permits: Vec<_> = (0..first).map(|_| limiter.acquire(0).unwrap()).collect();
            if held_back {
                limiter.hold_back(true);
            }
            for ms in [0, 200] {
                limiter.look(now + Duration::from_millis(ms), || asleep(ms));
                permits.pop();
                permits.extend(limiter.acquire(1));
            }
            assert_eq!(limiter.limit() > first, held_back);
            if held_back {
                limiter.hold_back(false);
            }
        }
    }

    #[test]
    fn a_limit_that_rises_serves_those_in_line() {
        let wakes: Vec<Arc<Counted>> = (0..2).map(|_| Arc::default()).collect();
        let members = wakes.iter().map(|wake| wake.clone() as Arc<dyn Wake>).collect();
        let limiter = RequestLimiter::adaptive(1000, members);
        let mut held = Vec::new();
        while let Some(permit) = limiter.acquire(0) {
            held.push(permit);
        }
        let (first, now) = (held.len(), Instant::now());
        assert_eq!(first, limiter.limit() as usize);
        assert!(first < 1000 && limiter.acquire(1).is_none());
        for ms in [0, 200] {
            let _ = limiter.acquire(1);
            limiter.look(now + Duration::from_millis(ms), || asleep(ms));
        }
        assert!(limiter.limit() as usize > first);
        assert_eq!(wakes.iter().map(|wake| wake.0.load(Ordering::SeqCst)).collect::<Vec<_>>(), [1, 1]);
        held.extend(limiter.acquire(1));
        held.extend(limiter.acquire(0));
        assert_eq!(held.len(), first + 2);
        held.drain(..).for_each(Permit::served);
        assert_eq!(limiter.free(), limiter.limit());
    }
}
