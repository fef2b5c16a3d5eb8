//! URLs, redirects and header lines of the caller: no panic, no secret in a name or a message, and none that leaves its origin.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raskio::endpoint::site::Site;
use raskio::endpoint::{self, Origin, redact};
use raskio::object::ObjectOptions;
use raskio::sys::curl::Url;

const SECRET: &str = "s3cr3tW0rd";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = text.splitn(3, '\n');
    let (first, second, third) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));

    let without =
        |text: &str, marks: &str| text.chars().filter(|&character| !marks.contains(character)).collect::<String>();
    let (user, name) = (without(first, "/?#:@"), without(first, "#&="));
    // The secret is put in below; elsewhere it may show.
    if [text, &user, &name].iter().any(|text| text.to_ascii_lowercase().contains(&SECRET.to_ascii_lowercase())) {
        return;
    }

    for text in [first, second, third] {
        let shown = redact::url(text);
        assert!(!shown.chars().any(char::is_control), "{text:?} is shown as {shown:?}");
        redact::header_line(text);
        redact::remark(text);
        endpoint::infer(text);
    }

    as_parsed(&first.replacen('$', SECRET, 1));
    // A password right behind the user name, whatever stands around it.
    let url = format!("http://{user}:{SECRET}@{second}");
    quiet(&redact::url(&url), &url);
    if !url.contains(char::is_whitespace) {
        quiet(&redact::remark(&format!("Issue another request to this URL: '{url}'")), &url);
    }
    opened(&url, third);
    // In a query, and in the value of a header.
    if !["op", "offset", "length", "versionid", "partnumber", "list-type"].contains(&name.to_ascii_lowercase().as_str())
    {
        opened(&format!("http://h/?{name}={SECRET}"), third);
    }
    header(&format!("{first}:{second}{SECRET}"));
    redirected(second, third);
});

/// Nothing of the secret.
fn quiet(shown: &str, given: &str) {
    assert!(!shown.contains(SECRET), "{given:?} is shown as {shown:?}");
}

/// Where libcurl's parser sees the secret as one, it does not show.
fn as_parsed(text: &str) {
    let Ok(url) = Url::parse(text) else { return };
    let secret = |part: Option<String>| part.is_some_and(|part| part.contains(SECRET));
    // It stands in one place.
    if secret(url.user()) || secret(url.password()) {
        quiet(&redact::url(text), text);
    }
}

fn opened(url: &str, location: &str) {
    match endpoint::open(&Site::of_process(), url, &ObjectOptions::default()) {
        Ok(endpoint) => {
            quiet(endpoint.name(), url);
            match endpoint.redirect(&endpoint.target(), location) {
                Ok(target) => quiet(&target.name, location),
                Err(error) => quiet(&error.to_string(), location),
            }
        }
        Err(error) => quiet(&error.to_string(), url),
    }
}

fn header(line: &str) {
    let options = ObjectOptions { headers: vec![line.to_owned()], ..ObjectOptions::default() };
    match endpoint::open(&Site::of_process(), "http://h/", &options) {
        Ok(endpoint) => {
            let [header] = &endpoint.target().headers[..] else { panic!("one header was given") };
            assert!(!header.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n')), "{header:?}");
        }
        // The name of a header is no secret, and may be shown.
        Err(error) if !line.split(':').next().unwrap_or("").contains(SECRET) => quiet(&error.to_string(), line),
        Err(_) => {}
    }
}

fn redirected(first: &str, second: &str) {
    let options = ObjectOptions { headers: vec![format!("Authorization: {SECRET}")], ..ObjectOptions::default() };
    let Ok(endpoint) = endpoint::open(&Site::of_process(), "http://origin.test:8080/a/b?c", &options) else {
        panic!("a good URL")
    };
    let mut target = endpoint.target();
    for location in [first, second] {
        match endpoint.redirect(&target, location) {
            Ok(next) => {
                let parsed = Url::parse(next.url.to_str().expect("UTF-8 went in")).expect("what is dialled parses");
                assert_eq!(Origin::parse(&parsed), next.origin, "{location:?}");
                assert!(matches!(next.origin.scheme.as_str(), "http" | "https"), "{location:?}");
                let same = next.origin == endpoint.target().origin;
                assert_eq!(next.headers.len(), usize::from(same), "{location:?} leads to {:?}", next.origin);
                assert!(same || parsed.user().is_none(), "{location:?}");
                target = next;
            }
            Err(error) => quiet(&error.to_string(), location),
        }
    }
}
