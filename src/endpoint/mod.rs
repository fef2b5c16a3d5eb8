//! Endpoints: what a kind of storage makes of "these bytes of that object". Pure; nothing here does I/O.
//!
//! A new kind is a file beside this one and a row in [`KINDS`].
//!
//! | file | what |
//! |---|---|
//! | [`http`], [`s3`], [`webhdfs`], [`file`](mod@file) | the kinds; a presigned URL is an HTTP one whose size is asked for by GET |
//! | [`site`] | what the endpoints of one client share: environment, credentials, learned regions |
//! | [`redirect`] | where a redirect leads, and what stays behind |
//! | [`dressed`] | targets with a secret, made once and used for a while |
//! | [`access`], [`tls`], [`headers`] | options of an object: proxies, sockets, certificates, header lines |
//! | `wire` | a request as it goes out |
//! | [`head`], [`redact`] | what a reply says; what may be shown |
//! | [`percent`] | which bytes stand for themselves where |

pub mod access;
pub mod check;
pub mod dressed;
pub mod file;
pub mod head;
pub mod headers;
pub mod http;
pub mod percent;
pub mod redact;
pub mod redirect;
pub mod s3;
pub mod site;
pub mod tls;
pub mod webhdfs;
mod wire;

use crate::credentials::authority::Authority;
use crate::error::{Error, ErrorKind, Result};
use crate::local::LocalFile;
use crate::object::ObjectOptions;
use crate::plan::ByteRange;
use crate::sys::curl::{Access, OriginId, Url};
use head::ResponseHead;
use site::Site;
use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
pub use wire::{Carried, Dialled, WireRange, WireRequest};

/// Longer URLs are a mistake: servers take 8 KiB to 64 KiB.
const MOST_URL_BYTES: usize = 64 << 10;

/// Where requests go: a URL with the headers and the trust that belong to it. Compared by address, so that a reused
/// handle sees at a glance that nothing changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// What is sent, byte for byte.
    pub url: CString,
    /// The URL as messages may show it.
    pub name: String,
    /// Scheme, host and port: secrets never leave it.
    pub origin: Origin,
    /// `Name: value` lines.
    pub headers: Vec<CString>,
    /// Proxy, socket and certificates.
    pub access: Arc<Access>,
}

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// In lower case.
    pub scheme: String,
    /// In lower case.
    pub host: String,
    /// The scheme's, if the URL names none.
    pub port: String,
    /// The host is a name, which must be looked up, and no address.
    pub is_name: bool,
    /// Stands for scheme, host and port where many are compared.
    pub id: OriginId,
}

impl Origin {
    /// Of this URL.
    pub fn parse(url: &Url) -> Origin {
        let host = url.host();
        let is_name = !host.starts_with('[') && host.parse::<std::net::Ipv4Addr>().is_err();
        Origin::new(url.scheme(), host, url.port(), is_name)
    }

    /// Of these parts, in lower case.
    pub fn new(scheme: String, host: String, port: String, is_name: bool) -> Origin {
        let mut hasher = DefaultHasher::new();
        (&scheme, &host, &port).hash(&mut hasher);
        Origin { scheme, host, port, is_name, id: hasher.finish() }
    }

    /// Of this URL, reached as these options say: behind a unix socket no name is looked up.
    pub fn of(url: &Url, options: &ObjectOptions) -> Origin {
        let mut origin = Origin::parse(url);
        origin.is_name &= options.unix_socket.is_none();
        origin
    }

    /// The same at another host.
    pub fn at(&self, host: String) -> Origin {
        Origin::new(self.scheme.clone(), host, self.port.clone(), self.is_name)
    }

    /// Whether scheme, host and port are the same.
    pub fn is_same(&self, other: &Origin) -> bool {
        (&self.scheme, &self.host, &self.port) == (&other.scheme, &other.host, &other.port)
    }
}

/// What a checked reply will deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of the body that belong to the range that was asked for, from its start.
    pub len: u64,
    /// Size of the object, where the reply says so.
    pub total: Option<u64>,
}

/// What a checked reply to a request for the end of an object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// This is what comes, which is the end.
    Here {
        /// Where it lies.
        range: ByteRange,
        /// Size of the object, where the reply says so.
        total: Option<u64>,
    },
    /// Something else comes, but the object has this size.
    Size(u64),
    /// Something else comes: ask for the size.
    Unknown,
}

/// What a stat learned, or that it must ask differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    /// The object has this size.
    Size(u64),
    /// HEAD does not tell: ask for the first byte.
    Probe,
}

