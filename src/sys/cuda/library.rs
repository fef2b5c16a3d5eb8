//! The driver's library: found at run time, one table of the functions that are used.
//!
//! cudarc's loader panics at the first use of a function that the driver lacks, and may take a toolkit's stub for the
//! driver. So only its types are used; each function here is looked up once, and a missing one is an error that names it.

use crate::error::{Error, ErrorKind, Result};
use crate::sys::per_process::PerProcess;
use crate::sys::process;
use cudarc::driver::sys as cu;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// The driver's own name for itself; `libcuda.so` may be a toolkit's stub.
const NAME: &CStr = c"libcuda.so.1";

/// A `CUresult` as a number: a newer driver returns values that cudarc's enumeration does not have.
pub type Code = c_uint;
/// `CUDA_SUCCESS`.
const SUCCESS: Code = 0;
/// `CUDA_ERROR_NOT_INITIALIZED`: nobody has called `cuInit`, or this is a forked child.
const NOT_INITIALIZED: Code = 3;
/// `CUDA_ERROR_DEINITIALIZED`: the process is on its way out.
const DEINITIALIZED: Code = 4;
/// `CUDA_ERROR_INVALID_CONTEXT`.
const INVALID_CONTEXT: Code = 201;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: Code = 600;
/// `CUDA_ERROR_CONTEXT_IS_DESTROYED`.
const CONTEXT_IS_DESTROYED: Code = 709;
/// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`: the legacy stream, while a stream that it waits for is being captured.
const CAPTURE_IMPLICIT: Code = 906;

/// A driver call that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function.
    pub call: &'static str,
    /// What it returned; `None`: this driver does not have it.
    code: Option<Code>,
}

impl Failure {
    /// A context's handle belongs to another context by now.
    pub(super) fn handle_used_again() -> Failure {
        Failure { call: "cuCtxGetId", code: Some(CONTEXT_IS_DESTROYED) }
    }

    /// The work is not done yet.
    pub fn is_not_ready(self) -> bool {
        self.code == Some(NOT_READY)
    }

    /// The context is no longer there, or the driver is not.
    pub fn is_context_gone(self) -> bool {
        matches!(self.code, Some(INVALID_CONTEXT | CONTEXT_IS_DESTROYED | DEINITIALIZED))
    }

    /// Nothing runs in the context any more: what it was doing went wrong, or it is gone. Other failures are about the call.
    pub fn has_ended_all_work(self) -> bool {
        // ECC, NVLink, contained; illegal address, launch time-out; assert; from hardware stack error to launch failed; tensor
        // memory leak; MPS client terminated; external device. Of nearly all of them CUDA's reference says that any further work
        // returns the same error.
        self.is_context_gone()
            || matches!(self.code, Some(214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721 | 810 | 911))
    }

    /// The context is there, and answers this to everything: it never works again.
    pub fn has_broken_the_context(self) -> bool {
        self.has_ended_all_work() && !self.is_context_gone()
    }

    /// The process is ending.
    pub fn is_deinitialized(self) -> bool {
        self.code == Some(DEINITIALIZED)
    }

    /// Nobody has initialised the driver in this process.
    pub fn is_not_initialized(self) -> bool {
        self.code == Some(NOT_INITIALIZED)
    }

    /// Some other stream's capture stands in the way.
    pub fn is_capture_implicit(self) -> bool {
        self.code == Some(CAPTURE_IMPLICIT)
    }

    /// The function is missing.
    pub fn is_missing(self) -> bool {
        self.code.is_none()
    }
}

/// What a driver call returns.
pub type Outcome = std::result::Result<(), Failure>;

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let Failure { call, code } = failure;
        let driver = DRIVER.get();
        let Some(code) = code else {
            let version = driver.map(Driver::version_text).unwrap_or_default();
            return Error::new(
                ErrorKind::Unsupported,
                format!("the CUDA driver{version} does not have {call}, which this needs; install a newer driver"),
            );
        };
        let (name, text) = driver.map(|driver| driver.texts(code)).unwrap_or_default();
        let name = if name.is_empty() { "an error without a name" } else { &name };
        let text = if text.is_empty() { String::new() } else { format!(": {text}") };
        Error::new(ErrorKind::Cuda, format!("{call} failed with {name} ({code}){text}"))
    }
}

