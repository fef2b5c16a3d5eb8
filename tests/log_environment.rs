//! Who gets the log records, by environment: each case is a process of its own, this test program started again.

use log::LevelFilter;
use std::process::{Command, Output};

const CASE: &str = "RASKIO_TEST_LOG_CASE";

/// Not a promise: what the started process does. Without the variable it is a test with nothing to do.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    match case.as_str() {
        "plain" => raskio::log::init(false),
        "verbose" => raskio::log::init(true),
        "verbose second" => {
            raskio::log::init(false);
            raskio::log::init(true);
        }
        "hook" => {
            let hook = |record: &log::Record<'_>| eprintln!("hook {} {}", record.level(), record.args());
            raskio::log::set_hook(Some(Box::new(hook)), LevelFilter::Warn).unwrap();
        }
        "hook removed" => {
            raskio::log::set_hook(Some(Box::new(|_| {})), LevelFilter::Trace).unwrap();
            raskio::log::set_hook(None, LevelFilter::Off).unwrap();
        }
        "foreign" => {
            struct Foreign;
            impl log::Log for Foreign {
                fn enabled(&self, _: &log::Metadata<'_>) -> bool {
                    true
                }
                fn log(&self, record: &log::Record<'_>) {
                    eprintln!("foreign {} {}", record.level(), record.args());
                }
                fn flush(&self) {}
            }
            log::set_logger(&Foreign).unwrap();
            log::set_max_level(LevelFilter::Info);
            raskio::log::init(true);
            let refused = raskio::log::set_hook(Some(Box::new(|_| {})), LevelFilter::Trace).unwrap_err();
            assert_eq!(refused.kind(), raskio::error::ErrorKind::Unsupported);
            raskio::log::set_hook(None, LevelFilter::Off).unwrap();
        }
        other => panic!("unknown case {other}"),
    }
    log::error!(target: "raskio", "e-marker");
    log::info!(target: "raskio", "i-marker");
    log::debug!(target: "raskio", "d-marker");
    log::trace!(target: "raskio", "t-marker");
    eprintln!("level {}", log::max_level());
}

/// What the case writes to stderr, reduced to `LEVEL text` lines. Fails if a record reaches stdout.
fn run(case: &str, rust_log: Option<&str>) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(CASE, case).env_remove("RUST_LOG");
    if let Some(spec) = rust_log {
        command.env("RUST_LOG", spec);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{case}: {status}\n{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed") && !stdout.contains("marker"), "{case}: stdout is\n{stdout}");
    // env_logger: "[2026-01-01T00:00:00Z INFO  raskio] i-marker"
    let plain = |line: &str| match line.strip_prefix('[').and_then(|line| line.split_once(' ')) {
        Some((_, rest)) => rest.replace(" raskio]", "").split_whitespace().collect::<Vec<_>>().join(" "),
        None => line.to_string(),
    };
    stderr.lines().map(plain).collect()
}

#[test]
fn silent_by_default() {
    assert_eq!(run("plain", None), ["level OFF"]);
    assert_eq!(run("plain", Some("")), ["level OFF"], "an empty RUST_LOG asks for nothing");
    assert_eq!(run("hook removed", None), ["level OFF"]);
}

#[test]
fn rust_log_asks_for_records_on_stderr() {
    assert_eq!(run("plain", Some("raskio=info")), ["ERROR e-marker", "INFO i-marker", "level INFO"]);
    assert_eq!(run("plain", Some("other=trace")), ["level TRACE"]);
    assert_eq!(run("hook removed", Some("error")), ["ERROR e-marker", "level ERROR"]);
}

#[test]
fn verbose_asks_for_debug_records_and_rust_log_refines_it() {
    let debug = ["ERROR e-marker", "INFO i-marker", "DEBUG d-marker", "level DEBUG"];
    assert_eq!(run("verbose", None), debug);
    assert_eq!(run("verbose second", None), debug, "a later client may be the verbose one");
    assert_eq!(run("verbose", Some("warn")), debug);
    assert_eq!(run("verbose", Some("raskio=error")), ["ERROR e-marker", "level ERROR"]);
}

#[test]
fn a_hook_comes_before_rust_log() {
    assert_eq!(run("hook", Some("trace")), ["hook ERROR e-marker", "level WARN"]);
}

#[test]
fn another_logger_of_the_program_is_left_in_place() {
    assert_eq!(run("foreign", Some("trace")), ["foreign ERROR e-marker", "foreign INFO i-marker", "level INFO"]);
}
