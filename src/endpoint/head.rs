//! The part of a response's head that decides about its body.

use crate::error::ErrorKind;

/// `Content-Range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes first-last/total`, total `None` for `*`.
    Bytes {
        /// First byte.
        first: u64,
        /// Last byte, at least `first`.
        last: u64,
        /// Size of the object, more than `last`.
        total: Option<u64>,
    },
    /// `bytes */total`, of a 416.
    Unsatisfied {
        /// Size of the object.
        total: u64,
    },
}

impl ContentRange {
    /// Reads a header value; `None` if it is none. Every good reply has one, so this works on bytes and copies nothing.
    pub fn parse(value: &[u8]) -> Option<ContentRange> {
        let (unit, rest) = value.trim_ascii().split_at_checked(5)?;
        if !unit.eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'=' | b'\t'))?;
        let (range, total) = split_at(&rest[start..], b'/')?;
        let total = match total.trim_ascii() {
            b"*" => None,
            total => Some(number(total)?),
        };
        if range.trim_ascii() == b"*" {
            return Some(ContentRange::Unsatisfied { total: total? });
        }
        let (first, last) = split_at(range, b'-')?;
        let (first, last) = (number(first)?, number(last)?);
        (first <= last && total.is_none_or(|total| last < total)).then_some(ContentRange::Bytes { first, last, total })
    }

    /// Size of the object, where it says so.
    pub fn total(self) -> Option<u64> {
        match self {
            ContentRange::Bytes { total, .. } => total,
            ContentRange::Unsatisfied { total } => Some(total),
        }
    }
}

impl std::fmt::Display for ContentRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ContentRange::Bytes { first, last, total: Some(total) } => write!(f, "bytes {first}-{last}/{total}"),
            ContentRange::Bytes { first, last, total: None } => write!(f, "bytes {first}-{last}/*"),
            ContentRange::Unsatisfied { total } => write!(f, "bytes */{total}"),
        }
    }
}

/// What is before the first `byte` and what is behind it.
fn split_at(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&other| other == byte)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Decimal digits alone, but for blanks around them: no sign. No object is larger than 2^63 - 1 bytes, and the greatest number of
/// all would read as "unknown".
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(digit.into())?;
    }
    i64::try_from(value).is_ok().then_some(value)
}

/// An entity tag as the server wrote it: `"…"` or `W/"…"`.
pub fn parse_etag(value: &str) -> Option<&str> {
    let value = value.trim();
    let opaque = value.strip_prefix("W/").unwrap_or(value);
    let inner = opaque.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('"') && value.len() <= 1024 && !value.bytes().any(|b| b.is_ascii_control())).then_some(value)
}

/// Whether a tag names bytes, not meaning: only such a one may go into `If-Match`.
pub fn is_strong(etag: &str) -> bool {
    etag.starts_with('"')
}

