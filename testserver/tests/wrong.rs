//! Each misbehaviour, seen from the wire.

mod client;

use std::io::Read;
use std::time::{Duration, Instant, SystemTime};

use client::{Client, End};
use raskio_testserver::{
    BlackHole, Body, Gate, Object, Reply, RequestInfo, Server, any, get, head, pattern, pattern_at,
};

const SHORT: Duration = Duration::from_millis(150);

/// A server whose `/o`, 100,000 bytes of pattern, is answered so.
fn scripted(replies: impl IntoIterator<Item = Reply>) -> Server {
    let server = Server::start();
    server.put("/o", Object::pattern(100_000).etag("\"v1\""));
    server.script("/o", replies);
    server
}

fn answer(reply: Reply) -> client::Response {
    let server = scripted([reply]);
    Client::new(&server).get_range("/o", "10-19")
}

#[test]
fn scripts_go_in_order_and_the_last_reply_repeats() {
    let server = scripted([Reply::status(503), Reply::status(429).retry_after(1), Reply::object()]);
    let mut client = Client::new(&server);
    assert_eq!(client.get("/o").body, b"503 Service Unavailable for /o\n");
    let second = client.get("/o");
    assert_eq!((second.status, second.header("Retry-After")), (429, Some("1")));
    for _ in 0..3 {
        assert_eq!(client.get("/o").status, 200);
    }
    // Newer ones first, then back to the older.
    server.on(any(), |request: &RequestInfo| (request.header("X-Teapot").is_some()).then(|| Reply::status(418)));
    server.script(head("/o"), [Reply::status(405)]);
    assert_eq!(client.head("/o").status, 405);
    assert_eq!(client.request("GET", "/o", "X-Teapot: 1\r\n").status, 418);
    assert_eq!(client.get("/o").status, 200);
    server.clear_scripts();
    assert_eq!(client.head("/o").status, 200);
}

#[test]
fn functions_see_the_request() {
    let server = scripted([Reply::object()]);
    server.on(get("/o"), |request: &RequestInfo| match request.range_text() {
        Some("10-19") => Reply::status(503),
        _ if request.nth_on_connection > 1 => Reply::close(),
        _ => Reply::object(),
    });
    let mut client = Client::new(&server);
    assert_eq!(client.get_range("/o", "10-19").status, 503);
    assert_eq!(client.get_range("/o", "20-29").status, 206);
    client.send("GET /o HTTP/1.1\r\n\r\n");
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
}

#[test]
fn lies_in_the_head() {
    let lie =
        Reply::object().header("content-range", "bytes 0-9/100").header("Content-Length", "4").header("ETag", "\"x\"");
    let got = answer(lie.add_header("X-More", "1").header("Content-Encoding", "gzip").without_header("Accept-Ranges"));
    assert_eq!((got.status, got.header("Content-Range")), (206, Some("bytes 0-9/100")));
    assert_eq!((got.header("ETag"), got.header("X-More")), (Some("\"x\""), Some("1")));
    assert_eq!((got.header("Content-Encoding"), got.header("Accept-Ranges")), (Some("gzip"), None));
    assert_eq!(got.body, pattern_at(10, 4));
    assert_eq!(answer(Reply::object().with_status(200)).status, 200);
    assert_eq!(answer(Reply::object().with_status(200)).body, pattern_at(10, 10));
}

#[test]
fn lies_about_the_range() {
    let got = answer(Reply::object().ignore_range());
    assert_eq!((got.status, got.body.len(), got.header("Accept-Ranges")), (200, 100_000, None));
    let got = answer(Reply::object().answer_range(0, 9));
    assert_eq!((got.header("Content-Range"), &got.body), (Some("bytes 0-9/100000"), &pattern(10)));
    assert_eq!(answer(Reply::object().unknown_total()).header("Content-Range"), Some("bytes 10-19/*"));
    assert_eq!(answer(Reply::object().total(7)).header("Content-Range"), Some("bytes 10-19/7"));
    let got = answer(Reply::object().short_range_by(1));
    assert_eq!((got.header("Content-Range"), &got.body), (Some("bytes 10-18/100000"), &pattern_at(10, 9)));
    let got = answer(Reply::object().short_by(1));
    assert_eq!((got.header("Content-Range"), got.header("Content-Length")), (Some("bytes 10-19/100000"), Some("9")));
    assert_eq!(got.body, pattern_at(10, 9));
    let got = answer(Reply::object().short_by(99));
    assert_eq!((got.status, got.body.len(), got.end), (206, 0, End::Complete));
    let got = answer(Reply::object().multipart());
    assert!(got.header("Content-Type").unwrap().starts_with("multipart/byteranges; boundary="));
    assert!(got.header("Content-Range").is_none());
    let text = got.body.windows(20).any(|w| w == b"Content-Range: bytes");
    assert!(text && got.body.windows(10).any(|w| w == pattern_at(10, 10)), "{:?}", got.body);
}

