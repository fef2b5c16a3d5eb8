//! Events
//!
//! What happens to operations and to their requests on the way, for a program that counts it or says it in its own words: set
//! on_event in the options of a client. The result of an operation does not depend on it.
//!
//! Of each operation STARTED is told when its first request is sent (at its end, if it sends none), and FINISHED before its
//! callback begins. So an operation that waits long for its turn is seen by queued_ns.

use super::status::{RASKIO_OK, raskio_status};
use crate::events::{Event, Listener, Op, OpKind};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::time::Duration;

/// An attempt of a request failed, and there will be another one.
pub const RASKIO_EVENT_RETRY: u32 = 1;
/// A request opened connections.
pub const RASKIO_EVENT_CONNECTED: u32 = 2;
/// The first request of an operation is sent.
pub const RASKIO_EVENT_OP_STARTED: u32 = 3;
/// An operation is over; its callback comes next.
pub const RASKIO_EVENT_OP_FINISHED: u32 = 4;

/// An operation that asks for the size.
pub const RASKIO_OP_STAT: u32 = 1;
/// An operation that reads one range.
pub const RASKIO_OP_READ: u32 = 2;
/// A batch.
pub const RASKIO_OP_BATCH: u32 = 3;
/// An operation that writes one range of a local file.
pub const RASKIO_OP_WRITE: u32 = 4;

/// One event. Valid during the callback only; what does not belong to its kind is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_event {
    /// sizeof(raskio_event) as the library knows it.
    pub struct_size: usize,
    /// RASKIO_EVENT_*. More may be added: ignore what you do not know.
    pub kind: u32,
    /// RETRY: why the attempt failed. OP_FINISHED: how the operation ended.
    pub status: raskio_status,
    /// RETRY, OP_FINISHED: the HTTP status behind that, 0 if none is.
    pub http_status: u32,
    /// RETRY: how many attempts of this request have failed by now.
    pub attempt: u32,
    /// RETRY: how many may fail without progress.
    pub max_attempts: u32,
    /// RETRY: milliseconds until the next one.
    pub wait_ms: u32,
    /// CONNECTED: how many were opened.
    pub connections: u64,
    /// CONNECTED: nanoseconds for the look-up of the name.
    pub name_lookup_ns: u64,
    /// CONNECTED: nanoseconds for connecting.
    pub connect_ns: u64,
    /// CONNECTED: nanoseconds for the TLS handshake.
    pub tls_ns: u64,
    /// OP_*: tells the operation apart from all others of the process.
    pub op_number: u64,
    /// OP_*: the object without secrets, UTF-8, NUL-ended; empty for a batch. NULL for events of other kinds.
    pub object: *const c_char,
    /// OP_*: offset of the first byte; 0 for a batch, and before the end for the last bytes of an object of unknown size.
    pub offset: u64,
    /// OP_*: bytes asked for; of a batch, of all its items.
    pub size: u64,
    /// OP_FINISHED: bytes now in the caller's buffers.
    pub bytes: u64,
    /// OP_*: nanoseconds from the call to the first request.
    pub queued_ns: u64,
    /// OP_FINISHED: nanoseconds from the call to the end.
    pub took_ns: u64,
    /// OP_*: RASKIO_OP_*. More may be added.
    pub op_kind: u32,
    /// OP_FINISHED: requests sent, retries included.
    pub attempts: u32,
}

/// Told of an event, on a RaskIO thread, also on several at once, under the rules of raskio_done_fn. Set in the options of
/// a client, with whose user_data it is called until on_shut_down has been. A request waits while it runs: be brief.
pub type raskio_event_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, event: *const raskio_event)>;

/// The host's function, ready to be called from RaskIO's threads.
pub(super) fn listener(tell: raskio_event_fn, user_data: *mut c_void) -> Option<Listener> {
    struct Host(unsafe extern "C" fn(*mut c_void, *const raskio_event), *mut c_void);
    // SAFETY: the C contract: callbacks and their user data may be used from RaskIO's threads.
    unsafe impl Send for Host {}
    // SAFETY: as above, from several at once.
    unsafe impl Sync for Host {}
    impl Host {
        fn tell(&self, event: &raskio_event) {
            // SAFETY: the caller promised a function that takes this user data; the event is borrowed for the call.
            unsafe { (self.0)(self.1, event) };
        }
    }
    let host = Host(tell?, user_data);
    Some(Box::new(move |event| host.tell(&event.into())))
}

impl From<&Event> for raskio_event {
    fn from(event: &Event) -> raskio_event {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let nothing = raskio_event {
            struct_size: size_of::<raskio_event>(),
            kind: 0,
            status: RASKIO_OK,
            http_status: 0,
            attempt: 0,
            max_attempts: 0,
            wait_ms: 0,
            connections: 0,
            name_lookup_ns: 0,
            connect_ns: 0,
            tls_ns: 0,
            op_number: 0,
            object: ptr::null(),
            offset: 0,
            size: 0,
            bytes: 0,
            queued_ns: 0,
            took_ns: 0,
            op_kind: 0,
            attempts: 0,
        };
        let about = |op: &Op| raskio_event {
            op_number: op.number,
            // Lives as long as the event, which the host is lent.
            object: op.object.as_ptr(),
            offset: op.offset,
            size: op.size,
            op_kind: match op.kind {
                OpKind::Stat => RASKIO_OP_STAT,
                OpKind::Read => RASKIO_OP_READ,
                OpKind::Batch => RASKIO_OP_BATCH,
                OpKind::Write => RASKIO_OP_WRITE,
            },
            ..nothing
        };
        match *event {
            Event::OpStarted { ref op, queued } => {
                raskio_event { kind: RASKIO_EVENT_OP_STARTED, queued_ns: nanoseconds(queued), ..about(op) }
            }
            Event::OpFinished { ref op, failure, offset, bytes, attempts, queued, took } => raskio_event {
                kind: RASKIO_EVENT_OP_FINISHED,
                status: failure.map_or(RASKIO_OK, |(kind, _)| kind.code()),
                http_status: failure.map_or(0, |(_, status)| status.into()),
                offset,
                bytes,
                attempts,
                queued_ns: nanoseconds(queued),
                took_ns: nanoseconds(took),
                ..about(op)
            },
            Event::Retry { kind, http_status, attempt, max_attempts, wait } => raskio_event {
                kind: RASKIO_EVENT_RETRY,
                status: kind.code(),
                http_status: http_status.into(),
                attempt,
                max_attempts,
                wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
                ..nothing
            },
            Event::Connected { connections, timings } => raskio_event {
                kind: RASKIO_EVENT_CONNECTED,
                connections,
                name_lookup_ns: nanoseconds(timings.name_lookup),
                connect_ns: nanoseconds(timings.connect),
                tls_ns: nanoseconds(timings.tls),
                ..nothing
            },
        }
    }
}
