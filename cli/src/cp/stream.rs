//! One object onto a stream, such as standard output or a pipe: many reads at once, their bytes in order.

use super::checksum::Sums;
use super::file::{Copy, How, Summary};
use super::progress::Progress;
use crate::failure::{Failure, Outcome};
use crate::memory::Memory;
use crate::remote;
use raskio::error::Error;
use raskio::object::{Object, ReadOptions};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// A chunk that has come, or not.
type Done = (u64, Memory, Result<u64, Error>);

impl Copy<'_> {
    /// Copies to standard output.
    pub fn to_stdout(&self, progress: &Progress) -> Outcome<Summary> {
        // Not through `std::io::stdout`, which looks for ends of lines in all of it.
        let opened = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let mut out = opened.map_err(|error| Failure::file("write", Path::new("-"), &error))?;
        self.stream(&mut out, Path::new("-"), progress)
    }

    /// Copies to a pipe or a device.
    pub fn to_special(&self, path: &Path, progress: &Progress) -> Outcome<Summary> {
        let opened = OpenOptions::new().write(true).open(path);
        let mut out = opened.map_err(|error| Failure::file("write", path, &error))?;
        self.stream(&mut out, path, progress)
    }

    fn stream(&self, out: &mut dyn Write, to: &Path, progress: &Progress) -> Outcome<Summary> {
        let started = Instant::now();
        let object = self.client.open(self.url, self.how.options.clone())?;
        let size = remote::size(&object, self.stop)?;
        let bar = progress.begin(&crate::output::path(to), size, 0);
        let mut sums = Sums::new(self.how.checksum.as_ref());
        let mut write = |bytes: &[u8]| {
            sums.add(bytes);
            bar.add(bytes.len() as u64);
            out.write_all(bytes)
        };
        in_order(&object, size, self.how, self.stop, &mut write).map_err(|failed| match failed {
            Failed::Read(failure) => failure,
            // As with any other program of a pipeline.
            Failed::Write(error) if error.kind() == ErrorKind::BrokenPipe => Failure::reader_gone(),
            Failed::Write(error) => Failure::file("write", to, &error),
        })?;
        drop(bar);
        let crc32 = sums.check(self.how.checksum.as_ref())?;
        Ok(Summary::new(&object, to, size, 0, Some(crc32), started.elapsed()))
    }
}

enum Failed {
    Read(Failure),
    Write(std::io::Error),
}

/// Reads all of it, `how.memory` bytes under way or waiting for those before them at most.
fn in_order(
    object: &Arc<Object>,
    size: u64,
    how: &How,
    stop: &crate::stop::Stop,
    write: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), Failed> {
    let (count, window) = (size.div_ceil(how.chunk), (how.memory / how.chunk).max(1));
    let len = |chunk: u64| how.chunk.min(size - chunk * how.chunk);
    let (to, from) = channel::<Done>();
    let mut ahead: BTreeMap<u64, Memory> = BTreeMap::new();
    let begin = |chunk: u64, memory: Memory, to: Sender<Done>| {
        let options = ReadOptions { task_size: Some(how.chunk), ..ReadOptions::default() };
        remote::read(object, chunk * how.chunk, len(chunk), memory, &options, move |memory, result| {
            // Whoever does not listen any more has failed already.
            let _ = to.send((chunk, memory, result));
        })
        .map_err(|error| Failed::Read(error.into()))
    };
    for chunk in 0..count.min(window) {
        begin(chunk, Memory::new(how.chunk.min(size) as usize), to.clone())?;
    }
    for next in 0..count {
        let memory = loop {
            if let Some(memory) = ahead.remove(&next) {
                break memory;
            }
            match remote::wait(&from, stop).map_err(Failed::Read)? {
                (chunk, memory, Ok(_)) => drop(ahead.insert(chunk, memory)),
                (_, _, Err(error)) => return Err(Failed::Read(error.into())),
            }
        };
        write(memory.get(len(next))).map_err(Failed::Write)?;
        if next + window < count {
            begin(next + window, memory, to.clone())?;
        }
    }
    Ok(())
}
