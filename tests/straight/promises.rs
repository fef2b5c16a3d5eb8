//! What is promised of bodies that are received in place.

use super::places::{ANSWERED_FIRST, HELD, HOLD_READY, PAGE, Place, UNTOUCHED, alone, start, start_as, start_at};
use super::support::{LONG, Outcome, TestClient, eventually, for_both_backends, ms, relay, tls};
use raskio::batch::{BatchOptions, Gap, ReadSpec};
use raskio::config::Backend;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio::op::OpResult;
use raskio_testserver::{Object as Served, Reply, Server, get, pattern_at};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const M: usize = 1 << 20;

fn server_of(len: usize) -> Server {
    let server = Server::start();
    server.put("/data", Served::pattern(len as u64).etag("\"a\""));
    server
}

#[test]
fn a_large_body_is_received_in_place_on_a_new_connection_and_on_one_that_is_used_again() {
    let _alone = alone();
    for_both_backends(|backend| {
        let (server, client) = (server_of(8 * M), TestClient::with(backend, |options| options.num_threads = Some(1)));
        let object = client.open(&server.url("/data"));
        for offset in [0, 4096, 5, 1 << 20] {
            let (_, straight) = start(&object, offset, 4 * M).succeeds();
            assert!(straight > 3 * M, "{straight} bytes from {offset}");
        }
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn a_tls_connection_never_gets_the_bytes_of_a_plain_one_of_the_same_reactor() {
    let _alone = alone();
    let server = server_of(8 * M);
    let relay = tls::start(server.addr()).unwrap();
    let client = TestClient::new(Backend::MultiPoll);
    let options = ObjectOptions { tls_unverified: true, ..ObjectOptions::default() };
    let secret = client.0.open(&format!("https://{relay}/data"), options).unwrap();
    let plain = client.open(&server.url("/data"));
    for _ in 0..2 {
        // Behind the beginning of a page, for processors on which such places are copied to.
        let mut reads: Vec<_> = (0..4)
            .flat_map(|n| [start(&secret, n, 3 * M), start_at(&plain, n, 3 * M, 16), start(&plain, n, 3 * M)])
            .collect();
        for (number, read) in reads.iter_mut().enumerate() {
            let (outcome, straight) = read.succeeds();
            assert_eq!(outcome.attempts, 1);
            match number % 3 {
                0 => assert_eq!(straight, 0, "what comes over TLS is not what belongs there"),
                1 => {}
                _ => assert!(straight > 2 * M, "{straight}"),
            }
        }
    }
}

/// Sends the first ones in pieces of so many bytes, each of which comes by itself unless the machine is busy; the rest at once.
fn in_pieces(stream: &mut TcpStream, bytes: &[u8], piece: usize, alone: usize) {
    let (alone, rest) = bytes.split_at(alone.min(bytes.len()));
    let pause = if alone.len() > piece { Duration::from_micros(300) } else { ms(20) };
    for some in alone.chunks(piece) {
        stream.write_all(some).unwrap();
        std::thread::sleep(pause);
    }
    stream.write_all(rest).unwrap();
}

/// Where the range begins that is asked for; `None`: the connection ended.
fn asked(stream: &mut TcpStream) -> Option<usize> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    head.lines().find_map(|line| line.strip_prefix("Range: bytes=")?.split('-').next()?.parse().ok())
}

/// Answers each request by what `answer` does with its number on its connection and the begin of its range; true: another may come on it.
fn scripted(answer: impl Fn(&mut TcpStream, usize, usize) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut number = 0;
                while asked(&mut stream).is_some_and(|from| answer(&mut stream, number, from)) {
                    number += 1;
                }
            });
        }
    });
    address
}

const SIZE: usize = M;

/// The head of an answer of all bytes from these on, with these lines.
fn head_from(from: usize, status: &str, lines: &str) -> Vec<u8> {
    let last = SIZE - 1;
    format!("{status}\r\nContent-Range: bytes {from}-{last}/{SIZE}\r\nETag: \"a\"\r\n{lines}\r\n").into_bytes()
}

fn head(status: &str, lines: &str) -> Vec<u8> {
    head_from(0, status, lines)
}

const STATUS: &str = "HTTP/1.1 206 Partial Content";

