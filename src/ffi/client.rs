//! Clients
//!
//! Settings come from three places, the later one wins: the default, the environment (the variable named at
//! the option), the option. Options are numbers of which zero means "not set here".

use super::error::raskio_error;
use super::events::{self, raskio_event_fn};
use super::options::{self, Versioned};
use super::secrets::{raskio_bearer_fn, raskio_credentials_fn};
use super::status::raskio_status;
use super::{handle, null, secrets, status, value};
use crate::client::{Client, Hooks};
use crate::config::{Backend, Concurrency, Config, Dispatch, LocalBackend, Overrides};
use crate::endpoint::site::Host;
use crate::error::{Error, Result};
use crate::op::call_host;
use crate::sys::cuda::PinnedPool;
use std::ffi::c_void;
use std::time::Duration;

pub use super::handle::raskio_client;

/// KVIKIO_REMOTE_IO_BACKEND, and without it EASY_THREADPOOL.
pub const RASKIO_BACKEND_AUTO: u32 = 0;
/// num_threads threads, one request each.
pub const RASKIO_BACKEND_EASY_THREADPOOL: u32 = 1;
/// num_reactors threads, many requests each: the fast one.
pub const RASKIO_BACKEND_MULTI_POLL: u32 = 2;
/// KVIKIO_REMOTE_IO_REACTOR_DISPATCH, and without it PER_CHUNK.
pub const RASKIO_DISPATCH_AUTO: u32 = 0;
/// The requests of one read are spread over the reactors.
pub const RASKIO_DISPATCH_PER_CHUNK: u32 = 1;
/// All requests of one read stay on one reactor.
pub const RASKIO_DISPATCH_PER_PREAD: u32 = 2;
/// RASKIO_CONCURRENCY, and without it ADAPTIVE.
pub const RASKIO_CONCURRENCY_AUTO: u32 = 0;
/// As many requests in flight as bring bytes, at most max_concurrent_requests: what a path can use is found out while
/// reading. A fast network is not slowed down by hundreds of connections, and a slow store gets the many that it needs.
pub const RASKIO_CONCURRENCY_ADAPTIVE: u32 = 1;
/// max_concurrent_requests requests in flight whenever there are so many.
pub const RASKIO_CONCURRENCY_FIXED: u32 = 2;
/// RASKIO_HEDGING, and without it OFF.
pub const RASKIO_HEDGING_AUTO: u32 = 0;
/// Every request is sent once, and again only if it failed.
pub const RASKIO_HEDGING_OFF: u32 = 1;
/// A request of MULTI_POLL that takes longer than all but 1 in 40 of its size from the same server is sent once more, on
/// another connection, and the first answer counts: for servers that are slow now and then. At most 2.5 % more
/// requests; a second one needs a buffer of a request's size, in host memory.
pub const RASKIO_HEDGING_ON: u32 = 2;
/// RASKIO_LOCAL_BACKEND (AUTO, URING or PREAD), and without it io_uring where the kernel allows it, else pread: then a warning in
/// the log says why.
pub const RASKIO_LOCAL_AUTO: u32 = 0;
/// io_uring: without it raskio_object_open of a local file fails.
pub const RASKIO_LOCAL_URING: u32 = 1;
/// pread and pwrite on up to num_threads threads.
pub const RASKIO_LOCAL_PREAD: u32 = 2;
/// No limit: for max_concurrent_requests and for every time in milliseconds.
pub const RASKIO_UNLIMITED: u32 = u32::MAX;

