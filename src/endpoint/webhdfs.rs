//! WebHDFS: a name node (or HttpFS) is asked for each range, and sends on to the data node that has it.
//!
//! After "WebHDFS REST API" of Hadoop 3: `op=OPEN` with `offset` and `length` answers 200, not 206; `op=GETFILESTATUS`
//! tells the size in JSON.

use super::head::ResponseHead;
use super::redirect::Home;
use super::{Carried, Endpoint, Kind, Location, Opening, Origin, Refusal, Reply, Stat, Target, WireRequest};
use super::{access, check, headers, percent, redact};
use crate::credentials::chain;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::ByteRange;
use crate::sys::curl::{self, Url};
use serde_json::Value;
use std::fmt::Write;
use std::sync::Arc;

/// The row in [`super::KINDS`].
pub const KIND: Kind = Kind { number: 5, name: "WEBHDFS", coalesce_gap: COALESCE_GAP, matches, open };

/// A range costs two requests there, one to the name node and one to a data node.
const COALESCE_GAP: u64 = 128 << 10;

/// What all paths begin with.
const PREFIX: &str = "/webhdfs/v1/";
/// Ports of Hadoop 3's name nodes.
const PORTS: [(&str, &str, &str); 2] = [("webhdfs", "http", "9870"), ("swebhdfs", "https", "9871")];

fn matches(location: &Location<'_>) -> bool {
    match &location.url {
        None => PORTS.iter().any(|row| row.0 == location.scheme) && raw_to_url(location.text).is_ok(),
        Some(url) => {
            matches!(location.scheme.as_str(), "http" | "https")
                && url.path().strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty())
        }
    }
}

/// A URL of WebHDFS with everything encoded that cannot stand in one; `None` if it is not one of those.
///
/// Names are often pasted as they are: what is no escape is encoded, and what is one stays.
pub(super) fn encoded(text: &str) -> Option<String> {
    let at = text.find(PREFIX)?;
    let scheme = super::scheme_of(text);
    if !matches!(scheme.as_str(), "http" | "https") || text[..at].contains(['?', '#']) {
        return None;
    }
    let (path, query) = match text[at..].split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&text[at..], None),
    };
    let mut out = format!("{}{}", &text[..at], percent::encoded_where_needed(path));
    if let Some(query) = query {
        let _ = write!(out, "?{}", percent::encoded_where_needed(query));
    }
    Some(out)
}

