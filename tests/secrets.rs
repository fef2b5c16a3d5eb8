//! No secret of the caller's is in an error, a log line or a name, however verbose the log and whatever goes wrong.

mod support;

use raskio::credentials::Secret;
use raskio::error::Error;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::{BlackHole, Object, Reply, RequestInfo, Server, any, head};
use std::sync::Mutex;
use support::{TestClient, config, for_both_backends, start, stat, try_start};

/// Every secret holds this, and nothing else does.
const MARK: &str = "s3cr3t";
/// The same, as Basic authentication writes `user:s3cr3t-pass`.
const ENCODED: &str = "dXNlcjpzM2NyM3QtcGFzcw==";

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    let lower = text.to_lowercase();
    assert!(!lower.contains(MARK) && !text.contains(ENCODED), "a secret in {what}: {text}");
    // Also piece by piece, as a printed list of bytes would have it.
    assert!(!text.contains("115, 51, 99, 114, 51, 116"), "a secret in {what}, as numbers: {text}");
}

#[track_caller]
fn clean(error: &Error) {
    assert_clean("an error", &error.to_string());
    assert_clean("an error as Debug writes it", &format!("{error:?}"));
}

fn secret_url(server: &Server, path: &str) -> String {
    let url = server.url(path).replace("http://", "http://user:s3cr3t-pass@");
    format!(
        "{url}?X-Amz-Signature=s3cr3t-sig&X-Amz-Security-Token=s3cr3t-tok&s3cr3t-word&sig=%73s3cr3t#s3cr3t-fragment"
    )
}

fn options() -> ObjectOptions {
    let headers = ["Authorization: Bearer s3cr3t-bearer", "X-Api-Key: s3cr3t-key", "Cookie: a=s3cr3t-cookie"];
    ObjectOptions { headers: headers.map(Into::into).into(), ..ObjectOptions::default() }
}

/// Keys, tokens and passwords of each kind of endpoint, before a server that repeats whatever it was sent.
fn every_kind_of_secret(client: &TestClient, server: &Server) {
    let echo = |status| {
        move |request: &RequestInfo| {
            let sent = String::from_utf8_lossy(&request.raw_head).into_owned();
            let xml = format!("<Error><Code>ExpiredToken</Code><Message>{sent}</Message></Error>");
            let json = format!("{{\"RemoteException\":{{\"exception\":\"E\",\"message\":{:?}}}}}", request.target);
            let body = if request.path().starts_with("/webhdfs") { json } else { xml };
            Some(Reply::status(status).body(body))
        }
    };
    let secret = |text: &str| Some(Secret::new(text));
    let keys = || ObjectOptions {
        access_key_id: Some("S3CR3T-ID".into()),
        secret_access_key: secret("s3cr3t-signing-key"),
        session_token: secret("s3cr3t-session/token="),
        endpoint_url: Some(server.url("")),
        ..ObjectOptions::default()
    };
    let proxy = server.url("").replace("http://", "http://puser:s3cr3t-proxy@");
    for (url, options, sent) in [
        ("s3://b/data".to_owned(), keys(), "s3cr3t-session/token="),
        (
            server.url("/webhdfs/v1/data?delegation=s3cr3t-delegation"),
            ObjectOptions { user_name: Some("s3cr3t-user".into()), ..ObjectOptions::default() },
            "s3cr3t-delegation",
        ),
        (
            server.url("/data"),
            ObjectOptions { bearer_token: secret("s3cr3t-bearer-token"), ..ObjectOptions::default() },
            "s3cr3t-bearer-token",
        ),
        (
            "http://no-such-host.invalid/data?X-Amz-Signature=s3cr3t-presigned".to_owned(),
            ObjectOptions { proxy: Some(proxy), ..ObjectOptions::default() },
            "s3cr3t-presigned",
        ),
    ] {
        for status in [400, 403] {
            server.clear_scripts();
            server.on(any(), echo(status));
            let object = client.0.open(&url, options.clone()).expect("an object");
            assert_clean("a name", object.name());
            clean(start(&object, 0, 10).wait().error());
            clean(&stat(&object).unwrap_err());
        }
        let last = server.log().last().unwrap().clone();
        let head = String::from_utf8_lossy(&last.raw_head).into_owned();
        assert!(head.contains(sent), "{sent} did not arrive: {head}");
        assert_clean("options as Debug writes them", &format!("{:?}", options.session_token));
    }
    server.clear_scripts();
}

