//! From a request, an object and a [`Reply`] to the bytes that go on the wire.

use std::io::{self, Write};

use crate::body::{Body, Object};
use crate::reply::{After, Edit, Gzip, Kind, Reply};
use crate::request::RequestInfo;

/// A reply, ready to be sent.
pub(crate) struct Plan {
    pub(crate) head: Vec<u8>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) chunked: bool,
    pub(crate) keep_alive: bool,
}

/// The bytes `[at, at + len)` of a body.
pub(crate) struct Piece {
    pub(crate) body: Body,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl Plan {
    pub(crate) fn body_len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len).sum()
    }
}

type Headers = Vec<(String, String)>;

/// What the rules of HTTP say, before anything goes wrong.
struct Answer {
    status: u16,
    headers: Headers,
    body: Body,
    /// The part of the body that is sent.
    part: (u64, u64),
}

pub(crate) fn plan(request: &RequestInfo, stored: Option<Object>, reply: &Reply) -> io::Result<Plan> {
    let answer = answer(request, stored, reply);
    let status = reply.status.unwrap_or(answer.status);
    let mut headers = answer.headers;
    let mut pieces = vec![Piece { body: answer.body, at: answer.part.0, len: answer.part.1 - answer.part.0 }];

    if reply.multipart && answer.status == 206 {
        multipart(&mut headers, &mut pieces);
    }
    if wants_gzip(request, reply) {
        headers.push(("Content-Encoding".into(), "gzip".into()));
        headers.push(("Vary".into(), "Accept-Encoding".into()));
        // The length of a compressed body is known only from compressing it, so HEAD tells none.
        if request.method != "HEAD" {
            pieces = whole(gzipped(&pieces)?);
        }
    }
    pieces = shortened(pieces, reply.short_by);
    let announced: u64 = pieces.iter().map(|piece| piece.len).sum();
    if reply.extra > 0 {
        pieces.extend(whole(Body::generated(reply.extra, |_, out| out.fill(b'!'))));
    }
    for n in &reply.corrupt {
        pieces = corrupted(pieces, *n)?;
    }

    let bodiless = matches!(status, 100..=199 | 204 | 304);
    let mut chunked = reply.chunked && !bodiless;
    if chunked && request.minor_version > 0 && !reply.http10 {
        headers.push(("Transfer-Encoding".into(), "chunked".into()));
    } else if !(chunked || bodiless || request.method == "HEAD" && wants_gzip(request, reply)) {
        headers.push(("Content-Length".into(), announced.to_string()));
    }
    let mut keep_alive = request.keeps_alive() && !reply.http10 && reply.after != After::AnnounceClose;
    if !keep_alive {
        headers.push(("Connection".into(), "close".into()));
    } else if request.minor_version == 0 {
        headers.push(("Connection".into(), "keep-alive".into()));
    }
    edit(&mut headers, &reply.edits);

    let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    // Without a length only the end of the connection ends the body.
    let sends_body = request.method != "HEAD" && !bodiless;
    chunked &= has("Transfer-Encoding");
    if reply.after == After::SilentClose || (sends_body && !has("Content-Length") && !has("Transfer-Encoding")) {
        keep_alive = false;
    }
    if !sends_body {
        pieces.clear();
    }
    let head = head(if reply.http10 { 0 } else { 1 }, status, &headers);
    Ok(Plan { head, pieces, chunked: chunked && sends_body, keep_alive })
}

fn answer(request: &RequestInfo, stored: Option<Object>, reply: &Reply) -> Answer {
    let object = match (reply.kind, reply.body.clone().or(stored)) {
        (Kind::Status(status), _) => {
            let own = reply.body.as_ref().map(|object| object.body.clone());
            let text = || Body::bytes(format!("{status} {} for {}\n", reason(status), request.path()));
            return whole_answer(status, "text/plain", own.unwrap_or_else(text));
        }
        (Kind::Object, None) => {
            return whole_answer(404, "text/plain", format!("no such object: {}\n", request.path()).into());
        }
        (Kind::Object, Some(object)) => object,
    };
    if request.method != "GET" && request.method != "HEAD" {
        let mut refusal = whole_answer(405, "text/plain", "only GET and HEAD\n".into());
        refusal.headers.push(("Allow".into(), "GET, HEAD".into()));
        return refusal;
    }
    let etag = reply.etag.clone().or(object.etag.clone());
    let validators = |mut answer: Answer| {
        answer.headers.extend(etag.clone().map(|etag| ("ETag".into(), etag)));
        answer
    };
    if request.header("If-Match").is_some_and(|wanted| !matches_strongly(wanted, etag.as_deref())) {
        return validators(whole_answer(412, "text/plain", "the object has another ETag\n".into()));
    }
    if request.header("If-None-Match").is_some_and(|known| matches_weakly(known, etag.as_deref())) {
        return validators(whole_answer(304, &object.content_type, Vec::new().into()));
    }

    let len = object.body.len();
    let mut full = whole_answer(200, &object.content_type, object.body.clone());
    if reply.ignore_range {
        return validators(full);
    }
    full.headers.push(("Accept-Ranges".into(), "bytes".into()));
    // If-Range with another version, or with a date, asks for the whole object.
    let unchanged = request.header("If-Range").is_none_or(|known| matches_strongly(known, etag.as_deref()));
    let asked = request.range().filter(|_| request.method == "GET" && unchanged);
    let part = match (reply.answer_range, asked) {
        (Some((first, last)), _) if first < len => Some((first, last.saturating_add(1).min(len))),
        (Some(_), _) => None,
        (None, None) => return validators(full),
        (None, Some(range)) => range.within(len),
    };
    let total = reply.total.clone().unwrap_or(len.to_string());
    let Some((from, to)) = part else {
        let mut none = whole_answer(416, "text/plain", "no byte of the object is in this range\n".into());
        none.headers.push(("Content-Range".into(), format!("bytes */{total}")));
        return validators(none);
    };
    // Never less than one byte: a Content-Range cannot say so.
    let to = to.saturating_sub(reply.short_range_by).max(from + 1);
    full.headers.push(("Content-Range".into(), format!("bytes {from}-{}/{total}", to - 1)));
    validators(Answer { status: 206, part: (from, to), ..full })
}

