//! What the server counts and logs, and how it ends.

mod client;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, End};
use raskio_testserver::{Gate, Object, Reply, RequestInfo, Server, pattern, raise_open_file_limit};

const LONG: Duration = Duration::from_secs(10);

fn server() -> Server {
    let server = Server::start();
    server.put("/o", Object::pattern(1 << 20));
    server
}

#[test]
fn requests_are_logged_as_they_came() {
    let server = server();
    let before = Instant::now();
    let mut client = Client::new(&server);
    client
        .send("GET /o?a=b%20c&d&e=%26 HTTP/1.1\r\nhOst: Test\r\nX-Twice: 1\r\nX-Twice: 2\r\nRange: bytes=5-6\r\n\r\n");
    client.receive(true).unwrap();
    client.head("/o");
    Client::new(&server).get_range("/o", "7-7");
    let log = server.log();
    let first = &log[0];
    assert_eq!((first.method.as_str(), first.target.as_str()), ("GET", "/o?a=b%20c&d&e=%26"));
    assert_eq!((first.path(), first.query()), ("/o", Some("a=b%20c&d&e=%26")));
    assert_eq!(first.query_value("a").as_deref(), Some("b c"));
    assert_eq!(first.query_value("d").as_deref(), Some(""));
    assert_eq!(first.query_value("e").as_deref(), Some("&"));
    assert_eq!(first.headers[0], ("hOst".into(), "Test".into()));
    assert_eq!(first.headers.iter().filter(|(name, _)| name == "X-Twice").count(), 2);
    assert!(first.raw_head.starts_with(b"GET /o?a=b%20c") && first.raw_head.ends_with(b"bytes=5-6\r\n\r\n"));
    assert!(first.arrived >= before && first.arrived <= Instant::now());
    let places: Vec<_> = log.iter().map(|request| (request.connection, request.nth_on_connection)).collect();
    assert_eq!(places, [(0, 0), (0, 1), (1, 0)]);
    assert_eq!(server.ranges(), ["5-6", "7-7"]);
    assert_eq!((server.requests(), server.gets(), server.heads(), server.connections()), (3, 2, 1, 2));
    server.reset_counts();
    assert_eq!((server.requests(), server.log().len(), server.max_in_flight()), (0, 0, 0));
}

#[test]
fn max_in_flight_is_exact() {
    let server = server();
    // The first 8 are held until all are there, so that there are 8 at a time once, however busy the machine is.
    let gate = Gate::new();
    let mut replies = vec![Reply::object().hold(&gate); 8];
    replies.push(Reply::object().delay(Duration::from_millis(2)));
    server.script("/o", replies);
    // 8 clients in a closed loop: a reply that was still counted when its client sends again would give a 9.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // On two connections in turn: on one, its thread is done with a reply before it reads the next request.
                let mut clients = [Client::new(&server), Client::new(&server)];
                for n in 0..100 {
                    let range = if n % 4 < 2 { "0-99" } else { "0-99999" };
                    assert_eq!(clients[n % 2].get_range("/o", range).end, End::Complete);
                }
            });
        }
        assert!(gate.wait_held(8, LONG));
        gate.open();
    });
    assert_eq!((server.max_in_flight(), server.connections(), server.gets()), (8, 16, 800));
    assert!(server.wait_for(|c| c.open_connections == 0, LONG));
    assert_eq!((server.counts().completed, server.aborted(), server.in_flight()), (800, 0, 0));
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let gate = Gate::new();
    let replies = [
        Reply::never(),
        Reply::object().stall_after(7),
        Reply::object().delay(Duration::from_secs(600)),
        Reply::object().rate(1),
        Reply::object().hold(&gate),
        Reply::serve(raskio_testserver::Body::pattern(1 << 30)),
    ];
    let server = server();
    for (n, reply) in (1..).zip(replies) {
        server.script("/o", [reply]);
        let mut client = Client::new(&server);
        client.send("GET /o HTTP/1.1\r\n\r\n");
        assert!(server.wait_for(|c| c.in_flight == 1, LONG));
        drop(client);
        assert!(server.wait_for(|c| c.aborted == n && c.in_flight == 0, LONG), "{:?}", server.counts());
    }
    assert_eq!(gate.held(), 0);
}

#[test]
fn waiting_ends_without_the_condition() {
    let server = server();
    let start = Instant::now();
    assert!(!server.wait_for(|c| c.requests > 0, Duration::from_millis(100)));
    assert!(start.elapsed() >= Duration::from_millis(100));
    assert!(!Gate::new().wait_held(1, Duration::from_millis(10)));
}

#[test]
fn dropping_the_server_ends_everything() {
    let server = server();
    server.put("/never", "x");
    server.script("/never", [Reply::never()]);
    server.put("/held", "x");
    server.script("/held", [Reply::object().hold(&Gate::new())]);
    server.put("/slow", "x");
    server.script("/slow", [Reply::object().delay(Duration::from_secs(600))]);
    server.script("/o", [Reply::serve(raskio_testserver::Body::pattern(1 << 40))]);
    let mut clients: Vec<Client> = Vec::new();
    for path in ["/never", "/held", "/slow", "/o"] {
        let mut client = Client::new(&server);
        client.send(&format!("GET {path} HTTP/1.1\r\n\r\n"));
        clients.push(client);
    }
    clients.push(Client::new(&server)); // Idle.
    assert!(server.wait_for(|c| c.in_flight == 4 && c.open_connections == 5, LONG));
    let address = server.addr();
    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    clients.remove(3);
    for mut client in clients {
        assert_eq!(client.rest(), (Vec::new(), End::Closed));
    }
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
#[should_panic(expected = "a reply of the test server panicked: no range")]
fn an_assertion_in_a_reply_fails_the_test() {
    let server = server();
    server.on("/o", |request: &RequestInfo| -> Reply {
        assert!(request.range().is_some(), "no range");
        Reply::object()
    });
    let mut client = Client::new(&server);
    client.send("GET /o HTTP/1.1\r\n\r\n");
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
}

#[test]
fn thousands_of_requests_in_flight_at_once() {
    // Both ends of a connection are in this process.
    let limit = raise_open_file_limit();
    let count = if limit >= 11_000 { 5_200 } else { (limit as usize - 200) / 2 };
    assert!(count >= 300, "{limit} open files are too few for this test");
    let gate = Gate::barrier(count);
    let server = server();
    server.script("/o", [Reply::object().hold(&gate)]);
    let mut clients: Vec<Client> = (0..count).map(|_| Client::new(&server)).collect();
    for client in &mut clients {
        client.send("GET /o HTTP/1.1\r\nRange: bytes=0-99\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.receive(true).unwrap().body, pattern(100));
    }
    assert_eq!((server.max_in_flight(), server.connections()), (count as u64, count as u64));
}

#[test]
fn every_connection_reads_right_under_load() {
    let server = Arc::new(server());
    let threads: Vec<_> = (0..300)
        .map(|i| {
            let server = server.clone();
            thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn(move || {
                    let mut client = Client::new(&server);
                    let (from, to) = (i * 1000, i * 1000 + 200_000);
                    assert!(client.get_range("/o", &format!("{from}-{}", to - 1)).body == pattern(to)[from..]);
                })
                .unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((server.gets(), server.counts().completed), (300, 300));
}
