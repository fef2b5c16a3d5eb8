//! The file that a copy becomes: where it really lies, whether it may be written, and how it gets into place.

use crate::failure::{Failure, Outcome, code};
use rustix::fs::{Access, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Read and write bits; who may do more with the file that is replaced may do no more with the new one.
const MODE: u32 = 0o777;

/// What is at a path, or will be.
pub enum Target {
    /// A file, or nothing yet.
    File(Place),
    /// A pipe or a device: it takes bytes one after the other, and is not replaced.
    Stream(PathBuf),
}

/// A file that does not exist until it is whole.
pub struct Place {
    /// Behind symbolic links.
    path: PathBuf,
    /// Of the file that is replaced.
    mode: Option<u32>,
}

impl Target {
    /// Looks.
    ///
    /// # Errors
    /// What is there cannot be replaced.
    pub fn at(path: &Path) -> Outcome<Target> {
        let there = match std::fs::metadata(path) {
            Ok(there) => there,
            // Nothing, or a link to nothing.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let path = std::fs::read_link(path).map_or(path.to_owned(), |to| path.with_file_name("").join(to));
                return Ok(Target::File(Place { path, mode: None }));
            }
            // As where a directory on the way is none.
            Err(error) => return Err(Failure::file("write", path, &error)),
        };
        if there.is_dir() {
            let words = format!("{} is a directory", crate::output::path(path));
            return Err(Failure::new(code::FAILED, "FILE", words));
        }
        if !there.is_file() {
            return Ok(Target::Stream(path.to_owned()));
        }
        // The directory would let it be replaced; whoever took the right to write it away meant it.
        if let Err(error) = rustix::fs::access(path, Access::WRITE_OK) {
            return Err(Failure::file("write", path, &error.into()));
        }
        let path = path.canonicalize().map_err(|error| Failure::file("write", path, &error))?;
        Ok(Target::File(Place { path, mode: Some(there.mode() & MODE) }))
    }
}

impl Place {
    /// The path with something behind its name.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }

    /// Opens the file that will be it; nobody may read it who might not read the one that is replaced.
    pub fn open_part(&self, part: &Path) -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // In a directory that others write to, a link there could be anybody's.
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        options.mode(self.mode.map_or(0o666, |mode| mode & 0o666 | 0o600)).open(part)
    }

    /// Puts `part` into place, so that it outlasts a power failure.
    pub fn put(&self, part: &Path, file: &File, replaces: bool) -> Outcome<()> {
        if let Some(mode) = self.mode {
            let given = file.set_permissions(Permissions::from_mode(mode));
            given.map_err(|error| Failure::file("set the permissions of", part, &error))?;
        }
        // Else the name could be on the disk before the bytes.
        file.sync_all().map_err(|error| Failure::file("write", part, &error))?;
        let renamed = match replaces {
            true => std::fs::rename(part, &self.path),
            false => match renameat_with(rustix::fs::CWD, part, rustix::fs::CWD, &self.path, RenameFlags::NOREPLACE) {
                // Not every file system can tell; then it was looked at the beginning.
                Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(part, &self.path),
                renamed => renamed.map_err(Into::into),
            },
        };
        renamed.map_err(|error| Failure::file("put into place", &self.path, &error))?;
        // Not every file system can write a directory by itself.
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let _ = File::open(directory.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

/// Whether the path still leads to this file.
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
