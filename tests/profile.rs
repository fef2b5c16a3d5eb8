//! What a profiler sees through NVTX: every operation, request, wait and copy once, with its bytes, and each ends.

mod support;

use raskio::config::Backend;
use raskio_testserver::{Object, Reply, Server, get};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::child::{again, is_child, succeeds};
use support::cuda::{DeviceClient, Gpu};
use support::{TestClient, stat};

/// nvtx/recorder, compiled; and where it writes.
fn recorder(name: &str) -> (PathBuf, PathBuf) {
    let nvtx = Path::new(env!("CARGO_MANIFEST_DIR")).join("nvtx");
    let directory = std::env::temp_dir().join(format!("raskio-profile-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let library = directory.join("recorder.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-I"]).arg(nvtx.join("vendor")).arg(nvtx.join("recorder/recorder.c"));
    assert!(compiler.arg("-o").arg(&library).status().unwrap().success(), "the recorder does not compile");
    (library, directory.join("record"))
}

/// A range that began, and ended.
#[derive(Debug)]
struct Seen {
    category: String,
    bytes: u64,
    name: String,
}

/// Runs `test` once more, with the recorder as its profiler, and returns the ranges of the domain raskio.
fn record(test: &str) -> Vec<Seen> {
    let (library, record) = recorder(test);
    succeeds(again(test).env("NVTX_INJECTION64_PATH", &library).env("RASKIO_NVTX_RECORD", &record));
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::remove_dir_all(record.parent().unwrap()).unwrap();
    assert!(!text.contains("fault"), "{text}");
    let (mut names, mut running, mut seen) = (HashMap::new(), HashMap::new(), Vec::new());
    for line in text.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["domain", name] => assert_eq!(name, "raskio"),
            ["category", "raskio", number, name] => drop(names.insert(number.to_owned(), name.to_owned())),
            ["start", id, "raskio", category, bytes, name] => {
                let bytes = bytes.parse().unwrap();
                let range = Seen { category: names[category].clone(), bytes, name: name.into() };
                assert!(running.insert(id.to_owned(), range).is_none());
            }
            ["end", id, "raskio"] => seen.push(running.remove(id).unwrap()),
            _ => panic!("{line}"),
        }
    }
    assert!(running.is_empty(), "ranges that did not end: {running:?}");
    seen
}

fn of<'a>(seen: &'a [Seen], category: &str) -> Vec<&'a Seen> {
    seen.iter().filter(|range| range.category == category).collect()
}

#[test]
fn operations_requests_and_waits_are_ranges() {
    if is_child() {
        let server = Server::start();
        server.put("/data", Object::pattern(1000));
        server.script(get("/data"), [Reply::status(503).retry_after(0), Reply::object()]);
        for backend in [Backend::MultiPoll, Backend::EasyThreadpool] {
            let client = TestClient::with(backend, |options| {
                options.task_size = Some(250);
                options.max_concurrent_requests = Some(1);
            });
            let object = client.open(&server.url("/data"));
            assert_eq!(stat(&object).unwrap(), 1000);
            support::read(&object, 0, 1000);
        }
        return;
    }
    let seen = record("operations_requests_and_waits_are_ranges");
    let operations = of(&seen, "operation");
    assert_eq!(operations.len(), 4, "{seen:?}");
    assert!(operations[0].name.starts_with("stat http://127.0.0.1:"), "{seen:?}");
    let reads: Vec<_> = operations.iter().filter(|range| range.name.starts_with("read ")).collect();
    assert!(reads.len() == 2 && reads.iter().all(|read| read.bytes == 1000), "{seen:?}");
    assert!(reads[0].name.ends_with("/data: 1000 bytes from 0"), "{seen:?}");
    // Two HEADs, four GETs with each backend, and the one that was refused.
    let requests = of(&seen, "request");
    assert_eq!(requests.len(), 2 + 2 * 4 + 1, "{seen:?}");
    assert_eq!(requests.iter().map(|request| request.bytes).sum::<u64>(), 2 * 1000 + 250, "{seen:?}");
    let waits = of(&seen, "wait");
    assert!(waits.iter().any(|wait| wait.name == "wait for a permit"), "{seen:?}");
    assert!(of(&seen, "copy").is_empty(), "{seen:?}");
}

#[test]
fn copies_into_device_memory_are_ranges_with_their_bytes() {
    if is_child() {
        let _gpu = Gpu::new();
        let server = Server::start();
        server.put("/data", Object::pattern(1 << 20));
        let client = DeviceClient::new(Backend::MultiPoll, |options| options.task_size = Some(256 << 10));
        support::cuda::read(&client.open(&server.url("/data")), 0, 1 << 20);
        return;
    }
    let seen = record("copies_into_device_memory_are_ranges_with_their_bytes");
    let copies = of(&seen, "copy");
    assert_eq!(copies.iter().map(|copy| copy.bytes).sum::<u64>(), 1 << 20, "{seen:?}");
    assert!(copies.iter().all(|copy| copy.name.ends_with("/data: copy")), "{seen:?}");
    assert_eq!((of(&seen, "operation").len(), of(&seen, "request").len()), (1, 4), "{seen:?}");
}

#[test]
fn requests_for_files_are_ranges_too() {
    if is_child() {
        let path = std::env::temp_dir().join(format!("raskio-profile-file-{}", std::process::id()));
        std::fs::write(&path, raskio_testserver::pattern(100_000)).unwrap();
        let client = TestClient::with(Backend::MultiPoll, |options| options.task_size = Some(40_000));
        support::read(&client.open(path.to_str().unwrap()), 0, 100_000);
        std::fs::remove_file(path).unwrap();
        return;
    }
    let seen = record("requests_for_files_are_ranges_too");
    let requests = of(&seen, "request");
    assert_eq!(requests.len(), 3, "{seen:?}");
    assert_eq!(requests.iter().map(|request| request.bytes).sum::<u64>(), 100_000, "{seen:?}");
    assert_eq!(of(&seen, "operation").len(), 1, "{seen:?}");
}
