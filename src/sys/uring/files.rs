//! Files that the kernel knows by number: it need not look a descriptor up for each read.
//!
//! The table keeps a file open, so whoever closes one wakes the thread of the ring, which takes it out.

use crate::limit::Wake;
use crate::sys::file::File;
use io_uring::{IoUring, types};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Weak};

/// What the kernel calls an empty place.
const NONE: RawFd = -1;

pub(super) struct Files {
    places: HashMap<u64, u32>,
    table: Vec<Option<(u64, Weak<File>)>>,
    /// Told when a file is closed.
    wake: Option<Arc<dyn Wake>>,
}

impl Files {
    /// A table of so many places, if the kernel has one.
    pub fn new(ring: &IoUring, places: u32, wake: Option<Arc<dyn Wake>>) -> Files {
        let mut files = Files { places: HashMap::new(), table: Vec::new(), wake };
        if places == 0 || files.wake.is_none() {
            return files;
        }
        // Linux 5.19.
        match ring.submitter().register_files_sparse(places) {
            Ok(()) => files.table.resize_with(places as usize, || None),
            Err(error) => log::debug!(target: "raskio", "io_uring works without registered files: {error}"),
        }
        files
    }

    /// The place of a file in the table; `None`: it has none.
    pub fn place(&mut self, ring: &IoUring, file: &Arc<File>) -> Option<types::Fixed> {
        if let Some(place) = self.places.get(&file.id()) {
            return Some(types::Fixed(*place));
        }
        let wake = self.wake.clone()?;
        let place = self.table.iter().position(Option::is_none)?;
        // A table is small.
        let number = u32::try_from(place).ok()?;
        if let Err(error) = ring.submitter().register_files_update(number, &[file.raw()]) {
            log::debug!(target: "raskio", "io_uring goes on without registering files: {error}");
            self.table.clear();
            return None;
        }
        file.tell_when_closed(wake);
        self.table[place] = Some((file.id(), Arc::downgrade(file)));
        self.places.insert(file.id(), number);
        Some(types::Fixed(number))
    }

    /// Takes out those that nobody has any more. What is in flight has its file.
    pub fn forget_closed(&mut self, ring: &IoUring) {
        for (place, entry) in self.table.iter_mut().enumerate() {
            let Some((id, _)) = entry.take_if(|(_, file)| file.strong_count() == 0) else { continue };
            self.places.remove(&id);
            if let Err(error) = ring.submitter().register_files_update(place as u32, &[NONE]) {
                log::debug!(target: "raskio", "taking a file out of an io_uring: {error}");
            }
        }
    }

    /// Files that the kernel keeps open.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is a table.
    #[cfg(test)]
    pub fn is_registered(&self) -> bool {
        !self.table.is_empty()
    }
}
