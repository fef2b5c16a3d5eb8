//! Operations
//!
//! What every read, batch, write and stat has in common: how it is asked for, how it reports, how it is waited for.
//! An asynchronous call that returns RASKIO_OK has accepted the operation, and exactly one callback follows; any
//! other status means that no callback will come.

use super::client::{RASKIO_UNLIMITED, timeout};
use super::error::{self, ErrorInner, raskio_error};
use super::handle::OpInner;
use super::options::{self, Versioned};
use super::status::{RASKIO_OK, raskio_status};
use super::{bare_status, handle, null, value};
use crate::error::{Error, Result};
use crate::object::{Pending, ReadOptions};
use crate::op::items::ItemResult;
use crate::op::{Completion, OpResult};
use crate::sys::cuda::pointer::Memory;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

pub use super::handle::raskio_op;

/// Ask the CUDA driver if the process has loaded one, else host memory.
pub const RASKIO_MEMORY_AUTO: u32 = 0;
/// Host memory.
pub const RASKIO_MEMORY_HOST: u32 = 1;
/// Memory that the CUDA driver knows, pinned host memory included.
pub const RASKIO_MEMORY_CUDA: u32 = 2;
/// Flag: the last `size` bytes of the object; offset must be 0. See "Reads".
pub const RASKIO_READ_FROM_END: u32 = 1;
/// Flag: copies are ordered on `stream` (NULL: the legacy stream).
pub const RASKIO_READ_ON_STREAM: u32 = 2;
/// Flag of raskio_write: the callback comes when the bytes are on the device (fdatasync), and so is the name of a file that this
/// object has made (fsync of its directory).
pub const RASKIO_WRITE_DURABLE: u32 = 4;
/// Flag of raskio_write: as RASKIO_READ_ON_STREAM, copies of CUDA memory are ordered on `stream` (NULL: the legacy stream).
pub const RASKIO_WRITE_ON_STREAM: u32 = 2;

/// How one operation runs. NULL: all defaults. Copied before the call returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_read_options {
    /// sizeof(raskio_read_options).
    pub struct_size: usize,
    /// RASKIO_MEMORY_*: where the buffer is. CUDA memory of any kind will do: of cuMemAlloc, stream-ordered, managed, mapped
    /// by hand. With RASKIO_MEMORY_CUDA the driver is loaded if it is not.
    pub memory: u32,
    /// RASKIO_READ_*, for raskio_write RASKIO_WRITE_*, combined with |.
    pub flags: u32,
    /// Bytes of one request. 0: the client's task_size.
    pub task_size: u64,
    /// Milliseconds for the operation as a whole, retries included; then it ends with TIMED_OUT. 0 or
    /// RASKIO_UNLIMITED: no limit.
    pub deadline_ms: u32,
    /// Must be zero.
    pub reserved0: u32,
    /// A CUstream of the buffer's context, with RASKIO_READ_ON_STREAM or RASKIO_WRITE_ON_STREAM. The copies come after
    /// everything that it was given before they begin, so that the buffer need not be ready at the call. It must last until
    /// the callback and must not be captured meanwhile; it cannot be the per-thread stream. Without that flag it must be
    /// NULL, copies run on a stream of RaskIO's, and the buffer must be ready at the call.
    pub stream: *mut c_void,
}

// SAFETY: repr(C), struct_size first, integers and a pointer without padding (asserted in layout.rs).
unsafe impl Versioned for raskio_read_options {
    const NAME: &'static str = "raskio_read_options";
    const VERSION_1: usize = 40;
}

/// How one item of a batch ended. Arrays of it are handed out with their stride, so that it can grow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_item_result {
    /// RASKIO_OK: every byte of the item is in its place.
    pub status: raskio_status,
    /// Requests sent for it, retries included. One that several items share counts for each of them.
    pub attempts: u32,
    /// Bytes now in the item's buffer.
    pub bytes: u64,
    /// Borrowed for the callback, NULL on success; raskio_error_clone to keep.
    pub error: *const raskio_error,
    /// Offset of the first byte in the object; of an item that failed before it was found out (RASKIO_READ_FROM_END), or that
    /// was refused, that of its spec.
    pub offset: u64,
}

/// How an operation ended. Valid during the callback only.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_result {
    /// sizeof(raskio_result) as the library knows it.
    pub struct_size: usize,
    /// RASKIO_OK: every byte is in its place. Otherwise the cause of the first failure.
    pub status: raskio_status,
    /// Requests sent, retries included.
    pub attempts: u32,
    /// Bytes now in the caller's buffers: on success what was asked for, or less of an object that is smaller
    /// (RASKIO_READ_FROM_END). On failure the buffer's contents are unspecified. Of a batch: those of all items together.
    pub bytes: u64,
    /// Offset of the first byte in the object. Of a batch: 0.
    pub offset: u64,
    /// Borrowed for the callback, NULL on success; raskio_error_clone to keep.
    pub error: *const raskio_error,
    /// For a batch: one result for each spec, in the order given. Otherwise NULL.
    pub items: *const raskio_item_result,
    /// Entries of items.
    pub item_count: usize,
    /// Bytes from one entry of items to the next.
    pub item_size: usize,
}

