//! What the system lets this process have, and what to do at the end of it.

use crate::error::Error;

/// The soft limit of open files, `None` if there is none.
pub fn open_file_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: one writable rlimit is passed.
    let outcome = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (outcome == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// What to do where there is no descriptor left.
pub fn out_of_files(made: Error) -> Error {
    match made.os_code() {
        libc::EMFILE => {
            let limit = open_file_limit().map_or_else(String::new, |limit| format!(", {limit}"));
            made.note(format_args!(
                "this process has as many files open as it may (RLIMIT_NOFILE{limit}); release objects and clients that are not \
                 needed, or raise it with ulimit -n"
            ))
        }
        libc::ENFILE => made.note("the system has as many files open as it may; see the sysctl fs.file-max"),
        _ => made,
    }
}

/// The soft limit of bytes that may be locked in memory, `None` if there is none.
pub fn memory_lock_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: one writable rlimit is passed.
    let outcome = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (outcome == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}
