//! New connections, a few at a time.
//!
//! A server accepts connections from a queue, and drops what does not fit: then the client asks again a second later.
//! Python's http.server has room for 6; 256 connections at once lost most of theirs.

use super::Wake;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// New connections at a time at first: one less than the shortest listen queue in use (5, which Linux makes 6) holds.
const AT_FIRST: usize = 5;
/// And at most.
const AT_MOST: usize = 1024;
/// A connection is new until its server says something, or for so long: then waiting costs as much as what it avoids.
const NEW_FOR: Duration = Duration::from_millis(250);
/// Where answers come sooner, a few at a time are hundreds a second, and little is to be won by more.
const WORTH_MORE: Duration = Duration::from_millis(20);

struct New {
    id: u64,
    since: Instant,
    /// The last that could be opened: as many were new as may be.
    last: bool,
}

struct State {
    new: VecDeque<New>,
    next: u64,
    at_a_time: usize,
    level: Level,
    /// Members that found it closed.
    waiting: Vec<usize>,
}

/// What is known about servers at this many connections at a time. One that works on all of them at once answers the last
/// as soon as the first. One that takes turns does not, and its queue is all it has.
struct Level {
    /// Openings from this one on belong to it.
    first: u64,
    /// How soon the server answers: the quickest of the first few, then the last of those that were fewer at a time.
    soon: Duration,
    /// How many there were before.
    fewer: Option<usize>,
    /// More is not better.
    last: bool,
}

/// Lets in who needs a new connection.
pub struct ConnectionGate {
    state: Mutex<State>,
    members: Vec<Arc<dyn Wake>>,
}

/// A connection that is new.
pub struct Opening {
    gate: Arc<ConnectionGate>,
    id: u64,
}

impl ConnectionGate {
    /// For these members, named by their index from now on.
    pub fn new(members: Vec<Arc<dyn Wake>>) -> Arc<ConnectionGate> {
        let level = Level { first: 0, soon: Duration::MAX, fewer: None, last: false };
        let state = State { new: VecDeque::new(), next: 0, at_a_time: AT_FIRST, level, waiting: Vec::new() };
        Arc::new(ConnectionGate { state: Mutex::new(state), members })
    }

    /// Lets `member` open a connection.
    ///
    /// # Errors
    /// When to ask again; it is woken if that is possible earlier.
    pub fn enter(self: &Arc<Self>, member: usize, now: Instant) -> Result<Opening, Instant> {
        let mut state = self.state.lock();
        let mut expired = false;
        while state.new.front().is_some_and(|new| now.saturating_duration_since(new.since) >= NEW_FOR) {
            state.new.pop_front();
            expired = true;
        }
        if expired {
            // The server is slow to answer, or dead. Neither must hold up everything else.
            let more = state.at_a_time * 2;
            state.go_on_with(more);
        }
        if state.new.len() >= state.at_a_time {
            if !state.waiting.contains(&member) {
                state.waiting.push(member);
            }
            let oldest = state.new.front().map_or(now, |new| new.since);
            return Err(oldest + NEW_FOR);
        }
        let id = state.next;
        state.next += 1;
        let last = state.new.len() + 1 == state.at_a_time;
        state.new.push_back(New { id, since: now, last });
        Ok(Opening { gate: self.clone(), id })
    }
}

impl State {
    fn go_on_with(&mut self, at_a_time: usize) {
        self.level.fewer = Some(self.at_a_time);
        self.level.first = self.next;
        self.at_a_time = at_a_time.min(AT_MOST);
    }

    fn answered(&mut self, id: u64, now: Instant) {
        let Some(new) = self.new.iter().find(|new| new.id == id) else { return };
        let took = now.saturating_duration_since(new.since);
        if id < AT_FIRST as u64 {
            self.level.soon = self.level.soon.min(took);
        }
        if self.level.last || !new.last || id < self.level.first || took < WORTH_MORE {
            return;
        }
        // Half of what taking turns would cost when they are twice as many.
        if took <= self.level.soon.saturating_mul(3) / 2 {
            self.level.soon = took;
            self.go_on_with(self.at_a_time * 2);
        } else {
            self.at_a_time = self.level.fewer.unwrap_or(self.at_a_time);
            self.level.last = true;
        }
    }
}

