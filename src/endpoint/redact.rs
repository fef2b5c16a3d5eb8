//! What may be shown of URLs and headers: never a key, a token, a signature or a password.

/// Headers whose values libcurl's verbose output may show. Everything else may carry a secret of the user's.
const HARMLESS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-ranges",
    "age",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expires",
    "host",
    "if-match",
    "keep-alive",
    "last-modified",
    "range",
    "retry-after",
    "server",
    "transfer-encoding",
    "user-agent",
    "vary",
    "x-amz-bucket-region",
    "x-amz-date",
    "x-amz-id-2",
    "x-amz-request-id",
];

/// Query names whose values are no secrets and help to tell requests apart.
const HARMLESS_QUERY: &[&str] = &["op", "offset", "length", "versionid", "partnumber", "list-type"];

/// A URL without user, password, fragment and the values of its query.
pub fn url(text: &str) -> String {
    let whole = text;
    let text = text.split('#').next().unwrap_or_default();
    let (before, query) = match text.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (text, None),
    };
    let (scheme, rest) = before.split_at(authority_start(before));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut shown = scheme.to_owned();
    match (authority.rfind('@'), authority.split_once(':')) {
        (Some(at), _) => shown.extend([&authority[at + 1..], path]),
        // No port: a password with a character that should have been encoded, which ended the host too early. Then the
        // host is a user's name.
        (None, Some((host, port))) if !host.starts_with('[') && !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let host = if whole.contains('@') { "..." } else { host };
            shown.extend([host, ":...", path.rfind('@').map_or(path, |at| &path[at..])]);
        }
        (None, _) => shown.extend([authority, path]),
    }
    if let Some(query) = query {
        shown.push('?');
        let parts: Vec<String> = query.split('&').map(query_part).collect();
        shown.push_str(&parts.join("&"));
    }
    printable(&shown, 300)
}

/// Where host and port begin, with what stands before them: behind `scheme://` (libcurl takes one to three slashes), behind
/// the `//` of a redirect that keeps its scheme, or at the start of a text that has neither.
fn authority_start(text: &str) -> usize {
    let scheme = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
    let slashes = |at: usize| text[at..].bytes().take_while(|byte| *byte == b'/').count();
    match text[scheme..].starts_with(":/") {
        true => scheme + 1 + slashes(scheme + 1),
        false if text.starts_with("//") => slashes(0),
        false => 0,
    }
}

fn query_part(part: &str) -> String {
    match part.split_once('=') {
        Some((name, _)) if HARMLESS_QUERY.contains(&name.to_ascii_lowercase().as_str()) => part.to_owned(),
        Some((name, _)) => format!("{name}=..."),
        // A bare word may be a token.
        None if part.is_empty() => String::new(),
        None => "...".to_owned(),
    }
}

/// A header line, or the request line, as a log may show it.
pub fn header_line(line: &str) -> String {
    let line = line.trim_end();
    if let Some((name, _)) = line.split_once(':') {
        if HARMLESS.contains(&name.trim().to_ascii_lowercase().as_str()) {
            return printable(line, 300);
        }
        if !name.contains(' ') {
            return format!("{}: ...", printable(name, 80));
        }
    }
    let mut words = line.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some(version)) if version.starts_with("HTTP/") => {
            format!("{} {} {}", printable(method, 20), url(target), printable(version, 20))
        }
        _ => printable(line, 300),
    }
}

/// What libcurl tells of its work, as a log may show it: it names URLs as they were given, some between quotes.
pub fn remark(line: &str) -> String {
    let shown = line.split_inclusive(char::is_whitespace).map(|word| {
        // Also a target without scheme and host, for the sake of its query.
        if !word.contains("://") && !word.contains('?') {
            return word.to_owned();
        }
        let bare = word.trim_start_matches(['\'', '"', '<', '(', '[']);
        let end = if word.ends_with(char::is_whitespace) { " " } else { "" };
        format!("{}{}{end}", &word[..word.len() - bare.len()], url(bare.trim_end()))
    });
    let mut shown = shown.collect::<String>();
    // "Server auth using Basic with user 'NAME'": a token may stand in a name's place.
    if let Some(at) = shown.find("with user '") {
        shown.replace_range(at + "with user '".len().., "...'");
    }
    printable(&shown, 300)
}

/// A server's words without what it was sent: some repeat the request that they refuse. `url` and `headers` as they went
/// out.
pub fn echo(words: &str, url: &str, headers: &[impl AsRef<[u8]>]) -> String {
    let values = headers.iter().filter_map(|line| std::str::from_utf8(line.as_ref()).ok()?.split_once(':'));
    let values = values.filter(|(name, _)| !HARMLESS.contains(&name.trim().to_ascii_lowercase().as_str()));
    let mut secrets: Vec<&str> = values.flat_map(|(_, value)| value.split([' ', '\t', ',', ';', '"'])).collect();
    let query = url.split('#').next().and_then(|url| url.split_once('?')).map_or("", |(_, query)| query);
    secrets
        .extend(query.split('&').filter(|part| query_part(part) != *part).filter_map(|part| part.rsplit('=').next()));
    let authority = &url[authority_start(url).min(url.len())..];
    if let Some((user, _)) = authority.split('/').next().and_then(|authority| authority.rsplit_once('@')) {
        secrets.extend(user.split(':'));
    }
    // Shorter ones are words that may stand anywhere, and a signature names its parts.
    let parts = secrets.iter().flat_map(|secret| [Some(*secret), secret.split_once('=').map(|(_, value)| value)]);
    let mut parts: Vec<&str> = parts.flatten().filter(|secret| secret.len() >= 6).collect();
    parts.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    parts.iter().fold(words.to_owned(), |words, secret| words.replace(secret, "..."))
}

