//! Objects
//!
//! An object is a URL and what has been learned about it. Opening one does no network I/O; the first stat or read
//! does.

use super::client::raskio_client;
use super::error::raskio_error;
use super::op::{completion, raskio_done_fn, raskio_op, raskio_read_options, read_options, start};
use super::options::{self, Versioned};
use super::status::raskio_status;
use super::{bare_status, handle, null, put_optional, status, text, value};
use crate::credentials::Secret;
use crate::endpoint::file;
use crate::error::{Error, Result};
use crate::object::{ObjectOptions, infer_endpoint};
use std::ffi::{CStr, c_char, c_void};

pub use super::handle::raskio_object;

/// Infer the kind of object from its URL.
pub const RASKIO_ENDPOINT_AUTO: u32 = 0;
/// http:// or https://, sent byte for byte.
pub const RASKIO_ENDPOINT_HTTP: u32 = 1;
/// S3: signed, or unsigned where no credentials are found.
pub const RASKIO_ENDPOINT_S3: u32 = 2;
/// S3, never signed.
pub const RASKIO_ENDPOINT_S3_PUBLIC: u32 = 3;
/// A URL with a signature in its query, of S3 or any compatible service; its size is asked for by GET.
pub const RASKIO_ENDPOINT_S3_PRESIGNED: u32 = 4;
/// WebHDFS or HttpFS.
pub const RASKIO_ENDPOINT_WEBHDFS: u32 = 5;
/// A local file, or a block device: file:///path with percent-encoding, or a path as it is. Inferred from file: and from a path
/// that begins with /, ./ or ../ (relative to the working directory at its first stat, read or write); whoever opens names from elsewhere and means no files leaves it out of allowed_endpoints.
pub const RASKIO_ENDPOINT_FILE: u32 = 6;
/// Flag: `size` is the object's size, 0 included.
pub const RASKIO_OBJECT_SIZE_KNOWN: u32 = 1;
/// Flag: a local file that raskio_write may change, and makes if it is missing.
pub const RASKIO_OBJECT_WRITABLE: u32 = 2;
/// Flag: the server's certificate is not verified. Everyone between can read and change everything; logged as a
/// warning.
pub const RASKIO_OBJECT_TLS_UNVERIFIED: u32 = 4;
/// Flag: for s3://bucket/key, the bucket becomes part of the host name. The default at AWS, where its name allows it.
pub const RASKIO_OBJECT_S3_VIRTUAL_HOST: u32 = 8;
/// Flag: for s3://bucket/key, the bucket becomes the first part of the path. The default at other services.
pub const RASKIO_OBJECT_S3_PATH_STYLE: u32 = 16;
/// Flag: HTTP: the bearer token comes from the callback in the client's options.
pub const RASKIO_OBJECT_BEARER_FROM_HOST: u32 = 32;
/// Flag: a local file is read and written past the system's cache where the file system can do that (O_DIRECT), whatever
/// KVIKIO_AUTO_DIRECT_IO_READ and _WRITE say. What is not aligned goes through the cache, or is read with what surrounds it if
/// KVIKIO_AUTO_DIRECT_IO_READ_OVERREAD is on. The statistics tell how many bytes went which way.
pub const RASKIO_OBJECT_DIRECT: u32 = 64;
/// Flag: never past the system's cache.
pub const RASKIO_OBJECT_BUFFERED: u32 = 128;
/// The size is not known yet.
pub const RASKIO_SIZE_UNKNOWN: u64 = u64::MAX;

