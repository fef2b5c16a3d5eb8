//! One symbol for dlopen
//!
//! A program that does not link RaskIO opens libraskio.so.0, asks dlsym for "raskio_get_api", and calls through the
//! table.
//!
//! ```c
//! void* library = dlopen("libraskio.so.0", RTLD_NOW | RTLD_LOCAL);
//! raskio_get_api_fn get_api = (raskio_get_api_fn)dlsym(library, "raskio_get_api");
//! const raskio_api* api = get_api ? get_api(RASKIO_ABI_MAJOR) : NULL;
//! if (api && RASKIO_API_HAS(api, read)) { api->read(...); }
//! ```

use super::batch::{raskio_batch_options, raskio_read_spec};
use super::client::{raskio_client, raskio_client_options};
use super::error::raskio_error;
use super::log::raskio_log_fn;
use super::object::{raskio_object, raskio_object_info, raskio_object_options};
use super::op::{raskio_done_fn, raskio_op, raskio_read_options};
use super::stats::raskio_stats;
use super::status::raskio_status;
use super::version::{RASKIO_ABI_MAJOR, RASKIO_ABI_MINOR};
use super::{batch, client, error, log, object, op, read, stats, status, version};
use std::ffi::{c_char, c_void};

/// Every function of this header, in the order in which they were added: the same pointers as the direct symbols.
/// Members are only ever appended. A library may be older than the header you compile with, so ask RASKIO_API_HAS
/// before you use a member that was not in the first version.
#[repr(C)]
#[allow(missing_docs)] // a member is what the function of its name is
pub struct raskio_api {
    /// Bytes filled by this library.
    pub struct_size: usize,
    /// RASKIO_ABI_MAJOR of this library.
    pub abi_major: u32,
    /// RASKIO_ABI_MINOR of this library.
    pub abi_minor: u32,
    pub version: extern "C" fn() -> *const c_char,
    pub abi_version: extern "C" fn() -> u32,
    pub client_new: unsafe extern "C" fn(
        options: *const raskio_client_options,
        client_out: *mut *mut raskio_client,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub client_default:
        unsafe extern "C" fn(client_out: *mut *mut raskio_client, error_out: *mut *mut raskio_error) -> raskio_status,
    pub client_acquire: unsafe extern "C" fn(client: *mut raskio_client) -> *mut raskio_client,
    pub client_release: unsafe extern "C" fn(client: *mut raskio_client),
    pub client_shut_down: unsafe extern "C" fn(
        client: *mut raskio_client,
        timeout_ms: u32,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub client_trim: unsafe extern "C" fn(client: *mut raskio_client),
    pub client_stats: unsafe extern "C" fn(client: *const raskio_client, stats_out: *mut raskio_stats) -> raskio_status,
    pub endpoint_infer: unsafe extern "C" fn(url: *const c_char) -> u32,
    pub object_open: unsafe extern "C" fn(
        client: *mut raskio_client,
        url: *const c_char,
        options: *const raskio_object_options,
        object_out: *mut *mut raskio_object,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub object_acquire: unsafe extern "C" fn(object: *mut raskio_object) -> *mut raskio_object,
    pub object_release: unsafe extern "C" fn(object: *mut raskio_object),
    pub object_stat: unsafe extern "C" fn(
        object: *mut raskio_object,
        options: *const raskio_read_options,
        done: raskio_done_fn,
        user_data: *mut c_void,
        op_out: *mut *mut raskio_op,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub object_stat_sync: unsafe extern "C" fn(
        object: *mut raskio_object,
        size_out: *mut u64,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub object_info_get:
        unsafe extern "C" fn(object: *const raskio_object, info_out: *mut raskio_object_info) -> raskio_status,
    pub object_size: unsafe extern "C" fn(object: *const raskio_object) -> u64,
    pub object_drop_cache:
        unsafe extern "C" fn(object: *mut raskio_object, error_out: *mut *mut raskio_error) -> raskio_status,
    pub read: unsafe extern "C" fn(
        object: *mut raskio_object,
        offset: u64,
        data: *mut c_void,
        size: u64,
        options: *const raskio_read_options,
        done: raskio_done_fn,
        user_data: *mut c_void,
        op_out: *mut *mut raskio_op,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub read_sync: unsafe extern "C" fn(
        object: *mut raskio_object,
        offset: u64,
        data: *mut c_void,
        size: u64,
        options: *const raskio_read_options,
        bytes_out: *mut u64,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub read_batch: unsafe extern "C" fn(
        client: *mut raskio_client,
        specs: *const raskio_read_spec,
        spec_count: usize,
        spec_size: usize,
        options: *const raskio_batch_options,
        done: raskio_done_fn,
        user_data: *mut c_void,
        op_out: *mut *mut raskio_op,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub write: unsafe extern "C" fn(
        object: *mut raskio_object,
        offset: u64,
        data: *const c_void,
        size: u64,
        options: *const raskio_read_options,
        done: raskio_done_fn,
        user_data: *mut c_void,
        op_out: *mut *mut raskio_op,
        error_out: *mut *mut raskio_error,
    ) -> raskio_status,
    pub op_acquire: unsafe extern "C" fn(op: *mut raskio_op) -> *mut raskio_op,
    pub op_cancel: unsafe extern "C" fn(op: *mut raskio_op),
    pub op_wait: unsafe extern "C" fn(op: *mut raskio_op, timeout_ms: u32) -> raskio_status,
    pub op_release: unsafe extern "C" fn(op: *mut raskio_op),
    pub status_name: extern "C" fn(status: raskio_status) -> *const c_char,
    pub error_status: unsafe extern "C" fn(error: *const raskio_error) -> raskio_status,
    pub error_message: unsafe extern "C" fn(error: *const raskio_error) -> *const c_char,
    pub error_http_status: unsafe extern "C" fn(error: *const raskio_error) -> i32,
    pub error_os_code: unsafe extern "C" fn(error: *const raskio_error) -> i32,
    pub error_clone: unsafe extern "C" fn(error: *const raskio_error) -> *mut raskio_error,
    pub error_free: unsafe extern "C" fn(error: *mut raskio_error),
    pub set_log_hook:
        unsafe extern "C" fn(hook: raskio_log_fn, user_data: *mut c_void, max_level: u32) -> raskio_status,
    pub process_stats: unsafe extern "C" fn(stats_out: *mut raskio_stats) -> raskio_status,
    pub stats_text:
        unsafe extern "C" fn(client: *const raskio_client, format: u32, text: *mut c_char, room: usize) -> usize,
    pub last_fault: unsafe extern "C" fn(text: *mut c_char, room: usize) -> usize,
}

/// The type of raskio_get_api, for the result of dlsym.
pub type raskio_get_api_fn = Option<unsafe extern "C" fn(abi_major: u32) -> *const raskio_api>;

static API: raskio_api = raskio_api {
    struct_size: size_of::<raskio_api>(),
    abi_major: RASKIO_ABI_MAJOR,
    abi_minor: RASKIO_ABI_MINOR,
    version: version::raskio_version,
    abi_version: version::raskio_abi_version,
    client_new: client::raskio_client_new,
    client_default: client::raskio_client_default,
    client_acquire: client::raskio_client_acquire,
    client_release: client::raskio_client_release,
    client_shut_down: client::raskio_client_shut_down,
    client_trim: client::raskio_client_trim,
    client_stats: stats::raskio_client_stats,
    endpoint_infer: object::raskio_endpoint_infer,
    object_open: object::raskio_object_open,
    object_acquire: object::raskio_object_acquire,
    object_release: object::raskio_object_release,
    object_stat: object::raskio_object_stat,
    object_stat_sync: object::raskio_object_stat_sync,
    object_info_get: object::raskio_object_info_get,
    object_size: object::raskio_object_size,
    object_drop_cache: object::raskio_object_drop_cache,
    read: read::raskio_read,
    read_sync: read::raskio_read_sync,
    read_batch: batch::raskio_read_batch,
    write: read::raskio_write,
    op_acquire: op::raskio_op_acquire,
    op_cancel: op::raskio_op_cancel,
    op_wait: op::raskio_op_wait,
    op_release: op::raskio_op_release,
    status_name: status::raskio_status_name,
    error_status: error::raskio_error_status,
    error_message: error::raskio_error_message,
    error_http_status: error::raskio_error_http_status,
    error_os_code: error::raskio_error_os_code,
    error_clone: error::raskio_error_clone,
    error_free: error::raskio_error_free,
    set_log_hook: log::raskio_set_log_hook,
    process_stats: stats::raskio_process_stats,
    stats_text: stats::raskio_stats_text,
    last_fault: stats::raskio_last_fault,
};

/// The table for a major version of the ABI; NULL if this library does not have that one. Static: never free it, and
/// it stays valid after dlclose. Any thread; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn raskio_get_api(abi_major: u32) -> *const raskio_api {
    if abi_major == RASKIO_ABI_MAJOR { &raw const API } else { std::ptr::null() }
}
