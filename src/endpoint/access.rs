//! How the options of an object say that its server is reached.

use super::tls::{self, ClientCertificate};
use super::{Opening, Origin, redact};
use crate::error::{Error, Result};
use crate::sys::curl::{self, Access, Url};
use std::ffi::CString;
use std::sync::Arc;

/// What the options say of certificates, proxies and sockets.
///
/// # Errors
/// INVALID_ARGUMENT naming the option at fault.
pub fn of(opening: &Opening<'_>, origin: &Origin) -> Result<Arc<Access>> {
    let options = opening.options;
    let tls = origin.scheme == "https";
    let trust = match (tls, &options.ca_file) {
        (true, ca_file) => opening.site.places().find(ca_file.as_deref())?,
        // A wrong path is worth knowing of, also where nothing is encrypted.
        (false, Some(file)) => tls::readable("ca_file", file).map(|_| Default::default())?,
        (false, None) => Default::default(),
    };
    if options.tls_unverified {
        log::warn!(
            target: "raskio",
            "{}: the server's certificate is not verified, as the caller asked: whoever stands between can read and \
             change everything",
            redact::url(opening.text)
        );
    }
    let unix_socket = options.unix_socket.as_deref().map(unix_socket).transpose()?;
    let proxy = match (&options.proxy, &unix_socket) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("proxy and unix_socket are both set; one of them is possible"));
        }
        (Some(proxy), None) => Some(self::proxy(proxy)?),
        (None, Some(_)) => Some(CString::default()),
        // libcurl asks for the variables at each request, while the host may be changing its environment (setenv beside getenv can
        // crash a process). Where none of them is set there is nothing to ask for.
        (None, None) if !environment_has_any_proxy(opening) => Some(CString::default()),
        (None, None) => None,
    };
    Ok(Arc::new(Access {
        trust,
        unverified: options.tls_unverified,
        certificate: certificate(opening)?,
        may_be_proxied: match &proxy {
            Some(proxy) => !proxy.is_empty(),
            None => environment_has_proxy(opening),
        },
        proxy,
        unix_socket,
    }))
}

/// libcurl asks the same variables, and then no_proxy.
fn environment_has_proxy(opening: &Opening<'_>) -> bool {
    is_any_set(opening, &["http_proxy", "all_proxy", "ALL_PROXY"])
}

/// For plain http or for https, to which a redirect may lead.
fn environment_has_any_proxy(opening: &Opening<'_>) -> bool {
    environment_has_proxy(opening) || is_any_set(opening, &["https_proxy", "HTTPS_PROXY"])
}

fn is_any_set(opening: &Opening<'_>, names: &[&str]) -> bool {
    let env = opening.site.env();
    names.iter().any(|name| env(name).is_some_and(|value| !value.is_empty()))
}

fn certificate(opening: &Opening<'_>) -> Result<Option<ClientCertificate>> {
    let options = opening.options;
    let Some(file) = &options.client_certificate else {
        for (name, there) in [
            ("client_key", options.client_key.is_some()),
            ("client_key_password", options.client_key_password.is_some()),
        ] {
            if there {
                return Err(Error::invalid(format!(
                    "{name} is set and client_certificate is not, to which it belongs"
                )));
            }
        }
        return Ok(None);
    };
    let password = options.client_key_password.as_ref();
    Ok(Some(ClientCertificate {
        certificate: tls::readable("client_certificate", file)?,
        key: options.client_key.as_deref().map(|file| tls::readable("client_key", file)).transpose()?,
        password: password.map(|text| curl::c_string("client_key_password", text.reveal())).transpose()?,
    }))
}

/// Empty: none, whatever the environment says.
fn proxy(text: &str) -> Result<CString> {
    if !text.is_empty() {
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let shown = redact::url(&full);
        let url = Url::parse(&full).map_err(|error| error.context(format_args!("the proxy {shown}")))?;
        if !matches!(url.scheme().as_str(), "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h") {
            return Err(Error::invalid(format!(
                "the proxy {shown} has the scheme {:?}; http, https, socks4, socks4a, socks5 and socks5h are possible",
                url.scheme()
            )));
        }
    }
    curl::c_string("the proxy", text)
}

fn unix_socket(path: &str) -> Result<CString> {
    // sun_path has 108 bytes, one of which ends it or marks an abstract name.
    let bytes = path.strip_prefix('@').unwrap_or(path).len();
    if bytes == 0 || bytes > 107 {
        return Err(Error::invalid(format!("unix_socket has {bytes} bytes; 1 to 107 are possible")));
    }
    curl::c_string("unix_socket", path)
}

/// The same for another server that a redirect leads to: what belongs to the first one alone stays behind.
///
/// # Errors
/// INVALID_ARGUMENT: see [`tls::Places::find`].
pub fn elsewhere(access: &Access, places: &tls::Places, ca_file: Option<&str>, origin: &Origin) -> Result<Arc<Access>> {
    // Without the socket, the environment's proxy counts again.
    let proxy = if access.unix_socket.is_some() { None } else { access.proxy.clone() };
    Ok(Arc::new(Access {
        trust: if origin.scheme == "https" { places.find(ca_file)? } else { Default::default() },
        unverified: access.unverified,
        certificate: None,
        // Who knows what the environment says of that host; libcurl's form is no worse.
        may_be_proxied: proxy.as_ref().is_none_or(|proxy| !proxy.is_empty()),
        proxy,
        unix_socket: None,
    }))
}
