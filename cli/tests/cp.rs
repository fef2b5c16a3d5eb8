//! `raskio cp`: every byte arrives, also after an interruption, and nothing half-done is taken for a file.

mod support;

use raskio_testserver::{Object, Reply, Server, get, head, pattern, pattern_crc32};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::FileExt;
use std::process::Child;
use std::time::{Duration, Instant};
use support::{Dir, json, run, start, texts};

const CHUNK: u64 = 64 << 10;
/// No multiple of a chunk.
const SIZE: u64 = 40 * CHUNK + 123;
const CHUNKS: u64 = 41;
const SLOW: [&str; 6] = ["--chunk-size", "65536", "--memory", "131072", "--jobs", "1"];

/// Lines of the journal behind its head: chunks that are there.
fn noted(dir: &Dir) -> usize {
    std::fs::read_to_string(dir.path("x.raskio-journal")).map_or(0, |text| text.lines().count().saturating_sub(1))
}

/// Starts a copy that takes a while, and sends a signal when some chunks are there.
fn interrupted(server: &Server, dir: &Dir, signal: Signal) -> Child {
    server.script(get("/x"), [Reply::object().delay(Duration::from_millis(30))]);
    let url = server.url("/x");
    let child = start(dir, &[&["cp", &url, "x"], &SLOW[..]].concat());
    let patience = Instant::now();
    while noted(dir) < 5 {
        assert!(patience.elapsed() < Duration::from_secs(20), "nothing is copied");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    server.clear_scripts();
    child
}

fn crc32(size: u64) -> String {
    format!("{:08x}", pattern_crc32(size))
}

#[test]
fn an_interrupted_copy_goes_on_and_its_checksum_is_right() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (server, dir) = (Server::start(), Dir::new());
        server.put("/x", Object::pattern(SIZE));
        let output = interrupted(&server, &dir, signal).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(texts(&output).1.contains("the same command goes on"), "{output:?}");
        assert_eq!(dir.names(), ["x.raskio-journal", "x.raskio-part"]);
        let there = noted(&dir) as u64;
        assert!((5..CHUNKS).contains(&there));

        server.reset_counts();
        let url = server.url("/x");
        let checksum = format!("crc32={}", crc32(SIZE));
        let output = run(&dir, &["--json", "cp", &url, "x", "--checksum", &checksum]);
        let [summary] = &json(&output, 0)[..] else { panic!("{output:?}") };
        assert_eq!(summary["resumed_bytes"], there * CHUNK);
        assert_eq!(summary["crc32"], crc32(SIZE));
        assert_eq!(server.gets(), CHUNKS - there, "what is there is not read again");
        assert_eq!(dir.names(), ["x"]);
        assert!(std::fs::read(dir.path("x")).unwrap() == pattern(SIZE as usize));
    }
}

#[test]
fn what_is_not_as_it_was_written_is_read_again_after_a_kill() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    let output = interrupted(&server, &dir, Signal::KILL).wait_with_output().unwrap();
    assert_eq!(output.status.code(), None, "{output:?}");
    let journal = std::fs::read_to_string(dir.path("x.raskio-journal")).unwrap();
    // As a power failure leaves it: noted, and not on the disk.
    let chunk: u64 = journal.lines().nth(2).unwrap().split(' ').next().unwrap().parse().unwrap();
    let part = std::fs::OpenOptions::new().write(true).open(dir.path("x.raskio-part")).unwrap();
    part.write_all_at(&[0; 100], chunk * CHUNK + 77).unwrap();
    let there = noted(&dir) as u64;

    let output = run(&dir, &["--json", "cp", &server.url("/x"), "x"]);
    let [summary] = &json(&output, 0)[..] else { panic!("{output:?}") };
    assert_eq!(summary["resumed_bytes"], (there - 1) * CHUNK);
    assert!(std::fs::read(dir.path("x")).unwrap() == pattern(SIZE as usize));
}

