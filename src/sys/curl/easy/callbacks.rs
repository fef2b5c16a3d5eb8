//! What libcurl calls while it runs a transfer.

use super::super::missing;
use super::super::patience::Patience;
use super::super::still;
use super::super::straight::{self, Connection, Placed, Taker, Told};
use super::Handler;
use crate::sys::mem::Span;
use curl_sys::CURL;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// What they reach.
pub struct Hooks<H> {
    /// The handle whose they are, only to be asked for its connection.
    pub raw: Raw,
    pub handler: H,
    pub placed: Placed,
    /// `None`: every byte is told of as it comes.
    pub patience: Option<Patience>,
    pub panicked: bool,
    pub error_text: [c_char; curl_sys::CURL_ERROR_SIZE],
}

/// A handle that is alive.
#[derive(Clone, Copy)]
pub struct Raw(pub NonNull<CURL>);

impl Connection for Raw {
    fn number(&self) -> Option<i64> {
        let mut number: i64 = -1;
        // SAFETY: this info is a curl_off_t, and the pointer is to one.
        unsafe { curl_sys::curl_easy_getinfo(self.0.as_ptr(), missing::CURLINFO_CONN_ID, &raw mut number) };
        (number >= 0).then_some(number)
    }

    fn socket(&self) -> Option<curl_sys::curl_socket_t> {
        let mut socket: curl_sys::curl_socket_t = -1;
        // SAFETY: this info is a socket, and the pointer is to one.
        unsafe { curl_sys::curl_easy_getinfo(self.0.as_ptr(), missing::CURLINFO_ACTIVESOCKET, &raw mut socket) };
        (socket >= 0).then_some(socket)
    }
}

/// The hooks of the handle that is running, as libcurl passes them.
fn hooks_of<H: Handler>(user: *mut c_void) -> NonNull<Hooks<H>> {
    // SAFETY: `Easy` has set it to a box's pointer, which is never null.
    unsafe { NonNull::new_unchecked(user.cast()) }
}

/// The last lines of defence: what libcurl calls may not unwind into it.
fn guarded<'a, H: Handler, R>(mut hooks: NonNull<Hooks<H>>, failed: R, body: impl FnOnce(&'a mut Hooks<H>) -> R) -> R {
    // SAFETY: they belong to the handle that is running, alive and reached by nobody else now.
    match catch_unwind(AssertUnwindSafe(|| body(unsafe { hooks.as_mut() }))) {
        Ok(outcome) => outcome,
        Err(_) => {
            // SAFETY: as above, and `body` is over: what it would have returned is not there to borrow them.
            unsafe { hooks.as_mut().panicked = true };
            failed
        }
    }
}

impl<H: Handler> Taker for Hooks<H> {
    fn lend(&mut self) -> Option<Span<'_>> {
        if !self.placed.is_open() {
            return None;
        }
        guarded(NonNull::from(self), None, |hooks| hooks.handler.lend())
    }

    fn lent(&mut self, at: usize, n: usize) {
        self.placed.lent(at, n);
    }
}

/// # Safety
/// `data` must point to `n` readable bytes, or `n` be 0.
unsafe fn bytes<'a>(data: *const c_char, n: usize) -> &'a [u8] {
    if n == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), n) }
}

/// CURLOPT_WRITEFUNCTION. `user`: the [`Hooks`].
pub extern "C" fn on_body<H: Handler>(data: *mut c_char, size: usize, count: usize, user: *mut c_void) -> usize {
    // `size` is documented to be 1.
    let n = size * count;
    let taker = hooks_of::<H>(user);
    let goes_on = guarded(taker, false, |hooks| {
        let goes_on = match hooks.placed.told(data as usize, n) {
            Told::InPlace => hooks.handler.placed(n),
            Told::There => {
                hooks.placed.socket = straight::body_came(taker, hooks.placed.socket, &hooks.raw, data as usize, n);
                // SAFETY: libcurl passes `n` bytes.
                hooks.handler.body(unsafe { bytes(data, n) })
            }
            Told::Lost => {
                hooks.handler.lost();
                false
            }
        };
        if let Some(patience) = &mut hooks.patience {
            patience.came(hooks.handler.due(), &hooks.raw);
        }
        goes_on
    });
    if goes_on { n } else { missing::CURL_WRITEFUNC_ERROR }
}

/// CURLOPT_HEADERFUNCTION. `user`: the [`Hooks`].
pub extern "C" fn on_header<H: Handler>(data: *mut c_char, size: usize, count: usize, user: *mut c_void) -> usize {
    let n = size * count;
    let taker = hooks_of::<H>(user);
    guarded(taker, missing::CURL_WRITEFUNC_ERROR, |hooks| {
        if hooks.placed.socket.is_none() {
            hooks.placed.socket = straight::header_came(taker, &hooks.raw);
        }
        // SAFETY: libcurl passes `n` bytes.
        hooks.handler.header(unsafe { bytes(data, n) });
        n
    })
}

/// CURLOPT_DEBUGFUNCTION. `user`: the [`Hooks`].
pub extern "C" fn on_trace<H: Handler>(
    _: *mut CURL,
    kind: u32,
    data: *mut c_char,
    n: usize,
    user: *mut c_void,
) -> c_int {
    let outgoing = match kind {
        curl_sys::CURLINFO_TEXT => None,
        curl_sys::CURLINFO_HEADER_IN => Some(false),
        curl_sys::CURLINFO_HEADER_OUT => Some(true),
        _ => return 0,
    };
    guarded(hooks_of::<H>(user), 0, |hooks| {
        // It is logged, which is the host's code.
        let _runs = still::Runs::begin();
        // SAFETY: libcurl passes `n` bytes.
        hooks.handler.trace(outgoing, unsafe { bytes(data, n) });
        0
    })
}
