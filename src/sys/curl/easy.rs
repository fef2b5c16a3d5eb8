//! One transfer's handle.

mod callbacks;

use self::callbacks::{Hooks, Raw, on_body, on_header, on_trace};
use super::patience::Patience;
use super::sockets::{self, Sockets};
use super::straight::{Connection, Placed, Straight};
use super::url::Url;
use super::{Share, missing};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::fault::{self, Point};
use crate::sys::mem::Span;
use crate::sys::quiet::Inside;
use curl_sys::{CURL, CURLoption, curl_slist};
use std::ffi::{CStr, CString, c_int, c_long, c_void};
use std::io::Write;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// What a transfer tells while it runs. Called on the thread that drives it.
pub trait Handler: Send + 'static {
    /// One header line with its line end, the status line and the empty line included.
    fn header(&mut self, line: &[u8]);
    /// Body bytes, at most 16 KiB. False ends the transfer.
    fn body(&mut self, bytes: &[u8]) -> bool;
    /// Where the next body bytes are to be put, for a handler that wants them there without a copy. `None`, always right: it gets
    /// them by [`Handler::body`]. Only when no byte but of the body, as it is, can come next. What is lent stays where it is until
    /// the handler is called again.
    fn lend(&mut self) -> Option<Span<'_>> {
        None
    }
    /// The next `n` bytes of what was lent are there. False ends the transfer.
    fn placed(&mut self, n: usize) -> bool {
        n == 0
    }
    /// Bytes that were put where they belong were not handed on: nobody knows what is there. The transfer ends.
    fn lost(&mut self) {}
    /// How many more bytes of the body will come, at least; 0: nobody knows.
    fn due(&self) -> u64 {
        0
    }
    /// What libcurl says (`outgoing`: `Some(true)` for a header sent, `Some(false)` for one received), when verbose.
    fn trace(&mut self, outgoing: Option<bool>, text: &[u8]);
}

/// What never changes for a client's handles.
#[derive(Clone)]
pub struct Settings {
    /// Receive buffer, bytes (1 KiB to 10 MiB). libcurl keeps one per multi handle.
    pub receive_buffer: usize,
    /// Limit of name look-up, connect and TLS handshake, 0: libcurl's 300 s.
    pub connect_timeout_ms: u64,
    /// Limit of the whole transfer, 0: none.
    pub request_timeout_ms: u64,
    /// Whether the bytes of a large body may lie in the kernel until there are enough of them. Then [`Multi::wait_no_more`](super::Multi::wait_no_more)
    /// has to be told of transfers that nothing comes for.
    pub patient: bool,
    /// Whether [`Handler::trace`] is called.
    pub verbose: bool,
    /// Where names that were looked up are kept.
    pub share: Arc<Share>,
}

/// How a transfer ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// `CURLcode`.
    pub code: u32,
    /// libcurl's words for it, with the details of this transfer where it gave some.
    pub message: String,
    /// `errno` of the last failed connect, 0 if none.
    pub os_code: i32,
    /// Connections this transfer opened; 0: it used an open one.
    pub connections: u64,
    /// Where the time went.
    pub times: Times,
    /// A callback panicked.
    pub panicked: bool,
}

/// Where the time of a transfer went, by libcurl's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// The name look-up.
    pub name_lookup: Duration,
    /// From then until the connection was there; 0: none was opened.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// From the request's being sent to the first byte of the answer.
    pub wait: Duration,
    /// From the first byte to the last.
    pub body: Duration,
    /// From the start to the first byte; 0: none came.
    pub first_byte: Duration,
}

/// Header lines to send, in libcurl's form.
#[derive(Debug)]
pub struct Headers(*mut curl_slist);

// SAFETY: a list is plain memory that only its owner reaches.
unsafe impl Send for Headers {}

impl Headers {
    /// A list of these lines (`Name: value`).
    ///
    /// # Errors
    /// OUT_OF_MEMORY.
    pub fn new<'a>(lines: impl Iterator<Item = &'a CStr>) -> Result<Headers> {
        let mut list = Headers(std::ptr::null_mut());
        for line in lines {
            // SAFETY: the list is ours (or null, which starts one), the line is NUL-ended and is copied.
            let longer = unsafe { curl_sys::curl_slist_append(list.0, line.as_ptr()) };
            if longer.is_null() {
                return Err(out_of_memory());
            }
            list.0 = longer;
        }
        Ok(list)
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        // SAFETY: the list is ours; null is allowed.
        unsafe { curl_sys::curl_slist_free_all(self.0) }
    }
}

