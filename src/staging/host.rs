//! Straight into the caller's host memory, and out of it.

use super::{Feed, Group, Kind, RequestDone, Sink, Staging, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::mem::{Buffer, BufferPart, HostBuffer, HostSource, Span};
use std::sync::Arc;
use std::time::Instant;

/// The row in [`super::KINDS`].
pub const KIND: Kind =
    Kind { name: "host", takes: |buffer| matches!(buffer, Buffer::Host(_)), start: |_, _| Arc::new(HostStaging) };

struct HostStaging;

impl Staging for HostStaging {
    fn open(&self, buffer: Buffer) -> Result<Box<dyn Target>> {
        match buffer {
            Buffer::Host(buffer) => Ok(Box::new(HostTarget(buffer))),
            Buffer::Cuda(_) => {
                Err(Error::new(ErrorKind::Internal, "a buffer of another kind was taken for host memory"))
            }
        }
    }

    fn trim(&self) {}

    fn shut_down(&self) {}

    fn wait_stopped(&self, _: Option<Instant>) -> bool {
        true
    }
}

struct HostTarget(HostBuffer);

impl Target for HostTarget {
    fn limit(&self) -> Option<u64> {
        None
    }

    fn next(&mut self, n: u64) -> Box<dyn Sink> {
        Box::new(HostSink(self.0.split_to(n)))
    }

    fn feed(&mut self, n: u64) -> Box<dyn Feed> {
        Box::new(self.0.split_to(n).into_source())
    }

    fn group(&self) -> Group {
        Group::default()
    }

    fn part(&mut self, n: u64) -> BufferPart {
        BufferPart::Host(self.0.split_to(n))
    }

    fn scatter(&self, len: u64, parts: Vec<(u64, BufferPart)>) -> Box<dyn Sink> {
        let host = |(at, part)| match part {
            BufferPart::Host(buffer) => Some((at, buffer)),
            // Of another group.
            BufferPart::Cuda(_) => None,
        };
        Box::new(HostScatter::new(len, parts.into_iter().filter_map(host).collect()))
    }
}

/// Of parts that share a request, those of fewer bytes are not worth a read of their own: copying so many takes 10 µs.
const WORTH_A_READ: u64 = 64 << 10;

/// A part of the caller's buffer.
pub struct HostSink(pub HostBuffer);

impl Sink for HostSink {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write(bytes)
    }

    fn lend(&mut self) -> Option<Span<'_>> {
        Some(self.0.room())
    }

    fn filled(&mut self, n: usize) -> bool {
        self.0.filled(n as u64)
    }

    fn written(&self) -> u64 {
        self.0.written()
    }

    fn commit(self: Box<Self>, done: RequestDone) {
        let written = self.0.written();
        // The buffer is the caller's again from the completion on.
        drop(self);
        done.finish(written);
    }
}

impl Feed for HostSource {
    fn rest(&self, at: u64) -> Option<Span<'_>> {
        Some(HostSource::rest(self, at))
    }

    fn end(self: Box<Self>, written: u64, done: RequestDone) {
        drop(self);
        done.finish(written);
    }
}

/// Parts of the caller's buffers, each of which gets the bytes from its place on.
pub struct HostScatter {
    len: u64,
    written: u64,
    /// In order of their places.
    parts: Vec<(u64, HostBuffer)>,
    /// The first part whose place was not reached yet.
    next: usize,
    /// Those before it that are not full.
    open: Vec<usize>,
}

impl HostScatter {
    /// For `len` bytes; the parts are in order of their places.
    pub fn new(len: u64, parts: Vec<(u64, HostBuffer)>) -> HostScatter {
        HostScatter { len, written: 0, parts, next: 0, open: Vec::new() }
    }
}

impl HostScatter {
    /// Those that begin before `end` are reached.
    fn reach(&mut self, end: u64) {
        while self.parts.get(self.next).is_some_and(|(at, _)| *at < end) {
            self.open.push(self.next);
            self.next += 1;
        }
    }

    /// The one part that the next bytes go to, and how many go to it alone.
    fn alone(&mut self) -> Option<(usize, u64)> {
        self.reach(self.written + 1);
        let [only] = self.open[..] else { return None };
        let next = self.parts.get(self.next).map_or(self.len, |(at, _)| *at);
        let (_, buffer) = &self.parts[only];
        Some((only, (buffer.len() - buffer.written()).min(next.saturating_sub(self.written))))
    }
}

