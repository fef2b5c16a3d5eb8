//! Where credentials come from, how they are renewed, and that nobody waits for them who need not.

mod support;

use raskio::client::Hooks;
use raskio::credentials::{Grant, Held, Keys, Secret};
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object as Opened, ObjectOptions, ReadOptions};
use raskio_testserver::s3::error;
use raskio_testserver::{BlackHole, Gate, Object, Reply, RequestInfo, S3Account, Server, any, path};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use support::{TestClient, config, for_both_backends, ms, read, start, start_with, stat};

const KEY: &str = "s3cr3t/key+1";
/// Wherever the proxy variables point, nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

fn s3(account: S3Account) -> Server {
    let server = Server::start();
    server.on(any(), move |request: &RequestInfo| {
        Some(account.refusal(request).unwrap_or_else(|| Reply::serve(Object::pattern(1000))))
    });
    server
}

fn open(client: &TestClient, server: &Server) -> Arc<Opened> {
    let options = ObjectOptions { endpoint_url: Some(server.url("")), ..ObjectOptions::default() };
    client.0.open("s3://b/k", options).expect("an object")
}

fn json(id: &str, token: &str, lives: Duration) -> Reply {
    let until = SystemTime::now() + lives;
    let text = raskio::clock::amz_date(raskio::clock::unix_seconds(until));
    // 20300102T030405Z to 2030-01-02T03:04:05Z
    let iso =
        format!("{}-{}-{}T{}:{}:{}Z", &text[..4], &text[4..6], &text[6..8], &text[9..11], &text[11..13], &text[13..15]);
    let body = format!(
        "{{\"Code\":\"Success\",\"AccessKeyId\":\"{id}\",\"SecretAccessKey\":\"{KEY}\",\"Token\":\"{token}\",\"Expiration\":\"{iso}\"}}"
    );
    Reply::status(200).body(body)
}

/// An instance metadata service of version 2, whose credentials are the n-th ones of `id1`, `id2`, …
fn metadata(lives: Duration) -> (Server, Arc<AtomicUsize>) {
    let server = Server::start();
    let granted = Arc::new(AtomicUsize::new(0));
    let counter = granted.clone();
    server.on(any(), move |request: &RequestInfo| {
        let role = "/latest/meta-data/iam/security-credentials/";
        let has_token = request.header("X-aws-ec2-metadata-token") == Some("s3cr3t-metadata-token");
        let is_for_token = request.header("X-aws-ec2-metadata-token-ttl-seconds").is_some();
        Some(match (request.method.as_str(), request.path()) {
            ("PUT", "/latest/api/token") if is_for_token => Reply::status(200).body("s3cr3t-metadata-token"),
            ("GET", _) if !has_token => Reply::status(401),
            ("GET", at) if at == role => Reply::status(200).body("my role"),
            ("GET", at) if at == format!("{role}my%20role") => {
                let n = counter.fetch_add(1, Ordering::SeqCst) + 1;
                json(&format!("id{n}"), &format!("s3cr3t-token{n}"), lives)
            }
            _ => Reply::status(404),
        })
    });
    (server, granted)
}

/// Case 24.
#[test]
fn instance_credentials_are_asked_for_directly_and_anew_when_they_expire() {
    for_both_backends(|backend| {
        let (imds, granted) = metadata(Duration::from_secs(2));
        let server = Server::start();
        let began = Instant::now();
        server.on(any(), move |request: &RequestInfo| {
            // The first credentials are over after two seconds, for the server too.
            let first = request.header("x-amz-security-token") == Some("s3cr3t-token1");
            if first && began.elapsed() > Duration::from_secs(2) {
                return Some(error(400, "ExpiredToken", "The provided token has expired.", ""));
            }
            let n = if first { "1" } else { "2" };
            let account = S3Account::new(&format!("id{n}"), KEY, "us-east-1").token(&format!("s3cr3t-token{n}"));
            Some(account.refusal(request).unwrap_or_else(|| Reply::serve(Object::pattern(1000))))
        });
        let url = imds.url("");
        let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str()), ("HTTP_PROXY", NOWHERE)];
        let client = TestClient::in_environment(backend, &variables, |_| {});
        let object = open(&client, &server);
        read(&object, 0, 10);
        std::thread::sleep(Duration::from_secs(3));
        read(&object, 0, 10);
        assert_eq!(granted.load(Ordering::SeqCst), 2);
        // The token of the metadata service and the role are kept: the second time takes one question.
        let asked: Vec<_> = imds.log().iter().map(|request| request.method.clone()).collect();
        assert_eq!(asked, ["PUT", "GET", "GET", "GET"]);
    });
}

