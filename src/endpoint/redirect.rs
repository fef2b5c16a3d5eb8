//! Where a redirect leads, and what stays behind.

use super::site::Site;
use super::{Opening, Origin, Target, access, redact};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::curl::Url;
use std::sync::Arc;

/// Where an object lives, to which its secrets belong.
pub struct Home {
    /// Its own URL.
    pub target: Arc<Target>,
    site: Arc<Site>,
    ca_file: Option<String>,
}

impl Home {
    /// Of an object that is being opened.
    pub fn new(target: Arc<Target>, opening: &Opening<'_>) -> Home {
        Home { target, site: opening.site.clone(), ca_file: opening.options.ca_file.clone() }
    }

    /// The same at another place.
    pub fn moved(&self, target: Arc<Target>) -> Home {
        Home { target, site: self.site.clone(), ca_file: self.ca_file.clone() }
    }

    /// Where a redirect from `from` leads. The caller's headers, the client certificate, and with them every secret go to
    /// the object's own origin only; https never falls to http.
    ///
    /// # Errors
    /// HTTP when it leads where RaskIO does not go.
    pub fn redirect(&self, from: &Target, location: &str) -> Result<Arc<Target>> {
        let shown = redact::url(location);
        let refuse = |why: &str| Error::new(ErrorKind::Http, format!("the redirect to {shown} is not followed: {why}"));
        let mut url = Url::parse(from.url.to_str().map_err(|_| refuse("the URL is not UTF-8"))?)?;
        url.follow(location).map_err(|error| refuse(error.message()))?;
        let mut origin = Origin::parse(&url);
        match (from.origin.scheme.as_str(), origin.scheme.as_str()) {
            ("http" | "https", "https") | ("http", "http") => {}
            ("https", "http") => return Err(refuse("it falls from https to http")),
            _ => return Err(refuse("it leaves http and https")),
        }
        // What RaskIO remembers is where the chain ended, so that each hop is checked against where the chain began.
        let same = origin.is_same(&self.target.origin);
        if !same && url.user().is_some() {
            return Err(refuse("it brings a user name of its own"));
        }
        if same && url.user().is_none() && url.password().is_none() {
            // A Location with a host has no user, and the object's own belongs to this origin as its headers do.
            url.take_user_of(&Url::parse(&self.target.url.to_string_lossy())?)?;
        }
        let text = url.text()?;
        // What is dialled is this text: it must be a URL, and of the origin that was looked at.
        let again = text.to_str().ok().and_then(|text| Url::parse(text).ok());
        if again.map(|url| Origin::parse(&url)).as_ref() != Some(&origin) {
            return Err(refuse("it is no URL"));
        }
        if same {
            origin = self.target.origin.clone();
        }
        Ok(Arc::new(Target {
            name: redact::url(&text.to_string_lossy()),
            url: text,
            headers: if same { self.target.headers.clone() } else { Vec::new() },
            access: match same {
                true => self.target.access.clone(),
                false => access::elsewhere(&self.target.access, self.site.places(), self.ca_file.as_deref(), &origin)?,
            },
            origin,
        }))
    }
}
