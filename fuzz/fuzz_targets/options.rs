//! Option structs as C passes them: of any size, with anything in them. Nothing beyond `struct_size` is touched (the memory
//! ends there, and AddressSanitizer looks), what is too small or unknown is refused, and the rest works or says what is wrong.
#![no_main]
#![allow(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use raskio::ffi::client::{
    raskio_client, raskio_client_new, raskio_client_options, raskio_client_release, raskio_client_shut_down,
};
use raskio::ffi::error::{raskio_error, raskio_error_free, raskio_error_message, raskio_error_status};
use raskio::ffi::object::{
    raskio_object, raskio_object_info, raskio_object_info_get, raskio_object_open, raskio_object_options,
    raskio_object_release,
};
use raskio::ffi::op::raskio_read_options;
use raskio::ffi::read::raskio_read_sync;
use raskio::ffi::secrets::{raskio_bearer, raskio_credentials};
use raskio::ffi::stats::{raskio_client_stats, raskio_stats};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

const OK: i32 = 0;
const INVALID_ARGUMENT: i32 = 1;
const UNSUPPORTED: i32 = 2;

/// Memory of exactly this many bytes, aligned as C aligns a struct.
struct Exact(*mut u8, Layout);

impl Exact {
    fn new(len: usize) -> Exact {
        let layout = Layout::from_size_align(len, align_of::<usize>()).unwrap();
        // SAFETY: the length is not zero (see `input`).
        Exact(unsafe { alloc_zeroed(layout) }, layout)
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.0, self.1) }
    }
}

/// A struct of `len` bytes, of which the first are `value` and those that no library knows yet are `tail`.
fn input<T: Copy>(value: T, claimed: usize, len: usize, tail: &[u8]) -> Exact {
    let memory = Exact::new(len.max(size_of::<usize>()));
    let (len, known) = (memory.1.size(), size_of::<T>());
    // SAFETY: both sides hold what is copied.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(&value).cast::<u8>(), memory.0, known.min(len));
        for at in known..len {
            memory.0.add(at).write(tail.get(at - known).copied().unwrap_or(0));
        }
        memory.0.cast::<usize>().write(claimed);
    }
    memory
}

/// A struct whose fields are these bytes.
///
/// # Safety
/// Every bit pattern is a valid T, or the caller mends what is not before it uses it.
unsafe fn of_bytes<T: Copy>(bytes: &[u8]) -> T {
    // SAFETY: plain data of C, and the caller's promise.
    unsafe {
        let mut value = std::mem::zeroed::<T>();
        let len = bytes.len().min(size_of::<T>());
        ptr::copy_nonoverlapping(bytes.as_ptr(), ptr::from_mut(&mut value).cast::<u8>(), len);
        value
    }
}

unsafe extern "C" fn alloc(_: *mut c_void, _: usize) -> *mut c_void {
    ptr::null_mut()
}
unsafe extern "C" fn last(_: *mut c_void) {}

/// Every error has a status of its own and words; freed here.
fn judge(
    status: i32,
    error: *mut raskio_error,
    claimed: usize,
    version_1: usize,
    known: usize,
    len: usize,
    tail: &[u8],
) {
    if status == OK {
        assert!(error.is_null());
        assert!(claimed >= version_1, "{claimed} bytes were accepted");
        assert!(
            (known..len).all(|at| tail.get(at - known).copied().unwrap_or(0) == 0),
            "an unknown option was dropped"
        );
        return;
    }
    // SAFETY: an error that was just received, freed once.
    unsafe {
        assert_eq!(raskio_error_status(error), status);
        assert!(!CStr::from_ptr(raskio_error_message(error)).is_empty());
        raskio_error_free(error);
    }
    if claimed < version_1 || claimed > 1 << 16 {
        assert_eq!(status, INVALID_ARGUMENT, "struct_size {claimed}");
    } else if (known..len).any(|at| tail.get(at - known).copied().unwrap_or(0) != 0) {
        assert_eq!(status, UNSUPPORTED, "struct_size {claimed}");
    }
}

