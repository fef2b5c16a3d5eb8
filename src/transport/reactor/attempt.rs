//! One attempt of one request: what it sends, what it takes in, and what its end means.

mod advice;
mod judge;

pub use judge::{explanation, fail, retry_later};

use crate::endpoint::head::ResponseHead;
use crate::endpoint::{Carried, Tail, Target, WireRequest, redact};
use crate::error::{Error, ErrorKind, Result};
use crate::limit::Permit;
use crate::limit::gate::Opening;
use crate::plan::ByteRange;
use crate::profile::{Kind, Span};
use crate::sys::curl::{Access, Easy, Handler, Headers, OriginId};
use crate::sys::fault::{self, Point};
use crate::transport::reactor::names::Lookup;
use crate::transport::{Job, Transfer};
use std::cell::Cell;
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Redirects that one request follows, as many as most browsers and HTTP libraries do.
const MAX_REDIRECTS: u32 = 10;
/// Body bytes of an error kept for its message: enough for the XML of an S3 error.
const ERROR_BODY_KEPT: usize = 4096;
/// Body bytes of an error or a redirect read to keep the connection; a longer one costs it.
const ERROR_BODY_READ: u64 = 64 << 10;
/// Attempts that a request may lose to kept-alive connections that turn out to be dead, or are given up with a 408. libcurl looks
/// before it reuses one, so this is a race that is lost seldom, and more than three times in a row never.
const MAX_STALE: u32 = 3;

thread_local! {
    /// Body bytes that this thread has received since ever.
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
}

/// Body bytes that this thread has received since ever.
pub fn received_by_this_thread() -> u64 {
    RECEIVED.get()
}

/// What is known of the body.
enum Body {
    /// Nothing came yet.
    Unseen,
    /// It is the range that was asked for: after the bytes that were received before, so many may still come.
    Wanted { skip: u64, left: u64 },
    /// It is the server's explanation.
    Explanation { read: u64 },
}

/// Why a transfer was ended from this side.
enum Abort {
    /// It can never work.
    Fatal(Error),
    /// It may work next time.
    Retry(Error),
    /// Everything worth knowing is known.
    Enough,
    /// The end is to be read in another way.
    Otherwise(Otherwise),
}

/// How else the end of an object is read.
enum Otherwise {
    /// As this range, which may be empty.
    Range(ByteRange),
    /// By asking for the size first.
    AskSize,
}

/// What lives in a handle between transfers: the attempt it works on, and what is set on it.
#[derive(Default)]
pub struct Slot {
    attempt: Option<Attempt>,
    applied: Option<WireRequest>,
}

/// One attempt.
pub struct Attempt {
    transfer: Transfer,
    course: Course,
    carried: Carried,
    /// With every header that went out.
    sent: Arc<Target>,
    head: ResponseHead,
    body: Body,
    explanation: Vec<u8>,
    abort: Option<Abort>,
    received: u64,
    /// Tells it apart from the thread's other ones.
    number: u64,
    started: Instant,
    /// Bytes of its range when it started.
    wanted: u64,
    /// As a profiler sees it.
    _range: Span,
    /// Something came since [`Attempt::stalled`] last looked.
    progressed: bool,
    last_progress: Instant,
}

/// How an attempt goes out.
pub struct Course {
    /// Where to.
    pub target: Arc<Target>,
    /// That is where a redirect led an earlier request.
    pub remembered: bool,
    /// The right to be in flight, where there is a budget.
    pub permit: Option<Permit>,
    /// Others wait to hear whether the name is known.
    pub lookup: Option<Lookup>,
    /// Its connection may be a new one; until its server says something.
    pub opening: Option<Opening>,
}

/// What an attempt's end means.
pub enum Verdict {
    /// The request is over.
    Done(Transfer, Result<()>),
    /// The request goes on, after this wait.
    Again(Transfer, Duration),
    /// The request has become these.
    Several(Vec<Transfer>),
}