impl Opening {
    /// The server has said something.
    pub fn answered(self, now: Instant) {
        self.gate.state.lock().answered(self.id, now);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let woken = {
            let mut state = self.gate.state.lock();
            let before = state.new.len();
            state.new.retain(|new| new.id != self.id);
            // One that was no longer new made room already.
            if state.new.len() < before { std::mem::take(&mut state.waiting) } else { Vec::new() }
        };
        for member in woken {
            self.gate.members[member].wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[derive(Default)]
    struct Counted(AtomicUsize);
    impl Wake for Counted {
        fn wake(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn gate() -> (Arc<ConnectionGate>, Vec<Arc<Counted>>) {
        let counted: Vec<Arc<Counted>> = (0..2).map(|_| Arc::default()).collect();
        (ConnectionGate::new(counted.iter().map(|one| one.clone() as Arc<dyn Wake>).collect()), counted)
    }

    #[test]
    fn no_more_than_a_short_listen_queue_holds_are_opened_at_a_time() {
        let (gate, counted) = gate();
        let now = Instant::now();
        let mut open: Vec<Opening> = (0..AT_FIRST).map(|_| gate.enter(0, now).ok().unwrap()).collect();
        assert_eq!(gate.enter(1, now).err(), Some(now + NEW_FOR));
        assert_eq!(gate.enter(1, now).err(), Some(now + NEW_FOR));
        assert_eq!(counted[1].0.load(SeqCst), 0);
        open.pop();
        assert_eq!((counted[0].0.load(SeqCst), counted[1].0.load(SeqCst)), (0, 1), "who waited is woken, once");
        let again = gate.enter(1, now).ok().unwrap();
        assert!(gate.enter(0, now).is_err());
        drop(again);
    }

    #[test]
    fn a_server_that_says_nothing_holds_nobody_up_for_long() {
        let (gate, counted) = gate();
        let now = Instant::now();
        let silent: Vec<Opening> = (0..AT_FIRST).map(|_| gate.enter(0, now).ok().unwrap()).collect();
        assert!(gate.enter(1, now + NEW_FOR / 2).is_err());
        let later = now + NEW_FOR;
        let more: Vec<Opening> = (0..AT_FIRST * 2).map(|_| gate.enter(1, later).ok().unwrap()).collect();
        assert!(gate.enter(1, later).is_err());
        let before = counted[1].0.load(SeqCst);
        drop(silent);
        assert_eq!(counted[1].0.load(SeqCst), before, "they were not counted any more");
        assert!(gate.enter(1, later).is_err());
        drop(more);
        assert!(gate.enter(1, later).is_ok());
    }

    #[test]
    fn a_server_that_answers_many_at_once_gets_more_and_one_that_takes_turns_does_not() {
        let ms = Duration::from_millis;
        // All answer after 25 ms: more each time.
        let (parallel, _) = gate();
        let mut now = Instant::now();
        for expected in [5, 10, 20, 40, 80, 160] {
            let mut open = Vec::new();
            while let Ok(opening) = parallel.enter(0, now) {
                open.push(opening);
            }
            assert_eq!(open.len(), expected);
            now += ms(25);
            open.into_iter().for_each(|opening| opening.answered(now));
        }
        // One after the other, 25 ms each: what waits is never more than its queue and the one it works on.
        for service in [Duration::from_micros(50), ms(1), ms(3), ms(25)] {
            let (serial, _) = gate();
            let mut open = VecDeque::new();
            for _ in 0..5000 {
                while let Ok(opening) = serial.enter(0, now) {
                    open.push_back(opening);
                }
                assert!(open.len() <= AT_FIRST, "{} at {service:?}", open.len());
                now += service;
                open.pop_front().unwrap().answered(now);
            }
            assert_eq!(open.len(), 4, "5 at a time, as at first");
        }
    }
}