/// How a client works. Zero all of it, set struct_size, then what you want to set. Copied before the call returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_client_options {
    /// sizeof(raskio_client_options).
    pub struct_size: usize,
    /// RASKIO_BACKEND_*. KVIKIO_REMOTE_IO_BACKEND; default EASY_THREADPOOL.
    pub backend: u32,
    /// RASKIO_DISPATCH_*, for MULTI_POLL. KVIKIO_REMOTE_IO_REACTOR_DISPATCH; default PER_CHUNK.
    pub reactor_dispatch: u32,
    /// Reactor threads of MULTI_POLL, 1 to 1024. KVIKIO_REMOTE_IO_NUM_REACTORS; default 1.
    pub num_reactors: u32,
    /// Threads of EASY_THREADPOOL, at least 1, and at most those for local files. KVIKIO_NTHREADS; default 16.
    pub num_threads: u32,
    /// Requests in flight at most, one budget over all reactors; RASKIO_UNLIMITED: no limit.
    /// KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS (there 0 is no limit); default 256. A reactor keeps as many connections, but at
    /// least 64, unless that is more than the open-file limit bears over all reactors.
    pub max_concurrent_requests: u32,
    /// Attempts of one request, the first included; 1: never retry. KVIKIO_HTTP_MAX_ATTEMPTS; default 3.
    pub max_attempts: u32,
    /// Bytes of one request: a larger read is split. KVIKIO_TASK_SIZE; default 4194304.
    pub task_size: u64,
    /// Milliseconds for name look-up, connect and TLS handshake together; RASKIO_UNLIMITED: no limit. Default 10000.
    pub connect_timeout_ms: u32,
    /// Milliseconds without a byte that end an attempt; RASKIO_UNLIMITED: no limit. Default 30000.
    pub stall_timeout_ms: u32,
    /// Milliseconds for one attempt as a whole; RASKIO_UNLIMITED: no limit. KVIKIO_HTTP_TIMEOUT, in seconds there;
    /// default 60000.
    pub request_timeout_ms: u32,
    /// Threads that run callbacks. Default 0: callbacks run on the thread that finished the work.
    pub callback_threads: u32,
    /// The HTTP statuses that are worth a retry, retry_status_count of them; NULL: not set here. Not NULL with a
    /// count of 0: none is. KVIKIO_HTTP_STATUS_CODES; default 408, 429, 500, 502, 503, 504. A 408 on a connection that was
    /// used before, without Retry-After, is how some servers close what is idle: up to three of a request are repeated at
    /// once, whatever stands here, and use up no attempt.
    pub retry_status: *const u16,
    /// Entries of retry_status.
    pub retry_status_count: usize,
    /// Bytes of one pinned buffer, for device reads. KVIKIO_BOUNCE_BUFFER_SIZE; default 16777216.
    pub bounce_buffer_size: u64,
    /// Bytes pinned at most for each CUDA context, for device reads. Default 268435456, or one buffer if that is more.
    pub max_pinned_bytes: u64,
    /// The host's own pool of pinned memory, for device reads: returns size bytes that CUDA has pinned (for every context,
    /// if the client reads into several), or NULL. Set together with pinned_free. Runs on a RaskIO thread, under the rules
    /// of raskio_done_fn, with the CUDA context current that the buffer is for.
    pub pinned_alloc: Option<unsafe extern "C" fn(user_data: *mut c_void, size: usize) -> *mut c_void>,
    /// Gives back what pinned_alloc gave, under the same rules; without a current context if that is gone, or broken.
    pub pinned_free: Option<unsafe extern "C" fn(user_data: *mut c_void, memory: *mut c_void, size: usize)>,
    /// RASKIO_LOCAL_*: how local files are read and written. Nothing is started for them before the first one is opened.
    /// RASKIO_LOCAL_BACKEND; default AUTO.
    pub local_backend: u32,
    /// Reads and writes of local files in flight for each block device, which has an io_uring of its own: 1 to 32768, and no
    /// more than max_concurrent_requests. No variable; default 128.
    pub uring_queue_depth: u32,
    /// Milliseconds after which an idle thread of the kernel's sleeps, which takes what is submitted to an io_uring without a system
    /// call. It costs a whole core while it is awake. Default 0: no such thread.
    pub uring_sqpoll_idle_ms: u32,
    /// RASKIO_CONCURRENCY_*, for MULTI_POLL. RASKIO_CONCURRENCY; default ADAPTIVE.
    pub concurrency: u32,
    /// S3 credentials from the host, instead of environment, files and services; called with user_data. May be NULL.
    pub credentials: raskio_credentials_fn,
    /// Called once with user_data, on a RaskIO thread, as the last callback of this client: when it is shut down, or
    /// when it ends because nothing refers to it any more. May be NULL.
    pub on_shut_down: Option<unsafe extern "C" fn(user_data: *mut c_void)>,
    /// Handed to the callbacks of this struct.
    pub user_data: *mut c_void,
    /// CUDA events kept for each context while they are not used. Default 1024.
    pub max_free_events: u32,
    /// RASKIO_HEDGING_*, for MULTI_POLL. RASKIO_HEDGING; default OFF.
    pub hedging: u32,
    /// Bearer tokens from the host, for objects that ask for them; called with user_data. May be NULL.
    pub bearer: raskio_bearer_fn,
    /// Told of operations, retries and new connections; called with user_data. May be NULL.
    pub on_event: raskio_event_fn,
}

