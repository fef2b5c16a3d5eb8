//! One small question to a service, waited for: credentials, not data.

use super::easy::{Easy, Handler, Headers, Settings};
use super::{Access, Share, c_string, missing};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::{CString, c_long, c_void};
use std::time::Duration;

/// More than this is no answer to such a question.
const MOST: usize = 256 << 10;

/// What is asked.
pub struct Question<'a> {
    /// `GET`, `PUT` or `POST`.
    pub method: &'static str,
    /// Where.
    pub url: &'a str,
    /// `Name: value` lines.
    pub headers: &'a [String],
    /// Sent with POST.
    pub body: &'a str,
    /// Proxy, certificates.
    pub access: &'a Access,
    /// For the connection.
    pub connect_timeout: Duration,
    /// For all of it.
    pub timeout: Duration,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// Text; what is no UTF-8 is replaced.
    pub body: String,
}

#[derive(Default)]
struct Collector {
    status: u16,
    body: Vec<u8>,
}

impl Handler for Collector {
    fn header(&mut self, line: &[u8]) {
        if let Some(rest) = line.strip_prefix(b"HTTP/") {
            let status = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).nth(1);
            self.status = status.and_then(|word| std::str::from_utf8(word).ok()?.trim().parse().ok()).unwrap_or(0);
            self.body.clear();
        }
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        self.body.extend_from_slice(bytes);
        self.body.len() <= MOST
    }

    fn trace(&mut self, _: Option<bool>, _: &[u8]) {}
}

extern "C" fn on_progress(user: *mut c_void, _: i64, _: i64, _: i64, _: i64) -> std::ffi::c_int {
    // SAFETY: `user` is the pointer that `ask` set, to a value that lives on its stack while the transfer runs.
    let stop = unsafe { &*user.cast::<&dyn Fn() -> bool>() };
    // A panic must not unwind into libcurl; then it is better to stop.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(stop)).unwrap_or(true).into()
}

/// Asks, and waits. Redirects are not followed. Ends within about a second once `stop` says so.
///
/// # Errors
/// CONNECTION, TIMED_OUT, TLS, … in libcurl's own words when no answer came; any answer is one.
pub fn ask(question: &Question<'_>, stop: &dyn Fn() -> bool) -> Result<Answer> {
    let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let settings = Settings {
        receive_buffer: 16 << 10,
        connect_timeout_ms: ms(question.connect_timeout),
        request_timeout_ms: ms(question.timeout),
        verbose: false,
        share: Share::new()?,
    };
    let mut easy = Easy::new(Collector::default(), &settings)?;
    // No multi handle of RaskIO's watches this one's sockets.
    easy.optional(curl_sys::CURLOPT_OPENSOCKETFUNCTION, None)?;
    easy.optional(curl_sys::CURLOPT_CLOSESOCKETFUNCTION, None)?;
    easy.set_url(&c_string("the URL", question.url)?)?;
    easy.set_access(question.access)?;
    let lines = question.headers.iter().map(|line| c_string("a header", line)).collect::<Result<Vec<CString>>>()?;
    easy.set_headers(Some(Headers::new(lines.iter().map(CString::as_c_str))?))?;
    let method = c_string("the method", question.method)?;
    if question.method == "POST" {
        easy.long(curl_sys::CURLOPT_POST, 1)?;
        easy.long(curl_sys::CURLOPT_POSTFIELDSIZE, question.body.len() as c_long)?;
        // SAFETY: the bytes live until the transfer is over, further down, and their number was set.
        unsafe { easy.pointer(curl_sys::CURLOPT_POSTFIELDS, question.body.as_ptr().cast_mut().cast())? };
    } else {
        easy.string(curl_sys::CURLOPT_CUSTOMREQUEST, &method)?;
    }
    easy.long(curl_sys::CURLOPT_NOPROGRESS, 0)?;
    let code = {
        let stop: &dyn Fn() -> bool = stop;
        // SAFETY: the function has the type that the option documents, and what it is handed lives until the transfer is
        // over; no transfer is made with this handle after that.
        unsafe {
            easy.pointer(missing::CURLOPT_XFERINFOFUNCTION, on_progress as *mut c_void)?;
            easy.pointer(curl_sys::CURLOPT_PROGRESSDATA, (&raw const stop).cast_mut().cast())?;
            curl_sys::curl_easy_perform(easy.raw())
        }
    };
    let finished = easy.finished(code);
    let collector = easy.handler();
    // ABORTED_BY_CALLBACK
    if code == 42 {
        return Err(Error::new(ErrorKind::ShutDown, "the client was shut down"));
    }
    if code != 0 {
        let words = format!("{} (libcurl error {code})", finished.message);
        let error = Error::new(ErrorKind::from_curl_code(code), words);
        return Err(error.with_os_code(finished.os_code));
    }
    Ok(Answer { status: collector.status, body: String::from_utf8_lossy(&collector.body).into_owned() })
}