macro_rules! functions {
    ($($(#[$optional:ident])? $name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// The driver's functions, each where this driver has it.
        #[allow(non_snake_case)] // the driver's own names
        pub struct Driver {
            $($name: Option<unsafe extern "C" fn($($kind),*) -> Code>,)*
        }

        #[allow(non_snake_case, dead_code)] // `texts` calls two of them otherwise
        impl Driver {
            /// # Safety
            /// `handle` is an open library that stays open.
            unsafe fn look_up(handle: *mut c_void) -> Driver {
                // SAFETY: the library is a CUDA driver by its name, so what it exports under these names has these types, which
                // have not changed since each was introduced (a changed one gets another name); null is `None`.
                unsafe {
                    Driver {
                        $($name: std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($kind),*) -> Code>>(
                            symbol(handle, concat!(stringify!($name), "\0")),
                        ),)*
                    }
                }
            }

            /// The functions that device memory cannot do without and this driver lacks.
            fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if self.$name.is_none() && !functions!(@optional $($optional)?) {
                    missing.push(stringify!($name));
                })*
                missing
            }

            $(
                /// The driver's function of this name.
                ///
                /// # Safety
                /// As the driver documents it: valid pointers and handles.
                pub(super) unsafe fn $name(&self, $($argument: $kind),*) -> Outcome {
                    let failed = |code| Err(Failure { call: stringify!($name), code });
                    let Some(function) = self.$name else { return failed(None) };
                    // SAFETY: the caller's promise.
                    match unsafe { function($($argument),*) } {
                        SUCCESS => Ok(()),
                        code => failed(Some(code)),
                    }
                }
            )*
        }

        /// The types above are those of cudarc, but for the result.
        #[cfg(test)]
        #[allow(dead_code)] // compiling it is the test
        fn same_types_as_cudarc() {
            $(let _: unsafe fn($($kind),*) -> cu::CUresult = cu::$name;)*
        }
    };
    (@optional optional) => { true };
    (@optional) => { false };
}

functions! {
    cuInit(flags: c_uint);
    #[optional] cuDriverGetVersion(version: *mut c_int);
    #[optional] cuGetErrorName(error: cu::CUresult, text: *mut *const c_char);
    #[optional] cuGetErrorString(error: cu::CUresult, text: *mut *const c_char);
    cuCtxGetCurrent(context: *mut cu::CUcontext);
    cuCtxGetDevice(device: *mut cu::CUdevice);
    #[optional] cuCtxGetId(context: cu::CUcontext, id: *mut c_ulonglong);
    cuCtxPushCurrent_v2(context: cu::CUcontext);
    cuCtxPopCurrent_v2(context: *mut cu::CUcontext);
    cuDevicePrimaryCtxRetain(context: *mut cu::CUcontext, device: cu::CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: cu::CUdevice);
    cuPointerGetAttributes(count: c_uint, which: *mut cu::CUpointer_attribute, data: *mut *mut c_void, pointer: cu::CUdeviceptr);
    cuStreamCreate(stream: *mut cu::CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: cu::CUstream);
    cuStreamQuery(stream: cu::CUstream);
    #[optional] cuStreamGetCtx(stream: cu::CUstream, context: *mut cu::CUcontext);
    #[optional] cuStreamIsCapturing(stream: cu::CUstream, status: *mut cu::CUstreamCaptureStatus);
    #[optional] cuThreadExchangeStreamCaptureMode(mode: *mut cu::CUstreamCaptureMode);
    cuEventCreate(event: *mut cu::CUevent, flags: c_uint);
    cuEventDestroy_v2(event: cu::CUevent);
    cuEventRecord(event: cu::CUevent, stream: cu::CUstream);
    cuEventQuery(event: cu::CUevent);
    cuEventSynchronize(event: cu::CUevent);
    #[optional] cuLaunchHostFunc(stream: cu::CUstream, function: cu::CUhostFn, data: *mut c_void);
    cuMemHostRegister_v2(memory: *mut c_void, size: usize, flags: c_uint);
    cuMemHostUnregister(memory: *mut c_void);
    #[optional] cuMemcpyAsync(to: cu::CUdeviceptr, from: cu::CUdeviceptr, size: usize, stream: cu::CUstream);
    cuMemcpyHtoDAsync_v2(to: cu::CUdeviceptr, from: *const c_void, size: usize, stream: cu::CUstream);
    #[optional] cuMemcpyDtoHAsync_v2(to: *mut c_void, from: cu::CUdeviceptr, size: usize, stream: cu::CUstream);
}

static DRIVER: PerProcess<Driver> = PerProcess::new();
/// The fork generation in which the driver was first seen initialised; 0: never.
static USED_IN: AtomicU64 = AtomicU64::new(0);

/// What [`libraries_loaded`] said when no driver was among them.
static WITHOUT: AtomicU64 = AtomicU64::new(0);

/// How many libraries this process has loaded so far, those that are unloaded again included.
fn libraries_loaded() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, loads: *mut c_void) -> c_int {
        // SAFETY: the loader's description of a library, which has had this field since glibc 2.4; and the number below.
        unsafe { loads.cast::<u64>().write((*info).dlpi_adds) };
        1
    }
    let mut loads = 0u64;
    // SAFETY: the function above, which ends the iteration, and a writable number for it.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut loads).cast()) };
    loads
}

/// # Safety
/// `handle` is an open library, `name` ends with NUL.
unsafe fn symbol(handle: *mut c_void, name: &str) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { libc::dlsym(handle, name.as_ptr().cast()) }
}

/// Opens the library; `flags` may ask for one that is loaded already.
fn open(flags: c_int) -> *mut c_void {
    // SAFETY: a NUL-terminated name; the handle is never closed.
    unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | flags) }
}

