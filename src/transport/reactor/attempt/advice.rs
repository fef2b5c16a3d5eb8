//! What a failure of libcurl means to who must put it right: which setting is at fault, beside libcurl's own words.

use super::Attempt;
use crate::endpoint::{Target, redact};
use crate::error::ErrorKind;
use crate::sys::curl::{Access, Finished};

/// Bytes of the request line and the headers that libcurl sends at most (DYN_HTTP_REQUEST).
const MOST_HEAD_BYTES: usize = 1 << 20;

/// What is known of a failure beyond its code.
#[derive(Default)]
pub struct Advice {
    /// Instead of what the code says.
    pub kind: Option<ErrorKind>,
    /// Whether asking again cannot help, whatever the code says.
    pub hopeless: bool,
    /// The status of a proxy, 0 if it said nothing.
    pub http_status: u16,
    /// Words for the message.
    pub words: Option<String>,
}

/// Looks at how an attempt failed. The words looked for are those of OpenSSL and libcurl; without them nothing is said.
pub fn on(attempt: &Attempt, finished: &Finished) -> Advice {
    let target = &attempt.course.target;
    let access = &target.access;
    let says = |words: &str| finished.message.to_ascii_lowercase().contains(words);
    let just = |words: String| Advice { words: Some(words), ..Advice::default() };
    match finished.code {
        // PEER_FAILED_VERIFICATION, SSL_CACERT_BADFILE.
        60 | 77 => just(format!(
            "certificate authorities: {}; the option ca_file names others, and comes first",
            access.trust.describe()
        )),
        // BAD_FUNCTION_ARGUMENT, SSL_CERTPROBLEM, or anything in the handshake.
        43 | 58 | 35 if access.certificate.is_some() && (says("private key") || says("certificate")) => Advice {
            hopeless: true,
            ..just(
                "client_certificate and client_key: is the key in the file, is it this certificate's, and is \
                    client_key_password right?"
                    .into(),
            )
        },
        // The alert comes with the first read of TLS 1.3, and with the handshake before.
        35 | 56 if says("certificate required") || says("bad certificate") => Advice {
            kind: Some(ErrorKind::Tls),
            hopeless: true,
            ..just(
                "the server wants a client certificate that it trusts; the option client_certificate names one".into(),
            )
        },
        35 if says("wrong version number") || says("packet length too long") => Advice {
            kind: Some(ErrorKind::Tls),
            hopeless: true,
            ..just(match access.unix_socket {
                Some(_) => "what listens there speaks plain http? Then write http:// (with s3://: endpoint_url)".into(),
                None => "this port speaks plain http? Then write http://".into(),
            })
        },
        // GOT_NOTHING.
        52 if target.origin.scheme == "http" && finished.connections > 0 => {
            just("if this port speaks TLS, write https://".into())
        }
        // What libcurl makes of a proxy that does not let a tunnel through.
        56 | 7 if says("connect tunnel failed") => {
            let status = finished.message.rsplit(' ').next().and_then(|word| word.trim().parse().ok()).unwrap_or(0);
            let refused = matches!(status, 401 | 403 | 407);
            let words = match status {
                401 | 407 => "the proxy's user and password stand in its own URL: http://user:password@host:port",
                _ => "the proxy refuses to connect to this host",
            };
            Advice {
                kind: refused.then(|| ErrorKind::from_http_status(status)),
                hopeless: refused,
                http_status: status,
                ..just(format!("{words}; {}", proxy(access)))
            }
        }
        // COULDNT_RESOLVE_PROXY, or a proxy that is not there.
        5 | 7 if finished.code == 5 || says("over proxy") => {
            just(format!("it is the proxy that cannot be reached: {}", proxy(access)))
        }
        // TOO_LARGE, which may also be a reply's head.
        100 if says("request too large") => {
            Advice { kind: Some(ErrorKind::InvalidArgument), hopeless: true, ..just(too_large(&attempt.sent)) }
        }
        _ => Advice::default(),
    }
}

/// How large a request is, and what makes it so; its headers by their names alone.
fn too_large(sent: &Target) -> String {
    let name = |line: &[u8]| {
        let name = line.split(|byte| matches!(byte, b':' | b';')).next().unwrap_or_default();
        format!("the header {}", redact::printable(&String::from_utf8_lossy(name), 80))
    };
    let headers = sent.headers.iter().map(|line| (line.as_bytes().len() + "\r\n".len(), Some(line.as_bytes())));
    let parts: Vec<(usize, Option<&[u8]>)> = headers.chain([(sent.url.as_bytes().len(), None)]).collect();
    let all: usize = parts.iter().map(|(bytes, _)| bytes).sum();
    let (bytes, largest) = parts.into_iter().max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
    let what = largest.map_or_else(|| "the URL".to_owned(), name);
    format!(
        "its URL and headers have {all} bytes, {bytes} of them {what}, and a request has at most {MOST_HEAD_BYTES}; use shorter or \
         fewer ones"
    )
}

/// Which proxy, and who named it.
pub fn proxy(access: &Access) -> String {
    match &access.proxy {
        Some(proxy) => format!("the proxy is {}, from the option proxy", redact::url(&proxy.to_string_lossy())),
        None => "the proxy is the environment's (https_proxy, http_proxy or all_proxy)".into(),
    }
}
