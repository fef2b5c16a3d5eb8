use super::*;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The hook is the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records of other tests of this process, which run meanwhile, do not count.
const MINE: &str = "raskio::log_test";

fn collecting(max_level: LevelFilter) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let hook = move |record: &Record<'_>| {
        if record.target() == MINE {
            sink.lock().unwrap().push(format!("{} {}", record.level(), record.args()));
        }
    };
    set_hook(Some(Box::new(hook)), max_level).unwrap();
    seen
}

#[test]
fn the_hook_gets_the_records_up_to_its_level() {
    let _alone = alone();
    let seen = collecting(LevelFilter::Info);
    assert_eq!(log::max_level(), LevelFilter::Info);
    log::error!(target: MINE, "one");
    log::info!(target: MINE, "two");
    log::debug!(target: MINE, "above the level");
    // Past the macro's own filter, as a record that was made before the level changed.
    LOGGER.log(&Record::builder().target(MINE).level(log::Level::Debug).args(format_args!("late")).build());
    assert!(log::log_enabled!(target: MINE, log::Level::Info));
    assert!(!log::log_enabled!(target: MINE, log::Level::Debug));
    assert_eq!(*seen.lock().unwrap(), ["ERROR one", "INFO two"]);

    let second = collecting(LevelFilter::Trace);
    assert_eq!(log::max_level(), LevelFilter::Trace);
    log::trace!(target: MINE, "three");
    assert_eq!((seen.lock().unwrap().len(), second.lock().unwrap().len()), (2, 1), "the old hook is replaced");

    set_hook(None, LevelFilter::Trace).unwrap();
    log::error!(target: MINE, "nobody listens");
    assert_eq!(second.lock().unwrap().len(), 1);
}

#[test]
fn setting_a_hook_waits_for_the_threads_inside_the_old_one() {
    let _alone = alone();
    /// What the hook captures.
    struct Watched {
        inside: AtomicUsize,
        calls: AtomicU64,
        dropped: Arc<AtomicBool>,
    }
    impl Drop for Watched {
        fn drop(&mut self) {
            self.dropped.store(true, Ordering::SeqCst);
        }
    }
    /// Ends the logging threads, also where an assertion fails.
    struct StopAtEnd<'a>(&'a AtomicBool);
    impl Drop for StopAtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let stop = AtomicBool::new(false);
    let make = || {
        let dropped = Arc::new(AtomicBool::new(false));
        let watched =
            Arc::new(Watched { inside: AtomicUsize::new(0), calls: AtomicU64::new(0), dropped: dropped.clone() });
        let weak = Arc::downgrade(&watched);
        let hook = move |_: &Record<'_>| {
            watched.inside.fetch_add(1, Ordering::SeqCst);
            watched.calls.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(200));
            watched.inside.fetch_sub(1, Ordering::SeqCst);
        };
        (Box::new(hook) as Hook, weak, dropped)
    };
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    log::error!(target: MINE, "busy");
                }
            });
        }
        let mut before: Option<(std::sync::Weak<Watched>, Arc<AtomicBool>)> = None;
        for round in 0..200 {
            let (hook, weak, dropped) = make();
            let watched = weak.upgrade().unwrap();
            set_hook(Some(hook), LevelFilter::Error).unwrap();
            if let Some((old, old_dropped)) = before.replace((weak, dropped)) {
                assert!(old_dropped.load(Ordering::SeqCst), "round {round}: the old hook lives on");
                assert!(old.upgrade().is_none());
            }
            while watched.calls.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            if round % 3 == 0 {
                set_hook(None, LevelFilter::Off).unwrap();
                let calls = watched.calls.load(Ordering::SeqCst);
                assert_eq!(watched.inside.load(Ordering::SeqCst), 0, "round {round}: a thread is inside");
                std::thread::sleep(Duration::from_micros(500));
                assert_eq!(watched.calls.load(Ordering::SeqCst), calls, "round {round}: called after its removal");
            }
        }
    });
    set_hook(None, LevelFilter::Off).unwrap();
}

#[test]
fn a_hook_can_neither_change_the_hook_nor_log_into_itself() {
    let _alone = alone();
    let outcome = Arc::new(Mutex::new(Vec::new()));
    let kept = outcome.clone();
    let hook = move |record: &Record<'_>| {
        if record.target() != MINE {
            return;
        }
        log::error!(target: MINE, "from inside");
        // What a client made from inside a hook does.
        init(false);
        kept.lock().unwrap().push((
            record.args().to_string(),
            set_hook(None, LevelFilter::Off).unwrap_err().kind(),
            log::log_enabled!(target: MINE, log::Level::Error),
            crate::op::in_callback(),
        ));
    };
    set_hook(Some(Box::new(hook)), LevelFilter::Trace).unwrap();
    log::error!(target: MINE, "outer");
    log::error!(target: MINE, "again");
    set_hook(None, LevelFilter::Off).unwrap();
    let seen = |text: &str| (text.to_string(), ErrorKind::WouldDeadlock, false, true);
    assert_eq!(*outcome.lock().unwrap(), [seen("outer"), seen("again")]);
    assert!(!crate::op::in_callback());
}

#[test]
fn a_hook_that_panics_is_survived_and_called_again() {
    let _alone = alone();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let hook = move |record: &Record<'_>| {
        if record.target() == MINE {
            counted.fetch_add(1, Ordering::SeqCst);
            panic!("the host's hook fails");
        }
    };
    set_hook(Some(Box::new(hook)), LevelFilter::Trace).unwrap();
    log::error!(target: MINE, "one");
    log::error!(target: MINE, "two");
    set_hook(None, LevelFilter::Off).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
