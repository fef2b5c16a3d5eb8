//! Local files: a path, or a `file:` URL. Their bytes do not come by requests, but by [`crate::transport::file`].

use super::head::ResponseHead;
use super::{Endpoint, Kind, Location, Opening, Origin, Reply, Stat, Target, WireRequest, percent, redact};
use crate::error::{Error, ErrorKind, Result};
use crate::local::LocalFile;
use crate::object::ObjectOptions;
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

/// Linux's PATH_MAX, without the NUL.
const MOST_PATH_BYTES: usize = 4095;
/// Characters of a path in a message about how it was given.
const MOST_SHOWN: usize = 300;

/// Whether this stands for a file whatever kind is asked for: a `file:` URL, or a path that says it is one.
pub(super) fn is_location(text: &str) -> bool {
    is_url(text) || is_path(text.as_bytes())
}

fn is_url(text: &str) -> bool {
    text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// As messages show it: a path whole, of a URL nothing that may be a secret.
pub(super) fn shown(text: &str) -> String {
    if !is_url(text) {
        return redact::printable(text, MOST_SHOWN);
    }
    // It has no query, but somebody may have thought so.
    let end = text.find(['?', '#']).map_or(text.len(), |at| at + 1);
    let mut rest = text[5..end].to_owned();
    if let Some(path) = rest.strip_prefix("//") {
        let host = path.split('/').next().unwrap_or_default();
        if let Some(user) = host.rfind('@') {
            rest = format!("//{}", &path[user + 1..]);
        }
    }
    let more = if end < text.len() { "..." } else { "" };
    redact::printable(&format!("{}{rest}{more}", &text[..5]), MOST_SHOWN)
}

/// The URL of a path from the root on, whatever bytes it holds.
pub fn url_of(path: &[u8]) -> String {
    format!("file://{}", percent::encoded(path, percent::FILE_PATH))
}

/// What to do about the bytes of a path that no message and no C string of text can hold.
pub fn way_to_open(path: &[u8]) -> String {
    match path.first() {
        Some(b'/') => format!("open it as {}", redact::printable(&url_of(path), MOST_SHOWN)),
        _ => "open it by its whole path, as file:///…, with %XX for each such byte".to_owned(),
    }
}

/// Whether a text is given for a path that [`way_to_open`] helps with.
pub fn is_path(text: &[u8]) -> bool {
    [&b"/"[..], b"./", b"../"].iter().any(|start| text.starts_with(start))
}

/// Whether messages can show it, and whether the system can take it.
///
/// # Errors
/// INVALID_ARGUMENT.
pub(super) fn check(text: &str) -> Result<()> {
    if text.len() > super::MOST_URL_BYTES {
        return Err(too_long(text.len()).context(format_args!("cannot open {}", shown(text))));
    }
    let Some(bad) = text.chars().find(|character| character.is_control()) else { return Ok(()) };
    let way = match is_url(text) {
        true => format!("write {} for it", percent::encoded(bad.to_string().as_bytes(), percent::FILE_PATH)),
        false => way_to_open(text.as_bytes()),
    };
    Err(Error::invalid(format!("the path {} holds the control character {bad:?}; {way}", shown(text))))
}

fn too_long(bytes: usize) -> Error {
    Error::invalid(format!(
        "the path has {bytes} bytes, and the system takes {MOST_PATH_BYTES}; make a directory of it the working directory and \
         name the rest, or use a symbolic link"
    ))
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
                    "it names the host {:?}; write file:///path, with three slashes, for a file of this machine",
                    host.rsplit('@').next().unwrap_or_default()
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
    if percent::has_stray(path.as_bytes()) {
        return Err(Error::invalid("a % without two hexadecimal digits behind it; write %25 for the character itself"));
    }
    Ok(percent::decoded(path.as_bytes()).into_owned())
}

fn open(opening: &Opening<'_>) -> Result<Arc<dyn Endpoint>> {
    let (text, options) = (opening.text, opening.options);
    refuse_remote(options)?;
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
    if path.len() > MOST_PATH_BYTES {
        return Err(too_long(path.len()));
    }
    let name = name_of(&path);
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

/// Options that say how a server is reached, or what it is to be told: whoever sets them means another object.
fn refuse_remote(options: &ObjectOptions) -> Result<()> {
    let given = [
        ("bearer_token", options.bearer_token.is_some()),
        ("RASKIO_OBJECT_BEARER_FROM_HOST", options.bearer_from_host),
        ("headers", !options.headers.is_empty()),
        ("RASKIO_OBJECT_TLS_UNVERIFIED", options.tls_unverified),
        ("ca_file", options.ca_file.is_some()),
        ("client_certificate", options.client_certificate.is_some()),
        ("client_key", options.client_key.is_some()),
        ("client_key_password", options.client_key_password.is_some()),
        ("proxy", options.proxy.is_some()),
        ("unix_socket", options.unix_socket.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Error::invalid(format!(
            "{option} is set, which is about a server, and a local file has none; leave it out, or give the URL of a server"
        ))),
        None => Ok(()),
    }
}

/// The name of a file in messages, which are text of one line.
fn name_of(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => url_of(path),
    }
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
            ("file://host/a", "\"host\"; write file:///"),
            ("file://user:s3cr3t@host/a", "\"host\"; write"),
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
    fn what_is_shown_of_a_file_tells_what_it_is_and_no_secret() {
        for (text, want) in [
            ("file:a", "file:a"),
            ("file:a:b", "file:a:b"),
            ("FILE:///a:b@c/d", "FILE:///a:b@c/d"),
            ("file://user:s3cr3t@host/a", "file://host/a"),
            ("file:///a?token=s3cr3t", "file:///a?..."),
            ("/a:b@c?d#e", "/a:b@c?d#e"),
            ("./a\nb", "./a\\nb"),
        ] {
            assert_eq!(shown(text), want);
        }
        assert_eq!(shown(&"/x".repeat(300)).len(), MOST_SHOWN + "...".len());
    }

    #[test]
    fn the_url_of_a_path_leads_to_it_whatever_its_bytes() {
        let path: Vec<u8> = b"/".iter().copied().chain(1..=255).collect();
        let url = url_of(&path);
        assert!(url.is_ascii() && check(&url).is_ok(), "{url}");
        assert_eq!(path_of_url(&url).unwrap(), path);
        assert_eq!(name_of(b"/a b%\xc3\xbc"), "/a b%\u{fc}");
        assert_eq!(name_of(b"/a b%\n"), "file:///a%20b%25%0A");
        assert_eq!(name_of(b"/a\xff"), "file:///a%FF");
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
