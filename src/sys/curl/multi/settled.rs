//! Transfers that all use connections which are open, and wait for nothing but the next bytes of an answer.
//!
//! As a rule libcurl says which sockets it waits for. Keeping account of that costs it some 4 µs a request, a fifth of a small one:
//! a record for each transfer and each socket, made and thrown away, and a call here for each change. While every transfer is
//! settled, the answer is known without it: each waits for the socket of its connection to be readable. So libcurl is told not to say
//! (`CURLMOPT_SOCKETFUNCTION` is unset), and what is ready is run by `curl_easy_pause`, which "runs again in any case" a
//! transfer that is not paused, and one call for all of them.
//!
//! Whatever else happens ends that: a connection that is opened or closed, an idle one that something comes from, a second's look
//! at everything. Then `curl_multi_socket_all` has libcurl look at all of them and say again what it waits for. A TLS connection that
//! must write before it can be read, which hardly ever happens, waits for that second.
//!
//! Only with the libcurl that RaskIO brings along: another version's `curl_easy_pause` need not run what was not paused.

use super::super::Handler;
use super::{Multi, broken, sockets};
use crate::error::Result;
use curl_sys::CURL_SOCKET_TIMEOUT;
use std::ffi::c_void;

/// Advances after which it is tried (again): what settling costs is little beside that many.
const REST: u32 = 32;

/// Whether they are, and what is known for it.
#[derive(Default)]
pub struct Settled {
    settled: bool,
    /// Advances until it is tried.
    rest: u32,
    /// Transfers that were added since, whose connections are not known yet.
    fresh: Vec<usize>,
    /// By token: the transfer is not over TCP alone, so that libcurl does not close its connection at once.
    takes_leave: Vec<bool>,
    /// Transfers that opened a connection or have yet to send the rest of their request, of which libcurl may have said nothing.
    strangers: Vec<usize>,
    /// The socket of each token that has one.
    sockets: Vec<Option<curl_sys::curl_socket_t>>,
}

impl Settled {
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// A transfer was added.
    pub fn added(&mut self, token: usize, plain: bool) {
        if self.takes_leave.len() <= token {
            self.takes_leave.resize(token + 1, false);
        }
        self.takes_leave[token] = !plain;
        if self.settled {
            self.fresh.push(token);
        }
    }

    fn set(&mut self, token: usize, fd: Option<curl_sys::curl_socket_t>) {
        if self.sockets.len() <= token {
            self.sockets.resize(token + 1, None);
        }
        self.sockets[token] = fd;
    }
}

impl<H: Handler> Multi<H> {
    /// A transfer is about to be taken out.
    pub(super) fn let_go(&mut self, token: usize) {
        if let Some(fd) = self.settled.sockets.get_mut(token).and_then(Option::take) {
            self.sockets().release(fd, token);
            // libcurl waits for the other side's farewell, which it would have said here if it said anything.
            if self.settled.takes_leave[token]
                && self.entries[token].as_ref().is_some_and(|easy| easy.socket().is_none())
            {
                self.sockets().is_leaving(fd);
            }
        }
        if let Some(at) = self.settled.fresh.iter().position(|&fresh| fresh == token) {
            self.settled.fresh.swap_remove(at);
        }
        if let Some(at) = self.settled.strangers.iter().position(|&stranger| stranger == token) {
            self.settled.strangers.swap_remove(at);
            // It may have come to its end before libcurl waited for anything: then nothing told where its connection leads.
            if let Some(fd) = self.entries[token].as_ref().and_then(|easy| easy.socket()) {
                self.sockets().leads(fd, token);
            }
        }
    }

