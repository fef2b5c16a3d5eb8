//! Pinned buffers that the kernel knows by number: their pages need not be looked up for each read.
//!
//! They come as they are used. A buffer that is gone stays in the table until its place is needed or everything is forgotten: its
//! number is never another buffer's, so nothing is read to where it was. A place that a read in flight names is left alone: some
//! kernels look it up only when they get to the read.

use crate::sys::limits::memory_lock_limit;
use crate::sys::mem::Fixed;
use io_uring::IoUring;
use std::collections::HashMap;
use std::io;

/// The kernel takes no larger ones.
const LARGEST: usize = 1 << 30;

/// A buffer in its place.
struct Entry {
    id: u64,
    len: usize,
    /// Reads and writes in flight that name it.
    uses: u32,
}

pub(super) struct Buffers {
    places: HashMap<u64, u16>,
    table: Vec<Option<Entry>>,
    /// Where the next one may go.
    next: u16,
    /// No more are taken in: the kernel refused one.
    closed: bool,
}

impl Buffers {
    /// A table of so many places, if the kernel has one.
    pub fn new(ring: &IoUring, places: u16) -> Buffers {
        let table = (0..places).map(|_| None).collect();
        let mut closed = places == 0;
        if !closed {
            // Linux 5.19.
            if let Err(error) = ring.submitter().register_buffers_sparse(places.into()) {
                log::info!(target: "raskio", "io_uring works without registered buffers: {error}");
                closed = true;
            }
        }
        Buffers { places: HashMap::new(), table, next: 0, closed }
    }

    /// The place of a buffer in the table, for one use of it; `None`: it has none, and is read to by its address.
    pub fn place(&mut self, ring: &IoUring, buffer: Fixed) -> Option<u16> {
        let place = self.find(ring, buffer)?;
        if let Some(entry) = &mut self.table[usize::from(place)] {
            entry.uses += 1;
        }
        Some(place)
    }

    /// A use of this place is over.
    pub fn used(&mut self, place: u16) {
        if let Some(entry) = &mut self.table[usize::from(place)] {
            entry.uses -= 1;
        }
    }

    fn find(&mut self, ring: &IoUring, buffer: Fixed) -> Option<u16> {
        if let Some(place) = self.places.get(&buffer.id) {
            return Some(*place);
        }
        if self.closed || buffer.len > LARGEST {
            return None;
        }
        let places = u16::try_from(self.table.len()).unwrap_or(u16::MAX);
        let all = (0..places).map(|step| (u32::from(self.next) + u32::from(step)) % u32::from(places));
        let mut unused = all.filter(|place| self.table[*place as usize].as_ref().is_none_or(|entry| entry.uses == 0));
        let place = u16::try_from(unused.next()?).ok()?;
        let entry = libc::iovec { iov_base: buffer.start as *mut libc::c_void, iov_len: buffer.len };
        // SAFETY: the memory is there now, which is when the kernel pins it; it keeps the pages for itself whatever becomes of the
        // mapping, and nothing in flight names this place.
        match unsafe { ring.submitter().register_buffers_update(place.into(), &[entry], None) } {
            Ok(()) => {
                self.next = place.wrapping_add(1) % places;
                let entry = Entry { id: buffer.id, len: buffer.len, uses: 0 };
                if let Some(gone) = self.table[usize::from(place)].replace(entry) {
                    self.places.remove(&gone.id);
                }
                self.places.insert(buffer.id, place);
                Some(place)
            }
            Err(error) => {
                self.closed = true;
                self.refused(buffer.len, &error);
                None
            }
        }
    }

    fn refused(&self, len: usize, error: &io::Error) {
        let known: usize = self.table.iter().flatten().map(|entry| entry.len).sum();
        if error.raw_os_error() == Some(libc::ENOMEM) {
            let allowed = memory_lock_limit().map_or("without limit".to_owned(), |limit| format!("{limit} bytes"));
            log::warn!(
                target: "raskio",
                "io_uring goes on with unregistered buffers: {} bytes are to be locked, {allowed} may be (RLIMIT_MEMLOCK); raise \
                 it with ulimit -l or LimitMEMLOCK=",
                known + len
            );
        } else {
            log::warn!(target: "raskio", "io_uring goes on with unregistered buffers: registering {len} bytes: {error}");
        }
    }

    /// Takes out what is not in use, and tries again what was refused.
    pub fn forget(&mut self, ring: &IoUring) {
        for (place, entry) in self.table.iter_mut().enumerate() {
            let Some(gone) = entry.take_if(|entry| entry.uses == 0) else { continue };
            self.places.remove(&gone.id);
            let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
            // SAFETY: an empty entry refers to no memory. A place is less than 2^16.
            if let Err(error) = unsafe { ring.submitter().register_buffers_update(place as u32, &[none], None) } {
                log::debug!(target: "raskio", "taking a buffer out of an io_uring: {error}");
            }
            self.closed = false;
        }
    }
}