impl Handler for Slot {
    fn header(&mut self, line: &[u8]) {
        if let Some(attempt) = &mut self.attempt {
            attempt.progressed = true;
            if let Some(opening) = attempt.course.opening.take() {
                opening.answered(Instant::now());
            }
            attempt.head.line(line);
        }
    }

    fn body(&mut self, bytes: &[u8]) -> bool {
        // No attempt: it was taken out of a handle that libcurl would not let go.
        self.attempt.as_mut().is_some_and(|attempt| attempt.take_in(bytes))
    }

    fn trace(&mut self, outgoing: Option<bool>, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let arrow = match outgoing {
            Some(true) => ">",
            Some(false) => "<",
            None => "*",
        };
        for line in text.lines().filter(|line| !line.is_empty()) {
            let shown = if outgoing.is_some() { redact::header_line(line) } else { redact::remark(line) };
            log::debug!(target: "raskio::curl", "{arrow} {shown}");
        }
    }
}

impl Slot {
    /// Takes the attempt out.
    pub fn take(&mut self) -> Option<Attempt> {
        self.attempt.take()
    }

    /// The attempt.
    pub fn attempt(&mut self) -> Option<&mut Attempt> {
        self.attempt.as_mut()
    }
}

/// Prepares `easy` for the next attempt of `transfer`, setting only what differs from the last one.
///
/// # Errors
/// What libcurl refused; the transfer is given back.
#[allow(clippy::result_large_err)] // the transfer is the point
pub fn start(
    easy: &mut Easy<Slot>,
    mut transfer: Transfer,
    course: Course,
    now: Instant,
    number: u64,
) -> std::result::Result<(), (Transfer, Error)> {
    let target = &course.target;
    let endpoint = transfer.object.endpoint();
    let wire = match (transfer.asks_size(), transfer.asks_end()) {
        (Some(probe), _) => endpoint.stat(target, probe),
        (None, Some(len)) => endpoint.last(target, len),
        (None, None) => {
            let Some(missing) = transfer.missing() else {
                return Err((transfer, Error::new(ErrorKind::Internal, "a request without a range was started")));
            };
            endpoint.get(target, missing).map(|mut wire| {
                if transfer.written() > 0 {
                    wire.if_match = transfer.object.strong_etag();
                }
                wire
            })
        }
    };
    let wire = match wire {
        Ok(wire) => wire,
        Err(error) => return Err((transfer, error)),
    };
    if let Err(error) = apply(easy, &wire) {
        easy.handler().applied = None;
        return Err((transfer, error));
    }
    transfer.op.add_attempt(&transfer.part);
    transfer.goes_on();
    let wanted = transfer.missing().map_or(0, |missing| missing.len);
    let slot = easy.handler();
    let (carried, sent) = (wire.carried.clone(), wire.target.clone());
    slot.applied = Some(wire);
    slot.attempt = Some(Attempt {
        number,
        started: now,
        wanted,
        _range: Span::begin(Kind::Request, wanted, || transfer.describe()),
        transfer,
        course,
        carried,
        sent,
        head: ResponseHead::default(),
        body: Body::Unseen,
        explanation: Vec::new(),
        abort: None,
        received: 0,
        progressed: false,
        last_progress: now,
    });
    Ok(())
}

