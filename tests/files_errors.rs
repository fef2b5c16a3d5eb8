//! An error of a local file says what happened, to which file, and what can be done; and every path can be given.

mod support;

use raskio::client::Client;
use raskio::config::Backend;
use raskio::endpoint::file::url_of;
use raskio::error::{Error, ErrorKind};
use raskio::object::{ObjectOptions, ReadOptions};
use raskio::op::{OpResult, Operation};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use support::files::{CACHED, Directory, Lease, client, each_local_backend, source, writable};
use support::{LONG, Outcome, TestClient, child, config, ms, read, start, start_with, stat};

/// Starts a write of one byte.
fn start_write(object: &Arc<raskio::object::Object>, options: &ReadOptions) -> (Arc<Operation>, Receiver<Outcome>) {
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    let pending = object.write(0, source(b"x"), options, false, done).expect("accepted");
    let op = pending.op().clone();
    pending.submit();
    (op, outcome)
}

fn write(object: &Arc<raskio::object::Object>) -> Outcome {
    start_write(object, &ReadOptions::default()).1.recv_timeout(LONG).expect("a callback")
}

fn refused(client: &TestClient, url: &str, options: ObjectOptions) -> Error {
    client.0.open(url, options).err().expect("an error")
}

#[test]
fn a_path_that_no_message_can_hold_is_told_with_the_url_that_opens_it() {
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let names: [&[u8]; 3] = [b"a\nb", b"\x01%41 \xc2\x85", b"\xff\xfe"];
        for (name, number) in names.iter().zip(0..) {
            let mut path = files.path("").into_bytes();
            path.extend_from_slice(name);
            std::fs::write(OsStr::from_bytes(&path), raskio_testserver::pattern(100)).unwrap();
            let url = url_of(&path);
            // As a program has it that knows the path alone.
            let error = match std::str::from_utf8(&path) {
                Ok(text) => refused(&client, text, ObjectOptions::default()).to_string(),
                Err(_) => opened_from_c(&path),
            };
            assert!(error.contains(&url) && error.lines().count() == 1, "{number}: {error}");
            let object = client.open(&url);
            assert_eq!((object.name(), stat(&object).unwrap()), (url.as_str(), 100));
            read(&object, 1, 99);
            // And what it makes.
            std::fs::remove_file(OsStr::from_bytes(&path)).unwrap();
            write(&writable(&client, &url)).succeeds();
            assert_eq!(std::fs::read(OsStr::from_bytes(&path)).unwrap(), b"x");
        }
        let relative = ObjectOptions { endpoint: Some(6), ..ObjectOptions::default() };
        let error = refused(&client, "a\nb", relative);
        assert!(error.message().contains("a\\nb") && error.message().contains("its whole path"), "{error}");
        let error = refused(&client, "file:///a\nb", ObjectOptions::default());
        assert!(error.message().contains("write %0A"), "{error}");
    });
}

/// What the C interface says.
fn opened_from_c(path: &[u8]) -> String {
    use raskio::ffi::{client, error, object};
    let path = CString::new(path).unwrap();
    let (mut client, mut object, mut error) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the outputs are local variables, and what they receive is given back once.
    unsafe {
        assert_eq!(client::raskio_client_new(std::ptr::null(), &mut client, &mut error), 0);
        assert_eq!(object::raskio_object_open(client, path.as_ptr(), std::ptr::null(), &mut object, &mut error), 1);
        let message = std::ffi::CStr::from_ptr(error::raskio_error_message(error)).to_str().unwrap().to_owned();
        error::raskio_error_free(error);
        client::raskio_client_release(client);
        message
    }
}