impl Sink for HostScatter {
    fn lend(&mut self) -> Option<Span<'_>> {
        let (only, n) = self.alone().filter(|(_, n)| *n >= WORTH_A_READ)?;
        Some(self.parts[only].1.room().cut(usize::try_from(n).unwrap_or(usize::MAX)))
    }

    fn filled(&mut self, n: usize) -> bool {
        let bytes = n as u64;
        let Some((only, lent)) = self.alone() else { return n == 0 };
        if bytes > lent || !self.parts[only].1.filled(bytes) {
            return false;
        }
        self.written += bytes;
        let (_, buffer) = &self.parts[only];
        if buffer.written() == buffer.len() {
            self.open.clear();
        }
        true
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        let (begin, end) = (self.written, self.written + bytes.len() as u64);
        if end > self.len {
            return false;
        }
        self.reach(end);
        let mut fits = true;
        self.open.retain(|&number| {
            let (at, buffer) = &mut self.parts[number];
            // Within `bytes`, so it fits a usize.
            let from = at.saturating_sub(begin) as usize;
            let n = (buffer.len() - buffer.written()).min((bytes.len() - from) as u64) as usize;
            fits &= buffer.write(&bytes[from..from + n]);
            buffer.written() < buffer.len()
        });
        self.written = end;
        fits
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn commit(self: Box<Self>, done: RequestDone) {
        let written = self.written;
        // The buffers are the caller's again from the completion on.
        drop(self);
        done.finish(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `bytes` in pieces of `step`, and gives what the parts of these places and lengths got.
    fn scattered(bytes: &[u8], step: usize, places: &[(u64, usize)]) -> Vec<Vec<u8>> {
        let mut memory: Vec<Vec<u8>> = places.iter().map(|&(_, len)| vec![0xEE; len]).collect();
        let parts = places.iter().zip(&mut memory).map(|(&(at, _), memory)| (at, crate::sys::mem::lent(memory)));
        let mut sink = HostScatter::new(bytes.len() as u64, parts.collect());
        for piece in bytes.chunks(step) {
            assert!(sink.write(piece));
        }
        assert_eq!(sink.written(), bytes.len() as u64);
        assert!(!sink.write(b"x"), "more than was asked for");
        drop(sink);
        memory
    }

    #[test]
    fn a_part_that_is_alone_is_lent_and_what_others_want_too_is_written() {
        const K: usize = 1 << 10;
        let bytes: Vec<u8> = (0..400 * K).map(|i| (i % 251) as u8).collect();
        // Two beside each other, a gap, two that overlap, a small one.
        let places = [(0, 100 * K), (100 * K, 100 * K), (210 * K, 90 * K), (299 * K, 80 * K), (390 * K, K)];
        let mut memory: Vec<Vec<u8>> = places.iter().map(|&(_, len)| vec![0xEE; len]).collect();
        let parts = places.iter().zip(&mut memory).map(|(&(at, _), memory)| (at as u64, crate::sys::mem::lent(memory)));
        let mut sink = HostScatter::new(bytes.len() as u64, parts.collect());
        let mut lent = Vec::new();
        while (sink.written() as usize) < bytes.len() {
            let at = sink.written() as usize;
            match sink.lend().map(|span| span.len()) {
                // Half of it is filled, as by a short read.
                Some(n) => {
                    lent.push((at, n));
                    let some = n.div_ceil(2);
                    assert!(!sink.filled(n + 1), "more than was lent");
                    assert!(sink.lend().unwrap().fill(&bytes[at..at + some]));
                    assert!(sink.filled(some));
                }
                None => assert!(sink.write(&bytes[at..(at + 3000).min(bytes.len())])),
            }
        }
        assert!(lent.len() >= 3, "{lent:?}");
        for (at, n) in lent {
            let touched: Vec<_> = places.iter().filter(|&&(start, len)| start < at + n && at < start + len).collect();
            assert!(touched.len() == 1 && at >= touched[0].0 && at + n <= touched[0].0 + touched[0].1, "{at}+{n}");
            assert!(n >= WORTH_A_READ as usize);
        }
        drop(sink);
        for ((at, len), got) in places.iter().zip(memory) {
            assert_eq!(got, bytes[*at..at + len], "{at}+{len}");
        }
    }

    #[test]
    fn each_part_gets_its_bytes_however_they_come() {
        let bytes: Vec<u8> = (0..100).collect();
        let places = [(0, 10), (0, 10), (5, 60), (20, 1), (21, 1), (60, 40), (99, 1)];
        for step in [1, 2, 7, 33, 99, 100] {
            for ((at, len), got) in places.iter().zip(scattered(&bytes, step, &places)) {
                assert_eq!(got, bytes[*at as usize..*at as usize + len], "{at}+{len} in steps of {step}");
            }
        }
    }
}