fn out_of_memory() -> Error {
    Error::new(ErrorKind::OutOfMemory, "libcurl is out of memory")
}

/// A reusable handle with its [`Handler`].
pub struct Easy<H: Handler> {
    raw: NonNull<CURL>,
    /// Reached by the callbacks through a raw pointer, hence never held as a `Box` while the handle lives.
    hooks: NonNull<Hooks<H>>,
    /// Used by the handle until they are replaced.
    headers: Option<Headers>,
    url: Option<(CString, Url)>,
    /// Those of the multi handle it was in last.
    sockets: Option<NonNull<Sockets>>,
    /// Outlives the handle: fields are dropped after [`Easy`]'s own drop.
    _share: Arc<Share>,
}

// SAFETY: libcurl's handles may move between threads as long as one thread at a time uses them, which ownership ensures.
unsafe impl<H: Handler> Send for Easy<H> {}

impl<H: Handler> Easy<H> {
    /// A handle with everything set that does not change from transfer to transfer.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, or INTERNAL when libcurl refuses an option.
    pub fn new(handler: H, settings: &Settings) -> Result<Easy<H>> {
        if fault::hit(Point::EasyNew) {
            return Err(out_of_memory());
        }
        let _inside = Inside::enter();
        // SAFETY: libcurl is initialised (a client exists), and null is checked.
        let raw = NonNull::new(unsafe { curl_sys::curl_easy_init() }).ok_or_else(out_of_memory)?;
        let hooks = Box::new(Hooks {
            raw: Raw(raw),
            handler,
            placed: Placed::default(),
            patience: settings.patient.then(Patience::default),
            panicked: false,
            error_text: [0; curl_sys::CURL_ERROR_SIZE],
        });
        // SAFETY: a box's pointer is never null.
        let hooks = unsafe { NonNull::new_unchecked(Box::into_raw(hooks)) };
        let mut easy = Easy { raw, hooks, headers: None, url: None, sockets: None, _share: settings.share.clone() };
        easy.set_constants(settings)?;
        Ok(easy)
    }

    fn set_constants(&mut self, settings: &Settings) -> Result<()> {
        let data = self.hooks.as_ptr().cast::<c_void>();
        // SAFETY: the hooks live until the handle is cleaned up, and so do the error buffer inside them and the share; the
        // functions have the types that the options document.
        unsafe {
            self.pointer(curl_sys::CURLOPT_ERRORBUFFER, (&raw mut (*self.hooks.as_ptr()).error_text).cast())?;
            self.pointer(curl_sys::CURLOPT_WRITEFUNCTION, on_body::<H> as *mut c_void)?;
            self.pointer(curl_sys::CURLOPT_WRITEDATA, data)?;
            self.pointer(curl_sys::CURLOPT_HEADERFUNCTION, on_header::<H> as *mut c_void)?;
            self.pointer(curl_sys::CURLOPT_HEADERDATA, data)?;
            self.pointer(curl_sys::CURLOPT_SHARE, settings.share.raw().cast())?;
            self.pointer(curl_sys::CURLOPT_OPENSOCKETFUNCTION, sockets::on_open as *mut c_void)?;
            self.pointer(curl_sys::CURLOPT_CLOSESOCKETFUNCTION, sockets::on_close as *mut c_void)?;
            if settings.verbose {
                self.pointer(curl_sys::CURLOPT_DEBUGFUNCTION, on_trace::<H> as *mut c_void)?;
                self.pointer(curl_sys::CURLOPT_DEBUGDATA, data)?;
            }
        }
        self.long(curl_sys::CURLOPT_VERBOSE, settings.verbose.into())?;
        self.long(curl_sys::CURLOPT_NOSIGNAL, 1)?;
        self.long(curl_sys::CURLOPT_NOPROGRESS, 1)?;
        // A key may hold `/../`: what is signed must be what is sent.
        self.long(curl_sys::CURLOPT_PATH_AS_IS, 1)?;
        self.long(curl_sys::CURLOPT_HTTP_VERSION, curl_sys::CURL_HTTP_VERSION_1_1.into())?;
        // http and https (CURLPROTO_HTTP | CURLPROTO_HTTPS): no redirect or option leads to another protocol.
        self.long(curl_sys::CURLOPT_PROTOCOLS, 3)?;
        self.long(curl_sys::CURLOPT_TCP_KEEPALIVE, 1)?;
        self.long(curl_sys::CURLOPT_SSLVERSION, curl_sys::CURL_SSLVERSION_TLSv1_2.into())?;
        self.long(missing::CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)?;
        // Ask for the bytes as they are, and never decode what a server encoded all the same: it is an error instead.
        self.string(curl_sys::CURLOPT_ACCEPT_ENCODING, c"identity")?;
        self.long(curl_sys::CURLOPT_HTTP_CONTENT_DECODING, 0)?;
        self.string(curl_sys::CURLOPT_USERAGENT, USER_AGENT)?;
        self.long(curl_sys::CURLOPT_BUFFERSIZE, settings.receive_buffer as c_long)?;
        self.long(curl_sys::CURLOPT_CONNECTTIMEOUT_MS, clamp(settings.connect_timeout_ms))?;
        self.long(curl_sys::CURLOPT_TIMEOUT_MS, clamp(settings.request_timeout_ms))
    }

