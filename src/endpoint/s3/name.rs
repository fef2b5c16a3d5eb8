//! Where a bucket and a key are: the forms in which S3 objects are named. Pure.

use crate::endpoint::percent;
use crate::error::{Error, Result};
use crate::sys::curl::Url;

/// The domains of AWS: public, China, European sovereign cloud.
const DOMAINS: &[&str] = &[".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu"];

/// An AWS host name of S3, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsHost {
    /// In front of the service's label; `None` for the path style.
    pub bucket: Option<String>,
    /// `s3`, `s3-fips`, `s3-accelerate`, …: the service's label without a legacy region.
    pub service: String,
    /// `dualstack` stands behind it.
    pub dualstack: bool,
    /// The region, if the host names one.
    pub region: Option<String>,
    /// `.amazonaws.com`, `.amazonaws.com.cn`, …
    pub domain: &'static str,
}

impl AwsHost {
    /// Takes a host in lower case apart; `None` if it is not one of AWS's for S3.
    pub fn parse(host: &str) -> Option<AwsHost> {
        let domain = DOMAINS.iter().find(|domain| host.ends_with(*domain))?;
        let labels: Vec<&str> = host.strip_suffix(domain)?.split('.').collect();
        // A bucket may be called `s3`, and hold dots: the service's label is the last one that can be it.
        let at = labels.iter().rposition(|label| *label == "s3" || label.starts_with("s3-"))?;
        let bucket = (at > 0).then(|| labels[..at].join("."));
        let behind = &labels[at + 1..];
        let dualstack = behind.first() == Some(&"dualstack");
        let mut region = match &behind[usize::from(dualstack)..] {
            [] => None,
            [region] if is_region(region) => Some((*region).to_owned()),
            _ => return None,
        };
        let service = match labels[at].strip_prefix("s3-") {
            None | Some("fips" | "accelerate" | "accesspoint" | "accesspoint-fips" | "object-lambda" | "outposts") => {
                labels[at]
            }
            // The older form, `s3-eu-west-1`.
            Some(legacy) if region.is_none() && !dualstack => {
                region = match legacy {
                    "external-1" => Some("us-east-1".into()),
                    legacy => is_region(legacy).then(|| legacy.to_owned()),
                };
                region.as_ref()?;
                "s3"
            }
            Some(_) => return None,
        };
        Some(AwsHost { bucket, service: service.into(), dualstack, region, domain })
    }

    /// The same host in another region. `None` where the name does not say the region, and so cannot say another.
    pub fn in_region(&self, region: &str) -> Option<String> {
        if self.service == "s3-accelerate" {
            return None;
        }
        let bucket = self.bucket.as_ref().map(|bucket| format!("{bucket}.")).unwrap_or_default();
        let dualstack = if self.dualstack { ".dualstack" } else { "" };
        Some(format!("{bucket}{}{dualstack}.{region}{}", self.service, self.domain))
    }
}

/// Whether this may be a region's name: it becomes part of a host name.
pub fn is_region(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether this may be what another service calls a region (`RegionOne`, `GRA`, `us_east`): it is signed, and part of no
/// host's name.
pub fn is_scope(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(inner)
}

/// A region as a part of a host's name.
///
/// # Errors
/// INVALID_ARGUMENT: none of AWS is called so.
pub fn of_aws(region: &str) -> Result<&str> {
    if is_region(region) {
        return Ok(region);
    }
    Err(Error::invalid(format!(
        "the region is {:?}, and no region of AWS is called so; for another service set endpoint_url or AWS_ENDPOINT_URL",
        crate::endpoint::redact::printable(region, 80)
    )))
}

/// Whether an http(s) URL is an AWS S3 object's, in the virtual-host or the path style.
pub fn is_aws_object(url: &Url) -> bool {
    let Some(host) = AwsHost::parse(&url.host()) else { return false };
    let path = url.path();
    let rest = path.strip_prefix('/').unwrap_or(&path);
    match host.bucket {
        Some(_) => !rest.is_empty(),
        None => matches!(rest.split_once('/'), Some((bucket, key)) if !bucket.is_empty() && !key.is_empty()),
    }
}

/// The bucket of an http(s) URL: from the host, else the first part of the path.
pub fn bucket_of(url: &Url) -> String {
    let in_path = || url.path().trim_start_matches('/').split('/').next().unwrap_or_default().to_owned();
    AwsHost::parse(&url.host()).and_then(|host| host.bucket).unwrap_or_else(in_path)
}

/// `s3://bucket/key`: the key is everything behind the bucket's slash, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// Raw: nothing in it is an escape, a query or a fragment.
    pub key: &'a str,
}

