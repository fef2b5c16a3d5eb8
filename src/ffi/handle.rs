//! Handles
//!
//! Opaque and reference-counted. Each function that returns a handle says who must give it back; the `acquire`
//! functions add a reference, the `release` functions give one back. NULL is accepted by both.

use super::null;
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::object::Object;
use crate::op::Operation;
use crate::sys::process;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Owns threads, connections, memory and limits. Make one for a whole program, or use raskio_client_default.
pub struct raskio_client {
    _opaque: (),
}

/// One remote object or local file, opened through a client, which it keeps alive.
pub struct raskio_object {
    _opaque: (),
}

/// One read, batch, write or stat. The work runs on without the handle; hold one to cancel or to wait.
pub struct raskio_op {
    _opaque: (),
}

/// What went wrong: a status, a message, and the HTTP status or errno behind them. Immutable.
pub struct raskio_error {
    _opaque: (),
}

/// A handle type of the C API and the value behind it: `*mut Self` is an `Arc<Self::Inner>` given away.
///
/// Each is a type of its own, and its value follows from it, so that handles cannot be mixed up:
///
/// ```compile_fail,E0308
/// use raskio::ffi::{client::raskio_client_release, object::raskio_object};
/// let object: *mut raskio_object = std::ptr::null_mut();
/// unsafe { raskio_client_release(object) };
/// ```
pub(super) trait Handle {
    /// What the handle stands for.
    type Inner: Send + Sync;
    /// How a message calls it.
    const WHAT: &'static str;
    /// Ok, or FORKED in a child process that inherited it. Takes no lock.
    fn check_process(inner: &Self::Inner) -> Result<()>;
}

impl Handle for raskio_client {
    type Inner = Client;
    const WHAT: &'static str = "a raskio_client";
    fn check_process(client: &Client) -> Result<()> {
        client.check_process()
    }
}

impl Handle for raskio_object {
    type Inner = Object;
    const WHAT: &'static str = "a raskio_object";
    fn check_process(object: &Object) -> Result<()> {
        object.client().check_process()
    }
}

impl Handle for raskio_op {
    type Inner = OpInner;
    const WHAT: &'static str = "a raskio_op";
    fn check_process(op: &OpInner) -> Result<()> {
        if op.generation == process::generation() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Forked, "this operation belongs to the parent of this forked process"))
    }
}

impl Handle for raskio_error {
    type Inner = super::error::ErrorInner;
    const WHAT: &'static str = "a raskio_error";
    /// Plain memory: a child may read and free its copy.
    fn check_process(_: &Self::Inner) -> Result<()> {
        Ok(())
    }
}

/// What a `raskio_op` stands for.
pub(super) struct OpInner {
    pub(super) op: Arc<Operation>,
    generation: u64,
}

impl OpInner {
    /// A handle's value for an operation that was accepted in this process.
    pub(super) fn new(op: Arc<Operation>) -> Arc<OpInner> {
        Arc::new(OpInner { op, generation: process::generation() })
    }
}

/// Gives a reference to C.
pub(super) fn into_raw<H: Handle>(inner: Arc<H::Inner>) -> *mut H {
    Arc::into_raw(inner).cast_mut().cast()
}

/// Looks at a required handle of this process; C keeps its reference.
///
/// # Safety
/// `handle` is NULL, or came from [`into_raw`] and holds a reference for as long as the result is used.
pub(super) unsafe fn get<H: Handle>(handle: *const H, parameter: &str) -> Result<ManuallyDrop<Arc<H::Inner>>> {
    // SAFETY: promised by the caller.
    let inner = unsafe { peek(handle) }.ok_or_else(|| null(parameter, H::WHAT))?;
    H::check_process(&inner)?;
    Ok(inner)
}

/// Looks at a handle of any process; `None` for NULL.
///
/// # Safety
/// As for [`get`].
pub(super) unsafe fn peek<H: Handle>(handle: *const H) -> Option<ManuallyDrop<Arc<H::Inner>>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: it came from `Arc::into_raw` and holds a reference; ManuallyDrop leaves that one with C.
    Some(ManuallyDrop::new(unsafe { Arc::from_raw(handle.cast::<H::Inner>()) }))
}

/// Adds a reference for C. Only an atomic count, so it works in a forked child too.
///
/// # Safety
/// As for [`get`].
pub(super) unsafe fn acquire<H: Handle>(handle: *const H) -> *mut H {
    if !handle.is_null() {
        // SAFETY: it came from `Arc::into_raw` and holds a reference.
        unsafe { Arc::increment_strong_count(handle.cast::<H::Inner>()) };
    }
    handle.cast_mut()
}

/// Takes a reference back from C.
///
/// In a forked child nothing happens: destructors would wait for threads and take locks that exist in the parent
/// only. The child's copy of that memory is given up.
///
/// # Safety
/// `handle` is NULL, or came from [`into_raw`] and holds a reference that is not used after this.
pub(super) unsafe fn release<H: Handle>(handle: *mut H) {
    // SAFETY: promised by the caller.
    let Some(inner) = (unsafe { peek(handle) }) else { return };
    if H::check_process(&inner).is_ok() {
        drop(ManuallyDrop::into_inner(inner));
    }
}
