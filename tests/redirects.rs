//! Redirects are followed for reads and stats alike, remembered, bounded, and never carry secrets away.

mod support;

use raskio::error::ErrorKind;
use raskio::object::ObjectOptions;
use raskio_testserver::{Object, Reply, Server, any, head};
use support::{TestClient, for_both_backends, read, read_fails, stat};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/final", Object::pattern(len));
    server
}

fn paths(server: &Server) -> Vec<String> {
    server.log().iter().map(|request| format!("{} {}", request.method, request.target)).collect()
}

#[test]
fn user_and_password_of_the_url_stay_at_home_and_are_still_there_after_a_redirect() {
    for_both_backends(|backend| {
        let (server, other, client) = (server_of(100), server_of(100), TestClient::new(backend));
        server.script("/relative", [Reply::redirect(302, "/final")]);
        server.script("/whole", [Reply::redirect(302, &server.url("/final"))]);
        server.script("/away", [Reply::redirect(302, &other.url("/back"))]);
        other.script("/back", [Reply::redirect(302, &server.url("/final"))]);
        for path in ["/relative", "/whole", "/away"] {
            server.reset_counts();
            let url = server.url(path).replacen("//", "//us%40r:s3cr3t%3A@", 1);
            read(&client.open(&url), 0, 100);
            for request in server.log() {
                // us@r:s3cr3t:
                assert_eq!(request.header("Authorization"), Some("Basic dXNAcjpzM2NyM3Q6"), "{}", request.target);
            }
            assert_eq!(server.requests(), 2);
        }
        assert!(other.log().iter().all(|request| request.header("Authorization").is_none()));
    });
}

/// Case 9.
#[test]
fn reads_and_stats_follow_every_kind_of_redirect() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        for status in [301, 302, 303, 307, 308] {
            server.reset_counts();
            server.script("/data", [Reply::redirect(status, &server.url("/final"))]);
            assert_eq!(stat(&client.open(&server.url("/data"))).unwrap(), 100);
            read(&client.open(&server.url("/data")), 10, 20);
            assert_eq!(paths(&server), ["HEAD /data", "HEAD /final", "GET /data", "GET /final"], "{status}");
            assert_eq!(server.log()[3].range_text(), Some("10-29"));
        }
    });
}

#[test]
fn a_relative_redirect_is_resolved_against_where_it_came_from() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.put("/dir/sub/x y", Object::pattern(100));
        for (from, location, to) in [
            ("/dir/data", "sub/x y", "/dir/sub/x%20y"),
            ("/dir/data", "/final?a=1", "/final?a=1"),
            ("/dir/deep/data", "../sub/x%20y", "/dir/sub/x%20y"),
        ] {
            server.reset_counts();
            server.script(from, [Reply::redirect(302, location)]);
            read(&client.open(&server.url(from)), 0, 100);
            assert_eq!(paths(&server)[1], format!("GET {to}"));
        }
    });
}

#[test]
fn redirects_are_counted_anew_for_each_attempt() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        for (from, to) in [("/data", "/1"), ("/1", "/2"), ("/2", "/3"), ("/3", "/final")] {
            server.script(from, [Reply::redirect(302, to)]);
        }
        // Three attempts of four redirects each, and ten are the most that one may follow.
        server.script("/final", [Reply::object().reset_after(10), Reply::object().reset_after(10), Reply::object()]);
        assert_eq!(read(&client.open(&server.url("/data")), 0, 100).attempts, 15);
    });
}

#[test]
fn the_goal_is_remembered_per_object() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::redirect(307, "/final")]);
        let object = client.open(&server.url("/data"));
        stat(&object).unwrap();
        read(&object, 0, 10);
        read(&object, 10, 10);
        assert_eq!(paths(&server), ["HEAD /data", "HEAD /final", "GET /final", "GET /final"]);
        server.reset_counts();
        read(&client.open(&server.url("/data")), 0, 10);
        assert_eq!(paths(&server), ["GET /data", "GET /final"], "another object starts at its own URL");
    });
}

#[test]
fn a_remembered_goal_is_forgotten_when_it_refuses() {
    for_both_backends(|backend| {
        for status in [401, 403, 404] {
            let (server, client) = (server_of(100), TestClient::new(backend));
            server.put("/second", Object::pattern(100));
            server.script("/data", [Reply::redirect(302, "/final"), Reply::redirect(302, "/second")]);
            server.script("/final", [Reply::object(), Reply::status(status)]);
            let object = client.open(&server.url("/data"));
            for offset in [0, 10, 20] {
                read(&object, offset, 10);
            }
            assert_eq!(
                paths(&server),
                ["GET /data", "GET /final", "GET /final", "GET /data", "GET /second", "GET /second"],
                "{status}"
            );
            assert_eq!(client.stats().requests_retried, 0, "going back is no retry");
        }
    });
}