/// `text` on one line, control characters escaped, cut to `limit` characters.
pub fn printable(text: &str, limit: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(limit));
    for (i, character) in text.chars().enumerate() {
        if i == limit {
            shown.push_str("...");
            break;
        }
        if character.is_control() { shown.extend(character.escape_default()) } else { shown.push(character) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_signatures_and_tokens_do_not_show() {
        for (text, want) in [
            ("http://u:p@h:1/x#f", "http://h:1/x"),
            (
                "https://h/k?X-Amz-Signature=abc&X-Amz-Date=1&token",
                "https://h/k?X-Amz-Signature=...&X-Amz-Date=...&...",
            ),
            ("http://h/webhdfs/v1/x?op=OPEN&delegation=s3cr3t", "http://h/webhdfs/v1/x?op=OPEN&delegation=..."),
            ("http://h/a@b", "http://h/a@b"),
            ("http://u:p@ss@h/", "http://h/"),
            ("u:p@h/x\ny", "h/x\\ny"),
            ("//u:p@h:1/x", "//h:1/x"),
            ("http:/u:p@h/x", "http:/h/x"),
            ("http:///u:p@h/x", "http:///h/x"),
            ("http://u:p/w@h:1/x", "http://...:...@h:1/x"),
            ("http://u:p#w@h/x", "http://...:..."),
            ("http://u:p?w@h/x", "http://...:...?..."),
            ("http://h:port/x", "http://h:.../x"),
            ("http://[::1]:80/x", "http://[::1]:80/x"),
            ("/x@y/z:w", "/x@y/z:w"),
            ("x/y@z", "x/y@z"),
            ("h:80", "h:80"),
            ("", ""),
        ] {
            assert_eq!(url(text), want);
        }
    }

    #[test]
    fn a_remark_of_libcurls_shows_no_more_of_a_url_than_a_message_does() {
        for (line, want) in [
            (
                "Issue another request to this URL: 'http://u:s3cr3t@h:1/x?sig=s3cr3t&op=a#s3cr3t'",
                "Issue another request to this URL: 'http://h:1/x?sig=...&op=a",
            ),
            ("URL \"https://u:s3cr3t@h/\" is odd", "URL \"https://h/\" is odd"),
            ("a http://h/x?s3cr3t and /y?a=s3cr3t, both", "a http://h/x?... and /y?a=... both"),
            ("Connected to h (127.0.0.1) port 80\n", "Connected to h (127.0.0.1) port 80\\n"),
            ("Server auth using Basic with user 's3cr3t'", "Server auth using Basic with user '...'"),
            ("", ""),
        ] {
            assert_eq!(remark(line), want);
        }
    }

    #[test]
    fn what_was_sent_does_not_come_back_in_the_servers_words() {
        let headers = [
            "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/1/r/s3/aws4_request, SignedHeaders=host, Signature=abcdef012345",
            "x-amz-security-token: s3cr3t/token+==",
            "Accept: anything-at-all",
            "X-Key;",
        ];
        let url = "http://user:s3cr3t-pass@h/k?sig=s3cr3t%2Fsig&op=OPENOPEN#f";
        for (words, want) in [
            ("bad abcdef012345 for AKIDEXAMPLE/1/r/s3/aws4_request", "bad ... for ..."),
            ("<t>s3cr3t/token+==</t> anything-at-all", "<t>...</t> anything-at-all"),
            ("s3cr3t-pass, s3cr3t%2Fsig, OPENOPEN", "..., ..., OPENOPEN"),
            ("No such key", "No such key"),
        ] {
            assert_eq!(echo(words, url, &headers.map(str::as_bytes)), want);
        }
        assert_eq!(echo("as it is", "", &[] as &[&[u8]]), "as it is");
    }

    #[test]
    fn a_header_shows_only_if_it_is_known_to_be_harmless() {
        for (line, want) in [
            ("Range: bytes=0-9\r\n", "Range: bytes=0-9"),
            ("Authorization: Bearer s3cr3t", "Authorization: ..."),
            ("X-My-Own: s3cr3t", "X-My-Own: ..."),
            ("GET /k?sig=s3cr3t HTTP/1.1", "GET /k?sig=... HTTP/1.1"),
            ("HTTP/1.1 206 Partial Content", "HTTP/1.1 206 Partial Content"),
        ] {
            assert_eq!(header_line(line), want);
        }
    }
}