#[test]
fn what_the_system_says_of_a_path_comes_with_what_can_be_done() {
    let files = Directory::new();
    let (loops, file) = (files.path("loop"), files.put("file", 10));
    symlink(&loops, &loops).unwrap();
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let long = files.path(&"n".repeat(256));
        let beneath = format!("{file}/x");
        let (none, slashed) = (files.path("none"), format!("{file}//"));
        for (path, kind, errno, words) in [
            (&slashed, ErrorKind::NotFound, libc::ENOTDIR, "it is a file, and its path ends with a slash"),
            (&none, ErrorKind::NotFound, libc::ENOENT, "look at the path"),
            (&beneath, ErrorKind::NotFound, libc::ENOTDIR, "no directory"),
            (&loops, ErrorKind::Io, libc::ELOOP, "symbolic links"),
            (&long, ErrorKind::InvalidArgument, libc::ENAMETOOLONG, "255 bytes"),
        ] {
            let error = start(&client.open(path), 0, 1).fails(kind, &[path, "opening the file to read it", words]);
            assert_eq!(error.os_code(), errno, "{error}");
        }
        let relative = ObjectOptions { endpoint: Some(6), ..ObjectOptions::default() };
        let object = client.0.open("no/such", relative).unwrap();
        start(&object, 0, 1).fails(ErrorKind::NotFound, &["no/such", "working directory"]);
        let error =
            start(&client.open(&files.forbidden()), 0, 1).fails(ErrorKind::PermissionDenied, &["may not read it"]);
        assert!(error.message().contains("the user "), "{error}");
        // A write says what a write needs.
        let (nowhere, unmade_slashed) = (files.path("nowhere/file"), files.path("none/"));
        for (path, kind, words) in [
            (&slashed, ErrorKind::NotFound, "it is a file, and its path ends with a slash"),
            (&unmade_slashed, ErrorKind::InvalidArgument, "there is none; leave the slash out to make a file"),
            (&nowhere, ErrorKind::NotFound, "a directory of its path is missing"),
            (&files.path(""), ErrorKind::InvalidArgument, "name a file in it"),
        ] {
            let outcome = write(&writable(&client, path));
            outcome.fails(kind, &[path, "writing bytes 0-0", "to read and write it", words]);
        }
        let unmade = writable(&client, &none);
        start(&unmade, 0, 1).fails(ErrorKind::NotFound, &["made by its first write"]);
        let never = Box::new(|_: &OpResult<'_>| panic!("called for a write that was not accepted"));
        let error =
            unmade.write(u64::MAX, source(b"x"), &ReadOptions::default(), false, never).err().expect("an error");
        assert!(error.message().starts_with("cannot write 1 bytes"), "{error}");
    });
}

#[test]
fn what_is_read_in_order_only_is_told_with_another_way() {
    let files = Directory::new();
    let path = files.path("pipe");
    let name = CString::new(path.clone()).unwrap();
    // SAFETY: the path ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let words = [&path, "neither a file nor a block device", "copy what it gives to a file"];
        start(&client.open(&path), 0, 1).fails(ErrorKind::InvalidArgument, &words);
        write(&writable(&client, &path)).fails(ErrorKind::InvalidArgument, &[&path, "copy that to it"]);
    });
    let spipe = std::io::Error::from_raw_os_error(libc::ESPIPE);
    assert!(raskio::local::failed("/proc/x", &spipe).message().contains("from its beginning only"));
}

#[test]
fn a_size_that_the_caller_gave_is_told_from_one_that_changed() {
    let files = Directory::new();
    let path = files.put("data", 10);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let given = ObjectOptions { size: Some(20), ..ObjectOptions::default() };
        let error = client.0.open(&path, given).unwrap().stat_sync().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ObjectChanged);
        for word in [&path, "a wrong size (RASKIO_OBJECT_SIZE_KNOWN)", "was 20, now it is 10"] {
            assert!(error.message().contains(word), "{error}");
        }
        // What the system has confirmed is not blamed on the caller.
        let right = ObjectOptions { size: Some(10), ..ObjectOptions::default() };
        let object = client.0.open(&path, right).unwrap();
        assert_eq!(object.stat_sync().unwrap(), 10);
        std::fs::write(&path, [0; 5]).unwrap();
        let error = object.stat_sync().unwrap_err();
        assert!(error.message().contains("changed while it was open: its size was 10, now it is 5"), "{error}");
        files.put("data", 10);
    });
}

#[test]
fn a_name_that_stands_for_nothing_is_told_with_how_files_are_named() {
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let error = refused(&client, "data.bin", ObjectOptions::default());
        assert!(error.message().contains("./data.bin for a file of"), "{error}");
        let remote = ObjectOptions { allowed_endpoints: 1 << 1, ..ObjectOptions::default() };
        let error = refused(&client, "./data.bin", remote);
        assert!(error.message().ends_with("it could be FILE, which allowed_endpoints does not allow"), "{error}");
    });
}