fn apply(easy: &mut Easy<Slot>, wire: &WireRequest) -> Result<()> {
    let before = easy.handler().applied.take();
    let before = before.as_ref();
    let same_target = before.is_some_and(|before| Arc::ptr_eq(&before.target, &wire.target));
    if !same_target || before.is_none_or(|before| before.url != wire.url) {
        let dialled = wire.dialled()?;
        easy.set_url(&dialled.url)?;
        easy.set_request_target(dialled.target.as_deref())?;
    }
    let access = &wire.target.access;
    let same_access = |before: &Arc<Access>| Arc::ptr_eq(before, access) || before == access;
    if !before.is_some_and(|before| same_access(&before.target.access)) {
        easy.set_access(access)?;
    }
    if !same_target || before.is_none_or(|before| before.if_match != wire.if_match) {
        let if_match = match &wire.if_match {
            Some(etag) => Some(crate::sys::curl::c_string("If-Match", &format!("If-Match: {etag}"))?),
            None => None,
        };
        let lines = wire.target.headers.iter().map(CString::as_c_str).chain(if_match.as_deref());
        let any = !wire.target.headers.is_empty() || if_match.is_some();
        easy.set_headers(if any { Some(Headers::new(lines)?) } else { None })?;
    }
    if before.is_none_or(|before| before.head != wire.head) {
        easy.set_head(wire.head)?;
    }
    if before.is_none_or(|before| before.range != wire.range) {
        easy.set_range(wire.range.as_ref().map(|range| range as &dyn std::fmt::Display))?;
    }
    Ok(())
}

impl Attempt {
    /// The request.
    pub fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// Takes the request out, whatever became of the attempt.
    pub fn into_transfer(self) -> Transfer {
        self.transfer
    }

    /// Body bytes of the object received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Tells it apart from the other ones of its thread.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When it started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The bytes that were missing then.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Whether all of its range was received.
    pub fn succeeded(&self) -> bool {
        self.abort.is_none() && self.wanted > 0 && self.transfer.missing().is_some_and(|missing| missing.len == 0)
    }

    /// Where it goes.
    pub fn origin(&self) -> OriginId {
        self.course.target.origin.id
    }

    /// Whether the server said anything.
    pub fn answered(&self) -> bool {
        self.head.status != 0
    }

    /// Whether nothing came for `limit`. Looked at now and then, so it is late by up to the time between two looks.
    pub fn stalled(&mut self, now: Instant, limit: Duration) -> bool {
        if std::mem::take(&mut self.progressed) {
            self.last_progress = now;
        }
        now.saturating_duration_since(self.last_progress) >= limit
    }

    /// The name is looked up: those that wait for it may go on.
    pub fn name_is_known(&mut self) {
        if let Some(lookup) = self.course.lookup.take() {
            lookup.known();
        }
    }

    /// The attempt was ended because nothing came for `limit`.
    pub fn abort_stalled(&mut self, limit: Duration) {
        let what = if self.head.status == 0 { "no answer" } else { "no byte" };
        self.abort = Some(Abort::Retry(Error::new(
            ErrorKind::TimedOut,
            format!("{what} for {:.1} s (the stall limit)", limit.as_secs_f64()),
        )));
    }

    fn take_in(&mut self, bytes: &[u8]) -> bool {
        assert!(!fault::hit(Point::PanicInBody), "a planted panic");
        self.progressed = true;
        if matches!(self.body, Body::Unseen) && !self.open_body() {
            return false;
        }
        match &mut self.body {
            Body::Wanted { skip, left } => {
                let known = usize::try_from(*skip).unwrap_or(usize::MAX).min(bytes.len());
                *skip -= known as u64;
                let bytes = &bytes[known..];
                let n = bytes.len() as u64;
                let fits = n <= *left
                    && match self.transfer.job_mut() {
                        Some(Job::Read { sink, .. }) => sink.write(bytes),
                        _ => false,
                    };
                if !fits {
                    let error =
                        format!("the server sent more than the {} bytes it was asked for", self.received + *left);
                    self.abort = Some(Abort::Fatal(self.with_status(Error::new(ErrorKind::Range, error))));
                    return false;
                }
                *left -= n;
                self.received += n;
                RECEIVED.set(RECEIVED.get() + n);
                true
            }
            Body::Explanation { read } => {
                let kept = bytes.len().min(ERROR_BODY_KEPT - self.explanation.len());
                self.explanation.extend_from_slice(&bytes[..kept]);
                *read += bytes.len() as u64;
                if *read > ERROR_BODY_READ {
                    self.abort = Some(Abort::Enough);
                    return false;
                }
                true
            }
            Body::Unseen => false,
        }
    }

