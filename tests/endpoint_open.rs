//! What a URL is taken for, and what is refused before anything is sent: no network here.

mod support;

use raskio::config::Backend;
use raskio::credentials::Secret;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, infer_endpoint};
use support::TestClient;

const HTTP: u32 = 1;
const S3: u32 = 2;
const S3_PUBLIC: u32 = 3;
const S3_PRESIGNED: u32 = 4;
const WEBHDFS: u32 = 5;
const FILE: u32 = 6;

/// URLs, and the kind that each stands for.
const URLS: &[(&str, u32)] = &[
    ("s3://bucket/key", S3),
    ("S3://bucket/a/b/c", S3),
    ("s3://bucket//lead", S3),
    ("s3://bucket/a b?c#d%", S3),
    ("https://bucket.s3.eu-west-1.amazonaws.com/key", S3),
    ("https://s3.eu-west-1.amazonaws.com/bucket/key", S3),
    ("https://bucket.s3.amazonaws.com/key", S3),
    ("https://s3.amazonaws.com/bucket/key", S3),
    ("https://bucket.s3-us-west-2.amazonaws.com/a/b", S3),
    ("https://s3-us-west-2.amazonaws.com/bucket/key?versionId=x", S3),
    ("https://my.dotted.bucket.s3.us-east-1.amazonaws.com/key", S3),
    ("https://bucket.s3.cn-north-1.amazonaws.com.cn/key", S3),
    ("https://bucket.s3.dualstack.us-east-1.amazonaws.com/key", S3),
    ("http://bucket.s3.amazonaws.com/key", S3),
    ("https://bucket.s3.amazonaws.com/", HTTP),
    ("https://s3.amazonaws.com/bucket", HTTP),
    ("https://bucket.s3.amazonaws.com.evil.example/key", HTTP),
    ("https://bucket.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0", S3_PRESIGNED),
    ("http://127.0.0.1:9000/bucket/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0", S3_PRESIGNED),
    ("https://acc.r2.cloudflarestorage.com/b/k?x-id=GetObject&X-Amz-Signature=0", S3_PRESIGNED),
    ("https://storage.googleapis.com/b/k?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature=0", S3_PRESIGNED),
    ("https://b.s3.amazonaws.com/k?AWSAccessKeyId=A&Signature=0&Expires=1", S3_PRESIGNED),
    ("https://storage.googleapis.com/b/k?GoogleAccessId=A&Signature=0&Expires=1", S3_PRESIGNED),
    ("https://h/k?Signature=0", HTTP),
    ("http://namenode:9870/webhdfs/v1/path/file", WEBHDFS),
    ("https://h/webhdfs/v1/path", WEBHDFS),
    ("http://h:1/webhdfs/v1/a b%c", WEBHDFS),
    ("webhdfs://namenode/path", WEBHDFS),
    ("swebhdfs://namenode:9871/a b", WEBHDFS),
    ("http://h:1/webhdfs/v1/", HTTP),
    ("http://h:1/other/webhdfs/v1/x", HTTP),
    ("http://h/", HTTP),
    ("https://user:pass@h:8443/a?b#c", HTTP),
    ("http://[::1]:80/x", HTTP),
    ("HTTP://H/x", HTTP),
    ("s3://", 0),
    ("s3://bucket", 0),
    ("s3://bucket/", 0),
    ("s3:///key", 0),
    ("s3:bucket/key", 0),
    ("ftp://h/x", 0),
    ("gs://bucket/key", 0),
    ("file:///etc/passwd", FILE),
    ("FILE:/etc/passwd", FILE),
    ("/etc/passwd", FILE),
    ("./a", FILE),
    ("../a:b", FILE),
    ("a/b", 0),
    ("files:/a", 0),
    ("http://", 0),
    ("http://h/a b", 0),
    ("http://h/a\nb", 0),
    ("s3://b/k\u{0}", 0),
    ("webhdfs://h/", 0),
    ("", 0),
    ("://", 0),
    (":", 0),
];

