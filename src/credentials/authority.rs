//! One secret that expires: kept, renewed in time, and waited for.
//!
//! Nobody blocks here. Whoever finds nothing usable is told when there is, as with host names
//! (`transport::reactor::names`); the question itself is asked on a thread of its own, one at a time.

use super::Grant;
use crate::error::{Error, ErrorKind, Result};
use crate::exit::{self, Threads};
use crate::sync::Mutex;
use crate::thread_group::ThreadGroup;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Renewal begins this long before the end, or a quarter of the life where that is shorter.
const LEAD: Duration = Duration::from_secs(300);
/// What comes expired is used for this long: the instance metadata service hands out what it has while it cannot renew.
const EXTENSION: Duration = Duration::from_secs(60);
/// After a renewal that failed while the old secret still holds, the next one waits this long.
const PAUSE: Duration = Duration::from_secs(10);

/// Who knows the secret. Asked on a thread where blocking is fine.
pub trait Provide: Send + Sync {
    /// The secret. Gives up soon once `stop` says so.
    ///
    /// # Errors
    /// Why there is none; what was looked for and not found is no error but [`super::Held::Nothing`].
    fn fetch(&self, stop: &dyn Fn() -> bool) -> Result<Grant>;
}

/// Who is told what became of a wait: a thread `member` that put requests aside.
pub trait Granted: Send + Sync {
    /// Requests that wait for the authority of this number may go on, or fail.
    fn granted(&self, member: usize, authority: usize, failure: Option<&Error>);
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Go ahead.
    Go,
    /// Wait until the thread is told.
    Wait,
}

/// The threads that ask, of one client.
#[derive(Default)]
pub struct Renewals {
    stop: AtomicBool,
    threads: ThreadGroup,
}

impl Renewals {
    /// None yet. Stopped when the process exits.
    pub fn new() -> Arc<Renewals> {
        let renewals = Arc::<Renewals>::default();
        exit::watch(renewals.clone());
        renewals
    }

    /// They end soon. Does not wait.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire) || exit::is_exiting()
    }

    fn spawn(self: &Arc<Self>, body: impl FnOnce() + Send + 'static) -> Result<()> {
        ThreadGroup::spawn(self, |renewals| &renewals.threads, "raskio-secrets", body)
    }
}

impl Threads for Renewals {
    fn abandon(&self) {
        self.stop();
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.threads.wait_ended(deadline)
    }
}

#[derive(Default)]
struct State {
    grant: Option<Arc<Grant>>,
    /// Counts the grants; 0: none yet.
    version: u64,
    /// When to ask for the next one; `None`: never.
    renew_at: Option<SystemTime>,
    /// When this one can no longer be used; `None`: never.
    good_until: Option<SystemTime>,
    /// A server said that it has expired, whatever it says itself.
    refused: bool,
    asking: bool,
    waiting: Vec<(usize, Arc<dyn Granted>)>,
}

impl State {
    fn is_usable(&self, now: SystemTime) -> bool {
        self.grant.is_some() && !self.refused && self.good_until.is_none_or(|until| now < until)
    }

    fn keep(&mut self, grant: Grant, now: SystemTime) {
        self.version += 1;
        self.refused = false;
        (self.renew_at, self.good_until) = match grant.expires {
            None => (None, None),
            Some(expires) => match expires.duration_since(now) {
                Ok(life) if !life.is_zero() => (Some(expires - LEAD.min(life / 4)), Some(expires)),
                _ => {
                    log::warn!(
                        target: "raskio",
                        "credentials that had expired were handed over; they are used for {} s, since a service that cannot \
                         renew them hands out what it has",
                        EXTENSION.as_secs()
                    );
                    (Some(now + EXTENSION / 2), Some(now + EXTENSION))
                }
            },
        };
        self.grant = Some(Arc::new(grant));
    }
}

