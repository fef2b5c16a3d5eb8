//! Without a script the server answers as HTTP has it.

mod client;

use std::io::Write;

use client::{Client, End};
use raskio_testserver::{Body, Object, Server, pattern, pattern_at};

fn server() -> Server {
    let server = Server::start();
    server.put("/o", Object::pattern(1000).etag("\"v1\""));
    server
}

#[test]
fn get_and_head_of_a_whole_object() {
    let server = server();
    let mut client = Client::new(&server);
    let got = client.get("/o");
    assert_eq!((got.status, got.body, got.end), (200, pattern(1000), End::Complete));
    let got = client.head("/o");
    assert_eq!((got.status, got.header("Content-Length"), got.header("ETag")), (200, Some("1000"), Some("\"v1\"")));
    assert_eq!(got.header("Accept-Ranges"), Some("bytes"));
    assert_eq!(client.head("/none").status, 404);
    assert_eq!(client.get("/none").body, b"no such object: /none\n");
    assert_eq!(client.request("DELETE", "/o", "").status, 405);
    assert_eq!(server.connections(), 1, "all of it on one connection");
}

#[test]
fn ranges_of_each_form() {
    let server = server();
    let mut client = Client::new(&server);
    for (range, from, to) in
        [("0-0", 0, 1), ("10-19", 10, 20), ("990-", 990, 1000), ("-5", 995, 1000), ("7-5000", 7, 1000)]
    {
        let got = client.get_range("/o", range);
        assert_eq!(got.status, 206, "{range}");
        assert_eq!(got.body, pattern_at(from, (to - from) as usize), "{range}");
        assert_eq!(got.header("Content-Range"), Some(&*format!("bytes {from}-{}/1000", to - 1)), "{range}");
    }
    for range in ["1000-1000", "5000-", "-0"] {
        let got = client.get_range("/o", range);
        assert_eq!((got.status, got.header("Content-Range")), (416, Some("bytes */1000")), "{range}");
    }
    // Malformed, and several at once: may be ignored, and are.
    for range in ["9-3", "x", "0-1,5-6"] {
        assert_eq!(client.get_range("/o", range).status, 200, "{range}");
    }
    server.put("/empty", "");
    assert_eq!(client.get_range("/empty", "0-0").header("Content-Range"), Some("bytes */0"));
    let got = client.get("/empty");
    assert_eq!((got.status, got.body.len(), got.end), (200, 0, End::Complete));
}

#[test]
fn preconditions() {
    let server = server();
    server.put("/weak", Object::pattern(10).etag("W/\"w\""));
    server.put("/none", Object::pattern(10).no_etag());
    let mut client = Client::new(&server);
    let mut status = |target: &str, headers: &str| client.request("GET", target, &format!("{headers}\r\n")).status;
    assert_eq!(status("/o", "If-Match: \"v1\""), 200);
    assert_eq!(status("/o", "If-Match: \"v0\", \"v1\""), 200);
    assert_eq!(status("/o", "If-Match: *"), 200);
    assert_eq!(status("/o", "If-Match: \"v2\""), 412);
    assert_eq!(status("/weak", "If-Match: W/\"w\""), 412, "If-Match compares strongly");
    assert_eq!(status("/none", "If-Match: \"v1\""), 412);
    assert_eq!(status("/o", "If-None-Match: \"v1\""), 304);
    assert_eq!(status("/weak", "If-None-Match: \"w\""), 304, "If-None-Match compares weakly");
    assert_eq!(status("/o", "If-Range: \"v1\"\r\nRange: bytes=0-1"), 206);
    assert_eq!(status("/o", "If-Range: \"v2\"\r\nRange: bytes=0-1"), 200);
}

#[test]
fn keep_alive_in_both_versions() {
    let server = server();
    let mut client = Client::new(&server);
    client.send("GET /o HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let got = client.receive(true).unwrap();
    assert_eq!((got.header("Connection"), got.end), (Some("keep-alive"), End::Complete));
    client.send("GET /o HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().header("Connection"), Some("close"));
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
    let mut client = Client::new(&server);
    client.send("GET /o HTTP/1.0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().body, pattern(1000));
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
}

#[test]
fn pipelined_requests_and_heads_in_pieces() {
    let server = server();
    let mut client = Client::new(&server);
    client.send("GET /o HTTP/1.1\r\nRange: bytes=0-0\r\n\r\nGET /o HTTP/1.1\r\nRange: bytes=1-1\r\n\r\nGET /o HT");
    assert_eq!(client.receive(true).unwrap().body, pattern_at(0, 1));
    assert_eq!(client.receive(true).unwrap().body, pattern_at(1, 1));
    client.send("TP/1.1\r\nRange: bytes=2-2\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().body, pattern_at(2, 1));
}

#[test]
fn request_bodies_are_read() {
    let server = server();
    server.on("/token", |request: &raskio_testserver::RequestInfo| {
        raskio_testserver::Reply::status(200)
            .body([&request.method.clone().into_bytes()[..], b" ", &request.body].concat())
    });
    let mut client = Client::new(&server);
    client.send("PUT /token HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().status, 100);
    client.stream.write_all(b"hello").unwrap();
    assert_eq!(client.receive(true).unwrap().body, b"PUT hello");
    assert_eq!(client.get("/token").body, b"GET ");
}

#[test]
fn what_is_no_request_is_refused() {
    let server = server();
    let status = |text: &str| {
        let mut client = Client::new(&server);
        client.send(text);
        client.receive(true).unwrap().status
    };
    assert_eq!(status("nonsense\r\n\r\n"), 400);
    assert_eq!(status("PUT /o HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 411);
    assert_eq!(status("PUT /o HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"), 413);
    let many: String = (0..600).map(|i| format!("x-{i}: y\r\n")).collect();
    assert_eq!(status(&format!("GET /o HTTP/1.1\r\n{many}\r\n")), 431);
    let some: String = (0..300).map(|i| format!("x-{i}: y\r\n")).collect();
    assert_eq!(status(&format!("GET /o HTTP/1.1\r\n{some}\r\n")), 200);
}

#[test]
fn paths_are_found_raw_and_decoded() {
    let server = server();
    server.put("/b/date=2025 a", "decoded");
    server.put("/b/p%2Fq", "raw");
    let mut client = Client::new(&server);
    assert_eq!(client.get("/b/date%3D2025%20a?x=1").body, b"decoded");
    assert_eq!(client.get("/b/p%2Fq").body, b"raw");
    assert_eq!(server.log()[0].target, "/b/date%3D2025%20a?x=1");
}

#[test]
fn a_huge_object_takes_no_memory() {
    let server = Server::start();
    server.put("/tib", Object::pattern(1 << 40));
    server.put("/computed", Object::new(Body::generated(1 << 40, |at, out| out.fill((at >> 30) as u8))));
    let mut client = Client::new(&server);
    let got = client.get_range("/tib", "1099511626776-1099511627775");
    assert_eq!(got.body, pattern_at((1 << 40) - 1000, 1000));
    assert_eq!(client.get_range("/computed", "3221225472-3221225473").body, [3, 3]);
}
