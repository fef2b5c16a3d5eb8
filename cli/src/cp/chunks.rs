//! The reads of one file: many at once, each written where it belongs, summed up and noted.

use super::journal::{Identity, Journal};
use super::progress::Bar;
use crate::failure::{Failure, Outcome};
use crate::memory::Memory;
use crate::output;
use crate::remote;
use crate::stop::{LOOK, Stop};
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object, ReadOptions};
use raskio::op::Operation;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};

/// What reads need.
pub struct Chunks<'a> {
    /// Read from.
    pub object: &'a Arc<Object>,
    /// Written to.
    pub part: &'a Arc<File>,
    /// For messages.
    pub path: &'a Path,
    /// Of the file.
    pub identity: &'a Identity,
    /// Told of each chunk.
    pub journal: &'a Arc<Journal>,
    /// Told of each chunk.
    pub bar: &'a Arc<Bar>,
    /// Bytes that may be under way.
    pub memory: u64,
    /// Ends it.
    pub stop: &'a Stop,
}

/// A chunk that has come, or not.
struct Done {
    chunk: u64,
    memory: Memory,
    crc32: Outcome<u32>,
}

impl Identity {
    /// Chunks of the file.
    pub fn count(&self) -> u64 {
        self.size.div_ceil(self.chunk)
    }

    /// Bytes of a chunk.
    pub fn len(&self, chunk: u64) -> u64 {
        self.chunk.min(self.size - chunk * self.chunk)
    }

    /// The checksum of the whole from those of its chunks, all of them.
    pub fn combined(&self, crcs: &BTreeMap<u64, u32>) -> u32 {
        let mut all = crc32fast::Hasher::new();
        for (chunk, crc32) in crcs {
            all.combine(&crc32fast::Hasher::new_with_initial_len(*crc32, self.len(*chunk)));
        }
        all.finalize()
    }
}

impl Chunks<'_> {
    /// Reads what is missing in `crcs`, and adds it there.
    pub fn fetch(&self, crcs: &mut BTreeMap<u64, u32>) -> Outcome<()> {
        let window = (self.memory / self.identity.chunk).max(1) as usize;
        let there: HashSet<u64> = crcs.keys().copied().collect();
        let mut missing = (0..self.identity.count()).filter(|chunk| !there.contains(chunk));
        let (to, from) = channel::<Done>();
        let mut running: HashMap<u64, Arc<Operation>> = HashMap::new();
        let mut free: Vec<Memory> = Vec::new();
        let mut failure = None;
        loop {
            if let Some(signal) = self.stop.signal().filter(|_| failure.is_none()) {
                running.values().for_each(|op| op.cancel());
                let words = format!("interrupted; the same command goes on where {} ends", output::path(self.path));
                failure = Some(Failure::signal(signal, words));
            }
            while failure.is_none() && running.len() < window {
                let Some(chunk) = missing.next() else { break };
                let memory =
                    free.pop().unwrap_or_else(|| Memory::new(self.identity.chunk.min(self.identity.size) as usize));
                match self.begin(chunk, memory, to.clone()) {
                    Ok(op) => drop(running.insert(chunk, op)),
                    Err(error) => failure = Some(error.into()),
                }
            }
            if running.is_empty() {
                return failure.map_or(Ok(()), Err);
            }
            match from.recv_timeout(LOOK) {
                Ok(Done { chunk, memory, crc32 }) => {
                    running.remove(&chunk);
                    free.push(memory);
                    match crc32 {
                        Ok(crc32) => drop(crcs.insert(chunk, crc32)),
                        Err(error) if failure.is_none() => {
                            failure = Some(error);
                            running.values().for_each(|op| op.cancel());
                        }
                        Err(_) => {}
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // There is a sender in this function.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Internal, "a copy lost its reads").into());
                }
            }
        }
    }

    fn begin(&self, chunk: u64, memory: Memory, to: std::sync::mpsc::Sender<Done>) -> Result<Arc<Operation>, Error> {
        let (offset, len) = (chunk * self.identity.chunk, self.identity.len(chunk));
        let (part, path) = (self.part.clone(), self.path.to_owned());
        let (journal, bar) = (self.journal.clone(), self.bar.clone());
        // One request each: the checksum of the journal is that of one answer.
        let options = ReadOptions { task_size: Some(self.identity.chunk), ..ReadOptions::default() };
        remote::read(self.object, offset, len, memory, &options, move |memory, result| {
            let write = |len: u64| {
                let bytes = memory.get(len);
                part.write_all_at(bytes, offset).map_err(|error| Failure::file("write", &path, &error))?;
                let crc32 = crc32fast::hash(bytes);
                journal.add(chunk, crc32)?;
                bar.add(len);
                Ok(crc32)
            };
            let crc32 = result.map_err(Failure::from).and_then(write);
            // Whoever does not listen any more has failed already.
            let _ = to.send(Done { chunk, memory, crc32 });
        })
    }
}
