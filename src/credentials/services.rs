//! The services that hand AWS credentials out: what they are asked, and what their answers mean.

use super::{Grant, Held, Keys, Secret, fits_a_header};
use crate::clock;
use crate::endpoint::{percent, redact};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use crate::sys::curl::{Access, Answer, Question, Unanswered, ask};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The metadata service answers from the same machine: within a millisecond, or not at all.
const METADATA_CONNECT: Duration = Duration::from_secs(1);
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);
/// What the SDKs ask for, and the most that there is.
const METADATA_TOKEN_LIFE: Duration = Duration::from_secs(21_600);
/// For services across a network.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(10);
/// A busy service is asked once more.
const TRIES: u32 = 2;

/// Whether to give up.
pub type Stop<'a> = &'a dyn Fn() -> bool;

/// The container's credentials: `AWS_CONTAINER_CREDENTIALS_…`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// Where.
    pub url: String,
    /// Goes into `Authorization`.
    pub token: Option<Secret>,
    /// Holds the token; read anew each time, since it is rotated.
    pub token_file: Option<PathBuf>,
}

/// A role to assume with a web identity token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebIdentity {
    /// Holds the token; read anew each time, since it is rotated.
    pub token_file: PathBuf,
    /// The role.
    pub role_arn: String,
    /// Tells sessions apart in the service's logs.
    pub session_name: String,
    /// The security token service.
    pub service: String,
}

/// What the instance metadata service said last, so that a renewal is one question.
#[derive(Default)]
pub struct Instance {
    session: Mutex<Option<(Secret, Instant, String)>>,
}

impl Container {
    /// Asks.
    ///
    /// # Errors
    /// Why there are none: the variables say that there are.
    pub fn fetch(&self, access: &Access, stop: Stop<'_>) -> Result<Grant> {
        let what = format!("the container's credentials ({})", redact::url(&self.url));
        let token = match (&self.token_file, &self.token) {
            (Some(file), _) => Some(read_token(file, &what)?),
            (None, token) => token.clone(),
        };
        let headers: Vec<String> = token.iter().map(|token| format!("Authorization: {}", token.reveal())).collect();
        let question = Question {
            method: "GET",
            url: &self.url,
            headers: &headers,
            body: "",
            access,
            connect_timeout: METADATA_CONNECT,
            timeout: METADATA_TIMEOUT,
        };
        let answer = asked(&question, &what, stop)?;
        if answer.status != 200 {
            return Err(refused(&what, &answer));
        }
        from_json(&answer.body, &what)
    }
}

impl Instance {
    /// Asks the metadata service of an EC2 instance, by its version 2. `None` with the reason: there is no such service, or
    /// the instance has no role.
    ///
    /// # Errors
    /// What the service answered instead.
    pub fn fetch(&self, endpoint: &str, stop: Stop<'_>) -> Result<std::result::Result<Grant, String>> {
        let what = format!("the instance's metadata ({})", redact::url(endpoint));
        let access = Access::straight();
        let endpoint = endpoint.trim_end_matches('/');
        let question = |method, path: &str, header: String| {
            let (url, headers) = (format!("{endpoint}{path}"), [header]);
            asked(
                &Question {
                    method,
                    url: &url,
                    headers: &headers,
                    body: "",
                    access: &access,
                    connect_timeout: METADATA_CONNECT,
                    timeout: METADATA_TIMEOUT,
                },
                &what,
                stop,
            )
        };
        let known = self.session.lock().clone().filter(|(_, until, _)| Instant::now() < *until);
        if let Some((token, until, role)) = known {
            let answer = question("GET", &role_path(&role), token_header(&token))?;
            if answer.status == 200 {
                return from_json(&answer.body, &what).map(Ok);
            }
            // The token or the role is no longer the one; from the start.
            log::debug!(target: "raskio", "{what}: status {}, asking anew ({:?} left)", answer.status, until);
            *self.session.lock() = None;
        }
        let life = METADATA_TOKEN_LIFE.as_secs();
        let answer = match question("PUT", "/latest/api/token", format!("X-aws-ec2-metadata-token-ttl-seconds: {life}"))
        {
            Ok(answer) => answer,
            // Somebody is there, but slow: no reason to go without.
            Err(Unanswered { error, connected: true }) => return Err(error),
            Err(Unanswered { error, .. }) if error.kind() == ErrorKind::ShutDown => return Err(error),
            Err(Unanswered { error, .. }) => return Ok(Err(error.message().to_owned())),
        };
        if answer.status == 429 || answer.status >= 500 {
            // There is such a service, and it is busy: no reason to go without for a while.
            return Err(refused(&what, &answer));
        }
        let token = answer.body.trim();
        if answer.status != 200 || token.is_empty() || !fits_a_header(token) {
            return Ok(Err(refused(&what, &answer).message().to_owned()));
        }
        let (token, until) = (Secret::new(token), Instant::now() + METADATA_TOKEN_LIFE - Duration::from_secs(60));
        let answer = question("GET", &role_path(""), token_header(&token))?;
        let role = answer.body.lines().next().unwrap_or_default().trim().to_owned();
        match answer.status {
            200 if !role.is_empty() => {}
            200 | 404 => return Ok(Err(format!("{what}: the instance has no role"))),
            _ => return Err(refused(&what, &answer)),
        }
        let answer = question("GET", &role_path(&role), token_header(&token))?;
        if answer.status != 200 {
            return Err(refused(&what, &answer));
        }
        let grant = from_json(&answer.body, &what)?;
        *self.session.lock() = Some((token, until, role));
        Ok(Ok(grant))
    }
}

