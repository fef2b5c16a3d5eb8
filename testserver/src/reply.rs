//! One answer, and every way in which it can go wrong.

use std::time::{Duration, SystemTime};

use crate::body::{Body, Object};
use crate::gate::Gate;

/// What the server does with one request. Start from a constructor, then add what shall go wrong; everything composes.
///
/// In the order in which it happens: [`interim`](Reply::interim) replies, [`delay`](Reply::delay) and
/// [`hold`](Reply::hold), the end without an answer ([`close_at_once`](Reply::close_at_once),
/// [`reset_at_once`](Reply::reset_at_once), [`never_answer`](Reply::never_answer)), the head,
/// [`delay_body`](Reply::delay_body) and [`hold_body`](Reply::hold_body), the body at its [`rate`](Reply::rate) up to
/// [`stall_after`](Reply::stall_after), [`close_after`](Reply::close_after) or [`reset_after`](Reply::reset_after) bytes,
/// then what becomes of the connection.
///
/// A reply to HEAD is the same head without a body, so faults inside the body do not happen to it.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) kind: Kind,
    pub(crate) status: Option<u16>,
    pub(crate) body: Option<Object>,
    pub(crate) edits: Vec<Edit>,
    pub(crate) interim: Vec<(u16, Vec<(String, String)>)>,
    pub(crate) delay: Duration,
    pub(crate) gate: Option<Gate>,
    pub(crate) instead: Option<Instead>,
    pub(crate) body_delay: Duration,
    pub(crate) body_gate: Option<Gate>,
    pub(crate) rate: Option<u64>,
    pub(crate) fault: Option<Fault>,
    pub(crate) ignore_range: bool,
    pub(crate) answer_range: Option<(u64, u64)>,
    pub(crate) total: Option<String>,
    pub(crate) etag: Option<String>,
    pub(crate) short_by: u64,
    pub(crate) short_range_by: u64,
    pub(crate) extra: u64,
    pub(crate) corrupt: Vec<u64>,
    pub(crate) gzip: Gzip,
    pub(crate) chunked: bool,
    pub(crate) multipart: bool,
    pub(crate) http10: bool,
    pub(crate) after: After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The object at the path, by the rules of HTTP.
    Object,
    /// A status of its own with a body of its own.
    Status(u16),
}

#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Set(String, String),
    Add(String, String),
    Remove(String),
}

/// What happens instead of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Instead {
    Close,
    Reset,
    Never,
    Raw(Vec<u8>),
}

/// What happens after so many bytes of the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) after: u64,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stall,
    Close,
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gzip {
    No,
    IfAccepted,
    Always,
}

/// What becomes of the connection after a complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    AsAsked,
    AnnounceClose,
    SilentClose,
}

/// # Constructors
impl Reply {
    fn new(kind: Kind) -> Reply {
        Reply {
            kind,
            status: None,
            body: None,
            edits: Vec::new(),
            interim: Vec::new(),
            delay: Duration::ZERO,
            gate: None,
            instead: None,
            body_delay: Duration::ZERO,
            body_gate: None,
            rate: None,
            fault: None,
            ignore_range: false,
            answer_range: None,
            total: None,
            etag: None,
            short_by: 0,
            short_range_by: 0,
            extra: 0,
            corrupt: Vec::new(),
            gzip: Gzip::No,
            chunked: false,
            multipart: false,
            http10: false,
            after: After::AsAsked,
        }
    }

    /// The right answer: the object at the path of the request. HEAD, GET, one Range (206, 416 with `bytes */N`), If-Match,
    /// If-None-Match, If-Range, ETag, Accept-Ranges, keep-alive and HTTP/1.0 as the standard has it; 404 where there is no
    /// object, 405 for other methods.
    pub fn object() -> Reply {
        Reply::new(Kind::Object)
    }

    /// The right answer for this object, whatever stands at the path.
    pub fn serve(object: impl Into<Object>) -> Reply {
        Reply { body: Some(object.into()), ..Reply::object() }
    }

    /// Another status with a one-line text as its body. Give another one with [`body`](Reply::body).
    pub fn status(status: u16) -> Reply {
        Reply::new(Kind::Status(status))
    }

    /// A redirect; `location` goes on the wire as it is, so it may be relative.
    pub fn redirect(status: u16, location: &str) -> Reply {
        Reply::status(status).header("Location", location)
    }

