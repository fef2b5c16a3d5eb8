//! One request of a local file, piece by piece: what is moved next, and what became of it.

use crate::error::{Error, ErrorKind, Result};
use crate::local::{self, OpenFile};
use crate::plan::direct::{MOST_ASIDE, Piece};
use crate::profile::{self, Kind};
use crate::staging::Sink;
use crate::stats::{self, Stats};
use crate::sys::mem::{Pages, Span};
use crate::transport::{Job, Transfer};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// How often in a row the system may ask to try again.
const PATIENCE: u32 = 1000;

/// A request that has begun.
pub(super) struct Work {
    pub transfer: Transfer,
    pub file: Arc<OpenFile>,
    pub started: Instant,
    /// What is read elsewhere first.
    aside: Option<Pages>,
    /// How often in a row it was to be tried again.
    again: u32,
    /// As a profiler sees it.
    _range: profile::Span,
    /// All is written, and its share in [`crate::transport::Write::unsynced`] is given up.
    counted: bool,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Step {
    /// Read so many bytes: to where they belong, or aside.
    Read { at: u64, len: usize, direct: bool, aside: Option<usize> },
    /// Write so many.
    Write { at: u64, len: usize, direct: bool },
    /// Wait for the device.
    Sync,
    /// Nothing: the request is over.
    Over(Result<()>),
}

/// What can be wrong with a piece that was moved.
enum Wrong {
    /// There was nothing where there should be something.
    End,
    /// Nothing was written.
    Nothing,
    Bug,
}

fn small(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

impl Work {
    /// A request whose sink is ready, or its feed.
    pub fn new(transfer: Transfer, file: Arc<OpenFile>) -> Work {
        transfer.op.add_attempt(&transfer.part);
        let bytes = transfer.missing().map_or(0, |missing| missing.len);
        let _range = profile::Span::begin(Kind::Request, bytes, || transfer.describe());
        Work { transfer, file, started: Instant::now(), aside: None, again: 0, _range, counted: false }
    }

    /// What comes next. Pages that are needed come from `spare`.
    pub fn next(&mut self, spare: &mut Vec<Pages>) -> Step {
        // Nobody waits for the rest.
        if self.transfer.is_over() {
            return Step::Over(Ok(()));
        }
        let step = match self.transfer.job_mut() {
            Some(Job::Read { range, sink }) => {
                let missing = range.skip(sink.written());
                if missing.len == 0 {
                    return Step::Over(Ok(()));
                }
                read_step(&self.file, missing.start, missing.len, sink.as_mut())
            }
            Some(Job::Write(write)) => {
                let missing = write.range.skip(write.written);
                if missing.len == 0 {
                    let Some(unsynced) = write.unsynced.as_ref().filter(|_| !self.counted) else {
                        return Step::Over(Ok(()));
                    };
                    self.counted = true;
                    let last = unsynced.fetch_sub(1, Ordering::AcqRel) == 1;
                    return if last { Step::Sync } else { Step::Over(Ok(())) };
                }
                // A feed that is ready has an address.
                let address = write.feed.rest(write.written).map_or(0, |span| span.address());
                let (len, direct) = match self.file.next_write(missing.start, missing.len, address) {
                    Piece::Direct(n) => (n, true),
                    Piece::Cached(n) | Piece::Aside { len: n, .. } => (n, false),
                };
                Step::Write { at: missing.start, len: small(len), direct }
            }
            Some(Job::Nothing | Job::Stat { .. } | Job::End(_)) | None => return Step::Over(Ok(())),
        };
        if matches!(step, Step::Read { aside: Some(_), .. }) && self.aside.is_none() {
            match spare.pop().map_or_else(|| Pages::new(MOST_ASIDE as usize), Ok) {
                Ok(pages) => self.aside = Some(pages),
                Err(error) => return Step::Over(Err(error.context(self.transfer.describe()))),
            }
        }
        step
    }

    /// The memory of a step.
    pub fn lend(&mut self, step: &Step) -> Option<Span<'_>> {
        match (step, self.transfer.job_mut()) {
            (Step::Read { len, aside: Some(_), .. }, _) => self.aside.as_mut().map(|pages| pages.span().cut(*len)),
            (Step::Read { len, aside: None, .. }, Some(Job::Read { sink, .. })) => {
                sink.lend().map(|span| span.cut(*len))
            }
            (Step::Write { len, .. }, Some(Job::Write(write))) => {
                write.feed.rest(write.written).map(|span| span.cut(*len))
            }
            _ => None,
        }
    }

    /// What became of a step. `Some`: the request is over with it.
    pub fn done(
        &mut self,
        step: &Step,
        result: io::Result<usize>,
        stats: &Stats,
        by_uring: bool,
    ) -> Option<Result<()>> {
        let moved = match result {
            Ok(moved) => moved,
            Err(error) => return self.failed(step, &error),
        };
        self.again = 0;
        let wrong = match (step, self.transfer.job_mut()) {
            (Step::Sync, _) => return Some(Ok(())),
            (Step::Read { direct, aside, .. }, Some(Job::Read { range, sink })) => {
                let missing = range.skip(sink.written());
                // Of what was read aside, what lies before the place does not count.
                let here = (moved as u64).saturating_sub(aside.unwrap_or(0) as u64).min(missing.len);
                count(here, *direct, by_uring, stats, &stats.file_bytes_read, &stats.file_bytes_read_direct);
                match (aside, &self.aside) {
                    _ if here == 0 => Wrong::End,
                    (Some(skip), Some(pages)) if sink.write(&pages.bytes()[*skip..*skip + here as usize]) => {
                        return None;
                    }
                    (None, _) if sink.filled(here as usize) => return None,
                    _ => Wrong::Bug,
                }
            }
            (Step::Write { direct, .. }, Some(Job::Write(write))) => {
                write.written += moved as u64;
                let end = write.range.start + write.written;
                count(
                    moved as u64,
                    *direct,
                    by_uring,
                    stats,
                    &stats.file_bytes_written,
                    &stats.file_bytes_written_direct,
                );
                if moved > 0 {
                    self.transfer.object.grow(end);
                    return None;
                }
                Wrong::Nothing
            }
            _ => Wrong::Bug,
        };
        let what = self.transfer.describe();
        Some(Err(match wrong {
            Wrong::End => local::beyond_end(what, self.file.size()),
            Wrong::Nothing => Error::new(ErrorKind::Io, format!("{what}: the system wrote nothing and gave no reason")),
            Wrong::Bug => {
                Error::new(ErrorKind::Internal, format!("{what}: a piece did not fit; this is a bug in RaskIO"))
            }
        }))
    }

    fn failed(&mut self, step: &Step, error: &io::Error) -> Option<Result<()>> {
        let errno = error.raw_os_error().unwrap_or(0);
        if matches!(errno, libc::EAGAIN | libc::EINTR) && self.again < PATIENCE {
            self.again += 1;
            if self.again > 10 {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            return None;
        }
        let what = self.transfer.describe();
        match step {
            Step::Read { direct: true, .. } | Step::Write { direct: true, .. } if self.file.give_up_direct(error) => {
                None
            }
            Step::Read { .. } => {
                let read = self.transfer.written();
                Some(Err(local::failed(format_args!("{what}: reading the file, after {read} bytes"), error)))
            }
            Step::Write { .. } => {
                let written = self.transfer.written();
                Some(Err(local::failed(format_args!("{what}: after {written} bytes"), error)))
            }
            _ => Some(Err(local::failed(format_args!("{what}: waiting for the device"), error))),
        }
    }

    /// Pages that are not needed any more.
    pub fn spare(&mut self) -> Option<Pages> {
        self.aside.take()
    }
}

fn read_step(file: &OpenFile, at: u64, missing: u64, sink: &mut dyn Sink) -> Step {
    let lent = sink.lend().filter(|span| !span.is_empty()).map(|span| (span.address(), span.len() as u64));
    let (address, room) = lent.map_or((None, missing), |(address, len)| (Some(address), len.min(missing)));
    match file.next_read(at, room, address) {
        Piece::Direct(len) => Step::Read { at, len: small(len), direct: true, aside: None },
        Piece::Cached(len) if address.is_some() => Step::Read { at, len: small(len), direct: false, aside: None },
        Piece::Cached(len) => Step::Read { at, len: small(len.min(MOST_ASIDE)), direct: false, aside: Some(0) },
        Piece::Aside { skip, len } => {
            Step::Read { at: at - skip, len: small(len), direct: true, aside: Some(small(skip)) }
        }
    }
}

fn count(
    bytes: u64,
    direct: bool,
    by_uring: bool,
    stats: &Stats,
    all: &std::sync::atomic::AtomicU64,
    past_the_cache: &std::sync::atomic::AtomicU64,
) {
    stats::add(all, bytes);
    if direct {
        stats::add(past_the_cache, bytes);
    }
    if by_uring {
        stats::add(&stats.file_bytes_uring, bytes);
    }
}