#[test]
fn a_server_that_says_expired_has_them_renewed_once() {
    for_both_backends(|backend| {
        for (status, code) in [(400, "ExpiredToken"), (403, "ExpiredTokenException")] {
            let (imds, granted) = metadata(Duration::from_secs(3600));
            let server = Server::start();
            server.on(any(), move |request: &RequestInfo| {
                let account = S3Account::new("id2", KEY, "us-east-1").token("s3cr3t-token2");
                let old = request.header("x-amz-security-token") == Some("s3cr3t-token1");
                Some(match old {
                    true => error(status, code, "over", ""),
                    false => account.refusal(request).unwrap_or_else(|| Reply::serve(Object::pattern(1000))),
                })
            });
            let url = imds.url("");
            let client = TestClient::in_environment(backend, &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)], |_| {});
            let object = open(&client, &server);
            assert_eq!(stat(&object).unwrap(), 1000);
            read(&object, 0, 1000);
            assert_eq!(granted.load(Ordering::SeqCst), 2);
            assert_eq!(client.stats().requests_retried, 0, "that costs no attempt");
        }
    });
}

#[test]
fn many_requests_that_hear_expired_ask_once_and_an_error_that_stays_is_told() {
    for_both_backends(|backend| {
        let (imds, granted) = metadata(Duration::from_secs(3600));
        let server = Server::start();
        server.on(any(), |_: &RequestInfo| Some(error(400, "ExpiredToken", "over", "").delay(ms(50))));
        let url = imds.url("");
        let client = TestClient::in_environment(backend, &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)], |_| {});
        let object = open(&client, &server);
        let options = ReadOptions { task_size: Some(100), ..ReadOptions::default() };
        let failure = start_with(&object, 0, 1000, &options).wait();
        failure.fails(ErrorKind::Http, &["ExpiredToken: over"]);
        let granted = granted.load(Ordering::SeqCst);
        assert!((2..=3).contains(&granted), "{granted}: once at first, once when they were refused");
    });
}

/// Options, callback, environment: each hides what comes after it.
#[test]
fn the_first_place_that_has_some_wins() {
    for_both_backends(|backend| {
        let file = Temp::new("[default]\naws_access_key_id = FILE\naws_secret_access_key = s3cr3t/key+1\n");
        let environment = [
            ("AWS_ACCESS_KEY_ID", "ENV"),
            ("AWS_SECRET_ACCESS_KEY", KEY),
            ("AWS_SESSION_TOKEN", "s3cr3t-env-token"),
            ("AWS_SHARED_CREDENTIALS_FILE", file.path()),
        ];
        let accounts = [
            S3Account::new("OPTION", KEY, "us-east-1"),
            S3Account::new("HOST", KEY, "us-east-1").token("s3cr3t-host-token"),
            S3Account::new("ENV", KEY, "us-east-1").token("s3cr3t-env-token"),
            S3Account::new("FILE", KEY, "us-east-1"),
        ];
        for (n, account) in accounts.into_iter().enumerate() {
            let server = s3(account);
            let variables = if n < 3 { &environment[..] } else { &environment[3..] };
            let client = TestClient::in_environment(backend, variables, |hooks| {
                if n < 2 {
                    hooks.secrets.keys = Some(Box::new(|| Ok(grant("HOST", Some("s3cr3t-host-token"), None))));
                }
            });
            let mut options = ObjectOptions { endpoint_url: Some(server.url("")), ..ObjectOptions::default() };
            if n == 0 {
                options.access_key_id = Some("OPTION".into());
                options.secret_access_key = Some(Secret::new(KEY));
            }
            read(&client.0.open("s3://b/k", options).unwrap(), 0, 10);
            assert_eq!(server.requests(), 1);
        }
    });
}

