//! One URL or file, and what is known about it.

use crate::client::Client;
use crate::error::Result;
use crate::op::{Completion, Operation};
use crate::sys::mem::HostBuffer;
use std::sync::Arc;
use std::time::Duration;

/// How to open an object.
#[derive(Clone, Default)]
pub struct ObjectOptions {
    /// Explicit kind; `None`: inferred from the URL. The numbers are the C API's `RASKIO_ENDPOINT_*`.
    pub endpoint: Option<u32>,
    /// The size, if the caller knows it.
    pub size: Option<u64>,
    /// `Name: value`, sent to the object's own origin only.
    pub headers: Vec<String>,
    /// A file of CA certificates in PEM form.
    pub ca_file: Option<String>,
}

/// What stat, or any read, has learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectInfo {
    /// `RASKIO_ENDPOINT_*`.
    pub endpoint: u32,
    /// The size, once learned.
    pub size: Option<u64>,
    /// The entity tag, once learned.
    pub etag: Option<Arc<std::ffi::CStr>>,
}

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Bytes a request; `None`: the client's.
    pub task_size: Option<u64>,
    /// Limit of the whole operation.
    pub deadline: Option<Duration>,
}

/// One remote object or local file.
pub struct Object {}

/// An operation that is accepted but not yet submitted, so that the caller can publish it first.
#[must_use = "an operation that is not submitted never completes"]
pub struct Pending {}

impl Pending {
    /// The operation.
    pub fn op(&self) -> &Arc<Operation> {
        todo!()
    }
    /// Hands its requests to the transport. Never fails: from here on every outcome goes to the completion.
    pub fn submit(self) {
        todo!()
    }
}

impl Object {
    /// Its client.
    pub fn client(&self) -> &Arc<Client> {
        todo!()
    }
    /// What is known without asking.
    pub fn info(&self) -> ObjectInfo {
        todo!()
    }
    /// The size, once learned.
    pub fn size(&self) -> Option<u64> {
        todo!()
    }
    /// Asks for the size and the entity tag.
    pub fn stat(self: &Arc<Self>, options: &ReadOptions, done: Completion) -> Result<Pending> {
        let _ = (options, done);
        todo!()
    }
    /// Reads `buffer.len()` bytes from `offset` into `buffer`.
    pub fn read(
        self: &Arc<Self>,
        offset: u64,
        buffer: HostBuffer,
        options: &ReadOptions,
        done: Completion,
    ) -> Result<Pending> {
        let _ = (offset, buffer, options, done);
        todo!()
    }
    /// [`Object::stat`], waited for. Returns the size.
    pub fn stat_sync(self: &Arc<Self>) -> Result<u64> {
        todo!()
    }
    /// [`Object::read`], waited for. Returns the bytes read.
    pub fn read_sync(self: &Arc<Self>, offset: u64, buffer: HostBuffer, options: &ReadOptions) -> Result<u64> {
        let _ = (offset, buffer, options);
        todo!()
    }
}

/// The endpoint kind that a URL would get (`RASKIO_ENDPOINT_*`, 0 if none would open it). No network I/O.
pub fn infer_endpoint(url: &str) -> u32 {
    let _ = url;
    todo!()
}
