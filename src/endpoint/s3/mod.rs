//! S3: signed with whatever credentials there are, or without.
//!
//! | file | what |
//! |---|---|
//! | [`name`] | the forms in which objects are named |
//! | `plan` | what opening decides: where an object is, its region, and who signs |
//! | [`sign`] | Signature Version 4 |

pub mod name;
mod plan;
pub mod sign;

use super::dressed::{Dressed, Look};
use super::head::ResponseHead;
use super::redirect::Home;
use super::{Amended, Carried, Endpoint, Kind, Location, Opening, Origin, Refusal, Reply, Stat, Tail, Target};
use super::{WireRange, WireRequest, access, check, headers, redact};
use crate::clock;
use crate::credentials::authority::Authority;
use crate::credentials::services::xml_element;
use crate::credentials::{Held, Keys};
use crate::error::Result;
use crate::plan::ByteRange;
use crate::sync::Mutex;
use crate::sys::curl::{self, Url};
use headers::Header;
use name::{AwsHost, Name};
use std::ffi::CString;
use std::sync::Arc;
use std::time::SystemTime;

/// The row in [`super::KINDS`]: signed, or unsigned where no credentials are found.
pub const KIND: Kind = Kind { number: 2, name: "S3", coalesce_gap: COALESCE_GAP, matches, open };
/// Never signed.
pub const PUBLIC: Kind = Kind { number: 3, name: "S3_PUBLIC", coalesce_gap: COALESCE_GAP, matches, open };

/// A request takes tens of milliseconds there, and is paid for. Ranges of 4 KiB so far apart come 7 times as fast merged as not,
/// for the same CPU; twice as far, 3 times as fast for twice the CPU (docs/batches.md).
pub(super) const COALESCE_GAP: u64 = 128 << 10;

