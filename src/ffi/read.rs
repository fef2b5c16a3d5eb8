//! Reads
//!
//! A read delivers all of its bytes or fails. Bounds are checked at the call when the object's size is known, and
//! overflow always is; with an unknown size, a range that turns out to lie beyond the end ends with RANGE. A read of
//! 0 bytes sends nothing and completes like any other, through its callback.
//!
//! With RASKIO_READ_FROM_END a read delivers the last size bytes of the object, or all that it has if that is less, into the
//! start of the buffer; the result says how many they are and where they lie. That is how a file's footer costs one round
//! trip: an object's size that is not known is learned from the same reply. It is asked for first where the storage has no
//! such request (WebHDFS) or the server does not answer it as one, and for more than task_size bytes, which then come by
//! several requests.
//!
//! Local files are read by the same calls, and written by raskio_write, both with host and CUDA memory: by io_uring where the
//! kernel allows it, else by pread on threads (local_backend of the client). What the kernel has begun to move cannot be taken
//! back, so a cancel or a deadline waits for it; neither waits for a file that the system is still opening.

use super::error::raskio_error;
use super::handle::raskio_object;
use super::op::{
    How, Where, completion, raskio_done_fn, raskio_op, raskio_read_options, read_options, start, write_options,
};
use super::status::raskio_status;
use super::{handle, null, put_optional, status};
use crate::error::{Error, Result};
use crate::op::{in_callback, would_deadlock};
use crate::sys::cuda::pointer;
use crate::sys::mem::Buffer;
use std::ffi::c_void;

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
            let How { options, place, from_end, .. } = read_options(options)?;
            let done = completion(done, user_data, None)?;
            check_from_end(from_end, offset)?;
            let buffer = buffer(data, size, place)?;
            let pending = match from_end {
                true => object.read_last(buffer, &options, done)?,
                false => object.read(offset, buffer, &options, done)?,
            };
            start(pending, op_out);
            Ok(())
        })
    }
}

/// As raskio_read, and waits. Blocks, so not from a callback.
///
/// bytes_out: may be NULL; receives the bytes read, which is size; with RASKIO_READ_FROM_END less, of an object that has
///   less. raskio_object_size knows then where they lie.
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
            let How { options, place, from_end, .. } = read_options(options)?;
            check_from_end(from_end, offset)?;
            let buffer = buffer(data, size, place)?;
            let bytes = match from_end {
                true => object.read_last_sync(buffer, &options)?,
                false => object.read_sync(offset, buffer, &options)?,
            };
            put_optional(bytes_out, bytes);
            Ok(())
        })
    }
}

/// Writes size bytes from data to offset of a local file that was opened with RASKIO_OBJECT_WRITABLE, and calls back. The file
/// is made if it is missing, also by a write of size 0, and grows if it is shorter. Any thread, callbacks included; does not
/// wait for the device.
///
/// data: size bytes of host or CUDA memory (raskio_read_options) that nobody changes from the call until the callback begins, also
///   after a cancel. NULL is allowed when size is 0. CUDA memory is copied to pinned buffers, in its own context as for
///   raskio_read, in pieces of at most bounce_buffer_size.
/// options: may be NULL; flags may have RASKIO_WRITE_DURABLE and RASKIO_WRITE_ON_STREAM.
/// The rest as for raskio_read.
///
/// A write that fails (no room, a device that reports an error, a limit) ends with the cause, and bytes of the result are those
/// that were written: the first ones, if the write took one request (task_size, and of CUDA memory bounce_buffer_size), else
/// those of each request together.
///
/// At the call: as for raskio_read; UNSUPPORTED: a remote object, a file that was not opened for writing. In the callback: every
/// status that errno leads to, CANCELLED, SHUT_DOWN, TIMED_OUT, CUDA, UNSUPPORTED: a CUDA driver without cuMemcpyDtoHAsync.
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
    // SAFETY: the C contract: pointers are NULL or valid; options hold struct_size bytes; nobody changes the bytes from the call
    // until the callback begins.
    unsafe {
        status(error_out, || {
            let object = handle::get(object, "object")?;
            let How { options, place, durable, .. } = write_options(options)?;
            let done = completion(done, user_data, None)?;
            if data.is_null() && size > 0 {
                return Err(null("data", "a buffer to write from"));
            }
            // It is only read from.
            let buffer = buffer(data.cast_mut(), size, place)?;
            start(object.write(offset, buffer, &options, durable, done)?, op_out);
            Ok(())
        })
    }
}

/// Of the last bytes nobody knows the offset.
pub(super) fn check_from_end(from_end: bool, offset: u64) -> Result<()> {
    if from_end && offset != 0 {
        return Err(Error::invalid(format!("offset is {offset}; with RASKIO_READ_FROM_END it must be 0")));
    }
    Ok(())
}

/// The caller's buffer.
///
/// # Safety
/// `data` is NULL, or `size` writable bytes (readable ones, for a write) that are RaskIO's until the operation has ended; a stream
/// lasts as long.
pub(super) unsafe fn buffer(data: *mut c_void, size: u64, place: Where) -> Result<Buffer> {
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
