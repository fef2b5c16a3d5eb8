//! Settings: defaults, then the environment, then the caller's options; each checked where it is set.
//!
//! The variables are KvikIO's, with its values. Words are matched whatever their case, blanks around a value are ignored,
//! numbers are plain decimal integers. A bad value is an error, also where an option overrides it: KvikIO would refuse to
//! start on it, and a silently ignored typing error costs more than a message.

mod parse;

use crate::error::Result;
use crate::sys::cuda::PinnedPool;
use parse::Number;
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

/// How much of the budget the reactors use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// As much as brings bytes.
    Adaptive,
    /// All of it.
    Fixed,
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

/// Statuses worth a retry unless the caller or the environment says otherwise: KvikIO's, and 408, after which a client may
/// repeat its request (RFC 9110, 15.5.9), as after every other time-out here.
pub const RETRY_STATUS: [u16; 6] = [408, 429, 500, 502, 503, 504];

/// Resolved settings of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// KVIKIO_REMOTE_IO_BACKEND: EASY_THREADPOOL (default) or MULTI_POLL.
    pub backend: Backend,
    /// KVIKIO_REMOTE_IO_REACTOR_DISPATCH: PER_CHUNK (default) or PER_PREAD.
    pub dispatch: Dispatch,
    /// KVIKIO_REMOTE_IO_NUM_REACTORS: 1 (default) to 1024.
    pub num_reactors: u32,
    /// KVIKIO_NTHREADS or KVIKIO_NUM_THREADS: 1 to 4096, default 16 (KvikIO's is 1).
    pub num_threads: u32,
    /// KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS: default 256; [`UNLIMITED`] for 0.
    pub max_concurrent_requests: u32,
    /// RASKIO_CONCURRENCY: whether that many are used, or at most that many; default ADAPTIVE.
    pub concurrency: Concurrency,
    /// RASKIO_HEDGING: late requests of MULTI_POLL are sent once more; default off.
    pub hedging: bool,
    /// KVIKIO_HTTP_MAX_ATTEMPTS: default 3, the first attempt included.
    pub max_attempts: u32,
    /// KVIKIO_TASK_SIZE: bytes a request, default 4 MiB.
    pub task_size: u64,
    /// Limit of a name look-up, connect and TLS handshake together: default 10 s; `None`: no limit.
    pub connect_timeout: Option<Duration>,
    /// No byte for this long ends an attempt: default 30 s; `None`: no limit.
    pub stall_timeout: Option<Duration>,
    /// KVIKIO_HTTP_TIMEOUT: one attempt as a whole, default 60 s; `None`: no limit.
    pub request_timeout: Option<Duration>,
    /// Threads that run completions; 0 (default): the thread that finished the work.
    pub callback_threads: u32,
    /// KVIKIO_HTTP_STATUS_CODES: statuses worth a retry, in ascending order; default [`RETRY_STATUS`]; empty: none.
    pub retry_status: Vec<u16>,
    /// KVIKIO_BOUNCE_BUFFER_SIZE: bytes of a pinned buffer, default 16 MiB.
    pub bounce_buffer_size: u64,
    /// Hard cap of pinned bytes per CUDA context: default 256 MiB, or one bounce buffer if that is more.
    pub max_pinned_bytes: u64,
    /// CUDA events kept per context while nobody uses them: at least 1, default 1,024.
    pub max_free_events: u32,
    /// The host's own pinned memory, instead of memory that RaskIO pins.
    pub pinned_pool: Option<PinnedPool>,
    /// RASKIO_LOCAL_BACKEND: how local files are read; default AUTO.
    pub local_backend: LocalBackend,
    /// Reads and writes of local files in flight on one io_uring, of which each block device has one: 1 to 32768, default 128.
    pub uring_queue_depth: u32,
    /// Idle time of the kernel's polling thread; 0 (default): no such thread.
    pub uring_sqpoll_idle_ms: u32,
    /// KVIKIO_AUTO_DIRECT_IO_READ: local files are read past the system's cache where that is possible; default off.
    pub direct_read: bool,
    /// KVIKIO_AUTO_DIRECT_IO_WRITE: the same for writes; default on.
    pub direct_write: bool,
    /// KVIKIO_AUTO_DIRECT_IO_READ_OVERREAD: the ragged ends of such reads too, by reading beyond them; default off.
    pub direct_overread: bool,
    /// KVIKIO_REMOTE_VERBOSE: libcurl's verbose output, redacted, to the log; default off.
    pub verbose: bool,
}