#[test]
fn another_version_of_the_object() {
    let server = scripted([Reply::object().etag("\"v2\"")]);
    let mut client = Client::new(&server);
    assert_eq!(client.get("/o").header("ETag"), Some("\"v2\""));
    assert_eq!(client.request("GET", "/o", "If-Match: \"v1\"\r\n").status, 412);
    assert_eq!(client.request("GET", "/o", "If-Match: \"v2\"\r\n").status, 200);
}

#[test]
fn wrong_and_surplus_bytes() {
    let mut expected = pattern_at(10, 10);
    expected[0] = !expected[0];
    expected[9] = !expected[9];
    assert_eq!(answer(Reply::object().corrupt(9).corrupt(0).corrupt(10)).body, expected);
    assert_eq!(answer(Reply::object().body(vec![9; 50])).body, [9; 10]);
    let server = scripted([Reply::object().extra_body(3).close_silently()]);
    let mut client = Client::new(&server);
    let got = client.get_range("/o", "10-19");
    assert_eq!((got.header("Content-Length"), &got.body), (Some("10"), &pattern_at(10, 10)));
    assert_eq!(client.rest(), (b"!!!".to_vec(), End::Closed));
}

#[test]
fn faults_inside_the_body() {
    // Past and inside the part that is written last, and at 0.
    for n in [0, 7, 50_000, 99_990] {
        let check = |got: client::Response, end: End| {
            assert_eq!((got.header("Content-Length"), got.end), (Some("100000"), end), "{n}");
            assert!(got.body == pattern(n as usize), "{} bytes instead of {n}", got.body.len());
        };
        let server = scripted([Reply::object().stall_after(n)]);
        check(Client::new(&server).get_stalled("/o", n as usize), End::Silence);
        let server = scripted([Reply::object().close_after(n), Reply::object().reset_after(n)]);
        check(Client::new(&server).get("/o"), End::Closed);
        check(Client::new(&server).get("/o"), End::Reset);
    }
    let got = answer(Reply::object().close_after(11));
    assert_eq!((got.body.len(), got.end), (10, End::Complete), "a fault behind the end does not happen");
}

#[test]
fn a_reset_loses_nothing_that_was_sent() {
    let server = scripted([Reply::serve(Body::pattern(4 << 20)).reset_after(3 << 20)]);
    let got = Client::new(&server).get("/o");
    assert!(got.body == pattern(3 << 20), "{} bytes", got.body.len());
    assert_eq!(got.end, End::Reset);
    assert_eq!(server.counts().cut, 1);
}

#[test]
fn no_answer_at_all() {
    for (reply, end) in [(Reply::never(), End::Silence), (Reply::close(), End::Closed), (Reply::reset(), End::Reset)] {
        let server = scripted([reply]);
        let mut client = Client::new(&server);
        client.send("GET /o HTTP/1.1\r\n\r\n");
        if end == End::Silence {
            assert!(server.wait_for(|c| c.in_flight == 1, Duration::from_secs(10)));
            client = client.patience(SHORT);
        }
        assert_eq!(client.rest(), (Vec::new(), end));
    }
    let server = scripted([Reply::garbage()]);
    let mut client = Client::new(&server);
    client.send("GET /o HTTP/1.1\r\n\r\n");
    let (bytes, end) = client.rest();
    assert!(!bytes.is_empty() && !bytes.starts_with(b"HTTP"));
    assert_eq!(end, End::Closed);
}

