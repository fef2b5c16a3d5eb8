//! Batches
//!
//! Many ranges by one call: what a reader of Parquet, Zarr or safetensors wants. One round trip for as many as there may be
//! requests at a time, and fewer requests than ranges where ranges are near each other: by default up to 32 KiB apart over
//! HTTP, 128 KiB in S3 and over WebHDFS; of a local file only those that touch or overlap.

use super::client::raskio_client;
use super::error::raskio_error;
use super::handle::raskio_object;
use super::op::{
    How, Lent, RASKIO_READ_FROM_END, RASKIO_READ_ON_STREAM, RASKIO_WRITE_DURABLE, completion, raskio_done_fn,
    raskio_item_result, raskio_op, raskio_read_options, read_options, start,
};
use super::options::{self, Versioned, flags, reserved};
use super::read::{buffer, check_from_end};
use super::status::raskio_status;
use super::{handle, null, status};
use crate::batch::{BatchOptions, Gap, ReadSpec, Refused};
use crate::error::{Error, ErrorKind, Result};
use crate::op::items::{ItemResult, ItemTold};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Merge ranges as far as it pays. See "Batches".
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
    /// RASKIO_READ_FROM_END: the last bytes of this object. 0: from offset on.
    pub flags: u32,
    /// Must be zero.
    pub reserved0: u32,
}

/// Called once for each item of a batch as it ends, under the rules of raskio_done_fn, before the batch's own
/// callback. index is the item's place in specs. From its begin the item's buffer is the caller's again. Items that end
/// together are told of one after the other; calls for others may run at the same time, with callback_threads or without.
pub type raskio_item_done_fn =
    Option<unsafe extern "C" fn(item_user_data: *mut c_void, index: usize, result: *const raskio_item_result)>;

/// How a batch runs. NULL: all defaults. Copied before the call returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_batch_options {
    /// sizeof(raskio_batch_options).
    pub struct_size: usize,
    /// Ranges of one object that are at most so many bytes apart share a request, and what lies between them is read too, and
    /// dropped as it comes. Ranges that overlap or touch are 0 bytes apart. RASKIO_COALESCE_*, or a number of bytes.
    pub coalesce_gap: u64,
    /// But a request does not grow beyond so many bytes by that. 0: task_size.
    pub coalesce_max: u64,
    /// For every item; deadline_ms is that of the whole batch, and RASKIO_READ_FROM_END is better set in a spec. May be NULL.
    pub read: *const raskio_read_options,
    /// Called for each item as it ends. May be NULL.
    pub item_done: raskio_item_done_fn,
}

// SAFETY: repr(C), struct_size first, integers, a pointer and a function pointer without padding (asserted in layout.rs).
unsafe impl Versioned for raskio_batch_options {
    const NAME: &'static str = "raskio_batch_options";
    const VERSION_1: usize = 40;
}

/// Reads many ranges, of one object or of several, as one operation, and calls back. Any thread, callbacks included; does
/// not wait for the network.
///
/// Ranges may overlap, repeat, touch and be empty, in any order; those of one object that are near each other share a request
/// (raskio_batch_options). Buffers may be of any kind, host and devices mixed, and must not overlap. An item fails alone: also
/// for what is wrong with its spec, a NULL or a range beyond a known size, the others are read. Nothing of the batch holds up
/// what is submitted after it for longer than a turn of 64 requests or 16 MiB. An item takes less than 400 bytes of memory until
/// the batch has ended.
///
/// client: the client of all the objects.
/// specs: spec_count ranges, spec_size bytes apart (sizeof(raskio_read_spec)). Copied before the call returns. May be NULL if
///   spec_count is 0. Each buffer is RaskIO's from the call until item_done or the callback begins.
/// options: may be NULL.
/// done: called once with user_data if RASKIO_OK is returned, never otherwise: when every item has ended. Its result has one
///   raskio_item_result for each spec, in the order of specs; its status is that of the first item that failed. Required.
/// op_out: may be NULL; as for raskio_read. raskio_op_cancel ends all of it: items that were not done by then are CANCELLED.
/// error_out: may be NULL; as for raskio_read.
///
/// At the call: INVALID_ARGUMENT for a NULL, a bad option, a spec_size that cannot be one; OUT_OF_MEMORY; SHUT_DOWN, FORKED.
/// For an item: what raskio_read says at the call or in the callback.
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
    // SAFETY: the C contract: pointers are NULL or valid; options hold struct_size bytes, specs spec_count times spec_size;
    // each buffer is RaskIO's from the call until its item has ended.
    unsafe {
        status(error_out, || {
            let client = handle::get(client, "client")?;
            let specs = Specs::new(specs, spec_count, spec_size)?;
            let (how, options) = batch_options(options, &specs)?;
            let mut results = Vec::new();
            results.try_reserve_exact(spec_count).map_err(|_| out_of_memory(spec_count))?;
            let done = completion(done, user_data, Some(results))?;
            let specs = (0..spec_count).map(|index| {
                item(&specs, index, &how).map_err(|error| Refused { offset: specs.known(index).offset, error })
            });
            start(client.read_batch(specs, options, done)?, op_out);
            Ok(())
        })
    }
}

