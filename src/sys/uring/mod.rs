//! io_uring: reads and writes that the kernel does while nobody waits for each of them.
//!
//! A [`Ring`] belongs to one thread. Whoever lends the memory of a read or a write is handed over with it and comes back with its
//! result, so that the memory stays for as long as the kernel may touch it.

mod buffers;
mod files;
mod setup;

use super::event::EventFd;
use super::file::File;
use super::mem::Span;
use crate::error::Result;
use crate::limit::Wake;
use buffers::Buffers;
use files::Files;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

pub use setup::probe;

/// The user data of the poll that watches for a wake-up.
const WAKE: u64 = u64::MAX;
/// The most bytes of one read or write: the kernel's own limit, on whole pages.
pub const MOST_BYTES: usize = 0x7fff_f000;

/// How a ring works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Reads and writes that may be in flight.
    pub depth: u32,
    /// Idle milliseconds after which the kernel's polling thread sleeps; 0: there is none.
    pub sqpoll_idle_ms: u32,
    /// Places for pinned buffers in the kernel's table.
    pub buffers: u16,
    /// Places for files.
    pub files: u32,
}

/// What is asked of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Fills what is lent.
    Read {
        /// From this offset on.
        at: u64,
        /// On a thread of the kernel's, where copying out of the cache would hold this one up.
        aside: bool,
    },
    /// Writes what is lent.
    Write {
        /// To this offset.
        at: u64,
    },
    /// Waits until what was written is on the device.
    Sync,
}

/// What the kernel works on.
struct Flight<T> {
    owner: T,
    /// Open for as long.
    _file: Arc<File>,
    /// The place of its buffer in the kernel's table.
    place: Option<u16>,
}

/// A ring, and what is in flight on it.
pub struct Ring<T> {
    /// `None` only while it is dropped.
    ring: Option<IoUring>,
    depth: usize,
    flights: Vec<Option<Flight<T>>>,
    free: Vec<usize>,
    done: Vec<(u64, i32)>,
    buffers: Buffers,
    files: Files,
    armed: bool,
    sqpoll: bool,
}

impl<T> Ring<T> {
    /// A ring for the calling thread alone. `wake` wakes that thread when it is to call [`Ring::forget_closed`]; without it no
    /// files are registered.
    ///
    /// # Errors
    /// UNSUPPORTED, PERMISSION_DENIED: the kernel has none, or forbids it; the message says why. OUT_OF_MEMORY.
    pub fn new(options: Options, wake: Option<Arc<dyn Wake>>) -> Result<Ring<T>> {
        let ring = setup::build(options)?;
        let depth = options.depth as usize;
        let mut flights = Vec::new();
        flights.resize_with(depth, || None);
        Ok(Ring {
            buffers: Buffers::new(&ring, options.buffers),
            files: Files::new(&ring, options.files, wake),
            ring: Some(ring),
            depth,
            flights,
            free: (0..depth).rev().collect(),
            done: Vec::new(),
            armed: false,
            sqpoll: options.sqpoll_idle_ms > 0,
        })
    }

    /// Reads and writes in flight.
    pub fn in_flight(&self) -> usize {
        self.depth - self.free.len()
    }

    /// Whether one more can start.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// What is in flight.
    pub fn owners(&self) -> impl Iterator<Item = &T> {
        self.flights.iter().flatten().map(|flight| &flight.owner)
    }

