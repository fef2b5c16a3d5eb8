//! What the endpoints of one client share: the environment, credentials, regions that were learned, certificates.

use super::tls::Places;
use super::{Origin, headers};
use crate::credentials::authority::{Authority, Provide, Renewals};
use crate::credentials::chain::{Chain, Link, ProfileAt};
use crate::credentials::profile::Profile;
use crate::credentials::{Grant, Held};
use crate::error::{Error, ErrorKind, Result};
use crate::exit::{self, Threads};
use crate::op::call_host;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the shared files count as read: opening thousands of objects reads them once.
const FILES_LAST: Duration = Duration::from_secs(1);

/// Looks an environment variable up.
pub type Env = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// The host's own credentials, asked for when they are needed or about to expire.
pub type HostKeys = Box<dyn Fn() -> Result<Grant> + Send + Sync>;
/// The host's token for an origin (`https://host:port`), asked for likewise.
pub type HostBearer = Box<dyn Fn(&str) -> Result<Grant> + Send + Sync>;

/// What the host gives a client.
#[derive(Default)]
pub struct Host {
    /// Instead of environment, files and services.
    pub keys: Option<HostKeys>,
    /// For objects that ask for it.
    pub bearer: Option<HostBearer>,
}

/// Which secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    HostKeys,
    HostBearer(String),
    Chain(Vec<Link>),
}

/// What one client's endpoints share.
pub struct Site {
    env: Env,
    host: Arc<Host>,
    /// The host's callbacks come one at a time.
    one_at_a_time: Arc<Mutex<()>>,
    authorities: Mutex<HashMap<Source, Arc<Authority>>>,
    regions: Mutex<HashMap<(Origin, String), Arc<str>>>,
    /// As read last, and when.
    profile: Mutex<Option<(ProfileAt, Instant, Arc<Profile>)>>,
    places: Places,
    renewals: Arc<Renewals>,
}

impl Site {
    /// A client's, in this environment.
    pub fn new(env: Env, host: Host) -> Arc<Site> {
        Arc::new(Site {
            places: Places::new(env.clone()),
            env,
            host: Arc::new(host),
            one_at_a_time: Arc::default(),
            authorities: Mutex::default(),
            regions: Mutex::default(),
            profile: Mutex::default(),
            renewals: Renewals::new(),
        })
    }

    /// The environment of the process, and no host.
    pub fn of_process() -> Arc<Site> {
        Site::new(Arc::new(|name| std::env::var_os(name)), Host::default())
    }

    /// Looks a variable up.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Where certificate authorities are.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether the host gives credentials.
    pub fn has_host_keys(&self) -> bool {
        self.host.keys.is_some()
    }

    /// Whether the host gives tokens.
    pub fn has_host_bearer(&self) -> bool {
        self.host.bearer.is_some()
    }

    /// The host's credentials.
    pub fn host_keys(&self) -> Arc<Authority> {
        self.authority(Source::HostKeys, || {
            let host = self.host.clone();
            Box::new(Asks {
                turn: self.one_at_a_time.clone(),
                question: Box::new(move || host.keys.as_ref().map(|ask| ask())),
            })
        })
    }

    /// The host's token for an origin.
    pub fn host_bearer(&self, origin: &Origin) -> Arc<Authority> {
        let origin = format!("{}://{}:{}", origin.scheme, origin.host, origin.port);
        self.authority(Source::HostBearer(origin.clone()), || {
            let host = self.host.clone();
            Box::new(Asks {
                turn: self.one_at_a_time.clone(),
                question: Box::new(move || host.bearer.as_ref().map(|ask| ask(&origin).and_then(sendable))),
            })
        })
    }

    /// Credentials from these places; objects with the same places share them.
    pub fn chain(&self, links: Vec<Link>) -> Arc<Authority> {
        self.authority(Source::Chain(links.clone()), || Box::new(Chain::new(links, self.places.clone())))
    }

    fn authority(&self, source: Source, make: impl FnOnce() -> Box<dyn Provide>) -> Arc<Authority> {
        let mut all = self.authorities.lock();
        all.entry(source).or_insert_with(|| Authority::new(make(), self.renewals.clone())).clone()
    }

    /// What the shared files say of a profile.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn profile(&self, at: &ProfileAt, now: Instant) -> Result<Arc<Profile>> {
        let mut kept = self.profile.lock();
        if let Some((of, read, profile)) = &*kept {
            if of == at && now.saturating_duration_since(*read) < FILES_LAST {
                return Ok(profile.clone());
            }
        }
        let profile = Arc::new(at.read()?);
        *kept = Some((at.clone(), now, profile.clone()));
        Ok(profile)
    }

    /// The region that a server named for a bucket.
    pub fn region(&self, service: &Origin, bucket: &str) -> Option<Arc<str>> {
        self.regions.lock().get(&(service.clone(), bucket.to_owned())).cloned()
    }

    /// Remembers it for the objects that are opened later.
    pub fn remember_region(&self, service: &Origin, bucket: &str, region: Arc<str>) {
        self.regions.lock().insert((service.clone(), bucket.to_owned()), region);
    }

    /// The threads that ask for secrets end soon. Does not wait.
    pub fn stop(&self) {
        self.renewals.stop();
    }

    /// Those threads, to wait for.
    pub fn renewals(&self) -> &Arc<Renewals> {
        &self.renewals
    }

    /// Waits until no thread asks any more; false if `deadline` came first.
    pub fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.renewals.wait_stopped(deadline)
    }
}

/// A token that cannot be sent is the callback's failure: kept, it would fail every request until it expires.
fn sendable(grant: Grant) -> Result<Grant> {
    if let Held::Bearer(token) = &grant.held {
        headers::bearer(token.reveal()).map_err(|error| error.context("the bearer callback"))?;
    }
    Ok(grant)
}

/// A callback of the host that knows a secret; `None`: there is no such callback.
type Question = Box<dyn Fn() -> Option<Result<Grant>> + Send + Sync>;

struct Asks {
    turn: Arc<Mutex<()>>,
    question: Question,
}

impl Provide for Asks {
    fn fetch(&self, stop: &dyn Fn() -> bool) -> Result<Grant> {
        let _turn = self.turn.lock();
        if stop() || exit::is_exiting() {
            return Err(Error::new(ErrorKind::ShutDown, "the client was shut down"));
        }
        match call_host(|| (self.question)()) {
            Some(Some(answer)) => answer,
            Some(None) => Err(Error::new(ErrorKind::Internal, "a callback was asked for that is not there")),
            None => Err(Error::new(ErrorKind::Internal, "the host's callback for credentials panicked")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_files_are_read_once_a_second() {
        let path = std::env::temp_dir().join(format!("raskio-profile-{}", std::process::id()));
        let write = |region: &str| std::fs::write(&path, format!("[default]\nregion = {region}\n")).unwrap();
        let at = ProfileAt { name: "default".into(), named: false, config: Some(path.clone()), credentials: None };
        let (site, now) = (Site::of_process(), Instant::now());
        let region = |now| site.profile(&at, now).unwrap()["region"].clone();
        write("one");
        assert_eq!(region(now), "one");
        write("two");
        assert_eq!(region(now + FILES_LAST / 2), "one");
        assert_eq!(region(now + FILES_LAST), "two");
        let other = ProfileAt { name: "other".into(), ..at.clone() };
        assert!(site.profile(&other, now + FILES_LAST).unwrap().is_empty(), "another profile is another question");
        std::fs::remove_file(&path).unwrap();
    }
}
