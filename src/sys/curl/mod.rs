//! libcurl behind safe types: [`Easy`] and its [`Handler`], [`Multi`], [`Url`].
//!
//! Everything libcurl calls back into is here, catches panics, and hands on to a [`Handler`].

mod access;
mod ask;
mod easy;
mod multi;
mod numbered;
mod patience;
mod share;
mod sockets;
mod still;
mod straight;
mod url;
mod wrap;

pub use access::{Access, ClientCertificate, Trust};
pub use ask::{Answer, Question, Unanswered, ask};
pub(crate) use easy::c_string;
pub use easy::{Easy, Finished, Handler, Headers, Settings, Times};
pub use multi::{Done, Multi};
pub use share::Share;
pub use sockets::OriginId;
pub use straight::is_slow;
pub use url::Url;

use crate::error::{Error, ErrorKind, Result};
use crate::sys::process;
use std::ffi::{CStr, c_char};

/// The oldest libcurl that has all that is used: 7.85 tells `CURLOPT_PROTOCOLS_STR` and fixed the reuse of connections
/// with different TLS settings.
pub const OLDEST: u32 = 0x07_55_00;

/// What `curl-sys` 0.4.91 lacks of `curl/curl.h` and `curl/multi.h`; a test compares it with the real headers.
mod missing {
    use curl_sys::{CURLINFO, CURLMoption, CURLoption};
    /// CURLINFO_SOCKET + 44.
    pub const CURLINFO_ACTIVESOCKET: CURLINFO = 0x50_002C;
    /// CURLINFO_OFF_T + 64.
    pub const CURLINFO_CONN_ID: CURLINFO = 0x60_0040;
    /// CURLINFO_OFF_T + 67.
    pub const CURLINFO_POSTTRANSFER_TIME_T: CURLINFO = 0x60_0043;
    /// Times in microseconds are CURLINFO_OFF_T + 50 to 57.
    pub const CURLINFO_TOTAL_TIME_T: CURLINFO = 0x60_0000 + 50;
    pub const CURLINFO_NAMELOOKUP_TIME_T: CURLINFO = 0x60_0000 + 51;
    pub const CURLINFO_CONNECT_TIME_T: CURLINFO = 0x60_0000 + 52;
    pub const CURLINFO_PRETRANSFER_TIME_T: CURLINFO = 0x60_0000 + 53;
    pub const CURLINFO_STARTTRANSFER_TIME_T: CURLINFO = 0x60_0000 + 54;
    pub const CURLINFO_APPCONNECT_TIME_T: CURLINFO = 0x60_0000 + 56;
    pub const CURLOPT_CURLU: CURLoption = 10_282;
    pub const CURLOPT_SUPPRESS_CONNECT_HEADERS: CURLoption = 265;
    pub const CURLOPT_ABSTRACT_UNIX_SOCKET: CURLoption = 10_264;
    pub const CURLOPT_REQUEST_TARGET: CURLoption = 10_266;
    pub const CURLMOPT_NETWORK_CHANGED: CURLMoption = 17;
    pub const CURLMOPT_QUICK_EXIT: CURLMoption = 21;
    /// Closes idle connections.
    pub const CURLMNWC_CLEAR_CONNS: libc::c_long = 2;
    /// Returned from a write callback: end the transfer.
    pub const CURL_WRITEFUNC_ERROR: usize = 0xFFFF_FFFF;
}

/// Starts libcurl once for the process.
///
/// # Errors
/// UNSUPPORTED when the libcurl found at run time is too old, INTERNAL when it does not start.
pub fn global_init() -> Result<()> {
    process::once_before_forks(|| {
        // SAFETY: called once, under the guard of `once_before_forks`; nothing of libcurl has been used before.
        let code = unsafe { curl_sys::curl_global_init(curl_sys::CURL_GLOBAL_DEFAULT) };
        if code != curl_sys::CURLE_OK {
            return Err(Error::new(ErrorKind::Internal, format!("libcurl does not start: {}", strerror(code))));
        }
        let (number, text) = version();
        if number < OLDEST {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "libcurl {text} is too old: RaskIO needs 7.85 or later; build it with its own (the feature bundled-curl)"
                ),
            ));
        }
        // Registered after curl_global_init, so it runs before OpenSSL's own exit handler pulls the rug away.
        process::at_exit(crate::exit::stop_everything)
    })
}

/// The version of the libcurl in use: its number and its text.
pub fn version() -> (u32, String) {
    // SAFETY: curl_version_info returns a pointer to static data, whose strings live as long.
    unsafe {
        let info = &*curl_sys::curl_version_info(curl_sys::CURLVERSION_NOW);
        let ssl = if info.ssl_version.is_null() { "no TLS".into() } else { text(info.ssl_version) };
        (info.version_num, format!("{} ({ssl})", text(info.version)))
    }
}

