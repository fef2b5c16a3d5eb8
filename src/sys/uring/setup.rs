//! Whether this kernel has io_uring for us, and the best kind of it.

use super::Options;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::process::memory_lock_limit;
use io_uring::{IoUring, Probe, opcode};
use std::io;

/// The kernel's limit.
const MOST_ENTRIES: u32 = 32_768;

/// A ring of these options, for the calling thread alone.
pub(super) fn build(options: Options) -> Result<IoUring> {
    let ring = best(options).map_err(|error| refused(&error))?;
    let mut probe = Probe::new();
    let asked = ring.submitter().register_probe(&mut probe);
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
            Err(error) => return Err(Error::os("io_uring_enter", &error)),
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

fn best(options: Options) -> io::Result<IoUring> {
    // One more for the poll of the wake-up.
    let entries = (options.depth + 1).next_power_of_two().min(MOST_ENTRIES);
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

/// Why there is none, for people.
fn refused(error: &io::Error) -> Error {
    let made = Error::os("io_uring_setup", error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
            match setting.trim() {
                "1" | "2" => made.note(format_args!("kernel.io_uring_disabled is {}", setting.trim())),
                _ => made.note("a sandbox forbids it: seccomp, as containers set it up, or a security module"),
            }
        }
        Some(libc::ENOSYS) => made.note("this kernel has no io_uring, or a sandbox hides it"),
        Some(libc::ENOMEM) => match memory_lock_limit() {
            Some(limit) => made.note(format_args!("RLIMIT_MEMLOCK is {limit} bytes, which older kernels count it in")),
            None => made,
        },
        _ => made,
    }
}
