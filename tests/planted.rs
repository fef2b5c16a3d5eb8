//! Bugs planted on purpose, which a sanitizer must report: the proof that it is on, and that it watches Rust code. In no
//! other build; scripts/stages/asan.sh and tsan.sh run each of them and expect it to fail.

#[cfg(any(raskio_sanitizer = "address", raskio_sanitizer = "thread"))]
#[path = "planted/bugs.rs"]
mod bugs;
#[cfg(any(raskio_sanitizer = "address", raskio_sanitizer = "thread"))]
mod support;

// Linked like the other tests, with `--wrap`, whose names are defined there.
use raskio as _;
