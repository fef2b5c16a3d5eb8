//! What waits to start, in turns: each submission is a lane of its own, so that a huge one holds nobody up for long.
//!
//! Within a lane and among lanes that are short the order is that of submission. A lane that has had its turn goes behind the
//! others.

use std::collections::VecDeque;
use std::vec::IntoIter;

/// Requests of one turn, at most. At 60,000 small ones a second it is over in a millisecond.
const TURN_REQUESTS: usize = 64;
/// And bytes, but always one request. Four requests of the default size: those of one read still come together.
const TURN_BYTES: u64 = 16 << 20;

/// What can wait in a lane.
pub trait Weigh {
    /// Bytes that it will move.
    fn weight(&self) -> u64;
}

/// A queue of lanes.
pub struct Lanes<T> {
    /// What has started before, or was taken out by mistake: before everything else.
    urgent: VecDeque<T>,
    lanes: VecDeque<IntoIter<T>>,
    len: usize,
    /// What the lane at the front has had of its turn.
    requests: usize,
    bytes: u64,
    /// What came first has had so many since a lane had its turn.
    urgent_run: usize,
}

impl<T> Default for Lanes<T> {
    fn default() -> Lanes<T> {
        Lanes { urgent: VecDeque::new(), lanes: VecDeque::new(), len: 0, requests: 0, bytes: 0, urgent_run: 0 }
    }
}