fn grant(id: &str, token: Option<&str>, lives: Option<Duration>) -> Grant {
    let keys = Keys {
        access_key_id: Secret::new(id),
        secret_access_key: Secret::new(KEY),
        session_token: token.map(Secret::new),
    };
    Grant { held: Held::Keys(keys), expires: lives.map(|lives| SystemTime::now() + lives) }
}

/// Waits inside a callback of the host until the gate is open.
fn pass(gate: &Gate) {
    while !gate.is_open() {
        std::thread::sleep(ms(5));
    }
}

/// A file that is gone with its test.
struct Temp(PathBuf);

impl Temp {
    fn new(text: &str) -> Temp {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("raskio-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Temp(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_profile_is_read_from_both_files_and_read_again_when_it_is_refused() {
    for_both_backends(|backend| {
        let config = Temp::new("[profile lake]\nregion = eu-south-2\naws_access_key_id = OLD\n");
        let credentials = Temp::new("[lake]\naws_access_key_id = ID1\naws_secret_access_key = s3cr3t/key+1\n");
        let account = Arc::new(Mutex::new(S3Account::new("ID1", KEY, "eu-south-2")));
        let of_server = account.clone();
        let server = Server::start();
        server.on(any(), move |request: &RequestInfo| {
            let account = of_server.lock().unwrap().clone();
            let known = request.header("Authorization").unwrap_or_default().contains(&account.access_key_id);
            let expired = (!known).then(|| error(400, "ExpiredToken", "over", ""));
            let refusal = expired.or_else(|| account.refusal(request));
            Some(refusal.unwrap_or_else(|| Reply::serve(Object::pattern(1000))))
        });
        let variables = [
            ("AWS_PROFILE", "lake"),
            ("AWS_CONFIG_FILE", config.path()),
            ("AWS_SHARED_CREDENTIALS_FILE", credentials.path()),
        ];
        let client = TestClient::in_environment(backend, &variables, |_| {});
        let object = open(&client, &server);
        read(&object, 0, 10);
        // Somebody logged in again.
        std::fs::write(credentials.path(), "[lake]\naws_access_key_id = ID2\naws_secret_access_key = s3cr3t/key+1\n")
            .unwrap();
        account.lock().unwrap().access_key_id = "ID2".into();
        read(&object, 0, 10);
        assert_eq!(server.requests(), 3);
        // A profile that is named and not there is no reason to go without.
        let client = TestClient::in_environment(backend, &[("AWS_PROFILE", "none"), variables[1]], |_| {});
        start(&open(&client, &server), 0, 10).fails(ErrorKind::InvalidArgument, &["\"none\"", "neither"]);
        // What RaskIO does not do, it says.
        let config = Temp::new("[profile p]\ncredential_process = /bin/false\n");
        let variables = [("AWS_PROFILE", "p"), ("AWS_CONFIG_FILE", config.path())];
        let client = TestClient::in_environment(backend, &variables, |_| {});
        start(&open(&client, &server), 0, 10).fails(ErrorKind::Unsupported, &["credential_process", "callback"]);
    });
}

#[test]
fn a_container_gives_credentials_to_who_has_its_token() {
    for_both_backends(|backend| {
        let container = Server::start();
        container.on(any(), |request: &RequestInfo| {
            let known = request.header("Authorization") == Some("s3cr3t-container-token");
            Some(if known { json("id1", "s3cr3t-token1", Duration::from_secs(3600)) } else { Reply::status(403) })
        });
        let server = s3(S3Account::new("id1", KEY, "us-east-1").token("s3cr3t-token1"));
        let url = container.url("/v2/credentials");
        let file = Temp::new("s3cr3t-container-token\n");
        for token in [
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "s3cr3t-container-token"),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.path()),
        ] {
            let variables = [
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
                token,
                ("http_proxy", NOWHERE),
                ("ALL_PROXY", NOWHERE),
            ];
            let client = TestClient::in_environment(backend, &variables, |_| {});
            read(&open(&client, &server), 0, 10);
        }
        // It was said that there are some: none is an error, not a reason to go without.
        let client =
            TestClient::in_environment(backend, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str())], |_| {});
        server.reset_counts();
        start(&open(&client, &server), 0, 10).fails(ErrorKind::PermissionDenied, &["container", "403"]);
        assert_eq!(server.requests(), 0);
    });
}

