//! Local files with the pattern, in a directory of the test's own, and the ways of reading them.

use super::{TestClient, Watchdog, config, eventually};
use raskio::config::{Backend, LocalBackend, Overrides};
use raskio::object::{Object, ObjectOptions};
use raskio::sys::mem::HostBuffer;
use raskio::sys::uring::{Options, probe};
use raskio::transport::file::KINDS;
use raskio_testserver::pattern;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Removed at the end, with all that is in it.
pub struct Directory(PathBuf);

impl Directory {
    /// Where the build is: on a disk as a rule.
    pub fn new() -> Directory {
        Directory::under(env!("CARGO_TARGET_TMPDIR").into())
    }

    pub fn under(parent: PathBuf) -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("files-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    /// A file of so many bytes of the pattern.
    pub fn put(&self, name: &str, len: u64) -> String {
        let path = self.path(name);
        std::fs::write(&path, pattern(usize::try_from(len).unwrap())).expect("a file");
        path
    }

    /// What is in a file.
    pub fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("a file")
    }

    /// Puts a file system of 1 MiB there, in a mount namespace of this process's own. False: it may not, for the last system error.
    pub fn mount_one_mebibyte(&self) -> bool {
        let path = std::ffi::CString::new(self.path("")).unwrap();
        let none = std::ptr::null();
        // SAFETY: strings that end with NUL; what is mounted is seen by this process alone.
        unsafe {
            (libc::unshare(libc::CLONE_NEWNS) == 0 || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0)
                && libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) == 0
                && libc::mount(c"tmpfs".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=1m".as_ptr().cast()) == 0
        }
    }

    /// A path that may not be read, whoever runs the tests.
    pub fn forbidden(&self) -> String {
        let path = self.put("forbidden", 100);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).expect("a mode");
        if std::fs::File::open(&path).is_err() {
            return path;
        }
        // root may read everything, but for what the kernel only lets itself be told.
        "/sys/bus/platform/drivers_probe".into()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// A lease on a file: whoever opens the file waits inside open(2) until it is given back, or for 45 s.
pub struct Lease(std::fs::File);

impl Lease {
    pub fn on(path: &str) -> Lease {
        let lease = Lease(std::fs::OpenOptions::new().read(true).write(true).open(path).expect("a file"));
        // Linux's number, on every architecture; the usual signal, SIGIO, would end the process.
        const F_SETSIG: i32 = 10;
        assert_eq!(lease.control(F_SETSIG, libc::SIGURG), 0);
        // Somebody who has just closed the file may not be known to have.
        eventually("nobody has it open", || lease.control(libc::F_SETLEASE, libc::F_WRLCK) == 0);
        lease
    }

    fn control(&self, what: i32, value: i32) -> i32 {
        // SAFETY: the descriptor is open, and no pointers are passed.
        unsafe { libc::fcntl(self.0.as_raw_fd(), what, value) }
    }

    /// Waits until somebody is inside open(2).
    pub fn wait_for_opener(&self) {
        // Asked for back, it is not held any more.
        while self.control(libc::F_GETLEASE, 0) == libc::F_WRLCK {
            std::thread::yield_now();
        }
    }

    pub fn give_back(self) {
        assert_eq!(self.control(libc::F_SETLEASE, libc::F_UNLCK), 0);
    }
}

/// Whether the kernel lets this process have io_uring.
pub fn has_uring() -> bool {
    probe(Options { depth: 8, sqpoll_idle_ms: 0, buffers: 0, files: 0 }).is_ok()
}

/// The ways of moving bytes of files that there are here.
pub fn local_backends() -> Vec<LocalBackend> {
    let all = KINDS.iter().map(|kind| kind.backend);
    all.filter(|backend| *backend != LocalBackend::Uring || has_uring()).collect()
}

/// Runs `test` with each of them.
pub fn each_local_backend(test: impl Fn(LocalBackend)) {
    let _watchdog = Watchdog::start();
    for backend in local_backends() {
        eprintln!("with {backend:?}");
        test(backend);
    }
}

/// What goes past the system's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    pub read: bool,
    pub write: bool,
    pub over: bool,
}

/// Everything through the cache.
pub const CACHED: Past = Past { read: false, write: false, over: false };
/// Aligned parts past it.
pub const DIRECT: Past = Past { read: true, write: true, over: false };
/// All that is read past it.
pub const OVER: Past = Past { read: true, write: true, over: true };

/// A client for files.
pub fn client(local: LocalBackend, past: Past, change: impl FnOnce(&mut Overrides)) -> TestClient {
    let mut settings = config(Backend::EasyThreadpool, |options| {
        options.local_backend = Some(local);
        change(options);
    });
    (settings.direct_read, settings.direct_write, settings.direct_overread) = (past.read, past.write, past.over);
    TestClient::build(settings, None)
}

/// Opens a file that may be written.
pub fn writable(client: &TestClient, path: &str) -> Arc<Object> {
    client.0.open(path, ObjectOptions { writable: true, ..ObjectOptions::default() }).expect("an object")
}

/// A test's bytes to be written. They must outlive the operation.
pub fn source(bytes: &[u8]) -> HostBuffer {
    // SAFETY: they are only written to a file, and the tests keep them, unchanged, until that is over.
    unsafe { HostBuffer::new(bytes.as_ptr().cast_mut(), bytes.len() as u64) }
}

/// Has a system call of this thread, and of those that it starts, fail; if an argument is named, only where it has that value.
pub fn forbid(call: u32, argument: Option<(u32, u32)>, errno: i32) {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const ALLOW: u32 = 0x7fff_0000;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let refuse = 0x0005_0000 | errno as u32;
    let mut program = vec![step(LOAD, 0, 0, 0)];
    match argument {
        None => program.push(step(IF_EQUAL, 0, 1, call)),
        Some((number, value)) => {
            program.extend([step(IF_EQUAL, 0, 3, call), step(LOAD, 0, 0, 16 + 8 * number), step(IF_EQUAL, 0, 1, value)])
        }
    }
    program.extend([step(RETURN, 0, 0, refuse), step(RETURN, 0, 0, ALLOW)]);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the call, and only this process is concerned.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let outcome = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter);
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    }
}
