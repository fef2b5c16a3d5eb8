//! Secrets from the host
//!
//! A program that has credentials of its own hands them over by callbacks, which are set in the options of a client.
//! They run on a RaskIO thread that does no other work, one at a time, and may block; the requests that need the
//! secret wait. What they hand over is kept, shared by all objects of the client, and asked for again shortly before
//! it expires, or once when a server refuses it as expired. Inside them the calls that wait return WOULD_DEADLOCK.

use super::text;
use crate::credentials::chain::keys;
use crate::credentials::{Grant, Held, Secret};
use crate::endpoint::site::{HostBearer, HostKeys};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::{CString, c_char, c_void};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Credentials for S3, filled by a raskio_credentials_fn.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_credentials {
    /// Set by RaskIO: sizeof(raskio_credentials) as the library knows it.
    pub struct_size: usize,
    /// UTF-8, NUL-ended. NULL, and secret_access_key too: there are none, and requests go out unsigned.
    pub access_key_id: *const c_char,
    /// UTF-8, NUL-ended.
    pub secret_access_key: *const c_char,
    /// UTF-8, NUL-ended. NULL: none.
    pub session_token: *const c_char,
    /// Seconds since 1970-01-01 UTC. 0: they never expire. A time that is over is taken for a service that cannot renew
    /// now: they are used for a minute, with a warning in the log.
    pub expires_unix_s: i64,
}

/// Fills `out`, which is zero but for struct_size, when credentials are needed or about to expire; returns 0 if it
/// did. Any other number fails the requests that wait, with PERMISSION_DENIED and that number in the message. The
/// strings must stay as they are until the next call, or until the client's last callback, on_shut_down.
pub type raskio_credentials_fn =
    Option<unsafe extern "C" fn(user_data: *mut c_void, out: *mut raskio_credentials) -> i32>;

/// A bearer token, filled by a raskio_bearer_fn.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct raskio_bearer {
    /// Set by RaskIO: sizeof(raskio_bearer) as the library knows it.
    pub struct_size: usize,
    /// Set by RaskIO: the origin that the token is for and will be sent to, "https://host:port". Valid during the
    /// call.
    pub origin: *const c_char,
    /// What stands behind "Authorization: Bearer ". UTF-8, NUL-ended, one word.
    pub token: *const c_char,
    /// Seconds since 1970-01-01 UTC. 0: it never expires.
    pub expires_unix_s: i64,
}

/// As raskio_credentials_fn, for objects opened with RASKIO_OBJECT_BEARER_FROM_HOST: asked for each origin, again five minutes
/// before the token expires (in the last quarter of a shorter life), and once when a server answers 401.
pub type raskio_bearer_fn = Option<unsafe extern "C" fn(user_data: *mut c_void, out: *mut raskio_bearer) -> i32>;

/// The host's pointer, on RaskIO's threads.
struct UserData(*mut c_void);
// SAFETY: the C contract: callbacks and their user data may be used from RaskIO's threads.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// The callback for credentials, ready to be called from a RaskIO thread.
pub(super) fn host_keys(ask: raskio_credentials_fn, user_data: *mut c_void) -> Option<HostKeys> {
    let (ask, user_data) = (ask?, UserData(user_data));
    Some(Box::new(move || {
        let null = std::ptr::null();
        let mut out = raskio_credentials {
            struct_size: size_of::<raskio_credentials>(),
            access_key_id: null,
            secret_access_key: null,
            session_token: null,
            expires_unix_s: 0,
        };
        // SAFETY: the caller promised a function that takes this user data; `out` is a local variable.
        let outcome = unsafe { ask(user_data.pointer(), &mut out) };
        refused("credentials", outcome)?;
        // SAFETY: the host's strings are NULL or end with NUL, and stay until the next call, which this one precedes.
        let (id, secret, token) = unsafe {
            (
                optional(out.access_key_id, "access_key_id")?,
                optional(out.secret_access_key, "secret_access_key")?,
                optional(out.session_token, "session_token")?,
            )
        };
        let names = ["access_key_id", "secret_access_key", "session_token"];
        let held = keys(id, secret, token.filter(|token| !token.is_empty()), names)
            .map_err(|error| error.context("the credentials callback"))?
            .map_or_else(|| Held::Nothing("the credentials callback gave none".into()), Held::Keys);
        Ok(Grant { held, expires: expires(out.expires_unix_s) })
    }))
}

/// The callback for tokens, ready to be called from a RaskIO thread.
pub(super) fn host_bearer(ask: raskio_bearer_fn, user_data: *mut c_void) -> Option<HostBearer> {
    let (ask, user_data) = (ask?, UserData(user_data));
    Some(Box::new(move |origin| {
        let origin = CString::new(origin).map_err(|_| Error::new(ErrorKind::Internal, "an origin holds a NUL"))?;
        let mut out = raskio_bearer {
            struct_size: size_of::<raskio_bearer>(),
            origin: origin.as_ptr(),
            token: std::ptr::null(),
            expires_unix_s: 0,
        };
        // SAFETY: the caller promised a function that takes this user data; `out` is a local variable.
        let outcome = unsafe { ask(user_data.pointer(), &mut out) };
        refused("bearer", outcome)?;
        // SAFETY: the host's string is NULL or ends with NUL, and stays until the next call, which this one precedes.
        let token = unsafe { optional(out.token, "token") }?
            .ok_or_else(|| Error::new(ErrorKind::PermissionDenied, "the bearer callback gave no token"))?;
        Ok(Grant { held: Held::Bearer(Secret::new(token)), expires: expires(out.expires_unix_s) })
    }))
}

fn refused(which: &str, outcome: i32) -> Result<()> {
    match outcome {
        0 => Ok(()),
        code => Err(Error::new(ErrorKind::PermissionDenied, format!("the {which} callback returned {code}"))),
    }
}

/// # Safety
/// `pointer` is NULL or ends with NUL, and does not change during the call.
unsafe fn optional(pointer: *const c_char, name: &str) -> Result<Option<String>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    unsafe { text(pointer, name) }.map(|text| Some(text.to_owned()))
}

fn expires(unix_seconds: i64) -> Option<SystemTime> {
    match unix_seconds {
        0 => None,
        seconds => UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    }
}
