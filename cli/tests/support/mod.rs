//! The tool as a user starts it, in a directory of its own.
#![allow(dead_code, reason = "each test program uses a part of it")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A directory that is removed at the end.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("raskio-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Everything in it, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl AsRef<Path> for Dir {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// The tool in `dir`, with none of the settings that this machine may have.
pub fn command(dir: &Dir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raskio"));
    command.args(arguments).current_dir(dir).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        if ["KVIKIO_", "RASKIO_", "AWS_"].iter().any(|start| text.starts_with(start))
            || text.ends_with("_PROXY")
            || text == "RUST_LOG"
        {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it to its end.
pub fn run(dir: &Dir, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

/// Starts it, with pipes.
pub fn start(dir: &Dir, arguments: &[&str]) -> Child {
    command(dir, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Standard output and standard error.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// The lines of standard output as JSON; it must have ended with this exit code.
pub fn json(output: &Output, code: i32) -> Vec<Value> {
    let (out, err) = texts(output);
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
