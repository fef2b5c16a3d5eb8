//! One small question to a service, waited for: credentials, not data.

use super::easy::{Easy, Handler, Headers, Settings};
use super::{Access, Multi, Share, c_string};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::event::EventFd;
use std::ffi::{CString, c_long};
use std::time::Duration;

/// How often it is looked whether to stop.
const STOP_MS: u32 = 200;
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

/// Why nothing came back.
#[derive(Debug)]
pub struct Unanswered {
    /// CONNECTION, TIMED_OUT, TLS, … in libcurl's own words.
    pub error: Error,
    /// Somebody was there to ask.
    pub connected: bool,
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Unanswered {
        Unanswered { error, connected: false }
    }
}

impl From<Unanswered> for Error {
    fn from(unanswered: Unanswered) -> Error {
        unanswered.error
    }
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

/// Asks, and waits. Redirects are not followed. Ends soon once `stop` says so.
///
/// # Errors
/// When no answer came; any answer is one.
pub fn ask(question: &Question<'_>, stop: &dyn Fn() -> bool) -> std::result::Result<Answer, Unanswered> {
    let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let settings = Settings {
        receive_buffer: 16 << 10,
        connect_timeout_ms: ms(question.connect_timeout),
        request_timeout_ms: ms(question.timeout),
        patient: false,
        verbose: false,
        share: Share::new()?,
    };
    let mut easy = Easy::new(Collector::default(), &settings)?;
    easy.set_url(&c_string("the URL", question.url)?)?;
    easy.set_access(question.access)?;
    let lines = question.headers.iter().map(|line| c_string("a header", line)).collect::<Result<Vec<CString>>>()?;
    easy.set_headers(Some(Headers::new(lines.iter().map(CString::as_c_str))?))?;
    let method = c_string("the method", question.method)?;
    if question.method == "POST" {
        easy.long(curl_sys::CURLOPT_POST, 1)?;
        easy.long(curl_sys::CURLOPT_POSTFIELDSIZE, question.body.len() as c_long)?;
        // SAFETY: as many bytes as were announced are copied.
        unsafe { easy.pointer(curl_sys::CURLOPT_COPYPOSTFIELDS, question.body.as_ptr().cast_mut().cast())? };
    } else {
        easy.string(curl_sys::CURLOPT_CUSTOMREQUEST, &method)?;
    }
    let wake = EventFd::new()?;
    let mut multi = Multi::new(1)?;
    let token = multi.add(easy, 0, false).map_err(|(_, error)| error)?;
    // Not curl_easy_perform: that is inside libcurl until its end, and a fork waits until nobody is.
    let code = loop {
        multi.advance()?;
        if let Some(done) = multi.next_done() {
            break done.code;
        }
        if stop() {
            return Err(Error::new(ErrorKind::ShutDown, "the client was shut down").into());
        }
        multi.wait(&wake, STOP_MS)?;
    };
    let lost = || Error::new(ErrorKind::Internal, "a handle was lost");
    let mut easy = multi.remove(token)?.ok_or_else(lost)?;
    let finished = easy.finished(code);
    let collector = easy.handler();
    if code != 0 {
        let words = format!("{} (libcurl error {code})", finished.message);
        let error = Error::new(ErrorKind::from_curl_code(code), words).with_os_code(finished.os_code);
        return Err(Unanswered { error, connected: finished.connections > 0 });
    }
    Ok(Answer { status: collector.status, body: String::from_utf8_lossy(&collector.body).into_owned() })
}
