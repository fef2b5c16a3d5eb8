//! New connections, a few at a time.
//!
//! A server accepts connections from a queue, and drops what does not fit: then the client asks again a second later.
//! Python's http.server has room for 6; 256 connections at once lost most of theirs.

use super::Wake;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// New connections at a time at first: one less than the shortest listen queue in use (5, which Linux makes 6) holds.
const AT_FIRST: usize = 5;
/// And at most.
const AT_MOST: usize = 1024;
/// How many times as many, each time a server has shown that it works on all of them at once.
const MORE: usize = 8;
/// From one to the next, where there are more than at first: what is accepted in turn must find room in the listen queue.
/// A thread that Python's ThreadingHTTPServer starts for each takes 0.1 to 0.2 ms; 250 connections take 60 ms.
const APART: Duration = Duration::from_micros(250);
/// What came late may catch up by so much: a queue of 5 holds 4, and timers are no finer.
const BURST: Duration = Duration::from_millis(1);
/// A connection is new until its server says something, or for so long: then waiting costs as much as what it avoids.
const NEW_FOR: Duration = Duration::from_millis(250);
/// Where answers come sooner, a few at a time are hundreds a second, and little is to be won by more.
const WORTH_MORE: Duration = Duration::from_millis(20);
/// Servers to know something about; beyond, those without new connections are forgotten.
const SERVERS: usize = 256;

struct New {
    id: u64,
    since: Instant,
    /// The last that could be opened: as many were new as may be.
    last: bool,
}

/// What is known about one server.
struct Server {
    new: VecDeque<New>,
    next: u64,
    at_a_time: usize,
    /// When the next may be opened.
    next_at: Option<Instant>,
    level: Level,
    /// It said nothing for [`NEW_FOR`]: how many there were at a time before.
    before_silence: Option<usize>,
}

/// What is known about it at this many connections at a time. One that works on all of them at once answers the last
/// as soon as the first. One that takes turns does not, and its queue is all it has.
struct Level {
    /// Openings from this one on belong to it.
    first: u64,
    /// How soon the server answers: the quickest of these first few, then the last of those that were fewer at a time.
    soon: Duration,
    first_few: std::ops::Range<u64>,
    /// How many there were before.
    fewer: Option<usize>,
    /// More is not better.
    last: bool,
    /// It answered the last of as many as at first as soon as the first, after so long: a burst, which may be all that a server
    /// had to say that takes turns and was held up. More at a time would prove it, but do not fit into its queue.
    burst: Option<Duration>,
}

#[derive(Default)]
struct State {
    servers: HashMap<u64, Server>,
    /// Members that found it closed.
    waiting: Vec<usize>,
}

/// Lets in who needs a new connection.
pub struct ConnectionGate {
    state: Mutex<State>,
    /// Changes whenever somebody may be let in who was not.
    changes: AtomicUsize,
    members: Vec<Arc<dyn Wake>>,
}

/// A connection that is new.
pub struct Opening {
    gate: Arc<ConnectionGate>,
    server: u64,
    id: u64,
}

impl ConnectionGate {
    /// For these members, named by their index from now on.
    pub fn new(members: Vec<Arc<dyn Wake>>) -> Arc<ConnectionGate> {
        Arc::new(ConnectionGate { state: Mutex::default(), changes: AtomicUsize::new(0), members })
    }

    /// Lets `member` open a connection to `server`.
    ///
    /// # Errors
    /// When to ask again; it is woken if that is possible earlier.
    pub fn enter(self: &Arc<Self>, server: u64, member: usize, now: Instant) -> Result<Opening, Instant> {
        let mut state = self.state.lock();
        if state.servers.len() >= SERVERS && !state.servers.contains_key(&server) {
            state.servers.retain(|_, server| !server.new.is_empty());
        }
        let entered = state.servers.entry(server).or_insert_with(Server::new).enter(now);
        if entered.is_err() && !state.waiting.contains(&member) {
            state.waiting.push(member);
        }
        entered.map(|id| Opening { gate: self.clone(), server, id })
    }