/// Where nothing names a region. AWS answers there with the right one.
const DEFAULT_REGION: &str = "us-east-1";
/// A signature is used for this many seconds. S3 takes them for 15 minutes, which clocks that are off need too.
const SIGNATURE_LASTS: u64 = 60;
/// The codes that S3 and its relatives have for credentials that are over. A session token that is unknown now may have
/// been known before.
const EXPIRED: &[&str] = &["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"];
/// Headers of S3 that are signed, and so not the caller's to set.
const OWN_HEADERS: &[&str] = &["authorization", "host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];

fn matches(location: &Location<'_>) -> bool {
    match &location.url {
        None => location.scheme == "s3" && Name::parse(location.text).is_ok(),
        Some(url) => {
            matches!(location.scheme.as_str(), "http" | "https")
                && name::is_aws_object(url)
                && !super::http::is_presigned(location)
        }
    }
}

/// Who signs.
enum Signer {
    /// Nobody.
    Nobody,
    /// The caller's own credentials, or the environment's.
    Fixed(Keys),
    /// What is found, or asked for.
    Found(Arc<Authority>),
}

fn open(opening: &Opening<'_>) -> Result<Arc<dyn Endpoint>> {
    let plan = plan::plan(opening)
        .map_err(|error| error.context(format_args!("cannot open {}", redact::url(opening.text))))?;
    let url = Url::parse(&plan.url)?;
    let origin = Origin::of(&url, opening.options);
    let access = access::of(opening, &origin)?;
    let given = headers::parse(&opening.options.headers, OWN_HEADERS)?;
    let target = Target {
        url: curl::c_string("the URL", &plan.url)?,
        name: redact::url(&plan.url),
        origin: origin.clone(),
        headers: given.iter().map(|header| header.line.clone()).collect(),
        access,
    };
    let name = if plan.is_named { redact::printable(opening.text, 300) } else { target.name.clone() };
    let endpoint = S3Endpoint {
        kind: opening.kind,
        name,
        signer: plan.signer,
        given,
        service: plan.service,
        bucket: plan.bucket,
        state: Mutex::new(State { home: Home::new(Arc::new(target), opening), region: plan.region.into() }),
        dressed: Dressed::default(),
        site: opening.site.clone(),
    };
    // Another object of this bucket was told where it is.
    if let Some(region) = opening.site.region(&endpoint.service, &endpoint.bucket) {
        endpoint.move_to(&region);
    }
    Ok(Arc::new(endpoint))
}

struct State {
    home: Home,
    region: Arc<str>,
}

/// One object.
pub struct S3Endpoint {
    kind: u32,
    name: String,
    signer: Signer,
    given: Vec<Header>,
    service: Origin,
    bucket: String,
    state: Mutex<State>,
    dressed: Dressed,
    site: Arc<super::site::Site>,
}

impl S3Endpoint {
    /// The bucket is in this region.
    fn move_to(&self, region: &Arc<str>) {
        let mut state = self.state.lock();
        state.region = region.clone();
        let before = &state.home.target;
        let Some(host) = AwsHost::parse(&before.origin.host).and_then(|host| host.in_region(region)) else { return };
        let Ok(text) = before.url.to_str() else { return };
        // Only the host changes: the path stays as it was given.
        let Some(at) = text.to_ascii_lowercase().find(&before.origin.host) else { return };
        let text = format!("{}{host}{}", &text[..at], &text[at + before.origin.host.len()..]);
        let Ok(url) = CString::new(text) else { return };
        let target = Target {
            name: redact::url(&url.to_string_lossy()),
            url,
            origin: before.origin.at(host),
            headers: before.headers.clone(),
            access: before.access.clone(),
        };
        state.home = state.home.moved(Arc::new(target));
    }

    /// Whether a signature for this target goes to nobody but the object's own service.
    fn is_ours(&self, target: &Target) -> bool {
        let state = self.state.lock();
        let home = &state.home.target.origin;
        if target.origin.is_same(home) {
            return true;
        }
        let host = |origin: &Origin| AwsHost::parse(&origin.host);
        // AWS sends requests for young buckets on to their region's host, which wants a signature of its own.
        match (host(home), host(&target.origin)) {
            (Some(home), Some(other)) => {
                home.bucket.is_some()
                    && (home.bucket, home.domain) == (other.bucket, other.domain)
                    && (target.origin.scheme.as_str(), target.origin.port.as_str()) == ("https", "443")
            }
            _ => false,
        }
    }

    fn request(&self, target: &Arc<Target>, head: bool, range: Option<WireRange>) -> Result<WireRequest> {
        let unsigned = |region| WireRequest {
            target: target.clone(),
            url: None,
            carried: Carried { grant: 0, region },
            head,
            range,
            if_match: None,
        };
        let region = self.state.lock().region.clone();
        let (grant, version);
        let keys = match &self.signer {
            // What another server says of regions says nothing of this bucket.
            _ if !self.is_ours(target) => return Ok(unsigned(None)),
            Signer::Nobody => return Ok(unsigned(Some(region))),
            Signer::Fixed(keys) => {
                version = 0;
                keys
            }
            Signer::Found(authority) => {
                // The transport waits for it; without any the request shows what the service says.
                let Some(current) = authority.current() else { return Ok(unsigned(Some(region))) };
                (grant, version) = current;
                match &grant.held {
                    Held::Keys(keys) => keys,
                    Held::Nothing(_) | Held::Bearer(_) => {
                        let mut wire = unsigned(Some(region));
                        wire.carried.grant = version;
                        return Ok(wire);
                    }
                }
            }
        };
        let now = clock::unix_seconds(SystemTime::now());
        let look = Look { version, age: now / SIGNATURE_LASTS, region: Some(region.clone()), head };
        let dressed = self.dressed.get(target, look, || self.signed(target, head, keys, &region, now))?;
        Ok(WireRequest {
            target: dressed,
            url: None,
            carried: Carried { grant: version, region: Some(region) },
            head,
            range,
            if_match: None,
        })
    }

    /// The header lines of a signed request.
    fn signed(&self, target: &Target, head: bool, keys: &Keys, region: &str, now: u64) -> Result<Vec<CString>> {
        let url = Url::parse(&target.url.to_string_lossy())?;
        let usual = if url.scheme() == "https" { "443" } else { "80" };
        // Sent as it is signed, with the port that the URL names.
        let host = match url.port() {
            port if port == usual => url.host(),
            port => format!("{}:{port}", url.host()),
        };
        let (date, path, query) = (clock::amz_date(now), url.path(), url.query().unwrap_or_default());
        let mut own =
            vec![("host", host.as_str()), ("x-amz-content-sha256", sign::EMPTY_BODY), ("x-amz-date", date.as_str())];
        if let Some(token) = &keys.session_token {
            own.push(("x-amz-security-token", token.reveal()));
        }
        let mut lines = own
            .iter()
            .map(|(name, value)| curl::c_string("a header", &format!("{name}: {value}")))
            .collect::<Result<Vec<CString>>>()?;
        lines.extend(self.given.iter().map(|header| header.line.clone()));
        // S3 wants every header of its own to be signed; two of one name are one, with a comma.
        let mut all: Vec<(String, String)> =
            own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        for header in self.given.iter().filter(|header| header.name.starts_with("x-amz-")) {
            match all.iter_mut().find(|(name, _)| *name == header.name) {
                Some((_, value)) => *value = format!("{value},{}", header.value),
                None => all.push((header.name.clone(), header.value.clone())),
            }
        }
        let headers: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = sign::Request {
            method: if head { "HEAD" } else { "GET" },
            path: &path,
            query: &query,
            headers: &headers,
            body_hash: sign::EMPTY_BODY,
        };
        let scope = sign::Scope {
            access_key_id: keys.access_key_id.reveal(),
            secret_access_key: keys.secret_access_key.reveal(),
            region,
            service: "s3",
            date: &date,
        };
        let authorization = sign::authorization(&request, &scope);
        lines.push(curl::c_string("a header", &format!("Authorization: {authorization}"))?);
        Ok(lines)
    }

    /// The service names another region than the one that was tried.
    fn amend_region(&self, refusal: &Refusal<'_>, amended: &mut Amended) -> bool {
        let Some(tried) = &refusal.carried.region else { return false };
        if amended.region || !matches!(refusal.head.status, 301 | 307 | 400) {
            return false;
        }
        let body = || {
            let text = String::from_utf8_lossy(refusal.body);
            xml_element(&text, "Code")
                .filter(|code| code == "AuthorizationHeaderMalformed")
                .and_then(|_| xml_element(&text, "Region"))
        };
        let Some(region) = refusal.head.bucket_region.clone().or_else(body) else { return false };
        if !name::is_region(&region) || region == **tried {
            return false;
        }
        amended.region = true;
        let region: Arc<str> = region.into();
        // Many requests may hear of it at once: the first one moves the object, the others just try again.
        if self.state.lock().region != region {
            log::info!(target: "raskio", "{}: the bucket is in the region {region}, not {tried}", self.name);
            self.move_to(&region);
            self.site.remember_region(&self.service, &self.bucket, region);
        }
        true
    }
}

impl Endpoint for S3Endpoint {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> u32 {
        self.kind
    }

    fn target(&self) -> Arc<Target> {
        self.state.lock().home.target.clone()
    }

    fn authority(&self) -> Option<&Arc<Authority>> {
        match &self.signer {
            Signer::Found(authority) => Some(authority),
            Signer::Nobody | Signer::Fixed(_) => None,
        }
    }

    fn redirect(&self, from: &Target, location: &str) -> Result<Arc<Target>> {
        self.state.lock().home.redirect(from, location)
    }

    fn get(&self, target: &Arc<Target>, range: ByteRange) -> Result<WireRequest> {
        self.request(target, false, Some(range.into()))
    }

    fn gives_last(&self) -> bool {
        true
    }

    fn last(&self, target: &Arc<Target>, len: u64) -> Result<WireRequest> {
        self.request(target, false, Some(WireRange::Last(len)))
    }

    fn check_last(&self, len: u64, head: &ResponseHead) -> Result<Tail> {
        check::last(len, head, true).map_err(|error| error.with_http_status(head.status))
    }

    fn stat(&self, target: &Arc<Target>, probe: bool) -> Result<WireRequest> {
        self.request(target, !probe, probe.then_some(ByteRange { start: 0, len: 1 }.into()))
    }

    fn check(&self, range: ByteRange, head: &ResponseHead) -> Result<Reply> {
        check::of_s3_range(range, head).map_err(|error| error.with_http_status(head.status))
    }

    fn check_stat(&self, probe: bool, head: &ResponseHead, _: &[u8]) -> Result<Stat> {
        check::stat(probe, head).map_err(|error| error.with_http_status(head.status))
    }

    fn amend(&self, refusal: &Refusal<'_>, amended: &mut Amended) -> bool {
        if self.amend_region(refusal, amended) {
            return true;
        }
        let Signer::Found(authority) = &self.signer else { return false };
        if amended.secret || refusal.carried.grant == 0 || !matches!(refusal.head.status, 400 | 401 | 403) {
            return false;
        }
        let text = String::from_utf8_lossy(refusal.body);
        if !xml_element(&text, "Code").is_some_and(|code| EXPIRED.contains(&code.as_str())) {
            return false;
        }
        amended.secret = true;
        authority.refused(refusal.carried.grant);
        true
    }

    fn hint(&self, status: u16, target: &Target) -> Option<String> {
        // Who gave a name sees here what became of it.
        let asked = (self.name != target.name)
            .then(|| format!("asked at {}, region {}", target.name, self.state.lock().region));
        if !matches!(status, 400 | 401 | 403) {
            return asked;
        }
        let unsigned = match &self.signer {
            Signer::Nobody => Some("the request was not signed, as S3_PUBLIC asks".into()),
            Signer::Fixed(_) => None,
            Signer::Found(authority) => match authority.current().as_ref().map(|current| &current.0.held) {
                Some(Held::Nothing(why)) => {
                    Some(format!("the request was not signed, since no credentials were found: {why}"))
                }
                Some(Held::Keys(_) | Held::Bearer(_)) | None => None,
            },
        };
        let words: Vec<String> = [asked, unsigned].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::site::{Host, Site};
    use super::*;
    use crate::credentials::Secret;
    use crate::object::ObjectOptions;

    fn opened(url: &str) -> Arc<dyn Endpoint> {
        let options = ObjectOptions {
            access_key_id: Some("AKIDEXAMPLE".into()),
            secret_access_key: Some(Secret::new("key")),
            headers: vec!["x-amz-request-payer: requester".into()],
            ..ObjectOptions::default()
        };
        super::super::open(&Site::new(Arc::new(|_| None), Host::default()), url, &options).unwrap()
    }

    /// What a request carries that a redirect led to `location`.
    fn carried(endpoint: &Arc<dyn Endpoint>, location: &str) -> Vec<String> {
        let target = endpoint.redirect(&endpoint.target(), location).unwrap();
        let wire = endpoint.get(&target, ByteRange { start: 0, len: 1 }).unwrap();
        wire.target.headers.iter().map(|line| line.to_str().unwrap().to_owned()).collect()
    }

    /// AWS answers for a young bucket with 307 and the host of its region.
    #[test]
    fn a_redirect_within_aws_is_signed_anew_and_any_other_is_not() {
        let endpoint = opened("https://buck.s3.amazonaws.com/k");
        let to = "https://buck.s3.us-west-2.amazonaws.com/k";
        let lines = carried(&endpoint, to);
        assert!(lines.contains(&"host: buck.s3.us-west-2.amazonaws.com".to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("Authorization: ")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("x-amz-request-payer")), "{lines:?}");
        for location in [
            "https://other.s3.us-west-2.amazonaws.com/k",
            "https://s3.us-west-2.amazonaws.com/buck/k",
            "https://buck.s3.cn-north-1.amazonaws.com.cn/k",
            "https://buck.s3.amazonaws.com.evil.example/k",
            "https://evil.example/buck.s3.us-west-2.amazonaws.com/k",
            "https://buck.s3.amazonaws.com:444/k",
        ] {
            assert!(carried(&endpoint, location).is_empty(), "{location}");
        }
        // In the clear a signature may go where the caller sends it, and no further.
        let endpoint = opened("http://buck.s3.amazonaws.com/k");
        assert!(carried(&endpoint, "http://buck.s3.us-west-2.amazonaws.com/k").is_empty());
        assert!(!carried(&endpoint, to).is_empty());
    }
}
