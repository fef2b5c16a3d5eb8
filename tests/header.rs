//! `include/raskio.h` is what `src/ffi` says, whole, and its table of causes is what the library does.
//!
//! `RASKIO_BLESS=1 cargo test --test header` writes the header.

#[path = "header/generate.rs"]
mod generate;

use raskio::error::ErrorKind;
use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/raskio.h");

fn committed() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        if std::env::var_os("RASKIO_BLESS").is_some() {
            fs::write(HEADER, generate::header()).expect("include/raskio.h can be written");
        }
        fs::read_to_string(HEADER).expect("include/raskio.h is committed; RASKIO_BLESS=1 writes it")
    });
    &TEXT
}

#[test]
fn the_committed_header_is_fresh() {
    let committed = committed();
    let fresh = generate::header();
    let line = fresh.lines().zip(committed.lines()).position(|(a, b)| a != b);
    assert!(
        fresh == committed,
        "include/raskio.h is stale (first at line {}): RASKIO_BLESS=1 cargo test --test header, then review the change",
        line.unwrap_or_else(|| fresh.lines().count().min(committed.lines().count())) + 1
    );
}

/// cbindgen leaves out, without a word, what it does not understand and what no function mentions.
#[test]
fn nothing_public_is_missing_from_the_header() {
    let header = committed();
    let words: BTreeSet<&str> = header.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut seen = 0;
    for section in generate::SECTIONS {
        let source = generate::source(section);
        for line in source.lines() {
            let rest =
                ["pub const ", "pub struct ", "pub type ", "pub extern \"C\" fn ", "pub unsafe extern \"C\" fn "]
                    .iter()
                    .find_map(|start| line.strip_prefix(start));
            let Some(rest) = rest else { continue };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            assert!(words.contains(name.as_str()), "{name} of src/ffi/{section}.rs is not in include/raskio.h");
            seen += 1;
        }
    }
    assert!(seen > 100, "the sources were read: {seen} names");
}

#[test]
fn the_table_has_every_function_once() {
    let header = committed();
    let functions: BTreeSet<String> = header
        .split("RASKIO_EXPORT")
        .skip(1)
        .filter_map(|rest| rest.split_once('(').map(|(head, _)| head))
        .filter_map(|head| head.split("raskio_").last())
        .map(str::to_owned)
        .filter(|name| !name.contains("__attribute__") && name != "get_api")
        .collect();
    let table = header.split("typedef struct raskio_api {").nth(1).and_then(|rest| rest.split("} raskio_api;").next());
    let members: Vec<String> = table
        .expect("the header declares raskio_api")
        .split("(*")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(name, _)| name.to_owned())
        .collect();
    let unique: BTreeSet<String> = members.iter().cloned().collect();
    assert_eq!(unique.len(), members.len(), "a member twice");
    assert_eq!(functions.iter().filter(|name| !name.trim().is_empty()).cloned().collect::<BTreeSet<_>>(), unique);
}

/// Each row of the header's table of causes: what kind of code, the codes, the status.
fn causes() -> Vec<(String, Vec<String>, ErrorKind)> {
    let header = committed();
    let rows = header.lines().filter_map(|line| {
        let mut words = line.trim_matches([' ', '*', '/']).split_whitespace();
        let source = words.next().filter(|word| ["HTTP", "errno", "CURLcode"].contains(word))?;
        let mut codes: Vec<String> = words.map(str::to_owned).collect();
        let status = codes.pop().filter(|last| last.starts_with("RASKIO_ERR_"))?;
        let kind = ErrorKind::ALL.into_iter().find(|kind| status == format!("RASKIO_ERR_{}", kind.name()));
        Some((source.to_owned(), codes, kind.unwrap_or_else(|| panic!("{status} is no status"))))
    });
    rows.collect()
}

/// What the header says about `code`, whose name there is `name`.
fn documented(source: &str, name: &str) -> ErrorKind {
    let rows = causes();
    let find = |wanted: &str| rows.iter().find(|row| row.0 == source && row.1.iter().any(|code| code == wanted));
    find(name).or_else(|| find("other")).unwrap_or_else(|| panic!("no row for any other {source}")).2
}

#[test]
fn http_status_is_mapped_as_the_header_says() {
    let ranges: Vec<(u16, u16, ErrorKind)> = causes()
        .iter()
        .filter(|row| row.0 == "HTTP")
        .flat_map(|row| row.1.iter().map(|code| (code.clone(), row.2)))
        .filter(|(code, _)| code != "other")
        .map(|(code, kind)| {
            let (first, last) = code.split_once('-').unwrap_or((&code, &code));
            (first.parse().expect("a status"), last.parse().expect("a status"), kind)
        })
        .collect();
    assert!(ranges.len() >= 9, "the table was found: {ranges:?}");
    for status in 100..=999 {
        let row = ranges.iter().find(|row| (row.0..=row.1).contains(&status));
        let expected = row.map_or_else(|| documented("HTTP", "other"), |row| row.2);
        assert_eq!(ErrorKind::from_http_status(status), expected, "HTTP status {status}");
    }
}

