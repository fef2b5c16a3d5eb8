//! Where received bytes go.

pub mod host;

use crate::error::Result;
use crate::op::Operation;
use std::sync::Arc;

/// The end of one request: whoever holds it must finish it, exactly once, when the bytes are where the caller wants them.
#[must_use = "a request that is not finished never completes its operation"]
pub struct RequestDone {
    /// The operation it belongs to.
    pub op: Arc<Operation>,
    /// How the request ended.
    pub result: Result<()>,
}

impl RequestDone {
    /// `bytes` of the request are in the caller's buffer.
    pub fn finish(self, bytes: u64) {
        self.op.finish_one(bytes, self.result);
    }
}

/// What a transfer writes into.
pub trait Sink: Send {
    /// Appends `bytes`; false, with nothing written, if they do not fit.
    #[must_use]
    fn write(&mut self, bytes: &[u8]) -> bool;
    /// Bytes written so far, over all attempts.
    fn written(&self) -> u64;
    /// The request is over: all of it was written, or a prefix. Finishes `done` once the bytes are in place.
    fn commit(self: Box<Self>, done: RequestDone);
}
