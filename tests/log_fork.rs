//! A process that forks while other threads are inside the log hook: the child logs, sets a hook, and never waits.

use log::LevelFilter;
use std::io::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

static INSIDE: AtomicBool = AtomicBool::new(false);
static LEAVE: AtomicBool = AtomicBool::new(false);
static CHILD_CALLS: AtomicU32 = AtomicU32::new(0);

/// Runs `body` in a forked child; its exit code. A child that hangs is ended by its alarm, and the code is `None`.
fn in_child(body: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child only calls async-signal-safe code, RaskIO and the allocator, which glibc makes safe after a
    // fork, and leaves through _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", Error::last_os_error());
    if child == 0 {
        // SAFETY: the default action of SIGALRM ends this process.
        unsafe { libc::alarm(10) };
        let code = body();
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is a valid place.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}

fn child_body() -> i32 {
    log::error!(target: "raskio", "to nobody: the parent's hook is not the child's");
    raskio::log::init(true);
    let hook = |_: &log::Record<'_>| {
        CHILD_CALLS.fetch_add(1, Ordering::SeqCst);
    };
    if raskio::log::set_hook(Some(Box::new(hook)), LevelFilter::Info).is_err() {
        return 2;
    }
    log::info!(target: "raskio", "to the child's hook");
    log::debug!(target: "raskio", "above the child's level");
    if log::max_level() != LevelFilter::Info {
        return 3;
    }
    if raskio::log::set_hook(None, LevelFilter::Off).is_err() {
        return 4;
    }
    match (CHILD_CALLS.load(Ordering::SeqCst), log::max_level()) {
        (1, LevelFilter::Debug) => 0,
        (1, _) => 5,
        _ => 6,
    }
}

#[test]
fn a_child_forked_while_a_thread_is_inside_the_hook_has_logging_of_its_own() {
    let hook = |_: &log::Record<'_>| {
        INSIDE.store(true, Ordering::SeqCst);
        while !LEAVE.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    raskio::log::set_hook(Some(Box::new(hook)), LevelFilter::Trace).unwrap();
    let busy = std::thread::spawn(|| log::error!(target: "raskio", "keeps the hook busy"));
    // And one that waits to change it, so that the lock has a waiting writer, too.
    while !INSIDE.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let writer = std::thread::spawn(|| raskio::log::set_hook(None, LevelFilter::Off));
    std::thread::sleep(Duration::from_millis(50));

    let code = in_child(child_body);
    // Before the check: a failed assertion must not leave the threads behind.
    LEAVE.store(true, Ordering::SeqCst);
    busy.join().unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(code, Some(0), "the child's failed step, or None if it hung");
    assert_eq!(CHILD_CALLS.load(Ordering::SeqCst), 0, "the parent is undisturbed");
}