/// What the loader has to say about the last failure of this thread.
fn loader_error() -> String {
    // SAFETY: no arguments; the text lives until this thread's next call to the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("the loader gives no reason");
    }
    // SAFETY: a NUL-terminated text of the loader's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Driver {
    /// The driver, if something in this process has loaded one. Loads nothing, initialises nothing.
    pub fn loaded() -> Option<&'static Driver> {
        if let Some(driver) = DRIVER.get() {
            return Some(driver);
        }
        // Asking for one by name searches the disk even if nothing may be loaded: 19 µs, measured. The loader counts what it
        // loads, which takes 11 ns to look at: while that number stays, so does the answer.
        let loads = libraries_loaded();
        if loads != 0 && loads == WITHOUT.load(Ordering::Relaxed) {
            return None;
        }
        let handle = open(libc::RTLD_NOLOAD);
        if handle.is_null() {
            WITHOUT.store(loads, Ordering::Relaxed);
            return None;
        }
        // SAFETY: an open library that is never closed.
        Some(DRIVER.get_or_make(|| unsafe { Driver::look_up(handle) }).0)
    }

    /// The driver, loaded and initialised if need be, with everything that device memory takes.
    ///
    /// # Errors
    /// UNSUPPORTED: there is none, or it is too old. CUDA: it cannot be initialised, also because this process was
    /// forked from one that had done so.
    pub fn need() -> Result<&'static Driver> {
        check_fork()?;
        let driver = match Driver::loaded() {
            Some(driver) => driver,
            None => {
                let handle = open(0);
                if handle.is_null() {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "no CUDA driver: libcuda.so.1 cannot be loaded ({}); install the NVIDIA driver, or read into host \
                             memory",
                            loader_error()
                        ),
                    ));
                }
                // SAFETY: an open library that is never closed.
                DRIVER.get_or_make(|| unsafe { Driver::look_up(handle) }).0
            }
        };
        driver.initialise()?;
        let missing = driver.missing();
        if !missing.is_empty() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the CUDA driver{} does not have {}, which device memory needs; install a newer driver, or read into host \
                     memory",
                    driver.version_text(),
                    missing.join(", ")
                ),
            ));
        }
        Ok(driver)
    }

    fn initialise(&self) -> Result<()> {
        if USED_IN.load(Ordering::Acquire) == process::generation() {
            return Ok(());
        }
        // SAFETY: zero is the only value that is allowed.
        match unsafe { self.cuInit(0) } {
            Ok(()) => {
                self.is_used();
                Ok(())
            }
            Err(failure) if failure.is_not_initialized() => {
                Err(Error::from(failure).note("CUDA cannot be used in a process forked from one that used it"))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// A call has succeeded that needs an initialised driver.
    pub(super) fn is_used(&self) {
        let generation = process::generation();
        if USED_IN.load(Ordering::Acquire) == generation {
            return;
        }
        // Without the handlers a child would not know that it is one.
        let _ = process::watch_forks();
        // The driver's own exit handler exists by now, and ours must run before it.
        process::at_exit_before_others();
        USED_IN.store(generation, Ordering::Release);
    }

    /// `(version 12.4)` with a blank before it, or nothing.
    fn version_text(&self) -> String {
        let mut version = 0;
        // SAFETY: one writable integer is passed.
        match unsafe { self.cuDriverGetVersion(&mut version) } {
            Ok(()) => format!(" (version {}.{})", version / 1000, version % 1000 / 10),
            Err(_) => String::new(),
        }
    }

    /// An error's name and text.
    fn texts(&self, code: Code) -> (String, String) {
        type Look = unsafe extern "C" fn(Code, *mut *const c_char) -> Code;
        type Typed = unsafe extern "C" fn(cu::CUresult, *mut *const c_char) -> Code;
        let look = |function: Option<Typed>| {
            let Some(function) = function else { return String::new() };
            // SAFETY: the same function; the number need not be one of cudarc's enumeration, which has C's size (asserted
            // below).
            let function = unsafe { std::mem::transmute::<Typed, Look>(function) };
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: one writable pointer is passed.
            if unsafe { function(code, &mut text) } != SUCCESS || text.is_null() {
                return String::new();
            }
            // SAFETY: a NUL-terminated text that lives as long as the driver.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        (look(self.cuGetErrorName), look(self.cuGetErrorString))
    }
}

const _: () = assert!(size_of::<cu::CUresult>() == size_of::<Code>());

/// Whether the driver was initialised in a process from which this one was forked.
pub fn is_inherited() -> bool {
    let used = USED_IN.load(Ordering::Acquire);
    used != 0 && used != process::generation()
}

/// Ok, unless this is a child of a process that used CUDA: the driver may hang there, or worse.
///
/// # Errors
/// CUDA.
pub fn check_fork() -> Result<()> {
    if !is_inherited() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Cuda,
        "CUDA cannot be used in a process forked from one that used it; start the process anew (Python's multiprocessing: \
         the start method \"spawn\"), or read into host memory",
    ))
}
