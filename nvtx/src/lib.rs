//! Ranges and counters for profilers that speak NVTX, such as Nsight Systems.
//!
//! A profiler names a library in `NVTX_INJECTION64_PATH` before the process starts. Where none does, [`Domain::new`] gives
//! `None`, and nothing else is to be called.

mod calls;

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// What belongs together in a profiler's window. It is there until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Domain(NonNull<c_void>);

// SAFETY: a handle of NVTX's, whose functions may be called from any thread.
unsafe impl Send for Domain {}
// SAFETY: as above, from several at once.
unsafe impl Sync for Domain {}

/// A range that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range(u64);

/// A group of counters, sampled together.
#[derive(Clone, Debug)]
pub struct Counters {
    domain: Domain,
    id: u64,
    count: usize,
}

/// One counter of a group.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// As it is shown.
    pub name: &'static CStr,
    /// Of its values.
    pub unit: &'static CStr,
}

impl Domain {
    /// `None`: no profiler is there.
    pub fn new(name: &CStr) -> Option<Domain> {
        NonNull::new(calls::domain(name)).map(Domain)
    }

    /// Names a category of ranges.
    pub fn name_category(self, category: u32, name: &CStr) {
        calls::category(self.0, category, name);
    }

    /// A range begins. It may end on another thread.
    pub fn start(self, category: u32, message: &CStr, payload: u64) -> Range {
        Range(calls::start(self.0, category, message, payload))
    }

    /// A range of this domain ends.
    pub fn end(self, range: Range) {
        calls::end(self.0, range.0);
    }

    /// Registers a group of at most 16 counters.
    pub fn counters(self, name: &str, description: &str, counters: &[Counter]) -> Counters {
        let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let id = calls::counters(self.0, &text(name), &text(description), counters);
        Counters { domain: self, id, count: counters.len() }
    }
}

impl Counters {
    /// What they are now: one value for each counter, in order. Too few or too many are not sent.
    pub fn sample(&self, values: &[f64]) {
        debug_assert_eq!(values.len(), self.count);
        if values.len() == self.count {
            calls::sample(self.domain.0, self.id, values);
        }
    }

    /// What they are now cannot be said.
    pub fn unavailable(&self) {
        calls::unavailable(self.domain.0, self.id);
    }
}
