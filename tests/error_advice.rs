//! An error says which setting to look at, where that can be known.

mod support;

use raskio::client::{Client, Hooks};
use raskio::error::ErrorKind;
use raskio::object::ObjectOptions;
use raskio_testserver::{Object, Reply, Server, any};
use std::ffi::OsString;
use std::net::TcpListener;
use std::sync::Arc;
use support::{TestClient, config, for_both_backends, ms, start};

fn server() -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(100));
    server
}

/// In an environment of these variables, with one attempt.
fn client(backend: raskio::config::Backend, variables: &'static [(&'static str, &'static str)]) -> TestClient {
    let env =
        move |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value));
    let hooks = Hooks { env: Some(Arc::new(env)), ..Hooks::default() };
    TestClient(Client::with(config(backend, |options| options.max_attempts = Some(1)), hooks).unwrap())
}

fn fails(client: &TestClient, url: &str, options: ObjectOptions, kind: ErrorKind, words: &[&str]) {
    start(&client.0.open(url, options).unwrap(), 0, 10).wait().fails(kind, words);
}

#[test]
fn an_s3_name_is_told_with_where_it_was_asked_for() {
    for_both_backends(|backend| {
        let server = server();
        let service = server.url("/twice");
        let options = ObjectOptions {
            endpoint_url: Some(service.clone()),
            access_key_id: Some("ID".into()),
            secret_access_key: Some(raskio::credentials::Secret::new("s3cr3t")),
            region: Some("eu-west-1".into()),
            ..ObjectOptions::default()
        };
        let words = ["s3://b/k", &format!("asked at {service}/b/k, region eu-west-1")];
        fails(&client(backend, &[]), "s3://b/k", options, ErrorKind::NotFound, &words);
    });
}

#[test]
fn keys_that_were_not_used_are_told_of() {
    for_both_backends(|backend| {
        let server = server();
        server.script(any(), [Reply::status(403), Reply::status(403)]);
        let url = server.url("/b/k");
        let hint = "not signed; if it is S3, set endpoint to RASKIO_ENDPOINT_S3";
        fails(
            &client(backend, &[("AWS_ACCESS_KEY_ID", "a")]),
            &url,
            ObjectOptions::default(),
            ErrorKind::PermissionDenied,
            &[hint],
        );
        let outcome = start(&client(backend, &[]).open(&url), 0, 10).wait();
        assert!(!outcome.error().message().contains("S3"), "{outcome:?}");
    });
}

#[test]
fn a_port_that_speaks_another_protocol_is_told_of() {
    for_both_backends(|backend| {
        let server = server();
        let url = server.url("/data").replace("http://", "https://");
        fails(&client(backend, &[]), &url, ObjectOptions::default(), ErrorKind::Tls, &["plain http", "write http://"]);
        // What a TLS server does with a request that it cannot read.
        server.script(any(), [Reply::raw("").delay(ms(1))]);
        let words = ["Empty reply", "write https://"];
        fails(&client(backend, &[]), &server.url("/data"), ObjectOptions::default(), ErrorKind::Connection, &words);
    });
}

#[test]
fn a_proxy_at_fault_is_named_without_its_password() {
    for_both_backends(|backend| {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = nobody.local_addr().unwrap().port();
        drop(nobody);
        let through = |proxy: String| ObjectOptions { proxy: Some(proxy), ..ObjectOptions::default() };
        let options = through(format!("http://u:s3cr3t@127.0.0.1:{port}"));
        let words = ["proxy that cannot be reached", &format!("http://127.0.0.1:{port}"), "from the option proxy"];
        let outcome = start(&client(backend, &[]).0.open("http://h.example/x", options).unwrap(), 0, 10).wait();
        let error = outcome.fails(ErrorKind::Connection, &words);
        assert!(!error.message().contains("s3cr3t"), "{error}");
        // One that refuses, for plain http and for a tunnel.
        let proxy = server();
        proxy.on(any(), |_: &raskio_testserver::RequestInfo| Some(Reply::status(407)));
        for url in ["http://h.example/x", "https://h.example/x"] {
            let outcome = start(&client(backend, &[]).0.open(url, through(proxy.url(""))).unwrap(), 0, 10).wait();
            let error =
                outcome.fails(ErrorKind::Http, &["407", "http://user:password@host:port", "from the option proxy"]);
            assert_eq!(error.http_status(), 407, "{error}");
            assert_eq!(outcome.attempts, 1, "{url}");
        }
    });
}

#[test]
fn certificate_authorities_are_named_with_the_setting_that_chose_them() {
    for_both_backends(|backend| {
        let client = client(backend, &[("CURL_CA_BUNDLE", "/no/such.pem"), ("SSL_CERT_FILE", "/neither.pem")]);
        let words = ["/no/such.pem, from CURL_CA_BUNDLE", "the option ca_file names others"];
        fails(
            &client,
            &server().url("/data").replace("http", "https"),
            ObjectOptions::default(),
            ErrorKind::Tls,
            &words,
        );
    });
}

/// A request that libcurl does not take is never sent, however often it is tried.
#[test]
fn a_request_that_is_too_long_is_told_with_its_size_and_the_limit() {
    for_both_backends(|backend| {
        let server = server();
        let secret = "s3cr3t".repeat(200_000);
        let long = |bytes: usize| ObjectOptions {
            headers: vec!["X-Short: x".to_owned(), format!("X-Long: {}", &secret[..bytes])],
            ..ObjectOptions::default()
        };
        let client = TestClient::new(backend);
        let object = client.0.open(&server.url("/data"), long(1_100_000)).unwrap();
        let words = ["URL and headers have 1100", "1100010 of them the header X-Long", "at most 1048576", "shorter"];
        let outcome = start(&object, 0, 10).wait();
        let error = outcome.fails(ErrorKind::InvalidArgument, &words);
        assert!(!error.message().contains("s3cr3t"), "{error}");
        assert_eq!((outcome.attempts, server.requests()), (1, 0));
    });
}
