//! Each test runs in a process of its own: the driver's state is the process's, and misuse ends it.
#![allow(dead_code)]

use std::env;
use std::ffi::{CStr, c_void};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::ptr;

use simcuda::abi::{Out, Text};
use simcuda::calls::{context::*, copy::*, event::*, init::*, memory::*, stream::*};
use simcuda::control::{Live, sim_cuda_fail, sim_cuda_live};

const ALONE: &str = "SIMCUDA_TEST_ALONE";

/// Runs this very test again in a new process with these variables, and there its body. `None` there.
pub fn again(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Output> {
    if env::var_os(ALONE).is_some() {
        body();
        return None;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, "1").envs(variables.iter().copied());
    Some(command.output().unwrap())
}

/// The body must succeed.
pub fn alone(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if let Some(output) = again(name, variables, body) {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}", output.status);
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "no test is named {name}");
    }
}

/// The body must end the process with a message that contains `expected`.
pub fn aborts(name: &str, expected: &str, body: impl FnOnce()) {
    if let Some(output) = again(name, &[], body) {
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}: {text}", output.status);
        assert!(text.contains("simcuda: misuse: ") && text.contains(expected), "{text:?} does not say {expected:?}");
    }
}

/// An out-parameter.
pub fn out<T>(value: &mut T) -> Out<T> {
    Out(ptr::from_mut(value))
}

/// A call with one out-parameter that must succeed; its result.
#[track_caller]
pub fn get<T: Default>(call: impl FnOnce(Out<T>) -> i32) -> T {
    let mut value = T::default();
    ok(call(Out(&raw mut value)));
    value
}

#[track_caller]
pub fn ok(code: i32) {
    assert_eq!(code, 0, "{:?}", simcuda::abi::describe(code));
}

/// Initialises, and makes a context on device 0 that is current.
pub fn context() -> usize {
    ok(cuInit(0));
    get(|out| cuCtxCreate_v2(out, 0, 0))
}

pub fn stream() -> usize {
    get(|out| cuStreamCreate(out, 1))
}

pub fn event() -> usize {
    get(|out| cuEventCreate(out, 2))
}

pub fn device(size: usize) -> usize {
    get(|out| cuMemAlloc_v2(out, size))
}

/// Page-locked memory, filled.
pub fn pinned(size: usize, value: u8) -> usize {
    let start = get(|out| cuMemHostAlloc(out, size, 0));
    // SAFETY: the driver's memory, of this size.
    unsafe { ptr::write_bytes(start as *mut u8, value, size) };
    start
}

/// A mapping of the host's own.
pub fn mapped(size: usize) -> usize {
    // SAFETY: a new anonymous mapping, anywhere.
    let start = unsafe { libc::mmap(ptr::null_mut(), size, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize
}

/// Its end: whoever touches it from now on crashes.
pub fn unmapped(start: usize, size: usize) {
    // SAFETY: made by `mapped`; the addresses stay out of use.
    let start = unsafe {
        libc::mmap(start as *mut c_void, size, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
}

pub fn byte(address: usize) -> u8 {
    // SAFETY: tests give addresses of memory that the host may touch.
    unsafe { ptr::read_volatile(address as *const u8) }
}

pub fn set_byte(address: usize, value: u8) {
    // SAFETY: as above, or the test expects the crash.
    unsafe { ptr::write_volatile(address as *mut u8, value) };
}

/// What is in device memory.
pub fn read(address: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; size];
    ok(cuMemcpyDtoH_v2(bytes.as_mut_ptr() as usize, address, size));
    bytes
}

#[track_caller]
pub fn copy(to: usize, from: usize, size: usize, stream: usize) {
    ok(cuMemcpyHtoDAsync_v2(to, from, size, stream));
}

/// Sets the thread's capture mode.
pub fn capture_mode(mut mode: i32) {
    ok(cuThreadExchangeStreamCaptureMode(out(&mut mode)));
}

pub fn name_of(code: i32) -> String {
    let mut pointer = ptr::null();
    ok(cuGetErrorName(code, out(&mut pointer)));
    // SAFETY: the driver's static text.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_owned()
}

pub fn live() -> Live {
    let mut live = Live::default();
    sim_cuda_live(out(&mut live));
    live
}

pub fn fail(name: &CStr, nth: u64, lasting: bool, code: i32) {
    sim_cuda_fail(Text(name.as_ptr()), nth, i32::from(lasting), code);
}

pub fn null() -> *mut c_void {
    ptr::null_mut()
}