#[test]
fn another_object_is_copied_from_its_beginning() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    interrupted(&server, &dir, Signal::INT).wait_with_output().unwrap();
    let other = vec![7u8; SIZE as usize];
    server.put("/x", Object::new(other.clone()).etag("\"other\""));
    let output = run(&dir, &["cp", &server.url("/x"), "x"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(texts(&output).1.contains("from its beginning: the object is not the one"), "{output:?}");
    assert!(std::fs::read(dir.path("x")).unwrap() == other);
}

#[test]
fn without_an_entity_tag_it_goes_on_only_if_told_to() {
    for (arguments, goes_on) in
        [(&[][..], false), (&["--trust-size"][..], true), (&["--trust-size", "--restart"][..], false)]
    {
        let (server, dir) = (Server::start(), Dir::new());
        server.put("/x", Object::pattern(SIZE).no_etag());
        interrupted(&server, &dir, Signal::INT).wait_with_output().unwrap();
        let url = server.url("/x");
        let output = run(&dir, &[&["--json", "cp", &url, "x"], arguments].concat());
        assert_eq!(json(&output, 0)[0]["resumed_bytes"] != 0, goes_on, "{arguments:?}");
        assert!(std::fs::read(dir.path("x")).unwrap() == pattern(SIZE as usize));
    }
}

#[test]
fn another_object_with_the_same_size_and_tag_is_copied_from_its_beginning() {
    for trust in [&[][..], &["--trust-size"]] {
        let (server, dir) = (Server::start(), Dir::new());
        // As web servers make tags: of the time and the size of a file. Two of one build have both in common.
        server.put("/x", Object::pattern(SIZE).etag("\"1-2\""));
        interrupted(&server, &dir, Signal::INT).wait_with_output().unwrap();
        let other = vec![7u8; SIZE as usize];
        server.put("/y", Object::new(other.clone()).etag("\"1-2\""));
        let output = run(&dir, &[&["cp", &server.url("/y"), "x"], trust].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(std::fs::read(dir.path("x")).unwrap() == other, "the bytes of two objects are in one file");
    }
}

#[test]
fn a_weak_entity_tag_does_not_say_that_the_bytes_are_the_same() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE).etag("W/\"same\""));
    interrupted(&server, &dir, Signal::INT).wait_with_output().unwrap();
    let other = vec![7u8; SIZE as usize];
    server.put("/x", Object::new(other.clone()).etag("W/\"same\""));
    let output = run(&dir, &["cp", &server.url("/x"), "x"]);
    assert!(texts(&output).1.contains("no strong entity tag"), "{output:?}");
    assert!(std::fs::read(dir.path("x")).unwrap() == other, "the bytes of two versions are in one file");
}

#[test]
fn a_wrong_checksum_leaves_no_file_and_an_old_one_as_it_was() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(1000));
    std::fs::write(dir.path("x"), "old").unwrap();
    let sha256 = format!("sha256={}", "0".repeat(64));
    for checksum in ["crc32=00000000", &sha256] {
        let output = run(&dir, &["--json", "cp", &server.url("/x"), "x", "--checksum", checksum]);
        assert_eq!(json(&output, 3)[0]["error"]["status"], "CHECKSUM");
        assert_eq!(dir.names(), ["x"]);
        assert_eq!(std::fs::read(dir.path("x")).unwrap(), b"old");
    }
    // sha256sum's of the same pattern.
    let right = "sha256=".to_owned() + &sha256_of(&pattern(1000));
    assert_eq!(run(&dir, &["cp", &server.url("/x"), "x", "--checksum", &right]).status.code(), Some(0));
    assert_eq!(std::fs::read(dir.path("x")).unwrap(), pattern(1000));
}

fn sha256_of(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn many_objects_become_files_of_a_directory_and_one_that_fails_does_not_stop_the_others() {
    let (server, dir) = (Server::start(), Dir::new());
    for (name, size) in [("/a/one", 100_000), ("/a/two%20words", 1), ("/a/none", 0)] {
        server.put(name, Object::pattern(size));
    }
    let list: String =
        ["one", "missing", "two%20words", "none"].map(|name| server.url(&format!("/a/{name}")) + "\n").concat();
    std::fs::write(dir.path("list"), format!("# what to copy\n\n{list}")).unwrap();
    std::fs::create_dir(dir.path("to")).unwrap();
    let output = run(&dir, &["--json", "cp", "@list", "to"]);
    let lines = json(&output, 1);
    assert_eq!(lines.len(), 4);
    let failed = lines.iter().find(|line| !line["error"].is_null()).unwrap();
    assert_eq!((&failed["error"]["status"], &failed["error"]["http_status"]), (&"NOT_FOUND".into(), &404.into()));
    for (name, size) in [("one", 100_000), ("two words", 1), ("none", 0)] {
        assert_eq!(std::fs::read(dir.path("to").join(name)).unwrap(), pattern(size), "{name}");
    }
    // Left alone, and not asked for either.
    server.reset_counts();
    std::fs::write(dir.path("to/one"), "mine").unwrap();
    let output = run(&dir, &["--json", "cp", "--no-clobber", &server.url("/a/one"), "to"]);
    assert_eq!(json(&output, 0)[0]["skipped"], true);
    assert_eq!((std::fs::read(dir.path("to/one")).unwrap(), server.requests()), (b"mine".to_vec(), 0));
}

#[test]
fn what_cannot_work_says_so_before_anything_is_read() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(10));
    let url = server.url("/x");
    for arguments in [
        &["cp", &url][..],
        &["cp", &url, &url, "no-directory"],
        &["cp", &url, "no-directory/"],
        &["cp", &url, &url, "."],
        &["cp", &url, "x", "--checksum", "md5=1"],
        &["cp", &url, "x", "--chunk-size", "0"],
        &["cp", "@empty", "x"],
    ] {
        std::fs::write(dir.path("empty"), "# nothing\n").unwrap();
        let output = run(&dir, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {output:?}");
        assert!(!texts(&output).1.is_empty() && texts(&output).0.is_empty(), "{output:?}");
    }
    assert_eq!(server.requests(), 0);
    let output = run(&dir, &["cp", &url, "no/directory"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("cannot write no/directory.raskio-part"), "{output:?}");
}

#[test]
fn a_second_copy_into_the_same_file_is_refused() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    let mut first = interrupted(&server, &dir, Signal::STOP);
    let output = run(&dir, &["cp", &server.url("/x"), "x"]);
    kill_process(Pid::from_child(&first), Signal::CONT).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("is being written by another raskio cp"), "{output:?}");
    assert!(first.wait().unwrap().success());
    assert!(std::fs::read(dir.path("x")).unwrap() == pattern(SIZE as usize));
}