/// Also where no file is concerned.
#[test]
fn a_client_that_there_is_no_descriptor_for_is_told_with_the_limit() {
    const TEST: &str = "a_client_that_there_is_no_descriptor_for_is_told_with_the_limit";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    // SAFETY: a limit of this process of its own.
    let set = |rlim_cur| unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur, rlim_max: 1024 }) };
    assert_eq!(set(3), 0);
    let made = Client::new(config(Backend::MultiPoll, |_| {}), None);
    assert_eq!(set(1024), 0);
    let error = made.err().expect("an error");
    assert!(error.message().contains("RLIMIT_NOFILE, 3") && error.message().contains("ulimit -n"), "{error}");
}

#[test]
fn descriptors_that_have_run_out_are_told_with_the_limit() {
    const TEST: &str = "descriptors_that_have_run_out_are_told_with_the_limit";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    let files = Directory::new();
    each_local_backend(|local| {
        let path = files.put("data", 10);
        let client = client(local, CACHED, |_| {});
        let object = client.open(&path);
        let other = client.open(&files.put("other", 10));
        read(&other, 0, 10);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let set = |rlim_cur, rlim_max| {
            // SAFETY: a limit of this process of its own.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur, rlim_max }) }, 0);
        };
        // SAFETY: one writable rlimit is passed.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
        set(3, limit.rlim_max);
        let error = object.stat_sync().unwrap_err();
        set(limit.rlim_cur, limit.rlim_max);
        assert_eq!((error.kind(), error.os_code()), (ErrorKind::Io, libc::EMFILE));
        for word in [&path, "RLIMIT_NOFILE, 3", "ulimit -n"] {
            assert!(error.message().contains(word), "{error}");
        }
        read(&object, 0, 10);
    });
}

#[test]
fn a_path_that_is_too_long_is_refused_at_the_call() {
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let path = "/d".repeat(2048);
        for url in [path.clone(), format!("file://{path}"), "/d".repeat(100_000)] {
            let error = refused(&client, &url, ObjectOptions::default());
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains("the system takes 4095") && error.message().len() < 1000, "{error}");
            assert!(error.message().starts_with("cannot open "), "{error}");
        }
        // The system decides about this one.
        start(&client.open(&path[..4094]), 0, 1).fails(ErrorKind::NotFound, &[]);
    });
}

#[test]
fn options_about_a_server_are_refused_by_name() {
    let files = Directory::new();
    let path = files.put("data", 10);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let plain = ObjectOptions::default;
        for (option, options) in [
            ("RASKIO_OBJECT_TLS_UNVERIFIED", ObjectOptions { tls_unverified: true, ..plain() }),
            ("RASKIO_OBJECT_BEARER_FROM_HOST", ObjectOptions { bearer_from_host: true, ..plain() }),
            ("ca_file", ObjectOptions { ca_file: Some(path.clone()), ..plain() }),
            ("client_certificate", ObjectOptions { client_certificate: Some(path.clone()), ..plain() }),
            ("client_key", ObjectOptions { client_key: Some(path.clone()), ..plain() }),
            ("headers", ObjectOptions { headers: vec!["a: b".into()], ..plain() }),
            ("proxy", ObjectOptions { proxy: Some("http://localhost:1".into()), ..plain() }),
            ("unix_socket", ObjectOptions { unix_socket: Some("/s".into()), ..plain() }),
        ] {
            let error = refused(&client, &path, options);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(&format!("cannot open {path}: {option} is set")), "{error}");
        }
        let error = refused(&client, "file:a", plain());
        assert!(error.message().starts_with("cannot open file:a: "), "{error}");
    });
}

#[test]
fn a_deadline_and_a_cancel_name_the_file() {
    let files = Directory::new();
    each_local_backend(|local| {
        let path = files.put("stuck", 10);
        let lease = Lease::on(&path);
        let client = client(local, CACHED, |_| {});
        let object = writable(&client, &path);
        let late = ReadOptions { deadline: Some(ms(20)), ..ReadOptions::default() };
        start_with(&object, 0, 10, &late).fails(ErrorKind::TimedOut, &[&path, "deadline of 20 ms"]);
        let mut reading = start(&object, 0, 10);
        reading.op.cancel();
        reading.fails(ErrorKind::Cancelled, &[&path, "cancelled by the caller"]);
        let (op, outcome) = start_write(&object, &ReadOptions::default());
        op.cancel();
        outcome.recv_timeout(LONG).expect("a callback").fails(ErrorKind::Cancelled, &[&path]);
        lease.give_back();
    });
}
