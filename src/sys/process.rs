//! The process: forks, exit, signals, threads.

use super::fault::{self, Point};
use super::quiet;
use crate::error::{Error, Result};
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

static GENERATION: AtomicU64 = AtomicU64::new(1);
static WATCHED: AtomicBool = AtomicBool::new(false);
/// [`once_before_forks`]: 0 not yet, 1 running, 2 done.
static STARTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn before_fork() {
    quiet::before_fork();
    // A child of a half-started libcurl would wait for ever for the other half.
    while STARTED.load(SeqCst) == 1 {
        std::thread::yield_now();
    }
}

extern "C" fn in_parent() {
    quiet::after_fork_in_parent();
}

extern "C" fn in_child() {
    // Async-signal-safe: atomics only, no lock, no allocation.
    quiet::after_fork_in_child();
    GENERATION.fetch_add(1, SeqCst);
}

/// Which fork generation this process is: a child's differs from its parent's. Read before any lock.
pub fn generation() -> u64 {
    GENERATION.load(std::sync::atomic::Ordering::Relaxed)
}

/// Starts counting forks. Called before the first thing that a child must not use exists.
///
/// # Errors
/// OUT_OF_MEMORY when the C library cannot store the handlers.
pub fn watch_forks() -> Result<()> {
    // No `Once`: a fork in the middle of one would leave it running for ever in the child. Whoever comes second while
    // the first registers goes on; only a fork in that very moment is not counted.
    if WATCHED.swap(true, SeqCst) {
        return Ok(());
    }
    // SAFETY: the handlers only touch static atomics, and the library is linked `-z nodelete`, so their code stays.
    let outcome = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    if outcome != 0 {
        WATCHED.store(false, SeqCst);
        return Err(Error::os("registering the fork handlers", &std::io::Error::from_raw_os_error(outcome)));
    }
    Ok(())
}

/// Runs `start` unless it has run well before, with no fork of this process in the middle of it.
///
/// # Errors
/// Those of `start`; the next call tries again.
pub fn once_before_forks(start: impl FnOnce() -> Result<()>) -> Result<()> {
    loop {
        match STARTED.compare_exchange(0, 1, SeqCst, SeqCst) {
            Err(2) => return Ok(()),
            Err(_) => std::thread::yield_now(),
            Ok(_) if quiet::is_forking() => {
                STARTED.store(0, SeqCst);
                std::thread::yield_now();
            }
            Ok(_) => break,
        }
    }
    let outcome = start();
    STARTED.store(if outcome.is_ok() { 2 } else { 0 }, SeqCst);
    outcome
}

static EXIT: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();

extern "C" fn run_at_exit() {
    if let Some(handler) = EXIT.get() {
        // Unwinding out of an exit handler aborts the process.
        let _ = std::panic::catch_unwind(handler);
    }
}

/// Has `handler` called when the process exits.
///
/// # Errors
/// OUT_OF_MEMORY when the C library cannot store the handler.
pub fn at_exit(handler: fn()) -> Result<()> {
    if EXIT.set(handler).is_err() {
        return Ok(());
    }
    // SAFETY: the handler is a plain function of this library, which is never unloaded (`-z nodelete`).
    if unsafe { libc::atexit(run_at_exit) } != 0 {
        return Err(Error::new(crate::error::ErrorKind::OutOfMemory, "the C library cannot store an exit handler"));
    }
    Ok(())
}

/// Has the handler of [`at_exit`] called once more, before those of everything that was started until now.
pub fn at_exit_before_others() {
    // A second call of the handler finds nothing left to do. Without memory for it there is still the first.
    // SAFETY: as in `at_exit`.
    let _ = unsafe { libc::atexit(run_at_exit) };
}

/// Who the system takes this thread for where it asks for permission, by number.
pub fn user() -> u32 {
    // SAFETY: no pointers are passed; it cannot fail.
    unsafe { libc::geteuid() }
}

/// The kernel's version, major and minor; 0 where it does not say.
pub fn kernel() -> (u32, u32) {
    // SAFETY: utsname is plain text that the call fills in and ends with NUL; where it fails it is empty.
    let names = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut names);
        names
    };
    // SAFETY: as above.
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) }.to_str().unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// What a new thread is handed.
struct Start {
    name: CString,
    body: Box<dyn FnOnce() + Send>,
}

extern "C" fn run_thread(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` leaked this box for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: names the calling thread; the string is NUL-terminated and within the kernel's 15 bytes.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), start.name.as_ptr()) };
    // A panic has been told by the panic hook; unwinding out of here would abort the host.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(start.body));
    std::ptr::null_mut()
}

/// Starts a thread that no signal of the host is delivered to, with the system's default stack: callbacks of the host
/// run on it. Linux keeps 15 bytes of the name.
///
/// # Errors
/// IO when the system cannot make a thread.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    let failed = |code: c_int| {
        let source = std::io::Error::from_raw_os_error(code);
        Error::os(format_args!("starting the thread {name}"), &source)
    };
    if fault::hit(Point::Thread) {
        return Err(failed(libc::EAGAIN));
    }
    // No `std::thread`: its threads take a lock of the process when they start and when they end. A child forked in
    // that moment could never start one: measured, 1 of 12 runs of 40 forks.
    let short = CString::new(&name.as_bytes()[..name.len().min(15)]).unwrap_or_default();
    let start = Box::into_raw(Box::new(Start { name: short, body: Box::new(body) }));
    // The mask is inherited: block everything, start, restore. The host's handlers never run on RaskIO's threads.
    // SAFETY: sigset_t and pthread_attr_t are plain data that the calls below fill in, and every pointer is to one of
    // ours; the thread gets `start` for its own.
    let outcome = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let mut outcome = libc::pthread_attr_init(&mut attributes);
        if outcome == 0 {
            libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            outcome = libc::pthread_create(&mut thread, &attributes, run_thread, start.cast());
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            libc::pthread_attr_destroy(&mut attributes);
        }
        outcome
    };
    if outcome != 0 {
        // SAFETY: no thread was made that could own it.
        drop(unsafe { Box::from_raw(start) });
        return Err(failed(outcome));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_its_version() {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let (major, minor) = kernel();
        assert!(text.starts_with(&format!("{major}.{minor}")), "{text}: {major}.{minor}");
        assert!(major > 0);
    }

    #[test]
    fn a_child_has_another_generation_and_its_parent_keeps_its_own() {
        watch_forks().unwrap();
        let before = generation();
        // SAFETY: the child calls only async-signal-safe functions before it ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(generation() == before)) };
        }
        let mut status = 0;
        // SAFETY: one writable int is passed.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child saw its parent's generation");
        assert_eq!(generation(), before);
    }

    #[test]
    fn signals_stay_off_its_threads_and_on_the_callers() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let blocked = || {
            // SAFETY: sigset_t is plain data; with a null new set the mask is only read.
            unsafe {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
                libc::sigismember(&mask, libc::SIGUSR1) == 1
            }
        };
        spawn("raskio-test", move || sender.send(blocked()).unwrap()).unwrap();
        assert!(receiver.recv().unwrap());
        assert!(!blocked());
    }
}
