//! What an attempt's end means: a success, an error, or another attempt.

use super::{Abort, Attempt, Body, MAX_REDIRECTS, MAX_STALE, Otherwise, Verdict, advice};
use crate::endpoint::{Refusal, Stat, check, redact, webhdfs};
use crate::error::{Error, ErrorKind};
use crate::plan::ByteRange;
use crate::retry::{self, Cause, History, RetryPolicy};
use crate::sys::curl::Finished;
use crate::transport::{Found, Job, Transfer};
use std::time::{Duration, SystemTime};

impl Attempt {
    /// What the end of the attempt means. Gives the permit back.
    pub fn judge(mut self, finished: &Finished, policy: &RetryPolicy, chance: f64) -> Verdict {
        match self.course.permit.take() {
            Some(permit) if (200..300).contains(&self.head.status) => permit.served(),
            permit => drop(permit),
        }
        self.tell_about_name(finished);
        if self.transfer.is_over() {
            return self.over();
        }
        if finished.panicked {
            let error =
                Error::new(ErrorKind::Internal, "a panic was caught while the reply came in; this is a bug in RaskIO");
            return self.fail(error);
        }
        match self.abort.take() {
            Some(Abort::Fatal(error)) => return self.fail(error),
            Some(Abort::Otherwise(way)) => return self.otherwise(way),
            Some(Abort::Retry(error)) if !self.explained() => return self.retry(error, policy, None, chance),
            Some(Abort::Retry(_) | Abort::Enough) => {}
            None if finished.code != 0 && !self.explained() => return self.broken(finished, policy, chance),
            // To libcurl a connection that closes inside the head ends a reply without a body.
            None if !self.head.complete => {
                let error =
                    Error::new(ErrorKind::Connection, "the connection closed in the middle of the reply's head");
                let error = self.with_status(error);
                return self.retry(error, policy, None, chance);
            }
            None => {}
        }
        if self.amended() {
            if self.course.remembered {
                self.transfer.object.forget(&self.course.target);
            }
            self.transfer.moved_to = None;
            return Verdict::Again(self.transfer, Duration::ZERO);
        }
        match (self.head.status, &self.head.location) {
            (301 | 302 | 303 | 307 | 308, Some(_)) => return self.redirected(),
            (401 | 403 | 404 | 410, _) if self.course.remembered && !self.transfer.went_back => {
                self.transfer.object.forget(&self.course.target);
                self.transfer.went_back = true;
                return Verdict::Again(self.transfer, Duration::ZERO);
            }
            _ => {}
        }
        // Said to a connection that was idle for too long, as it is closed, and met by this request on its way: there is nothing
        // wrong with that. One that says when to come back means the request.
        let of_idle = self.head.status == 408 && self.head.retry_after.is_none();
        if of_idle && self.was_stale(finished) {
            return Verdict::Again(self.transfer, Duration::ZERO);
        }
        if policy.retries_status(self.head.status) && !(200..300).contains(&self.head.status) {
            let wait = self.head.retry_after.as_deref();
            let wait = wait.and_then(|value| retry::parse_retry_after(value, SystemTime::now()));
            let error = self.status_error();
            return self.retry(error, policy, wait, chance);
        }
        match self.transfer.asks_size() {
            Some(probe) => self.stat_done(probe),
            None => self.read_done(policy, chance),
        }
    }

