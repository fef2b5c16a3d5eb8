//! One object into one file.

use super::checksum::Checksum;
use super::chunks::Chunks;
use super::journal::{Identity, Journal};
use super::progress::Progress;
use super::target::{self, Place, Target};
use crate::failure::{Failure, Outcome, code};
use crate::output::{self, say};
use crate::stop::Stop;
use crate::{remote, units};
use raskio::client::Client;
use raskio::object::{Object, ObjectOptions};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How copies are made.
pub struct How {
    /// Bytes of a request.
    pub chunk: u64,
    /// Bytes that may be under way for one object.
    pub memory: u64,
    /// What an earlier copy left is thrown away.
    pub restart: bool,
    /// The size is enough to go on.
    pub trust_size: bool,
    /// A file that exists is left alone.
    pub no_clobber: bool,
    /// What the file must be.
    pub checksum: Option<Checksum>,
    /// How objects are opened.
    pub options: ObjectOptions,
}

/// One copy.
pub struct Copy<'a> {
    /// Reads.
    pub client: &'a Arc<Client>,
    /// Of the object.
    pub url: &'a str,
    /// The file.
    pub to: &'a Path,
    /// Settings.
    pub how: &'a How,
    /// Ends it.
    pub stop: &'a Stop,
}

/// What was done.
pub struct Summary {
    object: String,
    to: PathBuf,
    size: u64,
    /// Bytes that were there from an earlier copy.
    resumed: u64,
    crc32: Option<u32>,
    took: Duration,
}

impl Summary {
    /// `crc32`: none of a file that was left alone.
    pub fn new(object: &Object, to: &Path, size: u64, resumed: u64, crc32: Option<u32>, took: Duration) -> Summary {
        Summary { object: object.name().into(), to: to.into(), size, resumed, crc32, took }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "object": self.object,
            "file": self.to.to_string_lossy(),
            "size": self.size,
            "resumed_bytes": self.resumed,
            "skipped": self.crc32.is_none(),
            "crc32": self.crc32.map(|crc32| format!("{crc32:08x}")),
            "seconds": self.took.as_secs_f64(),
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let Some(crc32) = self.crc32 else { return format!("{}: exists, left alone", output::path(&self.to)) };
        let seconds = self.took.as_secs_f64();
        let rate = (self.size - self.resumed) as f64 / seconds.max(1e-6);
        let resumed = match self.resumed {
            0 => String::new(),
            bytes => format!(" ({} were there)", units::size(bytes)),
        };
        format!(
            "{}: {} bytes{resumed} in {seconds:.2} s, {}, crc32 {crc32:08x}",
            output::path(&self.to),
            self.size,
            units::rate(rate)
        )
    }
}