    /// What the callbacks feed. Not reachable while the transfer's multi handle runs: that borrows every handle.
    pub fn handler(&mut self) -> &mut H {
        // SAFETY: callbacks run only inside `Multi::advance`, which borrows the multi and with it this handle.
        unsafe { &mut (*self.hooks.as_ptr()).handler }
    }

    /// Its bytes come by [`Handler::body`] alone from now on.
    pub(super) fn go_straight_no_more(&mut self, straight: &mut Straight) {
        // SAFETY: no callback runs now (see `handler`).
        let hooks = unsafe { self.hooks.as_mut() };
        straight.forget(&mut hooks.placed, self.hooks.as_ptr().cast());
        if let Some(patience) = &mut hooks.patience {
            patience.leave(&hooks.raw);
        }
    }

    /// Nothing came for a while: whatever there is comes now. False: nothing was waited for.
    pub(super) fn wait_no_more(&mut self) -> bool {
        // SAFETY: no callback runs now (see `handler`).
        let hooks = unsafe { self.hooks.as_mut() };
        hooks.patience.as_mut().is_some_and(|patience| patience.end(&hooks.raw))
    }

    /// Sets where the next transfers go; copied.
    ///
    /// # Errors
    /// As [`Easy::new`]; INVALID_ARGUMENT for what is no URL.
    pub fn set_url(&mut self, url: &CStr) -> Result<()> {
        if self.url.as_ref().is_some_and(|(before, _)| before.as_c_str() == url) {
            return Ok(());
        }
        // Parsed once: libcurl would parse the text anew for each transfer, 3,000 instructions more than copying what it says.
        let parsed = Url::of(url)?;
        // SAFETY: the parsed URL stays in `self.url` until it is replaced here or the handle is gone.
        unsafe { self.pointer(missing::CURLOPT_CURLU, parsed.raw())? };
        self.url = Some((url.to_owned(), parsed));
        Ok(())
    }

    /// Sets path and query as they stand on the request line, instead of those that libcurl makes of the URL; copied.
    ///
    /// # Errors
    /// As [`Easy::new`].
    pub fn set_request_target(&mut self, target: Option<&CStr>) -> Result<()> {
        self.optional(missing::CURLOPT_REQUEST_TARGET, target)
    }

    /// Sets the byte range (`a-b`, `-n`) of the next transfer, or none; copied.
    ///
    /// # Errors
    /// As [`Easy::new`].
    pub fn set_range(&mut self, range: Option<&dyn std::fmt::Display>) -> Result<()> {
        let Some(range) = range else { return self.optional(curl_sys::CURLOPT_RANGE, None) };
        // Two numbers of 20 digits at most, on the stack: every request has another range.
        let mut text = [0u8; 64];
        let written = write!(&mut text[..63], "{range}").is_ok();
        match CStr::from_bytes_until_nul(&text) {
            Ok(text) if written => self.string(curl_sys::CURLOPT_RANGE, text),
            _ => Err(Error::new(ErrorKind::Internal, format!("the range {range} is longer than any"))),
        }
    }