macro_rules! numbers {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), i64::from(libc::$name))),*] };
}

#[test]
fn errno_is_mapped_as_the_header_says() {
    let names = numbers![
        ENOENT,
        ENOTDIR,
        EACCES,
        EPERM,
        EROFS,
        ENOMEM,
        ETIMEDOUT,
        ECONNREFUSED,
        ECONNRESET,
        ECONNABORTED,
        EPIPE,
        EHOSTUNREACH,
        ENETUNREACH,
        ENETDOWN,
        EINVAL,
        EISDIR,
        ENAMETOOLONG,
        ENOSYS,
        EOPNOTSUPP,
    ];
    every_code_is_as_documented("errno", &names, 0..=200, |code| ErrorKind::from_errno(code as i32));
}

macro_rules! curl_numbers {
    ($($name:ident = $constant:ident),* $(,)?) => { [$((stringify!($name), i64::from(curl_sys::$constant))),*] };
}

#[test]
fn curl_code_is_mapped_as_the_header_says() {
    let names = curl_numbers![
        UNSUPPORTED_PROTOCOL = CURLE_UNSUPPORTED_PROTOCOL,
        URL_MALFORMAT = CURLE_URL_MALFORMAT,
        COULDNT_RESOLVE_PROXY = CURLE_COULDNT_RESOLVE_PROXY,
        COULDNT_RESOLVE_HOST = CURLE_COULDNT_RESOLVE_HOST,
        COULDNT_CONNECT = CURLE_COULDNT_CONNECT,
        PARTIAL_FILE = CURLE_PARTIAL_FILE,
        GOT_NOTHING = CURLE_GOT_NOTHING,
        SEND_ERROR = CURLE_SEND_ERROR,
        RECV_ERROR = CURLE_RECV_ERROR,
        OUT_OF_MEMORY = CURLE_OUT_OF_MEMORY,
        OPERATION_TIMEDOUT = CURLE_OPERATION_TIMEDOUT,
        BAD_FUNCTION_ARGUMENT = CURLE_BAD_FUNCTION_ARGUMENT,
        SSL_CONNECT_ERROR = CURLE_SSL_CONNECT_ERROR,
        SSL_ENGINE_NOTFOUND = CURLE_SSL_ENGINE_NOTFOUND,
        SSL_ENGINE_SETFAILED = CURLE_SSL_ENGINE_SETFAILED,
        SSL_ENGINE_INITFAILED = CURLE_SSL_ENGINE_INITFAILED,
        SSL_CERTPROBLEM = CURLE_SSL_CERTPROBLEM,
        SSL_CIPHER = CURLE_SSL_CIPHER,
        PEER_FAILED_VERIFICATION = CURLE_PEER_FAILED_VERIFICATION,
        USE_SSL_FAILED = CURLE_USE_SSL_FAILED,
        SSL_CACERT_BADFILE = CURLE_SSL_CACERT_BADFILE,
        SSL_SHUTDOWN_FAILED = CURLE_SSL_SHUTDOWN_FAILED,
        SSL_CRL_BADFILE = CURLE_SSL_CRL_BADFILE,
        SSL_ISSUER_ERROR = CURLE_SSL_ISSUER_ERROR,
    ];
    // From curl/curl.h; curl-sys does not name them.
    let unnamed = [
        ("NOT_BUILT_IN", 4),
        ("WEIRD_SERVER_REPLY", 8),
        ("SSL_PINNEDPUBKEYNOTMATCH", 90),
        ("SSL_INVALIDCERTSTATUS", 91),
        ("PROXY", 97),
        ("SSL_CLIENTCERT", 98),
    ];
    let all: Vec<(&str, i64)> = names.into_iter().chain(unnamed).collect();
    every_code_is_as_documented("CURLcode", &all, 1..=150, |code| ErrorKind::from_curl_code(code as u32));
}

fn every_code_is_as_documented(
    source: &str,
    names: &[(&str, i64)],
    codes: std::ops::RangeInclusive<i64>,
    actual: impl Fn(i64) -> ErrorKind,
) {
    let known: BTreeSet<&str> = names.iter().map(|(name, _)| *name).collect();
    let written: Vec<String> = causes()
        .into_iter()
        .filter(|row| row.0 == source)
        .flat_map(|row| row.1)
        .filter(|code| code != "other")
        .collect();
    let unique: BTreeSet<&str> = written.iter().map(String::as_str).collect();
    assert_eq!(unique.len(), written.len(), "a {source} stands in the table twice");
    assert_eq!(unique, known, "the names in the header and the names whose numbers are known here");
    for code in codes {
        let name = names.iter().find(|(_, number)| *number == code).map_or("other", |(name, _)| *name);
        assert_eq!(actual(code), documented(source, name), "{source} {code} ({name})");
    }
}
