//! Which chunks of a file are there, and what they are: one line each, behind one that says of what. Lines are only ever
//! appended, so that a process that is killed leaves at most a torn last line, which counts for nothing.

use crate::failure::{Failure, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What a file is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The object, without secrets: entity tags tell versions of one object apart, not one object from another.
    pub name: String,
    /// Of the object.
    pub size: u64,
    /// Of the object, if the server has one that stands for the very bytes: a weak one (W/"…") does not.
    pub etag: Option<String>,
    /// Bytes of a chunk; the last may have fewer.
    pub chunk: u64,
}

/// The journal of one file.
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Begins an empty one.
    pub fn create(path: &Path, identity: &Identity) -> Outcome<Journal> {
        let head = json!({"raskio_cp": 2, "object": identity.name, "size": identity.size, "etag": identity.etag, "chunk": identity.chunk});
        let written = File::create(path).and_then(|mut file| writeln!(file, "{head}").map(|()| file));
        let file = written.map_err(|error| Failure::file("write", path, &error))?;
        Ok(Journal { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Goes on with one.
    pub fn append(path: &Path) -> Outcome<Journal> {
        let opened = OpenOptions::new().append(true).open(path).and_then(|mut file| {
            // A torn line must not be taken for the beginning of the next.
            file.write_all(b"\n")?;
            Ok(file)
        });
        let file = opened.map_err(|error| Failure::file("write", path, &error))?;
        Ok(Journal { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// This chunk is written.
    pub fn add(&self, chunk: u64, crc32: u32) -> Outcome<()> {
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // In one call, so that lines of several threads do not mix.
        let line = format!("{chunk} {crc32:08x}\n");
        file.write_all(line.as_bytes()).map_err(|error| Failure::file("write", &self.path, &error))
    }

    /// What an earlier copy left: of what, and the checksum of each chunk that it wrote. `None`: nothing that can be used.
    pub fn read(path: &Path) -> Outcome<Option<(Identity, BTreeMap<u64, u32>)>> {
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::file("read", path, &error)),
        };
        Ok(parse(&text))
    }
}

fn parse(text: &str) -> Option<(Identity, BTreeMap<u64, u32>)> {
    let (head, lines) = text.split_once('\n')?;
    let head: Value = serde_json::from_str(head).ok()?;
    (head["raskio_cp"] == 2).then_some(())?;
    let identity = Identity {
        name: head["object"].as_str()?.to_owned(),
        size: head["size"].as_u64()?,
        etag: head["etag"].as_str().map(str::to_owned),
        chunk: head["chunk"].as_u64().filter(|chunk| *chunk > 0)?,
    };
    let count = identity.size.div_ceil(identity.chunk);
    // Behind the last end of line is nothing, or half a line.
    let whole = lines.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let chunk = |line: &str| {
        let (chunk, crc32) = line.split_once(' ')?;
        let crc32 = (crc32.len() == 8 && crc32.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| u32::from_str_radix(crc32, 16).ok())??;
        Some((chunk.parse().ok().filter(|chunk| *chunk < count)?, crc32))
    };
    Some((identity, whole.lines().filter_map(chunk).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_half_a_line_is_not() {
        let path = std::env::temp_dir().join(format!("raskio-journal-{}", std::process::id()));
        let identity = Identity { name: "http://h/x".into(), size: 100, etag: Some("\"a\"".into()), chunk: 30 };
        let journal = Journal::create(&path, &identity).unwrap();
        journal.add(3, 0xABC).unwrap();
        journal.add(0, 7).unwrap();
        drop(journal);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}1 0000")).unwrap();
        let expected = BTreeMap::from([(0, 7), (3, 0xABC)]);
        assert_eq!(Journal::read(&path).unwrap(), Some((identity.clone(), expected.clone())));
        // The half line stays half when it goes on.
        Journal::append(&path).unwrap().add(2, 1).unwrap();
        let (_, chunks) = Journal::read(&path).unwrap().unwrap();
        assert_eq!(chunks, BTreeMap::from([(0, 7), (2, 1), (3, 0xABC)]));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Journal::read(&path).unwrap(), None);
    }

    #[test]
    fn nonsense_is_no_journal_and_no_chunk() {
        for text in [
            "",
            "x\n",
            "{}\n",
            "{\"raskio_cp\":1,\"object\":\"x\",\"size\":1,\"chunk\":1}\n",
            "{\"raskio_cp\":2,\"object\":\"x\",\"size\":1,\"chunk\":0}\n",
            "{\"raskio_cp\":2,\"size\":1,\"chunk\":1}\n",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let head = "{\"raskio_cp\":2,\"object\":\"x\",\"size\":10,\"etag\":null,\"chunk\":5}\n";
        assert!(parse(&format!("{head}2 00000000\n-1 00000000\n0 +0000001\n1 zz\n\n")).unwrap().1.is_empty());
    }
}
