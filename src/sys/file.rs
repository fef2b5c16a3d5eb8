//! Local files: opened, measured, read and written at an offset.

use super::mem::Span;
use crate::limit::Wake;
use crate::sync::Mutex;
use std::ffi::{CStr, CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// For writing too.
    pub write: bool,
    /// And made if it is missing.
    pub create: bool,
    /// Past the system's cache: offsets, lengths and memory must be aligned.
    pub direct: bool,
}

/// What an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A regular file.
    Regular,
    /// A block device.
    Block,
    /// A directory.
    Directory,
    /// Anything else: a pipe, a socket, a device that is read in order.
    Other,
}

/// What direct reads and writes of a file must keep to, in bytes: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Of addresses.
    pub memory: u64,
    /// Of offsets and lengths.
    pub offset: u64,
}

/// What the system says about an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: Type,
    /// Bytes that it has.
    pub size: u64,
    /// The block device that it is on, or is.
    pub device: u64,
    /// Which file it is there.
    pub inode: u64,
    /// What the kernel says of direct reads and writes; `None`: it does not say (before Linux 6.1, or another file system).
    pub alignment: Option<Alignment>,
    /// The kernel says that there are none.
    pub never_direct: bool,
}

/// An open file.
pub struct File {
    fd: OwnedFd,
    /// Never another file's.
    id: u64,
    /// Told when it is closed.
    closed: Mutex<Vec<Arc<dyn Wake>>>,
}

impl Drop for File {
    fn drop(&mut self) {
        // They look for files that nobody has any more, and by then nobody has this one.
        std::mem::take(&mut *self.closed.lock()).iter().for_each(|who| who.wake());
    }
}

fn flags(how: How) -> c_int {
    let mut flags = libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_LARGEFILE;
    flags |= if how.write { libc::O_RDWR } else { libc::O_RDONLY };
    flags |= if how.create { libc::O_CREAT } else { 0 };
    flags | if how.direct { libc::O_DIRECT } else { 0 }
}

fn open(path: &CStr, flags: c_int) -> io::Result<File> {
    // SAFETY: the path ends with NUL.
    let fd = again(|| unsafe { libc::open(path.as_ptr(), flags, 0o666) } as isize)?;
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Ok(File { fd, id: NEXT.fetch_add(1, Ordering::Relaxed), closed: Mutex::default() })
}

fn last() -> io::Error {
    io::Error::last_os_error()
}

/// The result of a call that returns -1 for an error, made again while a signal interrupts it.
fn again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(n) => return Ok(n),
            Err(_) if last().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(last()),
        }
    }
}

