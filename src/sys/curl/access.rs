//! How a server is reached: proxy, socket, certificates.

use super::easy::{Easy, Handler};
use super::missing;
use crate::error::Result;
use std::ffi::CString;
use std::sync::Arc;

/// A file and a folder of CA certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// PEM, many certificates.
    pub file: Option<CString>,
    /// One certificate a file, under its hash. libcurl keeps what it has parsed of a file for all connections of a multi
    /// handle, but only where there is no folder: see `endpoint::tls`.
    pub folder: Option<CString>,
    /// Which setting named them.
    pub from: &'static str,
}

impl Trust {
    /// What they are and why, for messages.
    pub fn describe(&self) -> String {
        let path = |path: &Option<CString>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let places: Vec<String> = [path(&self.file), path(&self.folder)].into_iter().flatten().collect();
        match (places.is_empty(), self.from) {
            (true, _) => "none were found on this system".into(),
            (false, "") => format!("{}, the system's", places.join(", ")),
            (false, from) => format!("{}, from {from}", places.join(", ")),
        }
    }
}

/// A client certificate with its key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    /// A PEM file, with the chain if there is one.
    pub certificate: CString,
    /// A PEM file; `None`: the certificate's holds it.
    pub key: Option<CString>,
    /// Of the key.
    pub password: Option<CString>,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// How a server is reached. Compared by address first, so that a reused handle sees that nothing changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Which certificates to trust.
    pub trust: Arc<Trust>,
    /// The server's certificate is not looked at.
    pub unverified: bool,
    /// Shown to servers that ask for one.
    pub certificate: Option<ClientCertificate>,
    /// `None`: the environment's; empty: none.
    pub proxy: Option<CString>,
    /// Requests may go through a proxy: the option's, or one that the environment names for plain http.
    pub may_be_proxied: bool,
    /// A unix socket instead of host and port; an abstract one begins with `@`.
    pub unix_socket: Option<CString>,
}

impl Access {
    /// Straight to a service of this machine or its network, whatever proxy the environment names.
    pub fn straight() -> Access {
        Access { proxy: Some(CString::default()), ..Access::default() }
    }
}

impl<H: Handler> Easy<H> {
    /// Sets how the next transfer's server is reached. Everything, so that nothing of the last one stays.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, or INTERNAL when libcurl refuses an option.
    pub fn set_access(&mut self, access: &Access) -> Result<()> {
        self.optional(curl_sys::CURLOPT_CAINFO, access.trust.file.as_deref())?;
        self.optional(curl_sys::CURLOPT_CAPATH, access.trust.folder.as_deref())?;
        self.long(curl_sys::CURLOPT_SSL_VERIFYPEER, (!access.unverified).into())?;
        // 2: the name in the certificate must be the host's.
        self.long(curl_sys::CURLOPT_SSL_VERIFYHOST, if access.unverified { 0 } else { 2 })?;
        let certificate = access.certificate.as_ref();
        self.optional(curl_sys::CURLOPT_SSLCERT, certificate.map(|own| own.certificate.as_c_str()))?;
        let key = certificate.and_then(|own| own.key.as_deref());
        self.optional(curl_sys::CURLOPT_SSLKEY, key.or(certificate.map(|own| own.certificate.as_c_str())))?;
        // Without any, OpenSSL would ask on the terminal, and wait.
        let password = certificate.map(|own| own.password.as_deref().unwrap_or(c""));
        self.optional(curl_sys::CURLOPT_KEYPASSWD, password)?;
        self.optional(curl_sys::CURLOPT_PROXY, access.proxy.as_deref())?;
        // Without a proxy libcurl would all the same ask the environment for no_proxy, twice a request.
        let none = access.proxy.as_ref().is_some_and(|proxy| proxy.is_empty());
        self.optional(curl_sys::CURLOPT_NOPROXY, none.then_some(c"*"))?;
        let (path, hidden) = match &access.unix_socket {
            Some(name) if name.as_bytes().first() == Some(&b'@') => (None, CString::new(&name.as_bytes()[1..]).ok()),
            Some(name) => (Some(name.as_c_str()), None),
            None => (None, None),
        };
        // Both set the same thing inside libcurl: the one that is in use comes last.
        match hidden {
            Some(hidden) => self.string(missing::CURLOPT_ABSTRACT_UNIX_SOCKET, &hidden),
            None => self.optional(curl_sys::CURLOPT_UNIX_SOCKET_PATH, path),
        }
    }
}
