//! Bodies that the kernel writes straight to where they belong: the right bytes at the right places, whatever a server does, and
//! whoever else is served by the same thread.
//!
//! This program's own `recvfrom`, `send` and `epoll_wait` are the ones that the library calls: they count what is received in place, and
//! hold the reactor up where a test needs it. The counts are the process's, so one test at a time.

// The system's libcurl is not linked in such a way.
#[cfg(feature = "bundled-curl")]
#[path = "straight/places.rs"]
mod places;
#[cfg(feature = "bundled-curl")]
#[path = "straight/promises.rs"]
mod promises;
#[cfg(feature = "bundled-curl")]
mod support;

// Linked like the other tests, with `--wrap`, whose names are defined there.
use raskio as _;
