//! S3: what is signed is what is sent, whatever the key and whoever the server; regions are put right; nothing is signed
//! for others. The server checks signatures by code of its own.

mod support;

use raskio::credentials::Secret;
use raskio::error::ErrorKind;
use raskio::object::{Object as Opened, ObjectOptions};
use raskio_testserver::s3::error;
use raskio_testserver::{Object, Reply, RequestInfo, S3Account, Server, any, head};
use std::sync::Arc;
use support::{TestClient, for_both_backends, read, read_fails, stat};

const KEY: &str = "s3cr3t/key+with=signs";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Serves the pattern at every path of the bucket, to whoever signs for this account.
fn s3(account: S3Account) -> Server {
    let server = Server::start();
    server.on(any(), move |request: &RequestInfo| {
        Some(account.refusal(request).unwrap_or_else(|| Reply::serve(Object::pattern(1000))))
    });
    server
}

fn with_keys(id: &str, token: Option<&str>) -> ObjectOptions {
    ObjectOptions {
        access_key_id: Some(id.into()),
        secret_access_key: Some(Secret::new(KEY)),
        session_token: token.map(Secret::new),
        region: Some("us-east-1".into()),
        ..ObjectOptions::default()
    }
}

fn at(server: &Server, options: ObjectOptions) -> ObjectOptions {
    ObjectOptions { endpoint_url: Some(server.url("")), ..options }
}

