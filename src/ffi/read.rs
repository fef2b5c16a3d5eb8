//! Reads
//!
//! A read delivers all of its bytes or fails. Bounds are checked at the call when the object's size is known, and
//! overflow always is; with an unknown size, a range that turns out to lie beyond the end ends with RANGE. A read of
//! 0 bytes sends nothing and completes like any other, through its callback.

use super::client::raskio_client;
use super::error::raskio_error;
use super::handle::raskio_object;
use super::op::{
    Where, completion, raskio_done_fn, raskio_item_result, raskio_op, raskio_read_options, read_options, start,
};
use super::status::raskio_status;
use super::{handle, null, put_optional, status, unsupported};
use crate::error::{Error, Result};
use crate::op::{in_callback, would_deadlock};
use crate::sys::cuda::pointer;
use crate::sys::mem::Buffer;
use std::ffi::c_void;

/// Merge ranges of one object that are close to each other, by the library's own measure.
pub const RASKIO_COALESCE_DEFAULT: u64 = 0;
/// One request for each range, even if ranges overlap.
pub const RASKIO_COALESCE_NEVER: u64 = u64::MAX;

/// One range of a batch. Arrays of it are passed with their stride, so that it can grow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_read_spec {
    /// Borrowed; the operation takes its own reference.
    pub object: *mut raskio_object,
    /// First byte in the object.
    pub offset: u64,
    /// Where the bytes go.
    pub data: *mut c_void,
    /// Bytes.
    pub size: u64,
    /// Handed to item_done.
    pub user_data: *mut c_void,
}

/// Called once for each item of a batch as it ends, under the rules of raskio_done_fn, before the batch's own
/// callback.
pub type raskio_item_done_fn =
    Option<unsafe extern "C" fn(item_user_data: *mut c_void, index: usize, result: *const raskio_item_result)>;

/// How a batch runs. NULL: all defaults. Copied before the call returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_batch_options {
    /// sizeof(raskio_batch_options).
    pub struct_size: usize,
    /// Merge ranges of one object that are at most so many bytes apart. RASKIO_COALESCE_*.
    pub coalesce_gap: u64,
    /// But never into more than so many bytes. 0: the library's own measure.
    pub coalesce_max: u64,
    /// For every item. May be NULL.
    pub read: *const raskio_read_options,
    /// May be NULL.
    pub item_done: raskio_item_done_fn,
}

/// Reads size bytes from offset into data, and calls back. Any thread, callbacks included; does not wait for the
/// network.
///
/// data: size writable bytes, of host or CUDA memory (raskio_read_options), that nobody else touches from the call until
///   the callback begins, also after a cancel. Then the bytes are there, in device memory too. NULL is allowed when size
///   is 0. CUDA memory is written in its own context, which must last as long; memory that has none, in the calling
///   thread's current one if that is of its device, else in the device's primary one. What is current stays so.
/// options: may be NULL.
/// done: called once with user_data if RASKIO_OK is returned, never otherwise. Required.
/// op_out: may be NULL; receives the operation before it is submitted, so that the callback may use it. It must
///   eventually be given to raskio_op_release.
/// error_out: may be NULL; receives an error that must eventually be given to raskio_error_free, or NULL on success.
///
/// At the call: INVALID_ARGUMENT for a NULL, a bad option, offset + size or data + size that overflow, a range beyond a
/// known size, RASKIO_MEMORY_CUDA for other memory, a stream that cannot be used; UNSUPPORTED, also where there is no CUDA
/// driver or an old one; CUDA: the driver failed, or this process was forked from one that used it; IO: no threads are
/// left; SHUT_DOWN, FORKED. In the callback: every status of the table at the head, CANCELLED, SHUT_DOWN, TIMED_OUT,
/// RANGE, OBJECT_CHANGED, CUDA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_read(
    object: *mut raskio_object,
    offset: u64,
    data: *mut c_void,
    size: u64,
    options: *const raskio_read_options,
    done: raskio_done_fn,
    user_data: *mut c_void,
    op_out: *mut *mut raskio_op,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract: pointers are NULL or valid; options hold struct_size bytes; the buffer is RaskIO's from the
    // call until the callback begins.
    unsafe {
        status(error_out, || {
            let object = handle::get(object, "object")?;
            let (options, place) = read_options(options)?;
            let done = completion(done, user_data)?;
            let pending = object.read(offset, buffer(data, size, place)?, &options, done)?;
            start(pending, op_out);
            Ok(())
        })
    }
}

