//! Straight into the caller's host memory.

use super::{Kind, RequestDone, Sink, Staging, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::mem::{Buffer, HostBuffer};
use std::sync::Arc;
use std::time::Instant;

/// The row in [`super::KINDS`].
pub const KIND: Kind =
    Kind { name: "host", takes: |buffer| matches!(buffer, Buffer::Host(_)), start: |_, _| Arc::new(HostStaging) };

struct HostStaging;

impl Staging for HostStaging {
    fn open(&self, buffer: Buffer) -> Result<Box<dyn Target>> {
        match buffer {
            Buffer::Host(buffer) => Ok(Box::new(HostTarget(buffer))),
            Buffer::Cuda(_) => {
                Err(Error::new(ErrorKind::Internal, "a buffer of another kind was taken for host memory"))
            }
        }
    }

    fn trim(&self) {}

    fn shut_down(&self) {}

    fn wait_stopped(&self, _: Option<Instant>) -> bool {
        true
    }
}

struct HostTarget(HostBuffer);

impl Target for HostTarget {
    fn limit(&self) -> Option<u64> {
        None
    }

    fn next(&mut self, n: u64) -> Box<dyn Sink> {
        Box::new(HostSink(self.0.split_to(n)))
    }
}

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