    /// HEAD (true) or GET.
    ///
    /// # Errors
    /// As [`Easy::new`].
    pub fn set_head(&mut self, head: bool) -> Result<()> {
        if head { self.long(curl_sys::CURLOPT_NOBODY, 1) } else { self.long(curl_sys::CURLOPT_HTTPGET, 1) }
    }

    /// Sets the header lines to send.
    ///
    /// # Errors
    /// As [`Easy::new`].
    pub fn set_headers(&mut self, headers: Option<Headers>) -> Result<()> {
        let list = headers.as_ref().map_or(std::ptr::null_mut(), |headers| headers.0);
        // SAFETY: the list stays in `self.headers` until it is replaced here or the handle is gone.
        unsafe { self.pointer(curl_sys::CURLOPT_HTTPHEADER, list.cast())? };
        self.headers = headers;
        Ok(())
    }

    /// What became of the transfer that ended with `code`; made ready for the next one.
    pub fn finished(&mut self, code: u32) -> Finished {
        let (os_code, connections) =
            (self.info(curl_sys::CURLINFO_OS_ERRNO) as i32, self.info(curl_sys::CURLINFO_NUM_CONNECTS).max(0) as u64);
        // SAFETY: no callback runs now (see `handler`).
        let hooks = unsafe { &mut *self.hooks.as_ptr() };
        let mut message = String::new();
        if code != 0 {
            // SAFETY: libcurl keeps its error buffer NUL-ended; it was zeroed before.
            message = unsafe { super::text(hooks.error_text.as_ptr()) };
            if message.is_empty() {
                message = super::strerror(code);
            }
        }
        hooks.error_text[0] = 0;
        let times = self.times(connections > 0);
        Finished { code, message, os_code, connections, times, panicked: std::mem::take(&mut hooks.panicked) }
    }

    fn times(&self, connected: bool) -> Times {
        let [first_byte, sent, all] = [
            missing::CURLINFO_STARTTRANSFER_TIME_T,
            missing::CURLINFO_PRETRANSFER_TIME_T,
            missing::CURLINFO_TOTAL_TIME_T,
        ]
        .map(|what| self.time(what));
        let mut times = Times { first_byte, ..Times::default() };
        if !first_byte.is_zero() {
            (times.wait, times.body) = (first_byte.saturating_sub(sent), all.saturating_sub(first_byte));
        }
        // Without a new connection there is nothing to ask for.
        if connected {
            let [looked_up, connected, secured] = [
                missing::CURLINFO_NAMELOOKUP_TIME_T,
                missing::CURLINFO_CONNECT_TIME_T,
                missing::CURLINFO_APPCONNECT_TIME_T,
            ]
            .map(|what| self.time(what));
            times.name_lookup = looked_up;
            times.connect = connected.saturating_sub(looked_up);
            times.tls = secured.saturating_sub(connected);
        }
        times
    }

    /// Whether the running transfer's name is looked up, all of its addresses, or needed no look-up.
    pub fn name_is_known(&self) -> bool {
        // libcurl notes at least a microsecond.
        !self.time(missing::CURLINFO_NAMELOOKUP_TIME_T).is_zero()
    }

    /// Whether the running transfer has sent all of its request.
    pub(super) fn has_asked(&self) -> bool {
        // libcurl notes at least a microsecond.
        !self.time(missing::CURLINFO_POSTTRANSFER_TIME_T).is_zero()
    }

    /// libcurl's number of the connection that it uses or used last, if there is one.
    pub(super) fn connection(&self) -> Option<i64> {
        Raw(self.raw).number()
    }

    /// The socket of that connection, while it is open. libcurl looks through all connections for it.
    pub(super) fn socket(&self) -> Option<curl_sys::curl_socket_t> {
        Raw(self.raw).socket()
    }

    /// Has libcurl stop receiving, and not wait for its socket any more; or go on, and run it at its next chance, whether it had
    /// stopped or not. False: it has no connection.
    pub(super) fn pause(&mut self, pause: bool) -> bool {
        let what = if pause { curl_sys::CURLPAUSE_RECV } else { curl_sys::CURLPAUSE_RECV_CONT };
        // SAFETY: the handle is alive, and no callback runs now (see `handler`); one that runs within is guarded.
        unsafe { curl_sys::curl_easy_pause(self.raw.as_ptr(), what) == curl_sys::CURLE_OK }
    }

