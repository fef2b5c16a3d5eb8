//! One URL or file, and what is known about it.

mod core;

pub use self::core::ObjectCore;

use crate::client::Client;
use crate::credentials::Secret;
use crate::endpoint::{self, Endpoint};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{About, OpKind};
use crate::local::Bypass;
use crate::memory;
use crate::op::items::Part;
use crate::op::{self, Completion, OpResult, Operation};
use crate::plan::{self, ByteRange};
use crate::staging::{NoBytes, Target};
use crate::sync::Mutex;
use crate::sys::mem::Buffer;
use crate::transport::{Ask, End, EndTo, Job, Transfer, Write};
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// How to open an object. `None` and empty are the defaults.
#[derive(Clone, Default)]
pub struct ObjectOptions {
    /// Explicit kind; `None`: inferred from the URL. The numbers are the C API's `RASKIO_ENDPOINT_*`.
    pub endpoint: Option<u32>,
    /// Kinds that may be inferred, `1 << RASKIO_ENDPOINT_*` each; 0: all.
    pub allowed_endpoints: u32,
    /// The size, if the caller knows it.
    pub size: Option<u64>,
    /// `Name: value`, sent to the object's own origin only.
    pub headers: Vec<String>,
    /// S3: the region, before environment, profile and host name.
    pub region: Option<String>,
    /// S3: a compatible service.
    pub endpoint_url: Option<String>,
    /// S3: where the bucket's name goes; `None`: into the host at AWS, into the path at other services.
    pub virtual_host: Option<bool>,
    /// S3.
    pub access_key_id: Option<String>,
    /// S3.
    pub secret_access_key: Option<Secret>,
    /// S3: with the two above. WebHDFS: the delegation token.
    pub session_token: Option<Secret>,
    /// WebHDFS.
    pub user_name: Option<String>,
    /// HTTP: goes into `Authorization`, to the object's own origin only.
    pub bearer_token: Option<Secret>,
    /// HTTP: the client's bearer callback is asked for the token.
    pub bearer_from_host: bool,
    /// A file of CA certificates in PEM form.
    pub ca_file: Option<String>,
    /// The server's certificate is not verified.
    pub tls_unverified: bool,
    /// A client certificate in PEM form.
    pub client_certificate: Option<String>,
    /// Its key, if the certificate's file does not hold it.
    pub client_key: Option<String>,
    /// Of the key.
    pub client_key_password: Option<Secret>,
    /// Instead of the environment's; empty: none.
    pub proxy: Option<String>,
    /// Instead of host and port.
    pub unix_socket: Option<String>,
    /// A local file may be written.
    pub writable: bool,
    /// A local file is moved past the system's cache where that is possible, or never; `None`: as the settings say.
    pub direct: Option<bool>,
}

impl ObjectOptions {
    /// Whether this kind may be inferred.
    pub fn allows(&self, kind: u32) -> bool {
        self.allowed_endpoints == 0 || 1u32.checked_shl(kind).is_some_and(|bit| self.allowed_endpoints & bit != 0)
    }
}

/// What stat, or any read, has learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectInfo {
    /// `RASKIO_ENDPOINT_*`.
    pub endpoint: u32,
    /// The size, once learned.
    pub size: Option<u64>,
    /// The entity tag, once learned; the same for the life of the object.
    pub etag: Option<Arc<CStr>>,
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
pub struct Object {
    client: Arc<Client>,
    core: Arc<ObjectCore>,
}

/// An operation that is accepted but not yet submitted, so that the caller can publish it first.
#[must_use = "an operation that is not submitted ends with INTERNAL"]
pub struct Pending {
    client: Arc<Client>,
    op: Arc<Operation>,
    /// What of it needs no request.
    over: Option<Part>,
    /// In groups that wait for the same.
    transfers: Vec<Vec<Transfer>>,
}

impl Pending {
    /// Of an operation of `client`'s: what of it needs no request, and its requests. Each group waits for one kind of memory.
    pub(crate) fn new(
        client: Arc<Client>,
        op: Arc<Operation>,
        over: Option<Part>,
        transfers: Vec<Vec<Transfer>>,
    ) -> Pending {
        Pending { client, op, over, transfers }
    }

