//! Tests that need a process of their own: the test starts its own program again, with only this test in it.

use super::{LONG, ms};
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

const ROLE: &str = "RASKIO_TEST_CHILD";

/// Whether this process was started by [`again`].
pub fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// This program, to run only `test` (its full name) as the child.
pub fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, test);
    for name in ["RUST_LOG", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end, which must be a good one, and returns what it printed.
#[track_caller]
pub fn succeeds(command: &mut Command) -> String {
    let output = run(command);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    assert!(out.contains("1 passed"), "the child ran no test: {out}");
    format!("{out}{err}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it to its end, whatever that is.
pub fn run(command: &mut Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child process");
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let end = Instant::now() + LONG;
    let (status, hangs) = loop {
        match child.try_wait().expect("waiting") {
            Some(status) => break (status, false),
            None if Instant::now() >= end => {
                let _ = child.kill();
                break (child.wait().expect("waiting"), true);
            }
            None => std::thread::sleep(ms(5)),
        }
    };
    let output = Output { status, stdout: out.join().expect("its words"), stderr: err.join().expect("its words") };
    assert!(!hangs, "the child hangs\n{}\n{}", text(&output.stdout), text(&output.stderr));
    output
}

/// Reads to the end, so that the child never waits for room in a pipe.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    let mut pipe = pipe.expect("a pipe");
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("reading");
        bytes
    })
}