    /// Changes whenever asking again may be worth it before its time.
    pub fn changes(&self) -> usize {
        self.changes.load(Ordering::Acquire)
    }

    /// A connection to `server` was asked for more than once: its queue was full, or the network lost the question.
    pub fn overrun(&self, server: u64) {
        if let Some(server) = self.state.lock().servers.get_mut(&server) {
            server.at_a_time = (server.at_a_time / 2).max(AT_FIRST);
            server.before_silence = None;
            server.level.last = true;
        }
    }
}

impl Server {
    fn new() -> Server {
        Server {
            new: VecDeque::new(),
            next: 0,
            at_a_time: AT_FIRST,
            next_at: None,
            level: Level::from(0),
            before_silence: None,
        }
    }

    fn enter(&mut self, now: Instant) -> Result<u64, Instant> {
        let mut expired = false;
        while self.new.front().is_some_and(|new| now.saturating_duration_since(new.since) >= NEW_FOR) {
            self.new.pop_front();
            expired = true;
        }
        if expired {
            // The server is slow to answer, or dead. Neither must hold up everything else.
            self.before_silence.get_or_insert(self.at_a_time);
            self.go_on_with(self.at_a_time * 2);
        }
        if let Some(at) = self.in_doubt(now) {
            return Err(at);
        }
        if self.new.len() >= self.at_a_time {
            return Err(self.new.front().map_or(now, |new| new.since) + NEW_FOR);
        }
        if self.at_a_time > AT_FIRST {
            let next_at = self.next_at.map_or(now, |at| at.max(now.checked_sub(BURST).unwrap_or(now)));
            if next_at > now {
                return Err(next_at);
            }
            self.next_at = Some(next_at + APART);
        }
        let id = self.next;
        self.next += 1;
        let last = self.new.len() + 1 == self.at_a_time;
        self.new.push_back(New { id, since: now, last });
        Ok(id)
    }

    /// A burst of answers is believed if nothing is said for a while to those that are opened after it. When to ask again, if
    /// nothing may be opened until that is found out.
    fn in_doubt(&mut self, now: Instant) -> Option<Instant> {
        if self.at_a_time > AT_FIRST || self.level.last {
            return None;
        }
        let first = self.level.first;
        let Some(burst) = self.level.burst else {
            // The rest of a burst may still come, soon. What is opened meanwhile would be neither of it nor after it.
            let begun = (WORTH_MORE..Duration::MAX).contains(&self.level.soon);
            let last = self.new.iter().find(|new| begun && new.last && new.id >= first)?;
            return Some(last.since + self.level.as_soon()).filter(|&late| late > now);
        };
        let older = self.new.iter().take_while(|new| new.id < first).count();
        let Some(after) = self.new.get(older) else {
            return self.new.front().filter(|_| older > 1).map(|new| new.since + NEW_FOR);
        };
        let believed = after.since + Level::silence_after(burst);
        if believed <= now {
            self.more(burst);
            return None;
        }
        (self.new.len() >= self.at_a_time).then_some(believed)
    }

    /// The server works on all of them at once, and answers so soon.
    fn more(&mut self, soon: Duration) {
        self.level.soon = soon;
        self.level.burst = None;
        self.level.first_few = self.next..self.next;
        self.go_on_with(self.at_a_time * MORE);
    }

    fn go_on_with(&mut self, at_a_time: usize) {
        self.level.fewer = Some(self.at_a_time);
        self.level.first = self.next;
        self.at_a_time = at_a_time.min(AT_MOST);
    }

