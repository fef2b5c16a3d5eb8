//! URLs, parsed by the very parser that later sends them: what is checked is what is dialled.

use crate::error::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};

/// CURLU.
enum Opaque {}

// From `curl/urlapi.h`; curl-sys has none of it.
unsafe extern "C" {
    fn curl_url() -> *mut Opaque;
    fn curl_url_cleanup(handle: *mut Opaque);
    fn curl_url_set(handle: *mut Opaque, part: c_int, content: *const c_char, flags: c_uint) -> c_uint;
    fn curl_url_get(handle: *const Opaque, part: c_int, content: *mut *mut c_char, flags: c_uint) -> c_uint;
    fn curl_url_strerror(code: c_uint) -> *const c_char;
}

const PART_URL: c_int = 0;
const PART_SCHEME: c_int = 1;
const PART_USER: c_int = 2;
const PART_PASSWORD: c_int = 3;
const PART_HOST: c_int = 5;
const PART_PORT: c_int = 6;
const PART_PATH: c_int = 7;
const PART_QUERY: c_int = 8;

const DEFAULT_PORT: c_uint = 1 << 0;
const NON_SUPPORT_SCHEME: c_uint = 1 << 3;
const PATH_AS_IS: c_uint = 1 << 4;
const URLENCODE: c_uint = 1 << 7;
const ALLOW_SPACE: c_uint = 1 << 11;

/// A parsed URL.
pub struct Url(*mut Opaque);

// SAFETY: the handle is plain memory that only its owner reaches.
unsafe impl Send for Url {}

impl Url {
    /// Parses an absolute URL; its path stays as it is.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the parser's words for what is wrong.
    pub fn parse(text: &str) -> Result<Url> {
        Url::of(&super::easy::c_string("the URL", text)?)
    }

    /// [`Url::parse`] of a C string, for the transfers of a handle.
    ///
    /// # Errors
    /// As [`Url::parse`].
    pub(super) fn of(text: &CStr) -> Result<Url> {
        // SAFETY: needs no initialisation; null is checked.
        let url = Url(unsafe { curl_url() });
        if url.0.is_null() {
            return Err(Error::new(crate::error::ErrorKind::OutOfMemory, "no memory to parse a URL"));
        }
        url.set_part(PART_URL, Some(text), NON_SUPPORT_SCHEME | PATH_AS_IS)?;
        Ok(url)
    }

    /// For CURLOPT_CURLU, while this lives.
    pub(super) fn raw(&self) -> *mut std::ffi::c_void {
        self.0.cast()
    }

    /// Moves on to `location` as a redirect says it: absolute or relative to this URL.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the parser's words for what is wrong.
    pub fn follow(&mut self, location: &str) -> Result<()> {
        // Servers send unencoded spaces and UTF-8 in Location; every browser encodes them.
        let location = super::easy::c_string("the URL", location)?;
        self.set_part(PART_URL, Some(&location), NON_SUPPORT_SCHEME | PATH_AS_IS | URLENCODE | ALLOW_SPACE)
    }

    fn set_part(&self, part: c_int, text: Option<&CStr>, flags: c_uint) -> Result<()> {
        let content = text.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the handle is alive, and the string NUL-ended or null, which removes the part; it is copied.
        let code = unsafe { curl_url_set(self.0, part, content, flags) };
        if code != 0 {
            // SAFETY: returns a pointer to a static string for every code.
            return Err(Error::invalid(unsafe { super::text(curl_url_strerror(code)) }));
        }
        Ok(())
    }

    /// Takes the user name and the password of `other` over, encoded as they stand there.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the parser's words, OUT_OF_MEMORY among them.
    pub fn take_user_of(&mut self, other: &Url) -> Result<()> {
        for (part, text) in [(PART_USER, other.user()), (PART_PASSWORD, other.password())] {
            let text = text.map(|text| super::easy::c_string("the URL", &text)).transpose()?;
            self.set_part(part, text.as_deref(), 0)?;
        }
        Ok(())
    }

    fn part(&self, part: c_int, flags: c_uint) -> Option<String> {
        let mut content: *mut c_char = std::ptr::null_mut();
        // SAFETY: the handle is alive; on success `content` is a string of ours, copied and freed here.
        unsafe {
            if curl_url_get(self.0, part, &mut content, flags) != 0 {
                return None;
            }
            let copy = CStr::from_ptr(content).to_string_lossy().into_owned();
            curl_sys::curl_free(content.cast());
            Some(copy)
        }
    }

    /// The whole URL.
    pub fn text(&self) -> Result<CString> {
        let text = self.part(PART_URL, 0).ok_or_else(|| Error::invalid("the URL has no host"))?;
        super::easy::c_string("the URL", &text)
    }