/// How to open an object. Zero all of it, set struct_size, then what you want to set. Copied before the call returns,
/// the strings included; strings are UTF-8 and end with NUL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_object_options {
    /// sizeof(raskio_object_options).
    pub struct_size: usize,
    /// RASKIO_ENDPOINT_*.
    pub endpoint: u32,
    /// RASKIO_OBJECT_*, combined with |.
    pub flags: u32,
    /// Bytes, with RASKIO_OBJECT_SIZE_KNOWN. Without that flag it must be 0.
    pub size: u64,
    /// S3 (as all that names a kind of storage, it is ignored by the others): the region. NULL: AWS_REGION, AWS_DEFAULT_REGION, the profile's, the host name's, us-east-1. A wrong one
    /// is put right once, by what the service answers.
    pub region: *const c_char,
    /// S3: the URL of a compatible service (http://host:port), for s3://bucket/key. NULL: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
    /// profile's, AWS itself.
    pub endpoint_url: *const c_char,
    /// S3: set together with secret_access_key, or NULL: the client's callback, the environment, the shared files,
    /// web identity, container and instance metadata, in this order; unsigned where none has any. An http(s) URL that
    /// is opened with it, and is not signed itself, is taken for S3; keys from the other places need
    /// RASKIO_ENDPOINT_S3 for that.
    pub access_key_id: *const c_char,
    /// S3.
    pub secret_access_key: *const c_char,
    /// S3: with the two above; may be NULL. WebHDFS: the delegation token.
    pub session_token: *const c_char,
    /// WebHDFS: the user. NULL: user.name of the URL's query, KVIKIO_WEBHDFS_USERNAME, none.
    pub user_name: *const c_char,
    /// A file of CA certificates in PEM form, instead of CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR and the
    /// system's.
    pub ca_file: *const c_char,
    /// header_count strings "Name: value", sent with every request to the object's own origin (scheme, host and port)
    /// and to no other, whatever is redirected where.
    pub headers: *const *const c_char,
    /// Entries of headers.
    pub header_count: usize,
    /// Kinds that RASKIO_ENDPOINT_AUTO may choose, 1u << RASKIO_ENDPOINT_* combined with |. 0: all.
    pub allowed_endpoints: u32,
    /// Must be zero.
    pub reserved0: u32,
    /// HTTP alone (refused by the others): goes into "Authorization: Bearer ", to the object's own origin only.
    pub bearer_token: *const c_char,
    /// https: a file with the client's certificate in PEM form, shown to the object's own origin only.
    pub client_certificate: *const c_char,
    /// A file with its key in PEM form. NULL: the certificate's file holds it.
    pub client_key: *const c_char,
    /// The password of that key.
    pub client_key_password: *const c_char,
    /// The URL of a proxy (http, https, socks4, socks4a, socks5, socks5h), with user and password if it wants them:
    /// http://user:password@host:port. host:port is http. NULL: the environment's (http_proxy, https_proxy, all_proxy,
    /// no_proxy); "": none.
    pub proxy: *const c_char,
    /// The path of a unix socket to connect to instead of host and port, at most 107 bytes; "@name" for an abstract one.
    /// The URL's host (http://localhost/…) is what the server is told. Not together with proxy, before one of the
    /// environment, and for the object's own origin only.
    pub unix_socket: *const c_char,
}

// SAFETY: repr(C), struct_size first, integers and pointers without padding (asserted in layout.rs).
unsafe impl Versioned for raskio_object_options {
    const NAME: &'static str = "raskio_object_options";
    const VERSION_1: usize = 96;
}

/// What is known about an object. struct_size is an input: at most so many bytes are written.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_object_info {
    /// sizeof(raskio_object_info), set by the caller.
    pub struct_size: usize,
    /// RASKIO_ENDPOINT_*: the kind that was chosen or inferred.
    pub endpoint: u32,
    /// Zero.
    pub reserved0: u32,
    /// Bytes, or RASKIO_SIZE_UNKNOWN.
    pub size: u64,
    /// The entity tag as the server writes it, quotes included; NULL if none is known. Lives as long as the object.
    pub etag: *const c_char,
}

// SAFETY: repr(C), struct_size first, integers and a pointer without padding (asserted in layout.rs).
unsafe impl Versioned for raskio_object_info {
    const NAME: &'static str = "raskio_object_info";
    const VERSION_1: usize = 32;
}

/// The kind of object that a URL stands for, RASKIO_ENDPOINT_*; RASKIO_ENDPOINT_AUTO if none fits, or for NULL. No
/// network I/O. Any thread; never blocks.
///
/// url: UTF-8, NUL-ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_endpoint_infer(url: *const c_char) -> u32 {
    // SAFETY: NULL, or a string that ends with NUL.
    value(RASKIO_ENDPOINT_AUTO, || Ok(infer_endpoint(unsafe { text(url, "url") }?)))
}