    /// Reads the request and never answers, until the client closes or the server is dropped.
    pub fn never() -> Reply {
        Reply::object().never_answer()
    }

    /// Closes the connection without a byte: an empty reply.
    pub fn close() -> Reply {
        Reply::object().close_at_once()
    }

    /// Resets the connection without a byte.
    pub fn reset() -> Reply {
        Reply::object().reset_at_once()
    }

    /// Sends these bytes, which need not be HTTP, and closes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply { instead: Some(Instead::Raw(bytes.into())), ..Reply::object() }
    }

    /// Something that is not HTTP, then the end of the connection.
    pub fn garbage() -> Reply {
        Reply::raw(*b"\x16\x03\x01\x00\xeethis is no HTTP\r\n\r\n")
    }
}

/// # Time
impl Reply {
    /// Waits before the head.
    pub fn delay(mut self, delay: Duration) -> Reply {
        self.delay = delay;
        self
    }

    /// Waits between head and body.
    pub fn delay_body(mut self, delay: Duration) -> Reply {
        self.body_delay = delay;
        self
    }

    /// Holds the reply until the gate opens.
    pub fn hold(mut self, gate: &Gate) -> Reply {
        self.gate = Some(gate.clone());
        self
    }

    /// Sends the head, and the body when the gate opens.
    pub fn hold_body(mut self, gate: &Gate) -> Reply {
        self.body_gate = Some(gate.clone());
        self
    }

    /// Sends the body evenly at this many bytes a second: a trickle or a throttle.
    pub fn rate(mut self, bytes_per_second: u64) -> Reply {
        assert!(bytes_per_second > 0, "a rate of 0 is stall_after(0)");
        self.rate = Some(bytes_per_second);
        self
    }
}

/// # Connection faults
impl Reply {
    /// See [`Reply::never`].
    pub fn never_answer(mut self) -> Reply {
        self.instead = Some(Instead::Never);
        self
    }

    /// See [`Reply::close`].
    pub fn close_at_once(mut self) -> Reply {
        self.instead = Some(Instead::Close);
        self
    }

    /// See [`Reply::reset`].
    pub fn reset_at_once(mut self) -> Reply {
        self.instead = Some(Instead::Reset);
        self
    }

    /// Sends the head and `n` bytes of the body, then nothing more until the client closes or the server is dropped. A body
    /// shorter than `n` is sent as if this was not asked for; the same with the next two.
    pub fn stall_after(self, n: u64) -> Reply {
        self.fault(n, End::Stall)
    }

    /// Sends the head and `n` bytes of the body, then closes in good order (FIN) though more was announced.
    pub fn close_after(self, n: u64) -> Reply {
        self.fault(n, End::Close)
    }

    /// Sends the head and `n` bytes of the body, waits until they have arrived, then resets the connection (RST).
    pub fn reset_after(self, n: u64) -> Reply {
        self.fault(n, End::Reset)
    }

    fn fault(mut self, after: u64, end: End) -> Reply {
        self.fault = Some(Fault { after, end });
        self
    }

    /// Says `Connection: close` and closes after the reply.
    pub fn announce_close(mut self) -> Reply {
        self.after = After::AnnounceClose;
        self
    }

    /// Closes after the reply without having said so: what a server does to a connection that it finds idle.
    pub fn close_silently(mut self) -> Reply {
        self.after = After::SilentClose;
        self
    }
}

/// # The head
impl Reply {
    /// Another number in the status line; all else stays. `Reply::object().with_status(200)` is a 206 that says 200.
    pub fn with_status(mut self, status: u16) -> Reply {
        self.status = Some(status);
        self
    }

    /// Replaces every header of this name, or adds it. The last word on the head: any lie is possible, and the body is
    /// sent as it is. Without Content-Length and Transfer-Encoding the connection closes after the body.
    pub fn header(mut self, name: &str, value: &str) -> Reply {
        self.edits.push(Edit::Set(name.into(), value.into()));
        self
    }

    /// Adds a header, also a second one of the same name.
    pub fn add_header(mut self, name: &str, value: &str) -> Reply {
        self.edits.push(Edit::Add(name.into(), value.into()));
        self
    }

    /// Leaves out every header of this name.
    pub fn without_header(mut self, name: &str) -> Reply {
        self.edits.push(Edit::Remove(name.into()));
        self
    }

