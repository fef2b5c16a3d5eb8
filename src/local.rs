//! An object's local file: opened by the first who moves bytes of it, and kept open for as long as the object lives.

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::direct::{self, Direct, Piece};
use crate::sync::Mutex;
use crate::sys::file::{Alignment, Facts, File, How, Type};
use crate::sys::mem::page_size;
use crate::sys::{limits, process};
use std::ffi::{CString, OsStr};
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is tried past the system's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Ragged ends of reads too, by reading beyond them.
    pub overread: bool,
}

impl Bypass {
    /// What the settings say, unless the object's options say it: `Some(true)` for both ways, `Some(false)` for neither.
    pub fn of(config: &Config, wanted: Option<bool>) -> Bypass {
        Bypass {
            read: wanted.unwrap_or(config.direct_read),
            write: wanted.unwrap_or(config.direct_write),
            overread: config.direct_overread,
        }
    }
}

/// A file by its path.
pub struct LocalFile {
    path: CString,
    /// As messages show it.
    name: String,
    writable: bool,
    /// Beyond the settings of the client that opens it.
    bypass: Option<bool>,
    /// Held for a moment only.
    opened: Mutex<Option<Arc<OpenFile>>>,
    /// Held while it is opened, which may take as long as the file system likes.
    opening: Mutex<()>,
}

/// The file, open.
pub struct OpenFile {
    name: String,
    cached: Arc<File>,
    /// A second descriptor past the cache.
    direct: Option<(Arc<File>, Alignment)>,
    /// The file system refused it after all.
    direct_refused: AtomicBool,
    /// We made it, and its name may not be on the device yet.
    new_name: AtomicBool,
    bypass: Bypass,
    facts: Facts,
}

impl LocalFile {
    /// Does no I/O.
    pub fn new(path: CString, name: String, writable: bool, bypass: Option<bool>) -> LocalFile {
        LocalFile { path, name, writable, bypass, opened: Mutex::new(None), opening: Mutex::new(()) }
    }

    /// As messages show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The file, if somebody has opened it. Waits for nobody.
    pub fn opened(&self) -> Option<Arc<OpenFile>> {
        self.opened.lock().clone()
    }

    /// The file, opened if it is not; for a write it is made if it is missing. May wait for the file system.
    ///
    /// # Errors
    /// The system's; INVALID_ARGUMENT: it is no file. The message does not name it.
    pub fn open(&self, config: Bypass, for_write: bool) -> Result<Arc<OpenFile>> {
        // Whoever comes meanwhile needs it too.
        let _opening = self.opening.lock();
        if let Some(file) = self.opened() {
            return Ok(file);
        }
        let how = How { write: self.writable, create: self.writable && for_write, direct: false };
        let there = File::open(&self.path, How { create: false, ..how });
        let missing = matches!(&there, Err(error) if error.raw_os_error() == Some(libc::ENOENT));
        let made = how.create && missing;
        let file = if made { File::open(&self.path, how) } else { there };
        let file = file.map_err(|error| self.not_opened(how, &error))?;
        let facts = file.facts().map_err(|error| Error::os("asking for its size", &error))?;
        match facts.kind {
            Type::Regular | Type::Block => {}
            Type::Directory => return Err(Error::invalid("it is a directory; name a file in it")),
            Type::Other => {
                let (moved, instead) = match for_write {
                    true => ("written", "name a file, and copy that to it"),
                    false => ("read", "copy what it gives to a file, and read that"),
                };
                return Err(Error::invalid(format!(
                    "it is neither a file nor a block device, and cannot be {moved} at an offset; {instead}"
                )));
            }
        }
        let wanted = self.bypass.unwrap_or(config.read || (self.writable && config.write));
        let direct = if wanted && !facts.never_direct { self.open_direct(&file, how, &facts) } else { None };
        let bypass = match self.bypass {
            Some(both) => Bypass { read: both, write: both, ..config },
            None => config,
        };
        let (name, direct_refused, new_name) = (self.name.clone(), AtomicBool::new(false), AtomicBool::new(made));
        let file = Arc::new(OpenFile { name, cached: Arc::new(file), direct, direct_refused, new_name, bypass, facts });
        *self.opened.lock() = Some(file.clone());
        Ok(file)
    }