#[test]
fn a_secret_in_a_link_is_shown_nowhere() {
    let (server, dir) = (Server::start(), Dir::new());
    server.script(head("/x"), [Reply::status(403)]);
    server.script(get("/x"), [Reply::status(403)]);
    let url = server.url("/x?X-Amz-Signature=secret123&X-Amz-Credential=abc&X-Amz-Algorithm=AWS4-HMAC-SHA256");
    let output = run(&dir, &["--json", "-vv", "cp", &url, "x"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(!out.contains("secret123") && !err.contains("secret123"), "{out}\n{err}");
}

#[test]
fn standard_output_gets_the_bytes_and_nothing_else() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    server.put("/none", Object::pattern(0));
    let (x, none) = (server.url("/x"), server.url("/none"));
    // Later ranges come first, and memory is for two of them.
    server.script(get("/x"), [Reply::object().delay(Duration::from_millis(60)), Reply::object()]);
    let wanted = format!("crc32={}", crc32(SIZE));
    let output = run(&dir, &[&["--json", "cp", &x, "-", "--checksum", &wanted], &SLOW[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout == pattern(SIZE as usize), "other bytes");
    let summary: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&summary["crc32"], &summary["file"]), (&crc32(SIZE).into(), &"-".into()));
    // One behind the other, and what is missing ends it.
    let output = run(&dir, &["cp", &x, &none, &x, "-", "-q"]);
    assert!(output.stdout == [pattern(SIZE as usize), pattern(SIZE as usize)].concat(), "other bytes");
    let output = run(&dir, &["--json", "cp", &server.url("/missing"), &x, "-"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    // Sums of what is written already.
    for wrong in ["crc32=00000000".to_owned(), format!("sha256={}", "0".repeat(64))] {
        let output = run(&dir, &["cp", &x, "-", "--checksum", &wrong]);
        assert_eq!((output.status.code(), output.stdout.len() as u64), (Some(3), SIZE));
    }
    let right = format!("sha256={}", sha256_of(&pattern(SIZE as usize)));
    assert_eq!(run(&dir, &["cp", &x, "-", "--checksum", &right]).status.code(), Some(0));
    assert!(dir.names().is_empty(), "{:?}", dir.names());
    // Whoever reads has seen enough.
    let mut child = start(&dir, &["cp", &x, "-", "-q"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), texts(&output).1), (Some(141), String::new()));
}

#[test]
fn a_pipe_or_a_device_is_written_and_not_replaced() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    let pipe = dir.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
    let output = run(&dir, &["cp", &server.url("/x"), "pipe"]);
    // The reader first: without a writer it would wait for ever.
    let kind = std::fs::metadata(dir.path("pipe")).unwrap().file_type();
    assert!(!kind.is_file(), "the pipe was replaced by a file: {output:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(reader.join().unwrap() == pattern(SIZE as usize), "other bytes");
    assert_eq!(dir.names(), ["pipe"]);
}

#[test]
fn a_link_is_followed_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt;
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    std::fs::create_dir(dir.path("elsewhere")).unwrap();
    std::fs::write(dir.path("elsewhere/secret"), "old").unwrap();
    std::fs::set_permissions(dir.path("elsewhere/secret"), PermissionsExt::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("elsewhere/secret", dir.path("x")).unwrap();
    std::os::unix::fs::symlink("elsewhere/new", dir.path("dangling")).unwrap();
    for name in ["x", "dangling"] {
        let output = run(&dir, &["cp", &server.url("/x"), name]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(std::fs::symlink_metadata(dir.path(name)).unwrap().is_symlink(), "{name} was replaced");
        assert!(std::fs::read(dir.path(name)).unwrap() == pattern(SIZE as usize));
    }
    let mode = |name: &str| std::fs::metadata(dir.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("x"), 0o600, "others may read it now");
    // Not while it comes, either.
    std::fs::rename(dir.path("elsewhere/secret"), dir.path("x")).unwrap();
    interrupted(&server, &dir, Signal::INT).wait_with_output().unwrap();
    assert_eq!(mode("x.raskio-part"), 0o600, "others may read what has come");
}

#[test]
fn a_file_is_on_the_disk_before_it_has_its_name() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    let library = dir.path("calls.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/calls.c");
    let compiled = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(compiled.unwrap().success(), "the library that notes calls does not compile");
    let mut command = support::command(&dir, &["cp", "-q", &server.url("/x"), "x"]);
    let output = command.env("LD_PRELOAD", &library).env("CALLS", dir.path("calls")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls = std::fs::read_to_string(dir.path("calls")).unwrap();
    let here = std::fs::canonicalize(dir.path("")).unwrap();
    let part = here.join("x.raskio-part");
    let expected = format!("fsync {}\nrename x\nfsync {}\n", part.display(), here.display());
    assert_eq!(calls.replace(&format!("rename {}/", here.display()), "rename "), expected);
}

#[test]
fn a_signal_ends_it_also_while_the_server_does_not_answer() {
    let (server, dir) = (Server::start(), Dir::new());
    server.script(head("/x"), [Reply::never()]);
    server.script(get("/x"), [Reply::never()]);
    let child = start(&dir, &["--json", "cp", &server.url("/x"), "x"]);
    assert!(server.wait_for(|counts| counts.in_flight > 0, Duration::from_secs(20)), "nothing is asked");
    let asked = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "it took {:?}", asked.elapsed());
    assert_eq!(json(&output, 130)[0]["error"]["status"], "INTERRUPTED");
}

#[test]
fn what_is_ignored_from_the_start_stays_so() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(SIZE));
    server.script(get("/x"), [Reply::object().delay(Duration::from_millis(30))]);
    // As nohup does.
    let words =
        format!("trap '' HUP; exec {} cp -q {} x {}", env!("CARGO_BIN_EXE_raskio"), server.url("/x"), SLOW.join(" "));
    let mut child = std::process::Command::new("sh").args(["-c", &words]).current_dir(&dir).spawn().unwrap();
    let patience = Instant::now();
    while noted(&dir) < 3 {
        assert!(patience.elapsed() < Duration::from_secs(20), "nothing is copied");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert!(child.wait().unwrap().success(), "SIGHUP ended it");
    assert!(std::fs::read(dir.path("x")).unwrap() == pattern(SIZE as usize));
}

#[test]
fn names_command_no_terminal() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(10));
    for name in ["a\x1b[31m", "b\nraskio: error: no"] {
        let output = run(&dir, &["cp", &server.url("/x"), name]);
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), out.lines().count(), out.contains('\x1b')), (Some(0), 1, false), "{out:?}");
        assert!(dir.path(name).exists() && err.is_empty());
    }
    let (_, err) = texts(&run(&dir, &["cp", &server.url("/x"), "no\x1b[31m/x"]));
    assert!(err.contains("cannot write") && !err.contains('\x1b'), "{err:?}");
}