/// Called once when an operation has ended: on a RaskIO thread, never inside the call that started it, with no lock
/// held. From its begin the buffer and user_data are the caller's again. Everything is allowed inside except the
/// blocking calls, which return WOULD_DEADLOCK. Be brief: transfers may wait for you. Do not throw and do not end the
/// thread.
pub type raskio_done_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, result: *const raskio_result)>;

/// Adds a reference, which must eventually be given to raskio_op_release. Returns its argument. Any thread; never
/// blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_op_acquire(op: *mut raskio_op) -> *mut raskio_op {
    // SAFETY: NULL, or an operation that the caller holds.
    unsafe { handle::acquire(op) }
}

/// Asks an operation to end. A request, not a result: the callback still comes, with CANCELLED, or with OK or another
/// error if the operation was faster. Until it does, the buffer is still RaskIO's. Never blocks; any thread,
/// callbacks included. Does nothing once the operation has ended, in a forked child, or for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_op_cancel(op: *mut raskio_op) {
    value((), || {
        // SAFETY: NULL, or an operation that the caller holds.
        unsafe { handle::get(op, "op") }?.op.cancel();
        Ok(())
    });
}

/// Waits until the operation's callback has returned. How the operation ended is what the callback was told. Blocks,
/// so not from a callback; any number of threads may wait for one operation.
///
/// timeout_ms: how long to wait; RASKIO_UNLIMITED: until it has; 0: look and return.
///
/// OK: the callback has returned. TIMED_OUT: not yet. WOULD_DEADLOCK: called from inside a callback.
/// INVALID_ARGUMENT: NULL. FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_op_wait(op: *mut raskio_op, timeout_ms: u32) -> raskio_status {
    // SAFETY: NULL, or an operation that the caller holds.
    bare_status(|| unsafe { handle::get(op, "op") }?.op.wait(timeout(timeout_ms)))
}

/// Gives a reference back. Does not cancel and never blocks: the operation runs on and calls back without any handle.
/// Any thread, callbacks included; in a forked child it does nothing. NULL is accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_op_release(op: *mut raskio_op) {
    value((), || {
        // SAFETY: NULL, or a reference that the caller gives up.
        unsafe { handle::release(op) };
        Ok(())
    });
}

/// How a read is asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    pub(super) options: ReadOptions,
    pub(super) place: Where,
    /// The last bytes.
    pub(super) from_end: bool,
    /// A write waits for the device.
    pub(super) durable: bool,
}

/// The options of an operation, checked.
///
/// # Safety
/// `from` is NULL or points to struct_size readable bytes.
pub(super) unsafe fn read_options(from: *const raskio_read_options) -> Result<How> {
    // SAFETY: promised by the caller.
    unsafe {
        let elsewhere = [(RASKIO_WRITE_DURABLE, "RASKIO_WRITE_DURABLE", "raskio_write")];
        op_options(from, RASKIO_READ_FROM_END | RASKIO_READ_ON_STREAM, &elsewhere)
    }
}

/// The same for a write.
///
/// # Safety
/// As for [`read_options`].
pub(super) unsafe fn write_options(from: *const raskio_read_options) -> Result<How> {
    // SAFETY: promised by the caller.
    unsafe {
        let elsewhere = [(RASKIO_READ_FROM_END, "RASKIO_READ_FROM_END", "reads")];
        op_options(from, RASKIO_WRITE_DURABLE | RASKIO_WRITE_ON_STREAM, &elsewhere)
    }
}