    /// The operation.
    pub fn op(&self) -> &Arc<Operation> {
        &self.op
    }

    /// Hands its requests to the transport. Never fails: from here on every outcome goes to the completion.
    pub fn submit(mut self) {
        if let Some(part) = self.over.take() {
            self.client.end_soon(self.op.clone(), part);
        }
        for group in std::mem::take(&mut self.transfers) {
            self.client.submit(group);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(part) = self.over.take() {
            let error = Error::new(ErrorKind::Internal, "an operation was not submitted; this is a bug in RaskIO");
            self.op.finish(&part, 0, 0, Err(error));
        }
    }
}

impl Object {
    pub(crate) fn new(client: Arc<Client>, endpoint: Arc<dyn Endpoint>, size: Option<u64>) -> Arc<Object> {
        Arc::new(Object { client, core: Arc::new(ObjectCore::new(endpoint, size)) })
    }

    /// Its client.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The object as messages show it.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// What is known without asking.
    pub fn info(&self) -> ObjectInfo {
        let (size, etag) = self.core.size_and_etag();
        ObjectInfo { endpoint: self.core.endpoint.kind(), size, etag }
    }

    /// The size, once learned.
    pub fn size(&self) -> Option<u64> {
        self.core.size()
    }

    /// Asks for the size and the entity tag.
    ///
    /// # Errors
    /// SHUT_DOWN, FORKED.
    pub fn stat(self: &Arc<Self>, options: &ReadOptions, done: Completion) -> Result<Pending> {
        let op = self.begin(1, options, self.about(OpKind::Stat, 0, 0), done)?;
        let transfer = Transfer::new(op.clone(), Part::Whole, self.core.clone(), Job::Stat { probe: false });
        Ok(Pending::new(self.client.clone(), op, None, vec![vec![transfer]]))
    }

    /// Reads `buffer.len()` bytes from `offset` into `buffer`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a range that overflows or leaves the object, SHUT_DOWN, FORKED; for CUDA memory also
    /// UNSUPPORTED, CUDA, IO. The completion is dropped uncalled then.
    pub fn read(
        self: &Arc<Self>,
        offset: u64,
        buffer: impl Into<Buffer>,
        options: &ReadOptions,
        done: Completion,
    ) -> Result<Pending> {
        let buffer = buffer.into();
        let size = buffer.len();
        plan::check_bounds(self.name(), offset, size, self.core.fixed_size())?;
        let mut target = self.client.target(buffer)?;
        let task_size = target.request_size(options.task_size.unwrap_or(self.client.config().task_size));
        let count = plan::checked_count(self.name(), size, task_size)?;
        let mut transfers = self.room_for("reading", size, task_size, count)?;
        let op = self.begin(count.max(1), options, self.about(OpKind::Read, offset, size), done)?;
        for range in plan::split(offset, size, task_size) {
            let sink = target.next(range.len);
            transfers.push(Transfer::new(op.clone(), Part::Whole, self.core.clone(), Job::Read { range, sink }));
        }
        let (over, transfers) = if count == 0 { (Some(Part::Whole), vec![]) } else { (None, vec![transfers]) };
        Ok(Pending::new(self.client.clone(), op, over, transfers))
    }

    /// An empty list with room for so many requests.
    fn room_for(&self, doing: &str, size: u64, task_size: u64, count: usize) -> Result<Vec<Transfer>> {
        memory::vec(count, || {
            format!(
                "to queue the {count} requests of {task_size} bytes that {doing} {size} bytes of {} takes; use a larger task \
                 size",
                self.name()
            )
        })
    }