/// Flags of other places, which a spec may be given by mistake.
const NOT_OF_SPECS: [(u32, &str, &str); 2] = [
    (RASKIO_READ_ON_STREAM, "RASKIO_READ_ON_STREAM", "the read options of the whole batch"),
    (RASKIO_WRITE_DURABLE, "RASKIO_WRITE_DURABLE", "raskio_write"),
];

/// One of the specs, checked.
///
/// # Safety
/// The specs are there, and what they point to.
unsafe fn item(specs: &Specs, index: usize, how: &How) -> Result<ReadSpec> {
    // SAFETY: promised by the caller; the buffer is RaskIO's until the item has ended.
    unsafe {
        let spec = specs.get(index)?;
        flags("flags", spec.flags, RASKIO_READ_FROM_END, &NOT_OF_SPECS)?;
        reserved("reserved0", spec.reserved0)?;
        let from_end = how.from_end || spec.flags & RASKIO_READ_FROM_END != 0;
        check_from_end(from_end, spec.offset)?;
        let object = (*handle::get(spec.object, "object")?).clone();
        let buffer = buffer(spec.data, spec.size, how.place)?;
        Ok(ReadSpec { object, offset: spec.offset, buffer, from_end })
    }
}

/// The caller's array of specs, of this version or another.
struct Specs {
    start: *const u8,
    count: usize,
    stride: usize,
}

/// The size of raskio_read_spec when it was first published.
const SPEC_VERSION_1: usize = 40;

impl Specs {
    fn new(start: *const raskio_read_spec, count: usize, stride: usize) -> Result<Specs> {
        if start.is_null() && count > 0 {
            return Err(null("specs", &format!("an array of {count} ranges")));
        }
        if !(SPEC_VERSION_1..=1 << 16).contains(&stride) {
            return Err(Error::invalid(format!("spec_size is {stride}; pass sizeof(raskio_read_spec)")));
        }
        // No array is larger than isize::MAX.
        if count.checked_mul(stride).is_none_or(|size| isize::try_from(size).is_err()) {
            return Err(Error::invalid(format!(
                "spec_count is {count}; no array of {stride} bytes each can be that long"
            )));
        }
        Ok(Specs { start: start.cast(), count, stride })
    }

    /// A copy of one of them; what the caller's header did not have is zero.
    ///
    /// # Safety
    /// The array is there, and `index` is in it.
    unsafe fn get(&self, index: usize) -> Result<raskio_read_spec> {
        debug_assert!(index < self.count);
        let known = size_of::<raskio_read_spec>();
        // SAFETY: promised by the caller.
        unsafe {
            let from = self.start.add(index * self.stride);
            if (known..self.stride).any(|at| from.add(at).read() != 0) {
                let words = format!(
                    "a spec has an option that this version of RaskIO ({}) does not have; use a newer library, or leave that \
                     option zero",
                    env!("CARGO_PKG_VERSION")
                );
                return Err(Error::new(ErrorKind::Unsupported, words));
            }
            Ok(self.known(index))
        }
    }

    /// The same of what this version knows, whatever else there is.
    ///
    /// # Safety
    /// As [`Specs::get`].
    unsafe fn known(&self, index: usize) -> raskio_read_spec {
        let mut copy = MaybeUninit::<raskio_read_spec>::zeroed();
        // SAFETY: promised by the caller; integers and pointers, which are valid when they are zero.
        unsafe {
            let from = self.start.add(index * self.stride);
            std::ptr::copy_nonoverlapping(
                from,
                copy.as_mut_ptr().cast::<u8>(),
                size_of::<raskio_read_spec>().min(self.stride),
            );
            copy.assume_init()
        }
    }
}