#[test]
fn a_url_is_taken_for_what_it_is() {
    let client = TestClient::in_environment(Backend::MultiPoll, &[], |_| {});
    for &(url, kind) in URLS {
        assert_eq!(infer_endpoint(url), kind, "{url:?}");
        match client.0.open(url, ObjectOptions::default()) {
            Ok(object) => assert_eq!(object.info().endpoint, kind, "{url:?}"),
            Err(error) => {
                assert_eq!(kind, 0, "{url:?}: {error}");
                assert!([ErrorKind::InvalidArgument, ErrorKind::Unsupported].contains(&error.kind()), "{error}");
            }
        }
    }
}

#[test]
fn only_allowed_kinds_are_inferred_and_an_explicit_kind_is_taken_at_its_word() {
    let client = TestClient::in_environment(Backend::MultiPoll, &[], |_| {});
    let open = |url: &str, endpoint, allowed: &[u32]| {
        let allowed_endpoints = allowed.iter().fold(0, |mask, kind| mask | 1 << kind);
        client.0.open(url, ObjectOptions { endpoint, allowed_endpoints, ..ObjectOptions::default() })
    };
    let aws = "https://bucket.s3.amazonaws.com/key";
    for (url, allowed, kind) in [
        (aws, &[S3][..], S3),
        (aws, &[S3_PUBLIC], S3_PUBLIC),
        (aws, &[HTTP, S3_PUBLIC], S3_PUBLIC),
        (aws, &[HTTP], HTTP),
        ("s3://b/k", &[S3_PUBLIC], S3_PUBLIC),
        ("http://h/webhdfs/v1/x", &[HTTP], HTTP),
    ] {
        assert_eq!(open(url, None, allowed).unwrap().info().endpoint, kind, "{url} {allowed:?}");
    }
    for (url, allowed) in [(aws, &[WEBHDFS][..]), ("s3://b/k", &[HTTP]), ("http://h/", &[S3, S3_PUBLIC])] {
        let error = open(url, None, allowed).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("allowed_endpoints"), "{error}");
    }
    for (url, kind) in [
        (aws, HTTP),
        (aws, S3_PUBLIC),
        ("http://minio:9000/bucket/key", S3),
        ("http://minio:9000/bucket/key", S3_PUBLIC),
        ("http://knox:8443/gateway/default/webhdfs/v1/x", WEBHDFS),
        ("http://h/x", S3_PRESIGNED),
    ] {
        assert_eq!(open(url, Some(kind), &[]).unwrap().info().endpoint, kind, "{url}");
    }
    for (url, kind, word) in [
        ("s3://b/k", HTTP, "\"s3\""),
        ("s3://b/k", WEBHDFS, "\"s3\""),
        ("webhdfs://h/x", S3, "\"webhdfs\""),
        ("http://h/x", WEBHDFS, "/webhdfs/v1/"),
        ("http://h/", S3, "path is empty"),
        ("http://u:s3cr3t@h/b/k", S3, "user and password"),
        ("http://h/webhdfs/v1/a b", HTTP, "percent-encode"),
        ("http://h/x", 7, "no RASKIO_ENDPOINT_"),
        ("s3://b", S3, "key is empty"),
        ("webhdfs://h", WEBHDFS, "path is empty"),
    ] {
        let error = open(url, Some(kind), &[]).err().unwrap_or_else(|| panic!("{url} as {kind}"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(word) && !error.message().contains("s3cr3t"), "{error}");
    }
}