/// What was already amended for one request: each thing once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amended {
    /// The region.
    pub region: bool,
    /// The secret.
    pub secret: bool,
}

/// A reply that is no success.
pub struct Refusal<'a> {
    /// Its head.
    pub head: &'a ResponseHead,
    /// The start of its body.
    pub body: &'a [u8],
    /// What the request carried.
    pub carried: &'a Carried,
}

/// A kind of storage, opened on one object.
pub trait Endpoint: Send + Sync {
    /// The object as errors and logs show it, secrets redacted.
    fn name(&self) -> &str;
    /// `RASKIO_ENDPOINT_*`.
    fn kind(&self) -> u32;
    /// The file, if it is a local one: it is read and written by a transport of its own, and nothing below is asked.
    fn local(&self) -> Option<&Arc<LocalFile>> {
        None
    }
    /// Where its requests go first.
    fn target(&self) -> Arc<Target>;
    /// The secret that must be there before a request goes out.
    fn authority(&self) -> Option<&Arc<Authority>> {
        None
    }
    /// Where a redirect from `from` leads.
    ///
    /// # Errors
    /// HTTP when it leads where RaskIO does not go.
    fn redirect(&self, from: &Target, location: &str) -> Result<Arc<Target>>;
    /// Whether the goal of a redirect is good for other ranges as well.
    fn remembers_redirects(&self) -> bool {
        true
    }
    /// The request for a range.
    ///
    /// # Errors
    /// What makes it impossible, such as a secret that cannot be sent.
    fn get(&self, target: &Arc<Target>, range: ByteRange) -> Result<WireRequest>;
    /// The request that asks for the size; `probe` once [`Endpoint::check_stat`] said so.
    ///
    /// # Errors
    /// As [`Endpoint::get`].
    fn stat(&self, target: &Arc<Target>, probe: bool) -> Result<WireRequest>;
    /// Whether the size is in the body of that request's reply, not in its head.
    fn stat_needs_body(&self) -> bool {
        false
    }
    /// Whether an entity tag names a version of the object, so that two replies with different ones are an error.
    fn has_versions(&self) -> bool {
        true
    }
    /// What a successful reply to [`Endpoint::get`] delivers.
    ///
    /// # Errors
    /// RANGE, HTTP: it is not what was asked for, and asking again will not change that.
    fn check(&self, range: ByteRange, head: &ResponseHead) -> Result<Reply>;
    /// Whether there is a request for the end of an object whose size is not known.
    fn gives_last(&self) -> bool {
        false
    }
    /// That request, for the last `len` bytes.
    ///
    /// # Errors
    /// As [`Endpoint::get`]; INTERNAL if there is none.
    fn last(&self, target: &Arc<Target>, len: u64) -> Result<WireRequest> {
        let _ = (target, len);
        Err(Error::new(ErrorKind::Internal, "this kind of storage has no request for the end of an object"))
    }
    /// What a successful reply to [`Endpoint::last`] delivers.
    ///
    /// # Errors
    /// RANGE, HTTP: nothing that can be used, and nothing better will come of asking otherwise.
    fn check_last(&self, len: u64, head: &ResponseHead) -> Result<Tail> {
        check::last(len, head, false).map_err(|error| error.with_http_status(head.status))
    }
    /// The size of the object, if a successful reply to [`Endpoint::get`] says it, or that it ends inside `range`.
    fn ends_at(&self, range: ByteRange, head: &ResponseHead) -> Option<u64> {
        check::ends_at(range, head)
    }
    /// What a reply to [`Endpoint::stat`] says.
    ///
    /// # Errors
    /// As the status says, or RANGE when the size cannot be learned.
    fn check_stat(&self, probe: bool, head: &ResponseHead, body: &[u8]) -> Result<Stat>;
    /// Whether asking again, at once, can help against a refusal: the region was wrong and is right now, or the secret had
    /// expired and is asked for anew. Each thing is `amended` once for a request.
    fn amend(&self, refusal: &Refusal<'_>, amended: &mut Amended) -> bool {
        let _ = (refusal, amended);
        false
    }
    /// A refusal's kind of error, where the body says more than the status.
    fn error_kind(&self, refusal: &Refusal<'_>) -> ErrorKind {
        refusal.head.error_kind()
    }
    /// What the user should know about an error of this status that this target was answered with.
    fn hint(&self, status: u16, target: &Target) -> Option<String> {
        let _ = (status, target);
        None
    }
}