impl Copy<'_> {
    /// Makes it.
    pub fn run(&self, progress: &Progress) -> Outcome<Summary> {
        if super::is_stdout(self.to) {
            return self.to_stdout(progress);
        }
        let started = Instant::now();
        let object = self.client.open(self.url, self.how.options.clone())?;
        if self.how.no_clobber && self.to.exists() {
            return Ok(Summary::new(&object, self.to, 0, 0, None, started.elapsed()));
        }
        let place = match Target::at(self.to)? {
            Target::File(place) => place,
            Target::Stream(path) => return self.to_special(&path, progress),
        };
        let size = remote::size(&object, self.stop)?;
        let part_path = place.beside(".raskio-part");
        let part = Arc::new(self.lock(&place, &part_path)?);
        let journal_path = place.beside(".raskio-journal");
        let (identity, mut crcs) = self.what_is_there(&object, size, &part, &journal_path, progress)?;
        let resumed = crcs.keys().map(|chunk| identity.len(*chunk)).sum();
        let journal = Arc::new(match resumed {
            0 => Journal::create(&journal_path, &identity)?,
            _ => Journal::append(&journal_path)?,
        });
        part.set_len(size).map_err(|error| Failure::file("make room in", &part_path, &error))?;
        let name = self.to.file_name().map(|name| output::path(name.as_ref())).unwrap_or_default();
        let bar = Arc::new(progress.begin(&name, size, resumed));
        let chunks = Chunks {
            object: &object,
            part: &part,
            path: &part_path,
            identity: &identity,
            journal: &journal,
            bar: &bar,
            memory: self.how.memory,
            stop: self.stop,
        };
        chunks.fetch(&mut crcs)?;
        drop(bar);
        let crc32 = identity.combined(&crcs);
        if let Some(checksum) = &self.how.checksum {
            checksum.check(crc32, &part_path, self.to).inspect_err(|failure| {
                if failure.code == code::CHECKSUM {
                    let _ = std::fs::remove_file(&part_path).and_then(|()| std::fs::remove_file(&journal_path));
                }
            })?;
        }
        place.put(&part_path, &part, !self.how.no_clobber)?;
        std::fs::remove_file(&journal_path).map_err(|error| Failure::file("remove", &journal_path, &error))?;
        Ok(Summary::new(&object, self.to, size, resumed, Some(crc32), started.elapsed()))
    }

    /// The unfinished file, for this process alone.
    fn lock(&self, place: &Place, path: &Path) -> Outcome<File> {
        loop {
            let file = place.open_part(path).map_err(|error| Failure::file("write", path, &error))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Not every file system has locks.
                Ok(()) | Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS | rustix::io::Errno::NOLCK) => {
                    // Else another copy put it into place meanwhile: it is a whole file now.
                    if target::is_at(&file, path) {
                        return Ok(file);
                    }
                }
                Err(rustix::io::Errno::AGAIN) => {
                    let words = format!("{} is being written by another raskio cp", output::path(path));
                    return Err(Failure::new(code::FAILED, "FILE", words));
                }
                Err(error) => return Err(Failure::file("lock", path, &error.into())),
            }
        }
    }

    /// What an earlier copy left of the same object: its chunks are read and compared with their checksums.
    fn what_is_there(
        &self,
        object: &Object,
        size: u64,
        part: &File,
        journal: &Path,
        progress: &Progress,
    ) -> Outcome<(Identity, BTreeMap<u64, u32>)> {
        let etag = object.info().etag.map(|etag| etag.to_string_lossy().into_owned());
        let etag = etag.filter(|etag| !etag.starts_with("W/"));
        let new = Identity { name: object.name().into(), size, etag, chunk: self.how.chunk };
        let earlier = match self.how.restart {
            true => None,
            false => Journal::read(journal)?,
        };
        let Some((identity, mut crcs)) = earlier.filter(|(_, crcs)| !crcs.is_empty()) else {
            return Ok((new, BTreeMap::new()));
        };
        let why_not = if (&identity.name, identity.size, &identity.etag) != (&new.name, new.size, &new.etag) {
            Some("the object is not the one of the earlier copy")
        } else if new.etag.is_none() && !self.how.trust_size {
            Some("the server has no strong entity tag, so the object may have changed (--trust-size goes on)")
        } else {
            None
        };
        if let Some(why) = why_not {
            progress.suspend(|| say(&format!("raskio: {} is copied from its beginning: {why}", output::path(self.to))));
            return Ok((new, BTreeMap::new()));
        }
        let mut bytes = vec![0; identity.chunk.min(size) as usize];
        crcs.retain(|chunk, crc32| {
            let bytes = &mut bytes[..identity.len(*chunk) as usize];
            // Who is interrupted here leaves the journal as it was.
            self.stop.signal().is_some()
                || part.read_exact_at(bytes, chunk * identity.chunk).is_ok() && crc32fast::hash(bytes) == *crc32
        });
        if let Some(signal) = self.stop.signal() {
            return Err(Failure::signal(signal, "interrupted; the same command goes on where it was"));
        }
        Ok((identity, crcs))
    }
}