fn usual_head() -> Vec<u8> {
    head(STATUS, &format!("Content-Length: {SIZE}\r\n"))
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Two reads by the same connection if there is one, the first answered as usual, the second by `answer`; how much of that was
/// received in place.
fn second(answer: impl Fn(&mut TcpStream, &[u8]) -> bool + Send + Sync + 'static) -> (Outcome, usize) {
    let bytes = pattern_at(0, SIZE);
    let address = scripted(move |stream, number, _| match number {
        0 => stream.write_all(&joined(&[&usual_head(), &bytes])).is_ok(),
        _ => answer(stream, &bytes),
    });
    let client = TestClient::new(Backend::MultiPoll);
    let object = client.open(&format!("http://{address}/data"));
    start(&object, 0, SIZE).succeeds();
    start(&object, 0, SIZE).succeeds()
}

#[test]
fn bytes_are_in_place_however_head_and_body_are_cut_into_segments() {
    let _alone = alone();
    let send = |piece: usize, alone: usize| {
        second(move |stream, bytes| {
            in_pieces(stream, &joined(&[&usual_head(), bytes]), piece, alone);
            true
        })
    };
    for (piece, alone) in [(1, 600), (7, 2000), (16 << 10, 400 << 10), (usize::MAX, 0)] {
        let (outcome, straight) = send(piece, alone);
        assert_eq!(outcome.attempts, 1);
        assert!(straight > SIZE / 2, "{straight} bytes in pieces of {piece}");
    }
    // The head by itself: then no byte is copied at all, as a rule.
    let (_, straight) = send(usual_head().len(), usual_head().len());
    assert!(straight > SIZE / 2, "{straight} bytes");
}

#[test]
fn interim_heads_do_not_pass_for_the_one_that_counts() {
    let _alone = alone();
    let interim: [Vec<u8>; 4] = [
        b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
        head("HTTP/1.1 103 Early Hints", &format!("Content-Length: {SIZE}\r\n")),
        // libcurl takes a tab there.
        head("HTTP/1.1\t100 206", &format!("Content-Length: {SIZE}\r\n")),
        head("HTTP/1.1 1000", &format!("Content-Length: {SIZE}\r\n")),
    ];
    for interim in interim {
        let text = String::from_utf8_lossy(&interim).into_owned();
        let n = interim.len();
        let (outcome, straight) = second(move |stream, bytes| {
            in_pieces(stream, &joined(&[&interim, &usual_head(), bytes]), n, n);
            true
        });
        assert_eq!(outcome.attempts, 1, "{text}");
        assert!(straight > SIZE / 2, "{straight} bytes after {text}");
    }
}

#[test]
fn what_is_not_sent_as_it_is_is_not_received_in_place() {
    let _alone = alone();
    let length = format!("Content-Length: {SIZE}\r\n");
    for lines in [
        "Transfer-Encoding: chunked\r\n".to_owned(),
        format!("{length}Transfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\n{length}"),
        format!("{length}transfer-encoding:\r\n\tchunked\r\n"),
    ] {
        let head = head(STATUS, &lines);
        let (outcome, straight) = second(move |stream, bytes| {
            in_pieces(stream, &head, head.len(), head.len());
            for chunk in bytes.chunks(100_000) {
                let size = format!("{:x}\r\n", chunk.len());
                stream.write_all(&joined(&[size.as_bytes(), chunk, b"\r\n"])).unwrap();
            }
            stream.write_all(b"0\r\nX-Trailer: 1\r\n\r\n").unwrap();
            true
        });
        assert_eq!((outcome.attempts, straight), (1, 0), "{lines}");
    }
}

#[test]
fn what_follows_a_body_is_never_part_of_it() {
    let _alone = alone();
    let follows: [&[u8]; 3] = [b"x", &[0x41; 300_000], b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"];
    for follows in follows {
        let (outcome, straight) = second(move |stream, bytes| {
            in_pieces(stream, &joined(&[&usual_head(), bytes, follows]), usual_head().len(), usual_head().len());
            true
        });
        assert_eq!(outcome.attempts, 1);
        assert!(straight > SIZE / 2, "{straight} bytes");
    }
}

#[test]
fn a_body_that_ends_early_is_resumed_behind_what_is_in_place() {
    let _alone = alone();
    for backend in [Backend::MultiPoll, Backend::EasyThreadpool] {
        let (server, client) = (server_of(4 * M), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        let cut = || Reply::object().delay_body(ms(20));
        server.script(
            get("/data"),
            [
                cut().close_after(300_001),
                cut().close_after(1),
                cut().short_range_by(77),
                cut().reset_after(500_000),
                cut(),
            ],
        );
        let (outcome, straight) = start(&object, 0, 2 * M).succeeds();
        assert!(outcome.attempts >= 3, "{outcome:?}");
        assert!(straight > M, "{straight} bytes");
        // Without ranges the beginning comes again, and is thrown away.
        let all = || Reply::object().ignore_range().delay_body(ms(20));
        server.script(get("/data"), [all().close_after(1_000_001), all()]);
        let (outcome, straight) = start(&object, 0, 4 * M).succeeds();
        assert_eq!(outcome.attempts, 2);
        assert!(straight > 3 * M, "{straight} bytes");
    }
}

#[test]
fn a_reply_shorter_than_its_range_gets_nothing_of_the_next_one_on_its_connection() {
    let _alone = alone();
    let gate = Arc::new(AtomicBool::new(false));
    let (bytes, opened) = (pattern_at(0, SIZE), gate.clone());
    let short = 600_000;
    let most = Arc::new(AtomicUsize::new(0));
    let counted = most.clone();
    let address = scripted(move |stream, number, from| {
        counted.fetch_max(number, Ordering::SeqCst);
        if number == 1 {
            let head = head(STATUS, &format!("Content-Length: {short}\r\n"));
            stream.write_all(&joined(&[&head, &bytes[..500_000]])).unwrap();
            eventually("the test goes on", || opened.load(Ordering::SeqCst));
            return stream.write_all(&bytes[500_000..short]).is_ok();
        }
        let head = head_from(from, STATUS, &format!("Content-Length: {}\r\n", SIZE - from));
        in_pieces(stream, &joined(&[&head, &bytes[from..]]), head.len(), head.len());
        true
    });
    let client = TestClient::new(Backend::MultiPoll);
    let object = client.open(&format!("http://{address}/data"));
    start(&object, 0, SIZE).succeeds();
    let mut first = start(&object, 0, SIZE);
    let received = first.place.as_ref().unwrap().straight.clone();
    eventually("most of it is there", || received.load(Ordering::SeqCst) > 200_000);
    std::thread::sleep(ms(100));
    // Its rest and the next request come to the reactor at once, so that this takes the connection before the first is gone.
    HOLD_READY.store(true, Ordering::SeqCst);
    gate.store(true, Ordering::SeqCst);
    eventually("the reactor is held", || HELD.load(Ordering::SeqCst));
    let mut next = start(&object, 0, SIZE);
    ANSWERED_FIRST.store(true, Ordering::SeqCst);
    HOLD_READY.store(false, Ordering::SeqCst);
    let (outcome, _) = next.succeeds();
    ANSWERED_FIRST.store(false, Ordering::SeqCst);
    assert_eq!(outcome.attempts, 1);
    first.succeeds();
    assert!(most.load(Ordering::SeqCst) >= 2, "the connection was not used again");
}

#[test]
fn bytes_are_in_place_through_a_plain_proxy_and_a_unix_socket_and_not_through_a_tunnel() {
    let _alone = alone();
    let server = server_of(2 * M);
    let folder = std::env::temp_dir().join(format!("raskio-straight-{}", std::process::id()));
    let path = folder.to_string_lossy().into_owned();
    relay::unix(&path, server.addr()).unwrap();
    let secure = tls::start(server.addr()).unwrap();
    let proxy = Some(format!("http://{}", proxy(server.addr())));
    let client = TestClient::new(Backend::MultiPoll);
    let tunnelled = ObjectOptions { proxy: proxy.clone(), tls_unverified: true, ..ObjectOptions::default() };
    for (url, options, in_place) in [
        ("http://far.test/data".to_owned(), ObjectOptions { proxy, ..ObjectOptions::default() }, true),
        (server.url("/data"), ObjectOptions { unix_socket: Some(path), ..ObjectOptions::default() }, true),
        (format!("https://{secure}/data"), tunnelled, false),
    ] {
        let object = client.0.open(&url, options).unwrap();
        for offset in [0, 4096] {
            let (outcome, straight) = start(&object, offset, 3 * M / 2).succeeds();
            assert_eq!(outcome.attempts, 1);
            assert!(if in_place { straight > M / 2 } else { straight == 0 }, "{straight} bytes of {url}");
        }
    }
    std::fs::remove_file(&folder).unwrap();
}

/// A proxy that knows one server, and tunnels to any other; a tunnel's first bytes come with its answer.
fn proxy(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || forward(stream, to));
        }
    });
    address
}