    /// The scheme in lower case.
    pub fn scheme(&self) -> String {
        self.part(PART_SCHEME, 0).unwrap_or_default().to_ascii_lowercase()
    }

    /// The host in lower case; an IPv6 address in brackets.
    pub fn host(&self) -> String {
        self.part(PART_HOST, 0).unwrap_or_default().to_ascii_lowercase()
    }

    /// The port, or the scheme's.
    pub fn port(&self) -> String {
        self.part(PART_PORT, DEFAULT_PORT).unwrap_or_default()
    }

    /// The port, only if the URL names one.
    pub fn explicit_port(&self) -> Option<String> {
        self.part(PART_PORT, 0)
    }

    /// The user name, encoded as it stands.
    pub fn user(&self) -> Option<String> {
        self.part(PART_USER, 0)
    }

    /// The password, encoded as it stands.
    pub fn password(&self) -> Option<String> {
        self.part(PART_PASSWORD, 0)
    }

    /// The path as it stands.
    pub fn path(&self) -> String {
        self.part(PART_PATH, 0).unwrap_or_default()
    }

    /// The query as it stands, without its question mark.
    pub fn query(&self) -> Option<String> {
        self.part(PART_QUERY, 0)
    }
}

impl Drop for Url {
    fn drop(&mut self) {
        // SAFETY: the handle is ours; null is allowed.
        unsafe { curl_url_cleanup(self.0) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The numbers above against the text of `urlapi.h`.
    pub fn agrees_with(header: &str) {
        let parts: Vec<&str> = header
            .split("CURLUPART_URL")
            .nth(1)
            .and_then(|rest| rest.split('}').next())
            .map(|rest| rest.split("CURLUPART_").skip(1).collect())
            .unwrap_or_default();
        for (number, name) in [
            (PART_SCHEME, "SCHEME"),
            (PART_USER, "USER"),
            (PART_PASSWORD, "PASSWORD"),
            (PART_HOST, "HOST"),
            (PART_PORT, "PORT"),
            (PART_PATH, "PATH"),
            (PART_QUERY, "QUERY"),
        ] {
            assert!(parts[number as usize - 1].starts_with(name), "CURLUPART_{name} is not {number}: {parts:?}");
        }
        for (flag, name) in [
            (DEFAULT_PORT, "CURLU_DEFAULT_PORT"),
            (NON_SUPPORT_SCHEME, "CURLU_NON_SUPPORT_SCHEME"),
            (PATH_AS_IS, "CURLU_PATH_AS_IS"),
            (URLENCODE, "CURLU_URLENCODE"),
            (ALLOW_SPACE, "CURLU_ALLOW_SPACE"),
        ] {
            let shift = header.split(&format!("#define {name} ")).nth(1).unwrap().trim_start();
            assert!(shift.starts_with(&format!("(1 << {})", flag.trailing_zeros())), "{name}: {}", &shift[..20]);
        }
    }

    #[test]
    fn parts_stay_as_they_were_written() {
        let url = Url::parse("HTTP://u%40x:p%3Aw@Host.Example:8080/p/./q/%2e%2E/x//y%20z?a=b%26c#f").unwrap();
        assert_eq!((url.scheme(), url.host(), url.port()), ("http".into(), "host.example".into(), "8080".into()));
        assert_eq!(url.path(), "/p/./q/%2e%2E/x//y%20z");
        assert_eq!(url.query().as_deref(), Some("a=b%26c"));
        assert_eq!((url.user().as_deref(), url.password().as_deref()), (Some("u%40x"), Some("p%3Aw")));
        let url = Url::parse("https://[::1]/x").unwrap();
        assert_eq!((url.host(), url.port(), url.explicit_port()), ("[::1]".into(), "443".into(), None));
    }

    #[test]
    fn a_redirect_is_resolved_against_where_it_came_from() {
        for (location, want) in [
            ("/b", "http://h:1/b"),
            ("c", "http://h:1/x/c"),
            ("//other/d", "http://other/d"),
            ("https://h/e?q=1", "https://h/e?q=1"),
            ("f g", "http://h:1/x/f%20g"),
        ] {
            let mut url = Url::parse("http://h:1/x/y?z").unwrap();
            url.follow(location).unwrap();
            assert_eq!(url.text().unwrap().to_str().unwrap(), want);
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_a_reason() {
        for text in ["", "http://", "http://h:99999/", "http://a b/", "http://[::1", "x\u{0}y", "no-scheme/x"] {
            let error = Url::parse(text).err().unwrap_or_else(|| panic!("{text:?} was accepted"));
            assert!(!error.message().is_empty());
        }
    }
}