    /// Writes what is in `buffer` to a local file that was opened as writable, from `offset` on; it is made if it is missing, also if
    /// there is no byte, and grows. With `durable` the completion waits until the bytes are on the device. A write that fails tells how many bytes were
    /// written: not always the first ones, if it took several requests.
    ///
    /// # Errors
    /// UNSUPPORTED: it cannot be written. INVALID_ARGUMENT for a range that overflows, SHUT_DOWN, FORKED; for CUDA memory also
    /// UNSUPPORTED, CUDA, IO. The completion is dropped uncalled then.
    pub fn write(
        self: &Arc<Self>,
        offset: u64,
        buffer: impl Into<Buffer>,
        options: &ReadOptions,
        durable: bool,
        done: Completion,
    ) -> Result<Pending> {
        self.client.check_process()?;
        let unsupported = |why: &str| Err(Error::new(ErrorKind::Unsupported, format!("{}: {why}", self.name())));
        match self.core.endpoint.local() {
            None => return unsupported("only local files can be written"),
            Some(local) if !local.is_writable() => return unsupported("it was opened without RASKIO_OBJECT_WRITABLE"),
            Some(_) => {}
        }
        let buffer = buffer.into();
        let size = buffer.len();
        plan::check_write(self.name(), offset, size)?;
        let mut target = self.client.target(buffer)?;
        let task_size = target.request_size(options.task_size.unwrap_or(self.client.config().task_size));
        let count = plan::checked_count(self.name(), size, task_size)?;
        // That of no byte makes the file all the same.
        let mut transfers = self.room_for("writing", size, task_size, count.max(1))?;
        let op = self.begin(count.max(1), options, self.about(OpKind::Write, offset, size), done)?;
        let unsynced = durable.then(|| Arc::new(AtomicUsize::new(count.max(1))));
        let nothing = (count == 0).then_some(ByteRange { start: offset, len: 0 });
        for range in plan::split(offset, size, task_size).chain(nothing) {
            let feed = if range.len > 0 { target.feed(range.len) } else { Box::new(NoBytes) };
            let job = Job::Write(Box::new(Write { range, feed, written: 0, unsynced: unsynced.clone() }));
            transfers.push(Transfer::new(op.clone(), Part::Whole, self.core.clone(), job));
        }
        Ok(Pending::new(self.client.clone(), op, None, vec![transfers]))
    }

    /// [`Object::write`], waited for. Returns the bytes written.
    ///
    /// # Errors
    /// As the operation, and WOULD_DEADLOCK inside a callback.
    pub fn write_sync(
        self: &Arc<Self>,
        offset: u64,
        buffer: impl Into<Buffer>,
        options: &ReadOptions,
        durable: bool,
    ) -> Result<u64> {
        self.wait_for("a blocking write", |done| self.write(offset, buffer, options, durable, done))
    }