    fn answered(&mut self, id: u64, now: Instant) {
        let Some(new) = self.new.iter().find(|new| new.id == id) else { return };
        let took = now.saturating_duration_since(new.since);
        if let Some(before) = self.before_silence.take_if(|_| id >= self.level.first) {
            // It was busy with something else for a moment, and goes on as before: what was learned then, its silence,
            // says nothing about it.
            self.at_a_time = before;
            self.level = Level::from(self.next);
            return;
        }
        if self.level.first_few.contains(&id) {
            self.level.soon = self.level.soon.min(took);
        }
        if self.level.last || id < self.level.first {
            return;
        }
        if let Some(burst) = self.level.burst.take() {
            // If it was soon, that was none: it had been held up. If not, nobody wanted a connection when it was believed.
            if took >= Level::silence_after(burst) {
                self.more(burst);
            }
            return;
        }
        if !new.last || took < WORTH_MORE {
            return;
        }
        if took <= self.level.as_soon() {
            if self.at_a_time > AT_FIRST {
                self.more(took);
            } else {
                self.level = Level { burst: Some(took), ..Level::from(self.next) };
            }
        } else {
            self.at_a_time = self.level.fewer.unwrap_or(self.at_a_time);
            self.level.last = true;
        }
    }
}

impl Level {
    /// Nothing is known but that openings from this one on belong to it.
    fn from(first: u64) -> Level {
        let first_few = first..first + AT_FIRST as u64;
        Level { first, soon: Duration::MAX, first_few, fewer: None, last: false, burst: None }
    }

    /// What counts as soon for the last of them: half of what taking turns would cost if they were twice as many.
    fn as_soon(&self) -> Duration {
        self.soon.saturating_mul(3) / 2
    }

    /// How long a server says nothing after such a burst if it is to be believed. One that takes turns worked on five in that
    /// time, and on four of them in a third of it: on each in a twelfth at most, and what is new does not wait for more than two.
    fn silence_after(burst: Duration) -> Duration {
        burst / 4
    }
}