    /// Hands a read or a write to the kernel with the next [`Ring::submit`]; `lend` lends its memory.
    ///
    /// # Errors
    /// The owner, if it cannot start now.
    pub fn start(
        &mut self,
        mut owner: T,
        io: Io,
        file: Arc<File>,
        lend: impl FnOnce(&mut T) -> Option<Span<'_>>,
    ) -> std::result::Result<(), T> {
        let (Some(ring), Some(&number)) = (&mut self.ring, self.free.last()) else { return Err(owner) };
        let fixed = self.files.place(ring, &file);
        // The builders are generic over the two ways of naming a file.
        macro_rules! on_file {
            ($build:expr) => {
                match fixed {
                    Some(place) => $build(place),
                    None => $build(types::Fd(file.raw())),
                }
            };
        }
        let mut place = None;
        let entry = match io {
            Io::Sync => on_file!(|fd| opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()),
            Io::Read { at, .. } | Io::Write { at } => {
                let Some(span) = lend(&mut owner) else { return Err(owner) };
                let span = span.cut(MOST_BYTES);
                let (start, len) = (span.start(), u32::try_from(span.len()).unwrap_or(u32::MAX));
                place = span.fixed().and_then(|fixed| self.buffers.place(ring, fixed));
                match (io, place) {
                    (Io::Write { .. }, Some(place)) => {
                        on_file!(|fd| opcode::WriteFixed::new(fd, start, len, place).offset(at).build())
                    }
                    (Io::Write { .. }, None) => on_file!(|fd| opcode::Write::new(fd, start, len).offset(at).build()),
                    (_, Some(place)) => on_file!(|fd| opcode::ReadFixed::new(fd, start, len, place).offset(at).build()),
                    (_, None) => on_file!(|fd| opcode::Read::new(fd, start, len).offset(at).build()),
                }
            }
        };
        let entry = match io {
            Io::Read { aside: true, .. } => entry.flags(squeue::Flags::ASYNC),
            Io::Read { .. } | Io::Write { .. } | Io::Sync => entry,
        };
        let entry = entry.user_data(number as u64);
        // SAFETY: what is lent lies outside of `owner`, which is kept with the file until the completion, also if this ring is
        // dropped.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            // Full: the kernel takes what is there, and with it there is room.
            let _ = ring.submit();
            // SAFETY: the same.
            if unsafe { ring.submission().push(&entry) }.is_err() {
                place.into_iter().for_each(|place| self.buffers.used(place));
                return Err(owner);
            }
        }
        self.free.pop();
        self.flights[number] = Some(Flight { owner, _file: file, place });
        Ok(())
    }

    /// Hands over what was started, and takes in what is over. With `sleep`, waits until something is or until that is signalled.
    pub fn submit(&mut self, sleep: Option<&EventFd>) {
        if let Some(signal) = sleep.filter(|_| !self.armed) {
            self.arm(signal);
        }
        let Some(ring) = &mut self.ring else { return };
        // Not asleep without the watch: nobody could end that.
        let wait = sleep.is_some() && self.armed;
        let outcome = if wait || self.sqpoll {
            ring.submit_and_wait(usize::from(wait))
        } else {
            let waiting = u32::try_from(ring.submission().len()).unwrap_or(u32::MAX);
            // So that the kernel finishes what it has deferred to this thread.
            const GET_EVENTS: u32 = 1;
            // SAFETY: no argument is passed.
            unsafe { ring.submitter().enter::<libc::sigset_t>(waiting, 0, GET_EVENTS, None) }
        };
        // First what is over, then what went wrong: the completions are there whatever this call met.
        for entry in ring.completion() {
            let entry: cqueue::Entry = entry;
            if entry.user_data() == WAKE {
                self.armed = false;
            } else {
                self.done.push((entry.user_data(), entry.result()));
            }
        }
        if let Err(error) = outcome {
            match error.raw_os_error() {
                Some(libc::EINTR | libc::ETIME) => {}
                // The kernel is short of memory or of room for completions: what was not taken stays in the queue.
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => {
                    if self.done.is_empty() {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                }
                _ => {
                    log::error!(target: "raskio", "io_uring_enter: {error}");
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
            }
        }
    }

    fn arm(&mut self, signal: &EventFd) {
        let Some(ring) = &mut self.ring else { return };
        let entry = opcode::PollAdd::new(types::Fd(signal.raw()), libc::POLLIN as u32).build().user_data(WAKE);
        // SAFETY: no memory is lent.
        let mut pushed = unsafe { ring.submission().push(&entry) }.is_ok();
        if !pushed {
            let _ = ring.submit();
            // SAFETY: the same.
            pushed = unsafe { ring.submission().push(&entry) }.is_ok();
        }
        self.armed = pushed;
    }

    /// Whether something is over that was not taken in.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// What is over, with its result: the bytes moved, or why not.
    pub fn next_done(&mut self) -> Option<(T, io::Result<usize>)> {
        loop {
            let (number, result) = self.done.pop()?;
            let number = number as usize;
            let Some(flight) = self.flights.get_mut(number).and_then(Option::take) else { continue };
            self.free.push(number);
            flight.place.into_iter().for_each(|place| self.buffers.used(place));
            let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            return Some((flight.owner, result));
        }
    }

    /// Takes the buffers out of the kernel's table that nothing in flight uses.
    pub fn forget_buffers(&mut self) {
        if let Some(ring) = &self.ring {
            self.buffers.forget(ring);
        }
    }
}

impl<T> Ring<T> {
    /// Takes the files out of the kernel's table that are closed but for that.
    pub fn forget_closed(&mut self) {
        if let Some(ring) = &self.ring {
            self.files.forget_closed(ring);
        }
    }
}

impl<T> Drop for Ring<T> {
    /// Waits for what is in flight: the kernel writes the memory until then, and nothing can take a file's read back.
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            let Some(ring) = &mut self.ring else { return };
            let _ = ring.submit_and_wait(1);
            let over: Vec<u64> = ring.completion().map(|entry: cqueue::Entry| entry.user_data()).collect();
            for number in over.into_iter().chain(self.done.drain(..).map(|(number, _)| number)) {
                if self.flights.get_mut(number as usize).and_then(Option::take).is_some() {
                    self.free.push(number as usize);
                }
            }
        }
        if let Some(ring) = &self.ring {
            log::trace!(target: "raskio", "the io_uring {} ends", ring.as_raw_fd());
        }
        self.ring = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::How;
    use super::super::mem::Pages;
    use super::*;
    use std::io::Write;

    const OPTIONS: Options = Options { depth: 4, sqpoll_idle_ms: 0, buffers: 2, files: 2 };

    struct Counted(std::sync::atomic::AtomicUsize);
    impl Wake for Counted {
        fn wake(&self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }

    fn file(len: usize) -> Arc<File> {
        let path = std::env::temp_dir().join(format!("raskio-uring-{}-{len}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&(0..len).map(|i| (i % 251) as u8).collect::<Vec<u8>>()).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let opened = File::open(&name, How::default()).unwrap();
        std::fs::remove_file(path).unwrap();
        Arc::new(opened)
    }

    /// `None`: the kernel of this machine allows no io_uring, which `tests/files_fallback.rs` is about.
    fn ring(options: Options) -> Option<Ring<(u64, Pages)>> {
        probe(options).ok()?;
        Some(Ring::new(options, Some(Arc::new(Counted(0.into())))).unwrap())
    }

    #[test]
    fn reads_come_back_with_their_bytes_and_short_ones_say_so() {
        for options in [OPTIONS, Options { sqpoll_idle_ms: 10, ..OPTIONS }, Options { buffers: 0, ..OPTIONS }] {
            let Some(mut ring) = ring(options) else { return };
            let (file, signal) = (file(10_000), EventFd::new().unwrap());
            // More buffers than places in the table.
            let mut todo: Vec<(u64, Pages)> = (0..20).map(|i| (i * 600, Pages::new(4096).unwrap())).collect();
            let mut seen = 0;
            while seen < 20 {
                while ring.has_room() {
                    let Some((at, pages)) = todo.pop() else { break };
                    let io = Io::Read { at, aside: at % 1200 == 0 };
                    // The kernel's thread may not have made room yet.
                    if let Err(later) = ring.start((at, pages), io, file.clone(), |owner| Some(owner.1.span())) {
                        todo.push(later);
                        break;
                    }
                }
                assert!(ring.in_flight() <= 4);
                ring.submit(Some(&signal));
                while let Some(((at, pages), result)) = ring.next_done() {
                    let n = 10_000usize.saturating_sub(at as usize).min(4096);
                    assert_eq!(result.unwrap(), n, "at {at}");
                    assert!(pages.bytes()[..n].iter().zip(at as usize..).all(|(byte, i)| *byte == (i % 251) as u8));
                    seen += 1;
                }
            }
        }
    }

    #[test]
    fn a_signal_ends_the_wait_and_a_failure_leaves_the_ring_usable() {
        let Some(mut ring) = ring(OPTIONS) else { return };
        let signal = EventFd::new().unwrap();
        for _ in 0..3 {
            signal.signal();
            ring.submit(Some(&signal));
            signal.clear();
            assert!(ring.next_done().is_none());
        }
        let read_only = file(100);
        let started =
            ring.start((0, Pages::new(1).unwrap()), Io::Write { at: 0 }, read_only.clone(), |it| Some(it.1.span()));
        assert!(started.is_ok());
        ring.submit(Some(&signal));
        assert_eq!(ring.next_done().unwrap().1.unwrap_err().raw_os_error(), Some(libc::EBADF));
        let started = ring
            .start((0, Pages::new(1).unwrap()), Io::Read { at: 0, aside: false }, read_only, |it| Some(it.1.span()));
        assert!(started.is_ok());
        ring.submit(Some(&signal));
        assert_eq!(ring.next_done().unwrap().1.unwrap(), 100);
    }

    #[test]
    fn a_closed_file_is_closed_and_its_place_is_anothers() {
        let woken = Arc::new(Counted(0.into()));
        if probe(OPTIONS).is_err() {
            return;
        }
        let mut ring = Ring::new(OPTIONS, Some(woken.clone())).unwrap();
        let signal = EventFd::new().unwrap();
        // Whether the process, or the kernel for it, has the file open: it is deleted, so its space is what is held.
        for len in [100, 200, 300, 400] {
            let file = file(len);
            let owner = (0, Pages::new(1).unwrap());
            let started = ring.start(owner, Io::Read { at: 0, aside: false }, file.clone(), |it| Some(it.1.span()));
            assert!(started.is_ok());
            ring.submit(Some(&signal));
            assert_eq!(ring.next_done().unwrap().1.unwrap(), len, "the bytes are this file's");
            let before = woken.0.load(std::sync::atomic::Ordering::SeqCst);
            drop(file);
            let told = woken.0.load(std::sync::atomic::Ordering::SeqCst) - before;
            assert_eq!(told, usize::from(ring.files.is_registered()), "whoever keeps it open is told");
            ring.forget_closed();
            assert_eq!(ring.files.len(), 0);
        }
    }

    #[test]
    fn what_is_in_flight_is_over_before_the_memory_goes() {
        let Some(mut ring) = ring(OPTIONS) else { return };
        let file = file(1 << 20);
        for at in 0..4 {
            let started =
                ring.start((at, Pages::new(1 << 20).unwrap()), Io::Read { at, aside: true }, file.clone(), |it| {
                    Some(it.1.span())
                });
            assert!(started.is_ok());
        }
        assert!(!ring.has_room());
        ring.submit(None);
        drop(ring);
    }
}
