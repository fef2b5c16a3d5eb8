//! Whether this kernel has io_uring for us, and the best kind of it.

use super::Options;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::limits::{memory_lock_limit, out_of_files};
use crate::sys::mem::page_size;
use io_uring::{IoUring, Probe, opcode};
use std::io;

/// The kernel's limit.
const MOST_ENTRIES: u32 = 32_768;

/// A ring of these options, for the calling thread alone.
pub(super) fn build(options: Options) -> Result<IoUring> {
    let ring = best(options).map_err(|error| refused(&error, entries(options)))?;
    let mut probe = Probe::new();
    let asked = ring.submitter().register_probe(&mut probe);
    match &asked {
        // The kernel does not know the question.
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(forbidden("io_uring_register", error)),
        _ => {}
    }
    let needed = [
        ("READ", opcode::Read::CODE),
        ("WRITE", opcode::Write::CODE),
        ("READ_FIXED", opcode::ReadFixed::CODE),
        ("WRITE_FIXED", opcode::WriteFixed::CODE),
        ("FSYNC", opcode::Fsync::CODE),
        ("POLL_ADD", opcode::PollAdd::CODE),
    ];
    match needed.iter().find(|(_, code)| asked.is_err() || !probe.is_supported(*code)) {
        None => works(ring),
        Some((name, _)) => Err(Error::new(
            ErrorKind::Unsupported,
            format!("this kernel's io_uring has no {name} (Linux 5.6 and later have it)"),
        )),
    }
}

/// A sandbox may let a ring be made and forbid its use: whether one submission comes back.
fn works(mut ring: IoUring) -> Result<IoUring> {
    let nothing = opcode::Nop::new().build();
    // SAFETY: it lends no memory. The queue is empty, so there is room.
    let _ = unsafe { ring.submission().push(&nothing) };
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => break,
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(forbidden("io_uring_enter", &error)),
        }
    }
    ring.completion().for_each(drop);
    Ok(ring)
}

/// Whether a ring of these options can be had.
///
/// # Errors
/// Why not: UNSUPPORTED, PERMISSION_DENIED, OUT_OF_MEMORY.
pub fn probe(options: Options) -> Result<()> {
    build(options).map(drop)
}

/// Places for submissions.
fn entries(options: Options) -> u32 {
    // One more for the poll of the wake-up.
    (options.depth + 1).next_power_of_two().min(MOST_ENTRIES)
}

fn best(options: Options) -> io::Result<IoUring> {
    let entries = entries(options);
    if options.sqpoll_idle_ms > 0 {
        // The kernel's thread does the work: nothing can be deferred to ours.
        return IoUring::builder().dontfork().setup_sqpoll(options.sqpoll_idle_ms).build(entries);
    }
    // Linux 6.1: one thread submits, and finishes what the kernel would have interrupted it for.
    let deferred = IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(entries);
    match deferred {
        // Linux 5.19, then any.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let coop = IoUring::builder().dontfork().setup_coop_taskrun().build(entries);
            match coop {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    IoUring::builder().dontfork().build(entries)
                }
                other => other,
            }
        }
        other => other,
    }
}

/// Rings that a client with one block device makes: one to see whether it can, which the kernel may still count when it makes the
/// device's.
const FIRST_RINGS: u64 = 2;

/// Memory that the kernel takes for a ring of so many entries, in bytes, at most. Some kernels count it as locked: before Linux 5.12 two
/// pieces, each of pages whose number is a power of two (`ring_pages` of `io_uring.c`); Linux 6.18 the pages themselves, which are fewer.
fn locked_bytes(entries: u32) -> u64 {
    let (page, entries) = (page_size() as u64, u64::from(entries));
    let pages = |bytes: u64| bytes.div_ceil(page).next_power_of_two();
    // The heads, which take less than 512 bytes, twice as many completions of 16 bytes, and indices of 4; then submissions of 64.
    (pages(512 + 2 * 16 * entries + 4 * entries) + pages(64 * entries)) * page
}

/// Why there is none, for people.
fn refused(error: &io::Error, entries: u32) -> Error {
    let made = Error::os("io_uring_setup", error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
            match setting.trim() {
                "1" | "2" => made.note(format_args!("kernel.io_uring_disabled is {}", setting.trim())),
                _ => forbidden("io_uring_setup", error),
            }
        }
        Some(libc::ENOSYS) => made.note("this kernel has no io_uring, or a sandbox hides it"),
        Some(libc::ENOMEM) => match memory_lock_limit() {
            Some(limit) => made.note(format_args!(
                "the memory of rings counts as locked: up to {} bytes are to be locked for the first {FIRST_RINGS}, beside what the \
                 user's other rings have, {limit} bytes may be (RLIMIT_MEMLOCK); raise it with ulimit -l or LimitMEMLOCK=, or lower \
                 uring_queue_depth",
                FIRST_RINGS * locked_bytes(entries)
            )),
            None => made.note("the system is short of memory"),
        },
        _ => out_of_files(made),
    }
}

/// A call that a sandbox may forbid.
fn forbidden(call: &str, error: &io::Error) -> Error {
    let made = Error::os(call, error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            made.note("a sandbox forbids it: seccomp, as containers set it up, or a security module")
        }
        _ => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_may_not_be_locked_is_told_with_what_it_takes_and_what_may_be() {
        // As Linux 5.4 counts it with pages of 4 KiB: 256 entries are 16 KiB of submissions, and 10 KiB beside.
        if page_size() == 4096 {
            assert_eq!((locked_bytes(256), locked_bytes(1)), (32 << 10, 8 << 10));
        }
        let error = refused(&io::Error::from_raw_os_error(libc::ENOMEM), 256);
        assert_eq!((error.kind(), error.os_code()), (ErrorKind::OutOfMemory, libc::ENOMEM));
        if let Some(limit) = memory_lock_limit() {
            for word in
                ["RLIMIT_MEMLOCK", &format!("{limit} bytes may be"), &format!("{} bytes are", 2 * locked_bytes(256))]
            {
                assert!(error.message().contains(word), "{error}");
            }
        }
    }
}
