//! One attempt of one request: what it sends, what it takes in, and what its end means.

mod advice;
mod intake;
mod judge;

pub use judge::{explanation, fail, retry_later};

use crate::endpoint::head::ResponseHead;
use crate::endpoint::{Carried, Target, WireRequest, redact};
use crate::error::{Error, ErrorKind, Result};
use crate::limit::Permit;
use crate::limit::gate::Opening;
use crate::plan::ByteRange;
use crate::profile::{Kind, Span as Profiled};
use crate::sys::curl::{Access, Easy, Handler, Headers, OriginId};
use crate::sys::mem::Span;
use crate::transport::Transfer;
use crate::transport::reactor::names::Lookup;
use std::cell::Cell;
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Redirects that one request follows, as many as most browsers and HTTP libraries do.
const MAX_REDIRECTS: u32 = 10;
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
    _range: Profiled,
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

    fn lend(&mut self) -> Option<Span<'_>> {
        self.attempt.as_mut()?.lend()
    }

    fn placed(&mut self, n: usize) -> bool {
        self.attempt.as_mut().is_some_and(|attempt| attempt.placed(n))
    }

    fn due(&self) -> u64 {
        self.attempt.as_ref().map_or(0, Attempt::due)
    }

    fn lost(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            let words = "libcurl handed on received bytes in a way that RaskIO does not know; they are asked for again, and from now on copied";
            attempt.abort = Some(Abort::Retry(Error::new(ErrorKind::Internal, words)));
        }
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
        _range: Profiled::begin(Kind::Request, wanted, || transfer.describe()),
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

    /// For how long nothing has come. Looked at now and then, so it is late by up to the time between two looks.
    pub fn quiet_for(&mut self, now: Instant) -> Duration {
        if std::mem::take(&mut self.progressed) {
            self.last_progress = now;
        }
        now.saturating_duration_since(self.last_progress)
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

    fn with_status(&self, error: Error) -> Error {
        error.with_http_status(self.head.status)
    }
}
