//! Is a reply what was asked for? The rules of HTTP, and what S3 servers make of them.

use super::head::{ContentRange, ResponseHead};
use super::{Reply, Stat, Tail, redact};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::ByteRange;

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Range, message)
}

fn encoding(head: &ResponseHead) -> Result<()> {
    match &head.content_encoding {
        Some(encoding) => Err(wrong(format!(
            "the server encoded the body as {}, although identity was asked for: its bytes are not the object's",
            redact::printable(encoding, 40)
        ))),
        None => Ok(()),
    }
}

/// Whether a successful reply delivers (the start of) `range`.
pub fn of_range(range: ByteRange, head: &ResponseHead) -> Result<Reply> {
    encoding(head)?;
    match head.status {
        206 => partial(range, head),
        200 => match head.content_length {
            // The whole object may come as a 200, and so may one whose length shows only at its end.
            Some(length) if range.start == 0 && length == range.len => Ok(Reply { len: length, total: Some(length) }),
            None if range.start == 0 => Ok(Reply { len: range.len, total: None }),
            length => Err(wrong(format!(
                "asked for bytes {range}, the server ignored the range and sent the whole object{} (200 instead of 206): \
                 maybe the server doesn't support file ranges? Only a read of the whole object in one request works here",
                length.map(|length| format!(" of {length} bytes")).unwrap_or_default()
            ))),
        },
        status => {
            Err(Error::new(ErrorKind::Http, format!("asked for bytes {range}, got status {status} instead of 206")))
        }
    }
}

/// [`check`] for S3 and what calls itself so: some (rclone's) send the right range as a 200. Status and Content-Range
/// contradict each other then, and both lengths must agree with the second before it is believed.
pub fn of_s3_range(range: ByteRange, head: &ResponseHead) -> Result<Reply> {
    let labelled = match head.content_range {
        Some(Some(ContentRange::Bytes { first, last, .. })) => {
            first == range.start && last < range.end() && head.content_length == Some(last - first + 1)
        }
        _ => false,
    };
    if head.status == 200 && labelled && head.content_encoding.is_none() {
        return partial(range, head);
    }
    of_range(range, head)
}

/// What a successful reply to a request for the last `len` bytes delivers. A server that takes `-len` for something else, or
/// for nothing, mostly says at least how large the object is. `as_s3`: see [`of_s3_range`].
pub fn last(len: u64, head: &ResponseHead, as_s3: bool) -> Result<Tail> {
    encoding(head)?;
    let bytes = match head.content_range {
        Some(Some(ContentRange::Bytes { first, last, total })) => {
            let range = ByteRange { start: first, len: last - first + 1 };
            let is_end = match total {
                Some(total) => range == ByteRange::last(len, total),
                // What a server says that does not see the "-" looks the same as the end of an object that has just so many.
                None => range.len == len && first > 0,
            };
            Some((range, total, is_end && head.content_length.is_none_or(|length| length == range.len)))
        }
        Some(Some(ContentRange::Unsatisfied { .. }) | None) | None => None,
    };
    Ok(match (head.status, bytes, head.content_length) {
        (206, Some((range, total, true)), _) => Tail::Here { range, total },
        (200, Some((range, total, true)), Some(_)) if as_s3 => Tail::Here { range, total },
        (206, Some((_, Some(total), false)), _) => Tail::Size(total),
        // The whole object, which may be what was asked for.
        (200, None, Some(total)) if total > 0 && total <= len => {
            Tail::Here { range: ByteRange { start: 0, len: total }, total: Some(total) }
        }
        (200, None, Some(total)) => Tail::Size(total),
        (200 | 206, _, _) => Tail::Unknown,
        (status, _, _) => {
            return Err(Error::new(
                ErrorKind::Http,
                format!("asked for the last {len} bytes, got status {status} instead of 206"),
            ));
        }
    })
}

/// The size of the object, if a successful reply to a request for `range` says it.
pub fn ends_at(range: ByteRange, head: &ResponseHead) -> Option<u64> {
    match (head.status, head.total()) {
        (200, None) if range.start == 0 => head.content_length,
        (_, total) => total,
    }
}

fn partial(range: ByteRange, head: &ResponseHead) -> Result<Reply> {
    let shown = || head.content_range_words();
    match head.content_range {
        Some(Some(ContentRange::Bytes { first, last, total })) if first == range.start && last < range.end() => {
            let len = last - first + 1;
            if len < range.len && total.is_some_and(|total| total == last + 1) {
                return Err(wrong(format!(
                    "asked for bytes {range}, but the object ends after {} bytes; read no further than its size",
                    last + 1
                )));
            }
            if head.content_length.is_some_and(|length| length > len) {
                let length = head.content_length.unwrap_or_default();
                return Err(wrong(format!(
                    "the reply announces {length} bytes for the {len} bytes of \"{}\"",
                    shown()
                )));
            }
            Ok(Reply { len, total })
        }
        Some(Some(_)) => Err(wrong(format!("asked for bytes {range}, the server sent \"{}\"", shown()))),
        Some(None) => {
            Err(wrong(format!("asked for bytes {range}, the server's Content-Range \"{}\" makes no sense", shown())))
        }
        None => Err(wrong(format!(
            "asked for bytes {range}, the server's 206 does not say which bytes it sends (no Content-Range)"
        ))),
    }
}