// SAFETY: repr(C), struct_size first, integers, pointers and optional functions without padding (asserted in layout.rs).
unsafe impl Versioned for raskio_client_options {
    const NAME: &'static str = "raskio_client_options";
    const VERSION_1: usize = 152;
}

/// Makes a client and starts its threads. Does no network I/O. Any thread, callbacks included.
///
/// options: NULL for the environment's settings and the defaults.
/// client_out: receives the client, which must eventually be given to raskio_client_release.
/// error_out: may be NULL; receives an error that must eventually be given to raskio_error_free, or NULL on success.
///
/// INVALID_ARGUMENT: an option or a variable has a bad value; the message names it, its value and what is allowed.
/// UNSUPPORTED: an option that this version does not have; or the libcurl in use lacks what is needed. IO: the system
/// has no threads or files left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_client_new(
    options: *const raskio_client_options,
    client_out: *mut *mut raskio_client,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract: pointers are NULL or valid; options hold struct_size bytes and what they point to.
    unsafe {
        status(error_out, || {
            if client_out.is_null() {
                return Err(null("client_out", "a place for the client"));
            }
            let options = options::read(options)?;
            let overrides = options.as_ref().map_or_else(|| Ok(Overrides::default()), |options| overrides(options))?;
            let hooks = options.map(hooks).unwrap_or_default();
            let client = Client::with(Config::from_env(&overrides)?, hooks)?;
            client_out.write(handle::into_raw(client));
            Ok(())
        })
    }
}

/// The client of the whole process, made on first use from the environment alone; every caller gets the same one. A
/// child process gets one of its own. Any thread, callbacks included.
///
/// client_out: receives a reference that must eventually be given to raskio_client_release. The client itself lives
/// on.
/// error_out: may be NULL; as for raskio_client_new.
///
/// INVALID_ARGUMENT, UNSUPPORTED: as for raskio_client_new. SHUT_DOWN is never returned here: a shut-down default
/// client is handed out as it is, and its calls say SHUT_DOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_client_default(
    client_out: *mut *mut raskio_client,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract.
    unsafe {
        status(error_out, || {
            if client_out.is_null() {
                return Err(null("client_out", "a place for the client"));
            }
            client_out.write(handle::into_raw(Client::process_default()?));
            Ok(())
        })
    }
}

/// Adds a reference, which must eventually be given to raskio_client_release. Returns its argument. Any thread; never
/// blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_client_acquire(client: *mut raskio_client) -> *mut raskio_client {
    // SAFETY: NULL, or a client that the caller holds.
    unsafe { handle::acquire(client) }
}

/// Gives a reference back. Never blocks and never cancels: the client ends when no reference, no object and no
/// running operation is left. Any thread, callbacks included; in a forked child it does nothing. NULL is accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_client_release(client: *mut raskio_client) {
    value((), || {
        // SAFETY: NULL, or a reference that the caller gives up.
        unsafe { handle::release(client) };
        Ok(())
    });
}

