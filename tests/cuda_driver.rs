//! No driver, an old driver, a driver that nobody has initialised: host reads work, device reads say what is wrong.
//!
//! What is loaded into a process stays there, so each test looks from a process of its own.

mod support;

use raskio::config::Backend;
use raskio::error::{Error, ErrorKind};
use raskio::object::{ObjectOptions, ReadOptions};
use raskio::sys::cuda::Driver;
use raskio::sys::cuda::pointer::{self, Memory};
use raskio::sys::mem::Buffer;
use raskio_testserver::{Object, Server};
use std::ffi::c_void;
use std::path::PathBuf;
use support::cuda::{self, DeviceClient, DeviceMemory, Gpu, Kind, Sim, each_backend, read, start_with, start_write};
use support::files::Directory;
use support::{TestClient, child};

const LEN: usize = 100_000;

/// Whether this machine has a driver, whatever it is: then what is said without one cannot be seen here.
fn has_driver() -> bool {
    // SAFETY: loads a library by name, if there is one.
    !unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) }.is_null()
}

fn buffer_of(host: &mut [u8], memory: Memory) -> Result<Buffer, Error> {
    // SAFETY: the tests wait for the reads into it.
    unsafe { pointer::buffer(host.as_mut_ptr().cast::<c_void>(), host.len() as u64, memory, None) }
}

/// A host read, by every way of saying so but CUDA.
fn host_reads_work() {
    let server = Server::start();
    server.put("/data", Object::pattern(1 << 20));
    for backend in [Backend::EasyThreadpool, Backend::MultiPoll] {
        let client = TestClient::new(backend);
        let object = client.open(&server.url("/data"));
        for memory in [Memory::Auto, Memory::Host] {
            let mut host = vec![0; LEN];
            let buffer = buffer_of(&mut host, memory).unwrap();
            object.read_sync(3, buffer, &ReadOptions::default()).unwrap();
            assert!(host == raskio_testserver::pattern_at(3, LEN)[..]);
        }
    }
}

#[track_caller]
fn device_reads_say(kind: ErrorKind, words: &[&str]) {
    let error = buffer_of(&mut [0; 10], Memory::Cuda).err().expect("refused");
    assert_eq!(error.kind(), kind, "{error}");
    words.iter().for_each(|word| assert!(error.message().contains(word), "{word:?} is missing in: {error}"));
}

/// Runs `inside` in a process that finds this driver.
fn with(test: &str, directory: impl FnOnce() -> PathBuf, variables: &[(&str, &str)], inside: impl FnOnce()) {
    if child::is_child() {
        return inside();
    }
    let directory = directory();
    let mut command = child::again(test);
    cuda::with_driver(&mut command, &directory);
    child::succeeds(command.envs(variables.iter().copied()));
    std::fs::remove_dir_all(directory).expect("removing the copy of the driver");
}

#[test]
fn without_a_driver_host_reads_work_and_device_reads_are_unsupported() {
    if !child::is_child() {
        return drop(child::succeeds(&mut child::again(
            "without_a_driver_host_reads_work_and_device_reads_are_unsupported",
        )));
    }
    host_reads_work();
    assert!(Driver::loaded().is_none(), "a host read loads nothing");
    if !has_driver() {
        device_reads_say(ErrorKind::Unsupported, &["libcuda.so.1", "cannot be loaded", "host memory"]);
        host_reads_work();
    }
}

#[test]
fn a_driver_that_lacks_something_vital_is_unsupported_by_name() {
    let missing = ["cuEventRecord", "cuMemcpyHtoDAsync_v2"];
    let test = "a_driver_that_lacks_something_vital_is_unsupported_by_name";
    with(
        test,
        || cuda::installed("old", &missing),
        &[("SIM_CUDA_VERSION", "9020")],
        || {
            host_reads_work();
            device_reads_say(ErrorKind::Unsupported, &["cuEventRecord, cuMemcpyHtoDAsync_v2", "version 9.2"]);
            host_reads_work();
        },
    );
}

#[test]
fn a_driver_that_lacks_what_is_merely_better_works() {
    let missing = [
        "cuCtxGetId",
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuLaunchHostFunc",
        "cuMemcpyAsync",
        "cuMemcpyDtoHAsync_v2",
        "cuStreamGetCtx",
        "cuStreamIsCapturing",
        "cuThreadExchangeStreamCaptureMode",
    ];
    let test = "a_driver_that_lacks_what_is_merely_better_works";
    with(
        test,
        || cuda::installed("plain", &missing),
        &[],
        || {
            let gpu = Gpu::new();
            each_backend(|backend| {
                let server = Server::start();
                server.put("/data", Object::pattern(1 << 20));
                let client = DeviceClient::new(backend, |options| options.task_size = Some(30_000));
                let object = client.open(&server.url("/data"));
                read(&object, 0, LEN);
                let (stream, memory) = (gpu.sim.stream(), DeviceMemory::of(Kind::Managed, LEN));
                start_with(&object, 1, &memory, Some(stream), &ReadOptions::default()).succeeds();
                memory.assert_pattern(1);
                memory.free();
                assert_eq!(gpu.sim.cuStreamDestroy_v2(stream), 0);
                // Names are the driver's; without them there is the number.
                gpu.sim.fail("cuMemcpyHtoDAsync", 1, false, 700);
                let memory = DeviceMemory::new(LEN);
                cuda::start(&object, 0, &memory).fails(ErrorKind::Cuda, &["cuMemcpyHtoDAsync", "700"]);
                // Only writes of device memory need it.
                let files = Directory::new();
                let options = ObjectOptions { writable: true, ..ObjectOptions::default() };
                let file = client.client.open(&files.path("written"), options).unwrap();
                start_write(&file, 0, &memory, None)
                    .fails(ErrorKind::Unsupported, &["cuMemcpyDtoHAsync_v2", "written"]);
                memory.free();
            });
        },
    );
}

#[test]
fn without_a_device_the_driver_says_so() {
    let test = "without_a_device_the_driver_says_so";
    with(
        test,
        || cuda::installed("none", &[]),
        &[("SIM_CUDA_DEVICES", "0")],
        || {
            device_reads_say(ErrorKind::Cuda, &["cuInit", "CUDA_ERROR_NO_DEVICE", "100"]);
            host_reads_work();
        },
    );
}

#[test]
fn host_reads_neither_load_nor_initialise_the_driver() {
    let test = "host_reads_neither_load_nor_initialise_the_driver";
    with(
        test,
        || cuda::installed("idle", &[]),
        &[],
        || {
            host_reads_work();
            assert!(Driver::loaded().is_none());
            let sim = Sim::uninitialised();
            host_reads_work();
            assert!(Driver::loaded().is_some(), "now it is there");
            assert_eq!(sim.count("cuInit"), 0);
            // An explicit request does.
            assert!(Driver::need().is_ok());
            assert_eq!(sim.count("cuInit"), 1);
        },
    );
}