#[test]
fn a_token_goes_in_the_clear_to_this_machine_only() {
    let backend = raskio::config::Backend::MultiPoll;
    for (url, good) in [
        ("http://example.test/creds", false),
        ("http://169.254.169.254/creds", false),
        ("ftp://127.0.0.1/creds", false),
        ("no url", false),
        ("https://example.test/creds", true),
        ("http://127.9.9.9:1/creds", true),
        ("http://[::1]:1/creds", true),
        ("http://localhost/creds", true),
        ("http://169.254.170.23/v1/credentials", true),
    ] {
        let client = TestClient::in_environment(backend, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)], |_| {});
        let opened = client.0.open("s3://b/k", ObjectOptions::default());
        match opened {
            Ok(_) => assert!(good, "{url}"),
            Err(error) => {
                assert!(!good && error.message().contains("AWS_CONTAINER_CREDENTIALS_FULL_URI"), "{url}: {error}");
            }
        }
    }
    for (variables, word) in [
        (&[("AWS_ACCESS_KEY_ID", "a")][..], "AWS_SECRET_ACCESS_KEY is not"),
        (&[("AWS_SECRET_ACCESS_KEY", "s3cr3t")], "AWS_ACCESS_KEY_ID is not"),
        (&[("AWS_ACCESS_KEY_ID", "a\nb"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t")], "AWS_ACCESS_KEY_ID"),
        (&[("AWS_REGION", "Not A Region")], "AWS_REGION is \"Not A Region\""),
        (&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "x")], "begin with a slash"),
        (&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "nonsense")], "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
    ] {
        let client = TestClient::in_environment(backend, variables, |_| {});
        let error = client.0.open("s3://b/k", ObjectOptions::default()).err().expect("an error");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(word) && !error.message().contains("s3cr3t"), "{error}");
    }
}

#[test]
fn a_web_identity_is_turned_into_credentials() {
    for_both_backends(|backend| {
        let token = Temp::new("s3cr3t.web+token/=\n");
        let sts = Server::start();
        let answer = format!(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>\
             <Credentials><SessionToken>s3cr3t-token1</SessionToken><SecretAccessKey>{KEY}</SecretAccessKey>\
             <Expiration>2038-01-01T00:00:00Z</Expiration><AccessKeyId>id1</AccessKeyId></Credentials>\
             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        );
        sts.on(any(), move |request: &RequestInfo| {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let right = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Freader\
                         &RoleSessionName=raskio&WebIdentityToken=s3cr3t.web%2Btoken%2F%3D";
            Some(match (request.method.as_str(), body == right, request.query()) {
                ("POST", true, None) => Reply::status(200).body(answer.clone()),
                _ => error(400, "InvalidIdentityToken", "no", ""),
            })
        });
        let server = s3(S3Account::new("id1", KEY, "us-east-1").token("s3cr3t-token1"));
        let url = sts.url("/");
        let identity = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.path()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader"),
            ("AWS_ENDPOINT_URL_STS", url.as_str()),
        ];
        let client = TestClient::in_environment(backend, &identity, |_| {});
        read(&open(&client, &server), 0, 10);
        // The same by a profile.
        let config = Temp::new(&format!(
            "[default]\nrole_arn = arn:aws:iam::1:role/reader\nweb_identity_token_file = {}\n",
            token.path()
        ));
        let variables = [("AWS_CONFIG_FILE", config.path()), ("AWS_ENDPOINT_URL_STS", url.as_str())];
        let client = TestClient::in_environment(backend, &variables, |_| {});
        read(&open(&client, &server), 0, 10);
        // A refusal is an error with its code, and nothing of the token.
        std::fs::write(token.path(), "another-s3cr3t").unwrap();
        let client = TestClient::in_environment(backend, &identity, |_| {});
        let error = start(&open(&client, &server), 0, 10).fails(ErrorKind::PermissionDenied, &["InvalidIdentityToken"]);
        assert!(!error.message().contains("s3cr3t"), "{error}");
    });
}

