//! Servers that speak old, odd or no HTTP.

mod support;

use raskio_testserver::{Object, Reply, Server, any, get};
use support::{TestClient, for_both_backends, ms, read, stat};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

#[test]
fn what_is_no_http_is_an_error_and_does_no_harm() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(2));
        let object = client.open(&server.url("/data"));
        for reply in [
            Reply::garbage(),
            Reply::raw(*b"\0\0\0\0\0\0\0\0"),
            Reply::raw(*b"HTTP/1.1 \r\n\r\n"),
            Reply::raw(*b"SSH-2.0-OpenSSH_9.2\r\n"),
            Reply::raw(*b"HTTP/1.1 206 OK\r\nContent-Length: -5\r\n\r\n0123456789"),
            Reply::raw(*b"HTTP/1.1 206 OK\r\nContent-Length: 10\r\nContent-Length: 20\r\n\r\n0123456789"),
        ] {
            server.reset_counts();
            server.script(any(), [reply]);
            let mut reading = support::start(&object, 0, 10);
            let outcome = reading.wait();
            assert!(outcome.error().message().contains("/data"), "{outcome:?}");
            reading.buffer().assert_untouched();
            assert!(server.requests() <= 2, "at most as many requests as attempts");
        }
        server.clear_scripts();
        read(&object, 0, 100);
    });
}

#[test]
fn a_head_without_end_is_refused() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(1));
        // 4 MiB of headers.
        server.script("/data", [Reply::object().filler_headers(1024, 4096)]);
        let outcome = support::start(&client.open(&server.url("/data")), 0, 10).wait();
        assert!(outcome.error().message().contains("/data"), "{outcome:?}");
    });
}

#[test]
fn long_and_many_headers_are_fine() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script("/data", [Reply::object().filler_headers(50, 1000)]);
        let object = client.open(&server.url("/data"));
        assert_eq!(stat(&object).unwrap(), 100);
        read(&object, 0, 100);
    });
}

#[test]
fn interim_replies_are_not_the_answer() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let reply = Reply::object()
            .interim(103, &[("Link", "</x>; rel=preload"), ("ETag", "\"of nothing\""), ("Content-Length", "7")])
            .interim(102, &[])
            .delay(ms(50));
        server.script(any(), [reply]);
        let object = client.open(&server.url("/data"));
        assert_eq!(stat(&object).unwrap(), 100);
        read(&object, 10, 20);
        assert_eq!(server.requests(), 2);
    });
}

#[test]
fn an_http_1_0_server_is_read_like_any_other() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        server.script(any(), [Reply::object().http10()]);
        let object = client.open(&server.url("/data"));
        assert_eq!(stat(&object).unwrap(), 100);
        read(&object, 10, 20);
        // The end of the connection is the end of the body.
        server.script(get("/data"), [Reply::object().http10().without_header("Content-Length")]);
        read(&object, 10, 20);
        // And when it comes too early, the rest is asked for.
        server.script(
            get("/data"),
            [Reply::object().http10().without_header("Content-Length").close_after(5), Reply::object().http10()],
        );
        read(&object, 10, 20);
        assert_eq!(server.ranges(), ["10-29", "10-29", "10-29", "15-29"]);
        assert_eq!(server.connections(), 5);
    });
}

#[test]
fn a_chunked_range_is_read_like_any_other() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100_000), TestClient::new(backend));
        server.script(get("/data"), [Reply::object().chunked()]);
        let object = client.open(&server.url("/data"));
        read(&object, 10, 50_000);
        read(&object, 0, 100_000);
        assert_eq!(server.requests(), 2);
    });
}

#[test]
fn http_1_1_and_the_url_go_out_as_they_are() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let target = "/p/./q/../%7Ea%2Fb//c;d=1?x=%20&y=a+b&&z";
        server.script(any(), [Reply::serve(Object::pattern(100))]);
        read(&client.open(&server.url(target)), 0, 100);
        let log = server.log();
        assert_eq!((log[0].target.as_str(), log[0].minor_version), (target, 1));
        let host = format!("127.0.0.1:{}", server.port());
        assert_eq!(log[0].header("Host"), Some(host.as_str()));
        assert!(log[0].header("User-Agent").unwrap().starts_with("raskio/"));
    });
}

#[test]
fn headers_of_the_caller_go_out_with_reads_and_stats() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let headers = vec!["X-One: 1".into(), "X-Empty:".into(), "User-Agent: mine".into()];
        let options = raskio::object::ObjectOptions { headers, ..Default::default() };
        let object = client.0.open(&server.url("/data"), options).unwrap();
        stat(&object).unwrap();
        read(&object, 0, 100);
        // The handle that sent them is used for an object without any.
        read(&client.open(&server.url("/data")), 0, 100);
        let log = server.log();
        for request in &log[..2] {
            assert_eq!(request.header("X-One"), Some("1"));
            assert_eq!(request.header("X-Empty"), Some(""));
            assert_eq!(request.header("User-Agent"), Some("mine"));
        }
        assert_eq!(log[2].header("X-One"), None);
        assert!(log[2].header("User-Agent").unwrap().starts_with("raskio/"));
    });
}