/// A copy of a C string that libcurl owns.
///
/// # Safety
/// `pointer` must be a valid NUL-ended string.
unsafe fn text(pointer: *const c_char) -> String {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// libcurl's words for a `CURLcode`.
pub fn strerror(code: u32) -> String {
    // SAFETY: returns a pointer to a static string for every code.
    unsafe { text(curl_sys::curl_easy_strerror(code)) }
}

fn multi_error(what: &str, code: i32) -> Error {
    // SAFETY: returns a pointer to a static string for every code.
    let words = unsafe { text(curl_sys::curl_multi_strerror(code)) };
    Error::new(ErrorKind::Internal, format!("{what}: {words} (CURLMcode {code})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libcurl_starts_and_is_new_enough() {
        global_init().unwrap();
        let (number, text) = version();
        assert!(number >= OLDEST, "{text}");
        #[cfg(feature = "bundled-curl")]
        assert!(number >= 0x08_16_00, "curl-sys bundles 8.22, not {text}");
    }

    #[test]
    fn every_curl_code_has_words() {
        for code in [6, 7, 18, 28, 35, 52, 56, 60] {
            assert!(strerror(code).len() > 5, "{code}");
        }
    }

    /// The constants that curl-sys lacks are read from the headers of the libcurl that is linked.
    #[test]
    #[cfg(feature = "bundled-curl")]
    fn constants_agree_with_the_real_headers() {
        let include = std::path::Path::new(env!("RASKIO_CURL_INCLUDE")).join("curl");
        let multi = std::fs::read_to_string(include.join("multi.h")).unwrap();
        let curl = std::fs::read_to_string(include.join("curl.h")).unwrap();
        let urlapi = std::fs::read_to_string(include.join("urlapi.h")).unwrap();
        let option = |text: &str, name: &str| -> u32 {
            let line = text.split(&format!("{name}, ")).nth(1).unwrap_or_else(|| panic!("{name} is gone"));
            line.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty()).unwrap().parse().unwrap()
        };
        assert_eq!(option(&multi, "CURLOPT(CURLMOPT_QUICK_EXIT"), missing::CURLMOPT_QUICK_EXIT);
        assert_eq!(option(&multi, "CURLOPT(CURLMOPT_NETWORK_CHANGED"), missing::CURLMOPT_NETWORK_CHANGED);
        assert_eq!(
            option(&curl, "CURLOPT(CURLOPT_SUPPRESS_CONNECT_HEADERS"),
            missing::CURLOPT_SUPPRESS_CONNECT_HEADERS
        );
        // 10000: CURLOPTTYPE_OBJECTPOINT.
        let socket = option(&curl, "CURLOPT(CURLOPT_ABSTRACT_UNIX_SOCKET");
        assert_eq!(socket + 10_000, missing::CURLOPT_ABSTRACT_UNIX_SOCKET);
        assert_eq!(option(&curl, "CURLOPT(CURLOPT_REQUEST_TARGET") + 10_000, missing::CURLOPT_REQUEST_TARGET);
        assert_eq!(option(&curl, "CURLOPT(CURLOPT_CURLU") + 10_000, missing::CURLOPT_CURLU);
        // The kinds of value (CURLINFO_SOCKET, CURLINFO_OFF_T) are defined above them in the header.
        assert!(curl.contains("CURLINFO_ACTIVESOCKET     = CURLINFO_SOCKET + 44,"));
        assert!(curl.contains("#define CURLINFO_SOCKET   0x500000"));
        assert_eq!(missing::CURLINFO_ACTIVESOCKET, 0x50_0000 + 44);
        assert!(curl.contains("CURLINFO_CONN_ID          = CURLINFO_OFF_T + 64,"));
        assert!(curl.contains("#define CURLINFO_OFF_T    0x600000"));
        assert_eq!(missing::CURLINFO_CONN_ID, 0x60_0000 + 64);
        assert!(curl.contains("CURLINFO_POSTTRANSFER_TIME_T = CURLINFO_OFF_T + 67,"));
        assert_eq!(missing::CURLINFO_POSTTRANSFER_TIME_T, 0x60_0000 + 67);
        for (number, name) in [
            (missing::CURLINFO_TOTAL_TIME_T, "TOTAL"),
            (missing::CURLINFO_NAMELOOKUP_TIME_T, "NAMELOOKUP"),
            (missing::CURLINFO_CONNECT_TIME_T, "CONNECT"),
            (missing::CURLINFO_PRETRANSFER_TIME_T, "PRETRANSFER"),
            (missing::CURLINFO_STARTTRANSFER_TIME_T, "STARTTRANSFER"),
            (missing::CURLINFO_APPCONNECT_TIME_T, "APPCONNECT"),
        ] {
            let value = curl.split(&format!(" CURLINFO_{name}_TIME_T ")).nth(1).unwrap().trim_start();
            assert!(
                value.starts_with(&format!("= CURLINFO_OFF_T + {},", number - 0x60_0000)),
                "{name}: {}",
                &value[..40]
            );
        }
        assert!(multi.contains("#define CURLMNWC_CLEAR_CONNS (1L << 1)"));
        assert!(curl.contains("#define CURL_WRITEFUNC_ERROR 0xFFFFFFFF"));
        url::tests::agrees_with(&urlapi);
    }
}
