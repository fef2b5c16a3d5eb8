//! Targets that carry a secret: made once, and used by every request until the secret or its signature is too old.

use super::Target;
use crate::error::Result;
use crate::sync::Mutex;
use std::ffi::CString;
use std::sync::Arc;

/// What makes one dressed target differ from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Version of the secret.
    pub version: u64,
    /// Age of the signature.
    pub age: u64,
    /// Region of the signature.
    pub region: Option<Arc<str>>,
    /// For HEAD.
    pub head: bool,
}

/// As many as are in use at once: GET and HEAD, before and after a redirect, old and new secret.
const KEPT: usize = 8;

/// The dressed targets of one object. Requests with the same one share its address, so that a reused handle keeps its
/// headers.
#[derive(Default)]
pub struct Dressed(Mutex<Vec<One>>);

struct One {
    bare: Arc<Target>,
    look: Look,
    dressed: Arc<Target>,
}

impl Dressed {
    /// `bare` with the headers that `make` makes, unless there is one.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(
        &self,
        bare: &Arc<Target>,
        look: Look,
        make: impl FnOnce() -> Result<Vec<CString>>,
    ) -> Result<Arc<Target>> {
        let mut kept = self.0.lock();
        if let Some(found) = kept.iter().find(|one| Arc::ptr_eq(&one.bare, bare) && one.look == look) {
            return Ok(found.dressed.clone());
        }
        let dressed = Arc::new(Target {
            url: bare.url.clone(),
            name: bare.name.clone(),
            origin: bare.origin.clone(),
            headers: make()?,
            access: bare.access.clone(),
        });
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(One { bare: bare.clone(), look, dressed: dressed.clone() });
        Ok(dressed)
    }
}