fn role_path(role: &str) -> String {
    format!("/latest/meta-data/iam/security-credentials/{}", percent::encoded(role.as_bytes(), percent::KEY))
}

fn token_header(token: &Secret) -> String {
    format!("X-aws-ec2-metadata-token: {}", token.reveal())
}

impl WebIdentity {
    /// Assumes the role.
    ///
    /// # Errors
    /// Why it could not.
    pub fn fetch(&self, access: &Access, stop: Stop<'_>) -> Result<Grant> {
        let what = format!("the web identity ({})", redact::url(&self.service));
        let token = read_token(&self.token_file, &what)?;
        let encoded = |text: &str| percent::encoded(text.as_bytes(), percent::VALUE);
        let body = format!(
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&WebIdentityToken={}",
            encoded(&self.role_arn),
            encoded(&self.session_name),
            encoded(token.reveal())
        );
        let question = Question {
            method: "POST",
            url: &self.service,
            headers: &["Accept: application/xml".to_owned()],
            body: &body,
            access,
            connect_timeout: SERVICE_TIMEOUT,
            timeout: SERVICE_TIMEOUT,
        };
        let answer = asked(&question, &what, stop)?;
        if answer.status != 200 {
            return Err(refused(&what, &answer));
        }
        let element = |name: &str| xml_element(&answer.body, name).filter(|text| !text.is_empty());
        grant(
            element("AccessKeyId"),
            element("SecretAccessKey"),
            element("SessionToken"),
            element("Expiration").as_deref(),
            &what,
        )
    }
}

/// Asks, and once more where the service is busy.
fn asked(question: &Question<'_>, what: &str, stop: Stop<'_>) -> std::result::Result<Answer, Unanswered> {
    let mut tries = 0;
    loop {
        tries += 1;
        match ask(question, stop) {
            Ok(answer) if answer.status >= 500 && tries < TRIES && !stop() => {}
            Ok(answer) => return Ok(answer),
            Err(Unanswered { error, connected }) => {
                let words = redact::printable(&redact::remark(error.message()), 200);
                let error = Error::new(error.kind(), format!("{what}: {words}")).with_os_code(error.os_code());
                return Err(Unanswered { error, connected });
            }
        }
    }
}

/// The error of an answer that is none. Its body is not shown: nobody knows what a service puts there.
fn refused(what: &str, answer: &Answer) -> Error {
    let code = xml_element(&answer.body, "Code").or_else(|| {
        let json: Value = serde_json::from_str(&answer.body).ok()?;
        json.get("Code").or(json.get("code"))?.as_str().map(str::to_owned)
    });
    let code = code.map(|code| format!(" ({})", redact::printable(&code, 80))).unwrap_or_default();
    let kind = match ErrorKind::from_http_status(answer.status) {
        ErrorKind::Http | ErrorKind::NotFound => ErrorKind::PermissionDenied,
        kind => kind,
    };
    Error::new(kind, format!("{what}: answered {}{code}", answer.status)).with_http_status(answer.status)
}

fn read_token(file: &std::path::Path, what: &str) -> Result<Secret> {
    let text = super::read_small(file)
        .map_err(|error| Error::os(format_args!("{what}: the token file {}", file.display()), &error))?;
    let token = text.trim();
    if token.is_empty() || !fits_a_header(token) {
        return Err(Error::invalid(format!("{what}: the token file {} holds no token", file.display())));
    }
    Ok(Secret::new(token))
}