#[track_caller]
fn open(client: &TestClient, url: &str, options: ObjectOptions) -> Arc<Opened> {
    client.0.open(url, options).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// The region that the request was signed for.
fn scope(request: &RequestInfo) -> String {
    let authorization = request.header("Authorization").unwrap_or_default();
    authorization.split('/').nth(2).unwrap_or_default().to_owned()
}

/// Case 19.
#[test]
fn every_key_is_signed_as_it_is_sent() {
    for_both_backends(|backend| {
        let server = s3(S3Account::new("AKID", KEY, "us-east-1"));
        let client = TestClient::new(backend);
        for (key, wire) in [
            ("date=2025-09-15", "date%3D2025-09-15"),
            ("a+b", "a%2Bb"),
            ("a b", "a%20b"),
            ("50%.bin", "50%25.bin"),
            ("q?x", "q%3Fx"),
            ("h#1", "h%231"),
            ("u-ü", "u-%C3%BC"),
            ("!*'()", "%21%2A%27%28%29"),
            ("a@2x", "a%402x"),
            ("~t", "~t"),
            ("/lead", "/lead"),
            ("x//y", "x//y"),
            ("p/./q", "p/./q"),
            ("p/../q", "p/../q"),
            ("a%20b", "a%2520b"),
            ("&;:,$[]{}|\\^`\"<>", "%26%3B%3A%2C%24%5B%5D%7B%7D%7C%5C%5E%60%22%3C%3E"),
        ] {
            server.reset_counts();
            let object = open(&client, &format!("s3://b/{key}"), at(&server, with_keys("AKID", None)));
            assert_eq!(stat(&object).unwrap(), 1000, "{key}");
            read(&object, 10, 20);
            let targets: Vec<_> = server.log().iter().map(|request| request.target.clone()).collect();
            assert_eq!(targets, [format!("/b/{wire}"), format!("/b/{wire}")]);
        }
    });
}

/// An http URL is taken as it is: its own encoding is what is sent.
#[test]
fn a_url_is_sent_byte_for_byte_and_signed_as_the_server_reads_it() {
    for_both_backends(|backend| {
        let server = s3(S3Account::new("AKID", KEY, "us-east-1"));
        let client = TestClient::new(backend);
        for target in [
            "/b/date=2025-09-15",
            "/b/a%3db%2B+@:!*'()",
            "/b//x/./y/../z",
            "/b/%7e~",
            "/b/k?versionId=a%2Fb&partNumber=1",
            "/b/k?b&a=1",
        ] {
            server.reset_counts();
            let object = open(&client, &server.url(target), with_keys("AKID", None));
            assert_eq!(object.info().endpoint, 2, "keys make it S3");
            read(&object, 0, 10);
            assert_eq!(server.log()[0].target, target);
        }
    });
}

/// Case 20.
#[test]
fn the_host_is_signed_with_its_port_and_so_is_the_hash_of_the_body() {
    for_both_backends(|backend| {
        let server = s3(S3Account::new("AKID", KEY, "us-east-1"));
        let client = TestClient::new(backend);
        read(&open(&client, "s3://b/k", at(&server, with_keys("AKID", None))), 0, 10);
        let request = &server.log()[0];
        assert_eq!(request.header("Host"), Some(server.addr().to_string().as_str()));
        assert_eq!(request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).count(), 1);
        assert_eq!(request.header("x-amz-content-sha256"), Some(EMPTY));
        let authorization = request.header("Authorization").unwrap();
        assert!(authorization.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date,"), "{authorization}");
    });
}

/// Case 21.
#[test]
fn a_session_token_is_sent_and_signed_whatever_the_key_looks_like() {
    for_both_backends(|backend| {
        for id in ["MINIO1", "ASIAEXAMPLE", "AKIAEXAMPLE"] {
            let server = s3(S3Account::new(id, KEY, "us-east-1").token("s3cr3t-T/o+k=="));
            let client = TestClient::new(backend);
            read(&open(&client, "s3://b/k", at(&server, with_keys(id, Some("s3cr3t-T/o+k==")))), 0, 10);
            let request = &server.log()[0];
            assert_eq!(request.header("x-amz-security-token"), Some("s3cr3t-T/o+k=="));
            assert!(request.header("Authorization").unwrap().contains("x-amz-security-token"));
        }
    });
}

/// Case 22, and the rest of the order.
#[test]
fn the_region_comes_from_the_first_place_that_names_one() {
    let file = std::env::temp_dir().join(format!("raskio-config-{}", std::process::id()));
    std::fs::write(&file, "[profile p]\nregion = profile-1\n").unwrap();
    let path = file.to_str().unwrap();
    for_both_backends(|backend| {
        let keys = [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", KEY)];
        let all = [
            ("AWS_REGION", "first-1"),
            ("AWS_DEFAULT_REGION", "second-1"),
            ("AWS_CONFIG_FILE", path),
            ("AWS_PROFILE", "p"),
        ];
        for (variables, option, want) in [
            (&all[..1], None, "first-1"),
            (&all[..2], None, "first-1"),
            (&all[1..], None, "second-1"),
            (&all[2..], None, "profile-1"),
            (&all[..0], None, "us-east-1"),
            (&all[..], Some("option-1"), "option-1"),
        ] {
            let server = s3(S3Account::new("AKID", KEY, want));
            let client = TestClient::in_environment(backend, &[&keys[..], variables].concat(), |_| {});
            let options = ObjectOptions { region: option.map(Into::into), ..ObjectOptions::default() };
            read(&open(&client, "s3://b/k", at(&server, options)), 0, 10);
            assert_eq!(scope(&server.log()[0]), want);
            assert_eq!(server.requests(), 1, "right at once");
        }
    });
    let _ = std::fs::remove_file(file);
}

/// Case 23.
#[test]
fn without_credentials_requests_are_unsigned_and_a_refusal_stays_visible() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.put("/b/public", Object::pattern(1000));
        server.script("/b/private", [error(403, "AccessDenied", "Access Denied", "")]);
        let nothing = [("AWS_EC2_METADATA_DISABLED", "true")];
        let client = TestClient::in_environment(backend, &nothing, |_| {});
        let object = open(&client, "s3://b/public", at(&server, ObjectOptions::default()));
        assert_eq!(stat(&object).unwrap(), 1000);
        read(&object, 0, 1000);
        assert!(server.log().iter().all(|request| request.header("Authorization").is_none()));
        // Nobody had keys: the message says where they were looked for.
        let object = open(&client, "s3://b/private", at(&server, ObjectOptions::default()));
        let words = ["AccessDenied", "not signed", "AWS_ACCESS_KEY_ID is not set", "\"default\""];
        let error = read_fails(&object, 0, 10, ErrorKind::PermissionDenied, &words);
        assert_eq!(error.http_status(), 403);
        // Keys that are refused: no second try without them, which would hide why.
        server.reset_counts();
        let object = open(&client, "s3://b/private", at(&server, with_keys("AKID", None)));
        read_fails(&object, 0, 10, ErrorKind::PermissionDenied, &["AccessDenied: Access Denied"]);
        assert_eq!(stat(&object).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(server.log().iter().all(|request| request.header("Authorization").is_some()));
        // Asked for, nothing is signed, whatever there is.
        server.reset_counts();
        let keys = [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", KEY)];
        let client = TestClient::in_environment(backend, &keys, |_| {});
        let options = ObjectOptions { endpoint: Some(3), ..ObjectOptions::default() };
        read(&open(&client, "s3://b/public", at(&server, options)), 0, 10);
        assert_eq!(server.log()[0].header("Authorization"), None);
    });
}

#[test]
fn a_wrong_region_is_put_right_once_and_remembered() {
    for_both_backends(|backend| {
        // By the header, as AWS and MinIO say it; then by the body alone.
        for with_header in [true, false] {
            let account = S3Account::new("AKID", KEY, "eu-central-1");
            let server = Server::start();
            server.on(any(), move |request: &RequestInfo| {
                let refusal = account.refusal(request);
                let refusal =
                    refusal.map(|reply| if with_header { reply } else { reply.without_header("x-amz-bucket-region") });
                Some(refusal.unwrap_or_else(|| Reply::serve(Object::pattern(1000))))
            });
            let client = TestClient::new(backend);
            let object = open(&client, "s3://b/k", at(&server, with_keys("AKID", None)));
            read(&object, 0, 10);
            read(&object, 10, 10);
            assert_eq!(stat(&object).unwrap(), 1000);
            let scopes: Vec<_> = server.log().iter().map(|request| scope(request)).collect();
            assert_eq!(scopes, ["us-east-1", "eu-central-1", "eu-central-1", "eu-central-1"]);
            // The next object of the bucket knows, another bucket does not.
            server.reset_counts();
            read(&open(&client, "s3://b/other", at(&server, with_keys("AKID", None))), 0, 10);
            read(&open(&client, "s3://b2/k", at(&server, with_keys("AKID", None))), 0, 10);
            let scopes: Vec<_> = server.log().iter().map(|request| scope(request)).collect();
            assert_eq!(scopes, ["eu-central-1", "us-east-1", "eu-central-1"]);
            assert_eq!(client.stats().requests_retried, 0, "that costs no attempt");
        }
    });
}

#[test]
fn a_server_that_cannot_decide_on_a_region_is_asked_twice_and_no_more() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.on(any(), move |request: &RequestInfo| {
            let other = if scope(request) == "us-east-1" { "eu-west-1" } else { "us-east-1" };
            Some(error(400, "AuthorizationHeaderMalformed", "no", "").header("x-amz-bucket-region", other))
        });
        let client = TestClient::new(backend);
        let object = open(&client, "s3://b/k", at(&server, with_keys("AKID", None)));
        let failure = read_fails(&object, 0, 10, ErrorKind::Http, &["AuthorizationHeaderMalformed"]);
        assert_eq!((failure.http_status(), server.requests()), (400, 2));
        // What is no region is no region.
        server.reset_counts();
        server.on(any(), |_: &RequestInfo| {
            Some(error(301, "PermanentRedirect", "no", "").header("x-amz-bucket-region", "evil.example/#"))
        });
        let object = open(&client, "s3://b3/k", at(&server, with_keys("AKID", None)));
        read_fails(&object, 0, 10, ErrorKind::Http, &["PermanentRedirect"]);
        assert_eq!(server.requests(), 1);
    });
}