/// # Safety
/// As for [`read_options`].
unsafe fn op_options(from: *const raskio_read_options, known: u32, elsewhere: &[(u32, &str, &str)]) -> Result<How> {
    const MEMORIES: [(u32, &str, Memory); 3] = [
        (RASKIO_MEMORY_AUTO, "RASKIO_MEMORY_AUTO", Memory::Auto),
        (RASKIO_MEMORY_HOST, "RASKIO_MEMORY_HOST", Memory::Host),
        (RASKIO_MEMORY_CUDA, "RASKIO_MEMORY_CUDA", Memory::Cuda),
    ];
    // SAFETY: promised by the caller.
    let Some(from) = (unsafe { options::read(from) })? else { return Ok(How::default()) };
    let memory = options::choice("memory", from.memory, &MEMORIES)?;
    options::flags("flags", from.flags, known, elsewhere)?;
    options::reserved("reserved0", from.reserved0)?;
    let stream = (from.flags & RASKIO_READ_ON_STREAM != 0).then_some(from.stream);
    if stream.is_none() && !from.stream.is_null() {
        return Err(Error::invalid(
            "stream is set, but not the flag RASKIO_READ_ON_STREAM (of a write RASKIO_WRITE_ON_STREAM); set both or neither",
        ));
    }
    let limited = from.deadline_ms != 0 && from.deadline_ms != RASKIO_UNLIMITED;
    let options = ReadOptions {
        task_size: options::set(from.task_size),
        deadline: limited.then(|| Duration::from_millis(from.deadline_ms.into())),
    };
    let has = |flag: u32| from.flags & flag != 0;
    let (from_end, durable) = (has(RASKIO_READ_FROM_END), has(RASKIO_WRITE_DURABLE));
    Ok(How { options, place: Where { memory, stream }, from_end, durable })
}

/// What the caller says about a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where {
    pub(super) memory: Memory,
    /// Copies are ordered on this stream.
    pub(super) stream: Option<*mut c_void>,
}

impl Default for Where {
    fn default() -> Where {
        Where { memory: Memory::Auto, stream: None }
    }
}

/// The host's callback as a completion. `results`: room for the items of a batch, so that none need be found at the end.
///
/// # Errors
/// INVALID_ARGUMENT for NULL: without it nobody would learn how the operation ended.
pub(super) fn completion(
    done: raskio_done_fn,
    user_data: *mut c_void,
    results: Option<Vec<raskio_item_result>>,
) -> Result<Completion> {
    struct Callback(
        unsafe extern "C" fn(*mut c_void, *const raskio_result),
        *mut c_void,
        Option<Vec<raskio_item_result>>,
    );
    // SAFETY: the C contract: callbacks and their user data may be used from RaskIO's threads. The results hold no error yet.
    unsafe impl Send for Callback {}
    impl Callback {
        fn call(mut self, result: &OpResult<'_>) {
            let error: Option<Arc<ErrorInner>> = result.error.map(error::shared);
            let mut lent = Lent::default();
            if let (Some(results), Some(items)) = (&mut self.2, result.items) {
                results.extend(items.results().map(|item| lent.result(&item)));
            }
            let items = self.2.as_ref();
            let result = raskio_result {
                struct_size: size_of::<raskio_result>(),
                status: result.error.map_or(RASKIO_OK, |error| error.kind().code()),
                attempts: result.attempts,
                bytes: result.bytes,
                offset: result.offset,
                error: error.as_ref().map_or(std::ptr::null(), error::lend),
                items: items.map_or(std::ptr::null(), |items| items.as_ptr()),
                item_count: items.map_or(0, Vec::len),
                item_size: items.map_or(0, |_| size_of::<raskio_item_result>()),
            };
            // SAFETY: the caller promised a function that takes this user data; the result and its errors outlive the call.
            unsafe { (self.0)(self.1, &result) };
        }
    }
    let callback = Callback(done.ok_or_else(|| null("done", "a callback"))?, user_data, results);
    Ok(Box::new(move |result| callback.call(result)))
}

/// The errors of items, while the host looks at them. Items that failed for one reason have one error.
#[derive(Default)]
pub(super) struct Lent {
    errors: Vec<Arc<ErrorInner>>,
    last: Option<*const Error>,
}

impl Lent {
    /// An item's result, whose error lives as long as this.
    pub(super) fn result(&mut self, item: &ItemResult<'_>) -> raskio_item_result {
        let error = item.error.map(|error| {
            // Those that share one mostly lie beside each other.
            if self.last != Some(Arc::as_ptr(error)) {
                self.errors.push(error::shared(error));
                self.last = Some(Arc::as_ptr(error));
            }
            self.errors.last().map_or(std::ptr::null(), error::lend)
        });
        raskio_item_result {
            status: item.error.map_or(RASKIO_OK, |error| error.kind().code()),
            attempts: item.attempts,
            bytes: item.bytes,
            error: error.unwrap_or(std::ptr::null()),
            offset: item.offset,
        }
    }
}

/// Publishes an accepted operation, then hands its work over: the callback may use the handle, or free the place it
/// lies in, before this returns.
///
/// # Safety
/// `op_out` is NULL or valid for a write.
pub(super) unsafe fn start(pending: Pending, op_out: *mut *mut raskio_op) {
    if !op_out.is_null() {
        let op = handle::into_raw(OpInner::new(pending.op().clone()));
        // SAFETY: not NULL; promised by the caller.
        unsafe { op_out.write(op) };
    }
    // Accepted is accepted: what a panic leaves of the requests ends as INTERNAL through the callback, so the call itself
    // has not failed.
    value((), || {
        pending.submit();
        Ok(())
    });
}