    /// Writes a local file's dirty pages, and drops its pages from the system's cache. May wait for the device.
    ///
    /// # Errors
    /// UNSUPPORTED: it is no local file. The system's, FORKED.
    pub fn drop_cache(&self) -> Result<()> {
        self.client.check_process()?;
        match self.core.endpoint.local() {
            Some(local) => {
                local.drop_cache(Bypass::of(self.client.config(), None))?;
                // That may have opened it, which is when its size is learned.
                match local.opened().filter(|_| self.size().is_none()) {
                    Some(file) => self.core.learn_file(&file).map(drop),
                    None => Ok(()),
                }
            }
            None => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{}: only local files have a cache to drop", self.name()),
            )),
        }
    }

    /// Reads the last `buffer.len()` bytes, or all if the object has fewer, into the start of `buffer`. The completion's
    /// offset says where they lie. If the size is not known, it is learned from the reply.
    ///
    /// # Errors
    /// As [`Object::read`].
    pub fn read_last(
        self: &Arc<Self>,
        buffer: impl Into<Buffer>,
        options: &ReadOptions,
        done: Completion,
    ) -> Result<Pending> {
        let buffer: Buffer = buffer.into();
        let len = buffer.len();
        plan::check_bounds(self.name(), 0, len, None)?;
        if let Some(size) = self.core.fixed_size() {
            let range = ByteRange::last(len, size);
            return self.read(range.start, buffer.split_to(range.len), options, done);
        }
        if len == 0 {
            return self.read(0, buffer, options, done);
        }
        let target = self.client.target(buffer)?;
        let task_size = options.task_size.unwrap_or(self.client.config().task_size);
        plan::checked_count(self.name(), len, target.request_size(task_size))?;
        let job = end_of(&self.core, target, len, task_size);
        let op = self.begin(1, options, self.about(OpKind::Read, 0, len), done)?;
        let transfer = Transfer::new(op.clone(), Part::Whole, self.core.clone(), job);
        Ok(Pending::new(self.client.clone(), op, None, vec![vec![transfer]]))
    }

    /// Counts an operation of so many requests in.
    fn begin(
        &self,
        requests: usize,
        options: &ReadOptions,
        about: About<'_>,
        done: Completion,
    ) -> Result<Arc<Operation>> {
        let op = self.client.begin(requests, deadline(options), about, done)?;
        op.concerns(self.core.clone());
        Ok(op)
    }

    fn about(&self, kind: OpKind, offset: u64, size: u64) -> About<'_> {
        About { kind, object: self.name(), offset, size }
    }

    /// What transfers need of it.
    pub(crate) fn core(&self) -> &Arc<ObjectCore> {
        &self.core
    }

    /// [`Object::stat`], waited for. Returns the size.
    ///
    /// # Errors
    /// As the operation, and WOULD_DEADLOCK inside a callback.
    pub fn stat_sync(self: &Arc<Self>) -> Result<u64> {
        self.wait_for("stat", |done| self.stat(&ReadOptions::default(), done))?;
        self.size().ok_or_else(|| Error::new(ErrorKind::Internal, "the size is unknown after a stat"))
    }

    /// [`Object::read`], waited for. Returns the bytes read.
    ///
    /// # Errors
    /// As the operation, and WOULD_DEADLOCK inside a callback.
    pub fn read_sync(self: &Arc<Self>, offset: u64, buffer: impl Into<Buffer>, options: &ReadOptions) -> Result<u64> {
        self.wait_for("a blocking read", |done| self.read(offset, buffer, options, done))
    }

    /// [`Object::read_last`], waited for. Returns the bytes read.
    ///
    /// # Errors
    /// As the operation, and WOULD_DEADLOCK inside a callback.
    pub fn read_last_sync(self: &Arc<Self>, buffer: impl Into<Buffer>, options: &ReadOptions) -> Result<u64> {
        self.wait_for("a blocking read", |done| self.read_last(buffer, options, done))
    }

    fn wait_for(&self, what: &str, start: impl FnOnce(Completion) -> Result<Pending>) -> Result<u64> {
        if op::in_callback() {
            return Err(op::would_deadlock(what));
        }
        let outcome = Arc::new(Mutex::new(None));
        let written = outcome.clone();
        let done: Completion = Box::new(move |result: &OpResult<'_>| {
            *written.lock() = Some(match result.error {
                Some(error) => Err(error.clone()),
                None => Ok(result.bytes),
            });
        });
        let pending = start(done)?;
        let op = pending.op().clone();
        pending.submit();
        op.wait(None)?;
        let outcome = outcome.lock().take();
        outcome.unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "an operation ended without a result")))
    }
}

/// The job of reading the last `len` bytes of an object of unknown size: at once, if one request may bring them all.
pub(crate) fn end_of(object: &ObjectCore, mut target: Box<dyn Target>, len: u64, task_size: u64) -> Job {
    let task_size = target.request_size(task_size);
    let (ask, to) = if len > task_size {
        (Ask::Size { probe: false }, EndTo::Target(target, task_size))
    } else if object.endpoint().gives_last() {
        (Ask::End, EndTo::Sink(target.next(len)))
    } else {
        (Ask::Size { probe: false }, EndTo::Sink(target.next(len)))
    };
    Job::End(Box::new(End { len, ask, to }))
}

pub(crate) fn deadline(options: &ReadOptions) -> Option<Instant> {
    options.deadline.and_then(|limit| Instant::now().checked_add(limit))
}

/// The endpoint kind that a URL would get (`RASKIO_ENDPOINT_*`, 0 if none would open it). No network I/O.
pub fn infer_endpoint(url: &str) -> u32 {
    endpoint::infer(url)
}
