//! The C ABI as Rust sees it: numbers that C programs have compiled in, the table, and calls through it.

use raskio::error::ErrorKind;
use raskio::ffi::batch::*;
use raskio::ffi::client::*;
use raskio::ffi::error::*;
use raskio::ffi::log::*;
use raskio::ffi::object::*;
use raskio::ffi::op::*;
use raskio::ffi::read::*;
use raskio::ffi::status::*;
use raskio::ffi::table::*;
use raskio::ffi::version::*;
use raskio_testserver::{Body, Server, pattern};
use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::mpsc;
use std::time::Duration;

/// A status that changes its number breaks every program that is already compiled.
#[test]
fn status_numbers_are_those_of_the_error_kinds() {
    let numbers = [
        (RASKIO_ERR_INVALID_ARGUMENT, ErrorKind::InvalidArgument, 1),
        (RASKIO_ERR_UNSUPPORTED, ErrorKind::Unsupported, 2),
        (RASKIO_ERR_CANCELLED, ErrorKind::Cancelled, 3),
        (RASKIO_ERR_TIMED_OUT, ErrorKind::TimedOut, 4),
        (RASKIO_ERR_NOT_FOUND, ErrorKind::NotFound, 5),
        (RASKIO_ERR_PERMISSION_DENIED, ErrorKind::PermissionDenied, 6),
        (RASKIO_ERR_UNAVAILABLE, ErrorKind::Unavailable, 7),
        (RASKIO_ERR_RANGE, ErrorKind::Range, 8),
        (RASKIO_ERR_IO, ErrorKind::Io, 9),
        (RASKIO_ERR_CUDA, ErrorKind::Cuda, 10),
        (RASKIO_ERR_OUT_OF_MEMORY, ErrorKind::OutOfMemory, 11),
        (RASKIO_ERR_SHUT_DOWN, ErrorKind::ShutDown, 12),
        (RASKIO_ERR_WOULD_DEADLOCK, ErrorKind::WouldDeadlock, 13),
        (RASKIO_ERR_FORKED, ErrorKind::Forked, 14),
        (RASKIO_ERR_INTERNAL, ErrorKind::Internal, 15),
        (RASKIO_ERR_OBJECT_CHANGED, ErrorKind::ObjectChanged, 16),
        (RASKIO_ERR_CONNECTION, ErrorKind::Connection, 17),
        (RASKIO_ERR_TLS, ErrorKind::Tls, 18),
        (RASKIO_ERR_HTTP, ErrorKind::Http, 19),
    ];
    assert_eq!(numbers.len(), ErrorKind::ALL.len());
    for (constant, kind, number) in numbers {
        assert_eq!((constant, kind.code()), (number, number), "{}", kind.name());
    }
}