#[test]
fn another_services_region_may_be_called_as_it_likes_and_aws_s_may_not() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.on(any(), |request: &RequestInfo| Some(error(403, &scope(request), "no", "")));
        let client = TestClient::new(backend);
        let called = |name: &str| ObjectOptions { region: Some(name.into()), ..with_keys("AKID", None) };
        for name in ["RegionOne", "GRA", "us_east"] {
            let object = open(&client, "s3://b/k", at(&server, called(name)));
            read_fails(&object, 0, 10, ErrorKind::PermissionDenied, &[name]);
            let refused = client.0.open("s3://b/k", called(name)).err().expect("AWS has no such region");
            assert!(refused.message().contains("endpoint_url"), "{refused}");
        }
    });
}

/// The hosts of AWS, by way of a proxy that is the test server.
#[test]
fn at_aws_the_host_follows_the_region() {
    for_both_backends(|backend| {
        let proxy = Server::start();
        let account = S3Account::new("AKID", KEY, "eu-west-1");
        proxy.on(any(), move |request: &RequestInfo| {
            let host = request.header("Host").unwrap_or_default().to_owned();
            assert!(request.target.starts_with(&format!("http://{host}/")), "{}", request.target);
            if !host.contains("eu-west-1") {
                return Some(
                    error(301, "PermanentRedirect", "elsewhere", "").header("x-amz-bucket-region", "eu-west-1"),
                );
            }
            let signed = request.header("Authorization").is_some();
            let refusal = if signed { account.refusal(request) } else { None };
            Some(refusal.unwrap_or_else(|| Reply::serve(Object::pattern(1000))))
        });
        for (url, right) in [
            ("http://buck.s3.amazonaws.com/a=b//c", "http://buck.s3.eu-west-1.amazonaws.com/a=b//c"),
            (
                "http://s3.us-west-2.amazonaws.com/buck/a+b?versionId=x",
                "http://s3.eu-west-1.amazonaws.com/buck/a+b?versionId=x",
            ),
            ("http://s3-us-west-2.amazonaws.com/buck/k", "http://s3.eu-west-1.amazonaws.com/buck/k"),
            (
                "http://buck.s3.dualstack.us-east-1.amazonaws.com/k",
                "http://buck.s3.dualstack.eu-west-1.amazonaws.com/k",
            ),
        ] {
            for keys in [true, false] {
                let client = TestClient::new(backend);
                proxy.reset_counts();
                let options = if keys {
                    with_keys("AKID", None)
                } else {
                    ObjectOptions { endpoint: Some(3), ..Default::default() }
                };
                let object = open(&client, url, ObjectOptions { proxy: Some(proxy.url("")), region: None, ..options });
                read(&object, 0, 10);
                read(&object, 10, 10);
                let targets: Vec<_> = proxy.log().iter().map(|request| request.target.clone()).collect();
                assert_eq!(targets, [url, right, right]);
            }
        }
    });
}

