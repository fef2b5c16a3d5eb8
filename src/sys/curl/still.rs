//! libcurl's clock stands still between the bytes that come.
//!
//! libcurl asks for the time 36 times for a request of 4 KiB (counted with callgrind): 1 µs of 25, 27 ns each, where the clock is the
//! processor's own, and far more where each answer takes a system call. So the library is linked with `--wrap=clock_gettime`, and
//! while a multi handle runs on a thread, the monotonic clock of that thread is read once, and again when bytes were asked for
//! ([`straight`](super::straight)) and when a socket is opened: whoever asks in between is told the same. What comes between is libcurl's own work,
//! some 10 µs of it for what came, and up to milliseconds of a TLS handshake. libcurl waits for nothing in there; where it
//! calls the host's code, which may, the clock [runs](Runs).
//!
//! Everything else in the library asks by the same name, `Instant::now` too, and is told the time as ever outside of
//! libcurl. In a program that is linked without `--wrap=clock_gettime`, or with the system's libcurl, the clock runs.

use libc::{CLOCK_MONOTONIC, clockid_t, timespec};
use std::cell::Cell;
use std::ffi::c_int;

/// What this thread's clock does. A number beside the time, and one look for both: libcurl asks often.
struct Clock {
    state: Cell<u8>,
    /// What [`STANDS`] means.
    time: Cell<timespec>,
}

const RUNS: u8 = 0;
/// The next to ask looks, and those after it are told the same.
const UNREAD: u8 = 1;
const STANDS: u8 = 2;

thread_local! {
    static CLOCK: Clock = const { Clock { state: Cell::new(RUNS), time: Cell::new(timespec { tv_sec: 0, tv_nsec: 0 }) } };
}

/// Lets the clock of this thread run again.
pub struct Still(());

impl Still {
    /// From now on the clock of this thread stands still, until bytes come or this is dropped.
    pub fn begin() -> Still {
        CLOCK.with(|clock| clock.state.set(UNREAD));
        Still(())
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        CLOCK.with(|clock| clock.state.set(RUNS));
    }
}

/// The clock of this thread runs until this is dropped: for code that may wait for the time to pass, or fork, or end the process.
pub struct Runs(u8);

impl Runs {
    /// From now on.
    pub fn begin() -> Runs {
        Runs(CLOCK.with(|clock| clock.state.replace(RUNS)))
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if self.0 != RUNS {
            CLOCK.with(|clock| clock.state.set(UNREAD));
        }
    }
}

/// Something was asked of the system that may have taken its time.
pub fn goes_on() {
    CLOCK.with(|clock| {
        if clock.state.get() == STANDS {
            clock.state.set(UNREAD);
        }
    });
}

/// What is called in place of `clock_gettime`.
unsafe extern "C" fn time(which: clockid_t, to: *mut timespec) -> c_int {
    CLOCK.with(|clock| {
        let is_ours = which == CLOCK_MONOTONIC && !to.is_null();
        if is_ours && clock.state.get() == STANDS {
            // SAFETY: not null, and the caller's to be written, as for `clock_gettime`.
            unsafe { to.write(clock.time.get()) };
            return 0;
        }
        // SAFETY: the caller's own call.
        let code = unsafe { raskio_real_clock_gettime(which, to) };
        if is_ours && code == 0 && clock.state.get() == UNREAD {
            // SAFETY: written by the call, which succeeded.
            clock.time.set(unsafe { to.read() });
            clock.state.set(STANDS);
        }
        code
    })
}

unsafe extern "C" {
    /// The C library's.
    fn raskio_real_clock_gettime(clock: clockid_t, to: *mut timespec) -> c_int;
}

super::wrap::wrap!("clock_gettime", time);
super::wrap::real!("clock_gettime", "raskio_real_clock_gettime");

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::{Duration, Instant, SystemTime};

    const WHILE: Duration = Duration::from_millis(2);

    #[test]
    fn the_clock_stands_still_until_bytes_come() {
        let before = Instant::now();
        sleep(WHILE);
        let still = Still::begin();
        let first = Instant::now();
        sleep(WHILE);
        assert_eq!(Instant::now(), first);
        goes_on();
        let second = Instant::now();
        assert!(second >= first + WHILE, "bytes came");
        sleep(WHILE);
        assert_eq!(Instant::now(), second);
        drop(still);
        assert!(first >= before + WHILE && Instant::now() >= second + WHILE, "it runs outside");
        goes_on();
        let now = Instant::now();
        sleep(WHILE);
        assert!(Instant::now() >= now + WHILE, "it is not stopped by bytes that come outside");
    }

    #[test]
    fn the_clock_runs_where_the_host_s_code_does() {
        for inside in [false, true] {
            let still = inside.then(Still::begin);
            let before = Instant::now();
            {
                let _runs = Runs::begin();
                let first = Instant::now();
                sleep(WHILE);
                assert!(Instant::now() >= first + WHILE);
            }
            let after = Instant::now();
            assert!(after >= before + WHILE, "what it took counts");
            sleep(WHILE);
            assert_eq!(Instant::now() == after, inside);
            drop(still);
        }
    }

    #[test]
    fn other_clocks_and_other_threads_go_on() {
        let _still = Still::begin();
        let (first, wall) = (Instant::now(), SystemTime::now());
        sleep(WHILE);
        assert!(wall.elapsed().is_ok_and(|passed| passed >= WHILE));
        assert!(std::thread::spawn(Instant::now).join().is_ok_and(|there| there >= first + WHILE));
        assert_eq!(Instant::now(), first);
        let mut never = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place may be written; there is no such clock.
        assert_eq!(unsafe { libc::clock_gettime(-1, &raw mut never) }, -1, "errors are the system's");
    }
}
