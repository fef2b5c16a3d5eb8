//! The driver's numbers: result codes and their texts, constants, out-parameters.

use std::ffi::CStr;

/// What a call answers inside this crate; the error is a `CUresult`.
pub type Answer<T = ()> = Result<T, i32>;

macro_rules! results {
    ($($constant:ident $code:literal $name:literal $text:literal;)*) => {
        $(#[doc = $text] pub const $constant: i32 = $code;)*
        /// Name and text of a `CUresult`.
        pub fn describe(code: i32) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                0 => Some((c"CUDA_SUCCESS", c"no error")),
                $($code => Some((
                    const { cstr(concat!("CUDA_ERROR_", $name, "\0")) },
                    const { cstr(concat!($text, "\0")) },
                )),)*
                _ => None,
            }
        }
    };
}

const fn cstr(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a NUL inside"),
    }
}

results! {
    INVALID_VALUE 1 "INVALID_VALUE" "invalid argument";
    OUT_OF_MEMORY 2 "OUT_OF_MEMORY" "out of memory";
    NOT_INITIALIZED 3 "NOT_INITIALIZED" "initialization error";
    DEINITIALIZED 4 "DEINITIALIZED" "driver shutting down";
    STUB_LIBRARY 34 "STUB_LIBRARY" "CUDA driver is a stub library";
    DEVICE_UNAVAILABLE 46 "DEVICE_UNAVAILABLE" "CUDA-capable device(s) is/are busy or unavailable";
    NO_DEVICE 100 "NO_DEVICE" "no CUDA-capable device is detected";
    INVALID_DEVICE 101 "INVALID_DEVICE" "invalid device ordinal";
    INVALID_CONTEXT 201 "INVALID_CONTEXT" "invalid device context";
    ECC_UNCORRECTABLE 214 "ECC_UNCORRECTABLE" "uncorrectable ECC error encountered";
    OPERATING_SYSTEM 304 "OPERATING_SYSTEM" "OS call failed or operation not supported on this OS";
    INVALID_HANDLE 400 "INVALID_HANDLE" "invalid resource handle";
    ILLEGAL_STATE 401 "ILLEGAL_STATE" "the operation cannot be performed in the present state";
    NOT_FOUND 500 "NOT_FOUND" "named symbol not found";
    NOT_READY 600 "NOT_READY" "device not ready";
    ILLEGAL_ADDRESS 700 "ILLEGAL_ADDRESS" "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES 701 "LAUNCH_OUT_OF_RESOURCES" "too many resources requested for launch";
    LAUNCH_TIMEOUT 702 "LAUNCH_TIMEOUT" "the launch timed out and was terminated";
    CONTEXT_IS_DESTROYED 709 "CONTEXT_IS_DESTROYED" "context is destroyed";
    HOST_MEMORY_ALREADY_REGISTERED 712 "HOST_MEMORY_ALREADY_REGISTERED" "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED 713 "HOST_MEMORY_NOT_REGISTERED" "pointer does not correspond to a registered memory region";
    LAUNCH_FAILED 719 "LAUNCH_FAILED" "unspecified launch failure";
    NOT_PERMITTED 800 "NOT_PERMITTED" "operation not permitted";
    NOT_SUPPORTED 801 "NOT_SUPPORTED" "operation not supported";
    SYSTEM_NOT_READY 802 "SYSTEM_NOT_READY" "system not yet initialized";
    SYSTEM_DRIVER_MISMATCH 803 "SYSTEM_DRIVER_MISMATCH" "system has unsupported display driver / cuda driver combination";
    STREAM_CAPTURE_UNSUPPORTED 900 "STREAM_CAPTURE_UNSUPPORTED" "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED 901 "STREAM_CAPTURE_INVALIDATED" "operation failed due to a previous error during capture";
    STREAM_CAPTURE_UNMATCHED 903 "STREAM_CAPTURE_UNMATCHED" "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_IMPLICIT 906 "STREAM_CAPTURE_IMPLICIT" "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT 907 "CAPTURED_EVENT" "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD 908 "STREAM_CAPTURE_WRONG_THREAD" "attempt to terminate a thread-local capture sequence from another thread";
    TIMEOUT 909 "TIMEOUT" "wait operation timed out";
    UNKNOWN 999 "UNKNOWN" "unknown error";
}

/// `CU_STREAM_LEGACY`.
pub const STREAM_LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`.
pub const STREAM_PER_THREAD: usize = 2;
/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub const EVENT_DISABLE_TIMING: u32 = 2;

/// A pointer that a function writes a result through.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(pub *mut T);

impl<T> Out<T> {
    /// Writes the result; a NULL is the caller's mistake.
    pub fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller of a C function promises that its out-parameter points to writable memory of that type.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result unless the caller does not want it.
    pub fn put_if_wanted(self, value: T) {
        if !self.0.is_null() {
            let _ = self.put(value);
        }
    }

    /// What is there before the call: for parameters that go both ways.
    pub fn get(self) -> Answer<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as for `put`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Element `i` of an array.
    pub fn at(self, i: usize) -> Self {
        Self(self.0.wrapping_add(i))
    }
}

/// A string from the caller.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(pub *const std::ffi::c_char);

impl Text {
    /// The string; one that is NULL or no UTF-8 is the caller's mistake.
    pub fn get(self) -> Answer<&'static str> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller of a C function promises that its string ends with NUL and outlives the call.
        unsafe { CStr::from_ptr(self.0) }.to_str().map_err(|_| INVALID_VALUE)
    }
}
