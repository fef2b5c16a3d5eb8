//! Straight into the caller's host memory.

use super::{Group, Kind, RequestDone, Sink, Staging, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::mem::{Buffer, BufferPart, HostBuffer};
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

/// A part of the caller's buffer.
pub struct HostSink(pub HostBuffer);

impl Sink for HostSink {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write(bytes)
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

impl Sink for HostScatter {
    fn write(&mut self, bytes: &[u8]) -> bool {
        let (begin, end) = (self.written, self.written + bytes.len() as u64);
        if end > self.len {
            return false;
        }
        while self.parts.get(self.next).is_some_and(|(at, _)| *at < end) {
            self.open.push(self.next);
            self.next += 1;
        }
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
