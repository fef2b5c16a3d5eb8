//! One request as it goes out.

use super::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::ByteRange;
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The secret and the region that a request carries, to be compared with what a refusal says.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// The version of the authority's grant; 0: none.
    pub grant: u64,
    /// What the signature names.
    pub region: Option<Arc<str>>,
}

/// Bytes as a request names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireRange {
    /// These.
    Bytes(ByteRange),
    /// The last so many.
    Last(u64),
}

impl From<ByteRange> for WireRange {
    fn from(range: ByteRange) -> WireRange {
        WireRange::Bytes(range)
    }
}

impl std::fmt::Display for WireRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WireRange::Bytes(range) => range.fmt(f),
            WireRange::Last(len) => write!(f, "-{len}"),
        }
    }
}

/// One request as it goes out.
#[derive(Clone, Debug)]
pub struct WireRequest {
    /// Where to.
    pub target: Arc<Target>,
    /// Instead of the target's URL, where the range is part of it.
    pub url: Option<CString>,
    /// Which secret and region it carries.
    pub carried: Carried,
    /// HEAD instead of GET.
    pub head: bool,
    /// Which bytes; `None`: all.
    pub range: Option<WireRange>,
    /// A strong entity tag that the object must still have.
    pub if_match: Option<Arc<str>>,
}

impl WireRequest {
    /// What is asked for.
    pub fn url(&self) -> &CStr {
        self.url.as_deref().unwrap_or(&self.target.url)
    }

    /// What libcurl is to be told of the URL.
    ///
    /// # Errors
    /// INTERNAL, for a URL that is none.
    pub fn dialled(&self) -> Result<Dialled<'_>> {
        let url = self.url();
        let whole = || Ok(Dialled { url: Cow::Borrowed(url), target: None });
        // A proxy that gets the whole URL gets it in libcurl's form.
        if self.target.origin.scheme == "http" && self.target.access.may_be_proxied {
            return whole();
        }
        let bytes = url.to_bytes();
        let Some(at) = bytes.windows(3).position(|three| three == b"://").map(|at| at + 3) else { return whole() };
        let Some(path) = bytes[at..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')) else { return whole() };
        let (server, rest) = bytes.split_at(at + path);
        let target = rest.split(|byte| *byte == b'#').next().unwrap_or_default();
        // What must be encoded first, is by libcurl.
        if target.first() != Some(&b'/') || !target.iter().all(u8::is_ascii_graphic) {
            return whole();
        }
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Error::new(ErrorKind::Internal, "a URL holds a NUL"));
        Ok(Dialled { url: Cow::Owned(text(server)?), target: Some(text(target)?) })
    }
}

/// A URL as libcurl is told it.
///
/// Path and query by themselves, wherever they can go out as they are written. libcurl takes a URL to pieces for each request and
/// puts it together again, 85 instructions a byte and several times over: for a presigned URL of 600 bytes that is more than everything
/// else about a small request. And it puts the letters of escapes into upper case (`%3d`), where not every server takes the
/// one for the other.
#[derive(Debug, PartialEq, Eq)]
pub struct Dialled<'a> {
    /// The server alone, or the whole URL.
    pub url: Cow<'a, CStr>,
    /// Path and query, if not in `url`.
    pub target: Option<CString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Origin;
    use crate::sys::curl::Access;

    fn wire(scheme: &str, url: &str, may_be_proxied: bool) -> WireRequest {
        let target = Target {
            url: CString::new(url).unwrap(),
            name: url.to_owned(),
            origin: Origin::new(scheme.to_owned(), "h".to_owned(), "80".to_owned(), true),
            headers: Vec::new(),
            access: Arc::new(Access { may_be_proxied, ..Access::default() }),
        };
        let (target, carried) = (Arc::new(target), Carried::default());
        WireRequest { target, url: None, carried, head: false, range: None, if_match: None }
    }

    #[test]
    fn path_and_query_go_out_as_they_are_written() {
        for (url, server, path) in [
            ("http://h/a%3db?c=%2f", "http://h", "/a%3db?c=%2f"),
            ("https://u:p@[::1]:8443/a/../b//?x#fragment", "https://u:p@[::1]:8443", "/a/../b//?x"),
            ("http://h/?", "http://h", "/?"),
        ] {
            let wire = wire("http", url, false);
            let Dialled { url, target } = wire.dialled().unwrap();
            assert_eq!((url.to_str(), target.unwrap().to_str()), (Ok(server), Ok(path)));
        }
    }

    #[test]
    fn libcurl_writes_what_must_be_encoded_and_what_a_proxy_gets() {
        for (url, scheme, may_be_proxied, stays) in [
            ("http://h/a b", "http", false, true),
            ("http://h/é", "http", false, true),
            ("http://h", "http", false, true),
            ("http://h?q", "http", false, true),
            ("http://h/a", "http", true, true),
            // It goes through a tunnel, which sees nothing of it.
            ("https://h/a", "https", true, false),
        ] {
            let wire = wire(scheme, url, may_be_proxied);
            let Dialled { url: dialled, target } = wire.dialled().unwrap();
            assert_eq!((dialled.to_str() == Ok(url), target.is_none()), (stays, stays), "{url}");
        }
    }
}
