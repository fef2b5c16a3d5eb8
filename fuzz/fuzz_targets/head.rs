//! The head of a response: whatever a server sends, what is accepted delivers the bytes that were asked for, no others.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raskio::endpoint::Stat;
use raskio::endpoint::check;
use raskio::endpoint::head::{ContentRange, ResponseHead, is_strong, parse_etag};
use raskio::plan::ByteRange;

fuzz_target!(|data: &[u8]| {
    let Some((asked, lines)) = data.split_at_checked(3) else { return };
    // Small numbers, so that what the server says has a chance to fit.
    let range = ByteRange { start: asked[0].into(), len: u64::from(asked[1]) + 1 };
    let mut head = ResponseHead::default();
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        head.line(line);
        if let Ok(text) = std::str::from_utf8(line) {
            content_range(text);
            if let Some(etag) = parse_etag(text) {
                assert!(
                    etag.ends_with('"')
                        && is_strong(etag) != etag.starts_with("W/")
                        && !etag.contains(['\r', '\n', '\0'])
                );
            }
        }
    }
    assert!(head.content_range_words().chars().count() <= 500);
    if let Ok(reply) = check::of_range(range, &head) {
        assert!(reply.len <= range.len && reply.len > 0, "{reply:?} for {range}");
        assert!(head.content_encoding.is_none(), "{head:?}");
        assert!(reply.total.is_none_or(|total| total >= range.start + reply.len), "{reply:?} for {range}");
        assert!(head.status == 206 || (head.status == 200 && range.start == 0 && reply.len == range.len), "{head:?}");
    }
    let probe = asked[2] & 1 == 1;
    match check::stat(probe, &head) {
        Ok(Stat::Size(_)) => assert!(matches!(head.status, 200 | 206) || (probe && head.status == 416), "{head:?}"),
        Ok(Stat::Probe) => assert!(!probe, "a probe must not ask for another"),
        Err(error) => assert!(!error.message().is_empty()),
    }
    head.clear();
    assert_eq!((head.status, head.complete, head.total()), (0, false, None));
});

fn content_range(text: &str) {
    let value = text.split_once(':').map_or(text, |(_, value)| value);
    match ContentRange::parse(value.as_bytes()) {
        Some(range @ ContentRange::Bytes { first, last, total }) => {
            assert!(first <= last && total.is_none_or(|total| last < total), "{value:?}");
            assert_eq!(range.total(), total);
        }
        Some(ContentRange::Unsatisfied { .. }) => assert!(value.contains('*'), "{value:?}"),
        None => {}
    }
}