/// What a reply to HEAD, or to GET of the first byte, says about the size.
pub fn stat(probe: bool, head: &ResponseHead) -> Result<Stat> {
    let unknown =
        |why: &str| Err(wrong(format!("the size is unknown: {why}; open the object with its size if you know it")));
    match (probe, head.status) {
        (false, 200 | 206) => match (head.content_length, &head.content_encoding) {
            (Some(length), None) => Ok(Stat::Size(length)),
            _ => Ok(Stat::Probe),
        },
        // Presigned URLs refuse HEAD with 403, others with 400, 405 or 501; only these five mean what they say.
        (false, status @ (401 | 404 | 410 | 408 | 429)) => Err(status_error(status)),
        (false, 501) => Ok(Stat::Probe),
        (false, status @ 500..=599) => Err(status_error(status)),
        (false, _) => Ok(Stat::Probe),
        (true, 206) => match head.content_range {
            Some(Some(ContentRange::Bytes { first: 0, last: 0, total: Some(total) })) => Ok(Stat::Size(total)),
            Some(Some(ContentRange::Bytes { total: None, .. })) => {
                unknown(&format!("the server says \"{}\"", head.content_range_words()))
            }
            _ => unknown(&format!("asked for bytes 0-0, the server says \"{}\"", head.content_range_words())),
        },
        (true, 200) => match (head.content_length, &head.content_encoding) {
            // One byte that is labelled as one byte: see `of_s3_range`.
            (_, None) if head.total().is_some() => Ok(head.total().map_or(Stat::Probe, Stat::Size)),
            (Some(length), None) => Ok(Stat::Size(length)),
            _ => unknown("the server ignores ranges and gives no length"),
        },
        // An empty object has no first byte.
        (true, 416) => match head.content_range {
            Some(Some(ContentRange::Unsatisfied { total })) => Ok(Stat::Size(total)),
            _ => unknown("the server refuses the range 0-0 and does not say why"),
        },
        (true, status) => Err(status_error(status)),
    }
}

/// The error of a status that is no success.
pub fn status_error(status: u16) -> Error {
    Error::new(ErrorKind::from_http_status(status), status_words(status)).with_http_status(status)
}