#[test]
fn delays_before_head_and_body() {
    let server = scripted([Reply::object().delay(SHORT).delay_body(SHORT)]);
    let mut client = Client::new(&server);
    let start = Instant::now();
    client.send("GET /o HTTP/1.1\r\nRange: bytes=0-9\r\n\r\n");
    let mut first = [0; 1];
    client.stream.read_exact(&mut first).unwrap();
    assert!(start.elapsed() >= SHORT);
    assert_eq!(client.receive(true).unwrap().body, pattern(10));
    assert!(start.elapsed() >= SHORT * 2);
}

#[test]
fn rates_are_kept() {
    // 100,000 bytes at 200,000 a second, and 5 bytes at 20 a second.
    let server = scripted([Reply::object().rate(200_000)]);
    let start = Instant::now();
    assert_eq!(Client::new(&server).get("/o").body, pattern(100_000));
    let took = start.elapsed().as_secs_f64();
    assert!((0.45..10.0).contains(&took), "{took} s");
    let server = scripted([Reply::object().rate(20)]);
    let start = Instant::now();
    assert_eq!(Client::new(&server).get_range("/o", "0-4").body, pattern(5));
    let took = start.elapsed().as_secs_f64();
    assert!((0.19..10.0).contains(&took), "{took} s");
}

#[test]
fn gates_hold_heads_and_bodies() {
    let (first, second) = (Gate::new(), Gate::new());
    let server = scripted([Reply::object().hold(&first).hold_body(&second)]);
    let mut client = Client::new(&server).patience(SHORT);
    client.send("GET /o HTTP/1.1\r\nRange: bytes=0-9\r\n\r\n");
    assert!(first.wait_held(1, Duration::from_secs(5)));
    assert_eq!(client.rest(), (Vec::new(), End::Silence));
    first.open();
    assert!(second.wait_held(1, Duration::from_secs(5)));
    let (head, end) = client.rest();
    assert!(head.ends_with(b"\r\n\r\n"));
    assert_eq!(end, End::Silence);
    second.open();
    let mut client = client.patience(Duration::from_secs(10));
    let mut body = [0; 10];
    client.stream.read_exact(&mut body).unwrap();
    assert_eq!(body[..], pattern(10));
    assert_eq!((first.held(), second.held(), second.is_open()), (0, 0, true));
}

#[test]
fn the_connection_closes_after_the_reply() {
    for (reply, said) in [(Reply::object().announce_close(), Some("close")), (Reply::object().close_silently(), None)] {
        let server = scripted([reply]);
        let mut client = Client::new(&server);
        let got = client.get("/o");
        assert_eq!((got.header("Connection"), got.end), (said, End::Complete));
        assert_eq!(client.rest(), (Vec::new(), End::Closed));
    }
    let server = Server::builder().close_after_requests(2).start();
    server.put("/o", "x");
    let mut client = Client::new(&server);
    assert_eq!((client.get("/o").status, client.get("/o").status), (200, 200));
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
}

#[test]
fn bodies_without_a_length() {
    let server = scripted([Reply::object().chunked()]);
    let mut client = Client::new(&server);
    let got = client.get("/o");
    assert_eq!((got.header("Content-Length"), got.header("Transfer-Encoding")), (None, Some("chunked")));
    assert!(got.body == pattern(100_000) && got.end == End::Complete);
    assert_eq!(client.head("/o").header("Content-Length"), None);
    server.put("/empty", "");
    server.script("/empty", [Reply::object().chunked()]);
    assert_eq!(client.get("/empty").body, b"");
    client.send("GET /o HTTP/1.0\r\nRange: bytes=0-9\r\n\r\n");
    let got = client.receive(true).unwrap();
    assert_eq!((got.header("Transfer-Encoding"), &got.body, got.end), (None, &pattern(10), End::Closed));
    // Cut in the middle there is no last chunk.
    let server = scripted([Reply::object().chunked().close_after(7)]);
    let got = Client::new(&server).get("/o");
    assert_eq!((got.body, got.end), (pattern(7), End::Closed));
    // Neither length nor chunks: the end of the connection is the end of the body.
    let got = answer(Reply::object().without_header("Content-Length"));
    assert_eq!((got.header("Content-Length"), &got.body, got.end), (None, &pattern_at(10, 10), End::Closed));
}