#[test]
fn the_parts_of_a_key_stay_together_and_half_a_key_is_an_error() {
    for_both_backends(|backend| {
        let server = s3(S3Account::new("ID", KEY, "us-east-1"));
        let whole = "aws_access_key_id = ID\naws_secret_access_key = s3cr3t/key+1\n";
        let config = Temp::new("[default]\naws_access_key_id = O\naws_secret_access_key = O\naws_session_token = O\n");
        let read_with = |credentials: &str| {
            let credentials = Temp::new(credentials);
            let variables = [
                ("AWS_CONFIG_FILE", config.path()),
                ("AWS_SHARED_CREDENTIALS_FILE", credentials.path()),
                ("AWS_EC2_METADATA_DISABLED", "true"),
            ];
            let client = TestClient::in_environment(backend, &variables, |_| {});
            start(&open(&client, &server), 0, 10).wait()
        };
        read_with(&format!("[default]\n{whole}")).succeeds();
        assert_eq!(server.log()[0].header("x-amz-security-token"), None);
        server.reset_counts();
        for (half, words) in [
            ("aws_access_key_id = ID\n", ["aws_access_key_id is set", "aws_secret_access_key is not"]),
            ("aws_secret_access_key = s3cr3t\n", ["aws_secret_access_key is set", "aws_access_key_id is not"]),
        ] {
            std::fs::write(config.path(), "").unwrap();
            let outcome = read_with(&format!("[default]\n{half}"));
            let error = outcome.fails(ErrorKind::InvalidArgument, &words);
            assert!(!error.message().contains("s3cr3t"), "{error}");
        }
        assert_eq!(server.requests(), 0, "nothing goes out unsigned");
    });
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    for_both_backends(|backend| {
        let server = s3(S3Account::new("ID", KEY, "us-east-1"));
        let pipe = Temp::new("");
        std::fs::remove_file(pipe.path()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(pipe.path()).status().unwrap().success());
        for (path, kind, words) in [
            ("/dev/zero", ErrorKind::Io, "16 MiB"),
            ("/", ErrorKind::InvalidArgument, "directory"),
            (pipe.path(), ErrorKind::Io, "pipe"),
        ] {
            let variables = [("AWS_SHARED_CREDENTIALS_FILE", path), ("AWS_EC2_METADATA_DISABLED", "true")];
            let client = TestClient::in_environment(backend, &variables, |_| {});
            start(&open(&client, &server), 0, 10).fails(kind, &[path, "could not be read", words]);
            assert_eq!(server.requests(), 0, "nothing goes out unsigned");
            // It may not be needed.
            let (imds, _) = metadata(Duration::from_secs(3600));
            let url = imds.url("");
            let variables = [variables[0], ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)];
            let client = TestClient::in_environment(backend, &variables, |_| {});
            start(&open(&client, &s3(S3Account::new("id1", KEY, "us-east-1"))), 0, 10).wait();
            assert!(imds.requests() > 0);
        }
    });
}

#[test]
fn a_home_that_is_another_users_is_as_good_as_none() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.put("/b/k", Object::pattern(1000));
        // A path through a file, as one through a folder that may not be entered: what is in it cannot be known.
        let variables = [("AWS_SHARED_CREDENTIALS_FILE", "/dev/null/x"), ("AWS_EC2_METADATA_DISABLED", "true")];
        read(&open(&TestClient::in_environment(backend, &variables, |_| {}), &server), 0, 10);
    });
}