impl<T: Weigh> Lanes<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A lane more, behind the others.
    pub fn push(&mut self, lane: Vec<T>) {
        if !lane.is_empty() {
            self.len += lane.len();
            self.lanes.push_back(lane.into_iter());
        }
    }

    /// Before everything.
    pub fn push_first(&mut self, one: T) {
        self.urgent.push_front(one);
        self.len += 1;
    }

    /// Lanes, what comes before them counted one by one.
    pub fn lanes(&self) -> usize {
        self.urgent.len() + self.lanes.len()
    }

    /// Whether what came first is next. It has turns, too: retries that are due at once hold up nobody for long.
    fn is_urgent(&self) -> bool {
        !self.urgent.is_empty() && (self.urgent_run < TURN_REQUESTS || self.lanes.is_empty())
    }

    /// What [`Lanes::pop`] will give.
    pub fn front(&self) -> Option<&T> {
        if self.is_urgent() { self.urgent.front() } else { self.lanes.front()?.as_slice().first() }
    }

    /// What is at the front is held up: it goes behind the others, and keeps its order.
    pub fn rotate(&mut self) {
        if self.is_urgent() {
            self.lanes.extend(self.urgent.pop_front().map(|one| vec![one].into_iter()));
        } else {
            self.turn_is_over();
            self.lanes.rotate_left(usize::from(!self.lanes.is_empty()));
        }
    }

    fn turn_is_over(&mut self) {
        (self.requests, self.bytes, self.urgent_run) = (0, 0, 0);
    }

    /// The next in turn.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_if(|_| true)
    }

    /// The next in turn whose lane is not held up: of each, `may` is asked about the first alone.
    pub fn pop_if(&mut self, may: impl Fn(&T) -> bool) -> Option<T> {
        if self.is_urgent() {
            if let Some(at) = self.urgent.iter().position(&may) {
                self.len -= 1;
                self.urgent_run += 1;
                return self.urgent.remove(at);
            }
        }
        let Some(one) = self.pop_lane(&may) else {
            let at = self.urgent.iter().position(&may)?;
            self.len -= 1;
            return self.urgent.remove(at);
        };
        Some(one)
    }

    fn pop_lane(&mut self, may: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.lanes.iter().position(|lane| lane.as_slice().first().is_some_and(&may))?;
        let one = self.lanes[at].next()?;
        self.len -= 1;
        let left = self.lanes[at].len() > 0;
        let over = if at == 0 {
            self.requests += 1;
            self.bytes = self.bytes.saturating_add(one.weight());
            self.requests >= TURN_REQUESTS || self.bytes >= TURN_BYTES
        } else {
            // It has passed those that are held up, and its turn is this.
            true
        };
        if !left || over {
            let lane = self.lanes.remove(at);
            self.lanes.extend(lane.filter(|_| left));
            if at == 0 {
                self.turn_is_over();
            }
        }
        Some(one)
    }

    /// Whether there is one of this kind.
    pub fn any(&self, is: impl Fn(&T) -> bool) -> bool {
        self.urgent.iter().any(&is) || self.lanes.iter().any(|lane| lane.as_slice().iter().any(&is))
    }

    /// Takes those of this kind out.
    pub fn extract(&mut self, is: impl Fn(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        if !self.any(&is) {
            return out;
        }
        let mut sift = |from: &mut dyn Iterator<Item = T>| -> Vec<T> {
            let (over, stay): (Vec<T>, Vec<T>) = from.partition(&is);
            out.extend(over);
            stay
        };
        self.urgent = sift(&mut std::mem::take(&mut self.urgent).into_iter()).into();
        for mut lane in std::mem::take(&mut self.lanes) {
            let stay = if lane.as_slice().iter().any(&is) { sift(&mut lane).into_iter() } else { lane };
            if stay.len() > 0 {
                self.lanes.push_back(stay);
            }
        }
        self.len -= out.len();
        out
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<T> {
        self.len = 0;
        self.urgent.drain(..).chain(std::mem::take(&mut self.lanes).into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for (char, u64) {
        fn weight(&self) -> u64 {
            self.1
        }
    }

    fn order(lanes: &mut Lanes<(char, u64)>) -> String {
        std::iter::from_fn(|| {
            let front = lanes.front().copied();
            let next = lanes.pop();
            assert_eq!(front, next);
            next
        })
        .map(|(name, _)| name)
        .collect()
    }

    #[test]
    fn short_lanes_go_in_the_order_in_which_they_came() {
        let mut lanes = Lanes::default();
        lanes.push(vec![('a', 1), ('b', 1)]);
        lanes.push(vec![]);
        lanes.push(vec![('c', 1)]);
        lanes.push_first(('d', 1));
        lanes.push_first(('e', 1));
        assert_eq!((lanes.len(), order(&mut lanes).as_str(), lanes.is_empty()), (5, "edabc", true));
    }

    #[test]
    fn a_long_lane_holds_nobody_up_for_longer_than_a_turn() {
        let mut lanes = Lanes::default();
        lanes.push(vec![('a', 1); 200]);
        lanes.push(vec![('b', 1)]);
        lanes.push(vec![('c', 1); 70]);
        let order = order(&mut lanes);
        let runs = |text: &str| -> Vec<(char, usize)> {
            let mut runs: Vec<(char, usize)> = Vec::new();
            for name in text.chars() {
                match runs.last_mut() {
                    Some(run) if run.0 == name => run.1 += 1,
                    _ => runs.push((name, 1)),
                }
            }
            runs
        };
        assert_eq!(runs(&order), [('a', 64), ('b', 1), ('c', 64), ('a', 64), ('c', 6), ('a', 72)]);
    }

    #[test]
    fn large_requests_have_shorter_turns_and_every_lane_gets_one() {
        let mut lanes = Lanes::default();
        lanes.push(vec![('a', 8 << 20); 4]);
        lanes.push(vec![('b', u64::MAX); 2]);
        lanes.push(vec![('c', 1)]);
        assert_eq!(order(&mut lanes), "aabcaab");
    }

    #[test]
    fn who_is_held_up_is_passed_by_and_the_others_take_turns() {
        let mut lanes = Lanes::default();
        lanes.push(vec![('a', 1); 3]);
        lanes.push(vec![('b', 1); 2]);
        lanes.push(vec![('c', 1); 2]);
        let mut next = |held: char| lanes.pop_if(|one| one.0 != held).map(|one| one.0);
        assert_eq!(
            [next('a'), next('a'), next('a'), next('a'), next('a')].map(Option::unwrap_or_default),
            ['b', 'c', 'b', 'c', '\0']
        );
        assert_eq!([next('x'), next('x'), next('x'), next('x')].map(Option::unwrap_or_default), ['a', 'a', 'a', '\0']);
    }

    #[test]
    fn what_is_taken_out_leaves_the_others_in_order() {
        let mut lanes = Lanes::default();
        lanes.push(vec![('a', 1), ('x', 1), ('b', 1)]);
        lanes.push(vec![('x', 1)]);
        lanes.push(vec![('c', 1)]);
        lanes.push_first(('x', 1));
        assert_eq!(lanes.extract(|one| one.0 == 'x').len(), 3);
        assert!(lanes.extract(|one| one.0 == 'x').is_empty());
        assert_eq!((lanes.len(), lanes.any(|one| one.0 == 'c')), (3, true));
        assert_eq!(order(&mut lanes), "abc");
        lanes.push(vec![('a', 1), ('b', 1)]);
        lanes.push_first(('c', 1));
        assert_eq!((lanes.drain().len(), lanes.len(), lanes.pop()), (3, 0, None));
    }

    #[test]
    fn what_comes_first_has_turns_as_well() {
        let mut lanes = Lanes::default();
        lanes.push(vec![('l', 1); 3]);
        lanes.push(vec![('m', 1)]);
        (0..3 * TURN_REQUESTS).for_each(|_| lanes.push_first(('u', 1)));
        let order = order(&mut lanes);
        assert_eq!(order.len(), 3 * TURN_REQUESTS + 4);
        assert_eq!(order.find('l'), Some(TURN_REQUESTS), "{order}");
        assert_eq!(order.find('m'), Some(2 * TURN_REQUESTS + 3), "{order}");
    }

    #[test]
    fn what_is_held_up_goes_behind_the_others() {
        let mut lanes = Lanes::default();
        lanes.push(vec![('a', 1), ('b', 1)]);
        lanes.push(vec![('c', 1)]);
        lanes.push_first(('u', 1));
        assert_eq!(lanes.lanes(), 3);
        lanes.rotate();
        lanes.rotate();
        assert_eq!((lanes.lanes(), lanes.len()), (3, 4));
        assert_eq!(order(&mut lanes), "cuab");
        lanes.rotate();
        assert!(lanes.is_empty());
    }
}
