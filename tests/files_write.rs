//! What is written to a local file is there, durable if that was asked for; what was not written is told.

mod support;

use raskio::batch::BatchOptions;
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object, ReadOptions};
use raskio::op::OpResult;
use raskio_testserver::pattern;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use support::batch::{Batch, last};
use support::files::{CACHED, DIRECT, Directory, Lease, client, each_local_backend, forbid, source, writable};
use support::{LONG, Outcome, child, ms, read, start_last, stat, try_start};

const MIB: usize = 1 << 20;

/// Writes, and waits for the end of it.
fn write(object: &Arc<Object>, offset: u64, bytes: &[u8], durable: bool) -> Outcome {
    write_with(object, offset, bytes, &ReadOptions::default(), durable)
}

fn write_with(object: &Arc<Object>, offset: u64, bytes: &[u8], options: &ReadOptions, durable: bool) -> Outcome {
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    let pending = object.write(offset, source(bytes), options, durable, done).expect("the write is accepted");
    let op = pending.op().clone();
    pending.submit();
    let outcome = outcome.recv_timeout(LONG).expect("a callback");
    op.wait(Some(LONG)).expect("the callback returns");
    outcome
}

fn refused(object: &Arc<Object>, offset: u64) -> Error {
    let never = Box::new(|_: &OpResult<'_>| panic!("called for a write that was not accepted"));
    object.write(offset, source(b"x"), &ReadOptions::default(), false, never).err().expect("an error")
}

#[test]
fn what_is_written_anywhere_is_read_back() {
    let files = Directory::new();
    each_local_backend(|local| {
        for past in [CACHED, DIRECT] {
            for task_size in [4 << 20, 4096, 100_000] {
                let client = client(local, past, |options| options.task_size = Some(task_size));
                let name = format!("{local:?}-{past:?}-{task_size}");
                let object = writable(&client, &files.path(&name));
                let bytes = pattern(2 * MIB + 1001);
                // In no order, and from memory of every alignment.
                for (at, len) in
                    [(MIB, MIB + 1001), (4096, 8192), (0, 10), (10, 4086), (12_288, 100_000), (112_288, MIB - 112_288)]
                {
                    let outcome = write(&object, at as u64, &bytes[at..at + len], at == 0);
                    assert_eq!((outcome.succeeds().bytes, outcome.offset), (len as u64, at as u64));
                }
                assert!(files.get(&name) == bytes, "{name}");
                assert_eq!(stat(&object).unwrap(), bytes.len() as u64);
                read(&object, 77, MIB);
                let stats = client.stats();
                assert_eq!(stats.file_bytes_written, bytes.len() as u64);
                assert!(past == DIRECT || stats.file_bytes_written_direct == 0);
            }
        }
    });
}

#[test]
fn writes_that_share_pages_lose_nothing() {
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, DIRECT, |options| options.task_size = Some(65_536));
        let path = files.path(&format!("shared-{local:?}"));
        let object = writable(&client, &path);
        // Pages of zeros, so that a page that is written anew would show.
        write(&object, 0, &vec![0; 4 * MIB], true).succeeds();
        let bytes = pattern(4 * MIB);
        let (sender, outcomes) = channel();
        // From page-aligned memory for some, all at once.
        let pieces: Vec<(usize, usize)> =
            (0..250).map(|i| (i * 16_000, 16_000)).chain([(4_000_000, 194_304)]).collect();
        for (at, len) in &pieces {
            let sender = sender.clone();
            let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
            let from = source(&bytes[*at..at + len]);
            object.write(*at as u64, from, &ReadOptions::default(), false, done).unwrap().submit();
        }
        for _ in &pieces {
            outcomes.recv_timeout(LONG).expect("a callback").succeeds();
        }
        let got = std::fs::read(&path).unwrap();
        assert_eq!(got.iter().zip(&bytes).position(|(got, want)| got != want), None);
    });
}

/// Pages of a file that the system's cache holds after it was asked to drop those that are clean.
fn dirty_pages(path: &str, len: usize) -> usize {
    let file = std::fs::File::open(path).unwrap();
    let mut there = vec![0u8; len.div_ceil(4096)];
    // SAFETY: maps a file that is there, asks which of its pages are in memory, and unmaps it.
    unsafe {
        assert_eq!(libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED), 0);
        let start = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(libc::mincore(start, len, there.as_mut_ptr()), 0);
        libc::munmap(start, len);
    }
    there.iter().filter(|page| **page & 1 == 1).count()
}