    fn refusal(&self) -> Refusal<'_> {
        Refusal { head: &self.head, body: &self.explanation, carried: &self.carried }
    }

    /// The refusal was about something that is put right by now.
    fn amended(&mut self) -> bool {
        let mut amended = self.transfer.amended;
        let refused = !(200..300).contains(&self.head.status);
        let again = refused && self.transfer.object.endpoint().amend(&self.refusal(), &mut amended);
        self.transfer.amended = amended;
        again
    }

    /// The head says everything, whatever happened to the body: of an error, or of a stat.
    fn explained(&self) -> bool {
        let endpoint = self.transfer.object.endpoint();
        let of_stat = self.transfer.asks_size().is_some() && !endpoint.stat_needs_body();
        self.head.complete && (of_stat || !(200..300).contains(&self.head.status))
    }

    fn read_done(mut self, policy: &RetryPolicy, chance: f64) -> Verdict {
        if !(200..300).contains(&self.head.status) {
            if let Some(way) = self.other_way_to_the_end() {
                return self.otherwise(way);
            }
            let error = match self.head.status {
                416 => self.beyond_end(),
                412 if self.transfer.written() > 0 => Error::new(
                    ErrorKind::ObjectChanged,
                    "the object changed while it was read (412 to If-Match); open it anew to read the new one",
                )
                .with_http_status(412),
                _ => self.status_error(),
            };
            return self.fail(error);
        }
        // An empty body never opened: its head was not looked at yet.
        if matches!(self.body, Body::Unseen) && !self.open_body() {
            match self.abort.take() {
                Some(Abort::Fatal(error)) => return self.fail(error),
                Some(Abort::Otherwise(way)) => return self.otherwise(way),
                Some(Abort::Retry(_) | Abort::Enough) | None => {}
            }
        }
        match self.transfer.missing() {
            Some(missing) if missing.len > 0 => {
                let error = Error::new(
                    ErrorKind::Range,
                    format!(
                        "the body was short: {} bytes of {} are missing",
                        missing.len,
                        missing.len + self.transfer.written()
                    ),
                );
                let error = self.with_status(error);
                self.retry(error, policy, None, chance)
            }
            _ => self.succeed(),
        }
    }

    fn stat_done(mut self, probe: bool) -> Verdict {
        let object = self.transfer.object.clone();
        let answer = object.endpoint().check_stat(probe, &self.head, &self.explanation);
        match answer {
            Ok(Stat::Size(size)) => match (object.learn(Some(size), self.version()), self.transfer.job()) {
                (Ok(()), Job::End(end)) => {
                    let range = ByteRange::last(end.len, size);
                    self.otherwise(Otherwise::Range(range))
                }
                (Ok(()), Job::Nothing | Job::Stat { .. } | Job::Read { .. } | Job::Write(_)) => self.succeed(),
                (Err(error), _) => self.fail(error),
            },
            Ok(Stat::Probe) => {
                self.transfer.ask_size(true);
                Verdict::Again(self.transfer, Duration::ZERO)
            }
            // What is wrong with a success is the endpoint's to say; a refusal has words of its own.
            Err(error) if (200..300).contains(&self.head.status) || error.kind() == ErrorKind::Range => {
                self.fail(error)
            }
            Err(_) => {
                let error = self.status_error();
                self.fail(error)
            }
        }
    }

    /// What to do about a refusal of a request for the end: not every server knows those, and an empty object has none.
    fn other_way_to_the_end(&self) -> Option<Otherwise> {
        let len = self.transfer.asks_end()?;
        match (self.head.status, self.head.total()) {
            (416, Some(total)) => match self.transfer.object.learn(Some(total), self.version()) {
                Ok(()) => Some(Otherwise::Range(ByteRange::last(len, total))),
                Err(_) => Some(Otherwise::AskSize),
            },
            (400 | 405 | 416 | 501, _) => Some(Otherwise::AskSize),
            _ => None,
        }
    }

    /// The end is read in another way, at once.
    fn otherwise(mut self, way: Otherwise) -> Verdict {
        // Where a redirect led is good for what was asked for, unless it is remembered.
        let moved = self.transfer.moved_to.take().is_some() && self.transfer.object.endpoint().remembers_redirects();
        if moved && (200..300).contains(&self.head.status) {
            self.transfer.object.remember(&self.course.target);
        }
        self.transfer.redirects = 0;
        let range = match way {
            Otherwise::Range(range) => range,
            Otherwise::AskSize => {
                log::debug!(target: "raskio", "{}: the server has no such request; asking for the size", self.transfer.describe());
                self.transfer.ask_size(false);
                return Verdict::Again(self.transfer, Duration::ZERO);
            }
        };
        match self.transfer.found_end(range) {
            Found::Nothing(transfer) => Verdict::Done(transfer, Ok(())),
            Found::Read(transfer) => Verdict::Again(transfer, Duration::ZERO),
            Found::Several(transfers) => Verdict::Several(transfers),
            Found::No(transfer, error) => fail(transfer, error),
        }
    }

    fn redirected(mut self) -> Verdict {
        let location = self.head.location.clone().unwrap_or_default();
        self.transfer.redirects += 1;
        if self.transfer.redirects > MAX_REDIRECTS {
            let error = format!("more than {MAX_REDIRECTS} redirects, the last to {}", redact::url(&location));
            let error = self.with_status(Error::new(ErrorKind::Http, error));
            return self.fail(error);
        }
        let endpoint = self.transfer.object.endpoint();
        match endpoint.redirect(&self.course.target, &location) {
            Ok(target) => {
                if self.course.remembered {
                    self.transfer.object.forget(&self.course.target);
                }
                self.transfer.moved_to = Some(target);
                Verdict::Again(self.transfer, Duration::ZERO)
            }
            Err(error) => {
                let error = self.with_status(error);
                self.fail(error)
            }
        }
    }

    /// libcurl reports a failure.
    fn broken(mut self, finished: &Finished, policy: &RetryPolicy, chance: f64) -> Verdict {
        let untouched = self.head.status == 0 && self.received == 0;
        // A reply that is none (1, 8), on a connection that was used before: what the server sent too much of the last
        // reply, such as a body to a HEAD, lies in the way.
        let lost = matches!(finished.code, 1 | 8 | 52 | 55 | 56);
        if untouched && lost && self.was_stale(finished) {
            return Verdict::Again(self.transfer, Duration::ZERO);
        }
        let advice = advice::on(&self, finished);
        let mut error = self.with_status(curl_error(finished));
        if let Some(kind) = advice.kind {
            error =
                Error::new(kind, error.message()).with_os_code(error.os_code()).with_http_status(error.http_status());
        }
        if advice.http_status > 0 {
            error = error.with_http_status(advice.http_status);
        }
        if let Some(words) = advice.words {
            error = error.note(words);
        }
        let again = is_transient(finished.code) && !advice.hopeless;
        if again { self.retry(error, policy, None, chance) } else { self.fail(error) }
    }

    /// An attempt that a connection used before made fail: counts it, unless there were too many.
    fn was_stale(&mut self, finished: &Finished) -> bool {
        let stale = finished.connections == 0 && self.transfer.stale < MAX_STALE;
        self.transfer.stale += u32::from(stale);
        stale
    }

    fn status_error(&self) -> Error {
        let endpoint = self.transfer.object.endpoint();
        let status = self.head.status;
        let mut error =
            Error::new(endpoint.error_kind(&self.refusal()), check::status_words(status)).with_http_status(status);
        let body = self.explanation.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let url = self.sent.url.to_string_lossy();
        let headers: Vec<&[u8]> = self.sent.headers.iter().map(|line| line.as_bytes()).collect();
        if let Some(words) = explanation(redact::echo(body, &url, &headers).as_bytes()) {
            error = error.note(format_args!("the server says: {words}"));
        }
        if status == 407 {
            let access = &self.course.target.access;
            return error.note(format_args!(
                "it is the proxy that refuses; its user and password stand in its own URL: http://user:password@host:port; {}",
                advice::proxy(access)
            ));
        }
        match endpoint.hint(status, &self.sent) {
            Some(words) => error.note(words),
            None => error,
        }
    }

    fn beyond_end(&self) -> Error {
        let total = self.head.total();
        let known = total.map(|total| format!(", the object has {total} bytes")).unwrap_or_default();
        Error::new(ErrorKind::Range, format!("the range lies beyond the end (416){known}")).with_http_status(416)
    }

    fn succeed(self) -> Verdict {
        if self.transfer.moved_to.is_some() && self.transfer.object.endpoint().remembers_redirects() {
            self.transfer.object.remember(&self.course.target);
        }
        Verdict::Done(self.transfer, Ok(()))
    }

    /// The operation is over anyway; its own error was recorded when it became so.
    fn over(self) -> Verdict {
        Verdict::Done(self.transfer, Err(Error::new(ErrorKind::Cancelled, "the operation was over before")))
    }

    fn fail(self, error: Error) -> Verdict {
        fail(self.transfer, error)
    }

    fn retry(self, error: Error, policy: &RetryPolicy, retry_after: Option<Duration>, chance: f64) -> Verdict {
        retry_later(self.transfer, error, self.received > 0, policy, retry_after, chance)
    }

    /// The attempt is over, and others may still wait for the name that it looked up.
    fn tell_about_name(&mut self, finished: &Finished) {
        // COULDNT_RESOLVE_PROXY, COULDNT_RESOLVE_HOST, OPERATION_TIMEDOUT, or the stall limit: all before any socket.
        let failure = match (&self.abort, finished.code) {
            (Some(Abort::Retry(error)), _) if self.head.status == 0 => Some(error.clone()),
            (None, 5 | 6 | 28) if self.head.status == 0 => Some(curl_error(finished)),
            _ => None,
        };
        match (self.course.lookup.take(), failure) {
            (Some(lookup), Some(error)) => lookup.failed(&error),
            (Some(lookup), None) if self.head.status != 0 => lookup.known(),
            // Dropped: the next one tries.
            (Some(_) | None, _) => {}
        }
    }
}

