//! Which certificates to trust, and which to show.

use super::site::Env;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sys::curl;
pub use crate::sys::curl::{ClientCertificate, Trust};
use std::collections::HashMap;
use std::ffi::{CString, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What decides: the option, CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR.
type Asked = (Option<String>, [Option<OsString>; 3]);

/// Where certificate authorities are found. Each place is looked up once, and only when TLS is used.
#[derive(Clone)]
pub struct Places {
    env: Env,
    found: Arc<Mutex<HashMap<Asked, Arc<Trust>>>>,
}

impl Places {
    /// As this environment says.
    pub fn new(env: Env) -> Places {
        Places { env, found: Arc::default() }
    }

    /// The option, else CURL_CA_BUNDLE, else SSL_CERT_FILE and SSL_CERT_DIR, else the system's usual places.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the file of the option cannot be read.
    pub fn find(&self, ca_file: Option<&str>) -> Result<Arc<Trust>> {
        let variable = |name: &str| (self.env)(name).filter(|value| !value.is_empty());
        let asked = (ca_file.map(str::to_owned), ["CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"].map(variable));
        if let Some(found) = self.found.lock().get(&asked) {
            return Ok(found.clone());
        }
        let trust = Arc::new(look(&asked)?);
        Ok(self.found.lock().entry(asked).or_insert(trust).clone())
    }
}

fn look((ca_file, [bundle, file, folder]): &Asked) -> Result<Trust> {
    let c_string = |path: &Path| path.to_str().and_then(|path| CString::new(path).ok());
    if let Some(file) = ca_file {
        return Ok(Trust { file: Some(readable("ca_file", file)?), folder: None, from: "the option ca_file" });
    }
    let path = |value: &Option<OsString>| value.as_ref().map(PathBuf::from);
    if let Some(bundle) = path(bundle) {
        return Ok(Trust { file: c_string(&bundle), folder: None, from: "CURL_CA_BUNDLE" });
    }
    if file.is_some() || folder.is_some() {
        return Ok(Trust {
            file: path(file).as_deref().and_then(c_string),
            folder: path(folder).as_deref().and_then(c_string),
            from: match (file, folder) {
                (Some(_), None) => "SSL_CERT_FILE",
                (None, _) => "SSL_CERT_DIR",
                (Some(_), Some(_)) => "SSL_CERT_FILE and SSL_CERT_DIR",
            },
        });
    }
    let system = openssl_probe::probe();
    let file = system.cert_file.as_deref().and_then(c_string);
    // libcurl parses a file once for all connections of a thread, but only where no folder is set: with both, each
    // handshake parsed 140 certificates.
    let folder = if file.is_some() { None } else { system.cert_dir.first().map(AsRef::as_ref).and_then(c_string) };
    Ok(Trust { file, folder, from: "" })
}

/// The path of a file that an option names, once it was opened.
pub fn readable(option: &str, file: &str) -> Result<CString> {
    std::fs::File::open(file).map_err(|source| {
        Error::invalid(format!("{option} {file:?} cannot be read: {source}"))
            .with_os_code(source.raw_os_error().unwrap_or(0))
    })?;
    curl::c_string(option, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn places(pairs: &'static [(&'static str, &'static str)]) -> Places {
        Places::new(Arc::new(move |name| {
            pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value))
        }))
    }

    fn found(pairs: &'static [(&'static str, &'static str)]) -> (Option<String>, Option<String>) {
        let trust = places(pairs).find(None).unwrap();
        let text = |path: &Option<CString>| path.as_ref().map(|path| path.to_str().unwrap().to_owned());
        (text(&trust.file), text(&trust.folder))
    }

    #[test]
    fn variables_come_in_order_before_the_systems_places() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found(&[("CURL_CA_BUNDLE", "/a"), ("SSL_CERT_FILE", "/b"), ("SSL_CERT_DIR", "/c")]),
            (some("/a"), None)
        );
        assert_eq!(
            found(&[("CURL_CA_BUNDLE", ""), ("SSL_CERT_FILE", "/b"), ("SSL_CERT_DIR", "/c")]),
            (some("/b"), some("/c"))
        );
        assert_eq!(found(&[("SSL_CERT_DIR", "/c")]), (None, some("/c")));
        let (file, folder) = found(&[]);
        assert!(file.is_none() || folder.is_none(), "both would cost each handshake a parse of the file");
    }

    #[test]
    fn the_option_comes_first_and_must_be_readable() {
        let places = places(&[("CURL_CA_BUNDLE", "/a")]);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(places.find(Some(file)).unwrap().file.as_ref().unwrap().to_str().unwrap(), file);
        let error = places.find(Some("/does/not/exist")).unwrap_err();
        assert!(error.message().contains("ca_file") && error.os_code() == libc::ENOENT, "{error}");
    }

    #[test]
    fn a_place_is_looked_up_once() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let places = Places::new(Arc::new(|_| {
            ASKED.fetch_add(1, Ordering::SeqCst);
            None
        }));
        assert_eq!(ASKED.load(Ordering::SeqCst), 0);
        assert!(Arc::ptr_eq(&places.find(None).unwrap(), &places.find(None).unwrap()));
    }
}
