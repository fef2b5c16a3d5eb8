//! What is known about an object, and what transfers need of it.

use crate::endpoint::{self, Endpoint};
use crate::error::{Error, ErrorKind, Result};
use crate::local::OpenFile;
use crate::op;
use crate::sync::Mutex;
use std::ffi::{CStr, CString};
use std::sync::Arc;

#[derive(Default)]
struct Known {
    size: Option<u64>,
    /// That is what the caller said, and nobody else has yet.
    given: bool,
    /// For C, whose callers are shown it.
    etag: Option<Arc<CStr>>,
    /// Where redirects led, so that the next request goes there at once.
    moved_to: Option<Arc<endpoint::Target>>,
}

/// What transfers need of an object; outlives the caller's handle while they run.
pub struct ObjectCore {
    pub(super) endpoint: Arc<dyn Endpoint>,
    known: Mutex<Known>,
}

impl ObjectCore {
    /// What this endpoint leads to; `size`: what the caller says of it.
    pub(super) fn new(endpoint: Arc<dyn Endpoint>, size: Option<u64>) -> ObjectCore {
        let known = Known { size, given: size.is_some(), ..Known::default() };
        ObjectCore { endpoint, known: Mutex::new(known) }
    }

    /// Turns ranges into requests and judges replies.
    pub fn endpoint(&self) -> &Arc<dyn Endpoint> {
        &self.endpoint
    }

    /// The object as messages show it.
    pub fn name(&self) -> &str {
        self.endpoint.name()
    }

    /// Where the next request goes, and whether that is where a redirect led before.
    pub fn target(&self) -> (Arc<endpoint::Target>, bool) {
        match &self.known.lock().moved_to {
            Some(target) => (target.clone(), true),
            None => (self.endpoint.target(), false),
        }
    }

    /// The redirect's goal answered well.
    pub fn remember(&self, target: &Arc<endpoint::Target>) {
        self.known.lock().moved_to = Some(target.clone());
    }

    /// What was remembered no longer answers.
    pub fn forget(&self, target: &Arc<endpoint::Target>) {
        let mut known = self.known.lock();
        if known.moved_to.as_ref().is_some_and(|moved_to| Arc::ptr_eq(moved_to, target)) {
            known.moved_to = None;
        }
    }

    /// The entity tag, if it may go into `If-Match`.
    pub fn strong_etag(&self) -> Option<Arc<str>> {
        let known = self.known.lock();
        let etag = known.etag.as_ref()?.to_str().ok()?;
        endpoint::head::is_strong(etag).then(|| etag.into())
    }

    /// Size and entity tag as they are known at one moment.
    pub fn size_and_etag(&self) -> (Option<u64>, Option<Arc<CStr>>) {
        let known = self.known.lock();
        (known.size, known.etag.clone())
    }

    /// Size, once known.
    pub fn size(&self) -> Option<u64> {
        self.known.lock().size
    }

    /// Size, once known, of one that does not change: a file that may be written ends where it ends now, as others may have
    /// written it too.
    pub fn fixed_size(&self) -> Option<u64> {
        self.size().filter(|_| !self.may_be_written())
    }

    fn may_be_written(&self) -> bool {
        self.endpoint.local().is_some_and(|file| file.is_writable())
    }

    /// A file of ours was written up to there.
    pub fn grow(&self, end: u64) {
        let mut known = self.known.lock();
        known.size = known.size.map(|size| size.max(end));
    }

    /// Asks the system for a file's size: of one that may be written it is what it is now, of another what it was.
    ///
    /// # Errors
    /// OBJECT_CHANGED, the system's; the message names it.
    pub fn learn_file(&self, file: &OpenFile) -> Result<u64> {
        let size = file.size()?;
        if self.may_be_written() {
            self.known.lock().size = Some(size);
        } else {
            self.learn(Some(size), None).map_err(|error| error.context(self.name()))?;
        }
        Ok(size)
    }

    /// Compares what a reply says of the object with what earlier ones said, and keeps what is new.
    ///
    /// # Errors
    /// OBJECT_CHANGED.
    pub fn learn(&self, total: Option<u64>, etag: Option<&str>) -> Result<()> {
        let mut known = self.known.lock();
        let changed = |what: &str, before: &str, now: &str| {
            Error::new(
                ErrorKind::ObjectChanged,
                format!(
                    "the object changed while it was open: its {what} was {before}, now it is {now}; open it anew to read the new one"
                ),
            )
        };
        // Both before either is kept: a reply that is refused teaches nothing.
        if let (Some(before), Some(now)) = (&known.etag, etag) {
            if before.to_bytes() != now.as_bytes() {
                return Err(changed("ETag", &before.to_string_lossy(), now));
            }
        }
        match (known.size, total) {
            (Some(given), Some(now)) if given != now && known.given => {
                return Err(Error::new(
                    ErrorKind::ObjectChanged,
                    format!(
                        "the object was opened with a wrong size (RASKIO_OBJECT_SIZE_KNOWN), or changed since: its size was {given}, now \
                         it is {now}; open it anew with the right one, or with none to have it asked for"
                    ),
                ));
            }
            (Some(before), Some(now)) if before != now => {
                return Err(changed("size", &before.to_string(), &now.to_string()));
            }
            // From now on another one is a change, also where the caller said this one.
            (_, Some(now)) => (known.size, known.given) = (Some(now), false),
            _ => {}
        }
        if let (None, Some(now)) = (&known.etag, etag) {
            // A tag has no NUL: a header line with one does not parse.
            known.etag = CString::new(now).ok().map(Into::into);
        }
        Ok(())
    }
}

impl op::Named for ObjectCore {
    fn name(&self) -> &str {
        self.endpoint.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::site::Site;
    use crate::object::ObjectOptions;

    fn core(size: Option<u64>) -> ObjectCore {
        ObjectCore::new(endpoint::open(&Site::of_process(), "http://host/x", &ObjectOptions::default()).unwrap(), size)
    }

    fn known(core: &ObjectCore) -> (Option<u64>, Option<String>) {
        let (size, etag) = core.size_and_etag();
        (size, etag.map(|etag| etag.to_str().unwrap().to_owned()))
    }

    #[test]
    fn a_reply_that_is_refused_teaches_nothing() {
        let of_wrong_size = core(Some(1000));
        of_wrong_size.learn(Some(2000), Some("\"other\"")).unwrap_err();
        assert_eq!(known(&of_wrong_size), (Some(1000), None));

        let learned = core(None);
        learned.learn(Some(1000), None).unwrap();
        learned.learn(Some(2000), Some("\"new\"")).unwrap_err();
        assert_eq!(known(&learned), (Some(1000), None));
        learned.learn(Some(1000), Some("\"old\"")).unwrap();
        learned.learn(Some(1000), Some("\"new\"")).unwrap_err();
        assert_eq!(known(&learned), (Some(1000), Some("\"old\"".to_owned())));

        let without_size = core(None);
        without_size.learn(None, Some("\"old\"")).unwrap();
        without_size.learn(Some(2000), Some("\"new\"")).unwrap_err();
        assert_eq!(known(&without_size), (None, Some("\"old\"".to_owned())));
    }
}
