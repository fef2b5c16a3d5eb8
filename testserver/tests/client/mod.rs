//! A client that is nothing but a socket, so that nothing repairs what the server does.
#![allow(dead_code)] // Each test file uses its part of it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use raskio_testserver::Server;

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The announced body is complete, and the connection is still open.
    Complete,
    Closed,
    Reset,
    /// Nothing for as long as the read time-out.
    Silence,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    pub end: End,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn new(server: &Server) -> Client {
        Client::to(server.port())
    }

    pub fn to(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connecting");
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    pub fn patience(self, timeout: Duration) -> Client {
        self.stream.set_read_timeout(Some(timeout)).unwrap();
        self
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("sending");
    }

    pub fn request(&mut self, method: &str, target: &str, headers: &str) -> Response {
        self.send(&format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{headers}\r\n"));
        self.receive(method != "HEAD").expect("a reply")
    }

    pub fn get(&mut self, target: &str) -> Response {
        self.request("GET", target, "")
    }

    pub fn get_range(&mut self, target: &str, range: &str) -> Response {
        self.request("GET", target, &format!("Range: bytes={range}\r\n"))
    }

    pub fn head(&mut self, target: &str) -> Response {
        self.request("HEAD", target, "")
    }

    /// One response; the end alone where there is none.
    pub fn receive(&mut self, with_body: bool) -> Result<Response, End> {
        let head_len = loop {
            if let Some(at) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if let Some(end) = self.more() {
                return Err(end);
            }
        };
        let head = String::from_utf8(self.buffer.drain(..head_len).collect()).expect("a head of text");
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        let mut response = Response { status, head, body: Vec::new(), end: End::Complete };
        let bodiless = !with_body || matches!(status, 100..=199 | 204 | 304);
        if bodiless {
            return Ok(response);
        }
        if response.header("Transfer-Encoding") == Some("chunked") {
            response.end = self.chunks(&mut response.body).err().unwrap_or(End::Complete);
            return Ok(response);
        }
        let announced = response.header("Content-Length").map_or(usize::MAX, |len| len.parse().unwrap());
        while self.buffer.len() < announced {
            if let Some(end) = self.more() {
                response.end = end;
                break;
            }
        }
        response.body = self.buffer.drain(..announced.min(self.buffer.len())).collect();
        Ok(response)
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> Result<(), End> {
        loop {
            let line = loop {
                match self.buffer.windows(2).position(|w| w == b"\r\n") {
                    Some(at) => break self.buffer.drain(..at + 2).collect::<Vec<u8>>(),
                    None => self.more().map_or(Ok(()), Err)?,
                }
            };
            let len = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).expect("a chunk size");
            while self.buffer.len() < len + 2 {
                self.more().map_or(Ok(()), Err)?;
            }
            body.extend(self.buffer.drain(..len));
            assert_eq!(self.buffer.drain(..2).collect::<Vec<u8>>(), b"\r\n");
            if len == 0 {
                return Ok(());
            }
        }
    }

    /// Sends a GET whose reply stalls after `n` bytes of the body: waits for those, and then sees nothing for a while.
    pub fn get_stalled(&mut self, target: &str, n: usize) -> Response {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let mut response = self.receive(false).expect("a head");
        while self.buffer.len() < n {
            assert_eq!(self.more(), None);
        }
        self.stream.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
        (response.body, response.end) = self.rest();
        response
    }

    /// All that comes until the connection ends.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        loop {
            if let Some(end) = self.more() {
                return (std::mem::take(&mut self.buffer), end);
            }
        }
    }

    fn more(&mut self) -> Option<End> {
        let mut bytes = vec![0; 64 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Some(End::Closed),
            Ok(n) => {
                self.buffer.extend_from_slice(&bytes[..n]);
                None
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Some(End::Reset),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(End::Silence),
            Err(error) => panic!("reading: {error}"),
        }
    }
}
