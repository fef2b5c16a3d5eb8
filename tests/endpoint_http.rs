//! How servers are reached, and what they are shown: bearer tokens, proxies, unix sockets, IPv6. TLS is tested against
//! nginx by `scripts/stages/endpoints.sh`.

mod support;

use raskio::credentials::{Grant, Held, Secret};
use raskio::error::ErrorKind;
use raskio::object::{Object as Opened, ObjectOptions};
use raskio_testserver::{Object, Reply, RequestInfo, Server, any};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use support::{TestClient, child, for_both_backends, read, read_fails, relay, stat};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

#[track_caller]
fn open(client: &TestClient, url: &str, options: ObjectOptions) -> Arc<Opened> {
    client.0.open(url, options).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn authorization(request: &RequestInfo) -> &str {
    request.header("Authorization").unwrap_or("none")
}

#[test]
fn a_bearer_token_goes_to_the_objects_own_origin_only() {
    for_both_backends(|backend| {
        let (server, other) = (server_of(100), server_of(100));
        server.script("/moved", [Reply::redirect(302, "/data")]);
        server.script("/away", [Reply::redirect(302, &other.url("/data"))]);
        let client = TestClient::new(backend);
        for path in ["/data", "/moved", "/away"] {
            let options =
                ObjectOptions { bearer_token: Some(Secret::new("s3cr3t.tok/en=")), ..ObjectOptions::default() };
            let object = open(&client, &server.url(path), options);
            assert_eq!(stat(&object).unwrap(), 100);
            read(&object, 0, 100);
        }
        for request in server.log() {
            assert_eq!(authorization(&request), "Bearer s3cr3t.tok/en=", "{}", request.target);
        }
        assert_eq!(other.requests(), 2);
        for request in other.log() {
            assert!(!String::from_utf8_lossy(&request.raw_head).contains("s3cr3t"));
        }
    });
}

#[test]
fn a_token_of_the_host_is_asked_for_per_origin_and_anew_when_it_is_refused() {
    for_both_backends(|backend| {
        let (server, other) = (server_of(100), server_of(100));
        let refuses = |server: &Server| {
            server.on(any(), |request: &RequestInfo| {
                (!authorization(request).ends_with("2")).then(|| Reply::status(401))
            });
        };
        refuses(&server);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let client = TestClient::in_environment(backend, &[], move |hooks| {
            hooks.secrets.bearer = Some(Box::new(move |origin| {
                let mut log = log.lock().unwrap();
                log.push(origin.to_owned());
                let n = log.iter().filter(|other| *other == origin).count();
                Ok(Grant {
                    held: Held::Bearer(Secret::new(format!("s3cr3t-token{n}"))),
                    expires: Some(SystemTime::now() + Duration::from_secs(3600)),
                })
            }));
        });
        let options = || ObjectOptions { bearer_from_host: true, ..ObjectOptions::default() };
        let object = open(&client, &server.url("/data"), options());
        assert_eq!(stat(&object).unwrap(), 100);
        read(&object, 0, 100);
        read(&open(&client, &server.url("/data"), options()), 0, 100);
        let seen: Vec<_> = server.log().iter().map(|request| authorization(request).to_owned()).collect();
        assert_eq!(
            seen,
            ["Bearer s3cr3t-token1", "Bearer s3cr3t-token2", "Bearer s3cr3t-token2", "Bearer s3cr3t-token2"]
        );
        // Another origin has a token of its own; one that is refused twice is the answer.
        other.script(any(), [Reply::status(401)]);
        let object = open(&client, &other.url("/data"), options());
        read_fails(&object, 0, 10, ErrorKind::PermissionDenied, &["401"]);
        assert_eq!(other.requests(), 2);
        let origin = |server: &Server| server.url("");
        assert_eq!(*asked.lock().unwrap(), [origin(&server), origin(&server), origin(&other), origin(&other)]);
        // Who does not ask for it gets none.
        server.clear_scripts();
        server.reset_counts();
        read(&client.open(&server.url("/data")), 0, 10);
        assert_eq!(authorization(&server.log()[0]), "none");
    });
}

#[test]
fn a_token_that_cannot_be_sent_is_not_kept() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let asked = AtomicUsize::new(0);
        let client = TestClient::in_environment(backend, &[], move |hooks| {
            hooks.secrets.bearer = Some(Box::new(move |_| {
                let token = ["s3cr3t token", "s3cr3t-token"][asked.fetch_add(1, Ordering::SeqCst).min(1)];
                Ok(Grant { held: Held::Bearer(Secret::new(token)), expires: None })
            }));
        });
        let options = ObjectOptions { bearer_from_host: true, ..ObjectOptions::default() };
        let object = open(&client, &server.url("/data"), options);
        let error = read_fails(&object, 0, 10, ErrorKind::InvalidArgument, &["the bearer callback"]);
        assert!(!error.message().contains("s3cr3t"), "{error}");
        assert_eq!(server.requests(), 0);
        read(&object, 0, 10);
        assert_eq!(authorization(&server.log()[0]), "Bearer s3cr3t-token");
    });
}