#[test]
fn a_metadata_service_that_is_there_and_says_nothing_is_no_missing_one() {
    for_both_backends(|backend| {
        let (slow, server) = (Server::start(), s3(S3Account::new("ID", KEY, "us-east-1")));
        slow.on(any(), |_: &RequestInfo| Some(Reply::object().never_answer()));
        let url = OsString::from(slow.url(""));
        let env = move |name: &str| (name == "AWS_EC2_METADATA_SERVICE_ENDPOINT").then(|| url.clone());
        let hooks = Hooks { env: Some(Arc::new(env)), ..Hooks::default() };
        let config = support::config(backend, |options| options.max_attempts = Some(1));
        let client = TestClient(raskio::client::Client::with(config, hooks).unwrap());
        start(&open(&client, &server), 0, 10).fails(ErrorKind::TimedOut, &["metadata"]);
        assert_eq!(server.requests(), 0, "nothing goes out unsigned");
    });
}

#[test]
fn a_busy_metadata_service_is_no_missing_one() {
    for_both_backends(|backend| {
        let (busy, server) = (Server::start(), s3(S3Account::new("ID", KEY, "us-east-1")));
        busy.on(any(), |_: &RequestInfo| Some(Reply::status(503)));
        let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", busy.url("")), ("HOME", String::new())];
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let client = TestClient::in_environment(backend, &variables, |_| {});
        start(&open(&client, &server), 0, 10).fails(ErrorKind::Unavailable, &["metadata", "503"]);
        assert_eq!(server.requests(), 0, "nothing goes out unsigned");
    });
}

#[test]
fn without_a_metadata_service_it_is_soon_clear_that_there_are_none() {
    for_both_backends(|backend| {
        let hole = BlackHole::new();
        let roleless = Server::start();
        roleless.script(path("/latest/api/token"), [Reply::status(200).body("t")]);
        let server = Server::start();
        server.put("/b/k", Object::pattern(1000));
        for url in [hole.url("").to_string(), NOWHERE.to_owned(), roleless.url("")] {
            let client = TestClient::in_environment(backend, &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)], |_| {});
            let began = Instant::now();
            let object = open(&client, &server);
            read(&object, 0, 10);
            assert!(began.elapsed() < Duration::from_secs(4), "{url}: {:?}", began.elapsed());
            read(&object, 0, 10);
        }
        assert!(server.log().iter().all(|request| request.header("Authorization").is_none()));
        assert_eq!(roleless.requests(), 2, "and that is remembered");
    });
}

#[test]
fn all_objects_of_a_client_share_one_question() {
    for_both_backends(|backend| {
        let asked = Arc::new(AtomicUsize::new(0));
        let threads = Arc::new(Mutex::new(Vec::new()));
        let (counter, names) = (asked.clone(), threads.clone());
        let client = TestClient::in_environment(backend, &[], move |hooks| {
            hooks.secrets.keys = Some(Box::new(move || {
                counter.fetch_add(1, Ordering::SeqCst);
                names.lock().unwrap().push(support::thread_name());
                std::thread::sleep(ms(100));
                Ok(grant("HOST", None, None))
            }));
        });
        let server = s3(S3Account::new("HOST", KEY, "us-east-1"));
        let options = ReadOptions { task_size: Some(100), ..ReadOptions::default() };
        let mut reads: Vec<_> = (0..20).map(|_| start_with(&open(&client, &server), 0, 1000, &options)).collect();
        reads.iter_mut().for_each(|read| drop(read.succeeds()));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!(*threads.lock().unwrap(), ["raskio-secrets"], "neither a reactor nor the caller");
    });
}