fn whole_answer(status: u16, content_type: &str, body: Body) -> Answer {
    let headers = vec![("Content-Type".into(), content_type.into())];
    Answer { status, headers, part: (0, body.len()), body }
}

fn matches_strongly(listed: &str, etag: Option<&str>) -> bool {
    let Some(etag) = etag else { return false };
    listed.trim() == "*" || !etag.starts_with("W/") && listed.split(',').any(|one| one.trim() == etag)
}

fn matches_weakly(listed: &str, etag: Option<&str>) -> bool {
    let bare = |etag: &str| etag.trim().trim_start_matches("W/").to_owned();
    etag.is_some_and(|etag| listed.trim() == "*" || listed.split(',').any(|one| bare(one) == bare(etag)))
}

fn wants_gzip(request: &RequestInfo, reply: &Reply) -> bool {
    let accepted = || {
        let codings = request.header("Accept-Encoding").unwrap_or_default().split(',');
        codings.map(|coding| coding.trim().to_ascii_lowercase()).any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((&coding, ""));
            let refused = weight.replace(' ', "").strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
            (name.trim() == "gzip" || name.trim() == "*") && !refused
        })
    };
    match reply.gzip {
        Gzip::No => false,
        Gzip::Always => true,
        Gzip::IfAccepted => accepted(),
    }
}

fn gzipped(pieces: &[Piece]) -> io::Result<Body> {
    // In a thread of its own: the compressor may need more stack than a connection has.
    std::thread::scope(|scope| {
        let compress = || {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            for piece in pieces {
                gzip.write_all(&piece.body.read(piece.at, piece.at + piece.len)?)?;
            }
            gzip.finish().map(Body::bytes)
        };
        scope.spawn(compress).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn multipart(headers: &mut Headers, pieces: &mut Vec<Piece>) {
    const BOUNDARY: &str = "raskio-part";
    let range = take(headers, "Content-Range").unwrap_or_default();
    let kind = take(headers, "Content-Type").unwrap_or_default();
    headers.push(("Content-Type".into(), format!("multipart/byteranges; boundary={BOUNDARY}")));
    let open = format!("--{BOUNDARY}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n");
    pieces.splice(0..0, whole(open.into()));
    pieces.extend(whole(format!("\r\n--{BOUNDARY}--\r\n").into()));
}

fn take(headers: &mut Headers, name: &str) -> Option<String> {
    let at = headers.iter().position(|(n, _)| n.eq_ignore_ascii_case(name))?;
    Some(headers.remove(at).1)
}

fn whole(body: Body) -> Vec<Piece> {
    vec![Piece { at: 0, len: body.len(), body }]
}

fn shortened(mut pieces: Vec<Piece>, by: u64) -> Vec<Piece> {
    let mut left = pieces.iter().map(|piece| piece.len).sum::<u64>().saturating_sub(by);
    for piece in &mut pieces {
        piece.len = piece.len.min(left);
        left -= piece.len;
    }
    pieces
}

fn corrupted(pieces: Vec<Piece>, n: u64) -> io::Result<Vec<Piece>> {
    let (mut out, mut start) = (Vec::new(), 0);
    for piece in pieces {
        let inside = n.checked_sub(start).filter(|k| *k < piece.len);
        start += piece.len;
        let Some(k) = inside else {
            out.push(piece);
            continue;
        };
        let Piece { body, at, len } = piece;
        let flipped = !body.read(at + k, at + k + 1)?[0];
        out.push(Piece { body: body.clone(), at, len: k });
        out.extend(whole(Body::bytes([flipped])));
        out.push(Piece { body, at: at + k + 1, len: len - k - 1 });
    }
    Ok(out)
}

fn edit(headers: &mut Headers, edits: &[Edit]) {
    for edit in edits {
        match edit {
            Edit::Add(name, value) => headers.push((name.clone(), value.clone())),
            Edit::Remove(name) => headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name)),
            Edit::Set(name, value) => {
                let at = headers.iter().position(|(n, _)| n.eq_ignore_ascii_case(name)).unwrap_or(headers.len());
                headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
                headers.insert(at.min(headers.len()), (name.clone(), value.clone()));
            }
        }
    }
}

pub(crate) fn head(minor_version: u8, status: u16, headers: &[(String, String)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.{minor_version} {status} {}\r\n", reason(status)).into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}
