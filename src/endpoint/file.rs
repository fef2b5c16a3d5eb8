//! Local files: a path, or a `file:` URL. Their bytes do not come by requests, but by [`crate::transport::file`].

use super::head::ResponseHead;
use super::{Endpoint, Kind, Location, Opening, Origin, Reply, Stat, Target, WireRequest};
use crate::error::{Error, ErrorKind, Result};
use crate::local::LocalFile;
use crate::plan::ByteRange;
use crate::sys::curl::Access;
use std::ffi::CString;
use std::sync::Arc;

/// The row in [`super::KINDS`]. Only ranges that touch or overlap share a read: a gap costs as much as what is wanted, and there is
/// no round trip to save.
pub const KIND: Kind = Kind { number: 6, name: "FILE", coalesce_gap: 0, matches: is_file, open };

fn is_file(location: &Location<'_>) -> bool {
    location.scheme == SCHEME
}

const SCHEME: &str = "file";

/// Whether this stands for a file whatever kind is asked for: a `file:` URL, or a path that says it is one.
pub(super) fn is_location(text: &str) -> bool {
    is_url(text) || ["/", "./", "../"].iter().any(|start| text.starts_with(start))
}

fn is_url(text: &str) -> bool {
    text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// What can be said of it.
pub(super) fn locate(text: &str) -> Location<'_> {
    Location { text, scheme: SCHEME.into(), url: None, pasted: false }
}

/// The path that a `file:` URL stands for (RFC 8089).
fn path_of_url(text: &str) -> Result<Vec<u8>> {
    let rest = &text[5..];
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, _) = rest.split_once('/').unwrap_or((rest, ""));
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(Error::invalid(format!(
                    "it names the host {host:?}; write file:///path, with three slashes, for a file of this machine"
                )));
            }
            &rest[host.len()..]
        }
        None => rest,
    };
    if !path.starts_with('/') {
        return Err(Error::invalid("a file: URL needs a path that begins with /"));
    }
    if let Some(bad) = path.chars().find(|character| matches!(character, '?' | '#')) {
        let code = if bad == '?' { "%3F" } else { "%23" };
        return Err(Error::invalid(format!(
            "a file has no query and no fragment; in a file: URL write {code} for {bad}, or give the path without file:"
        )));
    }
    decoded(path.as_bytes())
}

fn decoded(text: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'%' {
            bytes.push(text[at]);
            at += 1;
            continue;
        }
        let code = text.get(at + 1..at + 3).filter(|code| code.iter().all(u8::is_ascii_hexdigit));
        let code =
            code.and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok());
        let Some(byte) = code else {
            return Err(Error::invalid(
                "a % without two hexadecimal digits behind it; write %25 for the character itself",
            ));
        };
        bytes.push(byte);
        at += 3;
    }
    Ok(bytes)
}

fn open(opening: &Opening<'_>) -> Result<Arc<dyn Endpoint>> {
    let (text, options) = (opening.text, opening.options);
    if options.bearer_token.is_some() || options.bearer_from_host {
        return Err(Error::invalid("a bearer token is given for a local file"));
    }
    let path = if is_url(text) {
        path_of_url(text)?
    } else if text.contains("://") {
        return Err(Error::invalid(
            "it is a URL of something else than a file; for a path with :// in it write file:///…",
        ));
    } else {
        text.as_bytes().to_vec()
    };
    if path.is_empty() {
        return Err(Error::invalid("the path is empty"));
    }
    let name = String::from_utf8_lossy(&path).into_owned();
    let path = CString::new(path).map_err(|_| Error::invalid("the path holds a NUL"))?;
    let local = LocalFile::new(path, name, options.writable, options.direct);
    let target = Target {
        url: CString::default(),
        name: local.name().to_owned(),
        origin: Origin::new(SCHEME.into(), String::new(), String::new(), false),
        headers: Vec::new(),
        access: Arc::new(Access::default()),
    };
    Ok(Arc::new(FileEndpoint { local: Arc::new(local), target: Arc::new(target) }))
}

struct FileEndpoint {
    local: Arc<LocalFile>,
    /// Where nothing is ever sent.
    target: Arc<Target>,
}

impl FileEndpoint {
    fn no_requests<T>(&self) -> Result<T> {
        let words = format!("{}: a request was made for a local file; this is a bug in RaskIO", self.local.name());
        Err(Error::new(ErrorKind::Internal, words))
    }
}

impl Endpoint for FileEndpoint {
    fn name(&self) -> &str {
        self.local.name()
    }

    fn kind(&self) -> u32 {
        KIND.number
    }

    fn local(&self) -> Option<&Arc<LocalFile>> {
        Some(&self.local)
    }

    fn target(&self) -> Arc<Target> {
        self.target.clone()
    }

    fn gives_last(&self) -> bool {
        true
    }

    fn redirect(&self, _: &Target, _: &str) -> Result<Arc<Target>> {
        self.no_requests()
    }

    fn get(&self, _: &Arc<Target>, _: ByteRange) -> Result<WireRequest> {
        self.no_requests()
    }

    fn stat(&self, _: &Arc<Target>, _: bool) -> Result<WireRequest> {
        self.no_requests()
    }

    fn check(&self, _: ByteRange, _: &ResponseHead) -> Result<Reply> {
        self.no_requests()
    }

    fn check_stat(&self, _: bool, _: &ResponseHead, _: &[u8]) -> Result<Stat> {
        self.no_requests()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_url_is_decoded_and_its_host_is_this_one() {
        let path = |text: &str| path_of_url(text).map(|path| String::from_utf8_lossy(&path).into_owned());
        for (url, want) in [
            ("file:///a/b", "/a/b"),
            ("FILE:/a", "/a"),
            ("file://localhost/a%20b%3F%23%25", "/a b?#%"),
            ("file:///%C3%BC/\u{fc}", "/\u{fc}/\u{fc}"),
            ("file:////x", "//x"),
        ] {
            assert_eq!(path(url).unwrap(), want, "{url}");
        }
        assert_eq!(path_of_url("file:///%ff").unwrap(), b"/\xff");
        for (url, word) in [
            ("file://host/a", "three slashes"),
            ("file://", "begins with /"),
            ("file:a", "begins with /"),
            ("file:///a?b", "%3F"),
            ("file:///a#b", "%23"),
            ("file:///a%2", "%25"),
            ("file:///a%+1", "%25"),
        ] {
            let error = path(url).unwrap_err();
            assert!(error.message().contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn paths_that_say_so_are_files_and_other_words_are_not() {
        for text in ["/a", "./a", "../a", "file:a", "File:///x"] {
            assert!(is_location(text), "{text}");
        }
        for text in ["", "a", "a/b", "http://h/x", ".hidden", "files:x"] {
            assert!(!is_location(text), "{text}");
        }
    }
}
