//! Initialisation, versions, texts, symbols and devices.

use std::ffi::{CString, c_char, c_void};

use crate::abi::{self, Answer, Out, Text};
use crate::world::{Held, call, early_call, initialise};

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> i32 {
    early_call("cuInit", |world| if flags == 0 { initialise(world) } else { Err(abi::INVALID_VALUE) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: Out<i32>) -> i32 {
    early_call("cuDriverGetVersion", |world| version.put(world.version))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(error: i32, name: Out<*const c_char>) -> i32 {
    error_text(error, name, |(name, _)| name)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(error: i32, string: Out<*const c_char>) -> i32 {
    error_text(error, string, |(_, text)| text)
}

/// Works in any state of the process, as with the real driver.
fn error_text<'a>(
    error: i32,
    out: Out<*const c_char>,
    which: impl Fn((&'a std::ffi::CStr, &'a std::ffi::CStr)) -> &'a std::ffi::CStr,
) -> i32 {
    let found = abi::describe(error);
    let pointer = found.map_or(std::ptr::null(), |found| which(found).as_ptr());
    match out.put(pointer) {
        Ok(()) if found.is_some() => 0,
        _ => abi::INVALID_VALUE,
    }
}

/// Functions whose exported name has a version, and the driver version with which each appeared.
const VERSIONED: &[(&str, &str, i32)] = &[
    ("cuCtxCreate", "cuCtxCreate_v2", 3020),
    ("cuCtxDestroy", "cuCtxDestroy_v2", 4000),
    ("cuCtxPopCurrent", "cuCtxPopCurrent_v2", 4000),
    ("cuCtxPushCurrent", "cuCtxPushCurrent_v2", 4000),
    ("cuCtxGetId", "cuCtxGetId", 12000),
    ("cuDeviceGetUuid", "cuDeviceGetUuid_v2", 11040),
    ("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000),
    ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 11000),
    ("cuDeviceTotalMem", "cuDeviceTotalMem_v2", 3020),
    ("cuEventDestroy", "cuEventDestroy_v2", 4000),
    ("cuEventRecordWithFlags", "cuEventRecordWithFlags", 11010),
    ("cuGetProcAddress", "cuGetProcAddress_v2", 12000),
    ("cuLaunchHostFunc", "cuLaunchHostFunc", 10000),
    ("cuMemAlloc", "cuMemAlloc_v2", 3020),
    ("cuMemAllocAsync", "cuMemAllocAsync", 11020),
    ("cuMemAllocHost", "cuMemAllocHost_v2", 3020),
    ("cuMemFree", "cuMemFree_v2", 3020),
    ("cuMemFreeAsync", "cuMemFreeAsync", 11020),
    ("cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2", 3020),
    ("cuMemHostRegister", "cuMemHostRegister_v2", 6050),
    ("cuMemcpyDtoD", "cuMemcpyDtoD_v2", 3020),
    ("cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2", 3020),
    ("cuMemcpyDtoH", "cuMemcpyDtoH_v2", 3020),
    ("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 3020),
    ("cuMemcpyHtoD", "cuMemcpyHtoD_v2", 3020),
    ("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 3020),
    ("cuMemsetD8", "cuMemsetD8_v2", 3020),
    ("cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010),
    ("cuStreamDestroy", "cuStreamDestroy_v2", 4000),
    ("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030),
    ("cuThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode", 10010),
];

/// Asks the loader, in this library: a copy of it may lack symbols.
fn own_symbol(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: `info` is written before it is read; the library is loaded, for this is its code; the handle is given back.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(cuInit as *const c_void, &raw mut info) == 0 {
            return None;
        }
        let library = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        let symbol = libc::dlsym(library, name.as_ptr());
        libc::dlclose(library);
        (!symbol.is_null()).then_some(symbol)
    }
}

fn find(world: &Held, symbol: &str, wanted: i32, per_thread: bool) -> Result<*mut c_void, i32> {
    const UNKNOWN: i32 = 1;
    const TOO_OLD: i32 = 2;
    let row = VERSIONED.iter().find(|(name, _, _)| *name == symbol);
    let (exported, since) = row.map_or((symbol, 0), |(_, exported, since)| (*exported, *since));
    if world.missing.iter().any(|missing| missing == symbol || missing == exported) || since > world.version {
        return Err(UNKNOWN);
    }
    if since > wanted {
        return Err(TOO_OLD);
    }
    let own = |suffix: &str| own_symbol(&format!("{exported}{suffix}"));
    let found = if per_thread { own("_ptsz").or_else(|| own("_ptds")).or_else(|| own("")) } else { own("") };
    found.ok_or(UNKNOWN)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetProcAddress_v2(
    symbol: Text,
    function: Out<*mut c_void>,
    version: i32,
    flags: u64,
    status: Out<i32>,
) -> i32 {
    const PER_THREAD_DEFAULT_STREAM: u64 = 2;
    early_call("cuGetProcAddress", |world| {
        function.put(std::ptr::null_mut())?;
        match find(&world, symbol.get()?, version, flags & PER_THREAD_DEFAULT_STREAM != 0) {
            Ok(found) => {
                status.put_if_wanted(0);
                function.put(found)
            }
            Err(reason) => {
                status.put_if_wanted(reason);
                Err(abi::NOT_FOUND)
            }
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetProcAddress(symbol: Text, function: Out<*mut c_void>, version: i32, flags: u64) -> i32 {
    cuGetProcAddress_v2(symbol, function, version, flags, Out(std::ptr::null_mut()))
}

/// Checks a device ordinal.
pub(super) fn device(world: &Held, ordinal: i32) -> Answer<usize> {
    usize::try_from(ordinal).ok().filter(|ordinal| *ordinal < world.devices.len()).ok_or(abi::INVALID_DEVICE)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(out: Out<i32>, ordinal: i32) -> i32 {
    call("cuDeviceGet", |world| device(&world, ordinal).and_then(|_| out.put(ordinal)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: Out<i32>) -> i32 {
    call("cuDeviceGetCount", |world| count.put(world.devices.len() as i32))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetName(name: Out<u8>, size: i32, ordinal: i32) -> i32 {
    call("cuDeviceGetName", |world| {
        let device = device(&world, ordinal)?;
        let text = format!("RaskIO simulated GPU {device}");
        let room = usize::try_from(size).ok().filter(|size| *size > 0).ok_or(abi::INVALID_VALUE)? - 1;
        let kept = text.len().min(room);
        for (i, byte) in text.bytes().take(kept).chain([0]).enumerate() {
            name.at(i).put(byte)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, ordinal: i32) -> i32 {
    call("cuDeviceGetAttribute", |world| {
        device(&world, ordinal)?;
        value.put(match attribute {
            1 => 1024,                                // MAX_THREADS_PER_BLOCK
            16 => 132,                                // MULTIPROCESSOR_COUNT
            33 | 34 => ordinal,                       // PCI_BUS_ID, PCI_DEVICE_ID
            40 => 3,                                  // ASYNC_ENGINE_COUNT
            75 => 9,                                  // COMPUTE_CAPABILITY_MAJOR
            41 | 83 | 89 | 91 | 99 | 113 => 1, // UNIFIED_ADDRESSING, managed and registered memory as on a data centre GPU
            115 => i32::from(world.version >= 11020), // MEMORY_POOLS_SUPPORTED
            _ => 0,
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, ordinal: i32) -> i32 {
    call("cuDeviceGetUuid", |world| {
        let device = device(&world, ordinal)?;
        let mut bytes = *b"RaskIO simulated";
        bytes[15] = device as u8;
        uuid.put(bytes)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, ordinal: i32) -> i32 {
    cuDeviceGetUuid(uuid, ordinal)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(bytes: Out<usize>, ordinal: i32) -> i32 {
    call("cuDeviceTotalMem", |world| device(&world, ordinal).and_then(|_| bytes.put(16 << 30)))
}