impl Opening {
    /// The server has said something.
    pub fn answered(self, now: Instant) {
        if let Some(server) = self.gate.state.lock().servers.get_mut(&self.server) {
            server.answered(self.id, now);
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let woken = {
            let mut state = self.gate.state.lock();
            let state = &mut *state;
            let Some(server) = state.servers.get_mut(&self.server) else { return };
            let before = server.new.len();
            server.new.retain(|new| new.id != self.id);
            // One that was no longer new made room already.
            if server.new.len() < before { std::mem::take(&mut state.waiting) } else { Vec::new() }
        };
        self.gate.changes.fetch_add(1, Ordering::Release);
        for member in woken {
            self.gate.members[member].wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const SERVER: u64 = 7;

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
        let mut open: Vec<Opening> = (0..AT_FIRST).map(|_| gate.enter(SERVER, 0, now).ok().unwrap()).collect();
        assert_eq!(gate.enter(SERVER, 1, now).err(), Some(now + NEW_FOR));
        assert_eq!(gate.enter(SERVER, 1, now).err(), Some(now + NEW_FOR));
        assert_eq!(counted[1].0.load(SeqCst), 0);
        open.pop();
        assert_eq!((counted[0].0.load(SeqCst), counted[1].0.load(SeqCst)), (0, 1), "who waited is woken, once");
        let again = gate.enter(SERVER, 1, now).ok().unwrap();
        assert!(gate.enter(SERVER, 0, now).is_err());
        drop(again);
    }

    #[test]
    fn a_server_that_says_nothing_holds_nobody_up_for_long() {
        let (gate, counted) = gate();
        let now = Instant::now();
        let silent: Vec<Opening> = (0..AT_FIRST).map(|_| gate.enter(SERVER, 0, now).ok().unwrap()).collect();
        assert!(gate.enter(SERVER, 1, now + NEW_FOR / 2).is_err());
        let mut later = now + NEW_FOR;
        let more = all(&gate, &mut later);
        assert_eq!(more.len(), AT_FIRST * 2);
        assert!(gate.enter(SERVER, 1, later).is_err());
        let before = counted[1].0.load(SeqCst);
        drop(silent);
        assert_eq!(counted[1].0.load(SeqCst), before, "they were not counted any more");
        assert!(gate.enter(SERVER, 1, later).is_err());
        drop(more);
        assert!(gate.enter(SERVER, 1, later + APART).is_ok());
    }

    /// As many as may be opened by `now` or so.
    fn all(gate: &Arc<ConnectionGate>, now: &mut Instant) -> Vec<Opening> {
        let mut open = Vec::new();
        loop {
            match gate.enter(SERVER, 0, *now) {
                Ok(opening) => open.push(opening),
                Err(at) if at <= *now + APART => *now = at,
                Err(_) => return open,
            }
        }
    }

    /// A server with a thread for each connection, whose listen queue holds 6, answers after `latency` and accepts one
    /// connection each `accepts`. When each of `count` was opened; panics if one does not fit into the queue.
    fn opened_at_a_server_with_threads(count: usize, latency: Duration, accepts: Duration) -> Vec<Duration> {
        const QUEUE: usize = 6;
        let (gate, _) = gate();
        let begin = Instant::now();
        let (mut queue, mut accepted) = (VecDeque::new(), VecDeque::<(Instant, Opening)>::new());
        let (mut now, mut may_accept, mut opened) = (begin, begin, Vec::new());
        while opened.len() < count {
            while !queue.is_empty() && may_accept <= now {
                accepted.push_back((now + latency, queue.pop_front().unwrap()));
                may_accept = now + accepts;
            }
            while accepted.front().is_some_and(|(answer, _)| *answer <= now) {
                accepted.pop_front().unwrap().1.answered(now);
            }
            while opened.len() < count {
                let Ok(opening) = gate.enter(SERVER, 0, now) else { break };
                opened.push(now - begin);
                queue.push_back(opening);
                assert!(queue.len() <= QUEUE, "{} opened, {:?}", opened.len(), now - begin);
            }
            // No timer is finer.
            now += Duration::from_micros(50);
        }
        opened
    }

    #[test]
    fn a_server_that_works_on_all_at_once_gets_hundreds_soon_without_filling_a_short_listen_queue() {
        // To believe the first burst takes a quarter of an answer.
        for (latency, soon, hundreds) in [(25, 62, 109), (50, 119, 167), (100, 230, 280)] {
            for accepts in [0, 50, 100, 200] {
                let [latency, soon, hundreds] = [latency, soon, hundreds].map(Duration::from_millis);
                let opened = opened_at_a_server_with_threads(256, latency, Duration::from_micros(accepts));
                assert!(opened[63] < soon, "{latency:?}: {:?}", opened[63]);
                assert!(opened[255] < hundreds, "{latency:?}: {:?}", opened[255]);
            }
        }
    }

    #[test]
    fn a_server_that_answers_many_at_once_gets_more_and_one_that_takes_turns_does_not() {
        let ms = Duration::from_millis;
        // All answer after 25 ms: more, once that was no accident, and then each time.
        let (parallel, _) = gate();
        let mut now = Instant::now();
        for expected in [5, 5, 40] {
            let opened = now;
            let open = all(&parallel, &mut now);
            assert_eq!(open.len(), expected);
            assert!(now - opened <= APART * expected as u32, "{:?}", now - opened);
            now += ms(25);
            open.into_iter().for_each(|opening| opening.answered(now));
        }
        // One after the other, 25 ms each: what waits is never more than its queue and the one it works on.
        for service in [Duration::from_micros(50), ms(1), ms(3), ms(25)] {
            let (serial, _) = gate();
            let mut open = VecDeque::new();
            for _ in 0..5000 {
                while let Ok(opening) = serial.enter(SERVER, 0, now) {
                    open.push_back(opening);
                }
                assert!(open.len() <= AT_FIRST, "{} at {service:?}", open.len());
                now += service;
                open.pop_front().unwrap().answered(now);
            }
            assert_eq!(open.len(), 4, "5 at a time, as at first");
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum HeldUp {
        Server,
        Client,
    }

    /// Reads of a server that takes turns, `work` each, from a listen queue that holds 6, while one of the two sides does nothing
    /// from `from` on for `time`. How many connections did not fit into the queue.
    fn lost_by_one_that_takes_turns(work: Duration, who: HeldUp, from: Duration, time: Duration) -> usize {
        const QUEUE: usize = 6;
        // No timer is finer.
        let tick = (work / 10).max(Duration::from_micros(50));
        let (gate, _) = gate();
        let begin = Instant::now();
        let mut now = begin;
        let (mut queue, mut said, mut left, mut lost) = (VecDeque::new(), Vec::<Opening>::new(), work, 0);
        while now < begin + from + time + 60 * work {
            let held_up = (from..from + time).contains(&(now - begin)).then_some(who);
            if held_up != Some(HeldUp::Client) {
                // As a reactor does: it opens what it may, and then sees what has come.
                while let Ok(opening) = gate.enter(SERVER, 0, now) {
                    queue.push_back(opening);
                    // The first is being worked on.
                    lost += usize::from(queue.len() > QUEUE + 1);
                }
                said.drain(..).for_each(|opening| opening.answered(now));
            }
            if held_up != Some(HeldUp::Server) && !queue.is_empty() {
                left = left.saturating_sub(tick);
                if left.is_zero() {
                    said.extend(queue.pop_front());
                    left = work;
                }
            }
            now += tick;
        }
        lost
    }

    /// Then all its answers come together, like those of one that works on all of them at once.
    #[test]
    fn a_server_that_takes_turns_and_was_held_up_once_loses_no_connection() {
        for work in [50, 1000, 3000, 5000, 10_000, 15_000, 25_000].map(Duration::from_micros) {
            for from in [0, 1, 7, 100].map(Duration::from_millis) {
                // As long as it is not taken for dead.
                for time in (10..250).step_by(10).map(Duration::from_millis).filter(|&time| time + work * 6 < NEW_FOR) {
                    for who in [HeldUp::Server, HeldUp::Client] {
                        let lost = lost_by_one_that_takes_turns(work, who, from, time);
                        assert_eq!(lost, 0, "{work:?} each, the {who:?} held up for {time:?} after {from:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_servers_silence_says_nothing_about_another() {
        let (gate, _) = gate();
        let now = Instant::now();
        let _silent: Vec<Opening> = (0..AT_FIRST).map(|_| gate.enter(SERVER, 0, now).ok().unwrap()).collect();
        let mut later = now + NEW_FOR;
        let _more = all(&gate, &mut later);
        let other: Vec<Opening> = (0..AT_FIRST).map(|_| gate.enter(SERVER + 1, 1, later).ok().unwrap()).collect();
        assert!(gate.enter(SERVER + 1, 1, later).is_err());
        drop(other);
        assert!(gate.enter(SERVER + 1, 1, later).is_ok());
    }

    #[test]
    fn a_server_that_was_busy_for_a_moment_gets_no_more_than_before() {
        let (gate, _) = gate();
        let mut now = Instant::now();
        let busy: Vec<Opening> = (0..AT_FIRST).map(|_| gate.enter(SERVER, 0, now).ok().unwrap()).collect();
        now += NEW_FOR;
        let mut more = VecDeque::from(all(&gate, &mut now));
        assert_eq!(more.len(), AT_FIRST * 2);
        busy.into_iter().for_each(|opening| opening.answered(now));
        // It takes turns, 3 ms each.
        for _ in 0..1000 {
            now += Duration::from_millis(3);
            more.pop_front().unwrap().answered(now);
            while let Ok(opening) = gate.enter(SERVER, 0, now) {
                more.push_back(opening);
                assert!(more.len() <= AT_FIRST, "{}", more.len());
            }
        }
    }

    #[test]
    fn a_server_that_drops_connections_gets_fewer() {
        let (gate, _) = gate();
        let mut now = Instant::now();
        for expected in [5, 5, 40] {
            let open = all(&gate, &mut now);
            assert_eq!(open.len(), expected);
            now += Duration::from_millis(25);
            open.into_iter().for_each(|opening| opening.answered(now));
        }
        for expected in [160, 80, 40, 20, 10, 5, 5] {
            gate.overrun(SERVER);
            let open = all(&gate, &mut now);
            assert_eq!(open.len(), expected);
            now += Duration::from_millis(25);
            open.into_iter().for_each(|opening| opening.answered(now));
        }
    }
}