#[test]
fn what_cannot_be_right_is_named_and_its_secrets_are_not() {
    let client = TestClient::in_environment(Backend::MultiPoll, &[], |_| {});
    let long = format!("http://user:s3cr3t@h/{}", "x".repeat(1 << 20));
    for (url, word) in [
        ("http://user:s3cr3t@h:99999/x", "ort"),
        ("http://user:s3cr3t@/x", ""),
        ("http://h/x?token=s3cr3t\r\nHost: evil", "control character"),
        ("s3://s3cr3t:s3cr3t@bucket/k", "bucket's name"),
        ("http://h/\u{7f}s3cr3t\u{0}?", "control character"),
        ("s3://b/\u{1}", "open it by its http(s) URL"),
        (long.as_str(), "bytes"),
    ] {
        let error = client.0.open(url, ObjectOptions::default()).err().unwrap_or_else(|| panic!("{url}"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let text = error.message();
        assert!(text.contains(word), "{text}");
        assert!(!text.contains("user:s3cr3t") && !text.contains("=s3cr3t") && text.len() < 1500, "{text}");
    }
    type Change = fn(&mut ObjectOptions);
    let changes: [(Change, &str); 14] = [
        (|o| o.headers = vec!["X-A: s3cr3t\nX-B: 1".into()], "X-A"),
        (|o| o.headers = vec!["X A: s3cr3t".into()], "name of a header"),
        (|o| o.bearer_token = Some(Secret::new("s3cr3t token")), "bearer token"),
        (
            |o| {
                o.bearer_token = Some(Secret::new("s3cr3t"));
                o.headers = vec!["authorization: s3cr3t".into()];
            },
            "Authorization",
        ),
        (|o| o.bearer_from_host = true, "bearer callback"),
        (|o| o.proxy = Some("gopher://user:s3cr3t@h".into()), "gopher"),
        (|o| o.proxy = Some("http://user:s3cr3t@h:x".into()), "proxy"),
        (|o| o.unix_socket = Some("s".repeat(108)), "unix_socket"),
        (|o| o.unix_socket = Some("a\0b".into()), "unix_socket"),
        (|o| o.client_key_password = Some(Secret::new("s3cr3t")), "client_key_password"),
        (|o| o.client_certificate = Some("/does/not/exist".into()), "client_certificate"),
        (|o| o.ca_file = Some("/does/not/exist".into()), "ca_file"),
        (|o| o.secret_access_key = Some(Secret::new("s3cr3t")), "S3"),
        (|o| o.access_key_id = Some("s3cr3t".into()), "secret_access_key is not"),
    ];
    for (change, word) in changes {
        let mut options = ObjectOptions::default();
        change(&mut options);
        let error = client.0.open("http://h/x", options).err().unwrap_or_else(|| panic!("{word}"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(word) && !error.message().contains("s3cr3t"), "{word}: {error}");
    }
    let changes: [(Change, &str); 8] = [
        (|o| o.region = Some("a/b".into()), "region"),
        (|o| o.region = Some(String::new()), "region"),
        (|o| o.endpoint_url = Some("ftp://u:s3cr3t@h".into()), "endpoint_url"),
        (|o| o.endpoint_url = Some("http://u:s3cr3t@h".into()), "endpoint_url"),
        (|o| o.endpoint_url = Some("http://h?x=s3cr3t".into()), "endpoint_url"),
        (|o| o.endpoint_url = Some("no url".into()), "endpoint_url"),
        (|o| o.session_token = Some(Secret::new("s3cr3t")), "session_token"),
        (|o| o.headers = vec!["x-amz-date: s3cr3t".into()], "x-amz-date"),
    ];
    for (change, word) in changes {
        let mut options = ObjectOptions::default();
        change(&mut options);
        let error = client.0.open("s3://b/k", options).err().unwrap_or_else(|| panic!("{word}"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(word) && !error.message().contains("s3cr3t"), "{word}: {error}");
    }
}

/// Plain http works on a machine without a single certificate, and looks for none.
#[test]
fn certificates_are_looked_for_only_where_tls_is_used() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let client = TestClient::in_environment(Backend::MultiPoll, &[], move |hooks| {
        hooks.env = Some(Arc::new(move |name: &str| {
            if name.starts_with("SSL_CERT") || name == "CURL_CA_BUNDLE" {
                counter.fetch_add(1, Ordering::SeqCst);
            }
            (name == "CURL_CA_BUNDLE").then(|| "/does/not/exist".into())
        }));
    });
    client.open("http://h/x");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    client.open("https://h/x");
    assert!(asked.load(Ordering::SeqCst) > 0);
}