/// As raskio_read, and waits. Blocks, so not from a callback.
///
/// bytes_out: may be NULL; receives the bytes read, which is size.
/// error_out: may be NULL; as for raskio_read.
///
/// WOULD_DEADLOCK: called from inside a callback. Every status of raskio_read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_read_sync(
    object: *mut raskio_object,
    offset: u64,
    data: *mut c_void,
    size: u64,
    options: *const raskio_read_options,
    bytes_out: *mut u64,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: as for raskio_read; the buffer is RaskIO's during the call.
    unsafe {
        status(error_out, || {
            let object = handle::get(object, "object")?;
            if in_callback() {
                return Err(would_deadlock("raskio_read_sync"));
            }
            let (options, place) = read_options(options)?;
            let bytes = object.read_sync(offset, buffer(data, size, place)?, &options)?;
            put_optional(bytes_out, bytes);
            Ok(())
        })
    }
}

/// Reads many ranges, of one object or of several, as one operation. Not in this version.
///
/// specs: spec_count ranges, spec_size bytes apart (sizeof(raskio_read_spec)). Copied before the call returns.
/// The rest as for raskio_read.
///
/// UNSUPPORTED, INVALID_ARGUMENT: NULL. FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_read_batch(
    client: *mut raskio_client,
    specs: *const raskio_read_spec,
    spec_count: usize,
    spec_size: usize,
    options: *const raskio_batch_options,
    done: raskio_done_fn,
    user_data: *mut c_void,
    op_out: *mut *mut raskio_op,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    let _ = (spec_size, options, op_out);
    // SAFETY: the C contract: pointers are NULL or valid.
    unsafe {
        status(error_out, || {
            handle::get(client, "client")?;
            if specs.is_null() && spec_count > 0 {
                return Err(null("specs", &format!("an array of {spec_count} ranges")));
            }
            drop(completion(done, user_data)?);
            Err(unsupported("raskio_read_batch", "call raskio_read for each range"))
        })
    }
}

/// Writes size bytes from data to offset of a local file. Not in this version.
///
/// data: size bytes that nobody changes from the call until the callback begins, also after a cancel.
/// The rest as for raskio_read.
///
/// UNSUPPORTED, INVALID_ARGUMENT: NULL. FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_write(
    object: *mut raskio_object,
    offset: u64,
    data: *const c_void,
    size: u64,
    options: *const raskio_read_options,
    done: raskio_done_fn,
    user_data: *mut c_void,
    op_out: *mut *mut raskio_op,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    let _ = (offset, options, op_out);
    // SAFETY: the C contract: pointers are NULL or valid.
    unsafe {
        status(error_out, || {
            handle::get(object, "object")?;
            if data.is_null() && size > 0 {
                return Err(null("data", "a buffer to write from"));
            }
            drop(completion(done, user_data)?);
            Err(unsupported("raskio_write", "remote objects can only be read, and there are no local files yet"))
        })
    }
}

/// The caller's buffer.
///
/// # Safety
/// `data` is NULL, or `size` writable bytes that are RaskIO's until the operation has ended; a stream lasts as long.
unsafe fn buffer(data: *mut c_void, size: u64, place: Where) -> Result<Buffer> {
    if data.is_null() && size > 0 {
        return Err(null("data", "a buffer to read into"));
    }
    // No allocation is larger than isize::MAX, so a larger size is a mistake; so is one that wraps around.
    let fits = isize::try_from(size).is_ok() && (data as usize).checked_add(size as usize).is_some();
    if !fits {
        return Err(Error::invalid(format!("size is {size}; no buffer at {data:p} can be that large")));
    }
    // SAFETY: promised by the caller, and the range is one that memory can have.
    unsafe { pointer::buffer(data, size, place.memory, place.stream) }
}
