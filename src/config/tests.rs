use super::*;
use crate::error::{Error, ErrorKind};
use std::os::unix::ffi::OsStringExt;

fn resolve(overrides: &Overrides, variables: &[(&str, &str)]) -> Result<Config> {
    Config::resolve(overrides, &|name| {
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
    })
}

fn with(variables: &[(&str, &str)]) -> Result<Config> {
    resolve(&Overrides::default(), variables)
}

#[track_caller]
fn refused(outcome: Result<Config>) -> String {
    let error: Error = outcome.expect_err("must be refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    error.message().to_string()
}

type SetOption = fn(&mut Overrides);

/// One environment variable, and the option that overrides it.
struct Row {
    variable: &'static str,
    /// What `show` gives when nothing is set.
    default: &'static str,
    /// Values, and what `show` gives for them.
    good: &'static [(&'static str, &'static str)],
    bad: &'static [&'static str],
    /// What every refusal says about the allowed values.
    allowed: &'static str,
    show: fn(&Config) -> String,
    /// Sets the option; what `show` gives then, whatever the variable says.
    overrule: Option<(SetOption, &'static str)>,
}

const NOT_NUMBERS: [&str; 8] = ["", " ", "x", "1x", "4 MiB", "0x10", "1.5", "-1"];

fn rows() -> Vec<Row> {
    vec![
        Row {
            variable: "KVIKIO_REMOTE_IO_BACKEND",
            default: "EasyThreadpool",
            good: &[
                ("EASY_THREADPOOL", "EasyThreadpool"),
                ("MULTI_POLL", "MultiPoll"),
                (" \tmulti_Poll\n", "MultiPoll"),
            ],
            bad: &["", "EASY", "MULTI POLL", "1"],
            allowed: "one of EASY_THREADPOOL, MULTI_POLL",
            show: |c| format!("{:?}", c.backend),
            overrule: Some((|o| o.backend = Some(Backend::MultiPoll), "MultiPoll")),
        },
        Row {
            variable: "KVIKIO_REMOTE_IO_REACTOR_DISPATCH",
            default: "PerChunk",
            good: &[("PER_CHUNK", "PerChunk"), ("per_pread", "PerPread")],
            bad: &["", "PER_CHUNK,PER_PREAD"],
            allowed: "one of PER_CHUNK, PER_PREAD",
            show: |c| format!("{:?}", c.dispatch),
            overrule: Some((|o| o.dispatch = Some(Dispatch::PerPread), "PerPread")),
        },
        Row {
            variable: "RASKIO_CONCURRENCY",
            default: "Adaptive",
            good: &[("ADAPTIVE", "Adaptive"), ("fixed", "Fixed")],
            bad: &["", "256"],
            allowed: "one of ADAPTIVE, FIXED",
            show: |c| format!("{:?}", c.concurrency),
            overrule: Some((|o| o.concurrency = Some(Concurrency::Fixed), "Fixed")),
        },
        Row {
            variable: "RASKIO_HEDGING",
            default: "false",
            good: &[("on", "true"), ("0", "false")],
            bad: &["", "2"],
            allowed: "one of on, off, true, false, yes, no, 1, 0",
            show: |c| c.hedging.to_string(),
            overrule: Some((|o| o.hedging = Some(true), "true")),
        },
        Row {
            variable: "RASKIO_LOCAL_BACKEND",
            default: "Auto",
            good: &[("auto", "Auto"), ("URING", "Uring"), (" PREAD", "Pread")],
            bad: &["", "io_uring"],
            allowed: "one of AUTO, URING, PREAD",
            show: |c| format!("{:?}", c.local_backend),
            overrule: Some((|o| o.local_backend = Some(LocalBackend::Pread), "Pread")),
        },
        Row {
            variable: "KVIKIO_AUTO_DIRECT_IO_READ",
            default: "false",
            good: &[("on", "true"), ("0", "false")],
            bad: &["", "2"],
            allowed: "one of on, off, true, false, yes, no, 1, 0",
            show: |c| c.direct_read.to_string(),
            overrule: None,
        },
        Row {
            variable: "KVIKIO_AUTO_DIRECT_IO_WRITE",
            default: "true",
            good: &[("on", "true"), ("off", "false")],
            bad: &["", "2"],
            allowed: "one of on, off, true, false, yes, no, 1, 0",
            show: |c| c.direct_write.to_string(),
            overrule: None,
        },
        Row {
            variable: "KVIKIO_AUTO_DIRECT_IO_READ_OVERREAD",
            default: "false",
            good: &[("yes", "true"), ("no", "false")],
            bad: &["", "2"],
            allowed: "one of on, off, true, false, yes, no, 1, 0",
            show: |c| c.direct_overread.to_string(),
            overrule: None,
        },
        Row {
            variable: "KVIKIO_REMOTE_IO_NUM_REACTORS",
            default: "1",
            good: &[("1", "1"), (" 8 ", "8"), ("1024", "1024")],
            bad: &["0", "1025", "99999999999999999999"],
            allowed: "an integer from 1 to 1024",
            show: |c| c.num_reactors.to_string(),
            overrule: Some((|o| o.num_reactors = Some(5), "5")),
        },
        Row {
            variable: "KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS",
            default: "256",
            good: &[("1", "1"), ("5000", "5000"), ("0", "4294967295")],
            bad: &["4294967296"],
            allowed: "an integer from 0 to 4294967295 (0: no limit)",
            show: |c| c.max_concurrent_requests.to_string(),
            overrule: Some((|o| o.max_concurrent_requests = Some(7), "7")),
        },
        Row {
            variable: "KVIKIO_TASK_SIZE",
            default: "4194304",
            good: &[("1", "1"), ("16777216", "16777216"), ("9223372036854775807", "9223372036854775807")],
            bad: &["0", "9223372036854775808", "18446744073709551616"],
            allowed: "an integer from 1 to 9223372036854775807 (bytes)",
            show: |c| c.task_size.to_string(),
            overrule: Some((|o| o.task_size = Some(65_536), "65536")),
        },
        Row {
            variable: "KVIKIO_NTHREADS",
            default: "16",
            good: &[("1", "1"), ("64", "64"), ("4096", "4096")],
            bad: &["0", "4097"],
            allowed: "an integer from 1 to 4096",
            show: |c| c.num_threads.to_string(),
            overrule: Some((|o| o.num_threads = Some(3), "3")),
        },
        Row {
            variable: "KVIKIO_NUM_THREADS",
            default: "16",
            good: &[("1", "1"), ("64", "64")],
            bad: &["0", "4097"],
            allowed: "an integer from 1 to 4096",
            show: |c| c.num_threads.to_string(),
            overrule: Some((|o| o.num_threads = Some(3), "3")),
        },
        Row {
            variable: "KVIKIO_BOUNCE_BUFFER_SIZE",
            default: "16777216",
            good: &[("1", "1"), ("33554432", "33554432")],
            bad: &["0", "9223372036854775808"],
            allowed: "an integer from 1 to 9223372036854775807 (bytes)",
            show: |c| c.bounce_buffer_size.to_string(),
            overrule: Some((|o| o.bounce_buffer_size = Some(8192), "8192")),
        },
        Row {
            variable: "KVIKIO_HTTP_MAX_ATTEMPTS",
            default: "3",
            good: &[("1", "1"), ("10", "10")],
            bad: &["0", "4294967296"],
            allowed: "an integer from 1 to 4294967295",
            show: |c| c.max_attempts.to_string(),
            overrule: Some((|o| o.max_attempts = Some(4), "4")),
        },
        Row {
            variable: "KVIKIO_HTTP_STATUS_CODES",
            default: "[408, 429, 500, 502, 503, 504]",
            good: &[
                ("503", "[503]"),
                (" 503 ,\t429, 503", "[429, 503]"),
                ("100,599", "[100, 599]"),
                ("", "[408, 429, 500, 502, 503, 504]"),
            ],
            bad: &["99", "600", "503,", ",503", "503;504", "503 504", "5xx", "-503", "70000"],
            allowed: "HTTP statuses from 100 to 599, separated by commas",
            show: |c| format!("{:?}", c.retry_status),
            overrule: Some((|o| o.retry_status = Some(vec![]), "[]")),
        },
        Row {
            variable: "KVIKIO_HTTP_TIMEOUT",
            default: "Some(60s)",
            good: &[("1", "Some(1s)"), ("3600", "Some(3600s)"), ("2147483", "Some(2147483s)")],
            bad: &["0", "2147484", "4294967356"],
            allowed: "an integer from 1 to 2147483 (seconds)",
            show: |c| format!("{:?}", c.request_timeout),
            overrule: Some((|o| o.request_timeout_ms = Some(1500), "Some(1.5s)")),
        },
        Row {
            variable: "KVIKIO_REMOTE_VERBOSE",
            default: "false",
            good: &[
                ("on", "true"),
                ("TRUE", "true"),
                ("Yes", "true"),
                ("1", "true"),
                (" off ", "false"),
                ("false", "false"),
                ("NO", "false"),
                ("0", "false"),
            ],
            bad: &["", "2", "y", "enabled"],
            allowed: "one of on, off, true, false, yes, no, 1, 0",
            show: |c| c.verbose.to_string(),
            overrule: None,
        },
    ]
}

#[test]
fn every_variable_has_its_default_takes_good_values_refuses_bad_ones_and_yields_to_the_option() {
    for row in rows() {
        let variable = row.variable;
        assert_eq!((row.show)(&with(&[]).unwrap()), row.default, "default of {variable}");
        for (value, shown) in row.good {
            let config = with(&[(variable, value)]).unwrap_or_else(|e| panic!("{variable}={value:?}: {e}"));
            assert_eq!((row.show)(&config), *shown, "{variable}={value:?}");
            if let Some((set, overruled)) = row.overrule {
                let mut overrides = Overrides::default();
                set(&mut overrides);
                let config = resolve(&overrides, &[(variable, value)]).unwrap();
                assert_eq!((row.show)(&config), overruled, "{variable}={value:?} and its option");
            }
        }
        let numeric = row.allowed.starts_with("an integer");
        for value in row.bad.iter().chain(if numeric { &NOT_NUMBERS[..] } else { &[] }) {
            let message = refused(with(&[(variable, value)]));
            assert_eq!(message, format!("{variable} is {value:?}; it must be {}", row.allowed));
            if let Some((set, _)) = row.overrule {
                let mut overrides = Overrides::default();
                set(&mut overrides);
                assert_eq!(refused(resolve(&overrides, &[(variable, value)])), message, "an option hides no error");
            }
        }
    }
}

#[test]
fn a_value_that_is_not_utf8_is_refused_by_name() {
    for row in rows() {
        let outcome = Config::resolve(&Overrides::default(), &|name| {
            (name == row.variable).then(|| OsString::from_vec(vec![b'1', 0xff]))
        });
        let message = refused(outcome);
        assert!(message.starts_with(&format!("{} is \"1\u{fffd}\"; it must be", row.variable)), "{message}");
    }
}

#[test]
fn what_no_variable_sets_has_the_documented_default() {
    let config = with(&[]).unwrap();
    assert_eq!(config.connect_timeout, Some(Duration::from_secs(10)));
    assert_eq!(config.stall_timeout, Some(Duration::from_secs(30)));
    assert_eq!(config.callback_threads, 0);
    assert_eq!(config.max_pinned_bytes, 256 << 20);
    assert_eq!(config.local_backend, LocalBackend::Auto);
    assert_eq!((config.uring_queue_depth, config.uring_sqpoll_idle_ms), (128, 0));
}

#[test]
fn the_two_names_of_the_thread_count_must_agree() {
    let both = |a, b| with(&[("KVIKIO_NTHREADS", a), ("KVIKIO_NUM_THREADS", b)]);
    assert_eq!(both("8", " 8 ").unwrap().num_threads, 8);
    assert_eq!(
        refused(both("8", "9")),
        "KVIKIO_NTHREADS is 8 but its alias KVIKIO_NUM_THREADS is 9; set one of them, or both to the same value"
    );
    assert!(refused(both("8", "x")).starts_with("KVIKIO_NUM_THREADS is \"x\""));
}

#[test]
fn unlimited_is_no_time_limit_and_no_request_limit() {
    let overrides = Overrides {
        connect_timeout_ms: Some(UNLIMITED),
        stall_timeout_ms: Some(UNLIMITED),
        request_timeout_ms: Some(UNLIMITED),
        max_concurrent_requests: Some(UNLIMITED),
        ..Overrides::default()
    };
    let config = resolve(&overrides, &[("KVIKIO_HTTP_TIMEOUT", "5")]).unwrap();
    assert_eq!((config.connect_timeout, config.stall_timeout, config.request_timeout), (None, None, None));
    assert_eq!(config.max_concurrent_requests, UNLIMITED);
    let overrides = Overrides { max_concurrent_requests: Some(0), ..Overrides::default() };
    assert_eq!(resolve(&overrides, &[]).unwrap().max_concurrent_requests, UNLIMITED);
}

#[test]
fn every_option_is_taken() {
    let overrides = Overrides {
        backend: Some(Backend::MultiPoll),
        dispatch: Some(Dispatch::PerPread),
        num_reactors: Some(2),
        num_threads: Some(3),
        max_concurrent_requests: Some(4),
        concurrency: Some(Concurrency::Fixed),
        hedging: Some(true),
        max_attempts: Some(5),
        task_size: Some(6),
        connect_timeout_ms: Some(7),
        stall_timeout_ms: Some(8),
        request_timeout_ms: Some(9),
        callback_threads: Some(10),
        retry_status: Some(vec![503, 429, 503]),
        bounce_buffer_size: Some(12),
        max_pinned_bytes: Some(13),
        max_free_events: Some(16),
        pinned_pool: None,
        local_backend: Some(LocalBackend::Pread),
        uring_queue_depth: Some(14),
        uring_sqpoll_idle_ms: Some(15),
    };
    let expected = Config {
        backend: Backend::MultiPoll,
        dispatch: Dispatch::PerPread,
        num_reactors: 2,
        num_threads: 3,
        max_concurrent_requests: 4,
        concurrency: Concurrency::Fixed,
        hedging: true,
        max_attempts: 5,
        task_size: 6,
        connect_timeout: Some(Duration::from_millis(7)),
        stall_timeout: Some(Duration::from_millis(8)),
        request_timeout: Some(Duration::from_millis(9)),
        callback_threads: 10,
        retry_status: vec![429, 503],
        bounce_buffer_size: 12,
        max_pinned_bytes: 13,
        max_free_events: 16,
        pinned_pool: None,
        local_backend: LocalBackend::Pread,
        uring_queue_depth: 14,
        uring_sqpoll_idle_ms: 15,
        direct_read: false,
        direct_write: true,
        direct_overread: false,
        verbose: false,
    };
    assert_eq!(resolve(&overrides, &[]).unwrap(), expected);
}

#[test]
fn a_bad_option_is_refused_under_its_own_name() {
    let cases: [(SetOption, &str); 14] = [
        (|o| o.num_reactors = Some(0), "option num_reactors is 0; it must be an integer from 1 to 1024"),
        (|o| o.num_reactors = Some(1025), "option num_reactors is 1025; it must be an integer from 1 to 1024"),
        (|o| o.num_threads = Some(4097), "option num_threads is 4097; it must be an integer from 1 to 4096"),
        (|o| o.max_attempts = Some(0), "option max_attempts is 0; it must be an integer from 1 to 4294967295"),
        (
            |o| o.task_size = Some(0),
            "option task_size is 0; it must be an integer from 1 to 9223372036854775807 (bytes)",
        ),
        (|o| o.task_size = Some(1 << 63), "option task_size is 9223372036854775808; it must be an integer from 1"),
        (|o| o.connect_timeout_ms = Some(0), "option connect_timeout_ms is 0; it must be an integer from 1"),
        (|o| o.stall_timeout_ms = Some(0), "option stall_timeout_ms is 0; it must be an integer from 1"),
        (|o| o.request_timeout_ms = Some(0), "option request_timeout_ms is 0; it must be an integer from 1"),
        (|o| o.callback_threads = Some(1025), "option callback_threads is 1025; it must be an integer from 0 to 1024"),
        (|o| o.retry_status = Some(vec![503, 600]), "option retry_status is 600; it must be HTTP statuses from 100"),
        (|o| o.bounce_buffer_size = Some(0), "option bounce_buffer_size is 0; it must be an integer from 1"),
        (|o| o.max_free_events = Some(0), "option max_free_events is 0; it must be an integer from 1 to 4294967295"),
        (|o| o.uring_queue_depth = Some(0), "option uring_queue_depth is 0; it must be an integer from 1 to 32768"),
    ];
    for (set, message) in cases {
        let mut overrides = Overrides::default();
        set(&mut overrides);
        let got = refused(resolve(&overrides, &[]));
        assert!(got.starts_with(message), "{got}");
    }
}

#[test]
fn pinned_memory_has_room_for_one_bounce_buffer() {
    let bounce = [("KVIKIO_BOUNCE_BUFFER_SIZE", "4294967296")];
    assert_eq!(with(&bounce).unwrap().max_pinned_bytes, 1 << 32, "the default grows with the buffer");
    let overrides = Overrides { max_pinned_bytes: Some(1 << 20), ..Overrides::default() };
    assert_eq!(
        refused(resolve(&overrides, &[])),
        "option max_pinned_bytes is 1048576; it must be at least one bounce buffer (16777216 bytes; see bounce_buffer_size)"
    );
}