#[test]
fn names_become_the_hosts_of_aws_and_of_other_services() {
    for_both_backends(|backend| {
        let proxy = Server::start();
        proxy.on(any(), |_: &RequestInfo| Some(Reply::serve(Object::pattern(1000))));
        let client = TestClient::in_environment(backend, &[], |_| {});
        for (url, service, style, want) in [
            ("s3://buck/k", Some("http://h.test:9000"), None, "http://h.test:9000/buck/k"),
            ("s3://buck/k", Some("http://h.test:9000/"), Some(true), "http://buck.h.test:9000/k"),
            ("s3://buck/k", Some("http://h.test/gate/"), Some(false), "http://h.test/gate/buck/k"),
        ] {
            proxy.reset_counts();
            let options = ObjectOptions {
                endpoint: Some(3),
                endpoint_url: service.map(Into::into),
                virtual_host: style,
                proxy: Some(proxy.url("")),
                ..ObjectOptions::default()
            };
            read(&open(&client, url, options), 0, 10);
            assert_eq!(proxy.log()[0].target, want);
        }
        for (url, style, want) in [
            ("s3://buck/k", None, "https://buck.s3.eu-west-1.amazonaws.com/k"),
            ("s3://buck.dots/k", None, "https://s3.eu-west-1.amazonaws.com/buck.dots/k"),
            ("s3://buck/k", Some(false), "https://s3.eu-west-1.amazonaws.com/buck/k"),
        ] {
            // What is dialled shows in the proxy's CONNECT, which is refused here.
            proxy.reset_counts();
            let options = ObjectOptions {
                endpoint: Some(3),
                region: Some("eu-west-1".into()),
                virtual_host: style,
                proxy: Some(proxy.url("")),
                ..ObjectOptions::default()
            };
            let object = open(&client, url, options);
            assert_eq!(object.name(), url);
            proxy.on(any(), |_: &RequestInfo| Some(Reply::status(403)));
            let _ = support::start(&object, 0, 10).wait().error();
            let host = want.trim_start_matches("https://").split('/').next().unwrap();
            assert_eq!(proxy.log()[0].target, format!("{host}:443"));
            assert_eq!(proxy.log()[0].method, "CONNECT");
            proxy.clear_scripts();
        }
    });
}

#[test]
fn the_service_comes_from_option_environment_and_profile() {
    let file = std::env::temp_dir().join(format!("raskio-service-{}", std::process::id()));
    for_both_backends(|backend| {
        let server = Server::start();
        server.put("/b/k", Object::pattern(1000));
        let (url, wrong) = (server.url(""), "http://127.0.0.1:9".to_owned());
        let path = format!("{}-{backend:?}", file.display());
        std::fs::write(&path, format!("[default]\nendpoint_url = {url}\n")).unwrap();
        for variables in [
            vec![("AWS_ENDPOINT_URL", url.as_str())],
            vec![("AWS_ENDPOINT_URL_S3", url.as_str()), ("AWS_ENDPOINT_URL", wrong.as_str())],
            vec![("AWS_CONFIG_FILE", path.as_str())],
        ] {
            let client = TestClient::in_environment(backend, &variables, |_| {});
            let options = ObjectOptions { endpoint: Some(3), ..ObjectOptions::default() };
            read(&open(&client, "s3://b/k", options), 0, 10);
        }
        let client = TestClient::in_environment(backend, &[("AWS_ENDPOINT_URL", "ftp://x/")], |_| {});
        let error = client.0.open("s3://b/k", ObjectOptions::default()).err().unwrap();
        assert!(error.message().contains("AWS_ENDPOINT_URL is \"ftp://x/\""), "{error}");
        let _ = std::fs::remove_file(path);
    });
}

