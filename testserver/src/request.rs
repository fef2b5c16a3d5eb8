//! What a client sent.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// Heads longer than this are answered with 431.
const MAX_HEAD: usize = 1 << 20;
/// Request bodies longer than this are answered with 413.
const MAX_BODY: u64 = 16 << 20;
const MAX_HEADERS: usize = 512;

/// One request as it came over the wire.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// Path and query, not decoded.
    pub target: String,
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    pub minor_version: u8,
    /// Names and values in the order in which they came, names in the client's spelling.
    pub headers: Vec<(String, String)>,
    /// The head, byte for byte, up to and including the empty line.
    pub raw_head: Vec<u8>,
    /// The request's body; empty for GET and HEAD.
    pub body: Vec<u8>,
    /// Which connection it came on; the server's first one is 0.
    pub connection: u64,
    /// How many requests came before it on this connection.
    pub nth_on_connection: u64,
    /// When its head was complete.
    pub arrived: Instant,
}

impl RequestInfo {
    /// The target without the query, not decoded; of a whole URL, as a proxy gets it, the path.
    pub fn path(&self) -> &str {
        let target = self.target.split('?').next().unwrap_or_default();
        match target.split_once("://") {
            Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
            _ => target,
        }
    }

    /// What stands behind the first `?`, not decoded.
    pub fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// Names and values of the query, percent-decoded, in order. A name without `=` has an empty value.
    pub fn query_pairs(&self) -> Vec<(String, String)> {
        let pairs = self.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (percent_decoded(name), percent_decoded(value))
            })
            .collect()
    }

    /// The value of one query parameter, percent-decoded.
    pub fn query_value(&self, name: &str) -> Option<String> {
        self.query_pairs().into_iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// The first header of this name, in whatever case it was spelled.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The requested range. None without a Range header, and for one that is malformed or names several ranges, which a
    /// server may ignore.
    pub fn range(&self) -> Option<ByteRange> {
        ByteRange::parse(self.header("Range")?)
    }

    /// The parts of the Range header after `bytes=`, as text: `"10-19"`.
    pub fn range_text(&self) -> Option<&str> {
        self.header("Range")?.strip_prefix("bytes=")
    }

    /// Whether the client would keep the connection.
    pub(crate) fn keeps_alive(&self) -> bool {
        let says = |word: &str| {
            self.header("Connection").is_some_and(|v| v.split(',').any(|w| w.trim().eq_ignore_ascii_case(word)))
        };
        if self.minor_version == 0 { says("keep-alive") } else { !says("close") }
    }

    pub(crate) fn path_is(&self, path: &str) -> bool {
        self.path() == path || percent_decoded(self.path()) == path
    }
}

/// `%XX` replaced, everything else as it is.
pub(crate) fn percent_decoded(text: &str) -> String {
    let hex = |b: u8| (b as char).to_digit(16);
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let code = match bytes.get(at..at + 3) {
            Some([b'%', high, low]) => hex(*high).zip(hex(*low)).map(|(high, low)| (high * 16 + low) as u8),
            _ => None,
        };
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// One range of a Range header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRange {
    /// `bytes=first-last`, both included.
    FromTo(u64, u64),
    /// `bytes=first-`.
    From(u64),
    /// `bytes=-n`: the last `n` bytes.
    Last(u64),
}

impl ByteRange {
    fn parse(value: &str) -> Option<ByteRange> {
        let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let (unit, range) = value.split_once('=')?;
        let (first, last) = range.trim().split_once('-')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        match (first, last) {
            ("", n) => Some(ByteRange::Last(number(n)?)),
            (first, "") => Some(ByteRange::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(ByteRange::FromTo(first, last))
            }
        }
    }

    /// The bytes `[from, to)` of an object of `len` bytes; None where there are none (416).
    pub fn within(self, len: u64) -> Option<(u64, u64)> {
        let (from, to) = match self {
            ByteRange::FromTo(first, last) => (first, last.saturating_add(1).min(len)),
            ByteRange::From(first) => (first, len),
            ByteRange::Last(n) => (len.saturating_sub(n), len),
        };
        (from < to).then_some((from, to))
    }
}

pub(crate) enum Incoming {
    Request(Box<RequestInfo>),
    /// The client closed, or broke off in the middle of a head.
    Closed,
    /// Not HTTP, or more than this server takes: answer this status and close.
    Refused(u16),
}

/// Reads requests off one connection.
pub(crate) struct Reader {
    buffer: Vec<u8>,
    connection: u64,
    count: u64,
}

impl Reader {
    pub(crate) fn new(connection: u64) -> Reader {
        Reader { buffer: Vec::new(), connection, count: 0 }
    }