/// Opens an object: checks the URL and the options, does no network I/O. Any thread, callbacks included.
///
/// client: the object keeps its own reference to it.
/// url: UTF-8, NUL-ended, copied. User name and password in it, and everything after '?', stay out of messages and
/// logs. A path that is not UTF-8, or holds control characters, is given as file:///path, with %XX for each such byte.
/// options: may be NULL.
/// object_out: receives the object, which must eventually be given to raskio_object_release.
/// error_out: may be NULL; receives an error that must eventually be given to raskio_error_free, or NULL on success.
///
/// INVALID_ARGUMENT: a NULL, a URL or an option that cannot be right; the message names the part at fault.
/// UNSUPPORTED: a kind of object or an option that this version does not have. SHUT_DOWN, FORKED. Of a local file, as long as
/// none could be opened: IO: no threads are left; and where io_uring was asked for (RASKIO_LOCAL_URING) and cannot be had:
/// UNSUPPORTED, PERMISSION_DENIED, OUT_OF_MEMORY, IO. Whether the file is there is found out by its first stat, read or write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_open(
    client: *mut raskio_client,
    url: *const c_char,
    options: *const raskio_object_options,
    object_out: *mut *mut raskio_object,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract: pointers are NULL or valid; options hold struct_size bytes and what they point to.
    unsafe {
        status(error_out, || {
            let client = handle::get(client, "client")?;
            let url = text(url, "url").map_err(|error| with_way(error, url))?;
            if object_out.is_null() {
                return Err(null("object_out", "a place for the object"));
            }
            let object = client.open(url, object_options(options)?)?;
            object_out.write(handle::into_raw(object));
            Ok(())
        })
    }
}

/// What to do about a path that is no text.
///
/// # Safety
/// `url` is NULL or ends with NUL.
unsafe fn with_way(error: Error, url: *const c_char) -> Error {
    if url.is_null() {
        return error;
    }
    // SAFETY: not NULL; promised by the caller.
    let bytes = unsafe { CStr::from_ptr(url) }.to_bytes();
    if file::is_path(bytes) { error.note(file::way_to_open(bytes)) } else { error }
}

/// Adds a reference, which must eventually be given to raskio_object_release. Returns its argument. Any thread; never
/// blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_acquire(object: *mut raskio_object) -> *mut raskio_object {
    // SAFETY: NULL, or an object that the caller holds.
    unsafe { handle::acquire(object) }
}

/// Gives a reference back. Never blocks and never cancels: running operations keep the object. Any thread, callbacks
/// included; in a forked child it does nothing. NULL is accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_release(object: *mut raskio_object) {
    value((), || {
        // SAFETY: NULL, or a reference that the caller gives up.
        unsafe { handle::release(object) };
        Ok(())
    });
}

/// Asks the server for the object's size and entity tag, and calls back. On success raskio_object_size and
/// raskio_object_info_get know them, also inside the callback; bytes of the result is 0. Any thread, callbacks
/// included.
///
/// options: may be NULL; deadline_ms counts, the rest is checked and has no meaning here.
/// done: called once with user_data if RASKIO_OK is returned, never otherwise. Required.
/// op_out: may be NULL; receives the operation before it is submitted, which must eventually be given to
///   raskio_op_release.
/// error_out: may be NULL; as for raskio_object_open.
///
/// At the call: INVALID_ARGUMENT, UNSUPPORTED, SHUT_DOWN, FORKED. In the callback: every other status too; RANGE when
/// the server does not tell the size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_stat(
    object: *mut raskio_object,
    options: *const raskio_read_options,
    done: raskio_done_fn,
    user_data: *mut c_void,
    op_out: *mut *mut raskio_op,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract: pointers are NULL or valid; options hold struct_size bytes.
    unsafe {
        status(error_out, || {
            let object = handle::get(object, "object")?;
            let options = read_options(options)?.options;
            start(object.stat(&options, completion(done, user_data, None)?)?, op_out);
            Ok(())
        })
    }
}

/// As raskio_object_stat, and waits. Blocks, so not from a callback.
///
/// size_out: may be NULL; receives the size in bytes.
/// error_out: may be NULL; as for raskio_object_open.
///
/// WOULD_DEADLOCK: called from inside a callback. Every status of raskio_object_stat.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_stat_sync(
    object: *mut raskio_object,
    size_out: *mut u64,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract: pointers are NULL or valid.
    unsafe {
        status(error_out, || {
            let size = handle::get(object, "object")?.stat_sync()?;
            put_optional(size_out, size);
            Ok(())
        })
    }
}

