//! The signature check of an S3 server, written from AWS's description of Signature Version 4 and from nothing of RaskIO's:
//! the request is taken as it came over the wire.

use crate::reply::Reply;
use crate::request::RequestInfo;
use sha2::{Digest, Sha256};

/// Who may read.
#[derive(Clone, Debug)]
pub struct S3Account {
    /// The key's name.
    pub access_key_id: String,
    /// The key.
    pub secret_access_key: String,
    /// The session token that must come with it.
    pub session_token: Option<String>,
    /// The region that must be signed for.
    pub region: String,
}

impl S3Account {
    /// One without a session token.
    pub fn new(access_key_id: &str, secret_access_key: &str, region: &str) -> S3Account {
        S3Account {
            access_key_id: access_key_id.into(),
            secret_access_key: secret_access_key.into(),
            session_token: None,
            region: region.into(),
        }
    }

    /// The same with a session token.
    pub fn token(mut self, token: &str) -> S3Account {
        self.session_token = Some(token.into());
        self
    }

    /// `None` for a request that is signed rightly; else S3's answer to it.
    pub fn refusal(&self, request: &RequestInfo) -> Option<Reply> {
        match self.check(request) {
            Ok(()) => None,
            Err(("AuthorizationHeaderMalformed", words)) => {
                let region = format!("<Region>{}</Region>", self.region);
                Some(
                    error(400, "AuthorizationHeaderMalformed", &words, &region)
                        .header("x-amz-bucket-region", &self.region),
                )
            }
            Err((code, words)) => Some(error(403, code, &words, "")),
        }
    }

    fn check(&self, request: &RequestInfo) -> Result<(), (&'static str, String)> {
        let malformed = |words: &str| ("AuthorizationHeaderMalformed", words.to_owned());
        let denied = |words: &str| ("AccessDenied", words.to_owned());
        let header = |name: &str| request.header(name);
        let authorization = header("Authorization").ok_or_else(|| denied("no Authorization header"))?;
        let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(|| malformed("another algorithm"))?;
        let part = |name: &str| rest.split(", ").find_map(|part| part.strip_prefix(name));
        let credential = part("Credential=").ok_or_else(|| malformed("no Credential"))?;
        let names = part("SignedHeaders=").ok_or_else(|| malformed("no SignedHeaders"))?;
        let signature = part("Signature=").ok_or_else(|| malformed("no Signature"))?;
        let mut scope = credential.split('/');
        let id = scope.next().unwrap_or_default();
        let (day, region) = (scope.next().unwrap_or_default(), scope.next().unwrap_or_default());
        if (scope.next(), scope.next(), scope.next()) != (Some("s3"), Some("aws4_request"), None) {
            return Err(malformed("the credential's scope is not DAY/REGION/s3/aws4_request"));
        }
        if id != self.access_key_id {
            return Err(("InvalidAccessKeyId", "the key is not known here".into()));
        }
        if region != self.region {
            return Err(malformed(&format!("the region '{region}' is wrong; expecting '{}'", self.region)));
        }
        let date = header("x-amz-date").ok_or_else(|| denied("no x-amz-date"))?;
        if !date.starts_with(day) || date.len() != 16 {
            return Err(malformed("the date is not the scope's"));
        }
        let hash = header("x-amz-content-sha256").ok_or_else(|| denied("no x-amz-content-sha256"))?;
        if header("x-amz-security-token") != self.session_token.as_deref() {
            return Err(("InvalidToken", "the session token is not the account's".into()));
        }
        let signed: Vec<&str> = names.split(';').collect();
        let must = request.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
        for name in must.filter(|name| name == "host" || name.starts_with("x-amz-")) {
            if !signed.contains(&name.as_str()) {
                return Err(denied(&format!("the header {name} is not signed")));
            }
        }
        let mut text = format!("{}\n{}\n{}\n", request.method, path(request.path()), query(request));
        for name in &signed {
            let values: Vec<String> = request
                .headers
                .iter()
                .filter(|(other, _)| other.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect();
            text += &format!("{name}:{}\n", values.join(","));
        }
        text += &format!("\n{names}\n{hash}");
        let scope = format!("{day}/{region}/s3/aws4_request");
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(text.as_bytes())));
        let mut key = format!("AWS4{}", self.secret_access_key).into_bytes();
        for part in [day, region, "s3", "aws4_request"] {
            key = mac(&key, part);
        }
        match hex(&mac(&key, &to_sign)) == signature {
            true => Ok(()),
            false => Err(("SignatureDoesNotMatch", format!("canonical request: {text:?}"))),
        }
    }
}

/// An error as S3 writes it.
pub fn error(status: u16, code: &str, message: &str, more: &str) -> Reply {
    let escaped = message.replace('&', "&amp;").replace('<', "&lt;");
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{escaped}</Message>{more}</Error>"
    );
    Reply::status(status).body(body).header("Content-Type", "application/xml")
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // HMAC, step by step as RFC 2104 describes it.
    let mut key = if key.len() > 64 { Sha256::digest(key).to_vec() } else { key.to_vec() };
    key.resize(64, 0);
    let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), text.as_bytes().to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decoded to bytes, and encoded by the rules of S3.
fn path(wire: &str) -> String {
    wire.split('/').map(|part| encode(&decode(part))).collect::<Vec<_>>().join("/")
}

fn query(request: &RequestInfo) -> String {
    let pairs = request.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<String> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |text: &str| encode(&decode(&text.replace('+', " ")));
            format!("{}={}", text(name), text(value))
        })
        .collect();
    pairs.sort();
    pairs.join("&")
}

fn decode(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let code = bytes.get(at..at + 3).filter(|code| code[0] == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(&code[1..]).ok()?, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    out
}

fn encode(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(one).collect()
}