/// Keeps one secret. Its number tells it apart from every other one of the process.
pub struct Authority {
    number: usize,
    provider: Box<dyn Provide>,
    renewals: Arc<Renewals>,
    state: Mutex<State>,
}

impl Authority {
    /// One that has not asked yet.
    pub fn new(provider: Box<dyn Provide>, renewals: Arc<Renewals>) -> Arc<Authority> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Authority { number, provider, renewals, state: Mutex::default() })
    }

    /// Tells it apart.
    pub fn number(&self) -> usize {
        self.number
    }

    /// What a request of thread `member` may do now. Never blocks; begins a renewal where one is due.
    ///
    /// # Errors
    /// IO when the system has no thread for the question.
    pub fn enter(self: &Arc<Self>, member: usize, tell: &Arc<dyn Granted>) -> Result<Entry> {
        let now = SystemTime::now();
        let (entry, ask) = {
            let mut state = self.state.lock();
            let usable = state.is_usable(now);
            let due = !usable || state.renew_at.is_some_and(|at| now >= at);
            if !usable && !state.waiting.iter().any(|(other, who)| *other == member && Arc::ptr_eq(who, tell)) {
                state.waiting.push((member, tell.clone()));
            }
            let ask = due && !state.asking;
            state.asking |= ask;
            (if usable { Entry::Go } else { Entry::Wait }, ask)
        };
        if ask {
            let own = self.clone();
            if let Err(error) = self.renewals.spawn(move || own.ask()) {
                self.state.lock().asking = false;
                if entry == Entry::Wait {
                    return Err(error);
                }
                log::warn!(target: "raskio", "credentials are not renewed: {}", error.message());
            }
        }
        Ok(entry)
    }

    /// What is held now, and its version.
    pub fn current(&self) -> Option<(Arc<Grant>, u64)> {
        let state = self.state.lock();
        state.grant.clone().map(|grant| (grant, state.version))
    }

    /// A server refused what was held in this version as expired: the next request waits for another.
    pub fn refused(&self, version: u64) {
        let mut state = self.state.lock();
        if state.version == version {
            state.refused = true;
        }
    }

    fn ask(&self) {
        let stop = || self.renewals.is_stopped();
        // A provider calls the host, or reads what a service answered: neither may end this without a word.
        let fetch = std::panic::AssertUnwindSafe(|| self.provider.fetch(&stop));
        let outcome = std::panic::catch_unwind(fetch).unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Internal, "a panic while credentials were asked for was caught; this is a bug"))
        });
        let now = SystemTime::now();
        let (waiting, failure) = {
            let mut state = self.state.lock();
            state.asking = false;
            let failure = match outcome {
                Ok(grant) => {
                    state.keep(grant, now);
                    None
                }
                Err(error) => {
                    state.renew_at = Some(now + PAUSE);
                    Some(error)
                }
            };
            (std::mem::take(&mut state.waiting), failure)
        };
        if let Some(error) = &failure {
            log::warn!(target: "raskio", "credentials: {}", error.message());
        }
        for (member, tell) in waiting {
            tell.granted(member, self.number, failure.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Held;
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Answers what the test hands it.
    struct Scripted(std::sync::Mutex<Receiver<Result<Grant>>>, Arc<AtomicUsize>);
    impl Provide for Scripted {
        fn fetch(&self, _: &dyn Fn() -> bool) -> Result<Grant> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.lock().unwrap().recv().unwrap()
        }
    }

    struct Told(std::sync::Mutex<Sender<(usize, Option<String>)>>);
    impl Granted for Told {
        fn granted(&self, member: usize, _: usize, failure: Option<&Error>) {
            let _ = self.0.lock().unwrap().send((member, failure.map(|error| error.message().to_owned())));
        }
    }

    struct Bench {
        authority: Arc<Authority>,
        answer: Sender<Result<Grant>>,
        asked: Arc<AtomicUsize>,
        told: Receiver<(usize, Option<String>)>,
        tell: Arc<dyn Granted>,
    }

    fn bench() -> Bench {
        let ((answer, answers), (tell, told)) = (channel(), channel());
        let asked = Arc::new(AtomicUsize::new(0));
        let provider = Scripted(std::sync::Mutex::new(answers), asked.clone());
        let authority = Authority::new(Box::new(provider), Arc::default());
        Bench { authority, answer, asked, told, tell: Arc::new(Told(std::sync::Mutex::new(tell))) }
    }

    fn grant(life: Option<Duration>) -> Grant {
        let expires = life.map(|life| SystemTime::now() + life);
        Grant { held: Held::Nothing(String::new()), expires }
    }

    impl Bench {
        fn enter(&self, member: usize) -> Entry {
            self.authority.enter(member, &self.tell).unwrap()
        }
        fn told(&self) -> (usize, Option<String>) {
            self.told.recv_timeout(Duration::from_secs(60)).unwrap()
        }
    }

    #[test]
    fn many_wait_for_one_question() {
        let bench = bench();
        for member in [0, 1, 1, 0] {
            assert_eq!(bench.enter(member), Entry::Wait);
        }
        bench.answer.send(Ok(grant(None))).unwrap();
        assert_eq!((bench.told(), bench.told()), ((0, None), (1, None)), "each thread once");
        assert_eq!(bench.enter(0), Entry::Go);
        assert_eq!(bench.asked.load(Ordering::SeqCst), 1);
        assert_eq!(bench.authority.current().unwrap().1, 1);
    }

    #[test]
    fn a_failure_is_told_and_the_next_one_asks_again() {
        let bench = bench();
        assert_eq!(bench.enter(3), Entry::Wait);
        bench.answer.send(Err(Error::new(ErrorKind::Connection, "no"))).unwrap();
        assert_eq!(bench.told(), (3, Some("no".into())));
        assert!(bench.authority.current().is_none());
        assert_eq!(bench.enter(3), Entry::Wait);
        bench.answer.send(Ok(grant(None))).unwrap();
        assert_eq!(bench.told(), (3, None));
    }

    #[test]
    fn what_ages_is_used_while_it_is_renewed_and_what_expired_is_not() {
        let bench = bench();
        assert_eq!(bench.enter(0), Entry::Wait);
        bench.answer.send(Ok(grant(Some(Duration::from_millis(1200))))).unwrap();
        bench.told();
        assert_eq!(bench.enter(0), Entry::Go);
        assert_eq!(bench.asked.load(Ordering::SeqCst), 1, "young: nobody asks");
        std::thread::sleep(Duration::from_millis(950));
        assert_eq!(bench.enter(0), Entry::Go, "aging: used");
        std::thread::sleep(Duration::from_millis(350));
        assert_eq!(bench.enter(0), Entry::Wait, "expired");
        bench.answer.send(Ok(grant(None))).unwrap();
        assert_eq!(bench.told(), (0, None));
        assert_eq!((bench.asked.load(Ordering::SeqCst), bench.authority.current().unwrap().1), (2, 2));
    }

    #[test]
    fn a_refusal_counts_once_for_the_version_that_it_is_about() {
        let bench = bench();
        bench.enter(0);
        bench.answer.send(Ok(grant(None))).unwrap();
        bench.told();
        bench.authority.refused(1);
        assert_eq!(bench.enter(0), Entry::Wait);
        bench.answer.send(Ok(grant(None))).unwrap();
        bench.told();
        bench.authority.refused(1);
        assert_eq!(bench.enter(0), Entry::Go, "a late refusal of the first says nothing about the second");
    }

    #[test]
    fn what_comes_expired_is_used_for_a_while() {
        let bench = bench();
        bench.enter(0);
        let old = SystemTime::now() - Duration::from_secs(10);
        bench.answer.send(Ok(Grant { expires: Some(old), ..grant(None) })).unwrap();
        bench.told();
        assert_eq!(bench.enter(0), Entry::Go);
    }
}
