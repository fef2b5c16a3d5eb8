//! The body of an attempt's reply: is it what was asked for, and where does it go?

use super::{Abort, Attempt, Body, Otherwise, RECEIVED};
use crate::endpoint::Tail;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::ByteRange;
use crate::staging::Sink;
use crate::sys::curl;
use crate::sys::fault::{self, Point};
use crate::sys::mem::Span;
use crate::transport::Job;

/// Body bytes of an error kept for its message: enough for the XML of an S3 error.
const ERROR_BODY_KEPT: usize = 4096;
/// Body bytes of an error or a redirect read to keep the connection; a longer one costs it.
const ERROR_BODY_READ: u64 = 64 << 10;

impl Attempt {
    /// Where the next bytes go, if they are of the object and as they are.
    pub(super) fn lend(&mut self) -> Option<Span<'_>> {
        // A head that is not what was asked for is dealt with when its body comes.
        if matches!(self.body, Body::Unseen) && !(self.head.complete && self.open_body()) {
            return None;
        }
        // No more than that: what comes next is the reply to another request, which libcurl may have sent before this one is taken out.
        let left = self.due();
        if left == 0 || !matches!(self.body, Body::Wanted { skip: 0, .. }) {
            return None;
        }
        let from = self.transfer.missing()?.start;
        let Some(Job::Read { sink, .. }) = self.transfer.job_mut() else { return None };
        let room = sink.lend().filter(|room| !curl::is_slow(room.address(), from))?;
        Some(room.cut(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    /// So many of them are there.
    pub(super) fn placed(&mut self, bytes: usize) -> bool {
        assert!(!fault::hit(Point::PanicInBody), "a planted panic");
        self.progressed = true;
        matches!(self.body, Body::Wanted { skip: 0, .. }) && self.keep(bytes, |sink| sink.filled(bytes))
    }

    /// How many bytes of the body will come at least; 0 if nobody knows: without a Content-Length it is chunked, or ends where the
    /// connection does. That may be less than the range has.
    pub(super) fn due(&self) -> u64 {
        match (&self.body, self.head.content_length) {
            (Body::Wanted { skip, left }, Some(len)) => (skip + left).min(len.saturating_sub(self.received)),
            _ => 0,
        }
    }

    /// Has `put` give the sink the next `n` bytes of the object, and counts them. False: there is no room for them.
    fn keep(&mut self, n: usize, put: impl FnOnce(&mut dyn Sink) -> bool) -> bool {
        let n = n as u64;
        let left = match &mut self.body {
            Body::Wanted { left, .. } if n <= *left => left,
            _ => return false,
        };
        let fits = match self.transfer.job_mut() {
            Some(Job::Read { sink, .. }) => put(sink.as_mut()),
            _ => false,
        };
        if fits {
            *left -= n;
            self.received += n;
            RECEIVED.set(RECEIVED.get() + n);
        }
        fits
    }

    pub(super) fn take_in(&mut self, bytes: &[u8]) -> bool {
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
                let asked = self.received + *left;
                let fits = self.keep(bytes.len(), |sink| sink.write(bytes));
                if !fits {
                    let error = format!("the server sent more than the {asked} bytes it was asked for");
                    self.abort = Some(Abort::Fatal(self.with_status(Error::new(ErrorKind::Range, error))));
                }
                fits
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
    pub(super) fn open_body(&mut self) -> bool {
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
    pub(super) fn version(&self) -> Option<&str> {
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
}