#[test]
fn replies_of_http_1_0() {
    let got = answer(Reply::object().http10().without_header("Content-Length"));
    assert!(got.head.starts_with("HTTP/1.0 206 "));
    assert_eq!((got.body, got.end), (pattern_at(10, 10), End::Closed));
}

#[test]
fn redirects() {
    for status in [301, 302, 303, 307, 308] {
        let got = answer(Reply::redirect(status, "../real?x=1"));
        assert_eq!((got.status, got.header("Location")), (status, Some("../real?x=1")));
    }
}

#[test]
fn retry_after_as_a_date() {
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let got = answer(Reply::status(429).retry_after_date(date));
    assert_eq!(got.header("Retry-After"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
}

#[test]
fn gzip_asked_for_or_not() {
    let unzipped = |bytes: &[u8]| {
        let mut out = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
        out
    };
    let server = scripted([Reply::object().gzip_if_accepted()]);
    let mut client = Client::new(&server);
    for refused in ["", "Accept-Encoding: identity\r\n", "Accept-Encoding: gzip;q=0\r\n"] {
        let got = client.request("GET", "/o", refused);
        assert_eq!((got.header("Content-Encoding"), got.body.len()), (None, 100_000), "{refused}");
    }
    let got = client.request("GET", "/o", "Accept-Encoding: br, gzip\r\n");
    assert_eq!(got.header("Content-Encoding"), Some("gzip"));
    assert!(unzipped(&got.body) == pattern(100_000));
    assert!(got.body.len() < 50_000);
    let got = answer(Reply::object().gzip_always());
    assert_eq!((got.status, got.header("Content-Range")), (206, Some("bytes 10-19/100000")));
    assert_eq!((got.header("Content-Encoding"), unzipped(&got.body)), (Some("gzip"), pattern_at(10, 10)));
}

#[test]
fn interim_replies_come_first() {
    let gate = Gate::new();
    let server = scripted([Reply::object().interim(103, &[("Link", "</x>")]).interim(102, &[]).hold(&gate)]);
    let mut client = Client::new(&server);
    let first = client.get("/o");
    assert_eq!((first.status, first.header("Link")), (103, Some("</x>")));
    assert_eq!(client.receive(true).unwrap().status, 102);
    gate.open();
    let last = client.receive(true).unwrap();
    assert_eq!((last.status, last.body.len()), (200, 100_000));
}

#[test]
fn long_and_many_headers() {
    let got = answer(Reply::object().filler_headers(500, 300));
    assert_eq!(got.head.matches("X-Filler-").count(), 500);
    assert!(got.head.len() > 150_000);
    assert_eq!(got.body, pattern_at(10, 10));
}

#[test]
fn heads_that_tell_little() {
    let server = scripted([Reply::status(403)]);
    let mut client = Client::new(&server);
    let got = client.head("/o");
    assert_eq!((got.status, got.end), (403, End::Complete));
    server.script(head("/o"), [Reply::object().without_header("Content-Length")]);
    assert_eq!(client.head("/o").header("Content-Length"), None);
    assert_eq!(client.head("/o").status, 200, "on the same connection");
    assert_eq!(server.connections(), 1);
}

#[test]
fn connections_are_refused_and_accepted_again() {
    let server = scripted([Reply::object()]);
    let mut open = Client::new(&server);
    assert_eq!(open.get_range("/o", "0-1").status, 206);
    for _ in 0..3 {
        server.refuse_connections();
        let refused = std::net::TcpStream::connect(server.addr()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        assert_eq!(open.get_range("/o", "0-1").status, 206, "an open connection goes on");
        server.accept_connections();
        assert_eq!(Client::new(&server).get_range("/o", "0-1").status, 206);
    }
    server.drop_connections();
    assert_eq!(open.rest().1, End::Closed);
    assert_eq!(Client::new(&server).get_range("/o", "0-1").status, 206);
}

#[test]
fn a_black_hole_neither_accepts_nor_refuses() {
    let hole = BlackHole::new();
    let error = std::net::TcpStream::connect_timeout(&hole.addr(), SHORT).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(hole.url("/x").ends_with("/x"));
}