/// What its message begins with.
pub fn status_words(status: u16) -> String {
    format!("the server answered {status}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, lines: &[&str]) -> ResponseHead {
        let mut head = ResponseHead::default();
        head.line(format!("HTTP/1.1 {status} x").as_bytes());
        lines.iter().for_each(|line| head.line(line.as_bytes()));
        head.line(b"");
        head
    }

    fn asked(start: u64, len: u64, status: u16, lines: &[&str]) -> Result<Reply> {
        of_range(ByteRange { start, len }, &head(status, lines))
    }

    #[test]
    fn only_the_range_that_was_asked_for_is_accepted() {
        let reply = asked(10, 10, 206, &["Content-Range: bytes 10-19/100", "Content-Length: 10"]).unwrap();
        assert_eq!(reply, Reply { len: 10, total: Some(100) });
        assert_eq!(asked(10, 10, 206, &["Content-Range: bytes 10-14/*"]).unwrap().len, 5, "a start is a start");
        for lines in [
            &["Content-Range: bytes 0-9/100"][..],
            &["Content-Range: bytes 10-20/100"],
            &["Content-Range: bytes 11-19/100"],
            &["Content-Range: bytes 10-19"],
            &["Content-Range: bytes */100"],
            &["Content-Range: bytes 10-14/15"],
            &["Content-Range: bytes 10-19/100", "Content-Length: 11"],
            &["Content-Range: bytes 10-19/100", "Content-Encoding: gzip"],
            &[],
        ] {
            assert_eq!(asked(10, 10, 206, lines).unwrap_err().kind(), ErrorKind::Range, "{lines:?}");
        }
    }

    #[test]
    fn a_200_is_accepted_for_the_whole_object_only() {
        assert_eq!(asked(0, 100, 200, &["Content-Length: 100"]).unwrap(), Reply { len: 100, total: Some(100) });
        assert_eq!(asked(0, 100, 200, &[]).unwrap(), Reply { len: 100, total: None });
        for (start, len, lines) in
            [(10, 10, &["Content-Length: 100"][..]), (0, 10, &["Content-Length: 100"]), (1, 99, &[])]
        {
            let error = asked(start, len, 200, lines).unwrap_err();
            assert!(error.message().contains("maybe the server doesn't support file ranges?"), "{error}");
        }
        assert_eq!(asked(0, 1, 204, &[]).unwrap_err().kind(), ErrorKind::Http);
    }

    #[test]
    fn of_s3_a_200_that_is_labelled_as_the_range_is_the_range() {
        let check = |start, len, lines: &[&str]| of_s3_range(ByteRange { start, len }, &head(200, lines));
        let reply = check(10, 10, &["Content-Range: bytes 10-19/100", "Content-Length: 10"]).unwrap();
        assert_eq!(reply, Reply { len: 10, total: Some(100) });
        assert_eq!(check(0, 100, &["Content-Length: 100"]).unwrap().len, 100);
        for lines in [
            &["Content-Range: bytes 10-19/100", "Content-Length: 100"][..],
            &["Content-Range: bytes 10-19/100"],
            &["Content-Range: bytes 0-9/100", "Content-Length: 10"],
            &["Content-Length: 10"],
            &["Content-Range: bytes 10-19/100", "Content-Length: 10", "Content-Encoding: gzip"],
        ] {
            assert_eq!(check(10, 10, lines).unwrap_err().kind(), ErrorKind::Range, "{lines:?}");
        }
        assert!(
            asked(10, 10, 200, &["Content-Range: bytes 10-19/100", "Content-Length: 10"]).is_err(),
            "of HTTP it is not"
        );
    }

    #[test]
    fn the_end_is_what_the_reply_says_it_is() {
        let here = |start, len, total| Some(Tail::Here { range: ByteRange { start, len }, total });
        for (status, lines, want) in [
            (206, &["Content-Range: bytes 90-99/100", "Content-Length: 10"][..], here(90, 10, Some(100))),
            (206, &["Content-Range: bytes 90-99/100"], here(90, 10, Some(100))),
            (206, &["Content-Range: bytes 0-6/7"], here(0, 7, Some(7))),
            (206, &["Content-Range: bytes 90-99/*"], here(90, 10, None)),
            (200, &["Content-Length: 7"], here(0, 7, Some(7))),
            (200, &["Content-Length: 10"], here(0, 10, Some(10))),
            // Another range, but the size is known.
            (206, &["Content-Range: bytes 0-10/100"], Some(Tail::Size(100))),
            (206, &["Content-Range: bytes 90-98/100"], Some(Tail::Size(100))),
            (206, &["Content-Range: bytes 90-99/100", "Content-Length: 11"], Some(Tail::Size(100))),
            (200, &["Content-Length: 11"], Some(Tail::Size(11))),
            (200, &["Content-Length: 0"], Some(Tail::Size(0))),
            (206, &["Content-Range: bytes 90-98/*"], Some(Tail::Unknown)),
            // Of an object of 10 bytes, or the start of any.
            (206, &["Content-Range: bytes 0-9/*", "Content-Length: 10"], Some(Tail::Unknown)),
            (206, &["Content-Range: pages 1-2/3"], Some(Tail::Unknown)),
            (206, &[], Some(Tail::Unknown)),
            (200, &[], Some(Tail::Unknown)),
            (200, &["Content-Range: bytes 90-99/100", "Content-Length: 10"], Some(Tail::Unknown)),
            (206, &["Content-Range: bytes 90-99/100", "Content-Encoding: gzip"], None),
            (204, &[], None),
        ] {
            assert_eq!(last(10, &head(status, lines), false).ok(), want, "{status} {lines:?}");
        }
        let labelled = head(200, &["Content-Range: bytes 90-99/100", "Content-Length: 10"]);
        assert_eq!(last(10, &labelled, true).ok(), here(90, 10, Some(100)));
    }

    #[test]
    fn a_size_is_learned_from_head_or_from_the_first_byte() {
        for (probe, status, lines, want) in [
            (false, 200, &["Content-Length: 7"][..], Stat::Size(7)),
            (false, 200, &["Content-Length: 0"], Stat::Size(0)),
            (false, 200, &[], Stat::Probe),
            (false, 200, &["Content-Length: 7", "Transfer-Encoding: chunked"], Stat::Probe),
            (false, 200, &["Content-Length: 7", "Content-Encoding: gzip"], Stat::Probe),
            (false, 403, &[], Stat::Probe),
            (false, 405, &[], Stat::Probe),
            (false, 501, &[], Stat::Probe),
            (true, 206, &["Content-Range: bytes 0-0/4096"], Stat::Size(4096)),
            (true, 416, &["Content-Range: bytes */0"], Stat::Size(0)),
            (true, 200, &["Content-Length: 9"], Stat::Size(9)),
            (true, 200, &["Content-Length: 1", "Content-Range: bytes 0-0/4096"], Stat::Size(4096)),
        ] {
            assert_eq!(stat(probe, &head(status, lines)).unwrap(), want, "{probe} {status} {lines:?}");
        }
        for (probe, status, lines, want) in [
            (false, 404, &[][..], ErrorKind::NotFound),
            (false, 503, &[], ErrorKind::Unavailable),
            (true, 403, &[], ErrorKind::PermissionDenied),
            (true, 206, &["Content-Range: bytes 0-0/*"], ErrorKind::Range),
            (true, 206, &[], ErrorKind::Range),
            (true, 200, &[], ErrorKind::Range),
            (true, 416, &[], ErrorKind::Range),
        ] {
            assert_eq!(stat(probe, &head(status, lines)).unwrap_err().kind(), want, "{probe} {status} {lines:?}");
        }
    }
}