    /// The first byte of the body: is it one that was asked for? False ends the transfer.
    fn open_body(&mut self) -> bool {
        if !(200..300).contains(&self.head.status) {
            self.body = Body::Explanation { read: 0 };
            return true;
        }
        if let Some(len) = self.transfer.asks_end() {
            return self.open_end(len);
        }
        let Some(missing) = self.transfer.missing() else {
            // The size is in the head; a body of any length is not wanted.
            self.body = Body::Explanation { read: 0 };
            return true;
        };
        // Of several items in one request those that lie beyond the end fail alone; unless this is another version, which is wrong
        // for all of them.
        let object = self.transfer.object.clone();
        let end = object.endpoint().ends_at(missing, &self.head);
        let same = object.learn(self.head.total(), self.version()).is_ok()
            && object.size().is_none_or(|size| end.is_none_or(|end| end == size));
        let missing = match end.filter(|&end| same && missing.start < end && end < missing.end()) {
            Some(end) if self.transfer.cut_at(end) => ByteRange { start: missing.start, len: end - missing.start },
            Some(_) | None => missing,
        };
        match self.check(missing) {
            Ok(left) => {
                self.body = Body::Wanted { skip: 0, left };
                true
            }
            // A server without ranges can be resumed by reading the whole object again.
            Err(_) if self.sends_it_all_again() => {
                self.body = Body::Wanted { skip: missing.start, left: missing.len };
                true
            }
            Err(error) => {
                self.abort = Some(Abort::Fatal(error));
                false
            }
        }
    }

    /// The same for the end of an object, whose reply says where that begins.
    fn open_end(&mut self, len: u64) -> bool {
        let object = self.transfer.object.clone();
        let learned = object.learn(self.head.total(), self.version()).map_err(|error| self.with_status(error));
        let tail = learned.and_then(|()| object.endpoint().check_last(len, &self.head));
        self.abort = Some(match tail {
            Ok(Tail::Here { range, total }) => match object.learn(total, None) {
                Ok(()) => {
                    self.body = Body::Wanted { skip: 0, left: range.len };
                    self.transfer.become_read(range);
                    return true;
                }
                Err(error) => Abort::Fatal(self.with_status(error)),
            },
            Ok(Tail::Size(total)) => match object.learn(Some(total), None) {
                Ok(()) => Abort::Otherwise(Otherwise::Range(ByteRange::last(len, total))),
                Err(error) => Abort::Fatal(self.with_status(error)),
            },
            Ok(Tail::Unknown) => Abort::Otherwise(Otherwise::AskSize),
            Err(error) => Abort::Fatal(error),
        });
        false
    }

    /// The entity tag of the reply, if it names a version of the object.
    fn version(&self) -> Option<&str> {
        self.head.etag.as_deref().filter(|_| self.transfer.object.endpoint().has_versions())
    }

    /// Checks a successful head against what was asked for and what is known; returns the bytes it promises.
    fn check(&self, missing: ByteRange) -> Result<u64> {
        let object = &self.transfer.object;
        // A reply for another version may well have another size: say that it changed, not that the range is odd.
        object.learn(self.head.total(), self.version()).map_err(|error| self.with_status(error))?;
        let reply = object.endpoint().check(missing, &self.head)?;
        object.learn(reply.total, None).map_err(|error| self.with_status(error))?;
        Ok(reply.len)
    }

    /// The reply to a resumed read of a whole object is the whole object, unchanged as far as can be told.
    fn sends_it_all_again(&self) -> bool {
        let Job::Read { range, .. } = self.transfer.job() else { return false };
        self.head.status == 200
            && range.start == 0
            && self.transfer.written() > 0
            && self.head.content_length == Some(range.len)
            && self.check(*range).is_ok()
    }

    fn with_status(&self, error: Error) -> Error {
        error.with_http_status(self.head.status)
    }
}
