//! Body bytes straight from the socket to where they belong.
//!
//! libcurl receives into a buffer of its own, and what a transfer's handler gets of it must be copied once more: 0.1 CPU-seconds a GiB, a
//! quarter of all that a large read over plain TCP costs. libcurl has no option for another place. So the library is linked with
//! `--wrap=recv`, and libcurl's calls of `recv` come here: when all that can come next on a socket is the body of a transfer whose
//! handler lends room for it, the kernel writes into that room, and libcurl is told as many bytes as it asked for. It hands them on
//! without looking at them, by their place in its own buffer, and that place is the proof that they are the same ones.
//!
//! Nothing is taken on trust:
//! - a socket is plain once bytes that were received from it were handed to a transfer of its own connection at the very place where
//!   libcurl had them put. So TLS, a proxy's tunnel or a later libcurl that keeps bytes elsewhere never get here. The place alone says
//!   nothing: all transfers share one buffer, and what OpenSSL had received ahead appears there without a call of `recv`;
//! - it belongs to the last transfer of that connection, by libcurl's number, that was handed something of it;
//! - bytes that were put straight into their place have to be handed on next, in order and from the same place. If they are not,
//!   that attempt fails and is made again, and the process receives in libcurl's way from then on.
//!
//! In a program that is linked without `--wrap=recv`, or with the system's libcurl, nothing calls this, and every byte is copied.

use super::numbered::Numbered;
use super::still;
use crate::sys::fault::{self, Point};
use crate::sys::mem::Span;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

/// libcurl does something else with what it received than it did when this was written.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Those of the multi handle that runs on this thread; null: none does.
    static CURRENT: Cell<*mut Straight> = const { Cell::new(ptr::null_mut()) };
}

/// A transfer whose bytes can be put where they belong.
pub trait Taker {
    /// Where the next bytes go, if nothing else can come.
    fn lend(&mut self) -> Option<Span<'_>>;
    /// So many bytes were put there, and libcurl believes that they are at `at`.
    fn lent(&mut self, at: usize, n: usize);
}

/// The connection of a transfer, as libcurl knows it now.
pub trait Connection {
    /// Its number, never used again.
    fn number(&self) -> Option<i64>;
    /// Its socket. libcurl looks through all connections for it.
    fn socket(&self) -> Option<c_int>;
}

/// A socket whose bytes are handed on where they were received.
struct Plain {
    /// Its connection's number.
    connection: i64,
    /// `None`: no transfer that is under way.
    taker: Option<NonNull<dyn Taker>>,
}

/// Who takes what from which socket of one multi handle.
#[derive(Default)]
pub struct Straight {
    /// By socket.
    plain: Numbered<i64, Plain>,
    /// The socket that libcurl received from last, and where the bytes are.
    last: Option<(c_int, usize, usize)>,
}

/// What a transfer knows of bytes that were put where they belong.
#[derive(Default)]
pub struct Placed {
    /// The socket by which it is known to be a taker.
    pub socket: Option<c_int>,
    at: usize,
    left: usize,
    lost: bool,
}

/// Where bytes are that libcurl hands on.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// Where it says.
    There,
    /// Where they belong.
    InPlace,
    /// Nobody knows: what was put in place before was not handed on.
    Lost,
}

impl Placed {
    /// libcurl believes that `n` bytes which are in their place are at `at`.
    pub fn lent(&mut self, at: usize, n: usize) {
        (self.at, self.left) = (at, n);
    }

    /// Whether more may be put in place: all that was has been handed on.
    pub fn is_open(&mut self) -> bool {
        self.lost |= self.left > 0;
        !self.lost
    }

    /// libcurl hands on `n` bytes at `at`.
    pub fn told(&mut self, at: usize, n: usize) -> Told {
        if self.left == 0 && !self.lost {
            return Told::There;
        }
        if self.lost || at != self.at || n > self.left || fault::hit(Point::BodyElsewhere) {
            self.lost = true;
            GIVEN_UP.store(true, Ordering::Relaxed);
            return Told::Lost;
        }
        self.at += n;
        self.left -= n;
        Told::InPlace
    }
}