impl<'a> Name<'a> {
    /// Reads `s3://bucket/key`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT naming the part at fault.
    pub fn parse(text: &'a str) -> Result<Name<'a>> {
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(Error::invalid("the bucket is empty; write s3://bucket/key"));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.len() > 255 || !bucket.bytes().all(allowed) {
            // It may hold anything, a password too.
            return Err(Error::invalid(
                "the bucket's name is not one: it has at most 255 letters, digits, dots, hyphens and underscores",
            ));
        }
        if key.is_empty() {
            return Err(Error::invalid(format!(
                "the key is empty; write s3://BUCKET/KEY (the bucket here would be {bucket:?})"
            )));
        }
        // What S3 itself allows.
        if key.len() > 1024 {
            return Err(Error::invalid(format!("the key has {} bytes; S3's limit is 1024", key.len())));
        }
        Ok(Name { bucket, key })
    }

    /// Whether the bucket can be the first label of a host, under a certificate for `*.s3.….amazonaws.com`.
    pub fn fits_in_a_host(&self) -> bool {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (3..=63).contains(&self.bucket.len())
            && self.bucket.bytes().all(inner)
            && !self.bucket.starts_with('-')
            && !self.bucket.ends_with('-')
    }

    /// The URL of this object at AWS.
    pub fn at_aws(&self, region: &str, virtual_host: bool) -> String {
        let domain = if region.starts_with("cn-") {
            ".amazonaws.com.cn"
        } else if region.starts_with("eusc-") {
            ".amazonaws.eu"
        } else {
            ".amazonaws.com"
        };
        let key = percent::encoded(self.key.as_bytes(), percent::KEY);
        match virtual_host {
            true => format!("https://{}.s3.{region}{domain}/{key}", self.bucket),
            false => format!("https://s3.{region}{domain}/{}/{key}", self.bucket),
        }
    }

    /// The URL of this object at another service.
    pub fn at_service(&self, service: &Url, virtual_host: bool) -> String {
        let (scheme, host) = (service.scheme(), service.host());
        let port = service.explicit_port().map(|port| format!(":{port}")).unwrap_or_default();
        let path = service.path();
        let (path, key) = (path.trim_end_matches('/'), percent::encoded(self.key.as_bytes(), percent::KEY));
        match virtual_host {
            true => format!("{scheme}://{}.{host}{port}{path}/{key}", self.bucket),
            false => format!("{scheme}://{host}{port}{path}/{}/{key}", self.bucket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(bucket: Option<&str>, service: &str, dualstack: bool, region: Option<&str>) -> AwsHost {
        let domain = ".amazonaws.com";
        AwsHost {
            bucket: bucket.map(Into::into),
            service: service.into(),
            dualstack,
            region: region.map(Into::into),
            domain,
        }
    }

    #[test]
    fn every_form_of_host_is_taken_apart() {
        for (text, want) in [
            ("b.s3.eu-west-1.amazonaws.com", host(Some("b"), "s3", false, Some("eu-west-1"))),
            ("s3.eu-west-1.amazonaws.com", host(None, "s3", false, Some("eu-west-1"))),
            ("b.s3.amazonaws.com", host(Some("b"), "s3", false, None)),
            ("s3.amazonaws.com", host(None, "s3", false, None)),
            ("b.s3-us-west-2.amazonaws.com", host(Some("b"), "s3", false, Some("us-west-2"))),
            ("s3-us-west-2.amazonaws.com", host(None, "s3", false, Some("us-west-2"))),
            ("s3-external-1.amazonaws.com", host(None, "s3", false, Some("us-east-1"))),
            ("my.dotted.b.s3.us-east-1.amazonaws.com", host(Some("my.dotted.b"), "s3", false, Some("us-east-1"))),
            ("s3.s3.us-east-1.amazonaws.com", host(Some("s3"), "s3", false, Some("us-east-1"))),
            ("s3-logs.s3.amazonaws.com", host(Some("s3-logs"), "s3", false, None)),
            ("b.s3.dualstack.us-east-2.amazonaws.com", host(Some("b"), "s3", true, Some("us-east-2"))),
            ("b.s3-fips.us-gov-west-1.amazonaws.com", host(Some("b"), "s3-fips", false, Some("us-gov-west-1"))),
            ("b.s3-accelerate.amazonaws.com", host(Some("b"), "s3-accelerate", false, None)),
            (
                "p-1234.s3-accesspoint.us-west-2.amazonaws.com",
                host(Some("p-1234"), "s3-accesspoint", false, Some("us-west-2")),
            ),
        ] {
            assert_eq!(AwsHost::parse(text), Some(want), "{text}");
        }
        assert_eq!(AwsHost::parse("b.s3.cn-north-1.amazonaws.com.cn").unwrap().domain, ".amazonaws.com.cn");
        for text in [
            "amazonaws.com",
            "b.amazonaws.com",
            "s3.example.com",
            "ec2.us-east-1.amazonaws.com",
            "b.s3.a.b.amazonaws.com",
            "b.s3-.amazonaws.com",
            "b.s3.amazonaws.com.evil.com",
            "s3amazonaws.com",
            "",
        ] {
            assert_eq!(AwsHost::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_region_moves_the_host() {
        for (text, want) in [
            ("b.s3.amazonaws.com", Some("b.s3.eu-west-1.amazonaws.com")),
            ("s3-us-west-2.amazonaws.com", Some("s3.eu-west-1.amazonaws.com")),
            ("b.s3.dualstack.us-east-2.amazonaws.com", Some("b.s3.dualstack.eu-west-1.amazonaws.com")),
            ("b.s3-accelerate.amazonaws.com", None),
        ] {
            assert_eq!(AwsHost::parse(text).unwrap().in_region("eu-west-1").as_deref(), want, "{text}");
        }
        for text in ["", "Eu-West-1", "a.b", "x/", "-a", "a-", "a b", "é"] {
            assert!(!is_region(text), "{text:?}");
        }
        for text in ["RegionOne", "GRA", "us_east", "eu-west-1"] {
            assert!(is_scope(text), "{text:?}");
        }
        for text in ["", "a.b", "x/", "a b", "é", "a\n"] {
            assert!(!is_scope(text), "{text:?}");
        }
        assert!(of_aws("RegionOne").is_err() && of_aws("eu-west-1").is_ok());
    }

    #[test]
    fn only_urls_with_bucket_and_key_are_objects() {
        for (text, want) in [
            ("https://b.s3.amazonaws.com/k", true),
            ("https://b.s3.amazonaws.com/", false),
            ("https://b.s3.amazonaws.com", false),
            ("https://s3.amazonaws.com/b/k", true),
            ("https://s3.amazonaws.com/b/", false),
            ("https://s3.amazonaws.com/b", false),
            ("http://S3.US-EAST-1.AMAZONAWS.COM/b/k", true),
        ] {
            assert_eq!(is_aws_object(&Url::parse(text).unwrap()), want, "{text}");
        }
    }

    #[test]
    fn a_name_is_bucket_and_raw_key() {
        for (text, bucket, key) in [
            ("s3://b/a/b/c", "b", "a/b/c"),
            ("s3://b//lead", "b", "/lead"),
            ("S3://b/x//y", "b", "x//y"),
            ("s3://b/q?x#h%20", "b", "q?x#h%20"),
            ("s3://b_1.x/://", "b_1.x", "://"),
        ] {
            assert_eq!(Name::parse(text).unwrap(), Name { bucket, key }, "{text}");
        }
        for (text, word) in [
            ("s3://", "bucket is empty"),
            ("s3:///k", "bucket is empty"),
            ("s3://b", "key is empty"),
            ("s3://b/", "key is empty"),
            ("s3://u:p@b/k", "bucket's name"),
            ("s3://b:9000/k", "bucket's name"),
            ("s3://ü/k", "bucket's name"),
        ] {
            let error = Name::parse(text).unwrap_err();
            assert!(error.message().contains(word) && !error.message().contains("u:p"), "{text}: {error}");
        }
        assert!(Name::parse(&format!("s3://b/{}", "k".repeat(1025))).unwrap_err().message().contains("1024"));
        assert!(Name::parse(&format!("s3://b/{}", "k".repeat(1024))).is_ok());
    }

    #[test]
    fn names_become_urls_in_both_styles() {
        let name = Name::parse("s3://bucket//a b/ü").unwrap();
        assert_eq!(name.at_aws("eu-west-1", true), "https://bucket.s3.eu-west-1.amazonaws.com//a%20b/%C3%BC");
        assert_eq!(name.at_aws("cn-north-1", false), "https://s3.cn-north-1.amazonaws.com.cn/bucket//a%20b/%C3%BC");
        let service = |text| Url::parse(text).unwrap();
        assert_eq!(name.at_service(&service("http://h:9000"), false), "http://h:9000/bucket//a%20b/%C3%BC");
        assert_eq!(name.at_service(&service("https://h:443/s3/"), true), "https://bucket.h:443/s3//a%20b/%C3%BC");
        assert_eq!(name.at_service(&service("http://[::1]:9"), false), "http://[::1]:9/bucket//a%20b/%C3%BC");
        assert!(name.fits_in_a_host());
        for text in ["s3://a.b/k", "s3://Ab-c/k", "s3://ab/k", "s3://-abc/k", "s3://a_bc/k"] {
            assert!(!Name::parse(text).unwrap().fits_in_a_host(), "{text}");
        }
    }
}