#[test]
fn the_host_is_asked_again_before_what_it_gave_expires() {
    for_both_backends(|backend| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let client = TestClient::in_environment(backend, &[], move |hooks| {
            hooks.secrets.keys = Some(Box::new(move || {
                counter.fetch_add(1, Ordering::SeqCst);
                Ok(grant("HOST", None, Some(Duration::from_secs(2))))
            }));
        });
        let server = s3(S3Account::new("HOST", KEY, "us-east-1"));
        let object = open(&client, &server);
        read(&object, 0, 10);
        std::thread::sleep(ms(1700));
        // In the last quarter of its life: used, and renewed meanwhile.
        read(&object, 0, 10);
        support::eventually("the renewal", || asked.load(Ordering::SeqCst) == 2);
    });
}

#[test]
fn an_error_of_the_host_ends_what_waits_for_it_and_nothing_else() {
    for_both_backends(|backend| {
        let client = TestClient::in_environment(backend, &[], |hooks| {
            hooks.secrets.keys =
                Some(Box::new(|| Err(Error::new(ErrorKind::PermissionDenied, "the credentials callback returned 7"))));
        });
        let server = s3(S3Account::new("HOST", KEY, "us-east-1"));
        let object = open(&client, &server);
        start(&object, 0, 10).fails(ErrorKind::PermissionDenied, &["s3://b/k", "returned 7"]);
        assert_eq!(stat(&object).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(server.requests(), 0);
        server.put("/plain", Object::pattern(100));
        server.clear_scripts();
        read(&client.open(&server.url("/plain")), 0, 100);
    });
}

/// The requests of one client wait while the host's callback is inside; the rest of the client goes on.
#[test]
fn whoever_waits_for_credentials_can_be_cancelled_and_holds_up_nobody() {
    for_both_backends(|backend| {
        let gate = Gate::new();
        let of_host = gate.clone();
        let client = TestClient::in_environment(backend, &[], move |hooks| {
            hooks.secrets.keys = Some(Box::new(move || {
                pass(&of_host);
                Ok(grant("HOST", None, None))
            }));
        });
        let server = s3(S3Account::new("HOST", KEY, "us-east-1"));
        let other = Server::start();
        other.put("/plain", Object::pattern(100));
        let object = open(&client, &server);
        let mut waiting: Vec<_> = (0..20).map(|_| start(&object, 0, 10)).collect();
        let mut late = {
            let options = ReadOptions { deadline: Some(ms(300)), ..ReadOptions::default() };
            start_with(&object, 0, 10, &options)
        };
        // They hold neither a permit nor a thread.
        for _ in 0..20 {
            read(&client.open(&other.url("/plain")), 0, 100);
        }
        waiting[0].op.cancel();
        waiting[0].fails(ErrorKind::Cancelled, &[]);
        late.fails(ErrorKind::TimedOut, &["deadline"]);
        assert!(!waiting[1].is_over());
        gate.open();
        waiting[1..].iter_mut().for_each(|read| drop(read.succeeds()));
    });
}

#[test]
fn shutting_down_ends_what_waits_and_waits_for_the_host() {
    for_both_backends(|backend| {
        let gate = Gate::new();
        let of_host = gate.clone();
        let mut hooks = Hooks { env: Some(Arc::new(|_| None)), ..Hooks::default() };
        hooks.secrets.keys = Some(Box::new(move || {
            pass(&of_host);
            Ok(grant("HOST", None, None))
        }));
        let client = raskio::client::Client::with(config(backend, |_| {}), hooks).unwrap();
        let server = s3(S3Account::new("HOST", KEY, "us-east-1"));
        let options = ObjectOptions { endpoint_url: Some(server.url("")), ..ObjectOptions::default() };
        let object = client.open("s3://b/k", options).unwrap();
        let mut waiting: Vec<_> = (0..20).map(|_| start(&object, 0, 10)).collect();
        std::thread::sleep(ms(100));
        let error = client.shut_down(Some(ms(500))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.message().contains("credentials"), "{error}");
        waiting.iter_mut().for_each(|read| drop(read.fails(ErrorKind::ShutDown, &[])));
        gate.open();
        client.shut_down(Some(support::LONG)).unwrap();
        assert_eq!(server.requests(), 0);
    });
}