impl Straight {
    /// This multi handle runs on this thread until the guard is dropped.
    ///
    /// # Safety
    /// `straight` must live for so long, and be reached in no other way while libcurl runs but from its callbacks.
    pub unsafe fn run(straight: *mut Straight) -> Running {
        Running(CURRENT.replace(straight))
    }

    /// The socket leads to nobody any more.
    pub fn closed(&mut self, socket: c_int) {
        self.plain.remove(&socket.into());
        self.last = None;
    }

    /// The transfer is about to be taken out.
    pub fn forget(&mut self, placed: &mut Placed, taker: *const c_void) {
        self.leave(std::mem::take(placed).socket, taker);
    }

    /// This socket, if it is one, does not lead to this taker any more.
    fn leave(&mut self, socket: Option<c_int>, taker: *const c_void) {
        let plain = socket.and_then(|socket| self.plain.get_mut(&socket.into()));
        // It may lead to a later one by now.
        if let Some(plain) =
            plain.filter(|plain| plain.taker.is_some_and(|known| ptr::eq(known.as_ptr().cast(), taker)))
        {
            plain.taker = None;
        }
    }

    /// The socket leads to this taker, and `known` does not.
    fn leads(
        &mut self,
        socket: c_int,
        connection: i64,
        taker: NonNull<dyn Taker>,
        known: Option<c_int>,
    ) -> Option<c_int> {
        self.leave(known, taker.as_ptr().cast_const().cast());
        self.plain.insert(socket.into(), Plain { connection, taker: Some(taker) });
        Some(socket)
    }
}

/// Ends what [`Straight::run`] began.
pub struct Running(*mut Straight);

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// libcurl hands `n` bytes of a body at `at` to this taker, whose connection is `own`. Returns the socket that leads to it, which is
/// `known` so far.
pub fn body_came(
    taker: NonNull<dyn Taker>,
    known: Option<c_int>,
    own: &impl Connection,
    at: usize,
    n: usize,
) -> Option<c_int> {
    // SAFETY: promised to `Straight::run`; no other reference to it lives while a handler's callback runs.
    let Some(straight) = (unsafe { CURRENT.get().as_mut() }) else { return known };
    let Some((socket, start, end)) = straight.last else { return known };
    if known == Some(socket) || at < start || at + n > end {
        return known;
    }
    // Those that were received last may be another transfer's, and these come from where libcurl kept them.
    let Some(number) = own.number() else { return known };
    let is_own = match straight.plain.get(&socket.into()) {
        Some(plain) => plain.connection == number,
        None => own.socket() == Some(socket),
    };
    if is_own { straight.leads(socket, number, taker, known) } else { known }
}

/// libcurl hands a header to this taker, to which no socket leads yet. Returns the one that it came from, if that is a plain one.
pub fn header_came(taker: NonNull<dyn Taker>, own: &impl Connection) -> Option<c_int> {
    // SAFETY: as above.
    let straight = unsafe { CURRENT.get().as_mut() }?;
    let (socket, ..) = straight.last?;
    let connection = straight.plain.get(&socket.into())?.connection;
    (own.number() == Some(connection)).then(|| straight.leads(socket, connection, taker, None))?
}

/// AMD's processors copy a page to an address that is 1 to 63 bytes further into its page than the source is into its own at a third of
/// their speed (Zen 3, measured: 0.66 CPU-seconds a GiB instead of 0.27), and the kernel's copy is one plain `rep movsb`.
const ALIASED: std::ops::Range<u64> = 1..64;
const PAGE: u64 = 4096;

