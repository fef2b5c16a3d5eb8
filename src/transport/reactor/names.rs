//! One look-up a name: the first request to a new origin goes ahead, the others wait until its name is known.
//!
//! libcurl starts a look-up for each transfer that finds no open connection and no result: 200 cold transfers to one
//! name made 40 `getaddrinfo` calls. The results are shared by all threads of a client (`sys::curl::Share`).
//!
//! libcurl asks for both address families and may connect by the first answer. A reply that came that way lets the
//! others go on as well: a resolver that is slow about one family holds up nobody.

use crate::endpoint::Origin;
use crate::error::Error;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// A thread that has put requests for an origin aside.
pub type Waiting = usize;

enum State {
    /// One request is on its way; these threads wait for it.
    Asked(Vec<Waiting>),
    /// Nothing to wait for.
    Known,
}

/// Tells threads what became of a look-up.
pub trait Tell: Send + Sync {
    /// Requests for `origin` may go on; or fail, all of them, as the one did that looked its name up.
    fn tell(&self, member: Waiting, origin: &Origin, failure: Option<&Error>);
}

/// The origins that a client has met.
#[derive(Default)]
pub struct Names(Mutex<HashMap<Origin, State>>);

/// What a request for an origin may do.
pub enum Entry {
    /// Go ahead.
    Go,
    /// Go ahead, and say what came of it.
    First(Lookup),
    /// Wait until the thread is told.
    Wait,
}

/// The one request that looks a name up. Dropped without a word, it lets the next one try.
pub struct Lookup {
    names: Arc<Names>,
    tell: Arc<dyn Tell>,
    origin: Origin,
    told: bool,
}

impl Names {
    /// What a request of thread `member` for `origin` may do.
    pub fn enter(self: &Arc<Self>, origin: &Origin, member: Waiting, tell: &Arc<dyn Tell>) -> Entry {
        let mut names = self.0.lock();
        match names.get_mut(origin) {
            Some(State::Known) => Entry::Go,
            Some(State::Asked(waiting)) => {
                if !waiting.contains(&member) {
                    waiting.push(member);
                }
                Entry::Wait
            }
            None => {
                names.insert(origin.clone(), State::Asked(Vec::new()));
                Entry::First(Lookup { names: self.clone(), tell: tell.clone(), origin: origin.clone(), told: false })
            }
        }
    }
}

impl Lookup {
    /// The name is known.
    pub fn known(mut self) {
        self.end(Some(State::Known), None);
    }

    /// The look-up failed: whoever waits for it fails as well, instead of looking the name up one after the other.
    pub fn failed(mut self, error: &Error) {
        self.end(None, Some(error));
    }

    fn end(&mut self, state: Option<State>, failure: Option<&Error>) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let before = {
            let mut names = self.names.0.lock();
            match state {
                Some(state) => names.insert(self.origin.clone(), state),
                None => names.remove(&self.origin),
            }
        };
        if let Some(State::Asked(waiting)) = before {
            waiting.into_iter().for_each(|member| self.tell.tell(member, &self.origin, failure));
        }
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.end(None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[derive(Default)]
    struct Told(Mutex<Vec<(Waiting, bool)>>);
    impl Tell for Told {
        fn tell(&self, member: Waiting, _: &Origin, failure: Option<&Error>) {
            self.0.lock().push((member, failure.is_some()));
        }
    }

    fn origin() -> Origin {
        Origin::new("http".into(), "h".into(), "80".into(), true)
    }

    fn bench() -> (Arc<Names>, Arc<Told>, Arc<dyn Tell>) {
        let told = Arc::<Told>::default();
        (Arc::default(), told.clone(), told)
    }

    #[test]
    fn the_first_goes_and_the_others_wait_until_the_name_is_known() {
        let (names, told, tell) = bench();
        let Entry::First(lookup) = names.enter(&origin(), 0, &tell) else { panic!("the first must go") };
        for member in [0, 1, 1] {
            assert!(matches!(names.enter(&origin(), member, &tell), Entry::Wait));
        }
        lookup.known();
        assert_eq!(*told.0.lock(), [(0, false), (1, false)], "each thread once");
        assert!(matches!(names.enter(&origin(), 1, &tell), Entry::Go));
    }

    #[test]
    fn a_failure_is_everybodys_and_the_next_one_asks_again() {
        let (names, told, tell) = bench();
        let Entry::First(lookup) = names.enter(&origin(), 0, &tell) else { panic!("the first must go") };
        assert!(matches!(names.enter(&origin(), 3, &tell), Entry::Wait));
        lookup.failed(&Error::new(ErrorKind::Connection, "no such name"));
        assert_eq!(*told.0.lock(), [(3, true)]);
        assert!(matches!(names.enter(&origin(), 3, &tell), Entry::First(_)));
    }

    #[test]
    fn one_that_is_given_up_lets_the_next_one_try() {
        let (names, told, tell) = bench();
        let first = names.enter(&origin(), 0, &tell);
        assert!(matches!(names.enter(&origin(), 1, &tell), Entry::Wait));
        drop(first);
        assert_eq!(*told.0.lock(), [(1, false)]);
        assert!(matches!(names.enter(&origin(), 1, &tell), Entry::First(_)));
    }
}
