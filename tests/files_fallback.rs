//! Where io_uring or a part of it is forbidden, files are read all the same, and the log says why.

mod support;

use raskio::config::LocalBackend;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use std::sync::{Arc, Mutex};
use support::files::{CACHED, Directory, OVER, client, forbid, has_uring};
use support::{Guarded, TestClient, Watchdog, child, eventually, read, read_fails};

const LEN: u64 = 1_100_000;

/// io_uring's, the same on every machine.
const SETUP: u32 = 425;
const ENTER: u32 = 426;
const REGISTER: u32 = 427;
/// The operation of `REGISTER` that puts a buffer into the table.
const BUFFERS_UPDATE: u32 = 16;

/// What the log says from now on.
fn listen() -> Arc<Mutex<Vec<String>>> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = lines.clone();
    let hook =
        move |record: &log::Record<'_>| heard.lock().unwrap().push(format!("{} {}", record.level(), record.args()));
    raskio::log::set_hook(Some(Box::new(hook)), log::LevelFilter::Info).expect("a hook");
    lines
}

fn heard(lines: &Arc<Mutex<Vec<String>>>, words: &[&str]) -> usize {
    let lines = lines.lock().unwrap();
    let count = lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
    eprintln!("{lines:?}");
    count
}

/// Case 31.
#[test]
fn io_uring_that_is_forbidden_or_missing_leads_to_pread_and_the_reason_is_told() {
    const TEST: &str = "io_uring_that_is_forbidden_or_missing_leads_to_pread_and_the_reason_is_told";
    const CASE: &str = "RASKIO_TEST_CASE";
    let cases = [
        ("setup EPERM", SETUP, libc::EPERM, "seccomp"),
        ("setup ENOSYS", SETUP, libc::ENOSYS, "no io_uring"),
        ("enter EPERM", ENTER, libc::EPERM, "io_uring_enter"),
        ("register EPERM", REGISTER, libc::EPERM, "io_uring_register: Operation not permitted (os error 1) (a sandbox"),
        ("register EINVAL", REGISTER, libc::EINVAL, "no READ"),
    ];
    let Some(case) = std::env::var_os(CASE) else {
        for (name, ..) in cases {
            child::succeeds(child::again(TEST).env(CASE, name));
        }
        return;
    };
    let _watchdog = Watchdog::start();
    let (_, call, errno, word) = cases.into_iter().find(|(name, ..)| *name == case).expect("a case");
    let made_before = has_uring();
    forbid(call, None, errno);
    assert!(!has_uring());
    let lines = listen();
    let files = Directory::new();
    let path = files.put("data", LEN);
    let client_of = |local| client(local, CACHED, |_| {});
    let reading = client_of(LocalBackend::Auto);
    for _ in 0..3 {
        read(&reading.open(&path), 1, LEN as usize - 1);
    }
    assert_eq!(reading.stats().file_bytes_uring, 0);
    if made_before {
        assert_eq!(heard(&lines, &["WARN", "read by pread", word]), 1);
    }
    // Whoever wants nothing else is told.
    let error = client_of(LocalBackend::Uring).0.open(&path, ObjectOptions::default()).err().expect("an error");
    assert!([ErrorKind::PermissionDenied, ErrorKind::Unsupported].contains(&error.kind()), "{error}");
    assert!(error.message().contains("AUTO or PREAD"), "{error}");
    // And without it nothing is asked.
    read(&client_of(LocalBackend::Pread).open(&path), 0, LEN as usize);
    drop(reading);
}

/// As some kernels say it, where a process may lock no memory.
#[test]
fn a_ring_that_may_not_be_locked_is_told_with_both_numbers() {
    const TEST: &str = "a_ring_that_may_not_be_locked_is_told_with_both_numbers";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit of this process of its own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
    forbid(SETUP, None, libc::ENOMEM);
    let lines = listen();
    let files = Directory::new();
    read(&client(LocalBackend::Auto, CACHED, |_| {}).open(&files.put("data", LEN)), 0, LEN as usize);
    assert_eq!(heard(&lines, &["WARN", "RLIMIT_MEMLOCK", "bytes are to be locked", ", 0 bytes may be"]), 1);
    let wanted = client(LocalBackend::Uring, CACHED, |_| {});
    let error = wanted.0.open(&files.path("data"), ObjectOptions::default()).err().expect("an error");
    assert_eq!((error.kind(), error.os_code()), (ErrorKind::OutOfMemory, libc::ENOMEM));
    assert!(error.message().contains("RLIMIT_MEMLOCK"), "{error}");
}

