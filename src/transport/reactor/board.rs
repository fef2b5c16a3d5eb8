//! Where requests wait that any of several threads may take.

use crate::sync::Mutex;
use crate::transport::Transfer;
use crate::transport::lanes::{Lanes, Weigh};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Requests that any of several threads may take: the thread pool's, and those of reactors that share what there is.
pub struct Board<T = Transfer> {
    state: Mutex<BoardState<T>>,
    /// Somebody is to look through the queue: one thread, not each of them.
    sweep: AtomicBool,
}

/// Looking through everything that waits takes as long as there is of it, and each operation that ends early asks for it.
/// At most a tenth of the time goes into it.
#[derive(Default)]
pub struct Pace {
    next: Option<Instant>,
}

impl Pace {
    /// When the next look may begin, if that is later than now.
    pub fn wait(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|&next| next > now)
    }

    /// A look that began then is over now.
    pub fn looked(&mut self, began: Instant) {
        let now = Instant::now();
        self.next = Some(now + 9 * now.saturating_duration_since(began));
    }
}

struct BoardState<T> {
    queue: Lanes<T>,
    pace: Pace,
    /// Threads that found nothing and have nothing, most recent last: that one's caches are the warmest.
    idle: Vec<usize>,
    closed: bool,
}

impl<T> BoardState<T> {
    /// `member` came for work, and found some or did not.
    fn came(&mut self, member: usize, found: bool) {
        let listed = self.idle.iter().position(|&idle| idle == member);
        match (found, listed) {
            (false, None) => self.idle.push(member),
            // It was up for another reason, a sweep say, and came first. Left in the list, it would be woken in place of
            // one that is idle, and a request would wait although there is a thread for it.
            (true, Some(at)) => drop(self.idle.remove(at)),
            (false, Some(_)) | (true, None) => {}
        }
    }
}

impl<T> Default for Board<T> {
    fn default() -> Board<T> {
        let state = BoardState { queue: Lanes::default(), pace: Pace::default(), idle: Vec::new(), closed: false };
        Board { state: Mutex::new(state), sweep: AtomicBool::new(false) }
    }
}

impl<T: Weigh> Board<T> {
    /// Adds requests; returns the threads to wake, or the batch itself once it is closed.
    pub(super) fn push(&self, batch: Vec<T>, first: bool) -> Result<Vec<usize>, Vec<T>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(batch);
        }
        let n = batch.len();
        if first {
            batch.into_iter().rev().for_each(|transfer| state.queue.push_first(transfer));
        } else {
            state.queue.push(batch);
        }
        let left = state.idle.len().saturating_sub(n);
        Ok(state.idle.split_off(left))
    }

    /// Refuses whatever comes after this, and returns what came before.
    pub fn close(&self) -> Vec<T> {
        let mut state = self.state.lock();
        state.closed = true;
        state.queue.drain()
    }

    /// What `of` says of the first request.
    pub fn first<R>(&self, of: impl FnOnce(&T) -> R) -> Option<R> {
        self.state.lock().queue.front().map(of)
    }

    /// What is first is held up: it goes behind the others.
    pub fn rotate(&self) {
        self.state.lock().queue.rotate();
    }

    /// How many there are to choose from by [`Board::rotate`].
    pub fn lanes(&self) -> usize {
        self.state.lock().queue.lanes()
    }

    /// A request for `member`; `None`, and it is woken when there is one.
    pub fn take(&self, member: usize) -> Option<T> {
        let mut state = self.state.lock();
        let one = state.queue.pop();
        state.came(member, one.is_some());
        one
    }

    /// As many requests for `member` as `share` says of so many. None, and it is woken when there is one.
    pub fn take_some(&self, member: usize, share: impl FnOnce(usize) -> usize) -> Vec<T> {
        let mut state = self.state.lock();
        let n = share(state.queue.len()).min(state.queue.len());
        let some: Vec<T> = std::iter::from_fn(|| state.queue.pop()).take(n).collect();
        state.came(member, n > 0);
        some
    }

    /// The next request for `member` that it may take. None, and it is woken when there is another.
    pub fn take_first(&self, member: usize, may: impl Fn(&T) -> bool) -> Option<T> {
        let mut state = self.state.lock();
        let first = state.queue.pop_if(may);
        state.came(member, first.is_some());
        first
    }

    /// `member` takes nothing now, and comes back by itself when it has room. Whether there is something, and who is to be woken
    /// for it in its place.
    pub(super) fn pass_on(&self, member: usize) -> (bool, Option<usize>) {
        let mut state = self.state.lock();
        state.idle.retain(|&idle| idle != member);
        if state.queue.is_empty() { (false, None) } else { (true, state.idle.pop()) }
    }

    /// Some operation is over: see [`Board::sweep`].
    pub(super) fn ask_to_sweep(&self) {
        self.sweep.store(true, Ordering::Release);
    }

    /// Takes out those for which `over` is true, unless another thread has looked since it was asked for. If it is too
    /// early to look: when it will not be.
    pub fn sweep(&self, over: impl Fn(&T) -> bool) -> Result<Vec<T>, Instant> {
        if !self.sweep.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        let mut state = self.state.lock();
        let began = Instant::now();
        if let Some(next) = state.pace.wait(began) {
            return Err(next);
        }
        // Before the look: whoever asks during it is served by the next.
        self.sweep.store(false, Ordering::Release);
        let out = state.queue.extract(over);
        state.pace.looked(began);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for char {
        fn weight(&self) -> u64 {
            1
        }
    }

    #[test]
    fn a_thread_that_found_work_by_itself_is_not_woken_in_place_of_an_idle_one() {
        let board = Board::default();
        assert!([0, 1, 2].map(|member| board.take(member)) == [None; 3]);
        assert_eq!(board.push(vec!['a'], false), Ok(vec![2]));
        // A sweep has woken 1, and it is faster than 2.
        assert_eq!((board.take(1), board.take(2)), (Some('a'), None));
        assert_eq!(board.push(vec!['b', 'c'], false), Ok(vec![0, 2]), "1 works, and cannot take anything");
    }
}