/// The client of all iterations, and an object of it.
fn handles() -> (*mut raskio_client, *mut raskio_object) {
    static HANDLES: OnceLock<(usize, usize)> = OnceLock::new();
    let (client, object) = *HANDLES.get_or_init(|| {
        let (mut client, mut object) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: valid outputs, NULL options.
        unsafe {
            let options = raskio_client_options {
                struct_size: size_of::<raskio_client_options>(),
                num_threads: 1,
                ..std::mem::zeroed()
            };
            assert_eq!(raskio_client_new(&options, &mut client, ptr::null_mut()), OK);
            let url = c"http://127.0.0.1:1/x".as_ptr();
            assert_eq!(raskio_object_open(client, url, ptr::null(), &mut object, ptr::null_mut()), OK);
        }
        (client as usize, object as usize)
    });
    (client as *mut raskio_client, object as *mut raskio_object)
}

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_at_checked(4) else { return };
    let len = usize::from(u16::from_le_bytes([head[1], head[2]]) % 400).max(size_of::<usize>());
    // A lie is only safe where it is refused before the memory behind it is read.
    let claimed = if head[3] == 0xff { (1 << 16) + 1 + len } else { len };
    match head[0] % 5 {
        0 => client_options(claimed, len, head[3], rest),
        1 => object_options(claimed, len, head[3], rest),
        2 => read_options(claimed, len, rest),
        3 => output(claimed, len, |out| {
            // SAFETY: a live client, and memory of struct_size bytes.
            unsafe { raskio_client_stats(handles().0, out.cast::<raskio_stats>()) }
        }),
        _ => output(claimed, len, |out| {
            // SAFETY: as above.
            unsafe { raskio_object_info_get(handles().1, out.cast::<raskio_object_info>()) }
        }),
    }
});

unsafe extern "C" fn no_keys(_: *mut c_void, _: *mut raskio_credentials) -> i32 {
    1
}

unsafe extern "C" fn no_token(_: *mut c_void, _: *mut raskio_bearer) -> i32 {
    1
}