    fn time(&self, what: curl_sys::CURLINFO) -> Duration {
        let mut us: i64 = 0;
        // SAFETY: the infos used are of type curl_off_t, and the pointer is to one.
        unsafe { curl_sys::curl_easy_getinfo(self.raw.as_ptr(), what, &raw mut us) };
        Duration::from_micros(u64::try_from(us).unwrap_or_default())
    }

    fn info(&self, what: curl_sys::CURLINFO) -> c_long {
        let mut value: c_long = 0;
        // SAFETY: `what` is of type long, and the pointer is to one.
        unsafe { curl_sys::curl_easy_getinfo(self.raw.as_ptr(), what, &raw mut value) };
        value
    }

    pub(super) fn long(&mut self, option: CURLoption, value: c_long) -> Result<()> {
        // SAFETY: the option takes a long.
        check(option, unsafe { curl_sys::curl_easy_setopt(self.raw.as_ptr(), option, value) })
    }

    pub(super) fn string(&mut self, option: CURLoption, value: &CStr) -> Result<()> {
        // SAFETY: the option takes a NUL-ended string and copies it.
        unsafe { self.pointer(option, value.as_ptr().cast_mut().cast()) }
    }

    /// A string or a function that NULL unsets.
    pub(super) fn optional(&mut self, option: CURLoption, value: Option<&CStr>) -> Result<()> {
        match value {
            Some(value) => self.string(option, value),
            // SAFETY: null is documented to unset each option that this is called with.
            None => unsafe { self.pointer(option, std::ptr::null_mut()) },
        }
    }

    /// # Safety
    /// `value` must be what `option` documents, and live as long as it says.
    pub(super) unsafe fn pointer(&mut self, option: CURLoption, value: *mut c_void) -> Result<()> {
        // SAFETY: promised by the caller.
        check(option, unsafe { curl_sys::curl_easy_setopt(self.raw.as_ptr(), option, value) })
    }

    pub(super) fn raw(&self) -> *mut CURL {
        self.raw.as_ptr()
    }

    /// Notes which entry of which multi handle this is. The sockets must live as long as that handle.
    pub(super) fn set_home(&mut self, token: usize, sockets: NonNull<Sockets>) -> Result<()> {
        if self.sockets != Some(sockets) {
            let data = sockets.as_ptr().cast::<c_void>();
            // SAFETY: connections, which keep the second pair, end with the multi handle at the latest.
            unsafe {
                self.pointer(curl_sys::CURLOPT_OPENSOCKETDATA, data)?;
                self.pointer(curl_sys::CURLOPT_CLOSESOCKETDATA, data)?;
            }
            self.sockets = Some(sockets);
        }
        // SAFETY: the option takes any pointer and never follows it.
        unsafe { self.pointer(curl_sys::CURLOPT_PRIVATE, token as *mut c_void) }
    }
}

impl<H: Handler> Drop for Easy<H> {
    fn drop(&mut self) {
        let _inside = Inside::enter();
        // SAFETY: the handle is in no multi handle (`Multi` owns those that are), so this is its last use; the hooks
        // came from a box and are no longer reachable by libcurl after it.
        unsafe {
            curl_sys::curl_easy_cleanup(self.raw.as_ptr());
            drop(Box::from_raw(self.hooks.as_ptr()));
        }
    }
}

/// `raskio/VERSION`.
const USER_AGENT: &CStr =
    match CStr::from_bytes_with_nul(concat!("raskio/", env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"raskio",
    };

/// libcurl takes milliseconds as a long and refuses what does not fit.
fn clamp(ms: u64) -> c_long {
    c_long::try_from(ms).unwrap_or(c_long::MAX).min(c_int::MAX.into())
}

fn check(option: CURLoption, code: u32) -> Result<()> {
    match code {
        curl_sys::CURLE_OK => Ok(()),
        27 => Err(out_of_memory()),
        code => Err(Error::new(
            ErrorKind::Internal,
            format!(
                "libcurl refuses option {option}: {}; it may be built without what RaskIO needs",
                super::strerror(code)
            ),
        )),
    }
}

/// A copy of `text` as a C string.
///
/// # Errors
/// INVALID_ARGUMENT when it holds a NUL.
pub(crate) fn c_string(what: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid(format!("{what} holds a NUL character")))
}
