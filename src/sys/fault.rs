//! Faults on demand, in a test build of its own (the feature `fault-injection`); nothing at all in the library.

/// A place that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Point {
    /// `curl_multi_socket_action`.
    MultiAction,
    /// `epoll_wait`.
    MultiWait,
    /// `curl_multi_add_handle`.
    MultiAdd,
    /// `curl_multi_remove_handle`.
    MultiRemove,
    /// `curl_multi_init`.
    MultiNew,
    /// `curl_easy_init`.
    EasyNew,
    /// Making a thread.
    Thread,
    /// A panic where a body's bytes come in.
    PanicInBody,
    /// A panic in the reactor's own loop.
    PanicInLoop,
    /// libcurl hands on bytes that are in their place in a way that is unknown.
    BodyElsewhere,
    /// A panic where a stager takes a copy in hand.
    PanicInStager,
}

#[cfg(not(feature = "fault-injection"))]
mod imp {
    /// Never, in this build.
    #[inline(always)]
    pub fn hit(_: super::Point) -> bool {
        false
    }
}

#[cfg(feature = "fault-injection")]
mod imp {
    use super::Point;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    const POINTS: usize = Point::PanicInStager as usize + 1;
    static SKIP: [AtomicU64; POINTS] = [const { AtomicU64::new(0) }; POINTS];
    static FAIL: [AtomicU64; POINTS] = [const { AtomicU64::new(0) }; POINTS];
    static HITS: [AtomicU64; POINTS] = [const { AtomicU64::new(0) }; POINTS];

    /// Has `point` fail `times` times after it was passed `skip` times.
    pub fn arm(point: Point, skip: u64, times: u64) {
        SKIP[point as usize].store(skip, SeqCst);
        FAIL[point as usize].store(times, SeqCst);
    }

    /// How often `point` has failed.
    pub fn hits(point: Point) -> u64 {
        HITS[point as usize].load(SeqCst)
    }

    /// Whether `point` fails now.
    pub fn hit(point: Point) -> bool {
        let take = |counter: &AtomicU64| counter.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok();
        if FAIL[point as usize].load(SeqCst) == 0 || take(&SKIP[point as usize]) || !take(&FAIL[point as usize]) {
            return false;
        }
        HITS[point as usize].fetch_add(1, SeqCst);
        true
    }
}

pub use imp::*;