    /// To be called when every transfer that is over has been taken out, and none has been added since.
    ///
    /// # Errors
    /// As [`Multi::advance`].
    pub fn settle(&mut self) -> Result<()> {
        if self.settled.settled || self.is_empty() || !cfg!(feature = "bundled-curl") {
            return Ok(());
        }
        if self.settled.rest > 0 {
            self.settled.rest -= 1;
            return Ok(());
        }
        // Nor is one opened or closed that no transfer uses.
        if self.sockets().busy() != self.len() {
            return Ok(());
        }
        self.settled.rest = REST;
        self.settled.sockets.clear();
        for token in 0..self.entries.len() {
            if self.entries[token].is_none() {
                continue;
            }
            match self.socket_of(token) {
                Some(fd)
                    if self.sockets().only_reads(fd)
                        && self.entries[token].as_ref().is_some_and(|easy| easy.has_asked()) =>
                {
                    self.settled.set(token, Some(fd));
                }
                _ => return Ok(()),
            }
        }
        // A paused transfer waits for nothing, and libcurl forgets what it knew of its socket.
        let mut paused = self.entries.iter_mut().flatten().all(|easy| easy.pause(true));
        // SAFETY: null is documented to unset it.
        unsafe { self.pointer(curl_sys::CURLMOPT_SOCKETFUNCTION, std::ptr::null_mut())? };
        paused &= self.entries.iter_mut().flatten().all(|easy| easy.pause(false));
        self.settled.settled = true;
        self.settled.fresh.clear();
        // By the next advance, which takes in what that ends.
        self.sockets().run_soon(!paused);
        for token in 0..self.settled.sockets.len() {
            if let Some(fd) = self.settled.sockets[token] {
                self.claim(fd, token)?;
            }
        }
        Ok(())
    }

    /// The transfer uses this socket, and waits for it to be readable.
    fn claim(&mut self, fd: curl_sys::curl_socket_t, token: usize) -> Result<()> {
        self.sockets().take(fd, token).map_err(|error| broken("watching a socket", &error))
    }

    /// The socket of the connection of this transfer.
    fn socket_of(&mut self, token: usize) -> Option<curl_sys::curl_socket_t> {
        let easy = self.entries.get(token)?.as_ref()?;
        let number = easy.connection()?;
        // SAFETY: as in `Multi::sockets`.
        let sockets = unsafe { self.sockets.as_mut() };
        if let Some(fd) = sockets.of_connection(number) {
            return Some(fd);
        }
        let fd = easy.socket()?;
        sockets.note_connection(number, fd).then_some(fd)
    }

    pub(super) fn advance_settled(&mut self) -> Result<()> {
        let mut due = false;
        while let Some((fd, how)) = self.sockets().next_ready() {
            let user = self.sockets().user(fd);
            match user.and_then(|token| self.entries.get_mut(token)).and_then(Option::as_mut) {
                Some(easy) => {
                    easy.pause(false);
                    due = true;
                }
                None => self.action(fd, how)?,
            }
        }
        self.added.clear();
        due |= self.sockets().timer_is_due();
        if due {
            self.action(CURL_SOCKET_TIMEOUT, 0)?;
        }
        for at in 0..self.settled.fresh.len() {
            let token = self.settled.fresh[at];
            let has_asked = self.entries.get(token).and_then(Option::as_ref).is_some_and(|easy| easy.has_asked());
            match self.socket_of(token).filter(|_| has_asked) {
                Some(fd) => {
                    self.claim(fd, token)?;
                    self.settled.set(token, Some(fd));
                }
                None => self.settled.strangers.push(token),
            }
        }
        self.settled.fresh.clear();
        match self.sockets().disturbed() || !self.settled.strangers.is_empty() {
            true => self.unsettle(),
            false => Ok(()),
        }
    }

    /// Has libcurl look at every transfer, and say from now on what it waits for.
    pub(super) fn unsettle(&mut self) -> Result<()> {
        self.settled.settled = false;
        self.settled.rest = REST;
        self.settled.fresh.clear();
        // SAFETY: the function has the type that the option documents; its data was set before.
        unsafe { self.pointer(curl_sys::CURLMOPT_SOCKETFUNCTION, sockets::on_socket as *mut c_void)? };
        self.run("curl_multi_socket_all", |raw, running| {
            // SAFETY: as in `action`.
            unsafe { curl_sys::curl_multi_socket_all(raw, running) }
        })
    }
}

