//! Any HTTP or HTTPS URL, sent byte for byte as it was given; presigned ones among them.

use super::dressed::{Dressed, Look};
use super::head::ResponseHead;
use super::redirect::Home;
use super::{Amended, Carried, Endpoint, Kind, Location, Opening, Origin, Refusal, Reply, Stat, Tail, Target};
use super::{WireRange, WireRequest, access, check, headers, redact, s3};
use crate::credentials::Held;
use crate::credentials::authority::Authority;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::ByteRange;
use crate::sys::curl;
use std::sync::Arc;

/// The row in [`super::KINDS`].
pub const KIND: Kind = Kind { number: 1, name: "HTTP", coalesce_gap: COALESCE_GAP, matches: is_http, open };
/// A link that carries its own signature, for GET alone.
pub const PRESIGNED: Kind =
    Kind { number: 4, name: "S3_PRESIGNED", coalesce_gap: s3::COALESCE_GAP, matches: is_presigned, open };

/// Of a server that may be near. Ranges of 4 KiB so far apart come 1.6 times as fast merged as not, for two thirds of the CPU; twice
/// as far, a little slower (docs/batches.md).
const COALESCE_GAP: u64 = 32 << 10;

fn is_http(location: &Location<'_>) -> bool {
    matches!(location.scheme.as_str(), "http" | "https") && !location.pasted
}

/// Signed by a query: version 4 of AWS and of Google, or the older form that S3-compatible services still give out.
pub(super) fn is_presigned(location: &Location<'_>) -> bool {
    if !is_http(location) {
        return false;
    }
    let query = location.url.as_ref().and_then(curl::Url::query).unwrap_or_default();
    let names: Vec<String> =
        query.split('&').map(|pair| pair.split('=').next().unwrap_or_default().to_ascii_lowercase()).collect();
    let has = |name: &str| names.iter().any(|other| other == name);
    has("x-amz-signature")
        || has("x-goog-signature")
        || (has("signature") && (has("awsaccesskeyid") || has("googleaccessid") || has("ossaccesskeyid")))
}

fn open(opening: &Opening<'_>) -> Result<Arc<dyn Endpoint>> {
    let presigned = opening.kind == PRESIGNED.number;
    let url = opening.http(if presigned { PRESIGNED.name } else { KIND.name })?;
    if opening.pasted {
        let shown = redact::url(opening.text);
        return Err(Error::invalid(format!("cannot open {shown}: percent-encode what cannot stand in a URL")));
    }
    let options = opening.options;
    if options.access_key_id.is_some() || options.secret_access_key.is_some() {
        return Err(Error::invalid(match presigned {
            true => "S3 credentials are given for a link that is signed already; leave out one of the two signatures",
            false => "S3 credentials are given for an endpoint that does not sign; choose RASKIO_ENDPOINT_S3",
        }));
    }
    let origin = Origin::of(url, options);
    let access = access::of(opening, &origin)?;
    let given = headers::parse(&options.headers, &[])?;
    let mut lines: Vec<_> = given.iter().map(|header| header.line.clone()).collect();
    let says_who = given.iter().any(|header| header.name == "authorization");
    if (options.bearer_token.is_some() || options.bearer_from_host) && says_who {
        return Err(Error::invalid(
            "a bearer token and the header Authorization are both set; one of them is possible",
        ));
    }
    let bearer = match (&options.bearer_token, options.bearer_from_host) {
        (Some(_), true) => {
            return Err(Error::invalid("bearer_token and RASKIO_OBJECT_BEARER_FROM_HOST are both set"));
        }
        (Some(token), false) => {
            lines.push(headers::bearer(token.reveal())?);
            None
        }
        (None, true) if opening.site.has_host_bearer() => Some(opening.site.host_bearer(&origin)),
        (None, true) => {
            return Err(Error::invalid("RASKIO_OBJECT_BEARER_FROM_HOST is set, but the client has no bearer callback"));
        }
        (None, false) => None,
    };
    let target = Target {
        url: curl::c_string("the URL", opening.text)?,
        name: redact::url(opening.text),
        origin,
        headers: lines,
        access,
    };
    let home = Home::new(Arc::new(target), opening);
    let has_keys = opening.site.has_host_keys() || opening.site.env()("AWS_ACCESS_KEY_ID").is_some();
    Ok(Arc::new(HttpEndpoint { kind: opening.kind, has_keys, home, bearer, dressed: Dressed::default() }))
}

/// One URL.
pub struct HttpEndpoint {
    kind: u32,
    /// There are keys for S3, which this kind does not use.
    has_keys: bool,
    home: Home,
    /// Gives the tokens for its own origin.
    bearer: Option<Arc<Authority>>,
    dressed: Dressed,
}

impl HttpEndpoint {
    fn request(&self, target: &Arc<Target>, head: bool, range: Option<WireRange>) -> Result<WireRequest> {
        let (target, carried) = match self.bearer.as_ref().and_then(|authority| authority.current()) {
            Some((grant, version)) if target.origin == self.home.target.origin => {
                let dressed = self.dressed.get(target, Look { version, ..Look::default() }, || {
                    let Held::Bearer(token) = &grant.held else {
                        return Err(Error::new(ErrorKind::Internal, "the bearer callback gave something else"));
                    };
                    let mut headers = target.headers.clone();
                    headers.push(headers::bearer(token.reveal())?);
                    Ok(headers)
                })?;
                (dressed, Carried { grant: version, region: None })
            }
            _ => (target.clone(), Carried::default()),
        };
        Ok(WireRequest { target, url: None, carried, head, range, if_match: None })
    }
}

