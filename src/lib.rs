//! RaskIO: ranged reads of HTTP objects and local files into host or CUDA memory, behind a C ABI.
//!
//! Programs use the C API (`include/raskio.h`, written from [`ffi`]); this Rust API is for the project's own tests and
//! benchmarks and may change in any version.
//!
//! # Crate map
//!
//! ```text
//! ffi ──► client ──► object, batch, op, plan, limit, retry, endpoint   (pure: no threads, no unsafe, no I/O)
//!                └─► transport ──► reactor, thread_pool ──► sys/curl, sys/epoll, sys/event
//!                │             └─► file ────────────────────► sys/uring, sys/file
//!                └─► staging   ──► host, cuda ────────────► sys/mem, sys/cuda
//! ```
//!
//! | where | what | may touch |
//! |---|---|---|
//! | [`ffi`] | the only `extern "C"` functions that are exported, one file a noun, and the table for `dlopen` | everything below, raw pointers |
//! | [`client`] | the composition root: the only file that knows every part | everything below |
//! | [`object`] | one URL: what is known about it, and how a read of it begins | plan, endpoint, op |
//! | [`batch`] | many ranges, of any objects, as one operation: what is wrong, what is merged, which request carries which items | plan, endpoint, op, staging's buffers |
//! | [`op`] | one user call, and the items of a batch: counts its requests down, first error wins, completes exactly once; calls the host | nothing |
//! | [`plan`] | bounds, how a read is cut into requests, and which of many ranges share one | nothing |
//! | [`memory`] | memory whose size is the caller's to choose: an error if it cannot be had | nothing |
//! | [`limit`] | the request limiter: one budget, permits handed on in order, as many as bring bytes; new connections a few at a time | nothing |
//! | [`retry`] | whether and when to try again; clock and chance are arguments | nothing |
//! | [`endpoint`] | a range becomes a request, a reply is judged; a kind is a file and a row in `endpoint::KINDS` | `sys::curl::Url`, small files |
//! | [`local`] | an object's local file: opened by the first who needs it; through the cache or past it | `sys::file` |
//! | [`credentials`] | secrets that expire: where they come from, renewed on threads of their own | `sys::curl::ask`, the environment, small files |
//! | [`clock`] | dates as AWS writes them | nothing |
//! | [`transport`] | moves bytes; a kind is a file and a row in `transport::KINDS` | `sys::curl`, `sys::event` |
//! | [`transport::reactor`] | the loop that both transports share: one thread, one multi handle, attempts, timers, names | libcurl through `sys::curl` |
//! | [`transport::file`] | local files: a ring for each device, or threads; a kind is a row in `transport::file::KINDS` | `sys::uring`, `sys::file` |
//! | [`staging`] | where received bytes go; a kind is a file and a row in `staging::KINDS` | `sys::mem` |
//! | [`staging::cuda`] | into device memory, and out of it: pinned buffers, the stager of a context, its events | the driver through `sys::cuda` |
//! | [`callbacks`] | threads for completions, if the client asked for them | nothing |
//! | [`config`] | settings: defaults, then the environment, then options | the environment |
//! | [`log`](mod@log) | records to the host's hook, or to stderr where the environment asks | stderr |
//! | [`stats`] | counters | nothing |
//! | [`profile`] | ranges for a profiler, through the crate raskio-nvtx | nothing |
//! | [`events`] | retries and new connections, told to a host that wants to know | nothing |
//! | `thread_group` | threads that are waited for: those of transports, stagers, completions and credentials | `sys::process` |
//! | `exit` | stops every client's threads when the process ends | transport |
//! | [`error`] | kinds, messages, and the table from HTTP status, errno and CURLcode to a kind | nothing |
//! | [`sync`] | locks and atomics, or loom's | nothing |
//! | [`sys`] | the only code that names curl_sys, libc and raw memory; faults on demand for tests | the system |
//!
//! A request's way: `ffi::read` makes the one unsafe promise about a buffer; `object` plans; `client` counts the operation
//! in and hands the whole batch to its transport; a reactor admits (a secret that is there, a permit, a name that is
//! known), attempts, judges, tries again or ends; `staging` commits; the last request completes the operation.
//!
//! A local file's way: the same up to the transport. A thread of [`transport::file`] opens the file, once; then requests go to the
//! ring of its device (or stay with the threads), which asks the sink to lend its memory: the caller's, or a pinned buffer that
//! the ring has registered. What the kernel moved counts as written; a short piece is continued, and nothing is retried but what
//! the system asks to try again.
//!
//! With a device buffer: `ffi::read` asks the driver where it is, on the caller's thread; admission first takes a pinned buffer, then
//! a permit; at the end of the network phase the permit goes back, and the buffer to the context's stager, the only thread that
//! calls the driver; when the copy is done the buffer goes to whoever waits longest for one, and the request ends. A write of device
//! memory to a file goes the other way: a pinned buffer first, then the stager fills it, then the ring or a thread writes it.
#![deny(unsafe_code)]

pub mod batch;
pub mod callbacks;
pub mod client;
pub mod clock;
pub mod config;
pub mod credentials;
pub mod endpoint;
pub mod error;
pub mod events;
mod exit;
pub mod ffi;
pub mod limit;
pub mod local;
pub mod log;
pub mod memory;
pub mod object;
pub mod op;
pub mod plan;
pub mod profile;
pub mod retry;
pub mod staging;
pub mod stats;
pub mod sync;
pub mod sys;
mod thread_group;
pub mod transport;