fn forward(mut client: TcpStream, to: SocketAddr) -> Option<()> {
    let mut start = [0; 8];
    client.read_exact(&mut start).ok()?;
    let (mut server, mut answers) = if &start == b"CONNECT " {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let target = String::from_utf8_lossy(&head).split(' ').next()?.to_owned();
        client.write_all(b"HTTP/1.1 200 Connection established\r\nContent-Length: 3\r\n\r\n").ok()?;
        let server = TcpStream::connect(target).ok()?;
        (server.try_clone().ok()?, server)
    } else {
        let mut server = TcpStream::connect(to).ok()?;
        server.write_all(&start).ok()?;
        (server.try_clone().ok()?, server)
    };
    let mut back = client.try_clone().ok()?;
    std::thread::spawn(move || std::io::copy(&mut client, &mut server));
    std::io::copy(&mut answers, &mut back).ok()?;
    back.shutdown(std::net::Shutdown::Both).ok()
}

#[test]
fn nothing_is_written_once_a_read_is_over_however_it_ended() {
    let _alone = alone();
    for backend in [Backend::MultiPoll, Backend::EasyThreadpool] {
        let server = server_of(16 * M);
        for round in 0..12u64 {
            let client = TestClient::with(backend, |options| options.num_threads = Some(4));
            let object = client.open(&server.url("/data"));
            let deadline = (round % 3 == 0).then(|| ms(1 + round / 3));
            let mut reads: Vec<_> =
                (0..2).map(|n| start_as(&object, n * 4096, Place::new(8 * M, 0), deadline)).collect();
            std::thread::sleep(Duration::from_micros(500 * round));
            if round % 3 == 1 {
                reads.iter().for_each(|read| read.op.cancel());
            }
            if round % 3 == 2 {
                client.0.shut_down(Some(LONG)).unwrap();
            }
            for read in &mut reads {
                let (_, _) = read.end();
                // The caller's again from now on.
                read.place.as_mut().unwrap().fill(0x55);
            }
            std::thread::sleep(ms(20));
            for read in &reads {
                let place = read.place.as_ref().unwrap();
                assert!(place.bytes().iter().all(|byte| *byte == 0x55), "bytes were written after the end");
            }
        }
    }
}

