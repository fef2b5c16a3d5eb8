//! Stream capture: what is submitted to a capturing stream is noted, not done; and it forbids other threads' calls.

use crate::abi::{self, Answer};
use crate::world::{ContextId, World, capture_mode, thread};

const GLOBAL: i32 = 0;
const RELAXED: i32 = 2;

/// A capture that goes on.
pub struct Capture {
    /// The stream that it began in.
    pub origin: usize,
    /// The thread that began it.
    pub thread: u64,
    /// `CUstreamCaptureMode`.
    pub mode: i32,
    /// Something forbidden was done: its end will fail.
    pub invalid: bool,
}

/// For calls that are unsafe while something is captured, such as allocations and queries: refuses, and breaks the capture
/// that forbids it, as the real driver does.
pub fn forbid_unsafe_call(world: &mut World) -> Answer {
    let (mine, mode) = (thread(), capture_mode());
    if mode == RELAXED {
        return Ok(());
    }
    let mut refused = false;
    for capture in world.captures.values_mut() {
        let own = capture.thread == mine && capture.mode != RELAXED;
        if own || (mode == GLOBAL && capture.mode == GLOBAL) {
            capture.invalid = true;
            refused = true;
        }
    }
    if refused { Err(abi::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// For work in the legacy stream: it would wait for every blocking stream, and cannot for one that is capturing.
pub fn forbid_legacy_work(world: &mut World, context: ContextId) -> Answer {
    let caught: Vec<u64> = world
        .streams
        .values()
        .filter(|stream| stream.context == context && !stream.non_blocking)
        .filter_map(|stream| stream.capture)
        .collect();
    for id in &caught {
        invalidate(world, *id);
    }
    if caught.is_empty() { Ok(()) } else { Err(abi::STREAM_CAPTURE_IMPLICIT) }
}

/// The end of this capture will fail.
pub fn invalidate(world: &mut World, id: u64) {
    if let Some(capture) = world.captures.get_mut(&id) {
        capture.invalid = true;
    }
}
