//! Where AWS settings and credentials come from: environment, files, services, in the order of AWS's own SDKs.
//!
//! Looking at the environment and reading the two small files happens when an object is opened; every question to a
//! service happens later, on a thread of its own ([`super::authority`]).

use super::authority::Provide;
use super::profile::{FileKind, Profile, read_into};
use super::services::{Container, Instance, Stop, WebIdentity, grant};
use super::{Grant, Held, Keys, Secret, fits_a_header};
use crate::endpoint::{redact, tls};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::curl::{Access, Url};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Looks an environment variable up.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// What the shared files call the parts of a key.
const KEY_NAMES: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

/// How long "nothing was found" holds before it is looked for again.
const NOTHING_LASTS: Duration = Duration::from_secs(300);

/// A variable's text; an empty one is as good as unset, as everywhere in AWS's SDKs.
pub fn variable(env: Env<'_>, name: &str) -> Result<Option<String>> {
    match env(name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => match value.into_string() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::invalid(format!("{name} is not UTF-8"))),
        },
    }
}

/// Credentials in the environment itself.
///
/// # Errors
/// INVALID_ARGUMENT: only one half is there, or one cannot be right.
pub fn from_environment(env: Env<'_>) -> Result<Option<Keys>> {
    keys(
        variable(env, "AWS_ACCESS_KEY_ID")?,
        variable(env, "AWS_SECRET_ACCESS_KEY")?,
        variable(env, "AWS_SESSION_TOKEN")?,
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
    )
}

/// Credentials from their three parts, whose names the errors use.
///
/// # Errors
/// INVALID_ARGUMENT: only one half is there, or one cannot be right.
pub fn keys(
    id: Option<String>,
    secret: Option<String>,
    token: Option<String>,
    names: [&str; 3],
) -> Result<Option<Keys>> {
    let half = |there: &str, missing: &str| {
        Err(Error::invalid(format!("{there} is set and {missing} is not; set both, or neither")))
    };
    let (id, secret) = match (id, secret) {
        (Some(id), Some(secret)) => (id, secret),
        (Some(_), None) => return half(names[0], names[1]),
        (None, Some(_)) => return half(names[1], names[0]),
        // A token that was left behind says nothing.
        (None, None) => return Ok(None),
    };
    for (name, text) in [(names[0], Some(&id)), (names[1], Some(&secret)), (names[2], token.as_ref())] {
        if text.is_some_and(|text| text.is_empty() || !fits_a_header(text)) {
            return Err(Error::invalid(format!("{name} is empty or holds a control character")));
        }
    }
    Ok(Some(Keys {
        access_key_id: Secret::new(id),
        secret_access_key: Secret::new(secret),
        session_token: token.map(Secret::new),
    }))
}

/// The profile in use: which, and where it would stand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProfileAt {
    /// Its name.
    pub name: String,
    /// AWS_PROFILE names it: it must be there.
    pub named: bool,
    /// The shared config file.
    pub config: Option<PathBuf>,
    /// The shared credentials file.
    pub credentials: Option<PathBuf>,
}

