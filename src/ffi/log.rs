//! Log
//!
//! RaskIO is silent unless it is asked: by a hook, or without one by the environment (RUST_LOG,
//! KVIKIO_REMOTE_VERBOSE), and then it writes to standard error. It never writes to standard output.

use super::status::raskio_status;
use super::{bare_status, options};
use crate::error::Result;
use crate::log::{Hook, set_hook};
use crate::op::call_host;
use std::ffi::{c_char, c_void};

/// Something failed.
pub const RASKIO_LOG_ERROR: u32 = 1;
/// Something is wrong that RaskIO can live with.
pub const RASKIO_LOG_WARN: u32 = 2;
/// What was done.
pub const RASKIO_LOG_INFO: u32 = 3;
/// How it was decided: what is passed over, tried otherwise, moved. What goes over the wire is KVIKIO_REMOTE_VERBOSE's matter;
/// a retry is a warning.
pub const RASKIO_LOG_DEBUG: u32 = 4;
/// Everything.
pub const RASKIO_LOG_TRACE: u32 = 5;

/// One record. Valid during the hook only.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_log_record {
    /// sizeof(raskio_log_record) as the library knows it.
    pub struct_size: usize,
    /// RASKIO_LOG_*.
    pub level: u32,
    /// Line in RaskIO's source. 0: unknown.
    pub line: u32,
    /// Which part of RaskIO speaks: UTF-8, not NUL-ended, target_size bytes.
    pub target: *const c_char,
    /// Bytes of target.
    pub target_size: usize,
    /// What it says: UTF-8, not NUL-ended, message_size bytes, free of secrets.
    pub message: *const c_char,
    /// Bytes of message.
    pub message_size: usize,
}

/// Receives the log. Called from any thread, also from several at once. Blocking calls return WOULD_DEADLOCK inside,
/// and what RaskIO would log while inside is dropped. Be brief, do not throw and do not end the thread.
pub type raskio_log_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, record: *const raskio_log_record)>;

/// Sets, replaces or removes the hook of the whole process. Returns when no thread is inside the old hook, whose
/// user_data may then be freed. Any thread.
///
/// hook: NULL removes the hook.
/// user_data: handed to the hook.
/// max_level: RASKIO_LOG_*; records of a larger number are not made. Ignored when hook is NULL.
///
/// INVALID_ARGUMENT: max_level is none of RASKIO_LOG_*. WOULD_DEADLOCK: called from inside a hook.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_set_log_hook(
    hook: raskio_log_fn,
    user_data: *mut c_void,
    max_level: u32,
) -> raskio_status {
    bare_status(|| match hook {
        None => set_hook(None, ::log::LevelFilter::Off),
        Some(hook) => set_hook(Some(wrap(hook, user_data)), level(max_level)?),
    })
}

fn level(max_level: u32) -> Result<::log::LevelFilter> {
    use ::log::LevelFilter;
    options::choice(
        "max_level",
        max_level,
        &[
            (RASKIO_LOG_ERROR, "RASKIO_LOG_ERROR", LevelFilter::Error),
            (RASKIO_LOG_WARN, "RASKIO_LOG_WARN", LevelFilter::Warn),
            (RASKIO_LOG_INFO, "RASKIO_LOG_INFO", LevelFilter::Info),
            (RASKIO_LOG_DEBUG, "RASKIO_LOG_DEBUG", LevelFilter::Debug),
            (RASKIO_LOG_TRACE, "RASKIO_LOG_TRACE", LevelFilter::Trace),
        ],
    )
}

fn wrap(hook: unsafe extern "C" fn(*mut c_void, *const raskio_log_record), user_data: *mut c_void) -> Hook {
    struct HostHook(unsafe extern "C" fn(*mut c_void, *const raskio_log_record), *mut c_void);
    // SAFETY: the C contract: a hook may be called with its user data from any thread, from several at once.
    unsafe impl Send for HostHook {}
    // SAFETY: as above.
    unsafe impl Sync for HostHook {}
    impl HostHook {
        fn call(&self, record: &::log::Record<'_>) {
            let formatted;
            let message = match record.args().as_str() {
                Some(literal) => literal,
                None => {
                    formatted = record.args().to_string();
                    &formatted
                }
            };
            let record = raskio_log_record {
                struct_size: size_of::<raskio_log_record>(),
                level: record.level() as u32,
                line: record.line().unwrap_or(0),
                target: record.target().as_ptr().cast(),
                target_size: record.target().len(),
                message: message.as_ptr().cast(),
                message_size: message.len(),
            };
            // SAFETY: the caller promised a function that takes this user data; the record outlives the call.
            call_host(|| unsafe { (self.0)(self.1, &record) });
        }
    }
    let hook = HostHook(hook, user_data);
    Box::new(move |record| hook.call(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_log_crate() {
        for number in 1..=5 {
            assert_eq!(level(number).unwrap() as u32, number);
        }
        for number in [0, 6, u32::MAX] {
            assert!(level(number).unwrap_err().message().contains("RASKIO_LOG_TRACE (5)"));
        }
    }
}