/// What a kind sees of a URL before it is opened.
pub struct Location<'a> {
    /// As it was given.
    pub text: &'a str,
    /// In lower case; empty if there is none.
    pub scheme: String,
    /// What the parser makes of it; none for schemes whose names are raw bytes.
    pub url: Option<Url>,
    /// It is no URL as it stands, but the name of a file that was pasted into one.
    pub pasted: bool,
}

/// What an object is opened with.
pub struct Opening<'a> {
    /// The URL as it was given.
    pub text: &'a str,
    /// The same, parsed; none for schemes whose names are raw bytes.
    pub url: Option<&'a Url>,
    /// It is no URL as it stands, but the name of a file that was pasted into one.
    pub pasted: bool,
    /// The caller's options.
    pub options: &'a ObjectOptions,
    /// What the client's endpoints share.
    pub site: &'a Arc<Site>,
    /// Which row is opened.
    pub kind: u32,
}

impl Opening<'_> {
    /// The parsed URL.
    ///
    /// # Errors
    /// INVALID_ARGUMENT: this kind needs an http or https one.
    pub fn http(&self, kind: &str) -> Result<&Url> {
        self.url.filter(|url| matches!(url.scheme().as_str(), "http" | "https")).ok_or_else(|| {
            let scheme = scheme_of(self.text);
            Error::invalid(format!("cannot open {} as {kind}: its scheme is {scheme:?}", redact::url(self.text)))
        })
    }
}

/// One kind of storage.
pub struct Kind {
    /// `RASKIO_ENDPOINT_*`.
    pub number: u32,
    /// For messages.
    pub name: &'static str,
    /// Ranges of a batch at most so many bytes apart share a request, if the caller does not say otherwise.
    pub coalesce_gap: u64,
    /// Whether a URL looks like one of its objects.
    pub matches: fn(&Location<'_>) -> bool,
    /// Opens one.
    pub open: fn(&Opening<'_>) -> Result<Arc<dyn Endpoint>>,
}

/// Every kind, in the order in which a URL is tried: KvikIO's.
pub const KINDS: &[Kind] = &[s3::KIND, s3::PUBLIC, http::PRESIGNED, webhdfs::KIND, http::KIND, file::KIND];

/// How far apart ranges may lie that share a request, in a batch of this kind.
pub fn coalesce_gap(kind: u32) -> u64 {
    KINDS.iter().find(|row| row.number == kind).map_or(0, |row| row.coalesce_gap)
}

/// The scheme in lower case, empty if there is none.
fn scheme_of(text: &str) -> String {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if scheme.len() > 40 || !scheme.bytes().all(allowed) { String::new() } else { scheme.to_ascii_lowercase() }
}

/// Schemes whose names are raw: no escape, no query, no fragment.
fn is_raw(scheme: &str) -> bool {
    matches!(scheme, "s3" | "webhdfs" | "swebhdfs")
}

/// What can be said of a URL before any kind has looked at it.
fn locate(text: &str) -> Result<Location<'_>> {
    if file::is_location(text) {
        return Ok(file::locate(text));
    }
    let scheme = scheme_of(text);
    if is_raw(&scheme) {
        return Ok(Location { text, scheme, url: None, pasted: false });
    }
    let (url, pasted) = match Url::parse(text) {
        Ok(url) => (url, false),
        // Only WebHDFS, where it is clear what is meant, takes names as they are.
        Err(error) => match webhdfs::encoded(text).and_then(|text| Url::parse(&text).ok()) {
            Some(url) => (url, true),
            None => {
                let error = error.context(format_args!("cannot open {:?}", redact::url(text)));
                return Err(match text.contains("://") {
                    true => error,
                    false => error.note(
                        "a URL begins with http://, https://, s3://, webhdfs://, swebhdfs:// or file://, the path of a file with / or \
                         ./: ./data.bin for a file of the working directory",
                    ),
                });
            }
        },
    };
    Ok(Location { text, scheme: url.scheme(), url: Some(url), pasted })
}

/// As messages show it, also where it could not be opened.
fn shown(text: &str) -> String {
    if file::is_location(text) { file::shown(text) } else { redact::url(text) }
}

/// Whether it names an object of this kind, or of any, that can be.
fn check(text: &str, kind: Option<u32>) -> Result<()> {
    match file::is_location(text) || kind == Some(file::KIND.number) {
        true => file::check(text),
        false => check_text(text),
    }
}

fn check_text(text: &str) -> Result<()> {
    if text.len() > MOST_URL_BYTES {
        return Err(Error::invalid(format!(
            "the URL {} has {} bytes; {MOST_URL_BYTES} are the limit",
            redact::url(text.get(..400).unwrap_or_default()),
            text.len()
        )));
    }
    match text.chars().find(|character| character.is_control()) {
        Some(bad) => {
            // After a raw scheme an escape would be part of the name.
            let way = if is_raw(&scheme_of(text)) { "open it by its http(s) URL and " } else { "" };
            let shown = redact::url(text);
            Err(Error::invalid(format!("the URL {shown} holds the control character {bad:?}; {way}percent-encode it")))
        }
        None => Ok(()),
    }
}

/// The kind that this URL would get, 0 if none would open it.
pub fn infer(text: &str) -> u32 {
    if check(text, None).is_err() {
        return 0;
    }
    let Ok(location) = locate(text) else { return 0 };
    KINDS.iter().find(|kind| (kind.matches)(&location)).map_or(0, |kind| kind.number)
}

/// The endpoint of an object.
///
/// # Errors
/// INVALID_ARGUMENT naming the part of the URL or the option at fault, UNSUPPORTED for a kind that is not there.
pub fn open(site: &Arc<Site>, text: &str, options: &ObjectOptions) -> Result<Arc<dyn Endpoint>> {
    check(text, options.endpoint)?;
    let location = match options.endpoint {
        // Taken at its word: any name of a file.
        Some(number) if number == file::KIND.number => file::locate(text),
        _ => locate(text)?,
    };
    let kind = match options.endpoint {
        Some(number) => explicit(number)?,
        None => inferred(&location, options)?,
    };
    if options.writable && kind.number != file::KIND.number {
        let words =
            format!("cannot open {}: RASKIO_OBJECT_WRITABLE is set, and only local files can be written", shown(text));
        return Err(Error::new(ErrorKind::Unsupported, words));
    }
    let opened = (kind.open)(&Opening {
        text,
        url: location.url.as_ref(),
        pasted: location.pasted,
        options,
        site,
        kind: kind.number,
    });
    // Also where it is an option that is at fault.
    opened.map_err(|error| match error.message().starts_with("cannot open ") {
        true => error,
        false => error.context(format_args!("cannot open {}", shown(text))),
    })
}

fn explicit(number: u32) -> Result<&'static Kind> {
    KINDS
        .iter()
        .find(|kind| kind.number == number)
        .ok_or_else(|| Error::invalid(format!("endpoint is {number}, which is no RASKIO_ENDPOINT_ constant")))
}

