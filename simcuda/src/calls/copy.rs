//! Copies and fills.

use crate::abi::Answer;
use crate::calls::context::health;
use crate::capture;
use crate::memory::{self, Side, checksum};
use crate::stream::{self, Work};
use crate::world::{ContextId, Held, call_in_context};
use std::sync::Arc;

/// Where a copy is queued.
#[derive(Clone, Copy)]
struct Queue {
    stream: usize,
    /// A NULL stream is the thread's own.
    own: bool,
    /// The call returns when the copy is done.
    waits: bool,
}

fn copy(name: &str, to: (usize, Side), from: (usize, Side), size: usize, queue: Queue) -> i32 {
    call_in_context(name, |mut world, context| {
        if queue.waits {
            capture::forbid_unsafe_call(&mut world)?;
        }
        let stream = stream::resolve_for_work(&mut world, name, queue.stream, queue.own, context)?;
        if size == 0 {
            return Ok(());
        }
        let target = memory::place(&world, name, to.0, size, to.1, context)?;
        let source = memory::place(&world, name, from.0, size, from.1, context)?;
        let (mut sum, mut kept) = (None, None);
        if source.host {
            // SAFETY: the caller promises that the source is readable during the call, and page-locked memory longer.
            let bytes = unsafe { memory::bytes(memory::open(&world, name, &source), size) };
            if source.pageable {
                kept = Some(Arc::new(bytes.to_vec()));
            } else {
                sum = Some(checksum(bytes));
            }
        }
        let work = Work::Copy { from: source, to: target, sum, kept };
        // To pageable memory the real driver copies before it returns.
        finish(world, context, stream, work, queue.waits || target.pageable)
    })
}

fn finish(mut world: Held, context: ContextId, stream: usize, work: Work, waits: bool) -> Answer {
    match stream::submit(&mut world, stream, work, Vec::new())? {
        Some(point) if waits => {
            let world = stream::wait_until(world, &point);
            health(&world, context)
        }
        _ => Ok(()),
    }
}

fn set(name: &str, to: usize, value: u8, size: usize, queue: Queue) -> i32 {
    call_in_context(name, |mut world, context| {
        if queue.waits {
            capture::forbid_unsafe_call(&mut world)?;
        }
        let stream = stream::resolve_for_work(&mut world, name, queue.stream, queue.own, context)?;
        if size == 0 {
            return Ok(());
        }
        let to = memory::place(&world, name, to, size, Side::Device, context)?;
        finish(world, context, stream, Work::Set { to, value }, queue.waits)
    })
}

const LEGACY: Queue = Queue { stream: 0, own: false, waits: true };
const OWN: Queue = Queue { stream: 0, own: true, waits: true };

const fn queued(stream: usize, own: bool) -> Queue {
    Queue { stream, own, waits: false }
}

macro_rules! copies {
    ($name:literal, $to:ident, $from:ident: $sync:ident $sync_own:ident; $async_name:literal: $queued:ident $queued_own:ident;) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $sync(to: usize, from: usize, size: usize) -> i32 {
            copy($name, (to, Side::$to), (from, Side::$from), size, LEGACY)
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $sync_own(to: usize, from: usize, size: usize) -> i32 {
            copy($name, (to, Side::$to), (from, Side::$from), size, OWN)
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $queued(to: usize, from: usize, size: usize, stream: usize) -> i32 {
            copy($async_name, (to, Side::$to), (from, Side::$from), size, queued(stream, false))
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $queued_own(to: usize, from: usize, size: usize, stream: usize) -> i32 {
            copy($async_name, (to, Side::$to), (from, Side::$from), size, queued(stream, true))
        }
    };
}

copies! {
    "cuMemcpyHtoD", Device, Host: cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds;
    "cuMemcpyHtoDAsync": cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2_ptsz;
}
copies! {
    "cuMemcpyDtoH", Host, Device: cuMemcpyDtoH_v2 cuMemcpyDtoH_v2_ptds;
    "cuMemcpyDtoHAsync": cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync_v2_ptsz;
}
copies! {
    "cuMemcpyDtoD", Device, Device: cuMemcpyDtoD_v2 cuMemcpyDtoD_v2_ptds;
    "cuMemcpyDtoDAsync": cuMemcpyDtoDAsync_v2 cuMemcpyDtoDAsync_v2_ptsz;
}
copies! {
    "cuMemcpy", Any, Any: cuMemcpy cuMemcpy_ptds;
    "cuMemcpyAsync": cuMemcpyAsync cuMemcpyAsync_ptsz;
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(to: usize, value: u8, size: usize) -> i32 {
    set("cuMemsetD8", to, value, size, LEGACY)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2_ptds(to: usize, value: u8, size: usize) -> i32 {
    set("cuMemsetD8", to, value, size, OWN)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(to: usize, value: u8, size: usize, stream: usize) -> i32 {
    set("cuMemsetD8Async", to, value, size, queued(stream, false))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async_ptsz(to: usize, value: u8, size: usize, stream: usize) -> i32 {
    set("cuMemsetD8Async", to, value, size, queued(stream, true))
}
