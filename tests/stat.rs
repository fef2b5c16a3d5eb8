//! The size is learned in whatever way the server gives it, or the error says that it is unknown.

mod support;

use raskio::error::ErrorKind;
use raskio::object::ObjectOptions;
use raskio_testserver::{Object, Reply, Server, get, head};
use support::{TestClient, child, for_both_backends, read, stat};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

#[test]
fn head_tells_the_size_and_the_etag() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(12_345), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        assert_eq!(stat(&object).unwrap(), 12_345);
        assert_eq!(object.size(), Some(12_345));
        assert!(object.info().etag.is_some());
        assert_eq!((server.heads(), server.gets()), (1, 0));
    });
}

/// Case 10, with a size that no 403 page has. The presigned URL's query must arrive as it is.
#[test]
fn a_presigned_url_that_refuses_head_is_measured_by_its_first_byte() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(4096), TestClient::new(backend));
        server.script(head("/data"), [Reply::status(403)]);
        let object = client.open(&server.url("/data?X-Amz-Signature=abc%2Fdef&X-Amz-Expires=60"));
        assert_eq!(stat(&object).unwrap(), 4096);
        let log = server.log();
        assert_eq!((server.heads(), server.gets()), (0, 1), "what is signed for GET is asked for by GET");
        assert_eq!(log[0].range_text(), Some("0-0"));
        assert_eq!(log[0].target, "/data?X-Amz-Signature=abc%2Fdef&X-Amz-Expires=60");
        // Opened as HTTP, it is found out.
        server.reset_counts();
        let options = ObjectOptions { endpoint: Some(1), ..ObjectOptions::default() };
        let url = server.url("/data?X-Amz-Signature=abc%2Fdef&X-Amz-Expires=60");
        assert_eq!(stat(&client.0.open(&url, options).unwrap()).unwrap(), 4096);
        assert_eq!((server.heads(), server.gets()), (1, 1));
    });
}

/// The other half of case 10: RaskIO, verbose or not, never writes on stdout.
#[test]
fn nothing_is_printed_on_stdout() {
    const NAME: &str = "nothing_is_printed_on_stdout";
    if child::is_child() {
        let server = server_of(4096);
        server.script(head("/data"), [Reply::status(403)]);
        server.script(get("/data"), [Reply::status(503), Reply::object()]);
        for backend in [raskio::config::Backend::EasyThreadpool, raskio::config::Backend::MultiPoll] {
            let mut config = support::config(backend, |_| {});
            config.verbose = true;
            let client = support::TestClient::build(config, None);
            assert_eq!(stat(&client.open(&server.url("/data"))).unwrap(), 4096);
            read(&client.open(&server.url("/data")), 0, 10);
        }
        return;
    }
    let mut command = child::again(NAME);
    let output = child::run(command.env("RUST_LOG", "trace").env("KVIKIO_REMOTE_VERBOSE", "1"));
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{out}");
    // What is left is the test harness's own.
    let foreign: Vec<&str> = out
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("running 1 test") && !line.starts_with("test "))
        .filter(|line| !line.starts_with("ok") && *line != ".")
        .collect();
    assert!(foreign.is_empty(), "on stdout: {foreign:?}");
}

/// Case 11.
#[test]
fn a_head_without_length_leads_to_the_first_byte() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(4096), TestClient::new(backend));
        for (i, reply) in [
            Reply::object().without_header("Content-Length"),
            Reply::status(405),
            Reply::object().chunked(),
            Reply::status(400),
            Reply::status(501),
            Reply::object().gzip_always(),
        ]
        .into_iter()
        .enumerate()
        {
            server.script(head("/data"), [reply]);
            assert_eq!(stat(&client.open(&server.url("/data"))).unwrap(), 4096, "reply {i}");
            assert_eq!((server.heads(), server.gets()), (i as u64 + 1, i as u64 + 1));
        }
        assert!(server.ranges().iter().all(|range| range == "0-0"));
    });
}

#[test]
fn a_first_byte_that_comes_as_the_whole_object_tells_its_length() {
    for_both_backends(|backend| {
        // Large enough that reading all of it for its length would be seen.
        let (server, client) = (server_of(64 << 20), TestClient::new(backend));
        server.script(head("/data"), [Reply::status(405)]);
        server.script(get("/data"), [Reply::object().ignore_range()]);
        assert_eq!(stat(&client.open(&server.url("/data"))).unwrap(), 64 << 20);
        assert!(client.stats().bytes_received < 1 << 20, "{:?}", client.stats());
    });
}

/// Case 12.
#[test]
fn a_size_that_nobody_tells_is_an_error_that_says_so() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(4096), TestClient::new(backend));
        server.script(head("/data"), [Reply::status(405)]);
        for reply in [
            Reply::object().unknown_total(),
            Reply::object().without_header("Content-Range"),
            Reply::object().ignore_range().chunked(),
            Reply::object().header("Content-Range", "bytes 7-7/4096"),
        ] {
            server.script(get("/data"), [reply]);
            let object = client.open(&server.url("/data"));
            let error = stat(&object).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Range, "{error}");
            assert!(error.message().contains("size is unknown"), "{error}");
            assert_eq!(object.size(), None);
        }
    });
}

#[test]
fn what_head_says_for_good_is_not_asked_again() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(4096), TestClient::new(backend));
        for (status, kind) in
            [(404, ErrorKind::NotFound), (410, ErrorKind::NotFound), (401, ErrorKind::PermissionDenied)]
        {
            server.reset_counts();
            server.script("/data", [Reply::status(status)]);
            let error = stat(&client.open(&server.url("/data"))).unwrap_err();
            assert_eq!((error.kind(), error.http_status()), (kind, status), "{error}");
            assert_eq!(server.requests(), 1, "{status}");
        }
    });
}

#[test]
fn a_stat_is_tried_again_like_a_read() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(4096), TestClient::new(backend));
        server.script(head("/data"), [Reply::status(503), Reply::close(), Reply::object()]);
        assert_eq!(stat(&client.open(&server.url("/data"))).unwrap(), 4096);
        assert_eq!((server.heads(), server.gets()), (3, 0));
    });
}

#[test]
fn a_refused_object_stays_refused_when_the_first_byte_is_too() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(4096), TestClient::new(backend));
        server.script("/data", [Reply::status(403).body("<Error><Code>AccessDenied</Code></Error>")]);
        let error = stat(&client.open(&server.url("/data"))).unwrap_err();
        assert_eq!((error.kind(), error.http_status()), (ErrorKind::PermissionDenied, 403));
        assert!(error.message().contains("AccessDenied"), "{error}");
        assert_eq!((server.heads(), server.gets()), (1, 1));
    });
}
