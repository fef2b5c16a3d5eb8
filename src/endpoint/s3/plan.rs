//! What opening an S3 object decides, before anything is sent.

use super::name::{self, AwsHost, Name};
use super::{DEFAULT_REGION, PUBLIC, Signer};
use crate::credentials::chain::{self, ProfileAt};
use crate::endpoint::{Opening, Origin, redact};
use crate::error::{Error, Result};
use crate::sys::curl::Url;
use std::net::Ipv4Addr;
use std::time::Instant;

/// What opening decides.
pub(super) struct Plan {
    pub url: String,
    /// It was given as bucket and key.
    pub is_named: bool,
    pub bucket: String,
    /// What the bucket's region is remembered for: the service, not the host of one region or bucket.
    pub service: Origin,
    pub region: String,
    pub signer: Signer,
}

/// Decides it.
///
/// # Errors
/// INVALID_ARGUMENT naming what cannot be right, in the URL, the options, the environment or the shared files.
pub(super) fn plan(opening: &Opening<'_>) -> Result<Plan> {
    let (options, env) = (opening.options, &**opening.site.env());
    if options.bearer_token.is_some() || options.bearer_from_host {
        return Err(Error::invalid("a bearer token is for HTTP; S3 takes access_key_id and secret_access_key"));
    }
    let profile_at = ProfileAt::of(env)?;
    let read = |name: &str| -> Result<Option<String>> {
        let profile = opening.site.profile(&profile_at, Instant::now())?;
        Ok(profile.get(name).cloned().filter(|value| !value.is_empty()))
    };
    let configured = chain::region(options.region.as_deref(), env, || read("region"))?;
    let (url, is_named, bucket, region, virtual_host_of);
    match opening.url {
        None => {
            if crate::endpoint::scheme_of(opening.text) != "s3" {
                opening.http("S3")?;
            }
            let name = Name::parse(opening.text)?;
            region = configured.unwrap_or_else(|| DEFAULT_REGION.into());
            let service = match &options.endpoint_url {
                Some(url) => Some(("the option endpoint_url", url.clone())),
                None => match service_of_environment(env)? {
                    Some(found) => Some(found),
                    None => read("endpoint_url")?.map(|url| ("the profile's endpoint_url", url)),
                },
            };
            match service {
                Some((place, text)) => {
                    let service = service_url(place, &text)?;
                    let host = service.host();
                    if options.virtual_host == Some(true) && (host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok())
                    {
                        return Err(Error::invalid(format!(
                            "{place} names the address {host}, in front of which no bucket can stand; leave out \
                             RASKIO_OBJECT_S3_VIRTUAL_HOST"
                        )));
                    }
                    url = name.at_service(&service, options.virtual_host.unwrap_or(false));
                    virtual_host_of = Some(Origin::parse(&service));
                }
                None => {
                    url = name.at_aws(name::of_aws(&region)?, options.virtual_host.unwrap_or(name.fits_in_a_host()));
                    virtual_host_of = None;
                }
            }
            (is_named, bucket) = (true, name.bucket.to_owned());
        }
        Some(_) => {
            let given = opening.http("S3")?;
            for (name, there) in [
                ("endpoint_url", options.endpoint_url.is_some()),
                ("an addressing style", options.virtual_host.is_some()),
            ] {
                if there {
                    return Err(Error::invalid(format!("{name} is set for a whole URL; it is for s3://bucket/key")));
                }
            }
            if given.user().is_some() || given.password().is_some() {
                return Err(Error::invalid("S3 knows no user and password in a URL; use the credential options"));
            }
            let bucket_and_key = given.path().trim_start_matches('/').to_owned();
            if bucket_and_key.is_empty() {
                return Err(Error::invalid("the URL names no object: its path is empty"));
            }
            if opening.pasted {
                return Err(Error::invalid("percent-encode what cannot stand in a URL, or write s3://bucket/key"));
            }
            let of_host = AwsHost::parse(&given.host()).and_then(|host| host.region);
            region = configured.or(of_host).unwrap_or_else(|| DEFAULT_REGION.into());
            url = opening.text.to_owned();
            virtual_host_of = None;
            (is_named, bucket) = (false, name::bucket_of(given));
        }
    }
    let service = match virtual_host_of {
        Some(service) => service,
        None => {
            let origin = Origin::parse(&Url::parse(&url)?);
            match AwsHost::parse(&origin.host) {
                Some(host) => origin.at(host.domain.to_owned()),
                None => origin,
            }
        }
    };
    let signer =
        if opening.kind == PUBLIC.number { unsigned(opening)? } else { signer(opening, &profile_at, &region)? };
    Ok(Plan { url, is_named, bucket, service, region, signer })
}

fn service_of_environment(env: chain::Env<'_>) -> Result<Option<(&'static str, String)>> {
    let ignored = chain::variable(env, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")?;
    if ignored.is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
        if let Some(url) = chain::variable(env, name)? {
            return Ok(Some((name, url)));
        }
    }
    Ok(None)
}

fn service_url(place: &str, text: &str) -> Result<Url> {
    let text = text.trim();
    let shown = redact::url(text);
    let bad = |why: String| Error::invalid(format!("{place} is {shown:?}: {why}"));
    crate::endpoint::check_text(text)?;
    let url = Url::parse(text).map_err(|error| match text.contains("://") {
        true => bad(error.message().to_owned()),
        false => bad("it has no scheme; write http://host:port or https://host".into()),
    })?;
    if !matches!(url.scheme().as_str(), "http" | "https") {
        return Err(bad("it must be an http or https URL".into()));
    }
    if url.user().is_some() || url.password().is_some() || url.query().is_some() || text.contains('#') {
        return Err(bad("it has a user, a query or a fragment; scheme, host, port and path are what counts".into()));
    }
    Ok(url)
}

fn unsigned(opening: &Opening<'_>) -> Result<Signer> {
    let options = opening.options;
    let given =
        options.access_key_id.is_some() || options.secret_access_key.is_some() || options.session_token.is_some();
    match given {
        true => Err(Error::invalid("credentials are given for S3_PUBLIC, which sends none; use S3")),
        false => Ok(Signer::Nobody),
    }
}

/// Options, the host's callback, the environment, then the chain.
fn signer(opening: &Opening<'_>, profile: &ProfileAt, region: &str) -> Result<Signer> {
    let (options, env) = (opening.options, &**opening.site.env());
    let reveal = |secret: &Option<crate::credentials::Secret>| secret.as_ref().map(|text| text.reveal().to_owned());
    let token = reveal(&options.session_token);
    if token.is_some() && options.access_key_id.is_none() {
        return Err(Error::invalid("session_token is set and access_key_id is not; set both, or neither"));
    }
    let names = ["access_key_id", "secret_access_key", "session_token"];
    if let Some(keys) = chain::keys(options.access_key_id.clone(), reveal(&options.secret_access_key), token, names)? {
        return Ok(Signer::Fixed(keys));
    }
    if opening.site.has_host_keys() {
        return Ok(Signer::Found(opening.site.host_keys()));
    }
    if let Some(keys) = chain::from_environment(env)? {
        return Ok(Signer::Fixed(keys));
    }
    Ok(Signer::Found(opening.site.chain(chain::links(env, profile, region)?)))
}
