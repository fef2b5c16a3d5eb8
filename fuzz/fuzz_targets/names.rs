//! Names of S3 and WebHDFS objects, opened as every kind: no panic, no secret in a message, and the key that was given is the
//! key that is asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raskio::credentials::Secret;
use raskio::endpoint::site::{Host, Site};
use raskio::endpoint::{self, KINDS};
use raskio::object::ObjectOptions;
use raskio::plan::ByteRange;
use raskio::sys::curl::Url;
use std::sync::Arc;

const SECRET: &str = "s3cr3tW0rd";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.to_ascii_lowercase().contains(&SECRET.to_ascii_lowercase()) {
        return;
    }
    let (name, other) = text.split_once('\n').unwrap_or((text, ""));
    let site = Site::new(Arc::new(|_| None), Host::default());
    let options = |endpoint| ObjectOptions {
        endpoint,
        region: (!other.is_empty()).then(|| other.to_owned()),
        endpoint_url: Some("http://service.test:9000/base/".into()),
        access_key_id: Some("AKIDEXAMPLE".into()),
        secret_access_key: Some(Secret::new(SECRET)),
        session_token: Some(Secret::new(SECRET)),
        user_name: (!other.is_empty()).then(|| other.to_owned()),
        ..ObjectOptions::default()
    };
    endpoint::infer(name);
    for kind in KINDS.iter().map(|kind| Some(kind.number)).chain([None]) {
        match endpoint::open(&site, name, &options(kind)) {
            Ok(endpoint) => {
                assert!(!endpoint.name().contains(SECRET));
                let target = endpoint.target();
                let range = ByteRange { start: 5, len: 7 };
                for wire in [endpoint.get(&target, range), endpoint.stat(&target, false), endpoint.stat(&target, true)]
                {
                    let Ok(wire) = wire else { continue };
                    let url = wire.url().to_str().expect("URLs are text");
                    assert!(Url::parse(url).is_ok(), "{name:?} is asked for as {url:?}");
                    let dialled = wire.dialled().expect("a URL that was parsed");
                    let dialled =
                        (dialled.url.to_bytes(), dialled.target.as_deref().map_or(&[][..], |path| path.to_bytes()));
                    let whole = url.split('#').next().unwrap_or_default();
                    assert!(
                        [dialled.0, dialled.1].concat().starts_with(whole.as_bytes()),
                        "{url:?} is dialled as {dialled:?}"
                    );
                    for header in &wire.target.headers {
                        assert!(!header.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n')), "{header:?}");
                    }
                }
            }
            Err(error) => assert!(!error.message().contains(SECRET), "{error}"),
        }
    }
    // What is behind the bucket's slash comes back from the wire as it was.
    let key = name;
    let options = ObjectOptions { region: None, user_name: None, ..options(None) };
    if let Ok(endpoint) = endpoint::open(&site, &format!("s3://bucket/{key}"), &options) {
        let url = endpoint.target().url.to_str().expect("text").to_owned();
        let path = Url::parse(&url).expect("a URL").path();
        let sent = path.strip_prefix("/base/bucket/").unwrap_or_else(|| panic!("{url:?}"));
        assert_eq!(decoded(sent), key.as_bytes(), "{url:?}");
    }
});

fn decoded(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' {
            out.push(u8::from_str_radix(&text[at + 1..at + 3], 16).expect("hex"));
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}