/// What the caller set explicitly; `None` leaves the environment's value or the default.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Instead of KVIKIO_REMOTE_IO_BACKEND.
    pub backend: Option<Backend>,
    /// Instead of KVIKIO_REMOTE_IO_REACTOR_DISPATCH.
    pub dispatch: Option<Dispatch>,
    /// Instead of KVIKIO_REMOTE_IO_NUM_REACTORS.
    pub num_reactors: Option<u32>,
    /// Instead of KVIKIO_NTHREADS.
    pub num_threads: Option<u32>,
    /// Instead of KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS; 0 and [`UNLIMITED`] are no limit.
    pub max_concurrent_requests: Option<u32>,
    /// Instead of RASKIO_CONCURRENCY.
    pub concurrency: Option<Concurrency>,
    /// Instead of RASKIO_HEDGING.
    pub hedging: Option<bool>,
    /// Instead of KVIKIO_HTTP_MAX_ATTEMPTS.
    pub max_attempts: Option<u32>,
    /// Instead of KVIKIO_TASK_SIZE.
    pub task_size: Option<u64>,
    /// [`Config::connect_timeout`]; [`UNLIMITED`] is no limit.
    pub connect_timeout_ms: Option<u32>,
    /// [`Config::stall_timeout`]; [`UNLIMITED`] is no limit.
    pub stall_timeout_ms: Option<u32>,
    /// Instead of KVIKIO_HTTP_TIMEOUT, but in milliseconds; [`UNLIMITED`] is no limit.
    pub request_timeout_ms: Option<u32>,
    /// [`Config::callback_threads`].
    pub callback_threads: Option<u32>,
    /// Instead of KVIKIO_HTTP_STATUS_CODES; empty: no status is worth a retry.
    pub retry_status: Option<Vec<u16>>,
    /// Instead of KVIKIO_BOUNCE_BUFFER_SIZE.
    pub bounce_buffer_size: Option<u64>,
    /// [`Config::max_pinned_bytes`]; at least one bounce buffer.
    pub max_pinned_bytes: Option<u64>,
    /// [`Config::max_free_events`].
    pub max_free_events: Option<u32>,
    /// [`Config::pinned_pool`].
    pub pinned_pool: Option<PinnedPool>,
    /// Instead of RASKIO_LOCAL_BACKEND.
    pub local_backend: Option<LocalBackend>,
    /// [`Config::uring_queue_depth`].
    pub uring_queue_depth: Option<u32>,
    /// [`Config::uring_sqpoll_idle_ms`].
    pub uring_sqpoll_idle_ms: Option<u32>,
}

/// Most bytes of a request or a buffer: what libcurl's `curl_off_t` and a file offset can say.
const MAX_BYTES: u64 = i64::MAX as u64;

const NUM_REACTORS: Number<u32> =
    Number { variables: &["KVIKIO_REMOTE_IO_NUM_REACTORS"], option: "num_reactors", range: 1..=1024, unit: "" };
const NUM_THREADS: Number<u32> =
    Number { variables: &["KVIKIO_NTHREADS", "KVIKIO_NUM_THREADS"], option: "num_threads", range: 1..=4096, unit: "" };
const MAX_CONCURRENT_REQUESTS: Number<u32> = Number {
    variables: &["KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS"],
    option: "max_concurrent_requests",
    range: 0..=UNLIMITED,
    unit: " (0: no limit)",
};
const MAX_ATTEMPTS: Number<u32> =
    Number { variables: &["KVIKIO_HTTP_MAX_ATTEMPTS"], option: "max_attempts", range: 1..=u32::MAX, unit: "" };
const TASK_SIZE: Number<u64> =
    Number { variables: &["KVIKIO_TASK_SIZE"], option: "task_size", range: 1..=MAX_BYTES, unit: " (bytes)" };
/// The upper end is libcurl's: KvikIO hands the seconds to CURLOPT_TIMEOUT, which refuses more.
const HTTP_TIMEOUT: Number<u32> =
    Number { variables: &["KVIKIO_HTTP_TIMEOUT"], option: "", range: 1..=2_147_483, unit: " (seconds)" };
const CALLBACK_THREADS: Number<u32> = Number { variables: &[], option: "callback_threads", range: 0..=1024, unit: "" };
const BOUNCE_BUFFER_SIZE: Number<u64> = Number {
    variables: &["KVIKIO_BOUNCE_BUFFER_SIZE"],
    option: "bounce_buffer_size",
    range: 1..=MAX_BYTES,
    unit: " (bytes)",
};
const MAX_FREE_EVENTS: Number<u32> =
    Number { variables: &[], option: "max_free_events", range: 1..=u32::MAX, unit: "" };
/// The upper end is the kernel's.
const URING_QUEUE_DEPTH: Number<u32> =
    Number { variables: &[], option: "uring_queue_depth", range: 1..=32_768, unit: "" };