fn client_options(claimed: usize, len: usize, choice: u8, bytes: &[u8]) {
    let statuses = [429_u16, 503, 7];
    // Function pointers must be NULL or functions: these bytes become fields one by one.
    let known = size_of::<raskio_client_options>();
    let (fields, tail) = bytes.split_at(bytes.len().min(known));
    let number =
        |at: usize| fields.get(at..at + 4).map_or(0, |four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    let wide = |at: usize| u64::from(number(at)) << (number(at + 4) % 33);
    let optional = |bit: u8| choice & (1 << bit) != 0;
    let options = raskio_client_options {
        struct_size: claimed,
        backend: number(8),
        reactor_dispatch: number(12),
        // As many threads as four bytes can ask for would be started.
        num_reactors: number(16) % 3,
        num_threads: number(20) % 3 + 1,
        max_concurrent_requests: number(24),
        max_attempts: number(28),
        task_size: wide(32),
        connect_timeout_ms: number(40),
        stall_timeout_ms: number(44),
        request_timeout_ms: number(48),
        callback_threads: number(52) % 3,
        retry_status: if optional(0) { statuses.as_ptr() } else { ptr::null() },
        retry_status_count: if optional(1) { number(56) as usize % 4 } else { 0 },
        bounce_buffer_size: wide(72),
        max_pinned_bytes: wide(80),
        pinned_alloc: optional(2).then_some(alloc as _),
        pinned_free: None,
        local_backend: number(104),
        uring_queue_depth: number(108),
        uring_sqpoll_idle_ms: number(112),
        concurrency: number(116),
        credentials: optional(4).then_some(no_keys as _),
        on_shut_down: optional(3).then_some(last as _),
        user_data: ptr::null_mut(),
        max_free_events: number(144),
        hedging: number(148),
        // A size in the middle of a field would leave half a pointer.
        bearer: (optional(5) && claimed >= known).then_some(no_token as _),
        on_event: None,
    };
    let memory = input(options, claimed, len, tail);
    let (mut client, mut error) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the C contract is kept: memory of struct_size bytes, or a size that is refused at once.
    unsafe {
        let status = raskio_client_new(memory.0.cast(), &mut client, &mut error);
        judge(status, error, claimed, 152, known, len, tail);
        if status == OK {
            assert_eq!(raskio_client_shut_down(client, 60_000, ptr::null_mut()), OK);
            raskio_client_release(client);
        } else {
            assert!(client.is_null(), "an output was written on failure");
        }
    }
}

fn object_options(claimed: usize, len: usize, choice: u8, bytes: &[u8]) {
    let known = size_of::<raskio_object_options>();
    let (fields, rest) = bytes.split_at(bytes.len().min(24));
    // What follows the numbers are strings, ended by NUL as C wants them, and then the tail.
    let mut parts: Vec<Vec<u8>> = rest.splitn(16, |&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let tail = if parts.len() == 16 { parts.pop().unwrap_or_default() } else { Vec::new() };
    parts.iter_mut().for_each(|part| part.push(0));
    let text = |index: usize| parts.get(index).map_or(ptr::null(), |part| part.as_ptr().cast::<c_char>());
    let optional = |bit: u8, index| if choice & (1 << bit) != 0 { text(index) } else { ptr::null() };
    let headers = [text(7), text(8)];
    // A size in the middle of a field would leave half a pointer.
    let late = |index: usize| match parts.get(index) {
        Some(part) if part.len() > 1 && claimed >= known => part.as_ptr().cast::<c_char>(),
        _ => ptr::null(),
    };
    // SAFETY: numbers only; the pointers are set below.
    let numbers: raskio_object_options = unsafe { of_bytes(fields) };
    let options = raskio_object_options {
        struct_size: claimed,
        region: optional(0, 1),
        endpoint_url: optional(1, 2),
        access_key_id: optional(2, 3),
        secret_access_key: optional(2, 4),
        session_token: optional(3, 5),
        user_name: optional(4, 5),
        ca_file: optional(5, 6),
        headers: if choice & 64 != 0 { headers.as_ptr() } else { ptr::null() },
        header_count: usize::from(choice) % 3,
        allowed_endpoints: if claimed >= known { numbers.flags & 0x7e } else { 0 },
        bearer_token: late(9),
        client_certificate: late(10),
        client_key: late(11),
        client_key_password: late(12),
        proxy: late(13),
        unix_socket: late(14),
        ..numbers
    };
    let memory = input(options, claimed, len, &tail);
    let (mut object, mut error) = (ptr::null_mut(), ptr::null_mut());
    // With a struct that must be refused, nothing else may be at fault.
    let own = len == known && parts.first().is_some_and(|part| part.len() > 1);
    let url = if own { text(0) } else { c"http://h/x".as_ptr() };
    // SAFETY: the C contract is kept, as above; strings end with NUL.
    unsafe {
        let status = raskio_object_open(handles().0, url, memory.0.cast(), &mut object, &mut error);
        judge(status, error, claimed, 96, known, len, &tail);
        raskio_object_release(object);
    }
}

fn read_options(claimed: usize, len: usize, bytes: &[u8]) {
    let known = size_of::<raskio_read_options>();
    let (fields, tail) = bytes.split_at(bytes.len().min(known));
    // SAFETY: numbers, and a stream that is only compared with NULL.
    let options: raskio_read_options = unsafe { of_bytes(fields) };
    let memory = input(options, claimed, len, tail);
    let mut error = ptr::null_mut();
    // SAFETY: the C contract is kept; nothing is read, so nothing is sent.
    unsafe {
        let status = raskio_read_sync(handles().1, 0, ptr::null_mut(), 0, memory.0.cast(), ptr::null_mut(), &mut error);
        judge(status, error, claimed, known, known, len, tail);
    }
}

/// An output struct: at most `struct_size` bytes are written.
fn output(claimed: usize, len: usize, call: impl FnOnce(*mut u8) -> i32) {
    let memory = Exact::new(len);
    // SAFETY: the memory holds at least a usize.
    unsafe { memory.0.cast::<usize>().write(claimed) };
    assert_eq!(call(memory.0), if claimed > 1 << 16 { INVALID_ARGUMENT } else { OK });
    // SAFETY: as above.
    assert_eq!(unsafe { memory.0.cast::<usize>().read() }, claimed, "struct_size is an input");
}