/// Whether this processor would receive what lies at `from` in a file slowly to the address `to`. A server that sends from the page
/// cache of this machine has it at the same place in a page; over a network it is anywhere, and this is wrong at times, at the price
/// of a copy. All large blocks of glibc's `malloc` begin 16 bytes into a page.
pub fn is_slow(to: usize, from: u64) -> bool {
    ALIASED.contains(&((to as u64).wrapping_sub(from) % PAGE)) && is_amd()
}

#[cfg(target_arch = "x86_64")]
fn is_amd() -> bool {
    use std::sync::atomic::AtomicU8;
    /// 0: not known yet, 1: no, 2: yes.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    if KNOWN.load(Ordering::Relaxed) == 0 {
        // SAFETY: every x86-64 processor has the instruction. The oldest Rust that builds this does not know that.
        #[allow(unused_unsafe)]
        let maker = unsafe { std::arch::x86_64::__cpuid(0) };
        let is = [maker.ebx, maker.edx, maker.ecx] == [*b"Auth", *b"enti", *b"cAMD"].map(u32::from_le_bytes);
        KNOWN.store(1 + u8::from(is), Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == 2
}

#[cfg(not(target_arch = "x86_64"))]
fn is_amd() -> bool {
    false
}

/// What libcurl calls in place of `recv`.
unsafe extern "C" fn receive(socket: c_int, to: *mut c_void, len: usize, flags: c_int) -> isize {
    let current = CURRENT.get();
    // Looking at a connection (MSG_PEEK) is not receiving from it.
    if current.is_null() || flags != 0 {
        // SAFETY: what the caller passed to `recv`, which is this call without an address.
        return unsafe { recv(socket, to, len, flags) };
    }
    // SAFETY: promised to `Straight::run`; libcurl runs, and calls nobody back now.
    let straight = unsafe { &mut *current };
    let taker = straight.plain.get(&socket.into()).and_then(|plain| plain.taker);
    if let Some(mut taker) = taker.filter(|_| !GIVEN_UP.load(Ordering::Relaxed)) {
        // SAFETY: a taker is forgotten before its transfer leaves the multi handle, which owns it until then. libcurl calls
        // nobody back now, so nobody else reaches it.
        let taker = unsafe { taker.as_mut() };
        if let Some(room) = taker.lend().filter(|room| !room.is_empty()) {
            // SAFETY: the room is lent for writing as many bytes as it has, and stays until the taker is told.
            let n = unsafe { recv(socket, room.start().cast(), room.len().min(len), 0) };
            if let Ok(n @ 1..) = usize::try_from(n) {
                taker.lent(to as usize, n);
            }
            return n;
        }
    }
    // SAFETY: as above.
    let n = unsafe { recv(socket, to, len, 0) };
    if let Ok(n @ 1..) = usize::try_from(n) {
        straight.last = Some((socket, to as usize, to as usize + n));
    }
    n
}

/// `recv` by its other name: that one leads here.
unsafe fn recv(socket: c_int, to: *mut c_void, len: usize, flags: c_int) -> isize {
    still::goes_on();
    // SAFETY: promised by the caller; null is documented for the address that nobody wants.
    unsafe { libc::recvfrom(socket, to, len, flags, ptr::null_mut(), ptr::null_mut()) }
}

super::wrap::wrap!("recv", receive);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_in_place_are_taken_only_in_order_and_from_where_they_are_said_to_be() {
        let mut placed = Placed::default();
        assert_eq!(placed.told(100, 10), Told::There, "nothing was put in place");
        placed.lent(100, 30);
        assert_eq!([placed.told(100, 16), placed.told(116, 14)], [Told::InPlace, Told::InPlace]);
        assert!(placed.is_open());
        assert_eq!(placed.told(100, 10), Told::There, "all of it was handed on");
    }

    #[test]
    fn whatever_else_is_handed_on_while_bytes_in_place_are_due_is_lost_for_good() {
        let mut due: [Placed; 3] = Default::default();
        due.iter_mut().for_each(|placed| placed.lent(100, 30));
        assert_eq!(due[0].told(200, 30), Told::Lost, "from elsewhere");
        assert_eq!(due[1].told(100, 31), Told::Lost, "more than there are");
        assert!(!due[2].is_open(), "more is received before they were handed on");
        assert_eq!(due.map(|mut placed| placed.told(100, 30)), [Told::Lost, Told::Lost, Told::Lost]);
    }

    /// Takes bytes into a room of its own.
    struct Room {
        bytes: Vec<u8>,
        placed: Placed,
    }

    impl Taker for Room {
        fn lend(&mut self) -> Option<Span<'_>> {
            self.placed.is_open().then(|| Span::new(self.bytes.as_mut_ptr(), self.bytes.len(), None))
        }

        fn lent(&mut self, at: usize, n: usize) {
            self.placed.lent(at, n);
        }
    }

    /// A connection whose other side sends what it is told to, libcurl's buffer, and the room of one transfer.
    struct Bench {
        there: UnixStream,
        here: UnixStream,
        buffer: [u8; 64],
        room: Box<Room>,
    }

    impl Bench {
        fn new() -> Bench {
            let (there, here) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            Bench {
                there,
                here,
                buffer: [0; 64],
                room: Box::new(Room { bytes: vec![0; 8], placed: Placed::default() }),
            }
        }

        fn taker(&mut self) -> NonNull<dyn Taker> {
            NonNull::from(&mut *self.room)
        }

        /// The other side sends this, and libcurl receives it; how much is told.
        fn receive(&mut self, sent: &[u8], flags: c_int) -> isize {
            self.there.write_all(sent).unwrap();
            // SAFETY: the buffer has as many bytes.
            unsafe { receive(self.here.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), flags) }
        }

        fn own(&self) -> Numbers {
            Numbers { number: 7, socket: self.here.as_raw_fd() }
        }

        /// libcurl hands bytes of its buffer to the transfer.
        fn hand_on(&mut self, from: usize, n: usize) {
            let at = self.buffer.as_ptr() as usize + from;
            self.room.placed.socket = body_came(self.taker(), self.room.placed.socket, &self.own(), at, n);
        }
    }

    #[derive(Clone, Copy)]
    struct Numbers {
        number: i64,
        socket: c_int,
    }

    impl Connection for Numbers {
        fn number(&self) -> Option<i64> {
            Some(self.number)
        }
        fn socket(&self) -> Option<c_int> {
            Some(self.socket)
        }
    }

    #[test]
    fn bytes_go_straight_to_a_transfer_that_was_handed_the_last_ones_of_that_socket_where_they_were() {
        let (mut straight, mut bench) = (Straight::default(), Bench::new());
        let socket = bench.here.as_raw_fd();
        // SAFETY: it outlives the guard, and is reached between the calls only.
        let _running = unsafe { Straight::run(&raw mut straight) };
        assert_eq!((bench.receive(b"head body", 0), &bench.buffer[..9]), (9, &b"head body"[..]));
        let elsewhere = [0u8; 4];
        assert_eq!(body_came(bench.taker(), None, &bench.own(), elsewhere.as_ptr() as usize, 4), None, "as over TLS");
        bench.hand_on(5, 4);
        assert_eq!(bench.room.placed.socket, Some(socket));
        assert_eq!(
            (bench.receive(b"0123456789", 0), &bench.room.bytes[..]),
            (8, &b"01234567"[..]),
            "no more than is lent"
        );
        assert_eq!(&bench.buffer[..9], b"head body", "and nothing there");
        assert_eq!(bench.room.placed.told(bench.buffer.as_ptr() as usize, 8), Told::InPlace);
        assert_eq!((bench.receive(b"", libc::MSG_PEEK), &bench.buffer[..2]), (2, &b"89"[..]), "a look is none");
        straight.closed(socket);
        assert_eq!(
            (bench.receive(b"", 0), &bench.room.bytes[..2]),
            (2, &b"01"[..]),
            "the next connection has its number"
        );
    }

    #[test]
    fn a_transfer_that_is_taken_out_takes_nothing_more_and_its_socket_leads_to_the_next_by_its_head() {
        let (mut straight, mut bench) = (Straight::default(), Bench::new());
        let socket = bench.here.as_raw_fd();
        // SAFETY: as above.
        let _running = unsafe { Straight::run(&raw mut straight) };
        assert_eq!(bench.receive(b"head", 0), 4);
        assert_eq!(header_came(bench.taker(), &bench.own()), None, "it is not known to be plain");
        bench.hand_on(0, 4);
        let taker = bench.taker().as_ptr().cast_const().cast();
        straight.forget(&mut bench.room.placed, taker);
        assert_eq!((bench.receive(b"next", 0), &bench.buffer[..4]), (4, &b"next"[..]));
        assert_eq!(header_came(bench.taker(), &bench.own()), Some(socket));
        assert_eq!((bench.receive(b"straight", 0), &bench.room.bytes[..]), (8, &b"straight"[..]));
    }

    #[test]
    fn a_transfer_of_another_connection_takes_nothing_though_its_bytes_are_where_those_of_this_one_were() {
        let (mut straight, mut bench, mut other) = (Straight::default(), Bench::new(), Bench::new());
        let socket = bench.here.as_raw_fd();
        let (at, elsewhere) = (bench.buffer.as_ptr() as usize, Numbers { number: 8, socket: other.here.as_raw_fd() });
        // SAFETY: as above.
        let _running = unsafe { Straight::run(&raw mut straight) };
        // The second time the socket is known to be plain.
        for _ in 0..2 {
            assert_eq!(bench.receive(b"0123456789", 0), 10);
            // What TLS received ahead of this, say.
            assert_eq!(body_came(other.taker(), None, &elsewhere, at, 8), None);
            assert_eq!(header_came(other.taker(), &elsewhere), None);
            bench.hand_on(0, 10);
            assert_eq!(bench.room.placed.socket, Some(socket));
            assert_eq!((bench.receive(b"straight", 0), &bench.room.bytes[..]), (8, &b"straight"[..]));
            assert_eq!(bench.room.placed.told(at, 8), Told::InPlace);
            let taker = bench.taker().as_ptr().cast_const().cast();
            straight.forget(&mut bench.room.placed, taker);
        }
        assert_eq!(other.room.bytes, [0; 8]);
    }

    #[test]
    fn no_socket_leads_to_a_transfer_that_went_on_by_another_connection() {
        let (mut straight, mut bench, mut next) = (Straight::default(), Bench::new(), Bench::new());
        // SAFETY: as above.
        let _running = unsafe { Straight::run(&raw mut straight) };
        bench.receive(b"body", 0);
        bench.hand_on(0, 4);
        next.receive(b"body", 0);
        let at = next.buffer.as_ptr() as usize;
        let known = body_came(bench.taker(), bench.room.placed.socket, &Numbers { number: 8, ..next.own() }, at, 4);
        assert_eq!(known, Some(next.here.as_raw_fd()));
        bench.room.placed.socket = known;
        let taker = bench.taker().as_ptr().cast_const().cast();
        straight.forget(&mut bench.room.placed, taker);
        assert!(straight.plain.values().all(|plain| plain.taker.is_none()), "one leads to what is gone");
    }

    #[test]
    fn places_in_a_page_that_some_processors_copy_slowly_between_are_those_a_little_behind() {
        let slow = |to, from| is_slow(to, from) == is_amd();
        assert!(slow(16, 0) && slow(4096 + 63, 8192) && slow(5, 4096 - 58));
        assert!(![(0, 0), (64, 0), (0, 1), (4096, 8192)].iter().any(|&(to, from)| is_slow(to, from)));
    }
}
