//! Where the caller's buffer is: asked of the driver, on the caller's thread, without changing anything there.

use super::context::{self, Key, Relaxed};
use super::library::{self, Driver, Failure};
use super::stream::{Capture, LEGACY, PER_THREAD, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::mem::{self, Buffer, HostBuffer};
use cudarc::driver::sys as cu;
use std::ffi::c_void;

/// What the caller says about a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Ask the driver if one is loaded, else host memory.
    Auto,
    /// Host memory.
    Host,
    /// Memory that the driver knows.
    Cuda,
}

/// In which context a buffer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// This one.
    Context(Key),
    /// The primary one of this device.
    Primary(i32),
}

/// A caller's buffer that is written, or read, by copies of the driver: RaskIO's from the call until the completion begins.
pub struct CudaBuffer {
    driver: &'static Driver,
    rest: CudaPart,
    home: Home,
    stream: Option<usize>,
}

/// A part of a [`CudaBuffer`].
#[derive(Debug)]
pub struct CudaPart {
    start: u64,
    len: u64,
    host: bool,
}

impl CudaBuffer {
    /// The driver that knows it.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Where it is written from.
    pub fn home(&self) -> Home {
        self.home
    }

    /// The caller's stream, if copies are to be ordered on it.
    pub fn stream(&self) -> Option<usize> {
        self.stream
    }

    /// Bytes that it holds.
    pub fn len(&self) -> u64 {
        self.rest.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.rest.len == 0
    }

    /// Takes the first `n` bytes off (all of them, if there are fewer).
    pub fn split_to(&mut self, n: u64) -> CudaPart {
        self.rest.split_to(n)
    }

    /// Only its first `n` bytes (all of them, if there are fewer).
    pub fn cut_to(mut self, n: u64) -> CudaBuffer {
        self.rest = self.rest.split_to(n);
        self
    }
}