/// What a response says before its body. Reused from response to response.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// 0 until a status line came.
    pub status: u16,
    /// The head is complete.
    pub complete: bool,
    /// `Content-Length`, unless the body is chunked.
    pub content_length: Option<u64>,
    /// `Content-Range`; `Some(None)` for one that makes no sense.
    pub content_range: Option<Option<ContentRange>>,
    /// A `Content-Range` that makes no sense, as written, cut to what an error message can hold.
    senseless_range: Option<String>,
    /// A `Content-Encoding` other than identity.
    pub content_encoding: Option<String>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Location`.
    pub location: Option<String>,
    /// `Retry-After`.
    pub retry_after: Option<String>,
    /// `x-amz-bucket-region`.
    pub bucket_region: Option<String>,
    chunked: bool,
}

impl ResponseHead {
    /// Forgets the last response.
    pub fn clear(&mut self) {
        // Most of the time there is nothing on the heap to free.
        *self = ResponseHead::default();
    }

    /// Takes one line in, with its line end. A new status line starts over: interim and proxy replies come first.
    pub fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            // The head of an interim reply ends as well, but is not the one that counts.
            self.complete = self.status >= 200;
            return;
        }
        // The first letter tells most other headers apart before anything is compared or copied.
        match line[0].to_ascii_lowercase() {
            b'h' => {
                if let Some(rest) = line.strip_prefix(b"HTTP/") {
                    self.clear();
                    let mut words = rest.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
                    // Three digits, whatever follows: what libcurl takes for an interim reply has to be one here too.
                    let digits = words.nth(1).and_then(|word| word.get(..3)).and_then(number);
                    self.status = digits.and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
                }
            }
            b'c' => {
                if let Some(value) = value_of(line, b"content-length") {
                    self.content_length = if self.chunked { None } else { number(value) };
                } else if let Some(value) = value_of(line, b"content-range") {
                    let range = ContentRange::parse(value);
                    self.content_range = Some(range);
                    self.senseless_range =
                        range.is_none().then(|| text(value).unwrap_or_default().chars().take(80).collect());
                } else if let Some(value) = value_of(line, b"content-encoding") {
                    let other = |value: &&str| !value.is_empty() && !value.eq_ignore_ascii_case("identity");
                    self.content_encoding = text(value).filter(other).map(str::to_owned);
                }
            }
            b't' if value_of(line, b"transfer-encoding").is_some() => {
                self.chunked = true;
                self.content_length = None;
            }
            b'e' => {
                if let Some(value) = value_of(line, b"etag") {
                    self.etag = text(value).and_then(parse_etag).map(str::to_owned);
                }
            }
            b'l' => set(&mut self.location, line, b"location"),
            b'r' => set(&mut self.retry_after, line, b"retry-after"),
            b'x' => set(&mut self.bucket_region, line, b"x-amz-bucket-region"),
            _ => {}
        }
    }

    /// Size of the object, where the head says so.
    pub fn total(&self) -> Option<u64> {
        self.content_range.flatten().and_then(ContentRange::total)
    }

    /// `Content-Range` for an error message; empty where there is none.
    pub fn content_range_words(&self) -> String {
        match (self.content_range, &self.senseless_range) {
            (Some(Some(range)), _) => range.to_string(),
            (_, Some(text)) => super::redact::printable(text, 80),
            _ => String::new(),
        }
    }

    /// The kind of error that its status stands for.
    pub fn error_kind(&self) -> ErrorKind {
        ErrorKind::from_http_status(self.status)
    }
}

/// The value of a header line, if it is that of the header with this name.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (written, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    written.eq_ignore_ascii_case(name).then_some(value)
}

/// Keeps the value of a header line, if it is that of the header with this name.
fn set(kept: &mut Option<String>, line: &[u8], name: &[u8]) {
    if let Some(value) = value_of(line, name) {
        *kept = text(value).map(str::to_owned);
    }
}

fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value.trim_ascii()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &[&str]) -> ResponseHead {
        let mut head = ResponseHead::default();
        lines.iter().for_each(|line| head.line(line.as_bytes()));
        head
    }

    #[test]
    fn content_range_is_read_strictly() {
        let bytes = |first, last, total| Some(ContentRange::Bytes { first, last, total });
        for (value, want) in [
            ("bytes 0-9/100", bytes(0, 9, Some(100))),
            (" BYTES 5-5/* ", bytes(5, 5, None)),
            ("bytes=0-0/1", bytes(0, 0, Some(1))),
            ("bytes */0", Some(ContentRange::Unsatisfied { total: 0 })),
            ("bytes */*", None),
            ("bytes 9-0/100", None),
            ("bytes 0-100/100", None),
            ("bytes -1-9/100", None),
            ("bytes 0-+9/100", None),
            ("bytes 0-9", None),
            ("items 0-9/100", None),
            ("bytes 0-99999999999999999999/*", None),
            ("bytes 0-9/18446744073709551615", None),
            ("bytes */9223372036854775808", None),
            ("bytes 0-9/9223372036854775807", bytes(0, 9, Some(i64::MAX as u64))),
            ("", None),
            ("é", None),
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), want, "{value:?}");
        }
    }

    #[test]
    fn interim_replies_are_forgotten() {
        let head = head(&[
            "HTTP/1.1 103 Early Hints\r\n",
            "ETag: \"x\"\r\n",
            "\r\n",
            "HTTP/1.1 206 OK\r\n",
            "Content-Length: 5\r\n",
            "\r\n",
        ]);
        assert_eq!((head.status, head.etag.as_deref(), head.content_length, head.complete), (206, None, Some(5), true));
    }

    #[test]
    fn names_are_case_insensitive_and_values_trimmed() {
        let head = head(&[
            "HTTP/1.0 200\n",
            "CONTENT-LENGTH:7\n",
            "eTaG:  W/\"a b\"  \n",
            "location: /x \r\n",
            "Retry-After: 3\r\n",
        ]);
        assert_eq!((head.content_length, head.etag.as_deref()), (Some(7), Some("W/\"a b\"")));
        assert_eq!((head.location.as_deref(), head.retry_after.as_deref()), (Some("/x"), Some("3")));
    }

    #[test]
    fn a_chunked_body_has_no_length_wherever_it_says_so() {
        assert_eq!(head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Transfer-Encoding: chunked"]).content_length, None);
        assert_eq!(head(&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Content-Length: 5"]).content_length, None);
    }

    #[test]
    fn identity_is_no_encoding_and_gzip_is_one() {
        assert_eq!(head(&["HTTP/1.1 206 OK", "Content-Encoding: Identity"]).content_encoding, None);
        assert_eq!(head(&["HTTP/1.1 206 OK", "Content-Encoding: gzip"]).content_encoding.as_deref(), Some("gzip"));
    }

    #[test]
    fn only_a_quoted_tag_is_a_tag_and_only_an_unmarked_one_is_strong() {
        assert_eq!(parse_etag(" \"abc\" "), Some("\"abc\""));
        assert!(is_strong("\"abc\"") && !is_strong("W/\"abc\""));
        for value in ["", "abc", "\"a", "\"a\"b\"", "w/\"a\"", "\"a\u{1}\""] {
            assert_eq!(parse_etag(value), None, "{value:?}");
        }
    }

    #[test]
    fn nonsense_does_no_harm() {
        for line in [
            "\r\n",
            ":",
            ": x",
            "HTTP/",
            "HTTP/1.1",
            "HTTP/1.1 abc",
            "Content-Range",
            "Content-Length: -5",
            "\u{0}\u{ff}:",
        ] {
            let head = head(&["HTTP/1.1 206 OK", line]);
            assert!(head.content_length.is_none() && head.content_range.is_none(), "{line:?}");
        }
    }
}