#[test]
fn a_goal_that_refuses_at_once_is_the_answer() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::redirect(302, "/final")]);
        server.script("/final", [Reply::status(403)]);
        let object = client.open(&server.url("/data"));
        read_fails(&object, 0, 10, ErrorKind::PermissionDenied, &["403"]);
        assert_eq!(paths(&server), ["GET /data", "GET /final"]);
        // Remembered, refused, forgotten, refused again: two visits and no more.
        server.script("/final", [Reply::object(), Reply::status(404)]);
        read(&object, 0, 10);
        server.reset_counts();
        read_fails(&object, 0, 10, ErrorKind::NotFound, &[]);
        assert_eq!(paths(&server), ["GET /final", "GET /data", "GET /final"]);
    });
}

#[test]
fn ten_redirects_are_followed_and_no_more() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        for n in 0..10 {
            server.script(format!("/hop{n}").as_str(), [Reply::redirect(302, &format!("/hop{}", n + 1))]);
        }
        server.put("/hop10", Object::pattern(100));
        read(&client.open(&server.url("/hop0")), 0, 100);
        assert_eq!(server.requests(), 11);

        server.script("/loop", [Reply::redirect(302, "/loop")]);
        for wanted in [false, true] {
            server.reset_counts();
            let object = client.open(&server.url("/loop"));
            if wanted {
                let error = stat(&object).unwrap_err();
                assert_eq!((error.kind(), error.http_status()), (ErrorKind::Http, 302), "{error}");
            } else {
                read_fails(&object, 0, 10, ErrorKind::Http, &["more than 10 redirects", "/loop"]);
            }
            assert_eq!(server.requests(), 11);
        }
    });
}

#[test]
fn headers_of_the_caller_stay_with_their_origin() {
    for_both_backends(|backend| {
        let (first, other) = (server_of(100), server_of(100));
        let client = TestClient::new(backend);
        let headers = vec!["X-Token: s3cr3t".into(), "Authorization: Bearer s3cr3t".into()];
        let options = ObjectOptions { headers, ..ObjectOptions::default() };
        // Within the origin, then to another port.
        first.script("/data", [Reply::redirect(302, "/next")]);
        first.script("/next", [Reply::redirect(302, &other.url("/final"))]);
        for read_it in [true, false] {
            first.reset_counts();
            other.reset_counts();
            let object = client.0.open(&first.url("/data"), options.clone()).unwrap();
            if read_it {
                drop(read(&object, 0, 100))
            } else {
                assert_eq!(stat(&object).unwrap(), 100)
            }
            for request in first.log() {
                assert_eq!(request.header("X-Token"), Some("s3cr3t"), "{}", request.target);
                assert_eq!(request.header("Authorization"), Some("Bearer s3cr3t"), "{}", request.target);
            }
            assert_eq!((first.requests(), other.requests()), (2, 1));
            let head = String::from_utf8(other.log()[0].raw_head.clone()).unwrap();
            assert!(!head.contains("s3cr3t") && !head.to_ascii_lowercase().contains("x-token"), "{head}");
        }
    });
}

#[test]
fn the_password_of_a_url_stays_with_its_origin() {
    for_both_backends(|backend| {
        let (first, other) = (server_of(100), server_of(100));
        let client = TestClient::new(backend);
        first.script("/data", [Reply::redirect(302, &other.url("/final"))]);
        let url = first.url("/data").replace("http://", "http://user:s3cr3t@");
        read(&client.open(&url), 0, 100);
        // base64 of user:s3cr3t
        assert_eq!(first.log()[0].header("Authorization"), Some("Basic dXNlcjpzM2NyM3Q="));
        assert_eq!(other.log()[0].header("Authorization"), None);
    });
}

#[test]
fn a_redirect_to_another_protocol_is_refused() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        for location in ["ftp://127.0.0.1/final", "file:///etc/hostname", "gopher://127.0.0.1/"] {
            server.reset_counts();
            server.script("/data", [Reply::redirect(302, location)]);
            let object = client.open(&server.url("/data"));
            read_fails(&object, 0, 10, ErrorKind::Http, &["not followed", "leaves http"]);
            let error = stat(&object).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Http, "{error}");
            assert_eq!(server.requests(), 2);
        }
    });
}

#[test]
fn a_redirect_status_without_a_location_is_an_error() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script(any(), [Reply::status(302)]);
        let error = read_fails(&client.open(&server.url("/data")), 0, 10, ErrorKind::Http, &["302"]);
        assert_eq!(error.http_status(), 302);
        assert_eq!(server.requests(), 1);
    });
}

#[test]
fn a_goal_that_answers_get_but_not_head_is_measured_there() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::redirect(302, "/final")]);
        server.script(head("/final"), [Reply::status(403)]);
        assert_eq!(stat(&client.open(&server.url("/data"))).unwrap(), 100);
        assert_eq!(server.ranges().last().unwrap(), "0-0");
    });
}

#[test]
fn a_read_whose_goal_fails_starts_at_the_objects_own_url_again() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.put("/healthy", Object::pattern(100));
        server.script("/data", [Reply::redirect(302, "/final"), Reply::redirect(302, "/healthy")]);
        server.script("/final", [Reply::status(503)]);
        read(&client.open(&server.url("/data")), 0, 100);
        assert_eq!(paths(&server), ["GET /data", "GET /final", "GET /data", "GET /healthy"]);
    });
}