#[test]
fn a_name_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(10));
    let name = std::ffi::OsStr::from_bytes(b"a\xff");
    let output = support::command(&dir, &["cp", &server.url("/x")]).arg(name).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(std::fs::read(AsRef::<std::path::Path>::as_ref(&dir).join(name)).unwrap() == pattern(10));
}

#[test]
fn a_link_in_the_wrong_place_is_a_secret_too_and_every_error_is_json_if_that_is_asked_for() {
    let (server, dir) = (Server::start(), Dir::new());
    let link = "https://host/x?X-Amz-Signature=secret123";
    let option = format!("--nonsense={link}");
    for arguments in [
        &["--json", "cp", &server.url("/x"), link][..],
        &["bench", "--json", link, link],
        &["--json", "nic", link],
        &["stat", "--json", &option],
        &["--json", "cp", link],
        &["--json", "stat"],
        &["--json"],
    ] {
        let output = run(&dir, arguments);
        let error = &json(&output, 2)[0]["error"];
        assert_eq!((&error["status"], &error["exit_code"]), (&"USAGE".into(), &2.into()), "{output:?}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{output:?}");
        assert!(!texts(&output).1.is_empty() && !format!("{output:?}").contains("secret123"), "{output:?}");
    }
    assert!(dir.names().is_empty());
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(10));
    let url = server.url("/x");
    for arguments in [&["stat", &url][..], &["cp", &url, "-"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = support::command(&dir, arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(texts(&output).1.contains("No space left"), "{output:?}");
    }
}