/// Ends every operation with SHUT_DOWN, each through its callback, stops the threads, and waits for both. Afterwards
/// the client and its objects refuse work with SHUT_DOWN; their handles must still be released. May be called again,
/// from any thread, also while another one is inside it. Blocks, so not from a callback. A thread that the system has kept
/// inside opening a local file for 2 s, or asking for its size, is not waited for: it holds nothing of the caller's.
///
/// timeout_ms: how long to wait; RASKIO_UNLIMITED: until it is done; 0: start it and look.
/// error_out: may be NULL; as for raskio_client_new.
///
/// TIMED_OUT: not everything has ended yet; the end goes on by itself, and a later call can wait for the rest.
/// WOULD_DEADLOCK: called from inside a callback. FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_client_shut_down(
    client: *mut raskio_client,
    timeout_ms: u32,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract.
    unsafe { status(error_out, || handle::get(client, "client")?.shut_down(timeout(timeout_ms))) }
}

/// Gives back idle memory and closes idle connections. A hint: it never fails, does not wait, and does nothing in a
/// forked child or for NULL. Any thread, callbacks included.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_client_trim(client: *mut raskio_client) {
    value((), || {
        // SAFETY: NULL, or a client that the caller holds.
        unsafe { handle::get(client, "client") }?.trim();
        Ok(())
    });
}

/// A time limit as C gives it.
pub(super) fn timeout(milliseconds: u32) -> Option<Duration> {
    (milliseconds != RASKIO_UNLIMITED).then(|| Duration::from_millis(milliseconds.into()))
}