    /// Adds `count` headers `X-Filler-0`, `X-Filler-1`, … with values of `len` bytes.
    pub fn filler_headers(mut self, count: usize, len: usize) -> Reply {
        let value = "f".repeat(len);
        self.edits.extend((0..count).map(|i| Edit::Add(format!("X-Filler-{i}"), value.clone())));
        self
    }

    /// Another version of the object, given as it goes on the wire (`"\"b\""`): preconditions are checked against it too. To
    /// lie in the header alone use [`header`](Reply::header).
    pub fn etag(mut self, etag: &str) -> Reply {
        self.etag = Some(etag.into());
        self
    }

    /// `Retry-After` in seconds.
    pub fn retry_after(self, seconds: u64) -> Reply {
        self.header("Retry-After", &seconds.to_string())
    }

    /// `Retry-After` as a date. Dates have whole seconds; a broken one is cut off.
    pub fn retry_after_date(self, date: SystemTime) -> Reply {
        self.header("Retry-After", &httpdate::fmt_http_date(date))
    }

    /// Sends an interim reply (100–199, but 101) at once, before any delay. Each call adds one.
    pub fn interim(mut self, status: u16, headers: &[(&str, &str)]) -> Reply {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.interim.push((status, headers));
        self
    }

    /// Answers as HTTP/1.0: its status line, and the connection closes afterwards. The length is still told; leave it out
    /// with `.without_header("Content-Length")`.
    pub fn http10(mut self) -> Reply {
        self.http10 = true;
        self
    }
}

/// # Ranges
impl Reply {
    /// 200 with the whole object, and no Accept-Ranges: a server that knows no ranges.
    pub fn ignore_range(mut self) -> Reply {
        self.ignore_range = true;
        self
    }

    /// 206 with the bytes `first..=last` of the object, honestly labelled, whatever was asked for.
    pub fn answer_range(mut self, first: u64, last: u64) -> Reply {
        assert!(first <= last, "answer_range({first}, {last}) is empty");
        self.answer_range = Some((first, last));
        self
    }

    /// `Content-Range: bytes a-b/*`: the size is not told.
    pub fn unknown_total(mut self) -> Reply {
        self.total = Some("*".into());
        self
    }

    /// Another size in Content-Range.
    pub fn total(mut self, total: u64) -> Reply {
        self.total = Some(total.to_string());
        self
    }

    /// A 206 becomes `multipart/byteranges` with one part.
    pub fn multipart(mut self) -> Reply {
        self.multipart = true;
        self
    }
}

/// # The body
impl Reply {
    /// This body. With [`Reply::status`] it is the text of the reply, with [`Reply::object`] the object that is served.
    pub fn body(mut self, body: impl Into<Body>) -> Reply {
        self.body = Some(Object::new(body.into()));
        self
    }

    /// `n` bytes less, and a Content-Length that says so, while Content-Range keeps the range that was asked for.
    pub fn short_by(mut self, n: u64) -> Reply {
        self.short_by = n;
        self
    }

    /// A 206 with `n` bytes less than asked for and headers that all say so.
    pub fn short_range_by(mut self, n: u64) -> Reply {
        self.short_range_by = n;
        self
    }

    /// `n` bytes `!` more than announced. With [`chunked`](Reply::chunked), which announces nothing, just a longer body.
    pub fn extra_body(mut self, n: u64) -> Reply {
        self.extra = n;
        self
    }

    /// Flips all bits of byte `n` of this reply's body. Each call adds one.
    pub fn corrupt(mut self, n: u64) -> Reply {
        self.corrupt.push(n);
        self
    }

    /// Chunked transfer coding, no Content-Length. A HEAD gets no length either. A client of HTTP/1.0 gets a body that ends
    /// with the connection.
    pub fn chunked(mut self) -> Reply {
        self.chunked = true;
        self
    }

    /// Compresses the body, in truth and in the headers, if Accept-Encoding names gzip.
    pub fn gzip_if_accepted(mut self) -> Reply {
        self.gzip = Gzip::IfAccepted;
        self
    }

    /// Compresses the body, in truth and in the headers, whatever was accepted.
    pub fn gzip_always(mut self) -> Reply {
        self.gzip = Gzip::Always;
        self
    }
}
