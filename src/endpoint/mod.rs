//! Endpoints: what a kind of storage makes of "these bytes of that object". Pure; nothing here does I/O.
//!
//! A new kind is a file beside this one and a row in [`KINDS`].

pub mod head;
pub mod http;
pub mod redact;
pub mod tls;

use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectOptions;
use crate::plan::ByteRange;
use crate::sys::curl::Url;
use head::ResponseHead;
use std::ffi::CString;
use std::sync::Arc;

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
    /// Which certificates to trust.
    pub tls: Arc<tls::Trust>,
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
}

impl Origin {
    /// Of this URL.
    pub fn of(url: &Url) -> Origin {
        let host = url.host();
        let is_name = !host.starts_with('[') && host.parse::<std::net::Ipv4Addr>().is_err();
        Origin { scheme: url.scheme(), host, port: url.port(), is_name }
    }
}

/// One request as it goes out.
#[derive(Clone, Debug)]
pub struct WireRequest {
    /// Where to.
    pub target: Arc<Target>,
    /// HEAD instead of GET.
    pub head: bool,
    /// Which bytes; `None`: all.
    pub range: Option<ByteRange>,
    /// A strong entity tag that the object must still have.
    pub if_match: Option<Arc<str>>,
}

/// What a checked reply will deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of the body that belong to the range that was asked for, from its start.
    pub len: u64,
    /// Size of the object, where the reply says so.
    pub total: Option<u64>,
}

/// What a stat learned, or that it must ask differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    /// The object has this size.
    Size(u64),
    /// HEAD does not tell: ask for the first byte.
    Probe,
}

/// A kind of storage, opened on one object.
pub trait Endpoint: Send + Sync {
    /// The object as errors and logs show it, secrets redacted.
    fn name(&self) -> &str;
    /// `RASKIO_ENDPOINT_*`.
    fn kind(&self) -> u32;
    /// Where its requests go first.
    fn target(&self) -> &Arc<Target>;
    /// Where a redirect from `from` leads.
    ///
    /// # Errors
    /// HTTP when it leads where RaskIO does not go.
    fn redirect(&self, from: &Target, location: &str) -> Result<Arc<Target>>;
    /// The request for a range.
    fn get(&self, target: &Arc<Target>, range: ByteRange) -> WireRequest;
    /// The request that asks for the size; `probe` once [`Endpoint::check_stat`] said so.
    fn stat(&self, target: &Arc<Target>, probe: bool) -> WireRequest;
    /// What a successful reply to [`Endpoint::get`] delivers.
    ///
    /// # Errors
    /// RANGE, HTTP: it is not what was asked for, and asking again will not change that.
    fn check(&self, range: ByteRange, head: &ResponseHead) -> Result<Reply>;
    /// What a reply to [`Endpoint::stat`] says.
    ///
    /// # Errors
    /// As the status says, or RANGE when the size cannot be learned.
    fn check_stat(&self, probe: bool, head: &ResponseHead) -> Result<Stat>;
}

/// One kind of storage.
pub struct Kind {
    /// `RASKIO_ENDPOINT_*`.
    pub number: u32,
    /// For messages.
    pub name: &'static str,
    /// Whether a URL looks like one of its objects.
    pub matches: fn(&Url) -> bool,
    /// Opens one.
    pub open: fn(&str, &Url, &ObjectOptions) -> Result<Arc<dyn Endpoint>>,
}

/// Every kind, in the order in which a URL is tried.
pub const KINDS: &[Kind] = &[http::KIND];

/// Names of kinds that this version does not open yet.
const LATER: &[(u32, &str)] = &[(2, "S3"), (3, "S3_PUBLIC"), (4, "S3_PRESIGNED"), (5, "WEBHDFS"), (6, "FILE")];

/// The kind that this URL would get, 0 if none would open it.
pub fn infer(text: &str) -> u32 {
    let Ok(url) = Url::parse(text) else { return 0 };
    KINDS.iter().find(|kind| (kind.matches)(&url)).map_or(0, |kind| kind.number)
}

/// The endpoint of an object.
///
/// # Errors
/// INVALID_ARGUMENT naming the part of the URL or the option at fault, UNSUPPORTED for a kind that is not there.
pub fn open(text: &str, options: &ObjectOptions) -> Result<Arc<dyn Endpoint>> {
    if let Some(bad) = text.chars().find(|character| character.is_control()) {
        return Err(Error::invalid(format!(
            "the URL {} holds the control character {:?}; percent-encode it",
            redact::url(text),
            bad
        )));
    }
    let url = Url::parse(text).map_err(|error| error.context(format_args!("cannot open {:?}", redact::url(text))))?;
    let kind = match options.endpoint {
        Some(number) => KINDS.iter().find(|kind| kind.number == number).ok_or_else(|| {
            match LATER.iter().find(|(later, _)| *later == number) {
                Some((_, name)) => {
                    Error::new(ErrorKind::Unsupported, format!("the endpoint kind {name} is not in this version"))
                }
                None => Error::invalid(format!("endpoint is {number}, which is no RASKIO_ENDPOINT_ constant")),
            }
        })?,
        None => KINDS.iter().find(|kind| (kind.matches)(&url)).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "cannot open {}: the scheme {:?} is not in this version; use http or https",
                    redact::url(text),
                    url.scheme()
                ),
            )
        })?,
    };
    (kind.open)(text, &url, options)
}
