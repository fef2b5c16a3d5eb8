//! Local files and the life of what reads them: released early, forked, ended with reads in flight; and nothing before the first one.

mod support;

use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio::op::OpResult;
use raskio::sys::uring::{Options, probe};
use std::sync::mpsc::channel;
use std::time::Instant;
use support::files::{CACHED, DIRECT, Directory, client, each_local_backend, source, writable};
use support::{Guarded, LONG, Outcome, child, eventually, read, start};

const MIB: usize = 1 << 20;

/// Threads of this process whose names begin so.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|comm| comm.starts_with(name)).count()
}

/// Descriptors of this process that lead to this path, or to what was there.
fn open_files(path: &str) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with(path)).count()
}

#[test]
fn threads_come_with_the_first_file_and_go_with_the_client() {
    const TEST: &str = "threads_come_with_the_first_file_and_go_with_the_client";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    let files = Directory::new();
    let path = files.put("data", 100_000);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let remote = client.open("http://localhost:1/x");
        let ours = || threads("raskio-file") + threads("raskio-uring");
        assert_eq!(ours(), 0);
        read(&client.open(&path), 0, 100_000);
        assert!(ours() > 0);
        client.shut_down(Some(LONG)).unwrap();
        eventually("its threads are gone", || ours() == 0);
        drop(remote);
    });
}

#[test]
fn a_file_is_closed_with_its_object_also_in_the_kernels_table() {
    let files = Directory::new();
    each_local_backend(|local| {
        for past in [CACHED, DIRECT] {
            // Of its own file system, whose space is given back with the last reference to a file: the name alone would not do.
            let path = files.put(&format!("{local:?}-{}", past.read), 100_000);
            let client = client(local, past, |_| {});
            let object = client.open(&path);
            read(&object, 0, 100_000);
            assert!(open_files(&path) > 0);
            let leased = |path: &str| {
                // A lease on a file that nobody else has open can be taken for writing.
                let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
                // SAFETY: no pointers are passed.
                unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_SETLEASE, libc::F_WRLCK) == 0 }
            };
            assert!(!leased(&path), "it is open");
            drop(object);
            eventually("the file is closed", || open_files(&path) == 0 && leased(&path));
        }
    });
}

#[test]
fn an_object_and_a_client_that_are_released_at_once_end_their_reads_well() {
    let files = Directory::new();
    let path = files.put("data", 4 * MIB as u64);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let raw = raskio::client::Client::new(client.config().clone(), None).unwrap();
        let object = raw.open(&path, raskio::object::ObjectOptions::default()).unwrap();
        let mut readings: Vec<_> = (0..20).map(|i| start(&object, i, 3 * MIB)).collect();
        drop(object);
        drop(raw);
        readings.iter_mut().for_each(|reading| drop(reading.succeeds()));
    });
}

#[test]
fn a_callback_may_read_and_write_on() {
    let files = Directory::new();
    let path = files.put("data", MIB as u64);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let (from, to) = (client.open(&path), writable(&client, &files.path(&format!("copy-{local:?}"))));
        let mut buffer = Guarded::new(MIB);
        let (sender, outcome) = channel();
        let host = buffer.host();
        let bytes = raskio_testserver::pattern(MIB);
        let again = source(&bytes);
        let copy = to.clone();
        let then = Box::new(move |result: &OpResult<'_>| {
            assert!(result.error.is_none());
            let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
            copy.write(0, again, &ReadOptions::default(), true, done).expect("accepted").submit();
        });
        from.read(0, host, &ReadOptions::default(), then).unwrap().submit();
        assert_eq!(outcome.recv_timeout(LONG).expect("a callback").succeeds().bytes, MIB as u64);
        read(&to, 0, MIB);
        assert!(buffer.bytes() == bytes);
    });
}

#[test]
fn a_forked_child_is_refused_and_its_own_client_works() {
    const TEST: &str = "a_forked_child_is_refused_and_its_own_client_works";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    let files = Directory::new();
    let path = files.put("data", MIB as u64);
    each_local_backend(|local| {
        let first = client(local, CACHED, |_| {});
        let object = first.open(&path);
        read(&object, 0, MIB);
        // SAFETY: the child uses what a child may use, and ends without running this process's exit handlers.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let refused = object.stat_sync().is_err_and(|error| error.kind() == ErrorKind::Forked)
                && object.drop_cache().is_err_and(|error| error.kind() == ErrorKind::Forked);
            let own = client(local, CACHED, |_| {});
            read(&own.open(&path), 1, MIB - 1);
            drop(own);
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = 0;
        // SAFETY: one writable int is passed.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0, "the child's end");
        read(&object, 0, MIB);
    });
}

#[test]
fn a_process_with_reads_of_files_in_flight_ends_well() {
    const TEST: &str = "a_process_with_reads_of_files_in_flight_ends_well";
    if !child::is_child() {
        for backend in ["URING", "PREAD"] {
            if backend == "URING" && probe(Options { depth: 8, sqpoll_idle_ms: 0, buffers: 0, files: 0 }).is_err() {
                continue;
            }
            let began = Instant::now();
            let output = child::run(child::again(TEST).env("RASKIO_LOCAL_BACKEND", backend));
            assert!(output.status.success(), "{output:?}");
            assert!(began.elapsed() < LONG / 4);
        }
        return;
    }
    let files = Directory::new();
    let path = files.put("data", 4 * MIB as u64);
    let settings = raskio::config::Config::from_env(&raskio::config::Overrides::default()).unwrap();
    let client = raskio::client::Client::new(settings, None).unwrap();
    let object = client.open(&path, raskio::object::ObjectOptions::default()).unwrap();
    let readings: Vec<_> = (0..200).map(|i| start(&object, i, 3 * MIB)).collect();
    std::mem::forget(readings);
    drop(files);
    std::process::exit(0);
}