impl ProfileAt {
    /// As the environment says.
    ///
    /// # Errors
    /// INVALID_ARGUMENT: a variable is not UTF-8.
    pub fn of(env: Env<'_>) -> Result<ProfileAt> {
        let named = variable(env, "AWS_PROFILE")?;
        let named = if named.is_some() { named } else { variable(env, "AWS_DEFAULT_PROFILE")? };
        let home = env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let place = |name: &str, file: &str| match (env(name).filter(|value| !value.is_empty()), &home) {
            (Some(path), home) => {
                let path = PathBuf::from(path);
                match (path.strip_prefix("~"), home) {
                    (Ok(rest), Some(home)) => Some(home.join(rest)),
                    _ => Some(path),
                }
            }
            (None, Some(home)) => Some(home.join(".aws").join(file)),
            (None, None) => None,
        };
        Ok(ProfileAt {
            named: named.is_some(),
            name: named.unwrap_or_else(|| "default".into()),
            config: place("AWS_CONFIG_FILE", "config"),
            credentials: place("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        })
    }

    /// What the files say of it. Files that are not there say nothing; the credentials file wins.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn read(&self) -> Result<Profile> {
        self.read_telling().map(|(profile, _)| profile)
    }

    /// The same, and why a file that is there was passed over.
    fn read_telling(&self) -> Result<(Profile, Option<Error>)> {
        let (mut profile, mut passed_over) = (Profile::new(), None);
        for (file, kind) in [(&self.config, FileKind::Config), (&self.credentials, FileKind::Credentials)] {
            let Some(file) = file else { continue };
            match super::read_small(file) {
                Ok(text) => {
                    let mut own = Profile::new();
                    read_into(&mut own, &text, kind, &self.name);
                    if own.contains_key(KEY_NAMES[0]) {
                        // The parts of one key stay together: a token of the other file is another key's.
                        KEY_NAMES.iter().for_each(|name| drop(profile.remove(*name)));
                    }
                    profile.extend(own);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // A home that is another's: what is in it is not this process's to know.
                Err(error) if !self.named && std::fs::metadata(file).is_err() => {
                    log::debug!(target: "raskio", "{} is not read: {error}", file.display());
                }
                Err(error) => {
                    let error = Error::os(format_args!("{} could not be read", file.display()), &error);
                    if self.named {
                        return Err(error);
                    }
                    // It may not be needed.
                    log::debug!(target: "raskio", "{}", error.message());
                    passed_over = passed_over.or(Some(error));
                }
            }
        }
        Ok((profile, passed_over))
    }
}

/// One place to look.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// The shared files.
    Profile(ProfileAt, Sts),
    /// `AWS_WEB_IDENTITY_TOKEN_FILE`.
    WebIdentity(WebIdentity),
    /// `AWS_CONTAINER_CREDENTIALS_…`.
    Container(Container),
    /// The instance's metadata, at this URL.
    Instance(String),
}

/// Where the security token service is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sts(pub String);

/// The places behind the environment's own credentials, in order.
///
/// # Errors
/// INVALID_ARGUMENT: a variable that cannot be right.
pub fn links(env: Env<'_>, profile: &ProfileAt, region: &str) -> Result<Vec<Link>> {
    let text = |name: &str| variable(env, name);
    let sts = match (text("AWS_ENDPOINT_URL_STS")?, text("AWS_ENDPOINT_URL")?) {
        (Some(url), _) | (None, Some(url)) => url,
        (None, None) if region.starts_with("cn-") => format!("https://sts.{region}.amazonaws.com.cn/"),
        (None, None) => format!("https://sts.{region}.amazonaws.com/"),
    };
    let mut links = vec![Link::Profile(profile.clone(), Sts(sts.clone()))];
    if let (Some(token_file), Some(role_arn)) = (text("AWS_WEB_IDENTITY_TOKEN_FILE")?, text("AWS_ROLE_ARN")?) {
        links.push(Link::WebIdentity(WebIdentity {
            token_file: token_file.into(),
            role_arn,
            session_name: text("AWS_ROLE_SESSION_NAME")?.unwrap_or_else(|| "raskio".into()),
            service: sts,
        }));
    }
    let relative = text("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")?;
    let url = match relative {
        Some(path) if path.starts_with('/') => Some(format!("http://169.254.170.2{path}")),
        Some(_) => return Err(Error::invalid("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with a slash")),
        None => text("AWS_CONTAINER_CREDENTIALS_FULL_URI")?,
    };
    if let Some(url) = url {
        check_container_url(&url)?;
        let token = text("AWS_CONTAINER_AUTHORIZATION_TOKEN")?;
        if token.as_deref().is_some_and(|token| !fits_a_header(token)) {
            return Err(Error::invalid("AWS_CONTAINER_AUTHORIZATION_TOKEN holds a control character"));
        }
        links.push(Link::Container(Container {
            url,
            token: token.map(Secret::new),
            token_file: text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?.map(PathBuf::from),
        }));
    }
    let disabled = text("AWS_EC2_METADATA_DISABLED")?.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    if !disabled {
        let six = text("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")?.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
        let usual = if six { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
        let endpoint = text("AWS_EC2_METADATA_SERVICE_ENDPOINT")?.unwrap_or_else(|| usual.into());
        let url = Url::parse(&endpoint).map_err(|error| {
            error.context(format_args!("AWS_EC2_METADATA_SERVICE_ENDPOINT is {:?}", redact::url(&endpoint)))
        })?;
        if !matches!(url.scheme().as_str(), "http" | "https") {
            return Err(Error::invalid("AWS_EC2_METADATA_SERVICE_ENDPOINT must be an http or https URL"));
        }
        links.push(Link::Instance(endpoint));
    }
    Ok(links)
}

/// Plain http goes to this machine or to the hosts of ECS and EKS only: it carries a token, and brings a key.
fn check_container_url(text: &str) -> Result<()> {
    let name = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let url = Url::parse(text).map_err(|error| error.context(format_args!("{name} is {:?}", redact::url(text))))?;
    let host = url.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    let near = host == "localhost"
        || matches!(bare, "169.254.170.2" | "169.254.170.23" | "fd00:ec2::23")
        || address.is_ok_and(|address| address.is_loopback());
    match url.scheme().as_str() {
        "https" => Ok(()),
        "http" if near => Ok(()),
        "http" => Err(Error::invalid(format!(
            "{name} is {:?}: plain http is for loopback addresses and for the hosts of ECS and EKS",
            redact::url(text)
        ))),
        _ => Err(Error::invalid(format!("{name} must be an http or https URL"))),
    }
}

/// What a place has.
type Found = std::result::Result<Grant, Missing>;

/// Why there are none in a place.
struct Missing {
    why: String,
    /// There may be some all the same: this kept them from being read.
    fault: Option<Error>,
}

/// Asks the places one after the other.
pub struct Chain {
    links: Vec<Link>,
    instance: Instance,
    /// For services that are reached over TLS.
    trust: tls::Places,
}

impl Chain {
    /// These places.
    pub fn new(links: Vec<Link>, trust: tls::Places) -> Chain {
        Chain { links, instance: Instance::default(), trust }
    }

    fn look(&self, link: &Link, stop: Stop<'_>) -> Result<Found> {
        match link {
            Link::Profile(at, sts) => self.in_profile(at, sts, stop),
            Link::WebIdentity(identity) => identity.fetch(&self.outside(&identity.service)?, stop).map(Ok),
            Link::Container(container) => {
                let mut access = self.outside(&container.url)?;
                access.proxy = Access::straight().proxy;
                container.fetch(&access, stop).map(Ok)
            }
            Link::Instance(endpoint) => {
                Ok(self.instance.fetch(endpoint, stop)?.map_err(|why| Missing { why, fault: None }))
            }
        }
    }

    fn outside(&self, url: &str) -> Result<Access> {
        let trust = if url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) {
            self.trust.find(None)?
        } else {
            Default::default()
        };
        Ok(Access { trust, ..Access::default() })
    }

    fn in_profile(&self, at: &ProfileAt, sts: &Sts, stop: Stop<'_>) -> Result<Found> {
        let (profile, passed_over) = at.read_telling()?;
        let what = format!("the profile {:?}", redact::printable(&at.name, 80));
        let field = |name: &str| profile.get(name).cloned().filter(|value| !value.is_empty());
        match KEY_NAMES.map(field) {
            [Some(id), Some(secret), token] => return grant(Some(id), Some(secret), token, None, &what).map(Ok),
            [None, None, _] => {}
            // Half a key is a mistake, not the wish to go without.
            [id, _, _] => {
                let (there, missing) = if id.is_some() { (0, 1) } else { (1, 0) };
                return Err(Error::invalid(format!(
                    "{what}: {} is set and {} is not; set both, or neither",
                    KEY_NAMES[there], KEY_NAMES[missing]
                )));
            }
        }
        if let (Some(token_file), Some(role_arn)) = (field("web_identity_token_file"), field("role_arn")) {
            let identity = WebIdentity {
                token_file: token_file.into(),
                role_arn,
                session_name: field("role_session_name").unwrap_or_else(|| "raskio".into()),
                service: sts.0.clone(),
            };
            return identity.fetch(&self.outside(&identity.service)?, stop).map(Ok);
        }
        let other = ["credential_process", "sso_session", "sso_account_id", "source_profile", "credential_source"];
        let why = match other.iter().find(|name| profile.contains_key(**name)) {
            Some(way) => format!(
                "{what} uses {way}, which RaskIO does not do: hand the credentials over by the credentials callback, or \
                 export them (aws configure export-credentials)"
            ),
            None if profile.is_empty() => format!("{what} is in neither of the shared files"),
            None => format!("{what} holds no credentials"),
        };
        match at.named {
            true if profile.is_empty() => Err(Error::new(ErrorKind::InvalidArgument, why)),
            true if other.iter().any(|name| profile.contains_key(*name)) => {
                Err(Error::new(ErrorKind::Unsupported, why))
            }
            _ => Ok(Err(Missing { why, fault: passed_over })),
        }
    }
}

impl Provide for Chain {
    fn fetch(&self, stop: Stop<'_>) -> Result<Grant> {
        let (mut reasons, mut first_fault) = (vec!["AWS_ACCESS_KEY_ID is not set".to_owned()], None);
        for link in &self.links {
            match self.look(link, stop)? {
                Ok(grant) => return Ok(grant),
                Err(Missing { why, fault }) => {
                    reasons.push(why);
                    first_fault = first_fault.or(fault);
                }
            }
        }
        let why = reasons.join("; ");
        // Where there may be some, nobody wants to go without.
        if let Some(fault) = first_fault {
            return Err(fault.context(format_args!("no AWS credentials were found ({why}), but there may be some")));
        }
        log::info!(target: "raskio", "no AWS credentials were found, requests go out unsigned: {why}");
        Ok(Grant { held: Held::Nothing(why), expires: SystemTime::now().checked_add(NOTHING_LASTS) })
    }
}

/// The region's name, from the first place that has one.
///
/// # Errors
/// INVALID_ARGUMENT naming the place whose value is no region.
pub fn region(
    option: Option<&str>,
    env: Env<'_>,
    profile: impl FnOnce() -> Result<Option<String>>,
) -> Result<Option<String>> {
    let named = |place: &str, region: String| {
        if crate::endpoint::s3::name::is_scope(&region) {
            return Ok(Some(region));
        }
        // Regions are short; what is longer may be a key in the wrong place.
        let shown = match region.chars().count() {
            length @ 33.. => format!("{length} characters long"),
            _ => format!("{:?}", redact::printable(&region, 32)),
        };
        Err(Error::invalid(format!("{place} is {shown}, which is no region: letters, digits, hyphens and underscores")))
    };
    if let Some(region) = option {
        return named("the option region", region.to_owned());
    }
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        if let Some(region) = variable(env, name)? {
            return named(name, region.trim().to_owned());
        }
    }
    match profile()? {
        Some(region) => named("the profile's region", region),
        None => Ok(None),
    }
}