/// The kernel refuses an offset beyond that.
fn offset(at: u64) -> io::Result<libc::off64_t> {
    libc::off64_t::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

impl File {
    /// Opens a file. Does not wait for the other end of a pipe.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &CStr, how: How) -> io::Result<File> {
        let flags = flags(how);
        match open(path, flags | libc::O_NONBLOCK) {
            // A file that another process has a lease on, as file servers have, gives that instead of waiting until the lease is
            // given back. A pipe would wait for its other end: that must be seen first.
            Err(error) if error.raw_os_error() == Some(libc::EWOULDBLOCK) => {
                let found = open(path, libc::O_PATH | libc::O_CLOEXEC)?;
                match found.facts()?.kind {
                    Type::Regular => found.opened_again(flags).unwrap_or(Err(error)),
                    _ => Err(error),
                }
            }
            other => other,
        }
    }

    /// The same file, of which these are the facts, once more, past the system's cache, whatever the path leads to by now.
    ///
    /// # Errors
    /// The system's: EINVAL from file systems without direct reads; ENOENT if it cannot be named any more.
    pub fn past_the_cache(&self, facts: &Facts, path: &CStr, how: How) -> io::Result<File> {
        let flags = flags(How { create: false, direct: true, ..how }) | libc::O_NONBLOCK;
        // Without /proc only the path is left.
        let again = self.opened_again(flags).unwrap_or_else(|| open(path, flags))?;
        let now = again.facts()?;
        if (now.kind, now.device, now.inode) != (facts.kind, facts.device, facts.inode) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        Ok(again)
    }

    /// By the name that the system has for the descriptor; `None`: there is no /proc.
    fn opened_again(&self, flags: c_int) -> Option<io::Result<File>> {
        let path = CString::new(format!("/proc/self/fd/{}", self.raw())).ok()?;
        match open(&path, flags) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => None,
            other => Some(other),
        }
    }

    /// What it is, and how large.
    ///
    /// # Errors
    /// The system's.
    pub fn facts(&self) -> io::Result<Facts> {
        let mask = libc::STATX_BASIC_STATS | libc::STATX_DIOALIGN;
        // SAFETY: statx is plain data that the call fills in.
        let mut stat: libc::statx = unsafe { std::mem::zeroed() };
        // SAFETY: an empty path with AT_EMPTY_PATH means the descriptor; one writable statx is passed.
        let asked = again(|| unsafe {
            libc::statx(self.raw(), c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &raw mut stat) as isize
        });
        match asked {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => stat = self.older_facts()?,
            other => drop(other?),
        }
        let kind = match u32::from(stat.stx_mode) & libc::S_IFMT {
            libc::S_IFREG => Type::Regular,
            libc::S_IFBLK => Type::Block,
            libc::S_IFDIR => Type::Directory,
            _ => Type::Other,
        };
        let (major, minor, size) = match kind {
            // Its inode has no size.
            Type::Block => (stat.stx_rdev_major, stat.stx_rdev_minor, self.end()?),
            _ => (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_size),
        };
        let says = stat.stx_mask & libc::STATX_DIOALIGN != 0;
        let alignment = Alignment { memory: stat.stx_dio_mem_align.into(), offset: stat.stx_dio_offset_align.into() };
        let usable = alignment.memory.is_power_of_two() && alignment.offset.is_power_of_two();
        Ok(Facts {
            kind,
            size,
            device: u64::from(major) << 32 | u64::from(minor),
            inode: stat.stx_ino,
            alignment: (says && usable).then_some(alignment),
            never_direct: says && alignment.offset == 0,
        })
    }

    /// What fstat tells. Seccomp filters older than statx forbid that one, with an error that the C library does not know.
    fn older_facts(&self) -> io::Result<libc::statx> {
        // SAFETY: both are plain data, and the call fills in the first.
        let (mut old, mut new): (libc::stat64, libc::statx) = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and one writable stat is passed.
        again(|| unsafe { libc::fstat64(self.raw(), &raw mut old) as isize })?;
        new.stx_mode = (old.st_mode & 0xffff) as u16;
        new.stx_ino = old.st_ino;
        new.stx_size = u64::try_from(old.st_size).unwrap_or_default();
        (new.stx_dev_major, new.stx_dev_minor) = (libc::major(old.st_dev), libc::minor(old.st_dev));
        (new.stx_rdev_major, new.stx_rdev_minor) = (libc::major(old.st_rdev), libc::minor(old.st_rdev));
        Ok(new)
    }

    fn end(&self) -> io::Result<u64> {
        // SAFETY: no pointers are passed.
        again(|| unsafe { libc::lseek64(self.raw(), 0, libc::SEEK_END) } as isize).map(|end| end as u64)
    }

    /// Reads into a span from `at` on. Returns the bytes read: fewer than the span has, perhaps; 0 at the end of the file.
    ///
    /// # Errors
    /// The system's.
    pub fn read_at(&self, into: &mut Span<'_>, at: u64) -> io::Result<usize> {
        let at = offset(at)?;
        // SAFETY: the span's bytes are lent for writing for as long as it is borrowed.
        again(|| unsafe { libc::pread64(self.raw(), into.start().cast(), into.len(), at) })
    }

    /// Writes a span at `at`. Returns the bytes written: fewer than the span has, perhaps.
    ///
    /// # Errors
    /// The system's.
    pub fn write_at(&self, from: &Span<'_>, at: u64) -> io::Result<usize> {
        let at = offset(at)?;
        // SAFETY: the span's bytes are lent for reading for as long as it is borrowed.
        again(|| unsafe { libc::pwrite64(self.raw(), from.start().cast_const().cast(), from.len(), at) })
    }

    /// Waits until what was written is on the device, with the size that goes with it.
    ///
    /// # Errors
    /// The system's.
    pub fn sync_data(&self) -> io::Result<()> {
        // SAFETY: no pointers are passed.
        again(|| unsafe { libc::fdatasync(self.raw()) } as isize).map(drop)
    }

    /// Waits until its name is on the device: that of a new file is not before its directory is.
    ///
    /// # Errors
    /// The system's.
    pub fn sync_name(&self) -> io::Result<()> {
        let named = std::fs::read_link(format!("/proc/self/fd/{}", self.raw())).ok();
        let directory = named.as_ref().and_then(|path| path.parent());
        let directory = directory.and_then(|path| CString::new(path.as_os_str().as_encoded_bytes()).ok());
        let directory =
            directory.and_then(|path| open(&path, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC).ok());
        let synced = match directory {
            // SAFETY: no pointers are passed.
            Some(directory) => again(|| unsafe { libc::fsync(directory.raw()) } as isize),
            // One that may be written and not read, or no /proc: everything of the file system.
            // SAFETY: no pointers are passed.
            None => again(|| unsafe { libc::syncfs(self.raw()) } as isize),
        };
        match synced {
            // This file system has nothing to do for it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Drops its clean pages from the system's cache.
    ///
    /// # Errors
    /// The system's.
    pub fn drop_cache(&self) -> io::Result<()> {
        // SAFETY: no pointers are passed.
        match unsafe { libc::posix_fadvise64(self.raw(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// The descriptor.
    pub(in crate::sys) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Its number, never used again for another one.
    pub(in crate::sys) fn id(&self) -> u64 {
        self.id
    }

    /// Has somebody woken when it is closed.
    pub(in crate::sys) fn tell_when_closed(&self, who: Arc<dyn Wake>) {
        self.closed.lock().push(who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mem::{Pages, lent};
    use std::ffi::CString;

    fn path(name: &str) -> CString {
        let path = std::env::temp_dir().join(format!("raskio-{name}-{}", std::process::id()));
        CString::new(path.into_os_string().into_encoded_bytes()).unwrap()
    }

    #[test]
    fn the_way_past_the_cache_leads_to_the_file_that_is_open() {
        // Not in memory, where older systems have no direct reads.
        let place = |name: &str| format!("{}/raskio-{name}-{}", env!("CARGO_MANIFEST_DIR"), std::process::id());
        let (path, other) = (place("first"), place("other"));
        std::fs::write(&path, "first").unwrap();
        std::fs::write(&other, "other").unwrap();
        let name = CString::new(path.clone()).unwrap();
        let file = File::open(&name, How::default()).unwrap();
        std::fs::rename(&other, &path).unwrap();
        match file.past_the_cache(&file.facts().unwrap(), &name, How::default()) {
            Ok(again) => assert_eq!(again.facts().unwrap(), file.facts().unwrap()),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}"),
        }
        let now = File::open(&name, How::default()).unwrap();
        assert_ne!(now.facts().unwrap().inode, file.facts().unwrap().inode);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_somebody_has_a_lease_on_is_opened_once_it_is_given_back() {
        let name = path("leased");
        let file = File::open(&name, How { write: true, create: true, direct: false }).unwrap();
        let control = |what: c_int, value: c_int| {
            // SAFETY: the descriptor is open, and no pointers are passed.
            unsafe { libc::fcntl(file.raw(), what, value) }
        };
        // The usual signal, SIGIO, would end the process. Linux's number, on every architecture.
        const F_SETSIG: c_int = 10;
        assert_eq!(control(F_SETSIG, libc::SIGURG), 0, "{}", last());
        assert_eq!(control(libc::F_SETLEASE, libc::F_WRLCK), 0, "{}", last());
        std::thread::scope(|threads| {
            let opening = threads.spawn(|| File::open(&name, How::default()).map(drop));
            // Asked for back, it is not held any more.
            while control(libc::F_GETLEASE, 0) == libc::F_WRLCK {
                std::thread::yield_now();
            }
            assert!(!opening.is_finished());
            assert_eq!(control(libc::F_SETLEASE, libc::F_UNLCK), 0, "{}", last());
            opening.join().unwrap().unwrap();
        });
        std::fs::remove_file(name.to_str().unwrap()).unwrap();
    }

    #[test]
    fn where_statx_is_forbidden_fstat_tells_the_same() {
        for name in [c"/proc/self/exe", c"/dev/null", c"/"] {
            let file = File::open(name, How::default()).unwrap();
            let (facts, older) = (file.facts().unwrap(), file.older_facts().unwrap());
            assert_eq!(u32::from(older.stx_mode) & libc::S_IFMT == libc::S_IFREG, facts.kind == Type::Regular);
            assert_eq!((older.stx_size, older.stx_ino), (facts.size, facts.inode));
            assert_eq!(u64::from(older.stx_dev_major) << 32 | u64::from(older.stx_dev_minor), facts.device);
        }
    }

    #[test]
    fn what_is_written_is_read_and_measured() {
        let path = path("file");
        let how = How { write: true, create: true, direct: false };
        let file = File::open(&path, how).unwrap();
        let mut bytes = b"0123456789".to_vec();
        let source = lent(&mut bytes).into_source();
        assert_eq!(file.write_at(&source.rest(0), 3).unwrap(), 10);
        file.sync_data().unwrap();
        let facts = file.facts().unwrap();
        assert_eq!((facts.kind, facts.size), (Type::Regular, 13));
        let mut pages = Pages::new(1).unwrap();
        assert_eq!(file.read_at(&mut pages.span(), 0).unwrap(), 13);
        assert_eq!(&pages.bytes()[..14], b"\0\0\x000123456789\0");
        assert_eq!(file.read_at(&mut pages.span(), 13).unwrap(), 0);
        assert_eq!(file.read_at(&mut pages.span(), u64::MAX).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        file.drop_cache().unwrap();
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }

    #[test]
    fn what_is_no_file_is_told_from_one_and_nothing_waits_for_a_pipe() {
        let kind = |path: &CStr| File::open(path, How::default()).unwrap().facts().unwrap().kind;
        assert_eq!(kind(c"/"), Type::Directory);
        assert_eq!(kind(c"/dev/null"), Type::Other);
        let path = path("pipe");
        // SAFETY: the path ends with NUL.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        assert_eq!(kind(&path), Type::Other);
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        assert_eq!(File::open(&path, How::default()).err().unwrap().raw_os_error(), Some(libc::ENOENT));
    }
}
