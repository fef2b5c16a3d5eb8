//! The program, its query parameters and its control paths.

mod client;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, End};
use raskio_testserver::{pattern, pattern_at, pattern_crc32};

struct Program {
    child: Child,
    lines: Vec<String>,
    port: u16,
}

impl Program {
    fn start(arguments: &[&str]) -> Program {
        let mut child = Command::new(env!("CARGO_BIN_EXE_raskio-testserver"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut lines, mut port) = (Vec::new(), None);
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        while port.is_none() {
            let Some(line) = said.next() else {
                let status = child.wait();
                panic!("the program ended with {status:?} before it listened, having said {lines:?}");
            };
            lines.push(line.unwrap());
            port =
                lines.last().unwrap().strip_prefix("listening on http://127.0.0.1:").map(|port| port.parse().unwrap());
        }
        Program { child, lines, port: port.unwrap() }
    }

    fn client(&self) -> Client {
        Client::to(self.port)
    }

    fn stat(&self, key: &str) -> u64 {
        let text = String::from_utf8(self.client().get("/ctl/stats").body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} ")));
        line.unwrap_or_else(|| panic!("no {key} in {text}")).parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Closing its standard input ends it; that it does is the promise.
        drop(self.child.stdin.take());
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if start.elapsed() > Duration::from_secs(10) {
                let _ = self.child.kill();
                assert!(std::thread::panicking(), "the program went on after its standard input was closed");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn serves_what_its_arguments_name() {
    let dir = std::env::temp_dir();
    let file = dir.join(format!("raskio-testserver-file-{}", std::process::id()));
    let port_file = dir.join(format!("raskio-testserver-port-{}", std::process::id()));
    std::fs::write(&file, b"from a file").unwrap();
    let from_file = format!("dir/f={}", file.display());
    let arguments = ["--object", "big=1G", "--object", "x=1000", "--file", &from_file, "--port-file"];
    let program = Program::start(&[&arguments[..], &[port_file.to_str().unwrap()]].concat());
    assert_eq!(program.lines[0], format!("object big 1073741824 crc32 {:08x}", pattern_crc32(1 << 30)));
    assert_eq!(program.lines[1], format!("object x 1000 crc32 {:08x}", crc32fast::hash(&pattern(1000))));
    assert_eq!(program.lines[2], format!("object dir/f 11 crc32 {:08x}", crc32fast::hash(b"from a file")));
    assert_eq!(std::fs::read_to_string(&port_file).unwrap(), format!("{}\n", program.port));
    let mut client = program.client();
    assert_eq!(client.get("/dir/f").body, b"from a file");
    assert_eq!(client.get_range("/big", "1073741000-").body, pattern_at(1_073_741_000, 824));
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&port_file).unwrap();
}

#[test]
fn says_what_is_wrong_with_its_arguments() {
    for (arguments, text) in [
        (&["--object", "x"][..], "--object x: NAME=... is needed"),
        (&["--object", "x=1Q"], "1Q is no size"),
        (&["--file", "x=/does/not/exist"], "cannot serve the file /does/not/exist"),
        (&["--port", "70000"], "--port 70000: 70000 is not a number in its range"),
        (&["--nonsense"], "unknown option --nonsense"),
        (&[], "nothing to serve"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_raskio-testserver")).args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(text), "{arguments:?}: {said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn each_query_parameter() {
    let program = Program::start(&["--object", "o=1000"]);
    let ask =
        |query: &str| program.client().patience(Duration::from_millis(1500)).get_range(&format!("/o?{query}"), "10-19");
    assert_eq!(ask("").body, pattern_at(10, 10));
    assert_eq!(ask("status=404").status, 404);
    assert_eq!((ask("claim_status=200").status, ask("claim_status=200").body.len()), (200, 10));
    assert_eq!((ask("redirect=/p").status, ask("redirect=/p").header("Location")), (302, Some("/p")));
    assert_eq!(ask("redirect=/p&status=307").status, 307);
    let stalled = program.client().get_stalled("/o?stall_after=7", 7);
    assert_eq!((stalled.body.len(), stalled.end), (7, End::Silence));
    assert_eq!((ask("reset_after=7").body.len(), ask("reset_after=7").end), (7, End::Reset));
    assert_eq!((ask("close_after=7").body.len(), ask("close_after=7").end), (7, End::Closed));
    assert_eq!((ask("ignore_range=1").status, ask("ignore_range=0").status), (200, 206));
    assert_eq!(ask("short_by=1").header("Content-Length"), Some("9"));
    assert_ne!(ask("corrupt=0").body, pattern_at(10, 10));
    assert_eq!(ask("etag=A").header("ETag"), Some("\"A\""));
    assert_eq!(ask("no_total=1").header("Content-Range"), Some("bytes 10-19/*"));
    assert_eq!((ask("no_length=1").header("Content-Length"), ask("no_length=1").end), (None, End::Closed));
    assert_eq!(ask("header=X-A:%20b").header("X-A"), Some("b"));
    assert_eq!(ask("status=503&retry_after=1").header("Retry-After"), Some("1"));
    assert_eq!(ask("announce_close=1").header("Connection"), Some("close"));
    assert_eq!(ask("chunked=1").header("Transfer-Encoding"), Some("chunked"));
    assert_eq!(ask("gzip=1").header("Content-Encoding"), Some("gzip"));
    assert!(ask("multipart=1").header("Content-Type").unwrap().starts_with("multipart/byteranges"));
    assert!(ask("http10=1").head.starts_with("HTTP/1.0 206"));
    for (query, end) in [("stall=1", End::Silence), ("close=1", End::Closed), ("reset=1", End::Reset)] {
        let mut client = program.client();
        client.send(&format!("GET /o?{query} HTTP/1.1\r\n\r\n"));
        if end == End::Silence {
            while program.stat("in_flight") == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            client = client.patience(Duration::from_millis(150));
        }
        assert_eq!(client.rest(), (Vec::new(), end), "{query}");
    }
    for (query, rest) in [("extra=2", &b"!!"[..]), ("extra=0", b"")] {
        let mut client = program.client();
        client.get_range(&format!("/o?{query}&close_silently=1"), "10-19");
        assert_eq!(client.rest(), (rest.to_vec(), End::Closed), "{query}");
    }
    let mut client = program.client();
    client.send("GET /o?garbage=1 HTTP/1.1\r\n\r\n");
    assert!(!client.rest().0.starts_with(b"HTTP"));
    for query in ["delay_ms=100", "delay_body_ms=100", "rate=90"] {
        let start = Instant::now();
        assert_eq!(ask(query).body.len(), 10);
        assert!(start.elapsed() >= Duration::from_millis(100), "{query}");
    }
    for (query, text) in [
        ("stats=1", "unknown parameter stats=1"),
        ("stall=2", "must be 0 or 1"),
        ("rate=0", "rate=0"),
        ("status=9", "status=9"),
    ] {
        let got = ask(query);
        assert!(got.status == 400 && String::from_utf8_lossy(&got.body).contains(text), "{query}: {got:?}");
    }
}

#[test]
fn parameters_for_one_method_or_the_first_requests() {
    let program = Program::start(&["--object", "o=1000"]);
    let mut client = program.client();
    assert_eq!((client.head("/o?no_head=405").status, client.get("/o?no_head=405").status), (405, 200));
    assert_eq!((client.head("/o?status=503&only=get").status, client.get("/o?status=503&only=get").status), (200, 503));
    let target = "/o?status=503&times=2&only=get";
    assert_eq!(client.head(target).status, 200);
    let statuses: Vec<u16> = (0..4).map(|_| client.get(target).status).collect();
    assert_eq!(statuses, [503, 503, 200, 200]);
    client.get("/ctl/reset");
    assert_eq!(client.get(target).status, 503);
}

#[test]
fn control_tells_the_counts_and_opens_gates() {
    let program = Program::start(&["--object", "o=1000", "--delay-ms", "30", "--rate", "100000"]);
    assert_eq!((program.stat("requests"), program.stat("connections")), (0, 0), "control itself is not counted");
    let mut client = program.client();
    let start = Instant::now();
    client.get_range("/o", "0-999");
    assert!(start.elapsed() >= Duration::from_millis(30));
    client.head("/o");
    assert_eq!((program.stat("requests"), program.stat("gets"), program.stat("heads")), (2, 1, 1));
    assert_eq!((program.stat("connections"), program.stat("max_in_flight"), program.stat("completed")), (1, 1, 2));
    assert_eq!(client.get("/ctl/log").body, b"GET /o 0-999\nHEAD /o -\n");
    let mut held = program.client();
    held.send("GET /o?hold=g HTTP/1.1\r\nRange: bytes=0-9\r\n\r\n");
    while client.get("/ctl/held?gate=g").body != b"1\n" {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(program.stat("in_flight"), 1);
    assert_eq!(client.get("/ctl/open?gate=g").body, b"ok\n");
    assert_eq!(held.receive(true).unwrap().body, pattern(10));
    assert_eq!(client.get("/ctl/nothing").status, 404);
    client.get("/ctl/reset");
    assert_eq!((program.stat("requests"), program.stat("in_flight")), (0, 0));
}

#[test]
fn serving_a_gibibyte_costs_no_time_outside_the_kernel() {
    let program = Program::start(&["--object", "gib=1G"]);
    let mut client = program.client();
    client.send("GET /gib HTTP/1.1\r\nConnection: close\r\n\r\n");
    let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
    loop {
        match client.stream.read(&mut buffer).unwrap() {
            0 => break,
            n => total += n,
        }
    }
    assert!(total > 1 << 30);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.child.id())).unwrap();
    // The 14th field: time in user mode, in hundredths of a second. Touching each byte would cost ten times as much.
    let user: u64 = stat.rsplit(") ").next().unwrap().split(' ').nth(11).unwrap().parse().unwrap();
    assert!(user < 20, "{user}0 ms");
}