/// Of items that share requests, some lie beside each other, some far from it, and two have the same bytes.
#[test]
fn items_that_share_a_request_get_their_bytes_in_place_where_they_are_alone() {
    let _alone = alone();
    for_both_backends(|backend| {
        let (server, client) = (server_of(8 * M), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        const K: usize = 1 << 10;
        let items: [(usize, usize); 8] = [
            (0, 700 * K),
            (700 * K, 333),
            (700 * K + 333, 900 * K),
            (1700 * K, 600 * K),
            (2200 * K, 500 * K),
            (2200 * K + 7, 499 * K),
            (2800 * K, 64 * K),
            (2864 * K + 1, 800 * K),
        ];
        for _ in 0..3 {
            let places: Vec<_> = items.iter().map(|&(at, len)| Place::new(len, at % PAGE)).collect();
            let specs = items.iter().zip(&places).map(|(&(at, _), place)| {
                let (offset, buffer) = (at as u64, place.host().into());
                Ok(ReadSpec { object: object.clone(), offset, buffer, from_end: false })
            });
            let (sender, outcome) = channel();
            let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
            let read = ReadOptions { task_size: Some(u64::MAX), deadline: None };
            let options = BatchOptions { gap: Gap::Bytes(200 << 10), read, ..BatchOptions::default() };
            client.0.read_batch(specs.collect::<Vec<_>>().into_iter(), options, done).unwrap().submit();
            outcome.recv_timeout(LONG).unwrap().succeeds();
            for (&(at, len), place) in items.iter().zip(&places) {
                assert!(place.bytes() == pattern_at(at as u64, len), "{at}+{len}");
                assert!(place.outside_is_untouched(), "outside of {at}+{len}");
            }
            let straight: usize = places.iter().map(|place| place.straight.load(Ordering::SeqCst)).sum();
            assert!(straight > M, "{straight} bytes");
        }
        assert_eq!(server.gets(), 3);
    });
}

#[test]
fn the_end_of_an_object_is_received_in_place_once_it_is_known_where_that_begins() {
    let _alone = alone();
    for_both_backends(|backend| {
        let (server, client) = (server_of(4 * M), TestClient::with(backend, |options| options.num_threads = Some(1)));
        let object = client.open(&server.url("/data"));
        for len in [2 * M, 3 * M] {
            let place = Place::new(len, 0);
            let (sender, outcome) = channel();
            let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
            let options = ReadOptions { task_size: Some(u64::MAX), deadline: None };
            object.read_last(place.host(), &options, done).unwrap().submit();
            outcome.recv_timeout(LONG).unwrap().succeeds();
            assert!(place.bytes() == pattern_at((4 * M - len) as u64, len) && place.outside_is_untouched());
            let straight = place.straight.load(Ordering::SeqCst);
            assert!(straight > M, "{straight} bytes");
        }
    });
}

#[test]
fn a_head_that_is_wrong_is_told_of_and_nothing_of_its_body_is_put_in_place() {
    let _alone = alone();
    let length = |n: usize| format!("Content-Length: {n}\r\n");
    let cases = [
        (format!("{}Content-Encoding: gzip\r\n", length(SIZE)), ErrorKind::Range, "encoded the body as gzip"),
        (length(SIZE + 1), ErrorKind::Range, "announces"),
        (format!("{}ETag: \"b\"\r\n", length(SIZE)), ErrorKind::ObjectChanged, "changed"),
        (
            format!("{}Content-Range: bytes 1-{SIZE}/{}\r\n", length(SIZE), SIZE + 1),
            ErrorKind::ObjectChanged,
            "changed",
        ),
        (format!("{}Content-Range: multipart\r\n", length(SIZE)), ErrorKind::Range, "makes no sense"),
    ];
    for (lines, kind, words) in cases {
        let bytes = pattern_at(0, SIZE);
        let wrong = head(STATUS, &lines);
        let address = scripted(move |stream, number, _| {
            let head = if number == 0 { usual_head() } else { wrong.clone() };
            in_pieces(stream, &joined(&[&head, &bytes]), head.len(), head.len());
            true
        });
        let client = TestClient::new(Backend::MultiPoll);
        let object = client.open(&format!("http://{address}/data"));
        start(&object, 0, SIZE).succeeds();
        let mut reading = start(&object, 0, SIZE);
        reading.end().0.fails(kind, &[words]);
        assert!(reading.place.as_ref().unwrap().bytes().iter().all(|byte| *byte == UNTOUCHED), "{lines}");
    }
}

#[test]
fn lengths_that_are_said_twice_or_not_at_all_lead_to_the_right_bytes() {
    let _alone = alone();
    let cases = [
        (STATUS, format!("Content-Length: {SIZE}\r\nContent-Length: {SIZE}\r\n"), true, true),
        (STATUS, format!("Content-Length: {SIZE}, {SIZE}\r\n"), true, false),
        (STATUS, "Connection: close\r\n".into(), false, false),
        ("HTTP/1.0 206 Partial Content", format!("Content-Length: {SIZE}\r\n"), false, true),
        ("HTTP/1.0 206 Partial Content", String::new(), false, false),
        (
            "HTTP/1.1 206 Partial Content",
            format!("Content-Length: {SIZE}\r\nTransfer-Encoding: identity\r\n"),
            false,
            false,
        ),
    ];
    for (status, lines, stays, in_place) in cases {
        let head = head(status, &lines);
        let (outcome, straight) = second(move |stream, bytes| {
            in_pieces(stream, &joined(&[&head, bytes]), head.len(), head.len());
            stays
        });
        assert_eq!(outcome.attempts, 1);
        assert!(if in_place { straight > SIZE / 2 } else { straight == 0 }, "{straight} bytes, {status}: {lines}");
    }
}

#[test]
fn an_error_on_a_connection_that_was_used_is_an_error_and_costs_one_attempt() {
    let _alone = alone();
    let (outcome, _) = {
        let bytes = pattern_at(0, SIZE);
        let address = scripted(move |stream, number, _| {
            if number == 1 {
                let head = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 400000\r\n\r\n";
                in_pieces(stream, &joined(&[head, &[b'x'; 400_000]]), head.len(), head.len());
            } else {
                in_pieces(stream, &joined(&[&usual_head(), &bytes]), usual_head().len(), usual_head().len());
            }
            true
        });
        let client = TestClient::new(Backend::MultiPoll);
        let object = client.open(&format!("http://{address}/data"));
        start(&object, 0, SIZE).succeeds();
        start(&object, 0, SIZE).succeeds()
    };
    assert_eq!(outcome.attempts, 2);
}
