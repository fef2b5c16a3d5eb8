//! Header lines of the caller's: checked, and in libcurl's form.

use super::redact;
use crate::error::{Error, Result};
use crate::sys::curl;
use std::ffi::CString;

/// RaskIO sets these itself; a second one would contradict the first.
const OWN_HEADERS: &[&str] =
    &["accept-encoding", "connection", "content-length", "if-match", "if-range", "range", "te", "transfer-encoding"];

/// One header of the caller's.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// In lower case.
    pub name: String,
    /// Blanks at its ends removed.
    pub value: String,
    /// For libcurl.
    pub line: CString,
}

/// Checks the lines of an object's options. `own`: names that this kind of endpoint sets itself.
///
/// # Errors
/// INVALID_ARGUMENT naming the header at fault; its value may be a secret and is not shown.
pub fn parse(lines: &[String], own: &[&str]) -> Result<Vec<Header>> {
    lines.iter().map(|line| header(line, own)).collect()
}

fn header(line: &str, own: &[&str]) -> Result<Header> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| Error::invalid("a header has no colon; write \"Name: value\""))?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(Error::invalid(format!("{:?} is no name of a header", redact::printable(name, 80))));
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(Error::invalid(format!("the value of the header {name} holds a control character")));
    }
    let lower = name.to_ascii_lowercase();
    if OWN_HEADERS.contains(&lower.as_str()) || own.contains(&lower.as_str()) {
        return Err(Error::invalid(format!("the header {name} is RaskIO's own to set")));
    }
    // libcurl takes "Name:" as "remove this header"; an empty value is written with a semicolon.
    let text = if value.trim().is_empty() { format!("{name};") } else { line.to_owned() };
    Ok(Header { name: lower, value: value.trim().to_owned(), line: curl::c_string("a header", &text)? })
}

/// The `Authorization` line of a bearer token.
///
/// # Errors
/// INVALID_ARGUMENT: it cannot be one.
pub fn bearer(token: &str) -> Result<CString> {
    // RFC 6750 allows less, but what a service gives is its own business as long as it is one word on one line.
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::invalid("the bearer token is empty, or holds a blank, a control or a non-ASCII character"));
    }
    curl::c_string("the bearer token", &format!("Authorization: Bearer {token}"))
}
