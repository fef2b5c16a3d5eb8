//! Which certificates to trust.

use crate::error::Result;
use crate::sys::curl;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

/// A file and a folder of CA certificates.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// PEM, many certificates.
    pub file: Option<CString>,
    /// One certificate a file, under its hash.
    pub folder: Option<CString>,
}

impl Trust {
    /// For plain http: nothing is looked up.
    pub fn none() -> Arc<Trust> {
        Arc::default()
    }

    /// The option, else CURL_CA_BUNDLE, else SSL_CERT_FILE and SSL_CERT_DIR, else the system's usual places.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the file of the option cannot be read.
    pub fn find(ca_file: Option<&str>) -> Result<Arc<Trust>> {
        let c_string = |path: &Path| path.to_str().and_then(|path| CString::new(path).ok());
        if let Some(file) = ca_file {
            std::fs::File::open(file).map_err(|source| {
                crate::error::Error::invalid(format!("ca_file {file:?} cannot be read: {source}"))
                    .with_os_code(source.raw_os_error().unwrap_or(0))
            })?;
            return Ok(Arc::new(Trust { file: Some(curl::c_string("ca_file", file)?), folder: None }));
        }
        if let Some(bundle) = std::env::var_os("CURL_CA_BUNDLE").filter(|value| !value.is_empty()) {
            return Ok(Arc::new(Trust { file: c_string(Path::new(&bundle)), folder: None }));
        }
        // Looks at SSL_CERT_FILE and SSL_CERT_DIR before the places that distributions use.
        let found = openssl_probe::probe();
        Ok(Arc::new(Trust {
            file: found.cert_file.as_deref().and_then(c_string),
            folder: found.cert_dir.first().map(AsRef::as_ref).and_then(c_string),
        }))
    }
}
