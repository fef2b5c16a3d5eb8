//! Logging: the `log` crate's records to the host's hook, or to `env_logger` when the environment asks for it.
//!
//! Silent unless a hook is set, RUST_LOG is set, or KVIKIO_REMOTE_VERBOSE is on; never on stdout. A forked child starts
//! without its parent's hook, whose locks a thread of the parent may hold, but with the environment's wishes.

use crate::error::{Error, ErrorKind, Result};
use crate::op::call_host;
use crate::sys::per_process::PerProcess;
use crate::sys::stderr::Stderr;
use log::{LevelFilter, Log, Metadata, Record};
use std::cell::Cell;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

/// The target of every record that RaskIO itself makes.
pub const TARGET: &str = "raskio";

/// The host's log hook.
pub type Hook = Box<dyn Fn(&Record<'_>) + Send + Sync>;

/// Sets or, with `None`, removes the hook. Returns when no thread is inside the old one. Records that are made while a
/// thread is inside the hook, by whatever it calls, are dropped.
///
/// # Errors
/// WOULD_DEADLOCK from inside a hook. UNSUPPORTED where a Rust program that links this crate has a logger of its own.
pub fn set_hook(hook: Option<Hook>, max_level: LevelFilter) -> Result<()> {
    if IN_HOOK.get() {
        return Err(Error::new(
            ErrorKind::WouldDeadlock,
            "the log hook cannot be changed from inside the log hook: the call would wait for itself; \
             change it from another place",
        ));
    }
    if !install() {
        return if hook.is_none() { Ok(()) } else { Err(foreign_logger()) };
    }
    let state = state();
    let hook = hook.map(|call| Installed { call, max_level });
    let old = {
        let mut current = state.hook.write().unwrap_or_else(PoisonError::into_inner);
        state.publish_level(|level| *level = hook.as_ref().map(|hook| hook.max_level));
        std::mem::replace(&mut *current, hook)
    };
    // Outside the lock: what the hook captured is the host's, and may log as it goes.
    drop(old);
    Ok(())
}

/// Installs the logger; cheap after the first time. `verbose`: KVIKIO_REMOTE_VERBOSE. Where a Rust program that links
/// this crate has a logger of its own, that one gets the records.
pub fn init(verbose: bool) {
    if !install() {
        return;
    }
    let state = state();
    if verbose && state.for_verbose.get().is_none() {
        state.for_verbose.get_or_init(|| env_logger(true));
        state.publish_level(|_| {});
    }
}

struct Logger {
    /// Gives the static an address of its own, by which `install` knows it.
    _not_empty: u8,
}

static LOGGER: Logger = Logger { _not_empty: 0 };
static STATE: PerProcess<State> = PerProcess::new();

thread_local! {
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

struct Installed {
    call: Hook,
    max_level: LevelFilter,
}

struct State {
    /// Read while a thread is inside the hook, so that the writer waits for it.
    hook: RwLock<Option<Installed>>,
    /// The hook's level while there is a hook. Its own lock, because `init` may be called from inside the hook. Taken
    /// after `hook`, and never held while foreign code runs.
    hook_level: Mutex<Option<LevelFilter>>,
    /// What RUST_LOG alone asks for.
    for_rust_log: Option<env_logger::Logger>,
    /// What RUST_LOG and KVIKIO_REMOTE_VERBOSE together ask for, once a verbose client exists.
    for_verbose: OnceLock<Option<env_logger::Logger>>,
}

impl State {
    fn new() -> State {
        State {
            hook: RwLock::new(None),
            hook_level: Mutex::new(None),
            for_rust_log: env_logger(false),
            for_verbose: OnceLock::new(),
        }
    }

    fn env_logger(&self) -> Option<&env_logger::Logger> {
        self.for_verbose.get().unwrap_or(&self.for_rust_log).as_ref()
    }

    /// Changes the hook's level, and keeps the `log` crate's filter in step with whoever gets the records.
    fn publish_level(&self, change: impl FnOnce(&mut Option<LevelFilter>)) {
        let mut hook_level = self.hook_level.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut hook_level);
        let from_env = || self.env_logger().map_or(LevelFilter::Off, env_logger::Logger::filter);
        log::set_max_level(hook_level.unwrap_or_else(from_env));
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        if IN_HOOK.get() {
            return false;
        }
        let state = state();
        let hook = state.hook.read().unwrap_or_else(PoisonError::into_inner);
        match &*hook {
            Some(hook) => metadata.level() <= hook.max_level,
            None => state.env_logger().is_some_and(|logger| logger.enabled(metadata)),
        }
    }

    fn log(&self, record: &Record<'_>) {
        if IN_HOOK.get() {
            return;
        }
        let state = state();
        let hook = state.hook.read().unwrap_or_else(PoisonError::into_inner);
        let Some(hook) = &*hook else {
            if let Some(logger) = state.env_logger() {
                logger.log(record);
            }
            return;
        };
        if record.level() <= hook.max_level {
            // call_host survives a panic, so the flag is always cleared.
            IN_HOOK.set(true);
            call_host(|| (hook.call)(record));
            IN_HOOK.set(false);
        }
    }

    fn flush(&self) {}
}

fn state() -> &'static State {
    let (state, made) = STATE.get_or_make(State::new);
    if made {
        state.publish_level(|_| {});
    }
    state
}

/// Makes [`LOGGER`] the `log` crate's logger, unless another one came first; whether it is.
fn install() -> bool {
    let ours = || std::ptr::addr_eq(log::logger(), &raw const LOGGER);
    ours() || log::set_logger(&LOGGER).is_ok() || ours()
}

/// The logger that the environment asks for. KVIKIO_REMOTE_VERBOSE is a wish for RaskIO's debug records, which RUST_LOG
/// can refine.
fn env_logger(verbose: bool) -> Option<env_logger::Logger> {
    let rust_log = std::env::var("RUST_LOG").ok().filter(|spec| !spec.trim().is_empty());
    if rust_log.is_none() && !verbose {
        return None;
    }
    let mut builder = env_logger::Builder::new();
    builder.target(env_logger::Target::Pipe(Box::new(Stderr)));
    if verbose {
        builder.filter_module(TARGET, LevelFilter::Debug);
    }
    if let Some(spec) = rust_log {
        builder.parse_filters(&spec);
    }
    Some(builder.build())
}

fn foreign_logger() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this program has set a logger of its own through the log crate, which gets RaskIO's records already; \
         a log hook needs the place that it holds",
    )
}

#[cfg(test)]
mod tests;
