//! Percent-encoding (RFC 3986): what stands for itself in which place, and every other byte as `%XX`. And back.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode, percent_encode};
use std::borrow::Cow;

/// A value of a query: letters, digits and `-._~` stand for themselves, as AWS's signatures want it.
pub const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A key of S3: slashes too.
pub const KEY: &AsciiSet = &VALUE.remove(b'/');

/// A path of WebHDFS: most of what a path may hold as well, since Hadoop's own clients write it so. Not `+`, which some servers
/// take for a blank.
pub const HDFS_PATH: &AsciiSet = &KEY
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b',')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*');

/// A path of a `file:` URL: whatever can be read and does not end it.
pub const FILE_PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');

/// What somebody took for a URL: whatever can stand in one, and `%`, of which [`encoded_where_needed`] takes care.
const PASTED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// The bytes with those of this set as `%XX`, in upper case, and all that are not ASCII.
pub fn encoded(bytes: &[u8], set: &'static AsciiSet) -> String {
    Cow::from(percent_encode(bytes, set)).into_owned()
}

/// Encodes what cannot stand in a URL. What looks like an escape is one and stays.
pub fn encoded_where_needed(text: &str) -> String {
    let mut parts = text.as_bytes().split(|byte| *byte == b'%');
    let mut out = encoded(parts.next().unwrap_or_default(), PASTED);
    for part in parts {
        out.push_str(if begins_with_code(part) { "%" } else { "%25" });
        out.extend(percent_encode(part, PASTED));
    }
    out
}

/// The bytes with every `%XX` replaced; what is no such code stays as it is.
pub fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    percent_decode(text).into()
}

/// Whether there is a `%` that begins no code.
pub fn has_stray(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'%').skip(1).any(|part| !begins_with_code(part))
}

fn begins_with_code(text: &[u8]) -> bool {
    text.get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back_whatever_stands_for_itself() {
        let every: Vec<u8> = (0..=255).collect();
        for (set, plain) in [
            (VALUE, "-._~"),
            (KEY, "-._~/"),
            (HDFS_PATH, "-._~/=:@,!$'()*"),
            (FILE_PATH, "!\"$&'()*+,-./:;<=>@[\\]^_`{|}~"),
        ] {
            let text = encoded(&every, set);
            assert_eq!(decoded(text.as_bytes()), every);
            for byte in every.iter().copied() {
                let one = encoded(&[byte], set);
                match byte.is_ascii_alphanumeric() || plain.as_bytes().contains(&byte) {
                    true => assert_eq!(one.as_bytes(), [byte]),
                    false => assert_eq!(one, format!("%{byte:02X}")),
                }
            }
        }
    }

    #[test]
    fn what_is_pasted_keeps_its_escapes_and_loses_what_cannot_stand_in_a_url() {
        for (text, want) in [
            ("/a%20b%c", "/a%20b%25c"),
            ("%%41%4", "%25%41%254"),
            ("%", "%25"),
            ("", ""),
            ("%zz%3d", "%25zz%3d"),
            ("a b\"<>\\^`{|}\u{7f}\tü", "a%20b%22%3C%3E%5C%5E%60%7B%7C%7D%7F%09%C3%BC"),
            ("/a?b=c&d#e[f]", "/a?b=c&d#e[f]"),
        ] {
            assert_eq!(encoded_where_needed(text), want);
            assert!(!has_stray(want.as_bytes()));
        }
    }

    #[test]
    fn a_percent_sign_that_begins_no_code_is_seen_and_stays() {
        for text in ["%", "a%", "%4", "%+1", "%%41", "%2%41", "100%/x"] {
            assert!(has_stray(text.as_bytes()), "{text}");
        }
        for text in ["", "a", "%41", "%ff%00", "%2541"] {
            assert!(!has_stray(text.as_bytes()), "{text}");
        }
        assert_eq!(decoded(b"%4%41%zz%Ff%"), &b"%4A%zz\xff%"[..]);
    }
}