#[test]
fn no_secret_is_in_an_error_a_log_line_or_a_name() {
    let hook = Box::new(|record: &log::Record<'_>| {
        LINES.lock().unwrap().push(format!("{} {} {}", record.level(), record.target(), record.args()));
    });
    raskio::log::set_hook(Some(hook), log::LevelFilter::Trace).unwrap();
    for_both_backends(|backend| {
        let (server, other, hole) = (Server::start(), Server::start(), BlackHole::new());
        server.put("/data", Object::pattern(1000));
        other.put("/data", Object::pattern(1000));
        let mut settings = config(backend, |options| {
            options.stall_timeout_ms = Some(300);
            options.connect_timeout_ms = Some(300);
            options.max_attempts = Some(2);
        });
        settings.verbose = true;
        let client = TestClient::build(settings, None);
        let open = |url: &str| client.0.open(url, options()).expect("an object");

        // What works.
        let object = open(&secret_url(&server, "/data"));
        assert_clean("a name", object.name());
        assert_eq!(stat(&object).unwrap(), 1000);
        start(&object, 0, 1000).succeeds();
        // The server did get them, so there was something to hide.
        let sent = String::from_utf8_lossy(&server.log()[0].raw_head).into_owned();
        for secret in ["s3cr3t-bearer", "s3cr3t-key", "s3cr3t-cookie", "s3cr3t-sig"] {
            assert!(sent.contains(secret), "{secret} did not arrive: {sent}");
        }
        // Without a header that takes its place, the URL's password does too.
        client
            .0
            .open(&secret_url(&server, "/data"), ObjectOptions::default())
            .map(|object| stat(&object))
            .unwrap()
            .unwrap();
        assert!(String::from_utf8_lossy(&server.log().last().unwrap().raw_head).contains(ENCODED));

        // What goes wrong on the way.
        let elsewhere = other.url("/data?token=s3cr3t-location");
        let redirect = |to: &str| Reply::redirect(302, to);
        for (i, replies) in [
            vec![Reply::status(404)],
            vec![Reply::status(403)],
            vec![Reply::status(503)],
            vec![Reply::status(503), Reply::object()],
            vec![Reply::object().close_after(0)],
            vec![Reply::object().short_by(1)],
            vec![Reply::object().ignore_range()],
            vec![Reply::object().gzip_always()],
            vec![Reply::object().header("ETag", "\"other\"")],
            vec![Reply::never()],
            vec![Reply::reset()],
            // On a connection that is used again, libcurl sends the request once more by itself, and says so.
            vec![Reply::object(), Reply::close(), Reply::object()],
            vec![Reply::garbage()],
            vec![redirect(&elsewhere)],
            vec![redirect("/data?loop=s3cr3t-loop")],
            vec![redirect("ftp://user:s3cr3t-ftp@127.0.0.1/public?x=s3cr3t")],
            vec![redirect("http://user:s3cr3t-else@127.0.0.1:1/x")],
            vec![redirect("//user:s3cr3t-else@[")],
            vec![redirect("//user:s3cr3t-else@127.0.0.1:1/x")],
            vec![Reply::object().header("Set-Cookie", "id=s3cr3t-set"), Reply::object()],
        ]
        .into_iter()
        .enumerate()
        {
            server.script(any(), replies);
            let object = open(&secret_url(&server, "/data"));
            let outcome = start(&object, 10, 100).wait();
            outcome.error.iter().for_each(clean);
            stat(&object).err().iter().for_each(clean);
            assert!(outcome.error.is_some() || matches!(i, 3 | 8 | 11 | 13 | 19), "reply {i} was to fail");
        }
        server.script(head("/data"), [Reply::status(405)]);
        stat(&open(&secret_url(&server, "/data"))).err().iter().for_each(clean);

        // What does not get as far as a server.
        let unreachable =
            ["http://user:s3cr3t-pass@no-such-host.invalid/x?sig=s3cr3t", "http://u:s3cr3t@127.0.0.1:1/?s3cr3t"];
        for url in unreachable.map(str::to_owned).into_iter().chain([hole.url("/x?sig=s3cr3t")]) {
            clean(start(&open(&url), 0, 10).wait().error());
        }
        let object =
            client.0.open(&secret_url(&server, "/data"), ObjectOptions { size: Some(10), ..options() }).unwrap();
        clean(&try_start(&object, 8, 8, &ReadOptions::default()).err().expect("a refusal"));

        // What cannot be opened at all.
        for url in [
            "s3cr3t://user:s3cr3t-pass@host/x?s3cr3t",
            "http://user:s3cr3t-pass@host:port/x?sig=s3cr3t",
            "http://user:s3cr3t-pass@/x",
            "http://user:s3cr3t-pass@host/a\nb?x=s3cr3t",
            "user:s3cr3t-pass@host/x",
            "ftp://user:s3cr3t-pass@host/x?a=s3cr3t#s3cr3t",
            "http://user:s3cr3t pass@host/x",
        ] {
            let error = client.0.open(url, options()).err().unwrap_or_else(|| panic!("{url} was opened"));
            // A scheme is no secret, and says what was wrong.
            if !url.starts_with(MARK) {
                clean(&error);
            }
        }
        for header in ["no colon s3cr3t", "X-A: s3cr3t\r\nX-B: y", "Range: bytes=s3cr3t", "X-A: s3cr3t\0"] {
            let options = ObjectOptions { headers: vec![header.into()], ..ObjectOptions::default() };
            clean(&client.0.open(&server.url("/data"), options).err().expect("a refusal"));
        }
        every_kind_of_secret(&client, &other);
    });
    raskio::log::set_hook(None, log::LevelFilter::Off).unwrap();
    let lines = LINES.lock().unwrap();
    lines.iter().for_each(|line| assert_clean("a log line", line));
    // The log was as verbose as it gets: libcurl's view of requests and replies is in it.
    for words in [
        "GET /data?X-Amz-Signature=...&",
        "Authorization: ...",
        "X-Api-Key: ...",
        "HTTP/1.1 206",
        "Issue another request to this URL: 'http://127.0.0.1:",
        "x-amz-security-token: ...",
        "Proxy-Authorization: ...",
        "WARN",
    ] {
        assert!(lines.iter().any(|line| line.contains(words)), "{words:?} is in none of {} lines", lines.len());
    }
}