#[cfg(all(test, feature = "bundled-curl"))]
mod tests {
    use super::*;
    use crate::sys::curl::{Easy, Handler, Settings, Share, global_init};
    use crate::sys::event::EventFd;
    use std::ffi::{CString, c_int};
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[derive(Default)]
    struct Counts {
        body: usize,
    }

    impl Handler for Counts {
        fn header(&mut self, _: &[u8]) {}
        fn body(&mut self, bytes: &[u8]) -> bool {
            self.body += bytes.len();
            true
        }
        fn trace(&mut self, _: Option<bool>, _: &[u8]) {}
    }

    /// Answers `/N` with N bytes, each connection on a thread of its own. `/N/close` closes after it and says so, `/N/drop` does
    /// not say so, `/N/late` sends the body a moment after the head, `/N/slow` reads the rest of the request after a moment.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || serve(stream.unwrap()));
            }
        });
        address
    }

    fn serve(mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(first)) = lines.next() {
            if first.contains("/slow") {
                std::thread::sleep(Duration::from_millis(20));
            }
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let mut path = first.split(' ').nth(1).unwrap().split('/').skip(1);
            let len: usize = path.next().unwrap().parse().unwrap();
            let how = path.next().unwrap_or_default();
            let close = if how == "close" { "Connection: close\r\n" } else { "" };
            let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n{close}\r\n").into_bytes();
            if how == "late" {
                stream.write_all(&std::mem::take(&mut reply)).unwrap_or_default();
                std::thread::sleep(Duration::from_millis(2));
            }
            reply.resize(reply.len() + len, 7);
            if stream.write_all(&reply).is_err() || matches!(how, "close" | "drop") {
                return;
            }
        }
    }

    struct Bench {
        multi: Multi<Counts>,
        settings: Settings,
        wake: EventFd,
        until: Instant,
    }

    impl Bench {
        fn new() -> Bench {
            global_init().unwrap();
            let share = Share::new().unwrap();
            let settings = Settings {
                receive_buffer: 16 << 10,
                connect_timeout_ms: 0,
                request_timeout_ms: 0,
                patient: false,
                verbose: false,
                share,
            };
            // Long enough for any machine; what waits for the look at everything that a reactor has each second never ends here.
            Bench {
                multi: Multi::new(64).unwrap(),
                settings,
                wake: EventFd::new().unwrap(),
                until: Instant::now() + Duration::from_secs(60),
            }
        }

        fn easy(&self, address: SocketAddr, path: &str) -> Easy<Counts> {
            let mut easy = Easy::new(Counts::default(), &self.settings).unwrap();
            easy.set_url(&CString::new(format!("http://{address}{path}")).unwrap()).unwrap();
            easy.set_head(false).unwrap();
            easy
        }

        fn add(&mut self, address: SocketAddr, path: &str) -> usize {
            let easy = self.easy(address, path);
            self.multi.add(easy, address.port().into(), true).map_err(|(_, error)| error).unwrap()
        }

        fn add_all(&mut self, n: usize, address: SocketAddr, path: &str) {
            for _ in 0..n {
                self.add(address, path);
            }
        }

        /// Until all that are in it are over; returns how many bytes came, and how many connections were opened.
        fn run(&mut self) -> (usize, u64) {
            let (mut bytes, mut opened) = (0, 0);
            loop {
                self.multi.advance().unwrap();
                while let Some(done) = self.multi.next_done() {
                    let mut easy = self.multi.remove(done.token).unwrap().unwrap();
                    assert_eq!(done.code, 0);
                    bytes += easy.handler().body;
                    opened += easy.finished(done.code).connections;
                }
                self.multi.settle().unwrap();
                if self.multi.is_empty() {
                    return (bytes, opened);
                }
                assert!(Instant::now() < self.until, "nothing told of {} transfers", self.multi.len());
                self.multi.wait(&self.wake, 1000).unwrap();
            }
        }

        /// Reads until all is settled.
        fn settle(&mut self, address: SocketAddr) {
            for _ in 0..10 * REST {
                // Late: one that is answered at once is over before there is anything to settle.
                self.add(address, "/10/late");
                assert_eq!(self.run().0, 10);
                if self.multi.settled.is_settled() {
                    return;
                }
            }
            panic!("one connection that is used again and again does not settle");
        }
    }

    #[test]
    fn transfers_on_open_connections_settle_and_go_on() {
        let (address, mut bench) = (server(), Bench::new());
        bench.add_all(8, address, "/10");
        assert_eq!(bench.run(), (80, 8));
        bench.settle(address);
        for _ in 0..20 {
            bench.add_all(8, address, "/100000");
            bench.add_all(2, address, "/1000/late");
            assert_eq!(bench.run().0, 802_000);
        }
        assert_eq!(bench.multi.idle_connections(address.port().into()), 10);
    }

    #[test]
    fn connections_that_end_or_begin_unsettle_and_cost_nothing_else() {
        let (address, other, mut bench) = (server(), server(), Bench::new());
        for path in ["/10/close", "/10/drop"] {
            for _ in 0..20 {
                bench.settle(address);
                bench.add_all(3, address, path);
                bench.add(address, "/5/late");
                assert_eq!(bench.run().0, 35, "{path}");
            }
        }
        bench.settle(address);
        bench.add_all(3, other, "/10");
        assert_eq!(bench.run(), (30, 3));
        assert!(!bench.multi.settled.is_settled(), "connections were opened, and nobody looked at them");
        bench.settle(address);
    }

    #[test]
    fn a_request_that_does_not_fit_into_the_send_buffer_is_sent_all_the_same() {
        let (address, mut bench) = (server(), Bench::new());
        bench.settle(address);
        let fd = *bench.multi.sockets().connections.values().next().unwrap();
        let small: c_int = 4096;
        // SAFETY: the descriptor is open, and the option's value is an int.
        let set = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const small).cast(),
                size_of::<c_int>() as u32,
            )
        };
        assert_eq!(set, 0);
        let line = CString::new(format!("X-Long: {}", "x".repeat(800_000))).unwrap();
        for _ in 0..20 {
            bench.settle(address);
            let mut easy = bench.easy(address, "/30/slow");
            easy.set_headers(Some(crate::sys::curl::Headers::new([line.as_c_str()].into_iter()).unwrap())).unwrap();
            bench.multi.add(easy, address.port().into(), true).map_err(|(_, error)| error).unwrap();
            assert_eq!(bench.run(), (30, 0));
        }
    }

    #[test]
    fn what_is_taken_out_on_its_way_leaves_the_others_and_their_count_alone() {
        let (address, mut bench) = (server(), Bench::new());
        bench.add_all(4, address, "/10");
        bench.run();
        bench.settle(address);
        for _ in 0..20 {
            let out = bench.add(address, "/10/late");
            bench.add(address, "/20/late");
            bench.multi.advance().unwrap();
            assert!(bench.multi.remove(out).unwrap().is_some());
            // One that never started.
            let out = bench.add(address, "/10");
            assert!(bench.multi.remove(out).unwrap().is_some());
            assert_eq!(bench.run().0, 20);
            bench.add_all(4, address, "/10");
            assert_eq!(bench.run().0, 40);
            assert_eq!(bench.multi.idle_connections(address.port().into()), 4);
            bench.settle(address);
        }
    }

    #[test]
    fn looking_at_everything_unsettles_and_loses_nothing() {
        let (address, mut bench) = (server(), Bench::new());
        bench.settle(address);
        for _ in 0..20 {
            bench.settle(address);
            bench.add(address, "/1000/late");
            bench.multi.advance().unwrap();
            assert!(bench.multi.settled.is_settled());
            bench.multi.advance_all().unwrap();
            assert!(!bench.multi.settled.is_settled());
            assert_eq!(bench.run().0, 1000);
        }
    }
}