    pub(crate) fn next(&mut self, mut stream: &TcpStream) -> io::Result<Incoming> {
        let mut request = loop {
            if self.buffer.len() > MAX_HEAD {
                return Ok(Incoming::Refused(431));
            }
            match self.parse() {
                Ok(Some(request)) => break request,
                Ok(None) => {}
                Err(httparse::Error::TooManyHeaders) => return Ok(Incoming::Refused(431)),
                Err(_) => return Ok(Incoming::Refused(400)),
            }
            if self.fill(stream)? == 0 {
                return Ok(Incoming::Closed);
            }
        };
        if request.header("Transfer-Encoding").is_some() {
            return Ok(Incoming::Refused(411));
        }
        let len = match request.header("Content-Length").map(str::parse::<u64>) {
            None => 0,
            Some(Ok(len)) if len <= MAX_BODY => len as usize,
            Some(Ok(_)) => return Ok(Incoming::Refused(413)),
            Some(Err(_)) => return Ok(Incoming::Refused(400)),
        };
        if len > self.buffer.len() && request.header("Expect").is_some_and(|v| v.eq_ignore_ascii_case("100-continue")) {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        while self.buffer.len() < len {
            if self.fill(stream)? == 0 {
                return Ok(Incoming::Closed);
            }
        }
        request.body = self.buffer.drain(..len).collect();
        self.count += 1;
        Ok(Incoming::Request(Box::new(request)))
    }

    fn fill(&mut self, mut stream: &TcpStream) -> io::Result<usize> {
        let have = self.buffer.len();
        self.buffer.resize(have + 4096, 0);
        let got = loop {
            match stream.read(&mut self.buffer[have..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(have + *got.as_ref().unwrap_or(&0));
        got
    }

    /// Takes one complete head out of the buffer.
    fn parse(&mut self) -> Result<Option<RequestInfo>, httparse::Error> {
        // Most heads are small; the large table, which is on the heap, is only for those that do not fit.
        let mut few = [httparse::EMPTY_HEADER; 32];
        let mut many = Vec::new();
        let mut parsed = httparse::Request::new(&mut few);
        let mut status = parsed.parse(&self.buffer);
        if status == Err(httparse::Error::TooManyHeaders) {
            many.resize(MAX_HEADERS, httparse::EMPTY_HEADER);
            parsed = httparse::Request::new(&mut many);
            status = parsed.parse(&self.buffer);
        }
        let httparse::Status::Complete(len) = status? else { return Ok(None) };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let request = RequestInfo {
            method: parsed.method.unwrap_or_default().into(),
            target: parsed.path.unwrap_or_default().into(),
            minor_version: parsed.version.unwrap_or(1),
            headers: parsed.headers.iter().map(|h| (h.name.into(), text(h.value))).collect(),
            raw_head: self.buffer[..len].to_vec(),
            body: Vec::new(),
            connection: self.connection,
            nth_on_connection: self.count,
            arrived: Instant::now(),
        };
        self.buffer.drain(..len);
        Ok(Some(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_and_resolved() {
        assert_eq!(ByteRange::parse("bytes=0-9"), Some(ByteRange::FromTo(0, 9)));
        assert_eq!(ByteRange::parse("bytes=5-"), Some(ByteRange::From(5)));
        assert_eq!(ByteRange::parse("bytes=-3"), Some(ByteRange::Last(3)));
        for bad in ["bytes=9-0", "bytes=0-1,4-5", "bytes=+1-2", "lines=0-1", "bytes=-", "bytes"] {
            assert_eq!(ByteRange::parse(bad), None, "{bad}");
        }
        assert_eq!(ByteRange::FromTo(5, u64::MAX).within(10), Some((5, 10)));
        assert_eq!(ByteRange::FromTo(10, 11).within(10), None);
        assert_eq!(ByteRange::From(9).within(10), Some((9, 10)));
        assert_eq!(ByteRange::Last(20).within(10), Some((0, 10)));
        assert_eq!(ByteRange::Last(0).within(10), None);
        assert_eq!(ByteRange::FromTo(0, 0).within(0), None);
    }

    #[test]
    fn a_whole_url_has_a_path_too() {
        for (target, path) in
            [("http://h:1/a/b?c", "/a/b"), ("http://h", "/"), ("/a://b", "/a://b"), ("/a?x://y", "/a")]
        {
            let request = RequestInfo {
                method: "GET".into(),
                target: target.into(),
                minor_version: 1,
                headers: Vec::new(),
                raw_head: Vec::new(),
                body: Vec::new(),
                connection: 0,
                nth_on_connection: 0,
                arrived: Instant::now(),
            };
            assert_eq!(request.path(), path);
        }
    }

    #[test]
    fn percent_codes_are_decoded_and_broken_ones_kept() {
        assert_eq!(percent_decoded("a%20b%2Bc+d%zz%4"), "a b+c+d%zz%4");
    }
}