/// What is known without asking: from the options, a stat, or the reply to any read. Any thread, callbacks included.
///
/// info_out: struct_size is read, at most so many bytes are written.
///
/// INVALID_ARGUMENT: a NULL, or a struct_size that cannot be one. FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_info_get(
    object: *const raskio_object,
    info_out: *mut raskio_object_info,
) -> raskio_status {
    bare_status(|| {
        // SAFETY: the C contract: NULL or valid, and info_out holds struct_size bytes.
        unsafe {
            let info = handle::get(object, "object")?.info();
            let info = raskio_object_info {
                struct_size: size_of::<raskio_object_info>(),
                endpoint: info.endpoint,
                reserved0: 0,
                size: info.size.unwrap_or(RASKIO_SIZE_UNKNOWN),
                etag: info.etag.as_ref().map_or(std::ptr::null(), |etag| etag.as_ptr()),
            };
            options::write(info_out, "info_out", &info)
        }
    })
}

/// The size in bytes if it is known, else RASKIO_SIZE_UNKNOWN; that too for NULL and in a forked child. Asks nobody.
/// Any thread, callbacks included.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_size(object: *const raskio_object) -> u64 {
    value(RASKIO_SIZE_UNKNOWN, || {
        // SAFETY: NULL, or an object that the caller holds.
        Ok(unsafe { handle::get(object, "object") }?.size().unwrap_or(RASKIO_SIZE_UNKNOWN))
    })
}

/// Writes a local file's dirty pages and drops its pages from the system's cache, so that the next read comes from the device:
/// for tests and measurements. May wait for the device. Any thread, callbacks included.
///
/// error_out: may be NULL; as for raskio_object_open.
///
/// UNSUPPORTED: a remote object. INVALID_ARGUMENT: NULL. NOT_FOUND and what else the system says. FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raskio_object_drop_cache(
    object: *mut raskio_object,
    error_out: *mut *mut raskio_error,
) -> raskio_status {
    // SAFETY: the C contract: pointers are NULL or valid.
    unsafe { status(error_out, || handle::get(object, "object")?.drop_cache()) }
}