#[test]
fn a_durable_write_leaves_nothing_to_be_written_back() {
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, CACHED, |options| options.task_size = Some(100_000));
        let bytes = pattern(MIB);
        for (durable, later) in [(true, false), (true, true), (false, false)] {
            let path = files.path(&format!("{local:?}-{durable}-{later}"));
            let object = writable(&client, &path);
            write(&object, 0, &bytes, durable && !later).succeeds();
            if later {
                // Of no byte, and it waits for what was written before.
                write(&object, 0, b"", true).succeeds();
            }
            let dirty = dirty_pages(&path, MIB);
            // The kernel may have begun to write back what it need not yet; and in memory nothing is ever written back.
            if durable && in_memory(&path) {
                eprintln!("the build directory is in memory");
            } else {
                assert!(!durable || dirty == 0, "{dirty} pages are dirty after a durable write");
            }
        }
    });
}

fn in_memory(path: &str) -> bool {
    const TMPFS: libc::__fsword_t = 0x0102_1994;
    let path = std::ffi::CString::new(path).unwrap();
    // SAFETY: statfs is plain data that the call fills in; the path ends with NUL.
    unsafe {
        let mut facts: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut facts) == 0 && facts.f_type == TMPFS
    }
}

#[test]
fn what_cannot_be_written_is_refused_at_the_call_or_says_why() {
    let files = Directory::new();
    let path = files.put("data", 100);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let error = refused(&client.open(&path), 0);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("RASKIO_OBJECT_WRITABLE") && error.message().contains(&path), "{error}");
        assert_eq!(refused(&client.open("http://localhost:1/x"), 0).kind(), ErrorKind::Unsupported);
        assert_eq!(refused(&writable(&client, &path), u64::MAX).kind(), ErrorKind::InvalidArgument);
        let options = raskio::object::ObjectOptions { writable: true, ..Default::default() };
        let error = client.0.open("http://localhost:1/x", options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let nowhere = files.path("nowhere/file");
        write(&writable(&client, &nowhere), 0, b"x", false)
            .fails(ErrorKind::NotFound, &[&nowhere, "writing bytes 0-0"]);
        write(&writable(&client, &files.path("")), 0, b"x", false).fails(ErrorKind::InvalidArgument, &["directory"]);
        // A read makes no file.
        let unmade = files.path("unmade");
        assert_eq!(stat(&writable(&client, &unmade)).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!std::path::Path::new(&unmade).exists());
        assert_eq!(write(&writable(&client, &path), 0, b"", true).succeeds().bytes, 0);
        assert_eq!(files.get("data"), pattern(100));
    });
}

#[test]
fn a_write_of_no_byte_makes_the_file_and_ends_like_any_other() {
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        for durable in [false, true] {
            let name = format!("empty-{local:?}-{durable}");
            let object = writable(&client, &files.path(&name));
            let outcome = write(&object, 4096, b"", durable);
            assert_eq!((outcome.succeeds().bytes, outcome.offset), (0, 4096));
            assert_eq!(files.get(&name), b"");
            assert_eq!((stat(&object).unwrap(), object.size()), (0, Some(0)));
            // Nor does it change one that is there.
            write(&object, 0, &pattern(100), durable).succeeds();
            assert_eq!(write(&object, 7, b"", durable).succeeds().bytes, 0);
            assert_eq!(files.get(&name), pattern(100));
        }
        let nowhere = files.path("nowhere/file");
        write(&writable(&client, &nowhere), 0, b"", true).fails(ErrorKind::NotFound, &[&nowhere, "writing no byte"]);
        let lease = Lease::on(&files.put("stuck", 10));
        let stuck = writable(&client, &files.path("stuck"));
        let options = ReadOptions { deadline: Some(ms(50)), ..ReadOptions::default() };
        write_with(&stuck, 0, b"", &options, false).fails(ErrorKind::TimedOut, &[]);
        lease.give_back();
    });
}

#[test]
fn a_limit_on_the_size_of_files_is_told_with_what_was_written() {
    if !child::is_child() {
        let test = "a_limit_on_the_size_of_files_is_told_with_what_was_written";
        child::succeeds(&mut child::again(test));
        return;
    }
    let files = Directory::new();
    let limit = libc::rlimit { rlim_cur: 300_000, rlim_max: 300_000 };
    // SAFETY: a limit of this process of its own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    each_local_backend(|local| {
        let name = format!("limited-{local:?}");
        let client = client(local, CACHED, |_| {});
        let object = writable(&client, &files.path(&name));
        let outcome = write(&object, 0, &pattern(MIB), false);
        let error = outcome.fails(ErrorKind::Io, &[object.name(), "larger than", "ulimit -f"]);
        assert_eq!((error.os_code(), outcome.bytes), (libc::EFBIG, 300_000));
        assert_eq!(files.get(&name), pattern(300_000));
        // The transport goes on.
        write(&object, 0, b"again", false).succeeds();
    });
}

