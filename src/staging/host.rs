//! Straight into the caller's host memory.

use super::{RequestDone, Sink};
use crate::sys::mem::HostBuffer;

/// A part of the caller's buffer.
pub struct HostSink(pub HostBuffer);

impl Sink for HostSink {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write(bytes)
    }

    fn written(&self) -> u64 {
        self.0.written()
    }

    fn commit(self: Box<Self>, done: RequestDone) {
        let written = self.0.written();
        // The buffer is the caller's again from the completion on.
        drop(self);
        done.finish(written);
    }
}