impl Config {
    /// The settings for these overrides in this environment (`env` looks a variable up).
    ///
    /// # Errors
    /// INVALID_ARGUMENT naming the variable or option, its value and what is allowed.
    pub fn resolve(overrides: &Overrides, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Config> {
        let backend = parse::backend(env)?;
        let dispatch = parse::dispatch(env)?;
        let concurrency = parse::concurrency(env)?;
        let hedging = parse::switch(env, "RASKIO_HEDGING")?;
        let local_backend = parse::local_backend(env)?;
        let retry_status = parse::statuses_from_env(env)?;
        let bounce_buffer_size = BOUNCE_BUFFER_SIZE.resolve(env, overrides.bounce_buffer_size, 16 << 20)?;
        let max_concurrent_requests = MAX_CONCURRENT_REQUESTS.resolve(env, overrides.max_concurrent_requests, 256)?;
        let http_timeout = HTTP_TIMEOUT.lookup(env)?.unwrap_or(60);
        Ok(Config {
            backend: overrides.backend.or(backend).unwrap_or(Backend::EasyThreadpool),
            dispatch: overrides.dispatch.or(dispatch).unwrap_or(Dispatch::PerChunk),
            num_reactors: NUM_REACTORS.resolve(env, overrides.num_reactors, 1)?,
            // KvikIO's single thread keeps one request in flight: against a store that needs 25 ms to the first byte
            // that is a sixtieth of what the network gives.
            num_threads: NUM_THREADS.resolve(env, overrides.num_threads, 16)?,
            max_concurrent_requests: if max_concurrent_requests == 0 { UNLIMITED } else { max_concurrent_requests },
            concurrency: overrides.concurrency.or(concurrency).unwrap_or(Concurrency::Adaptive),
            hedging: overrides.hedging.or(hedging).unwrap_or(false),
            max_attempts: MAX_ATTEMPTS.resolve(env, overrides.max_attempts, 3)?,
            task_size: TASK_SIZE.resolve(env, overrides.task_size, 4 << 20)?,
            connect_timeout: timeout("connect_timeout_ms", overrides.connect_timeout_ms, 10)?,
            stall_timeout: timeout("stall_timeout_ms", overrides.stall_timeout_ms, 30)?,
            request_timeout: timeout("request_timeout_ms", overrides.request_timeout_ms, http_timeout)?,
            callback_threads: CALLBACK_THREADS.resolve(env, overrides.callback_threads, 0)?,
            retry_status: parse::statuses_from_option(overrides.retry_status.as_deref())?
                .or(retry_status)
                .unwrap_or_else(|| RETRY_STATUS.to_vec()),
            bounce_buffer_size,
            max_pinned_bytes: max_pinned_bytes(overrides.max_pinned_bytes, bounce_buffer_size)?,
            max_free_events: MAX_FREE_EVENTS.resolve(env, overrides.max_free_events, 1024)?,
            pinned_pool: overrides.pinned_pool,
            local_backend: overrides.local_backend.or(local_backend).unwrap_or(LocalBackend::Auto),
            uring_queue_depth: URING_QUEUE_DEPTH.resolve(env, overrides.uring_queue_depth, 128)?,
            uring_sqpoll_idle_ms: overrides.uring_sqpoll_idle_ms.unwrap_or(0),
            direct_read: parse::switch(env, "KVIKIO_AUTO_DIRECT_IO_READ")?.unwrap_or(false),
            direct_write: parse::switch(env, "KVIKIO_AUTO_DIRECT_IO_WRITE")?.unwrap_or(true),
            direct_overread: parse::switch(env, "KVIKIO_AUTO_DIRECT_IO_READ_OVERREAD")?.unwrap_or(false),
            verbose: parse::switch(env, "KVIKIO_REMOTE_VERBOSE")?.unwrap_or(false),
        })
    }

    /// [`Config::resolve`] in the process's environment.
    ///
    /// # Errors
    /// As [`Config::resolve`].
    pub fn from_env(overrides: &Overrides) -> Result<Config> {
        Config::resolve(overrides, &|name| std::env::var_os(name))
    }
}

/// The time limit that an option asks for in milliseconds, else the default.
fn timeout(option: &'static str, given_ms: Option<u32>, default_s: u32) -> Result<Option<Duration>> {
    let limit = Number { variables: &[], option, range: 1..=UNLIMITED, unit: " (milliseconds; the largest: no limit)" };
    Ok(match limit.check(given_ms)? {
        Some(UNLIMITED) => None,
        Some(ms) => Some(Duration::from_millis(ms.into())),
        None => Some(Duration::from_secs(default_s.into())),
    })
}

/// The cap on pinned memory: with less than one bounce buffer no device read could ever start.
fn max_pinned_bytes(given: Option<u64>, bounce_buffer_size: u64) -> Result<u64> {
    match given {
        Some(bytes) if bytes < bounce_buffer_size => Err(parse::bad(
            "option max_pinned_bytes",
            &bytes.to_string(),
            &format!("at least one bounce buffer ({bounce_buffer_size} bytes; see bounce_buffer_size)"),
        )),
        Some(bytes) => Ok(bytes),
        None => Ok(bounce_buffer_size.max(256 << 20)),
    }
}

#[cfg(test)]
mod tests;
