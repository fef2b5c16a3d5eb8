//! AWS Signature Version 4. Pure: the time is an argument.
//!
//! Written here, over `sha2`, because the two others do not do for S3:
//!
//! - libcurl's `CURLOPT_AWS_SIGV4` fails two kinds of key. 8.22 refuses to work together with `CURLOPT_PATH_AS_IS`, without
//!   which `p/./q` is another key. And a path is signed as it is written, not as S3 reads it: 7.88 and 8.23 got 403 from
//!   rclone's server for URLs with `=`, `+`, `@`, `!*'()` or `&,;:$` in them, which are all right as URLs. It also signs anew
//!   for each request, and wants the secret on each handle.
//! - the crate `aws-sigv4` (1.6.4) asks for Rust 1.94, and brings the `http` crate and parts of the AWS runtime with it.
//!
//! This file is compared with the published test vectors (below), with botocore on thousands of random requests and with
//! two S3 servers (`scripts/stages/endpoints.sh`).
//!
//! A signature covers the method, the path, the query and headers, but not `Range`: S3 does not ask for it. So one
//! signature serves all reads of an object for a while, and the hot path neither hashes nor changes a handle's headers.

use crate::endpoint::percent;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The hash of an empty body, as every GET and HEAD has one.
pub const EMPTY_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What is signed. Header names are in lower case.
pub struct Request<'a> {
    /// `GET`, `HEAD`.
    pub method: &'a str,
    /// The path as it is on the wire.
    pub path: &'a str,
    /// The query as it is on the wire, without its question mark.
    pub query: &'a str,
    /// Names and values, `host` and `x-amz-date` among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// The hash of the body, in hex.
    pub body_hash: &'a str,
}

/// Who signs, where and when.
pub struct Scope<'a> {
    /// The key's name.
    pub access_key_id: &'a str,
    /// The key.
    pub secret_access_key: &'a str,
    /// `us-east-1`.
    pub region: &'a str,
    /// `s3`.
    pub service: &'a str,
    /// `20130524T000000Z`, the value of `x-amz-date`.
    pub date: &'a str,
}

/// The value of `Authorization`.
pub fn authorization(request: &Request<'_>, scope: &Scope<'_>) -> String {
    let (canonical, signed_headers) = canonical_request(request);
    let day = scope.date.get(..8).unwrap_or(scope.date);
    let credential = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{}\n{credential}\n{}", scope.date, hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = hmac(format!("AWS4{}", scope.secret_access_key).as_bytes(), day);
    for part in [scope.region, scope.service, "aws4_request"] {
        key = hmac(&key, part);
    }
    let signature = hex(&hmac(&key, &to_sign));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{credential}, SignedHeaders={signed_headers}, Signature={signature}",
        scope.access_key_id
    )
}

/// The canonical request of S3, and the list of signed headers.
fn canonical_request(request: &Request<'_>) -> (String, String) {
    let mut headers: Vec<(&str, String)> =
        request.headers.iter().map(|(name, value)| (*name, collapsed(value))).collect();
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let signed_headers = names.join(";");
    let path = if request.path.is_empty() { "/" } else { request.path };
    let mut text = format!("{}\n{}\n{}\n", request.method, reencoded_path(path), canonical_query(request.query));
    for (name, value) in &headers {
        let _ = writeln!(text, "{name}:{value}");
    }
    let _ = write!(text, "\n{signed_headers}\n{}", request.body_hash);
    (text, signed_headers)
}

