//! Versions
//!
//! The ABI version grows its minor number when something is added, and its major number when a program compiled
//! against the old header would break. While the major number is 0, RaskIO 0.x keeps the SONAME libraskio.so.0 and
//! only adds.

use std::ffi::{CStr, c_char};

/// The ABI that this header describes.
pub const RASKIO_ABI_MAJOR: u32 = 0;
/// A library whose raskio_abi_version() has less is older than this header.
pub const RASKIO_ABI_MINOR: u32 = 1;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// The version of the library that was loaded, as "major.minor.patch". Static: never free it.
/// Any thread; never blocks; never fails.
#[unsafe(no_mangle)]
pub extern "C" fn raskio_version() -> *const c_char {
    VERSION.as_ptr()
}

/// The ABI of the library that was loaded: major << 16 | minor.
/// Any thread; never blocks; never fails.
#[unsafe(no_mangle)]
pub extern "C" fn raskio_abi_version() -> u32 {
    (RASKIO_ABI_MAJOR << 16) | RASKIO_ABI_MINOR
}