/// These are not enumerations in Rust, so nothing else keeps them apart.
#[test]
fn other_numbers_are_what_programs_have_compiled_in() {
    assert_eq!([RASKIO_BACKEND_AUTO, RASKIO_BACKEND_EASY_THREADPOOL, RASKIO_BACKEND_MULTI_POLL], [0, 1, 2]);
    assert_eq!([RASKIO_DISPATCH_AUTO, RASKIO_DISPATCH_PER_CHUNK, RASKIO_DISPATCH_PER_PREAD], [0, 1, 2]);
    assert_eq!([RASKIO_LOCAL_AUTO, RASKIO_LOCAL_URING, RASKIO_LOCAL_PREAD], [0, 1, 2]);
    assert_eq!(
        [RASKIO_ENDPOINT_AUTO, RASKIO_ENDPOINT_HTTP, RASKIO_ENDPOINT_S3, RASKIO_ENDPOINT_S3_PUBLIC],
        [0, 1, 2, 3]
    );
    assert_eq!([RASKIO_ENDPOINT_S3_PRESIGNED, RASKIO_ENDPOINT_WEBHDFS, RASKIO_ENDPOINT_FILE], [4, 5, 6]);
    assert_eq!([RASKIO_OBJECT_SIZE_KNOWN, RASKIO_OBJECT_WRITABLE], [1, 2]);
    assert_eq!([RASKIO_OBJECT_DIRECT, RASKIO_OBJECT_BUFFERED, RASKIO_WRITE_DURABLE], [64, 128, 4]);
    assert_eq!([RASKIO_MEMORY_AUTO, RASKIO_MEMORY_HOST, RASKIO_MEMORY_CUDA], [0, 1, 2]);
    assert_eq!([RASKIO_READ_FROM_END, RASKIO_READ_ON_STREAM, RASKIO_WRITE_ON_STREAM], [1, 2, 2]);
    assert_eq!([RASKIO_SIZE_UNKNOWN, RASKIO_COALESCE_DEFAULT, RASKIO_COALESCE_NEVER], [u64::MAX, 0, u64::MAX]);
    assert_eq!(RASKIO_UNLIMITED, u32::MAX);
    assert_eq!(raskio_abi_version(), RASKIO_ABI_MAJOR << 16 | RASKIO_ABI_MINOR);
    for url in [c"http://h/x", c"https://h:1/x?y"] {
        // SAFETY: a string that ends with NUL.
        assert_eq!(unsafe { raskio_endpoint_infer(url.as_ptr()) }, RASKIO_ENDPOINT_HTTP);
    }
    for url in [c"/a/b", c"file:///a"] {
        // SAFETY: as above.
        assert_eq!(unsafe { raskio_endpoint_infer(url.as_ptr()) }, RASKIO_ENDPOINT_FILE);
    }
    for url in [c"", c"h", c"a/b", c"gopher://h/x", c"\xff"] {
        // SAFETY: as above.
        assert_eq!(unsafe { raskio_endpoint_infer(url.as_ptr()) }, RASKIO_ENDPOINT_AUTO, "{url:?}");
    }
}

/// A zeroed struct with its size set, as C makes it.
fn zeroed<T>() -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: every struct of the API begins with its size, and is valid when the rest is zero.
    unsafe {
        value.as_mut_ptr().cast::<usize>().write(size_of::<T>());
        value.assume_init()
    }
}

/// The message of an error object, which is freed.
fn message(error: *mut raskio_error) -> String {
    // SAFETY: NULL, or an error that the caller gives up; the text is copied before that.
    unsafe {
        let text = CStr::from_ptr(raskio_error_message(error)).to_str().expect("messages are UTF-8").to_owned();
        raskio_error_free(error);
        text
    }
}

fn table() -> &'static raskio_api {
    // SAFETY: the table is static.
    unsafe { raskio_get_api(RASKIO_ABI_MAJOR).as_ref() }.expect("this library has this version")
}

type Told = (raskio_status, u64, u64, Vec<u8>);

struct Call {
    told: mpsc::Sender<Told>,
    memory: Vec<u8>,
}

unsafe extern "C" fn tell(user_data: *mut c_void, result: *const raskio_result) {
    // SAFETY: the result is valid during the callback, the user data is the Box of the call below.
    let (result, call) = unsafe { (&*result, Box::from_raw(user_data.cast::<Call>())) };
    assert_eq!(result.struct_size, size_of::<raskio_result>());
    assert_eq!((result.items.is_null(), result.item_count), (true, 0));
    let Call { told, memory } = *call;
    told.send((result.status, result.bytes, result.offset, memory)).expect("the test waits");
}