/// Ends a request with an error that says what it was and what it went through.
pub fn fail(transfer: Transfer, error: Error) -> Verdict {
    let error = describe(&transfer, error);
    Verdict::Done(transfer, Err(error))
}

/// After a failure that may go away: another attempt if there is one left, else the end.
pub fn retry_later(
    mut transfer: Transfer,
    error: Error,
    progress: bool,
    policy: &RetryPolicy,
    retry_after: Option<Duration>,
    chance: f64,
) -> Verdict {
    // Every byte that was asked for came, and was checked: whatever broke after the last one took nothing away.
    if transfer.missing().is_some_and(|missing| missing.len == 0) {
        return Verdict::Done(transfer, Ok(()));
    }
    let attempt = transfer.history.failures + transfer.history.resumes + 1;
    match policy.next(&mut transfer.history, progress, retry_after, chance) {
        Some(wait) => {
            transfer.history.cause = if error.http_status() >= 300 { Cause::Status } else { Cause::of(error.kind()) };
            log::warn!(
                target: "raskio",
                "{}: {}; attempt {attempt} failed, the next in {} ms (after {} of {} without progress)",
                transfer.describe(), error.message(), wait.as_millis(), transfer.history.failures, policy.max_attempts
            );
            transfer.last_failure = Some((error.kind(), error.http_status()));
            // A later attempt starts from the object's own URL again: the redirect's goal may be what failed.
            transfer.moved_to = None;
            transfer.redirects = 0;
            Verdict::Again(transfer, wait)
        }
        None => fail(transfer, error),
    }
}