/// What container and instance answer.
///
/// # Errors
/// PERMISSION_DENIED: it makes no sense, or is no success. Nothing of it is shown.
pub fn from_json(body: &str, what: &str) -> Result<Grant> {
    let json: Value = serde_json::from_str(body)
        .map_err(|error| bad(what, &format!("no JSON (line {}, column {})", error.line(), error.column())))?;
    let field = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(code) = field("Code").filter(|code| code != "Success") {
        return Err(bad(what, &redact::printable(&code, 80)));
    }
    grant(
        field("AccessKeyId"),
        field("SecretAccessKey"),
        field("Token").or_else(|| field("SessionToken")),
        field("Expiration").as_deref(),
        what,
    )
}

/// Credentials from their parts.
pub fn grant(
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    session_token: Option<String>,
    expiration: Option<&str>,
    what: &str,
) -> Result<Grant> {
    let (Some(id), Some(secret)) = (access_key_id, secret_access_key) else {
        return Err(bad(what, "no key"));
    };
    if id.is_empty() || secret.is_empty() || !fits_a_header(&id) {
        return Err(bad(what, "an empty or impossible key"));
    }
    let session_token = session_token.filter(|token| !token.is_empty());
    if session_token.as_deref().is_some_and(|token| !fits_a_header(token)) {
        return Err(bad(what, "an impossible session token"));
    }
    let expires = match expiration.filter(|text| !text.is_empty()) {
        Some(text) => Some(clock::parse_iso8601(text).ok_or_else(|| bad(what, "an expiration that is no date"))?),
        None => None,
    };
    let keys = Keys {
        access_key_id: Secret::new(id),
        secret_access_key: Secret::new(secret),
        session_token: session_token.map(Secret::new),
    };
    Ok(Grant { held: Held::Keys(keys), expires })
}

fn bad(what: &str, why: &str) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("{what}: the answer makes no sense: {why}"))
}

/// The text of the first element of this name.
pub fn xml_element(text: &str, name: &str) -> Option<String> {
    let rest = text.split_once(&format!("<{name}>"))?.1;
    let words = rest.split_once("</")?.0.trim();
    let plain = words.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    Some(plain.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_nonsense_is_refused_without_being_shown() {
        let body = r#"{"Code":"Success","AccessKeyId":"ASIA","SecretAccessKey":"s3cr3t","Token":"t","Expiration":"2030-01-02T03:04:05Z"}"#;
        let granted = from_json(body, "x").unwrap();
        let Held::Keys(keys) = &granted.held else { panic!("keys") };
        assert_eq!((keys.access_key_id.reveal(), keys.secret_access_key.reveal()), ("ASIA", "s3cr3t"));
        assert_eq!(keys.session_token.as_ref().map(Secret::reveal), Some("t"));
        assert_eq!(clock::unix_seconds(granted.expires.unwrap()), 1_893_553_445);
        assert!(!format!("{granted:?}").contains("s3cr3t"));
        for body in [
            "",
            "[]",
            "{",
            r#"{"Code":"s3cr3"}"#,
            r#"{"AccessKeyId":"A"}"#,
            r#"{"AccessKeyId":"","SecretAccessKey":"s3cr3t"}"#,
            r#"{"AccessKeyId":"A\n","SecretAccessKey":"s3cr3t"}"#,
            r#"{"AccessKeyId":"A","SecretAccessKey":"s3cr3t","Token":"a\r\nb"}"#,
            r#"{"AccessKeyId":"A","SecretAccessKey":"s3cr3t","Expiration":"soon"}"#,
            r#"{"AccessKeyId":7,"SecretAccessKey":"s3cr3t"}"#,
        ] {
            let error = from_json(body, "x").unwrap_err();
            assert!(!error.message().contains("s3cr3t"), "{error}");
        }
    }

    #[test]
    fn elements_are_found_and_unescaped() {
        let text = "<a><Code>x</Code><SessionToken> a&amp;lt;b/+= </SessionToken></a>";
        assert_eq!(xml_element(text, "SessionToken").as_deref(), Some("a&lt;b/+="));
        assert_eq!(xml_element(text, "Missing"), None);
        assert_eq!(xml_element("<Code>never ends", "Code"), None);
    }
}