/// Blanks at the ends removed, and runs of them inside made one.
fn collapsed(value: &str) -> String {
    value.split([' ', '\t']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What S3 makes of a path: decoded once, encoded strictly once, neither `//` nor `/./` removed.
fn reencoded_path(path: &str) -> String {
    percent::encoded(&percent::decoded(path.as_bytes()), percent::KEY)
}

fn canonical_query(query: &str) -> String {
    let reencoded = |text: &str| {
        let text = text.replace('+', " ");
        percent::encoded(&percent::decoded(text.as_bytes()), percent::VALUE)
    };
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (reencoded(name), reencoded(value))
        })
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    // RFC 2104: the key fills a block of the hash, or is hashed to do so.
    let mut block = [0u8; 64];
    match block.get_mut(..key.len()) {
        Some(start) => start.copy_from_slice(key),
        None => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of "Authenticating Requests: Using the Authorization Header" in Amazon S3's API reference.
    #[test]
    fn the_examples_of_the_s3_documentation_are_signed_alike() {
        let host = ("host", "examplebucket.s3.amazonaws.com");
        let date = ("x-amz-date", "20130524T000000Z");
        let empty = ("x-amz-content-sha256", EMPTY_BODY);
        let body = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        for (method, path, query, headers, body_hash, want) in [
            (
                "GET",
                "/test.txt",
                "",
                &[host, ("range", "bytes=0-9"), empty, date][..],
                EMPTY_BODY,
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test%24file.text",
                "",
                &[
                    ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                    host,
                    ("x-amz-content-sha256", body),
                    date,
                    ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ],
                body,
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET",
                "/",
                "lifecycle",
                &[host, empty, date],
                EMPTY_BODY,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET",
                "/",
                "max-keys=2&prefix=J",
                &[host, empty, date],
                EMPTY_BODY,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let scope = Scope {
                access_key_id: "AKIAIOSFODNN7EXAMPLE",
                secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                region: "us-east-1",
                service: "s3",
                date: "20130524T000000Z",
            };
            let signed = authorization(&Request { method, path, query, headers, body_hash }, &scope);
            assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"));
            assert!(signed.ends_with(&format!("Signature={want}")), "{method} {path}?{query}: {signed}");
        }
    }

    /// AWS's "Signature Version 4 test suite", the ones that are not about the path (S3 does not normalise it).
    #[test]
    fn the_published_test_suite_is_signed_alike() {
        let host = ("host", "example.amazonaws.com");
        let date = ("x-amz-date", "20150830T123600Z");
        for (query, headers, want) in [
            ("", &[host, date][..], "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            (
                "Param2=value2&Param1=value1",
                &[host, date],
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "",
                &[host, ("my-header1", "value2,value2,value1"), date],
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
            (
                "",
                &[host, ("my-header1", "value1,value2,value3"), date],
                "ba17b383a53190154eb5fa66a1b836cc297cc0a3d70a5d00705980573d8ff790",
            ),
            (
                "",
                &[host, ("my-header1", " value1"), ("my-header2", " \"a   b   c\""), date],
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
        ] {
            let scope = Scope {
                access_key_id: "AKIDEXAMPLE",
                secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                region: "us-east-1",
                service: "service",
                date: "20150830T123600Z",
            };
            let request = Request { method: "GET", path: "/", query, headers, body_hash: EMPTY_BODY };
            let signed = authorization(&request, &scope);
            assert!(signed.ends_with(&format!("Signature={want}")), "{query} {headers:?}: {signed}");
        }
    }

    /// RFC 4231, cases 1, 2 and 6.
    #[test]
    fn the_published_hmac_vectors_come_out() {
        for (key, text, want) in [
            (vec![0x0b; 20], "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe".to_vec(),
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 131],
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac(&key, text)), want);
        }
    }

    #[test]
    fn keys_are_encoded_strictly() {
        for (key, want) in [
            ("date=2025-09-15", "date%3D2025-09-15"),
            ("a+b", "a%2Bb"),
            ("a b", "a%20b"),
            ("50%.bin", "50%25.bin"),
            ("q?x", "q%3Fx"),
            ("h#1", "h%231"),
            ("u-ü", "u-%C3%BC"),
            ("!*'()", "%21%2A%27%28%29"),
            ("a@2x", "a%402x"),
            ("~t", "~t"),
            ("/lead", "/lead"),
            ("x//y", "x//y"),
            ("p/./q", "p/./q"),
        ] {
            assert_eq!(percent::encoded(key.as_bytes(), percent::KEY), want);
            assert_eq!(reencoded_path(want), want, "what is sent is what is signed");
        }
    }

    #[test]
    fn a_path_that_came_encoded_is_signed_as_s3_reads_it() {
        for (wire, want) in [
            ("/b/a=b+c@d", "/b/a%3Db%2Bc%40d"),
            ("/b/a%3db", "/b/a%3Db"),
            ("/b/%2541", "/b/%2541"),
            ("/b/100%", "/b/100%25"),
            ("/b/%zz", "/b/%25zz"),
        ] {
            assert_eq!(reencoded_path(wire), want);
        }
        assert_eq!(canonical_query("b=2&a=x+y%2fz&versionId&c="), "a=x%20y%2Fz&b=2&c=&versionId=");
    }
}