impl CudaPart {
    /// Bytes that it holds.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the first `n` bytes off (all of them, if there are fewer).
    pub fn split_to(&mut self, n: u64) -> CudaPart {
        let n = n.min(self.len);
        let head = CudaPart { start: self.start, len: n, host: self.host };
        self.start += n;
        self.len -= n;
        head
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where it begins.
    #[cfg(test)]
    pub(crate) fn address(&self) -> u64 {
        self.start
    }

    /// Pinned host memory, written by the driver for the order of a stream.
    pub(super) fn is_host(&self) -> bool {
        self.host
    }
}

/// A part at this address, which a test never writes.
#[cfg(test)]
pub(crate) fn part(start: u64, len: u64) -> CudaPart {
    CudaPart { start, len, host: false }
}

/// What the driver knows of an address.
#[derive(Clone, Copy, Debug)]
struct Place {
    kind: Kind,
    /// NULL for memory that belongs to a device and not to a context: stream-ordered, or mapped by hand.
    context: cu::CUcontext,
    device: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The driver does not know it.
    Plain,
    /// Host memory that it has pinned.
    Pinned,
    /// Memory that moves between devices and host.
    Managed,
    /// Device memory.
    Device,
}

/// The buffer as reads use it. The one unsafe promise about CUDA memory.
///
/// # Errors
/// INVALID_ARGUMENT: not CUDA memory where that was said, a stream that cannot be used. UNSUPPORTED: no driver. CUDA.
///
/// # Safety
/// `start` is `len` bytes of memory, of the host or of a device, that nothing else reads or writes until the buffer and every
/// part of it are dropped; `stream` is a stream of the caller's that lives as long.
pub unsafe fn buffer(start: *mut c_void, len: u64, memory: Memory, stream: Option<*mut c_void>) -> Result<Buffer> {
    // SAFETY: the caller's promise.
    let host = || Ok(Buffer::Host(unsafe { HostBuffer::new(start.cast(), len) }));
    if len == 0 {
        return host();
    }
    let stream = stream.map(|stream| stream as usize);
    if library::is_inherited() && memory != Memory::Host {
        // Nor is the loader asked: another thread may have been inside it when the process forked.
        if memory == Memory::Auto && stream.is_none() && is_host_memory(start) {
            return host();
        }
        library::check_fork()?;
    }
    let driver = match memory {
        Memory::Cuda => Some(Driver::need()?),
        Memory::Auto => Driver::loaded(),
        Memory::Host => None,
    };
    let Some(driver) = driver else {
        return if stream.is_some() { Err(stream_for_host(start)) } else { host() };
    };
    let _relaxed = Relaxed::new(driver);
    let place = match place(driver, start) {
        Ok(place) => place,
        // Nothing is CUDA memory in a process that did not initialise the driver. A driver that fails says nothing, and what
        // the processor can write is right for a host read.
        Err(failure) if memory == Memory::Auto && stream.is_none() => {
            return if is_host_memory(start) { host() } else { Err(Error::from(failure).context(about(start))) };
        }
        Err(failure) => return Err(Error::from(failure).context(about(start))),
    };
    driver.is_used();
    match (place.kind, stream) {
        (Kind::Plain, Some(_)) => return Err(stream_for_host(start)),
        (Kind::Plain, None) if memory == Memory::Cuda => return Err(unknown(start)),
        (Kind::Plain | Kind::Pinned, None) => return host(),
        (Kind::Pinned, Some(_)) | (Kind::Managed | Kind::Device, _) => {}
    }
    // What AUTO found must do what CUDA promises.
    let driver = Driver::need()?;
    let home = match stream {
        None => home(driver, &place)?,
        Some(stream) => home_of_stream(driver, &place, stream, start)?,
    };
    // NULL means the legacy stream here, whatever the library was built to take it for.
    let stream = stream.map(|stream| if stream == 0 { LEGACY } else { stream });
    let rest = CudaPart { start: start as u64, len, host: place.kind == Kind::Pinned };
    Ok(Buffer::Cuda(CudaBuffer { driver, rest, home, stream }))
}

fn place(driver: &Driver, start: *mut c_void) -> std::result::Result<Place, Failure> {
    use cu::CUpointer_attribute::{
        CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    };
    let mut which = [
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
    ];
    let (mut memory, mut context, mut device, mut managed) = (0u32, 0usize, 0i32, 0u32);
    let mut data: [*mut c_void; 4] =
        [(&raw mut memory).cast(), (&raw mut context).cast(), (&raw mut device).cast(), (&raw mut managed).cast()];
    // SAFETY: four attributes, and for each a writable place of its documented size. Any address may be asked about.
    unsafe { driver.cuPointerGetAttributes(4, which.as_mut_ptr(), data.as_mut_ptr(), start as u64) }?;
    let kind = match memory {
        _ if managed & 0xff != 0 => Kind::Managed,
        1 => Kind::Pinned,
        2 | 4 => Kind::Device,
        _ => Kind::Plain,
    };
    Ok(Place { kind, context: context as cu::CUcontext, device })
}

/// The buffer's own context; else the current one, if it is of the buffer's device; else the device's primary one.
fn home(driver: &Driver, place: &Place) -> Result<Home> {
    if !place.context.is_null() {
        return Ok(Home::Context(Key::of(driver, place.context)?));
    }
    match context::current(driver)? {
        Some((current, device)) if device == place.device => Ok(Home::Context(Key::of(driver, current)?)),
        Some(_) | None => Ok(Home::Primary(place.device)),
    }
}

fn home_of_stream(driver: &'static Driver, place: &Place, stream: usize, start: *mut c_void) -> Result<Home> {
    if stream == PER_THREAD {
        return Err(Error::invalid(
            "the per-thread stream means another stream on each thread, and RaskIO copies on threads of its own; pass a stream \
             that was created",
        ));
    }
    let (named, mut of_stream) = (stream > LEGACY, std::ptr::null_mut());
    let handle = if named { stream } else { LEGACY };
    let captured = Stream::of_caller(handle).capture(driver);
    match captured.map_err(|failure| Error::from(failure).context(format_args!("the stream {stream:#x}")))? {
        Capture::No => {}
        Capture::Yes => return Err(captures()),
    }
    if !named {
        // The legacy stream is the current context's.
        return match context::current(driver)? {
            Some((current, device)) if device == place.device => Ok(Home::Context(Key::of(driver, current)?)),
            Some(_) | None => home(driver, place),
        };
    }
    // SAFETY: the caller's promise about the stream; one writable handle is passed.
    match unsafe { driver.cuStreamGetCtx(stream as cu::CUstream, &mut of_stream) } {
        Ok(()) => {}
        Err(failure) if failure.is_missing() => return home(driver, place),
        Err(failure) => return Err(Error::from(failure).context(format_args!("the stream {stream:#x}"))),
    }
    let key = Key::of(driver, of_stream)?;
    // What the driver reaches from everywhere may be written from any context.
    if place.kind != Kind::Device {
        return Ok(Home::Context(key));
    }
    let fits = match place.context.is_null() {
        true => context::device(driver, key)? == place.device,
        false => place.context == of_stream,
    };
    if !fits {
        return Err(Error::invalid(format!(
            "the stream {stream:#x} is of another context or device than {}; pass a stream of the buffer's",
            about(start)
        )));
    }
    Ok(Home::Context(key))
}

/// The caller's stream is being captured.
pub fn captures() -> Error {
    Error::invalid(
        "the stream is being captured into a graph, where the copies would not run; use another stream, or ask again when the \
         capture has ended",
    )
}

fn is_host_memory(start: *mut c_void) -> bool {
    mem::is_writable(start.cast()).unwrap_or(true)
}

fn about(start: *mut c_void) -> String {
    format!("the buffer at {start:p}")
}

fn unknown(start: *mut c_void) -> Error {
    Error::invalid(format!(
        "{} is not CUDA memory: the driver does not know it; pass RASKIO_MEMORY_HOST or RASKIO_MEMORY_AUTO for host memory",
        about(start)
    ))
}

fn stream_for_host(start: *mut c_void) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "{} is host memory that no CUDA driver knows, and RASKIO_READ_ON_STREAM and RASKIO_WRITE_ON_STREAM order copies of \
             CUDA memory; leave the flag out",
            about(start)
        ),
    )
}
