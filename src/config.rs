//! Settings: defaults, then the environment, then the caller's options; each checked where it is set.

use crate::error::Result;
use std::ffi::OsString;
use std::time::Duration;

/// No limit, where a count or a time allows that.
pub const UNLIMITED: u32 = u32::MAX;

/// How remote requests are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `num_threads` threads, one request each.
    EasyThreadpool,
    /// `num_reactors` threads, many requests each.
    MultiPoll,
}

/// How the requests of one read are spread over reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Round robin, request by request.
    PerChunk,
    /// One read stays on one reactor.
    PerPread,
}

/// How local files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalBackend {
    /// io_uring where the kernel allows it, else pread.
    Auto,
    /// io_uring.
    Uring,
    /// pread on a thread pool.
    Pread,
}

/// Resolved settings of one client.
#[derive(Clone, Debug)]
pub struct Config {
    /// KVIKIO_REMOTE_IO_BACKEND.
    pub backend: Backend,
    /// KVIKIO_REMOTE_IO_REACTOR_DISPATCH.
    pub dispatch: Dispatch,
    /// KVIKIO_REMOTE_IO_NUM_REACTORS.
    pub num_reactors: u32,
    /// KVIKIO_NTHREADS.
    pub num_threads: u32,
    /// KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS; [`UNLIMITED`] for 0.
    pub max_concurrent_requests: u32,
    /// KVIKIO_HTTP_MAX_ATTEMPTS.
    pub max_attempts: u32,
    /// KVIKIO_TASK_SIZE, bytes a request.
    pub task_size: u64,
    /// Limit of a name look-up, connect and TLS handshake together.
    pub connect_timeout: Option<Duration>,
    /// No byte for this long ends an attempt.
    pub stall_timeout: Option<Duration>,
    /// KVIKIO_HTTP_TIMEOUT: one attempt as a whole.
    pub request_timeout: Option<Duration>,
    /// Threads that run completions; 0: the thread that finished the work.
    pub callback_threads: u32,
    /// KVIKIO_HTTP_STATUS_CODES: statuses worth a retry.
    pub retry_status: Vec<u16>,
    /// KVIKIO_BOUNCE_BUFFER_SIZE, bytes.
    pub bounce_buffer_size: u64,
    /// Hard cap of pinned bytes per CUDA context.
    pub max_pinned_bytes: u64,
    /// How local files are read.
    pub local_backend: LocalBackend,
    /// Entries of an io_uring.
    pub uring_queue_depth: u32,
    /// Idle time of the kernel's polling thread; 0: none.
    pub uring_sqpoll_idle_ms: u32,
    /// KVIKIO_REMOTE_VERBOSE: libcurl's verbose output, redacted, to the log.
    pub verbose: bool,
}

/// What the caller set explicitly; `None` leaves the environment's value or the default.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the fields are those of `Config`
pub struct Overrides {
    pub backend: Option<Backend>,
    pub dispatch: Option<Dispatch>,
    pub num_reactors: Option<u32>,
    pub num_threads: Option<u32>,
    pub max_concurrent_requests: Option<u32>,
    pub max_attempts: Option<u32>,
    pub task_size: Option<u64>,
    /// `UNLIMITED` means no limit, for this and the next two.
    pub connect_timeout_ms: Option<u32>,
    pub stall_timeout_ms: Option<u32>,
    pub request_timeout_ms: Option<u32>,
    pub callback_threads: Option<u32>,
    pub retry_status: Option<Vec<u16>>,
    pub bounce_buffer_size: Option<u64>,
    pub max_pinned_bytes: Option<u64>,
    pub local_backend: Option<LocalBackend>,
    pub uring_queue_depth: Option<u32>,
    pub uring_sqpoll_idle_ms: Option<u32>,
}

impl Config {
    /// The settings for these overrides in this environment (`env` looks a variable up).
    ///
    /// # Errors
    /// INVALID_ARGUMENT naming the variable or option, its value and what is allowed.
    pub fn resolve(overrides: &Overrides, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Config> {
        let _ = (overrides, env);
        todo!()
    }

    /// [`Config::resolve`] in the process's environment.
    ///
    /// # Errors
    /// As [`Config::resolve`].
    pub fn from_env(overrides: &Overrides) -> Result<Config> {
        Config::resolve(overrides, &|name| std::env::var_os(name))
    }
}
