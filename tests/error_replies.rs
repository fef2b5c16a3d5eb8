//! An error reply is told in the server's own words, once, and costs no connection unless it is a long one.

mod support;

use raskio::error::ErrorKind;
use raskio_testserver::{Object, Reply, Server};
use support::{TestClient, for_both_backends, read, read_fails};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

/// One thread, so that the second read meets the first one's connection.
fn client(backend: raskio::config::Backend) -> TestClient {
    TestClient::with(backend, |options| options.num_threads = Some(1))
}

/// Case 15.
#[test]
fn an_error_status_is_one_request_and_keeps_the_connection() {
    for_both_backends(|backend| {
        for (status, kind) in [
            (404, ErrorKind::NotFound),
            (403, ErrorKind::PermissionDenied),
            (400, ErrorKind::Http),
            (416, ErrorKind::Range),
            (409, ErrorKind::Http),
        ] {
            let (server, client) = (server_of(100), client(backend));
            server.script("/bad", [Reply::status(status)]);
            let bad = client.open(&server.url("/bad"));
            let error = read_fails(&bad, 0, 10, kind, &["/bad", &status.to_string()]);
            assert_eq!(error.http_status(), status);
            assert_eq!(server.requests(), 1);
            read(&client.open(&server.url("/data")), 0, 100);
            assert_eq!((server.requests(), server.connections()), (2, 1), "{status}");
            let stats = client.stats();
            assert_eq!((stats.connections_opened, stats.connections_reused), (1, 1));
        }
    });
}

#[test]
fn the_servers_words_are_in_the_message_and_its_markup_is_not() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), client(backend));
        let xml = "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>The key is gone.</Message>\
                   <AWSAccessKeyId>AKIAS3CR3T</AWSAccessKeyId></Error>";
        for (body, words) in [
            (xml, "NoSuchKey: The key is gone."),
            ("<html><head><title>404 Not Found</title></head></html>", "404 Not Found"),
            ("there is\r\nnothing here", "there is\\r\\nnothing here"),
        ] {
            server.script("/bad", [Reply::status(404).body(body)]);
            let error = read_fails(&client.open(&server.url("/bad")), 0, 10, ErrorKind::NotFound, &[words]);
            let message = error.message();
            assert!(!message.contains('<') && !message.contains('\n') && !message.contains("AKIA"), "{message}");
        }
    });
}

#[test]
fn an_error_body_keeps_the_connection_however_it_is_sent() {
    for_both_backends(|backend| {
        for reply in [
            Reply::status(404).body(vec![b'x'; 40 << 10]),
            Reply::status(404).body(vec![b'x'; 40 << 10]).chunked(),
            Reply::status(404).body(""),
            Reply::status(404).body("").chunked(),
            Reply::status(404).with_status(204),
        ] {
            let (server, client) = (server_of(100), client(backend));
            server.script("/bad", [reply]);
            assert!(!support::start(&client.open(&server.url("/bad")), 0, 10).wait().error().message().is_empty());
            read(&client.open(&server.url("/data")), 0, 100);
            assert_eq!((server.requests(), server.connections()), (2, 1));
        }
    });
}

#[test]
fn a_long_error_body_costs_its_connection_and_not_the_time_to_read_it() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), client(backend));
        // A GiB of error page, by its length and without end.
        for reply in [Reply::status(404), Reply::status(404).chunked()] {
            server.reset_counts();
            server.script("/bad", [reply.body(raskio_testserver::Body::pattern(1 << 30))]);
            let error = read_fails(&client.open(&server.url("/bad")), 0, 10, ErrorKind::NotFound, &["404"]);
            assert!(error.message().len() < 1000, "{error}");
            read(&client.open(&server.url("/data")), 0, 100);
            assert_eq!(server.requests(), 2);
            assert_eq!(server.log()[1].nth_on_connection, 0, "on a connection of its own");
            assert!(server.wait_for(|counts| counts.aborted == 1, support::LONG), "the long body is not read on");
        }
    });
}

#[test]
fn an_error_body_that_is_cut_or_stalls_does_not_hide_the_status() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.stall_timeout_ms = Some(500));
        let body = || Reply::status(404).body("only the first words arrive, then nothing");
        for reply in [body().close_after(14), body().reset_after(14), body().stall_after(14)] {
            server.reset_counts();
            server.script("/bad", [reply]);
            let error = read_fails(&client.open(&server.url("/bad")), 0, 10, ErrorKind::NotFound, &["404"]);
            assert_eq!(error.http_status(), 404);
            assert_eq!(server.requests(), 1);
        }
    });
}

#[test]
fn a_body_where_none_is_allowed_and_none_where_one_is_due() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), client(backend));
        let object = client.open(&server.url("/data"));
        // 204 and 304 have no body; neither is the range that was asked for.
        for status in [204, 304] {
            server.reset_counts();
            server.script("/data", [Reply::object().with_status(status).without_header("Content-Length")]);
            let error = support::start(&object, 0, 10).wait();
            assert_eq!(error.error().http_status(), status);
            assert_eq!(server.requests(), 1, "{status}");
        }
    });
}