/// What the options set, and nothing that this version lacks.
///
/// # Safety
/// `retry_status` is NULL or holds `retry_status_count` numbers.
unsafe fn overrides(options: &raskio_client_options) -> Result<Overrides> {
    /// 100 to 599.
    const MOST_STATUSES: usize = 500;
    const BACKENDS: [(u32, &str, Option<Backend>); 3] = [
        (RASKIO_BACKEND_AUTO, "RASKIO_BACKEND_AUTO", None),
        (RASKIO_BACKEND_EASY_THREADPOOL, "RASKIO_BACKEND_EASY_THREADPOOL", Some(Backend::EasyThreadpool)),
        (RASKIO_BACKEND_MULTI_POLL, "RASKIO_BACKEND_MULTI_POLL", Some(Backend::MultiPoll)),
    ];
    const DISPATCHES: [(u32, &str, Option<Dispatch>); 3] = [
        (RASKIO_DISPATCH_AUTO, "RASKIO_DISPATCH_AUTO", None),
        (RASKIO_DISPATCH_PER_CHUNK, "RASKIO_DISPATCH_PER_CHUNK", Some(Dispatch::PerChunk)),
        (RASKIO_DISPATCH_PER_PREAD, "RASKIO_DISPATCH_PER_PREAD", Some(Dispatch::PerPread)),
    ];
    const CONCURRENCIES: [(u32, &str, Option<Concurrency>); 3] = [
        (RASKIO_CONCURRENCY_AUTO, "RASKIO_CONCURRENCY_AUTO", None),
        (RASKIO_CONCURRENCY_ADAPTIVE, "RASKIO_CONCURRENCY_ADAPTIVE", Some(Concurrency::Adaptive)),
        (RASKIO_CONCURRENCY_FIXED, "RASKIO_CONCURRENCY_FIXED", Some(Concurrency::Fixed)),
    ];
    const HEDGINGS: [(u32, &str, Option<bool>); 3] = [
        (RASKIO_HEDGING_AUTO, "RASKIO_HEDGING_AUTO", None),
        (RASKIO_HEDGING_OFF, "RASKIO_HEDGING_OFF", Some(false)),
        (RASKIO_HEDGING_ON, "RASKIO_HEDGING_ON", Some(true)),
    ];
    const LOCALS: [(u32, &str, Option<LocalBackend>); 3] = [
        (RASKIO_LOCAL_AUTO, "RASKIO_LOCAL_AUTO", None),
        (RASKIO_LOCAL_URING, "RASKIO_LOCAL_URING", Some(LocalBackend::Uring)),
        (RASKIO_LOCAL_PREAD, "RASKIO_LOCAL_PREAD", Some(LocalBackend::Pread)),
    ];
    let pinned_pool = match (options.pinned_alloc, options.pinned_free) {
        (None, None) => None,
        (Some(alloc), Some(free)) => Some(PinnedPool { alloc, free, user_data: options.user_data }),
        (Some(_), None) => return Err(null("pinned_free", "the function that takes back what pinned_alloc gave")),
        (None, Some(_)) => return Err(null("pinned_alloc", "the function that gives what pinned_free takes back")),
    };
    let retry_status = match (options.retry_status.is_null(), options.retry_status_count) {
        (true, 0) => None,
        (true, count) => return Err(null("retry_status", &format!("an array of {count} HTTP statuses"))),
        (false, count) if count > MOST_STATUSES => {
            return Err(Error::invalid(format!(
                "retry_status_count is {count}; there are no more than {MOST_STATUSES} HTTP statuses"
            )));
        }
        // SAFETY: promised by the caller, and the count is small.
        (false, count) => Some(unsafe { std::slice::from_raw_parts(options.retry_status, count) }.to_vec()),
    };
    Ok(Overrides {
        backend: options::choice("backend", options.backend, &BACKENDS)?,
        dispatch: options::choice("reactor_dispatch", options.reactor_dispatch, &DISPATCHES)?,
        num_reactors: options::set(options.num_reactors),
        num_threads: options::set(options.num_threads),
        max_concurrent_requests: options::set(options.max_concurrent_requests),
        concurrency: options::choice("concurrency", options.concurrency, &CONCURRENCIES)?,
        hedging: options::choice("hedging", options.hedging, &HEDGINGS)?,
        max_attempts: options::set(options.max_attempts),
        task_size: options::set(options.task_size),
        connect_timeout_ms: options::set(options.connect_timeout_ms),
        stall_timeout_ms: options::set(options.stall_timeout_ms),
        request_timeout_ms: options::set(options.request_timeout_ms),
        callback_threads: options::set(options.callback_threads),
        retry_status,
        bounce_buffer_size: options::set(options.bounce_buffer_size),
        max_pinned_bytes: options::set(options.max_pinned_bytes),
        max_free_events: options::set(options.max_free_events),
        pinned_pool,
        local_backend: options::choice("local_backend", options.local_backend, &LOCALS)?,
        uring_queue_depth: options::set(options.uring_queue_depth),
        uring_sqpoll_idle_ms: options::set(options.uring_sqpoll_idle_ms),
    })
}

fn hooks(options: raskio_client_options) -> Hooks {
    let secrets = Host {
        keys: secrets::host_keys(options.credentials, options.user_data),
        bearer: secrets::host_bearer(options.bearer, options.user_data),
    };
    let listener = events::listener(options.on_event, options.user_data);
    Hooks { on_shut_down: on_shut_down(options), secrets, listener, env: None }
}

/// The host's last callback, ready to be called from a RaskIO thread.
fn on_shut_down(options: raskio_client_options) -> Option<Box<dyn FnOnce() + Send>> {
    struct Last(unsafe extern "C" fn(*mut c_void), *mut c_void);
    // SAFETY: the C contract: callbacks and their user data may be used from RaskIO's threads.
    unsafe impl Send for Last {}
    impl Last {
        fn call(self) {
            // SAFETY: the caller promised a function that takes this user data, once, until it has been called.
            call_host(|| unsafe { (self.0)(self.1) });
        }
    }
    let last = Last(options.on_shut_down?, options.user_data);
    Some(Box::new(move || last.call()))
}