#[test]
fn a_unix_socket_takes_the_place_of_host_and_port() {
    for_both_backends(|backend| {
        let (server, other) = (server_of(100), server_of(100));
        server.script("/away", [Reply::redirect(302, &other.url("/data"))]);
        let client = TestClient::new(backend);
        let folder = std::env::temp_dir().join(format!("raskio-{}-{backend:?}", std::process::id()));
        let path = folder.to_str().unwrap().to_owned();
        let abstract_name = format!("@raskio-{}-{backend:?}", std::process::id());
        for name in [path.as_str(), &abstract_name] {
            let count = relay::unix(name, server.addr()).unwrap();
            server.reset_counts();
            let options = || ObjectOptions { unix_socket: Some(name.into()), ..ObjectOptions::default() };
            // The name is never looked up.
            let object = open(&client, "http://no-such-host.invalid/data", options());
            assert_eq!(stat(&object).unwrap(), 100);
            read(&object, 0, 100);
            assert_eq!(server.log()[0].header("Host"), Some("no-such-host.invalid"));
            assert!(count.load(Ordering::SeqCst) >= 1);
            // A redirect elsewhere leaves the socket.
            read(&open(&client, "http://no-such-host.invalid/away", options()), 0, 100);
        }
        assert_eq!(other.requests(), 2);
        // Two objects of one host, by socket and without: never on each other's connection.
        let object = open(
            &client,
            &server.url("/data"),
            ObjectOptions { unix_socket: Some("/does/not/exist".into()), ..Default::default() },
        );
        read(&client.open(&server.url("/data")), 0, 10);
        read_fails(&object, 0, 10, ErrorKind::Connection, &[]);
        let _ = std::fs::remove_file(path);
    });
}

#[test]
fn an_ipv6_address_is_a_host_like_any_other() {
    for_both_backends(|backend| {
        let server = server_of(100);
        let Ok((port, count)) = relay::ipv6(server.addr()) else {
            eprintln!("this machine has no ::1");
            return;
        };
        let client = TestClient::new(backend);
        let object = client.open(&format!("http://[::1]:{port}/data"));
        assert_eq!(stat(&object).unwrap(), 100);
        read(&object, 0, 100);
        assert_eq!(server.log()[0].header("Host"), Some(format!("[::1]:{port}").as_str()));
        assert!(count.load(Ordering::SeqCst) >= 1);
    });
}

#[test]
fn a_proxy_of_the_options_gets_the_whole_url_and_its_own_password() {
    for_both_backends(|backend| {
        let proxy = server_of(100);
        let client = TestClient::new(backend);
        let url = proxy.url("").replace("http://", "http://puser:s3cr3t%40ss@");
        let options = |proxy: &str| ObjectOptions { proxy: Some(proxy.into()), ..ObjectOptions::default() };
        let object = open(&client, "http://no-such-host.invalid:8080/data?a=%3d", options(&url));
        assert_eq!(stat(&object).unwrap(), 100);
        read(&object, 0, 100);
        for request in proxy.log() {
            assert_eq!(request.target, "http://no-such-host.invalid:8080/data?a=%3d");
            // base64 of puser:s3cr3t@ss
            assert_eq!(request.header("Proxy-Authorization"), Some("Basic cHVzZXI6czNjcjN0QHNz"));
        }
        // A proxy that says no is an error with its status.
        proxy.script(any(), [Reply::status(407)]);
        read_fails(&object, 0, 10, ErrorKind::Http, &["407"]);
        // None at all: empty.
        let server = server_of(100);
        read(&open(&client, &server.url("/data"), options("")), 0, 100);
    });
}

/// Proxies of the environment, as libcurl reads it; and that metadata services are asked directly (case 24).
#[test]
fn proxies_of_the_environment_are_used_but_not_for_metadata() {
    const NAME: &str = "proxies_of_the_environment_are_used_but_not_for_metadata";
    if child::is_child() {
        let client_of = |backend| TestClient::build(support::config(backend, |_| {}), None);
        for_both_backends(|backend| {
            let client = client_of(backend);
            read(&client.open("http://proxied.invalid/data"), 0, 100);
            let direct = server_of(100);
            let url = direct.url("/data").replace("127.0.0.1", "localhost");
            read(&client.open(&url), 0, 100);
            assert_eq!(direct.log()[0].target, "/data");
            let options = ObjectOptions { proxy: Some(String::new()), ..ObjectOptions::default() };
            read(&open(&client, &direct.url("/data"), options), 0, 100);
            // S3 by way of the proxy, its credentials by a straight way.
            read(&client.open("s3://b/data"), 0, 100);
        });
        return;
    }
    let (proxy, metadata) = (server_of(100), Server::start());
    proxy.on(any(), |request: &RequestInfo| {
        assert!(request.target.starts_with("http://proxied.invalid/"), "{}", request.target);
        let signed = authorization(request).starts_with("AWS4-HMAC-SHA256 Credential=ID/");
        Some(match request.path() {
            "/b/data" if !signed => Reply::status(403),
            _ => Reply::serve(Object::pattern(100)),
        })
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    metadata.on(any(), move |request: &RequestInfo| {
        counter.fetch_add(1, Ordering::SeqCst);
        assert!(request.target.starts_with('/'), "{}", request.target);
        Some(match request.path() {
            "/latest/meta-data/iam/security-credentials/" => Reply::status(200).body("role"),
            "/latest/meta-data/iam/security-credentials/role" => Reply::status(200)
                .body("{\"AccessKeyId\":\"ID\",\"SecretAccessKey\":\"s3cr3t-K\",\"Token\":\"s3cr3t-T\"}"),
            _ => Reply::status(200).body("t"),
        })
    });
    let mut command = child::again(NAME);
    command.env("http_proxy", proxy.url("")).env("all_proxy", "http://127.0.0.1:9").env("no_proxy", "localhost");
    command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url("")).env("HOME", "/nonexistent");
    command.env("AWS_ENDPOINT_URL", "http://proxied.invalid");
    child::succeeds(&mut command);
    assert_eq!(asked.load(Ordering::SeqCst), 6, "both backends, three questions each");
}