/// Has this process take no more descriptors than so many; `None`: as many as it likes.
fn allow_files(more: Option<u64>) {
    let next = || std::os::fd::AsRawFd::as_raw_fd(&std::fs::File::open("/dev/null").expect("a file")) as u64;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit of this process of its own.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = more.map_or(limit.rlim_max, |more| next() + more);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// A client with one thread for remote objects, which has opened what it needs: it does that for its first request.
fn settled(local: LocalBackend) -> TestClient {
    let client = client(local, CACHED, |options| {
        options.num_threads = Some(1);
        options.max_attempts = Some(1);
    });
    read_fails(&client.open("http://127.0.0.1:1/x"), 0, 1, ErrorKind::Connection, &[]);
    client
}

#[test]
fn a_ring_that_there_was_no_descriptor_for_is_had_later() {
    const TEST: &str = "a_ring_that_there_was_no_descriptor_for_is_had_later";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    if !has_uring() {
        return;
    }
    let files = Directory::new();
    let path = files.put("data", LEN);
    // When the first file is named; for the ring's wake-up; for the ring.
    for (at_open, at_read) in [(Some(0), None), (None, Some(1)), (None, Some(2))] {
        let client = settled(LocalBackend::Auto);
        if at_open.is_none() {
            drop(client.open("/nowhere"));
        }
        allow_files(at_open);
        let object = client.open(&path);
        allow_files(at_read);
        // Not by a callback of the test's, which would take a descriptor too.
        let mut buffer = Guarded::new(1000);
        assert_eq!(object.read_sync(0, buffer.host(), &ReadOptions::default()).unwrap(), 1000);
        allow_files(None);
        eventually("it comes through io_uring", || {
            read(&object, 0, LEN as usize);
            client.stats().file_bytes_uring > 0
        });
    }
    // Who wants nothing else is told, and may try again.
    let wanted = settled(LocalBackend::Uring);
    allow_files(Some(0));
    let error = wanted.0.open(&path, ObjectOptions::default()).err().expect("an error");
    allow_files(None);
    assert_eq!((error.kind(), error.os_code()), (ErrorKind::Io, libc::EMFILE), "{error}");
    assert!(error.message().contains("RLIMIT_NOFILE"), "{error}");
    read(&wanted.open(&path), 0, 1000);
    assert_eq!(wanted.stats().file_bytes_uring, 1000);
}

#[test]
fn buffers_that_may_not_be_locked_are_used_unregistered_and_both_numbers_are_told() {
    const TEST: &str = "buffers_that_may_not_be_locked_are_used_unregistered_and_both_numbers_are_told";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    if !has_uring() {
        return;
    }
    let limit = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
    // SAFETY: a limit of this process of its own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
    give_up_all_capabilities();
    let lines = listen();
    let files = Directory::new();
    let path = files.put("data", LEN);
    let client = client(LocalBackend::Uring, OVER, |_| {});
    for i in 0..5 {
        // Ragged, so that they are read aside, into pages of RaskIO's.
        read(&client.open(&path), 1 + i, 1_000_000);
    }
    let stats = client.stats();
    assert_eq!(stats.file_bytes_uring, 5_000_000);
    if stats.file_bytes_read_direct > 0 {
        assert_eq!(
            heard(&lines, &["WARN", "unregistered buffers", "1048576 bytes are to be locked", "65536 bytes may be"]),
            1
        );
    }
}

/// root with CAP_IPC_LOCK is not limited.
fn give_up_all_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header { version: 0x2008_0522, pid: 0 };
    let none = [0u32; 6];
    // SAFETY: the header and the sets have the layout of this version.
    assert_eq!(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }, 0);
}

#[test]
fn a_kernel_that_registers_no_buffers_is_read_from_without_them() {
    const TEST: &str = "a_kernel_that_registers_no_buffers_is_read_from_without_them";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    if !has_uring() {
        return;
    }
    forbid(REGISTER, Some((1, BUFFERS_UPDATE)), libc::EOPNOTSUPP);
    let lines = listen();
    let files = Directory::new();
    let path = files.put("data", LEN);
    let client = client(LocalBackend::Uring, OVER, |_| {});
    for i in 0..3 {
        read(&client.open(&path), 1 + i, 1_000_000);
    }
    let stats = client.stats();
    assert_eq!(stats.file_bytes_uring, 3_000_000);
    if stats.file_bytes_read_direct > 0 {
        assert_eq!(heard(&lines, &["WARN", "unregistered buffers", "not supported"]), 1);
    }
}
