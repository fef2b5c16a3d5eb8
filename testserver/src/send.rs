//! Puts a planned reply on the wire, with everything that shall go wrong on the way.

use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::gate::{Wake, wait_until, wait_writable};
use crate::plan::{Plan, head};
use crate::reply::{End, Instead, Reply};
use crate::watch::{Outcome, Ticket};

/// The last bytes of a reply, before which it is counted as done: see [`crate::Counts::in_flight`].
const TAIL: u64 = 16 * 1024;
/// Largest single write.
const MOST: u64 = 1 << 20;
/// A rate is kept to within this.
const BEAT: Duration = Duration::from_millis(10);

/// How long a reset waits for the bytes before it to arrive.
const DELIVERY_LIMIT: Duration = Duration::from_secs(2);

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    KeepAlive,
    Close,
    Reset,
}

/// Everything that comes before the head. `Some` when there is no head any more.
pub(crate) fn before_head(stream: &TcpStream, reply: &Reply, ticket: &mut Ticket) -> io::Result<Option<Next>> {
    for (status, headers) in &reply.interim {
        write_all(stream, &[&head(1, *status, headers)])?;
    }
    pause(stream, reply.delay, reply.gate.as_ref())?;
    match &reply.instead {
        None => Ok(None),
        Some(Instead::Never) => Err(stalled(stream)),
        Some(Instead::Close) => {
            ticket.finish(Outcome::Cut);
            Ok(Some(Next::Close))
        }
        Some(Instead::Reset) => {
            ticket.finish(Outcome::Cut);
            Ok(Some(Next::Reset))
        }
        Some(Instead::Raw(bytes)) => {
            ticket.finish(Outcome::Cut);
            write_all(stream, &[bytes])?;
            Ok(Some(Next::Close))
        }
    }
}

pub(crate) fn send(stream: &TcpStream, plan: Plan, reply: &Reply, ticket: &mut Ticket) -> io::Result<Next> {
    let total = plan.body_len();
    let fault = reply.fault.filter(|fault| fault.after <= total && !plan.pieces.is_empty());
    let limit = fault.map_or(total, |fault| fault.after);
    let mut left = limit;
    let mut head = &plan.head[..];
    if reply.body_gate.is_some() || !reply.body_delay.is_zero() {
        if limit == 0 && fault.is_none() {
            ticket.finish(Outcome::Completed);
        }
        write_all(stream, &[head])?;
        head = &[];
        pause(stream, reply.body_delay, reply.body_gate.as_ref())?;
    }

    let start = Instant::now();
    let beat_bytes = reply.rate.map(|rate| ((rate as f64 * BEAT.as_secs_f64()) as u64).clamp(1, MOST));
    let mut scratch = Vec::new();
    for piece in &plan.pieces {
        let (mut at, end) = (piece.at, piece.at + piece.len.min(left));
        while at < end {
            if let Some(rate) = reply.rate {
                let due = start + Duration::from_secs_f64((limit - left) as f64 / rate as f64);
                gone_is_an_error(wait_until(stream, Some(due)))?;
            }
            let until_tail = if left > TAIL { left - TAIL } else { left };
            let most = until_tail.min(beat_bytes.unwrap_or(MOST)).min(end - at);
            let bytes = piece.body.piece(at, most as usize, &mut scratch)?;
            let sent = bytes.len() as u64;
            if left <= TAIL && fault.is_none() {
                ticket.finish(Outcome::Completed);
            }
            if plan.chunked {
                let last = left == sent && fault.is_none();
                let size = format!("{sent:x}\r\n");
                write_all(stream, &[head, size.as_bytes(), bytes, if last { b"\r\n0\r\n\r\n" } else { b"\r\n" }])?;
            } else {
                write_all(stream, &[head, bytes])?;
            }
            head = &[];
            at += sent;
            left -= sent;
        }
    }
    if total == 0 && fault.is_none() {
        ticket.finish(Outcome::Completed);
        write_all(stream, &[head, if plan.chunked { b"0\r\n\r\n" } else { b"" }])?;
    } else {
        write_all(stream, &[head])?;
    }
    match fault.map(|fault| fault.end) {
        None if plan.keep_alive => Ok(Next::KeepAlive),
        None => Ok(Next::Close),
        Some(End::Stall) => Err(stalled(stream)),
        Some(End::Close) => {
            ticket.finish(Outcome::Cut);
            Ok(Next::Close)
        }
        Some(End::Reset) => {
            wait_delivered(stream);
            ticket.finish(Outcome::Cut);
            Ok(Next::Reset)
        }
    }
}

fn pause(stream: &TcpStream, delay: Duration, gate: Option<&crate::Gate>) -> io::Result<()> {
    if !delay.is_zero() {
        gone_is_an_error(wait_until(stream, Some(Instant::now() + delay)))?;
    }
    gate.map_or(Ok(()), |gate| gone_is_an_error(gate.pass(stream)))
}

fn gone_is_an_error(wake: Wake) -> io::Result<()> {
    match wake {
        Wake::Ready => Ok(()),
        Wake::Gone => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client closed the connection")),
    }
}

/// Waits until the client gives up.
fn stalled(stream: &TcpStream) -> io::Error {
    wait_until(stream, None);
    io::Error::new(io::ErrorKind::ConnectionAborted, "the client closed the stalled connection")
}

fn write_all(mut stream: &TcpStream, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice> =
        parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)).collect();
    let mut slices = &mut slices[..];
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A reset throws away what is still unsent. On the loopback device sent is arrived, so wait until nothing is unsent: with
/// this low-water mark that is what makes the socket writable. A client that does not read is not waited for any longer
/// than [`DELIVERY_LIMIT`].
fn wait_delivered(stream: &TcpStream) {
    if socket2::SockRef::from(stream).set_tcp_notsent_lowat(1).is_ok() {
        wait_writable(stream, Instant::now() + DELIVERY_LIMIT);
    }
}

/// Ends a connection in the way `next` says. The caller drops the socket right after it.
pub(crate) fn end(stream: &TcpStream, next: Next) {
    match next {
        Next::KeepAlive => {}
        Next::Close => {
            let _ = stream.shutdown(Shutdown::Write);
        }
        Next::Reset => {
            let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Answers what is not a request, before the connection closes.
pub(crate) fn refuse(stream: &TcpStream, status: u16) -> io::Result<()> {
    let headers = [("Content-Length".into(), "0".into()), ("Connection".into(), "close".into())];
    write_all(stream, &[&head(1, status, &headers)])
}