#[test]
fn headers_of_s3_that_the_caller_adds_are_signed_too() {
    for_both_backends(|backend| {
        let server = s3(S3Account::new("AKID", KEY, "us-east-1"));
        let client = TestClient::new(backend);
        let headers = ["x-amz-request-payer:  requester ", "X-Amz-Meta-Two: b  c", "X-Other: z", "x-amz-meta-two: d"];
        let options = ObjectOptions { headers: headers.map(Into::into).into(), ..with_keys("AKID", None) };
        read(&open(&client, "s3://b/k", at(&server, options)), 0, 10);
        assert_eq!(server.log()[0].header("x-other"), Some("z"));
        for own in ["Authorization: a", "Host: h", "x-amz-date: d", "X-Amz-Security-Token: t"] {
            let options = ObjectOptions { headers: vec![own.into()], ..with_keys("AKID", None) };
            let error = client.0.open("s3://b/k", at(&server, options)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
    });
}

#[test]
fn one_signature_serves_many_requests() {
    for_both_backends(|backend| {
        let server = s3(S3Account::new("AKID", KEY, "us-east-1"));
        let client = TestClient::with(backend, |options| options.task_size = Some(10));
        read(&open(&client, "s3://b/k", at(&server, with_keys("AKID", None))), 0, 1000);
        let mut signatures: Vec<_> =
            server.log().iter().map(|request| request.header("Authorization").unwrap().to_owned()).collect();
        assert_eq!(signatures.len(), 100);
        signatures.sort();
        signatures.dedup();
        assert!(signatures.len() <= 2, "two if a minute ended meanwhile: {}", signatures.len());
    });
}

#[test]
fn a_redirect_elsewhere_takes_no_signature_along() {
    for_both_backends(|backend| {
        let (server, other) = (Server::start(), Server::start());
        other.put("/final", Object::pattern(1000));
        server.script(any(), [Reply::redirect(307, &other.url("/final"))]);
        let client = TestClient::new(backend);
        let object = open(&client, "s3://b/k", at(&server, with_keys("AKID", Some("s3cr3t-T"))));
        read(&object, 0, 10);
        assert_eq!(stat(&object).unwrap(), 1000);
        assert!(server.log()[0].header("Authorization").is_some());
        for request in other.log() {
            let sent = String::from_utf8_lossy(&request.raw_head).to_lowercase();
            assert!(!sent.contains("authorization") && !sent.contains("x-amz"), "{sent}");
        }
    });
}

#[test]
fn a_head_that_says_nothing_is_explained_by_a_get() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.script(any(), [error(403, "SignatureDoesNotMatch", "not the one", "")]);
        server.script(head("/b/k"), [Reply::status(403)]);
        let client = TestClient::new(backend);
        let object = open(&client, "s3://b/k", at(&server, with_keys("AKID", None)));
        let error = stat(&object).unwrap_err();
        assert!(error.message().contains("SignatureDoesNotMatch: not the one"), "{error}");
        assert!(!error.message().contains("AKID") && !error.message().contains(KEY), "{error}");
    });
}

#[test]
fn another_server_that_a_redirect_leads_to_says_nothing_of_the_buckets_region() {
    for_both_backends(|backend| {
        let (server, other) = (Server::start(), Server::start());
        server.script("/b/away", [Reply::redirect(307, &other.url("/x"))]);
        server.put("/b/k", Object::pattern(100));
        other.on(any(), |_: &RequestInfo| Some(Reply::status(400).header("x-amz-bucket-region", "eu-evil-1")));
        let client = TestClient::in_environment(backend, &[("AWS_EC2_METADATA_DISABLED", "true")], |_| {});
        let public =
            ObjectOptions { endpoint: Some(3), endpoint_url: Some(server.url("")), ..ObjectOptions::default() };
        let object = client.0.open("s3://b/away", public).expect("an object");
        read_fails(&object, 0, 10, ErrorKind::Http, &["400"]);
        assert_eq!(other.requests(), 1, "nor is it asked again");
        let signed = ObjectOptions {
            endpoint_url: Some(server.url("")),
            access_key_id: Some("ID".into()),
            secret_access_key: Some(Secret::new("s3cr3t/key+1")),
            ..ObjectOptions::default()
        };
        read(&client.0.open("s3://b/k", signed).expect("an object"), 0, 10);
        let signature = server.log()[1].header("Authorization").unwrap_or_default().to_owned();
        assert!(signature.contains("/us-east-1/s3/"), "{signature}");
    });
}