#[test]
fn a_read_through_the_table_delivers_the_bytes_and_where_they_are_from() {
    let server = Server::start();
    server.put("/data", Body::pattern(5000));
    let url = CString::new(server.url("/data")).expect("a URL has no NUL");
    let api = table();
    for backend in [RASKIO_BACKEND_EASY_THREADPOOL, RASKIO_BACKEND_MULTI_POLL] {
        let mut options: raskio_client_options = zeroed();
        options.backend = backend;
        options.task_size = 700;
        let (mut client, mut object, mut op, mut error) = (null_mut(), null_mut(), null_mut(), null_mut());
        let (told, waiting) = mpsc::channel();
        let mut call = Box::new(Call { told, memory: vec![0; 3000] });
        let memory = call.memory.as_mut_ptr();
        // SAFETY: the handles are used and released as the header says; the memory stays where it is, in the call, until the
        // callback has it.
        unsafe {
            assert_eq!((api.client_new)(&options, &mut client, &mut error), RASKIO_OK, "{}", message(error));
            assert_eq!((api.object_open)(client, url.as_ptr(), null(), &mut object, &mut error), RASKIO_OK);
            let user_data = Box::into_raw(call).cast();
            let status =
                (api.read)(object, 1500, memory.cast(), 3000, null(), Some(tell), user_data, &mut op, &mut error);
            assert_eq!(status, RASKIO_OK, "{}", message(error));
            let (status, bytes, offset, memory) = waiting.recv_timeout(Duration::from_secs(60)).expect("a callback");
            assert_eq!((status, bytes, offset), (RASKIO_OK, 3000, 1500));
            assert_eq!(memory, &pattern(5000)[1500..4500]);
            assert_eq!((api.op_wait)(op, RASKIO_UNLIMITED), RASKIO_OK);
            assert_eq!((api.object_size)(object), 5000);
            (api.op_release)(op);
            (api.object_release)(object);
            assert_eq!((api.client_shut_down)(client, 20_000, null_mut()), RASKIO_OK);
            (api.client_release)(client);
        }
    }
}

#[test]
fn what_a_remote_object_cannot_do_says_so_and_calls_nobody() {
    unsafe extern "C" fn never(_: *mut c_void, _: *const raskio_result) {
        std::process::abort();
    }
    let (mut client, mut object, mut error) = (null_mut(), null_mut(), null_mut());
    // SAFETY: as the header says; the callback is never called.
    unsafe {
        assert_eq!(raskio_client_new(null(), &mut client, &mut error), RASKIO_OK, "{}", message(error));
        assert_eq!(raskio_object_open(client, c"http://h/x".as_ptr(), null(), &mut object, &mut error), RASKIO_OK);
        let byte = 0u8;
        let (op, none) = (null_mut(), null_mut());
        let write = raskio_write(object, 0, (&raw const byte).cast(), 1, null(), Some(never), none, op, &mut error);
        assert_eq!(write, RASKIO_ERR_UNSUPPORTED);
        assert!(message(error).contains("only local files can be written"));
        assert_eq!(raskio_object_drop_cache(object, &mut error), RASKIO_ERR_UNSUPPORTED);
        assert!(message(error).contains("only local files have a cache"));
        for url in [c"gs://bucket/key", c"etc/hostname", c"file://host/etc/hostname"] {
            let mut none = null_mut();
            let status = raskio_object_open(client, url.as_ptr(), null(), &mut none, &mut error);
            let text = message(error);
            assert!([RASKIO_ERR_UNSUPPORTED, RASKIO_ERR_INVALID_ARGUMENT].contains(&status), "{url:?}: {text}");
            assert!(none.is_null());
        }
        let mut none = null_mut();
        let status = raskio_object_open(client, c"http://h/\xff".as_ptr(), null(), &mut none, &mut error);
        assert_eq!(status, RASKIO_ERR_INVALID_ARGUMENT);
        assert_eq!(message(error), "url is not UTF-8: byte 9 does not belong there");
        raskio_object_release(object);
        raskio_client_release(client);
    }
}

#[test]
fn log_levels_are_numbered_from_error_to_trace() {
    let levels = [RASKIO_LOG_ERROR, RASKIO_LOG_WARN, RASKIO_LOG_INFO, RASKIO_LOG_DEBUG, RASKIO_LOG_TRACE];
    assert_eq!(levels, [1, 2, 3, 4, 5]);
}
