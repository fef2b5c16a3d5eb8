//! The library as programs load it: its name, its symbols, and copies of it that lack some.

use std::env;
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr;

fn install(directory: &Path, missing: &[&str]) -> Output {
    // Beside this test's program; cargo gives a cdylib no hash.
    let library = env::current_exe().unwrap().with_file_name("libsimcuda.so");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    Command::new("sh").arg(script).arg(library).arg(directory).args(missing).output().unwrap()
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

struct Library(*mut c_void);

impl Library {
    fn open(directory: &Path) -> Self {
        let path = CString::new(directory.join("libcuda.so.1").to_str().unwrap()).unwrap();
        // SAFETY: loads a library whose initialisers do nothing.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null());
        Self(library)
    }

    fn symbol(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }

    /// `cuGetProcAddress`: the function, and why not.
    fn ask(&self, name: &str, version: i32) -> (*mut c_void, i32) {
        type Ask = extern "C" fn(*const i8, *mut *mut c_void, i32, u64, *mut i32) -> i32;
        let name = CString::new(name).unwrap();
        let (mut found, mut status) = (ptr::null_mut(), 7);
        // SAFETY: the function of that name has this type.
        let ask: Ask = unsafe { std::mem::transmute(self.symbol("cuGetProcAddress_v2")) };
        let code = ask(name.as_ptr().cast(), &raw mut found, version, 0, &raw mut status);
        assert_eq!(code == 0, !found.is_null());
        (found, status)
    }
}

#[test]
fn it_is_found_under_the_drivers_name() {
    let directory = directory("whole");
    let output = install(&directory, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = Library::open(&directory);
    // SAFETY: looks only.
    let same = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    assert_eq!(same, library.0, "by its SONAME");
    for name in ["cuInit", "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz", "sim_cuda_fail"] {
        assert!(!library.symbol(name).is_null(), "{name}");
    }
    assert_eq!(library.ask("cuMemAlloc", 12000), (library.symbol("cuMemAlloc_v2"), 0));
    assert_eq!(library.ask("cuCtxGetId", 11000), (ptr::null_mut(), 2), "newer than what was asked for");
    assert_eq!(library.ask("cuNonesuch", 12000), (ptr::null_mut(), 1));
}

#[test]
fn a_copy_may_lack_functions() {
    let directory = directory("old");
    let output = install(&directory, &["cuLaunchHostFunc", "cuCtxGetId", "cuCtxCreate_v2", "cuDeviceGetUuid"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = Library::open(&directory);
    for (name, there) in
        [("cuLaunchHostFunc", false), ("cuCtxGetId", false), ("cuLaunchHostFunc_ptsz", true), ("cuInit", true)]
    {
        assert_eq!(!library.symbol(name).is_null(), there, "{name}");
        assert_eq!(!library.ask(name, 13000).0.is_null(), there, "{name}");
    }
}

#[test]
fn a_function_that_it_never_had_is_no_wish() {
    let output = install(&directory("wrong"), &["cuMemAlloc"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cuMemAlloc"));
}