/// The options of an object, and nothing that this version lacks.
///
/// # Safety
/// As for [`options::read`]; its strings are NULL or end with NUL, and `headers` holds `header_count` of them.
unsafe fn object_options(from: *const raskio_object_options) -> Result<ObjectOptions> {
    /// Far beyond what a server takes; a count above it was not set on purpose.
    const MOST_HEADERS: usize = 1000;
    const ENDPOINTS: [(u32, &str, Option<u32>); 7] = [
        (RASKIO_ENDPOINT_AUTO, "RASKIO_ENDPOINT_AUTO", None),
        (RASKIO_ENDPOINT_HTTP, "RASKIO_ENDPOINT_HTTP", Some(RASKIO_ENDPOINT_HTTP)),
        (RASKIO_ENDPOINT_S3, "RASKIO_ENDPOINT_S3", Some(RASKIO_ENDPOINT_S3)),
        (RASKIO_ENDPOINT_S3_PUBLIC, "RASKIO_ENDPOINT_S3_PUBLIC", Some(RASKIO_ENDPOINT_S3_PUBLIC)),
        (RASKIO_ENDPOINT_S3_PRESIGNED, "RASKIO_ENDPOINT_S3_PRESIGNED", Some(RASKIO_ENDPOINT_S3_PRESIGNED)),
        (RASKIO_ENDPOINT_WEBHDFS, "RASKIO_ENDPOINT_WEBHDFS", Some(RASKIO_ENDPOINT_WEBHDFS)),
        (RASKIO_ENDPOINT_FILE, "RASKIO_ENDPOINT_FILE", Some(RASKIO_ENDPOINT_FILE)),
    ];
    // SAFETY: promised by the caller.
    let Some(from) = (unsafe { options::read(from) })? else { return Ok(ObjectOptions::default()) };
    const KNOWN: u32 = RASKIO_OBJECT_SIZE_KNOWN
        | RASKIO_OBJECT_WRITABLE
        | RASKIO_OBJECT_TLS_UNVERIFIED
        | RASKIO_OBJECT_S3_VIRTUAL_HOST
        | RASKIO_OBJECT_S3_PATH_STYLE
        | RASKIO_OBJECT_BEARER_FROM_HOST
        | RASKIO_OBJECT_DIRECT
        | RASKIO_OBJECT_BUFFERED;
    options::flags("flags", from.flags, KNOWN, &[])?;
    options::reserved("reserved0", from.reserved0)?;
    let has = |flag: u32| from.flags & flag != 0;
    let virtual_host = match (has(RASKIO_OBJECT_S3_VIRTUAL_HOST), has(RASKIO_OBJECT_S3_PATH_STYLE)) {
        (true, true) => {
            return Err(Error::invalid("flags has both S3_VIRTUAL_HOST and S3_PATH_STYLE; one is possible"));
        }
        (false, false) => None,
        (virtual_host, _) => Some(virtual_host),
    };
    let direct = match (has(RASKIO_OBJECT_DIRECT), has(RASKIO_OBJECT_BUFFERED)) {
        (true, true) => return Err(Error::invalid("flags has both DIRECT and BUFFERED; one is possible")),
        (false, false) => None,
        (direct, _) => Some(direct),
    };
    let size_known = from.flags & RASKIO_OBJECT_SIZE_KNOWN != 0;
    if from.size != 0 && !size_known {
        return Err(Error::invalid(format!(
            "size is {}, but the flag RASKIO_OBJECT_SIZE_KNOWN is not set; set both or neither",
            from.size
        )));
    }
    if size_known && from.size == RASKIO_SIZE_UNKNOWN {
        return Err(Error::invalid("size is RASKIO_SIZE_UNKNOWN, but the flag RASKIO_OBJECT_SIZE_KNOWN is set"));
    }
    if from.header_count > MOST_HEADERS {
        return Err(Error::invalid(format!(
            "header_count is {}; at most {MOST_HEADERS} headers can be added",
            from.header_count
        )));
    }
    if from.headers.is_null() && from.header_count > 0 {
        return Err(null("headers", &format!("an array of {} strings", from.header_count)));
    }
    let headers = (0..from.header_count)
        // SAFETY: promised by the caller: `headers` holds `header_count` strings, and the strings end with NUL.
        .map(|at| unsafe { text(from.headers.add(at).read(), &format!("headers[{at}]")) }.map(str::to_owned))
        .collect::<Result<Vec<String>>>()?;
    let string = |pointer: *const c_char, name: &str| -> Result<Option<String>> {
        // SAFETY: promised by the caller.
        (!pointer.is_null()).then(|| unsafe { text(pointer, name) }.map(str::to_owned)).transpose()
    };
    let secret = |pointer: *const c_char, name: &str| string(pointer, name).map(|text| text.map(Secret::new));
    Ok(ObjectOptions {
        endpoint: options::choice("endpoint", from.endpoint, &ENDPOINTS)?,
        allowed_endpoints: from.allowed_endpoints,
        size: size_known.then_some(from.size),
        headers,
        region: string(from.region, "region")?,
        endpoint_url: string(from.endpoint_url, "endpoint_url")?,
        virtual_host,
        access_key_id: string(from.access_key_id, "access_key_id")?,
        secret_access_key: secret(from.secret_access_key, "secret_access_key")?,
        session_token: secret(from.session_token, "session_token")?,
        user_name: string(from.user_name, "user_name")?,
        bearer_token: secret(from.bearer_token, "bearer_token")?,
        bearer_from_host: has(RASKIO_OBJECT_BEARER_FROM_HOST),
        ca_file: string(from.ca_file, "ca_file")?,
        tls_unverified: has(RASKIO_OBJECT_TLS_UNVERIFIED),
        client_certificate: string(from.client_certificate, "client_certificate")?,
        client_key: string(from.client_key, "client_key")?,
        client_key_password: secret(from.client_key_password, "client_key_password")?,
        proxy: string(from.proxy, "proxy")?,
        unix_socket: string(from.unix_socket, "unix_socket")?,
        writable: has(RASKIO_OBJECT_WRITABLE),
        direct,
    })
}