fn describe(transfer: &Transfer, error: Error) -> Error {
    let History { failures, resumes, .. } = transfer.history;
    let elapsed = transfer.op.started().elapsed().as_secs_f64();
    let error = error.context(transfer.describe());
    match (failures, resumes) {
        (0 | 1, 0) => error.note(format_args!("after {elapsed:.1} s")),
        (failures, 0) => error.note(format_args!("{failures} attempts, {elapsed:.1} s")),
        (failures, resumes) => {
            error.note(format_args!("{failures} attempts without progress, {resumes} resumed, {elapsed:.1} s"))
        }
    }
}

fn curl_error(finished: &Finished) -> Error {
    let words = redact::printable(&finished.message, 200);
    let kind = ErrorKind::from_curl_code(finished.code);
    // libcurl says "could not connect" for everything; only errno tells a refusal from a process out of files.
    // What TLS fails by is never errno's matter: that is about another address of the host.
    let cause = match finished.os_code {
        0 => String::new(),
        _ if kind == ErrorKind::Tls => String::new(),
        errno => format!(", {}", std::io::Error::from_raw_os_error(errno)),
    };
    Error::new(kind, format!("{words} (libcurl error {}{cause})", finished.code)).with_os_code(finished.os_code)
}

/// Whether asking again may help: the network, not the request, is at fault. From `curl/curl.h`: COULDNT_RESOLVE_PROXY,
/// COULDNT_RESOLVE_HOST, COULDNT_CONNECT, PARTIAL_FILE, OPERATION_TIMEDOUT, SSL_CONNECT_ERROR (a reset during the
/// handshake; a certificate that does not convince is 60), GOT_NOTHING, SEND_ERROR, RECV_ERROR.
fn is_transient(code: u32) -> bool {
    matches!(code, 5 | 6 | 7 | 18 | 28 | 35 | 52 | 55 | 56)
}

/// The server's own words, if they are words: an S3 error's code and message, or the start of a text.
pub fn explanation(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).or_else(|error| std::str::from_utf8(&body[..error.valid_up_to()])).ok()?;
    let element = |name: &str| {
        let rest = text.split_once(&format!("<{name}>"))?.1;
        let words = rest.split_once("</")?.0.trim();
        (!words.is_empty()).then(|| redact::printable(words, 200))
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => return Some(format!("{code}: {message}")),
        (Some(words), None) | (None, Some(words)) => return Some(words),
        (None, None) => {}
    }
    if let Some((name, message)) = webhdfs::exception(body) {
        return Some(redact::printable(&format!("{name}: {message}"), 200));
    }
    // A page's title says what the page says, without the markup.
    if let Some(title) = element("title") {
        return Some(title);
    }
    let text = text.trim();
    (!text.is_empty() && !text.starts_with('<')).then(|| redact::printable(text, 200))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_words_are_told_without_its_markup() {
        let s3 = b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>No.</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>";
        assert_eq!(explanation(s3).as_deref(), Some("AccessDenied: No."));
        assert_eq!(explanation(b"<html><title>404 Not Found</title>").as_deref(), Some("404 Not Found"));
        assert_eq!(explanation(b"  plain words\n").as_deref(), Some("plain words"));
        assert_eq!(explanation(b"<html>"), None);
        assert_eq!(explanation(b"<Error><Code></Code><Message> </Message></Error>"), None);
        assert_eq!(explanation(b"<Error><Code>SlowDown</Code><Message/></Error>").as_deref(), Some("SlowDown"));
        assert_eq!(explanation(b""), None);
        assert_eq!(explanation(&[0xff, 0xfe]), None);
    }
}