/// `webhdfs://host:port/path`, whose path is raw.
fn raw_to_url(text: &str) -> Result<String> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| Error::invalid("write webhdfs://host:port/path"))?;
    let scheme = scheme.to_ascii_lowercase();
    let (_, http, port) =
        PORTS.iter().find(|row| row.0 == scheme).ok_or_else(|| Error::invalid("no WebHDFS scheme"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() {
        return Err(Error::invalid("the host is empty; write webhdfs://host:port/path"));
    }
    if path.trim_matches('/').is_empty() {
        return Err(Error::invalid("the path is empty; write webhdfs://host:port/path"));
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = if has_port { String::new() } else { format!(":{port}") };
    Ok(format!("{http}://{authority}{port}{PREFIX}{}", percent::encoded(path.as_bytes(), percent::HDFS_PATH)))
}

fn open(opening: &Opening<'_>) -> Result<Arc<dyn Endpoint>> {
    let shown = redact::url(opening.text);
    let options = opening.options;
    let text = match opening.url {
        None if !PORTS.iter().any(|row| row.0 == super::scheme_of(opening.text)) => {
            return opening.http(KIND.name).map(|_| ()).and(Err(Error::invalid("no WebHDFS URL")));
        }
        None => raw_to_url(opening.text).map_err(|error| error.context(format_args!("cannot open {shown}")))?,
        Some(_) => {
            opening.http(KIND.name)?;
            encoded(opening.text).ok_or_else(|| {
                Error::invalid(format!("cannot open {shown} as WEBHDFS: its path does not hold {PREFIX}"))
            })?
        }
    };
    let url = Url::parse(&text).map_err(|error| error.context(format_args!("cannot open {shown}")))?;
    let path = url.path();
    if path.split_once(PREFIX).is_none_or(|(_, file)| file.trim_matches('/').is_empty()) {
        return Err(Error::invalid(format!("cannot open {shown}: it names no file")));
    }
    if options.bearer_token.is_some() || options.bearer_from_host {
        return Err(Error::invalid(format!(
            "cannot open {shown}: a bearer token is for HTTP; WebHDFS takes a delegation token, as session_token"
        )));
    }
    if opening.url.is_none() && url.user().is_some() {
        return Err(Error::invalid(format!(
            "cannot open {shown}: who asks is said by user_name, or by http://…{PREFIX}…?user.name="
        )));
    }
    let query = Query::of(&url.query().unwrap_or_default(), opening)?;
    let base = text.split(['?', '#']).next().unwrap_or_default().to_owned();
    let origin = Origin::of(&url, options);
    let access = access::of(opening, &origin)?;
    let lines = headers::parse(&options.headers, &[])?.into_iter().map(|header| header.line).collect();
    let target = Target {
        url: curl::c_string("the URL", &format!("{base}?op=OPEN{}", query.text))?,
        name: redact::url(&base),
        origin,
        headers: lines,
        access,
    };
    let home = Home::new(Arc::new(target), opening);
    Ok(Arc::new(WebHdfsEndpoint { base, query: query.text, home }))
}

/// What every request's query ends with.
struct Query {
    /// Begins with `&`, or is empty.
    text: String,
}

impl Query {
    /// The caller's own parameters stay; the user is the option's, the query's, or the environment's. A delegation token
    /// says who asks, and no name stands beside it.
    fn of(given: &str, opening: &Opening<'_>) -> Result<Query> {
        let options = opening.options;
        let (mut text, mut user, mut delegation) = (String::new(), None, None);
        for pair in given.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name.to_ascii_lowercase().as_str() {
                "op" | "offset" | "length" => {}
                "user.name" => user = Some(value.to_owned()),
                "delegation" => delegation = Some(value.to_owned()),
                _ => {
                    let _ = write!(text, "&{pair}");
                }
            }
        }
        let encoded = |text: &str| percent::encoded(text.as_bytes(), percent::VALUE);
        if let Some(token) = &options.session_token {
            delegation = Some(encoded(token.reveal()));
        }
        let user = match (&options.user_name, user) {
            (Some(user), _) => Some(encoded(user)),
            (None, Some(user)) => Some(user),
            (None, None) => {
                chain::variable(&**opening.site.env(), "KVIKIO_WEBHDFS_USERNAME")?.map(|user| encoded(&user))
            }
        };
        match (delegation, user) {
            (Some(token), _) => {
                let _ = write!(text, "&delegation={token}");
            }
            (None, Some(user)) => {
                let _ = write!(text, "&user.name={user}");
            }
            (None, None) => {}
        }
        Ok(Query { text })
    }
}

/// One file.
pub struct WebHdfsEndpoint {
    /// The URL without its query.
    base: String,
    query: String,
    home: Home,
}

impl WebHdfsEndpoint {
    fn request(&self, target: &Arc<Target>, operation: &str) -> Result<WireRequest> {
        // A data node's URL names the operation and the range already.
        let url = match Arc::ptr_eq(target, &self.home.target) {
            true => Some(curl::c_string("the URL", &format!("{}?{operation}{}", self.base, self.query))?),
            false => None,
        };
        let carried = Carried::default();
        Ok(WireRequest { target: target.clone(), url, carried, head: false, range: None, if_match: None })
    }
}

impl Endpoint for WebHdfsEndpoint {
    fn name(&self) -> &str {
        &self.home.target.name
    }

    fn kind(&self) -> u32 {
        KIND.number
    }

    fn target(&self) -> Arc<Target> {
        self.home.target.clone()
    }

    fn redirect(&self, from: &Target, location: &str) -> Result<Arc<Target>> {
        self.home.redirect(from, location)
    }

    /// It is for one range alone.
    fn remembers_redirects(&self) -> bool {
        false
    }

    fn get(&self, target: &Arc<Target>, range: ByteRange) -> Result<WireRequest> {
        self.request(target, &format!("op=OPEN&offset={}&length={}", range.start, range.len))
    }

    fn stat(&self, target: &Arc<Target>, _: bool) -> Result<WireRequest> {
        self.request(target, "op=GETFILESTATUS")
    }

    fn stat_needs_body(&self) -> bool {
        true
    }

    /// WebHDFS knows no entity tags; what stands there is of the reply, not of the file.
    fn has_versions(&self) -> bool {
        false
    }

    fn check(&self, range: ByteRange, head: &ResponseHead) -> Result<Reply> {
        delivers(range, head).map_err(|error| error.with_http_status(head.status))
    }

    fn ends_at(&self, range: ByteRange, head: &ResponseHead) -> Option<u64> {
        match (head.status, head.content_length) {
            (200, Some(length)) if length < range.len => Some(range.start + length),
            _ => check::ends_at(range, head).filter(|_| head.status == 206),
        }
    }

    fn check_stat(&self, _: bool, head: &ResponseHead, body: &[u8]) -> Result<Stat> {
        match head.status {
            200 => size(body).map(Stat::Size).map_err(|error| error.with_http_status(200)),
            status => Err(check::status_error(status)),
        }
    }

    fn error_kind(&self, refusal: &Refusal<'_>) -> ErrorKind {
        match (refusal.head.status, exception(refusal.body)) {
            // The name node's words for an offset at or behind the end; it has no status of its own for that.
            (400 | 403, Some((_, message))) if message.contains("out of the range") => ErrorKind::Range,
            (403 | 404, Some((name, _))) if name == "FileNotFoundException" => ErrorKind::NotFound,
            _ => refusal.head.error_kind(),
        }
    }
}

/// Whether a successful reply delivers `range`.
fn delivers(range: ByteRange, head: &ResponseHead) -> Result<Reply> {
    let wrong = |words: String| Error::new(ErrorKind::Range, words);
    if let Some(encoding) = &head.content_encoding {
        let encoding = redact::printable(encoding, 40);
        return Err(wrong(format!("the server encoded the body as {encoding}: its bytes are not the file's")));
    }
    match (head.status, head.content_length) {
        // Not WebHDFS's way, but a gateway's may be.
        (206, _) => check::of_range(range, head),
        (200, None) => Ok(Reply { len: range.len, total: None }),
        (200, Some(length)) if length == range.len => Ok(Reply { len: length, total: None }),
        (200, Some(length)) if length < range.len => Err(wrong(format!(
            "asked for bytes {range}, but the file ends after {} bytes; read no further than its size",
            range.start + length
        ))),
        (200, Some(length)) => Err(wrong(format!(
            "asked for {} bytes from {}, the server sent {length}: it ignored offset or length",
            range.len, range.start
        ))),
        (status, _) => {
            Err(Error::new(ErrorKind::Http, format!("asked for bytes {range}, got status {status} instead of 200")))
        }
    }
}

/// The size that GETFILESTATUS tells.
///
/// # Errors
/// RANGE: it does not. INVALID_ARGUMENT: of a folder.
pub fn size(body: &[u8]) -> Result<u64> {
    let wrong =
        |why: &str| Error::new(ErrorKind::Range, format!("the size is unknown: the reply to GETFILESTATUS {why}"));
    let json: Value = serde_json::from_slice(body).map_err(|_| wrong("is no JSON"))?;
    let status = json.get("FileStatus").ok_or_else(|| wrong("holds no FileStatus"))?;
    match status.get("type").and_then(Value::as_str) {
        Some("FILE") | None => {}
        Some("DIRECTORY") => return Err(Error::invalid("it is a folder, not a file")),
        Some(other) => return Err(wrong(&format!("speaks of a {:?}", redact::printable(other, 40)))),
    }
    let length = status.get("length").and_then(Value::as_u64).filter(|&length| i64::try_from(length).is_ok());
    length.ok_or_else(|| wrong("holds no length"))
}

/// The exception that an error reply names, and its message.
pub fn exception(body: &[u8]) -> Option<(String, String)> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let remote = json.get("RemoteException")?;
    let text = |name: &str| remote.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((text("exception")?, text("message").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_once() {
        for (text, want) in [
            (
                "http://h:9870/webhdfs/v1/d/datestamp=2023-11-11/a b%c",
                "http://h:9870/webhdfs/v1/d/datestamp=2023-11-11/a%20b%25c",
            ),
            ("http://h:1/webhdfs/v1/a%20b%25c?user.name=a%26b", "http://h:1/webhdfs/v1/a%20b%25c?user.name=a%26b"),
            ("https://h/webhdfs/v1/ü|{", "https://h/webhdfs/v1/%C3%BC%7C%7B"),
            ("http://h/webhdfs/v1/a?x=ü y", "http://h/webhdfs/v1/a?x=%C3%BC%20y"),
        ] {
            assert_eq!(encoded(text).as_deref(), Some(want));
            assert_eq!(encoded(want).as_deref(), Some(want), "once");
        }
        for text in ["http://h/a", "ftp://h/webhdfs/v1/a", "http://h/?/webhdfs/v1/a", "/webhdfs/v1/a"] {
            assert_eq!(encoded(text), None, "{text}");
        }
    }

    #[test]
    fn a_raw_name_becomes_a_url() {
        for (text, want) in [
            (
                "webhdfs://h:1/d/datestamp=2023-11-11/a b%c?#",
                "http://h:1/webhdfs/v1/d/datestamp=2023-11-11/a%20b%25c%3F%23",
            ),
            ("WEBHDFS://h/x", "http://h:9870/webhdfs/v1/x"),
            ("swebhdfs://h/a%20b", "https://h:9871/webhdfs/v1/a%2520b"),
            ("webhdfs://[::1]:5/a+b", "http://[::1]:5/webhdfs/v1/a%2Bb"),
        ] {
            assert_eq!(raw_to_url(text).unwrap(), want);
        }
        for text in ["webhdfs://", "webhdfs:///x", "webhdfs://h", "webhdfs://h/", "webhdfs:x", "hdfs://h/x"] {
            assert!(raw_to_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_read_from_json_and_nothing_else() {
        let body = br#"{"FileStatus":{"accessTime":1,"length":24930,"type":"FILE","pathSuffix":""}}"#;
        assert_eq!(size(body).unwrap(), 24_930);
        for body in [
            &b""[..],
            b"{}",
            b"[1]",
            br#"{"FileStatus":{"length":-1,"type":"FILE"}}"#,
            br#"{"FileStatus":{"length":"5","type":"FILE"}}"#,
            br#"{"FileStatus":{"length":9223372036854775808,"type":"FILE"}}"#,
            br#"{"FileStatus":{"length":0,"type":"DIRECTORY"}}"#,
            br#"{"FileStatus":{"length":1.5}}"#,
            br#"{"FileStatus":{"length":5"#,
        ] {
            assert!(size(body).is_err(), "{}", String::from_utf8_lossy(body));
        }
        let body = br#"{"RemoteException":{"exception":"FileNotFoundException","javaClassName":"java.io.FileNotFoundException","message":"File does not exist: /x"}}"#;
        assert_eq!(exception(body), Some(("FileNotFoundException".into(), "File does not exist: /x".into())));
        assert_eq!(exception(b"<html>"), None);
    }
}