    /// Why the system does not open it, and what can be done.
    fn not_opened(&self, how: How, error: &io::Error) -> Error {
        let doing = if how.write { "opening the file to read and write it" } else { "opening the file to read it" };
        let made = Error::os(doing, error);
        let relative = !self.path.to_bytes().starts_with(b"/");
        match error.raw_os_error().unwrap_or(0) {
            libc::ENOTDIR if self.is_but_for_a_slash() == Some(true) => {
                made.note("it is a file, and its path ends with a slash, as only that of a directory may; leave the slash out")
            }
            // Of an open that may make the file.
            libc::EISDIR if self.is_but_for_a_slash() == Some(false) => made.note(
                "its path ends with a slash, as that of a directory, and there is none; leave the slash out to make a file",
            ),
            libc::ENOENT if how.create => made.note("a directory of its path is missing, and a write makes the file only; make it"),
            libc::ENOENT if relative => made.note("look at the path, which begins in the working directory of the process"),
            libc::ENOENT if how.write => made.note("look at the path; the file is made by its first write"),
            libc::ENOENT => made.note("look at the path"),
            libc::ENOTDIR => made.note("a part of its path is no directory; look at the path"),
            libc::EISDIR => made.note("it is a directory; name a file in it"),
            libc::EACCES if how.write => made.note(format_args!(
                "{} may not read and write it, or not search a directory of its path; look at their modes, or open it without \
                 RASKIO_OBJECT_WRITABLE to read it",
                user()
            )),
            libc::EACCES => made.note(format_args!(
                "{} may not read it, or not search a directory of its path; look at their modes",
                user()
            )),
            libc::EPERM => made.note("it is immutable or sealed, or a security module forbids it; see lsattr"),
            libc::EROFS => made.note(
                "its file system is mounted read-only; open it without RASKIO_OBJECT_WRITABLE to read it, or name one elsewhere",
            ),
            libc::ETXTBSY => made.note("it is a program that runs; write another file, and rename that"),
            libc::ELOOP => made.note("its path has more than 40 symbolic links, as a rule one that leads to itself; look at the links"),
            libc::ENAMETOOLONG => made.note("each name in a path has at most 255 bytes, and the path 4095; use shorter names"),
            libc::ENXIO | libc::ENODEV => made.note("there is no device behind it, or it is a socket; name a file"),
            libc::ESTALE => made.note("its file server does not know it any more; open the object anew"),
            _ => exhausted(made),
        }
    }

    /// Of a path that ends with a slash: whether there is something without it.
    fn is_but_for_a_slash(&self) -> Option<bool> {
        let mut path = self.path.to_bytes();
        while let Some(shorter) = path.strip_suffix(b"/") {
            path = shorter;
        }
        let (none, whole) = (path.is_empty(), path.len() == self.path.as_bytes().len());
        (!none && !whole).then(|| Path::new(OsStr::from_bytes(path)).exists())
    }

    fn open_direct(&self, file: &File, how: How, facts: &Facts) -> Option<(Arc<File>, Alignment)> {
        match file.past_the_cache(facts, &self.path, how) {
            Ok(file) => {
                let page = page_size() as u64;
                let alignment = facts.alignment.unwrap_or(Alignment { memory: page, offset: page });
                Some((Arc::new(file), alignment))
            }
            Err(error) => {
                log::debug!(target: "raskio", "{}: without O_DIRECT: {error}", self.name);
                None
            }
        }
    }

    /// Writes what is dirty, and drops the file's pages from the system's cache.
    ///
    /// # Errors
    /// The system's.
    pub fn drop_cache(&self, config: Bypass) -> Result<()> {
        let failed = |what: &str, error: &io::Error| Error::os(format_args!("{}: {what}", self.name), error);
        let file = self.open(config, false).map_err(|error| error.context(&self.name))?;
        // Dirty pages stay: whoever wrote them, also without this object.
        match file.cached.sync_data() {
            // A file system that is not written needs no writing back.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EROFS | libc::EINVAL)) => {}
            other => other.map_err(|error| failed("writing it back", &error))?,
        }
        file.cached.drop_cache().map_err(|error| failed("dropping it from the cache", &error))
    }
}