fn inferred(location: &Location<'_>, options: &ObjectOptions) -> Result<&'static Kind> {
    let name = shown(location.text);
    let mut matching = KINDS.iter().filter(|kind| is_meant(kind, location)).peekable();
    if matching.peek().is_none() {
        let scheme = &location.scheme;
        let words = match scheme.is_empty() {
            true => format!(
                "cannot open {name}: it has no scheme; http, https, s3, webhdfs, swebhdfs and file are known, and paths that begin with / or ./"
            ),
            false => format!(
                "cannot open {name}: the scheme {scheme:?} is not in this version; http, https, s3, webhdfs, swebhdfs and file are"
            ),
        };
        return Err(Error::new(ErrorKind::Unsupported, words));
    }
    // Whoever gives keys for a host that is not AWS's means the S3 of that host; but a link that is signed is signed.
    let keys = options.access_key_id.is_some()
        && options.allows(s3::KIND.number)
        && !location.pasted
        && !http::is_presigned(location);
    if keys && matching.clone().any(|kind| kind.number == http::KIND.number) {
        return explicit(s3::KIND.number);
    }
    let names: Vec<&str> = matching.clone().map(|kind| kind.name).collect();
    matching.find(|kind| options.allows(kind.number)).ok_or_else(|| {
        let refused = if names.len() == 1 {
            "which allowed_endpoints does not allow"
        } else {
            "and allowed_endpoints allows none of them"
        };
        Error::invalid(format!("cannot open {name}: it could be {}, {refused}", names.join(" or ")))
    })
}

/// A name without a key is none of S3's objects, but S3 knows best what to say about it.
fn is_meant(kind: &Kind, location: &Location<'_>) -> bool {
    match location.scheme.as_str() {
        "s3" => [s3::KIND.number, s3::PUBLIC.number].contains(&kind.number),
        "webhdfs" | "swebhdfs" => kind.number == webhdfs::KIND.number,
        _ => (kind.matches)(location),
    }
}