impl Endpoint for HttpEndpoint {
    fn name(&self) -> &str {
        &self.home.target.name
    }

    fn kind(&self) -> u32 {
        self.kind
    }

    fn target(&self) -> Arc<Target> {
        self.home.target.clone()
    }

    fn authority(&self) -> Option<&Arc<Authority>> {
        self.bearer.as_ref()
    }

    fn redirect(&self, from: &Target, location: &str) -> Result<Arc<Target>> {
        self.home.redirect(from, location)
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
        let as_s3 = self.kind == PRESIGNED.number;
        check::last(len, head, as_s3).map_err(|error| error.with_http_status(head.status))
    }

    fn stat(&self, target: &Arc<Target>, probe: bool) -> Result<WireRequest> {
        // The signature of a presigned link is for GET: a HEAD would be refused.
        let probe = probe || self.kind == PRESIGNED.number;
        self.request(target, !probe, probe.then_some(ByteRange { start: 0, len: 1 }.into()))
    }

    fn check(&self, range: ByteRange, head: &ResponseHead) -> Result<Reply> {
        let check = if self.kind == PRESIGNED.number { check::of_s3_range } else { check::of_range };
        check(range, head).map_err(|error| error.with_http_status(head.status))
    }

    fn check_stat(&self, probe: bool, head: &ResponseHead, _: &[u8]) -> Result<Stat> {
        let probe = probe || self.kind == PRESIGNED.number;
        check::stat(probe, head).map_err(|error| error.with_http_status(head.status))
    }

    fn hint(&self, status: u16, _: &Target) -> Option<String> {
        let unsigned = self.kind == KIND.number && self.has_keys && self.bearer.is_none();
        (unsigned && matches!(status, 400 | 401 | 403)).then(|| {
            "it was opened as HTTP, and not signed; if it is S3, set endpoint to RASKIO_ENDPOINT_S3, or open \
             s3://bucket/key with endpoint_url"
                .into()
        })
    }

    fn amend(&self, refusal: &Refusal<'_>, amended: &mut Amended) -> bool {
        let Some(authority) = &self.bearer else { return false };
        if refusal.head.status != 401 || refusal.carried.grant == 0 || amended.secret {
            return false;
        }
        amended.secret = true;
        authority.refused(refusal.carried.grant);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::site::Site;
    use super::*;
    use crate::object::ObjectOptions;

    fn endpoint(url: &str, headers: &[&str]) -> Result<Arc<dyn Endpoint>> {
        let headers = headers.iter().map(|line| (*line).to_owned()).collect();
        super::super::open(&Site::of_process(), url, &ObjectOptions { headers, ..ObjectOptions::default() })
    }

    #[test]
    fn headers_stay_with_their_origin() {
        let endpoint = endpoint("http://h:1/a", &["X-Secret: s"]).unwrap();
        let first = endpoint.target();
        assert_eq!(endpoint.redirect(&first, "/b").unwrap().headers.len(), 1);
        for location in ["http://h:2/b", "http://g:1/b", "https://h:1/b"] {
            let away = endpoint.redirect(&first, location).unwrap();
            assert!(away.headers.is_empty(), "{location}");
            let back = endpoint.redirect(&away, "https://h:1/c").unwrap();
            assert!(back.headers.is_empty(), "another scheme is another origin");
        }
    }

    #[test]
    fn a_redirect_never_falls_to_http_nor_leaves_it() {
        let endpoint = endpoint("https://h/a", &[]).unwrap();
        let first = endpoint.target();
        for location in ["http://h/a", "ftp://h/a", "file:///etc/passwd", "https://u:p@other/a", "http://"] {
            let error = endpoint.redirect(&first, location).unwrap_err();
            assert!(error.message().contains("not followed"), "{error}");
            assert!(!error.message().contains("u:p"), "{error}");
        }
    }

    /// libcurl's parser takes relative references whose result it does not take as a URL.
    #[test]
    fn a_redirect_to_what_cannot_be_dialled_is_refused_as_the_servers_fault() {
        let endpoint = endpoint("http://h/a", &[]).unwrap();
        let first = endpoint.target();
        for location in ["///\u{7f}d", "//\u{7f}", "http://\u{7f}/"] {
            let error = endpoint.redirect(&first, location).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Http, "{location:?}: {error}");
            assert!(error.message().contains("not followed"), "{error}");
        }
    }

    #[test]
    fn bad_headers_and_urls_are_named_and_their_secrets_are_not() {
        for line in
            ["no colon s3cr3t", ": s3cr3t", "Na me: s3cr3t", "X: s3cr3t\r\nY: z", "Range: s3cr3t", "X: s3cr3t\u{0}"]
        {
            let error = endpoint("http://h/", &[line]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(!error.message().contains("s3cr3t"), "{error}");
        }
        assert!(endpoint("http://h/", &["X-Empty:", "A: b"]).is_ok());
        for (url, kind) in [
            ("", ErrorKind::InvalidArgument),
            ("http://", ErrorKind::InvalidArgument),
            ("http://h/a\nb", ErrorKind::InvalidArgument),
            ("ftp://h/", ErrorKind::Unsupported),
            ("s3://b", ErrorKind::InvalidArgument),
            ("no-scheme/x", ErrorKind::InvalidArgument),
            ("http://h:bad/", ErrorKind::InvalidArgument),
        ] {
            assert_eq!(endpoint(url, &[]).err().unwrap_or_else(|| panic!("{url:?}")).kind(), kind, "{url:?}");
        }
    }
}