/// A file whose directory is not on the device is gone after a power cut, durable as its bytes may be. Told by what happens where
/// nobody can sync a directory: bytes are synced by another call.
#[test]
fn a_durable_write_waits_for_the_name_of_a_file_that_its_object_made() {
    if !child::is_child() {
        let test = "a_durable_write_waits_for_the_name_of_a_file_that_its_object_made";
        child::succeeds(&mut child::again(test));
        return;
    }
    let files = Directory::new();
    let old = files.put("old", 10);
    forbid(libc::SYS_fsync as u32, None, libc::EIO);
    each_local_backend(|local| {
        let client = client(local, CACHED, |options| options.task_size = Some(100_000));
        write(&writable(&client, &old), 0, b"x", true).succeeds();
        let bytes = pattern(MIB);
        let made = writable(&client, &files.path(&format!("made-{local:?}")));
        write(&made, 0, &bytes, false).succeeds();
        for _ in 0..2 {
            let outcome = write(&made, 0, &bytes, true);
            let error = outcome.fails(ErrorKind::Io, &[made.name(), "its directory"]);
            assert_eq!(error.os_code(), libc::EIO);
        }
        let durable = writable(&client, &files.path(&format!("durable-{local:?}")));
        write(&durable, 0, b"", true).fails(ErrorKind::Io, &[durable.name(), "its directory"]);
        // Another object has not made it.
        write(&writable(&client, made.name()), 0, b"x", true).succeeds();
    });
}

/// In a mount namespace of its own: a file system of 1 MiB, and one that is read-only.
#[test]
fn a_full_and_a_read_only_file_system_say_so_with_what_was_written() {
    if !child::is_child() {
        let test = "a_full_and_a_read_only_file_system_say_so_with_what_was_written";
        eprintln!("{}", child::succeeds(&mut child::again(test)));
        return;
    }
    let files = Directory::new();
    let path = std::ffi::CString::new(files.path("")).unwrap();
    if !files.mount_one_mebibyte() {
        println!("not possible here: {}", std::io::Error::last_os_error());
        return;
    }
    each_local_backend(|local| {
        let client = client(local, DIRECT, |_| {});
        let object = writable(&client, &files.path("full"));
        let outcome = write(&object, 0, &pattern(2 * MIB), true);
        let error = outcome.fails(ErrorKind::Io, &[object.name(), "make room"]);
        assert_eq!(error.os_code(), libc::ENOSPC);
        assert!(outcome.bytes <= MIB as u64);
        let there = files.get("full");
        assert!(there.len() as u64 >= outcome.bytes && there[..] == pattern(there.len())[..]);
        std::fs::remove_file(files.path("full")).unwrap();
    });
    let none = std::ptr::null();
    let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::mount(none, path.as_ptr(), none, flags, none.cast()) }, 0);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let outcome = write(&writable(&client, &files.path("new")), 0, b"x", false);
        assert_eq!(
            outcome.fails(ErrorKind::PermissionDenied, &["Read-only", "mounted read-only"]).os_code(),
            libc::EROFS
        );
    });
}

#[test]
fn the_end_of_a_file_that_others_write_too_is_where_it_is_now() {
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let path = files.put("shared", 100);
        let object = writable(&client, &path);
        read(&object, 0, 100);
        files.put("shared", 200);
        start_last(&object, 30, &ReadOptions::default()).succeeds_at(170, 30);
        let mut batch = Batch::start(&client.0, &[last(&object, 30)], BatchOptions::default());
        batch.wait().succeeds();
        assert_eq!((batch.item(0).offset, batch.item(0).bytes), (170, 30));
        read(&object, 90, 110);
        files.put("shared", 50);
        start_last(&object, 30, &ReadOptions::default()).succeeds_at(20, 30);
        assert_eq!(object.size(), Some(50));
    });
}

#[test]
fn the_size_is_known_once_the_cache_was_dropped() {
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let object = client.open(&files.put("dropped", 100));
        object.drop_cache().unwrap();
        assert_eq!(object.size(), Some(100));
        assert_eq!(
            try_start(&object, 90, 20, &ReadOptions::default()).err().unwrap().kind(),
            ErrorKind::InvalidArgument
        );
    });
}