impl OpenFile {
    /// As messages show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The block device that it is on, or is.
    pub fn device(&self) -> u64 {
        self.facts.device
    }

    /// Its size now.
    ///
    /// # Errors
    /// The system's.
    pub fn size(&self) -> Result<u64> {
        let facts = self.cached.facts();
        facts
            .map(|facts| facts.size)
            .map_err(|error| Error::os(format_args!("{}: asking for its size", self.name), &error))
    }

    /// Waits until what was written is on the device.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        self.cached.sync_data()
    }

    /// Whether [`OpenFile::sync_name`] has something to do for a durable write.
    pub fn has_new_name(&self) -> bool {
        self.new_name.load(Ordering::Acquire)
    }

    /// Waits until a power cut does not take the name of a file that we made. May take as long as the file system likes.
    ///
    /// # Errors
    /// The system's. The message does not name the file.
    pub fn sync_name(&self) -> Result<()> {
        if self.has_new_name() {
            self.cached.sync_name().map_err(|error| failed("waiting for the device to have its directory", &error))?;
            self.new_name.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// The descriptor through the cache, or past it.
    pub fn file(&self, direct: bool) -> &Arc<File> {
        match (&self.direct, direct) {
            (Some((file, _)), true) => file,
            _ => &self.cached,
        }
    }

    /// The next piece of a read of so many bytes into memory at this address.
    pub fn next_read(&self, start: u64, len: u64, address: Option<usize>) -> Piece {
        match self.usable(self.bypass.read) {
            Some(alignment) => direct::read(Direct { alignment, overread: self.bypass.overread }, start, len, address),
            None => Piece::Cached(len),
        }
    }

    /// The next piece of a write of so many bytes from memory at this address.
    pub fn next_write(&self, start: u64, len: u64, address: usize) -> Piece {
        match self.usable(self.bypass.write) {
            Some(alignment) => direct::write(alignment, page_size() as u64, start, len, address),
            None => Piece::Cached(len),
        }
    }

    fn usable(&self, wanted: bool) -> Option<Alignment> {
        let (_, alignment) = self.direct.as_ref().filter(|_| wanted)?;
        (!self.direct_refused.load(Ordering::Relaxed)).then_some(*alignment)
    }

    /// Whether a direct read or write that failed so may work through the cache; then the file goes that way from now on.
    pub fn give_up_direct(&self, error: &io::Error) -> bool {
        let refused = matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP));
        if refused && !self.direct_refused.swap(true, Ordering::Relaxed) {
            log::info!(target: "raskio", "{}: goes on without O_DIRECT: {error}", self.name);
        }
        refused
    }
}

/// Who may or may not.
fn user() -> String {
    format!("the user {}", process::user())
}

/// What to do where something of the system's has run out.
fn exhausted(made: Error) -> Error {
    match made.os_code() {
        libc::EMFILE | libc::ENFILE => limits::out_of_files(made),
        libc::ENOMEM => made.note("the system is short of memory"),
        libc::ENOSPC | libc::EDQUOT => made.note("make room, and write it again"),
        libc::EFBIG => made.note(
            "the file would be larger than the file system or the process's limit allows (RLIMIT_FSIZE); raise that with ulimit -f",
        ),
        libc::ESPIPE => made.note(
            "it can be read from its beginning only, as some files of /proc and /sys are; copy it to a file, and read that",
        ),
        libc::EIO => made.note("the device or the file server failed; see the system's log"),
        _ => made,
    }
}

/// The error of a read or a write, and what can be done.
pub fn failed(what: impl Display, error: &io::Error) -> Error {
    exhausted(Error::os(what, error))
}

/// The error for bytes that a file does not have.
pub fn beyond_end(what: impl Display, size: Result<u64>) -> Error {
    let words = match size {
        Ok(size) => format!("{what}: the file ends after {size} bytes; read no further than its size"),
        Err(_) => format!("{what}: the file ends before"),
    };
    Error::new(ErrorKind::Range, words)
}
