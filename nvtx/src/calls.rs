//! The functions of calls.c, with the promises that they need.

use crate::Counter;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

unsafe extern "C" {
    fn raskio_nvtx_domain(name: *const c_char) -> *mut c_void;
    fn raskio_nvtx_category(domain: *mut c_void, category: u32, name: *const c_char);
    fn raskio_nvtx_start(domain: *mut c_void, category: u32, message: *const c_char, payload: u64) -> u64;
    fn raskio_nvtx_end(domain: *mut c_void, range: u64);
    fn raskio_nvtx_counters(
        domain: *mut c_void,
        name: *const c_char,
        description: *const c_char,
        names: *const *const c_char,
        units: *const *const c_char,
        count: usize,
    ) -> u64;
    fn raskio_nvtx_sample(domain: *mut c_void, counters: u64, values: *const f64, count: usize);
    fn raskio_nvtx_unavailable(domain: *mut c_void, counters: u64);
}

pub fn domain(name: &CStr) -> *mut c_void {
    // SAFETY: a C string, copied by the profiler.
    unsafe { raskio_nvtx_domain(name.as_ptr()) }
}

pub fn category(domain: NonNull<c_void>, category: u32, name: &CStr) {
    // SAFETY: a domain that was made and is never destroyed; a C string.
    unsafe { raskio_nvtx_category(domain.as_ptr(), category, name.as_ptr()) }
}

pub fn start(domain: NonNull<c_void>, category: u32, message: &CStr, payload: u64) -> u64 {
    // SAFETY: as above.
    unsafe { raskio_nvtx_start(domain.as_ptr(), category, message.as_ptr(), payload) }
}

pub fn end(domain: NonNull<c_void>, range: u64) {
    // SAFETY: as above; profilers ignore a range that they do not know.
    unsafe { raskio_nvtx_end(domain.as_ptr(), range) }
}

pub fn counters(domain: NonNull<c_void>, name: &CStr, description: &CStr, counters: &[Counter]) -> u64 {
    let names: Vec<*const c_char> = counters.iter().map(|counter| counter.name.as_ptr()).collect();
    let units: Vec<*const c_char> = counters.iter().map(|counter| counter.unit.as_ptr()).collect();
    // SAFETY: as above; two arrays of `counters.len()` C strings, copied by the profiler.
    unsafe {
        raskio_nvtx_counters(
            domain.as_ptr(),
            name.as_ptr(),
            description.as_ptr(),
            names.as_ptr(),
            units.as_ptr(),
            counters.len(),
        )
    }
}

pub fn sample(domain: NonNull<c_void>, counters: u64, values: &[f64]) {
    // SAFETY: as above; so many values, copied by the profiler.
    unsafe { raskio_nvtx_sample(domain.as_ptr(), counters, values.as_ptr(), values.len()) }
}

pub fn unavailable(domain: NonNull<c_void>, counters: u64) {
    // SAFETY: as above.
    unsafe { raskio_nvtx_unavailable(domain.as_ptr(), counters) }
}
