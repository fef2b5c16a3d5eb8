//! What services and files answer about credentials and sizes: no panic, and nothing of it in an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raskio::clock;
use raskio::credentials::profile::{FileKind, Profile, read_into};
use raskio::credentials::services;
use raskio::credentials::{Grant, Held};
use raskio::endpoint::s3::sign;
use raskio::endpoint::webhdfs;

fuzz_target!(|data: &[u8]| {
    if let Ok(size) = webhdfs::size(data) {
        assert!(size <= i64::MAX as u64);
    }
    webhdfs::exception(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    for name in ["Code", "Region", "AccessKeyId", "SessionToken"] {
        services::xml_element(text, name);
    }
    match services::from_json(text, "the service") {
        Ok(Grant { held: Held::Keys(keys), .. }) => {
            let header = [Some(&keys.access_key_id), keys.session_token.as_ref()];
            for value in header.into_iter().flatten() {
                assert!(!value.reveal().bytes().any(|byte| byte.is_ascii_control()), "it goes into a header");
            }
        }
        Ok(other) => panic!("not keys: {other:?}"),
        Err(error) => assert!(error.message().starts_with("the service"), "{error}"),
    }
    for kind in [FileKind::Config, FileKind::Credentials] {
        for name in ["default", "lake", ""] {
            read_into(&mut Profile::new(), text, kind, name);
        }
    }
    if let Some(time) = clock::parse_iso8601(text) {
        let seconds = clock::unix_seconds(time);
        assert!(seconds < 300_000_000_000, "{text:?}");
        clock::amz_date(seconds);
    }
    // Paths, queries and headers of requests that are signed.
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let headers = [("host", "h"), ("x-amz-meta", text)];
    let request = sign::Request { method: "GET", path, query, headers: &headers, body_hash: sign::EMPTY_BODY };
    let scope = sign::Scope { access_key_id: "A", secret_access_key: text, region: "r", service: "s3", date: text };
    sign::authorization(&request, &scope);
});