/// How a batch is asked for.
///
/// # Safety
/// `from` is NULL or points to struct_size readable bytes, and so does what it points to; the specs are there.
unsafe fn batch_options(from: *const raskio_batch_options, specs: &Specs) -> Result<(How, BatchOptions)> {
    // SAFETY: promised by the caller.
    let Some(from) = (unsafe { options::read(from) })? else { return Ok(Default::default()) };
    // SAFETY: the same.
    let how = unsafe { read_options(from.read) }?;
    let gap = match from.coalesce_gap {
        RASKIO_COALESCE_DEFAULT => Gap::Default,
        RASKIO_COALESCE_NEVER => Gap::Never,
        bytes => Gap::Bytes(bytes),
    };
    let item_done = match from.item_done {
        // SAFETY: the same.
        Some(call) => Some(unsafe { item_done(call, specs) }?),
        None => None,
    };
    Ok((how, BatchOptions { read: how.options, gap, most: options::set(from.coalesce_max), item_done }))
}

/// The host's callback for items.
///
/// # Safety
/// The specs are there.
unsafe fn item_done(
    call: unsafe extern "C" fn(*mut c_void, usize, *const raskio_item_result),
    specs: &Specs,
) -> Result<ItemTold> {
    struct Callback(unsafe extern "C" fn(*mut c_void, usize, *const raskio_item_result), Vec<*mut c_void>);
    // SAFETY: the C contract: callbacks and their user data may be used from RaskIO's threads, and called at the same time for
    // different items.
    unsafe impl Send for Callback {}
    // SAFETY: the same.
    unsafe impl Sync for Callback {}
    impl Callback {
        fn call(&self, index: usize, result: &ItemResult<'_>) {
            let mut lent = Lent::default();
            let result = lent.result(result);
            let user_data = self.1.get(index).copied().unwrap_or(std::ptr::null_mut());
            // SAFETY: the caller promised a function that takes this user data; the result and its error outlive the call.
            unsafe { (self.0)(user_data, index, &result) };
        }
    }
    let mut user_data = Vec::new();
    user_data.try_reserve_exact(specs.count).map_err(|_| out_of_memory(specs.count))?;
    // Whatever is wrong with a spec: its item is told of it.
    // SAFETY: promised by the caller.
    user_data.extend((0..specs.count).map(|index| unsafe { specs.known(index) }.user_data));
    let callback = Callback(call, user_data);
    Ok(Box::new(move |index, result| callback.call(index, result)))
}

fn out_of_memory(count: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("no memory for a batch of {count} items; use smaller ones"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn an_item_is_told_of_by_its_user_data_also_if_its_spec_has_an_option_of_a_later_version() {
        unsafe extern "C" fn told(user_data: *mut c_void, index: usize, _: *const raskio_item_result) {
            // SAFETY: one of the counters below.
            unsafe { &*user_data.cast::<AtomicUsize>() }.store(index + 1, Ordering::Relaxed);
        }
        #[repr(C)]
        struct Later {
            spec: raskio_read_spec,
            option: u64,
        }
        let counters = [const { AtomicUsize::new(0) }; 2];
        let later = |index: usize| Later {
            spec: raskio_read_spec {
                object: std::ptr::null_mut(),
                offset: 0,
                data: std::ptr::null_mut(),
                size: 0,
                user_data: std::ptr::from_ref(&counters[index]).cast_mut().cast(),
                flags: 0,
                reserved0: 0,
            },
            option: index as u64,
        };
        let array = [later(0), later(1)];
        let specs = Specs::new(array.as_ptr().cast(), 2, size_of::<Later>()).unwrap();
        // SAFETY: the specs are there.
        let (first, second, item_done) = unsafe { (specs.get(0), specs.get(1), item_done(told, &specs).unwrap()) };
        assert!(first.is_ok());
        assert_eq!(second.err().unwrap().kind(), ErrorKind::Unsupported);
        for index in 0..2 {
            item_done(index, &ItemResult { error: None, bytes: 0, attempts: 0, offset: 0 });
        }
        assert_eq!(counters.map(AtomicUsize::into_inner), [1, 2]);
    }
}
