//! What every kind of endpoint promises over every transport: a new row in `endpoint::KINDS` is tested without a new
//! test, once it has a fixture here.

mod support;

use raskio::batch::{BatchOptions, Gap};
use raskio::client::Client;
use raskio::config::{Backend, Overrides};
use raskio::credentials::Secret;
use raskio::endpoint::{KINDS, Kind};
use raskio::error::ErrorKind;
use raskio::object::{Object as Opened, ObjectOptions, ReadOptions};
use raskio_testserver::webhdfs::Node;
use raskio_testserver::{Object, Reply, RequestInfo, S3Account, Server, WebHdfs, any};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use support::batch::{Batch, range};
use support::files::{Directory, each_local_backend};
use support::{TestClient, for_both_backends, read, start, start_last, stat, try_start};

const SIZE: u64 = 10_000;

/// One kind's storage, with the same contents behind all of them.
struct Fixture {
    server: Storage,
    options: ObjectOptions,
    /// The object with [`SIZE`] bytes of the pattern.
    object: String,
    /// One of no bytes.
    empty: String,
    /// None at all.
    missing: String,
    /// One that may not be read.
    forbidden: String,
}

enum Storage {
    /// A directory, there for as long as it is needed: there is no server.
    Files(#[allow(dead_code)] Directory),
    Plain(Server),
    Hdfs(WebHdfs),
}

impl Fixture {
    fn open(&self, client: &Arc<Client>, url: &str) -> Arc<Opened> {
        client.open(url, self.options.clone()).expect("an object")
    }

    /// The first request of its kind for the object is answered with 503: of its method, range and operation.
    fn is_busy_once(&self) {
        match &self.server {
            Storage::Plain(server) => {
                let path = self.object.split('?').next().and_then(|url| url.rsplit_once('/')).expect("a path").1;
                for prefix in ["", "/bucket"] {
                    let path = format!("{prefix}/{path}");
                    let seen = Mutex::new(HashSet::new());
                    server.on(path.as_str(), move |request: &RequestInfo| {
                        let kind = (request.method.clone(), request.range_text().map(str::to_owned));
                        seen.lock().unwrap().insert(kind).then(|| Reply::status(503))
                    });
                }
            }
            Storage::Files(_) => {}
            Storage::Hdfs(hdfs) => {
                let seen = Mutex::new(HashSet::new());
                hdfs.name_node.on(any(), move |request: &RequestInfo| {
                    seen.lock().unwrap().insert(request.query_value("op")).then(|| Reply::status(503))
                });
            }
        }
    }
}

/// `of`: the object's URL by its name.
fn plain(options: ObjectOptions, server: Server, of: impl Fn(&Server, &str) -> String) -> Fixture {
    for prefix in ["", "/bucket"] {
        server.put(&format!("{prefix}/object"), Object::pattern(SIZE));
        server.put(&format!("{prefix}/empty"), Object::pattern(0));
        server.script(format!("{prefix}/forbidden").as_str(), [Reply::status(403)]);
    }
    let url = |name: &str| of(&server, name);
    let (object, empty, missing, forbidden) = (url("object"), url("empty"), url("missing"), url("forbidden"));
    Fixture { object, empty, missing, forbidden, options, server: Storage::Plain(server) }
}

fn fixture(kind: &Kind) -> Fixture {
    let server = Server::start();
    let endpoint = Some(kind.number);
    match kind.name {
        "HTTP" => plain(ObjectOptions::default(), server, |server, name| server.url(&format!("/{name}"))),
        "S3" => {
            let options = ObjectOptions {
                endpoint_url: Some(server.url("")),
                region: Some("eu-west-1".into()),
                access_key_id: Some("MINIO1".into()),
                secret_access_key: Some(Secret::new("key")),
                session_token: Some(Secret::new("token")),
                ..ObjectOptions::default()
            };
            let fixture = plain(options, server, |_, name| format!("s3://bucket/{name}"));
            let Storage::Plain(server) = &fixture.server else { unreachable!() };
            let account = S3Account::new("MINIO1", "key", "eu-west-1").token("token");
            server.on(any(), move |request: &_| account.refusal(request));
            fixture
        }
        "S3_PUBLIC" => {
            let options = ObjectOptions { endpoint, endpoint_url: Some(server.url("")), ..ObjectOptions::default() };
            plain(options, server, |_, name| format!("s3://bucket/{name}"))
        }
        "S3_PRESIGNED" => {
            server.on(any(), |request: &RequestInfo| {
                let signed =
                    request.method == "GET" && request.query_value("X-Amz-Signature").as_deref() == Some("a/b");
                (!signed).then(|| Reply::status(403))
            });
            let url = |server: &Server, name: &str| {
                server.url(&format!("/{name}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=a%2Fb"))
            };
            plain(ObjectOptions::default(), server, url)
        }
        "WEBHDFS" => {
            let hdfs = WebHdfs::start();
            hdfs.put("/object", Node::File(SIZE));
            hdfs.put("/empty", Node::File(0));
            hdfs.put("/forbidden", Node::Forbidden);
            let url = |name: &str| hdfs.url(&format!("/{name}"));
            let (object, empty, missing, forbidden) = (url("object"), url("empty"), url("missing"), url("forbidden"));
            let options = ObjectOptions::default();
            Fixture { object, empty, missing, forbidden, options, server: Storage::Hdfs(hdfs) }
        }
        "FILE" => {
            let files = Directory::new();
            let (object, empty) = (files.put("object", SIZE), files.put("empty", 0));
            let (missing, forbidden) = (files.path("missing"), files.forbidden());
            let options = ObjectOptions::default();
            Fixture { object, empty, missing, forbidden, options, server: Storage::Files(files) }
        }
        name => panic!("the endpoint kind {name} has no fixture: add one, and this suite tests it"),
    }
}

fn each(test: impl Fn(&Fixture, &TestClient) + Sync) {
    for kind in KINDS {
        let run = |change: &dyn Fn(&mut Overrides), backend: Backend| {
            let fixture = fixture(kind);
            let client = TestClient::with(backend, |options| {
                options.task_size = Some(3000);
                change(options);
            });
            assert_eq!(fixture.open(&client, &fixture.object).info().endpoint, kind.number);
            test(&fixture, &client);
        };
        match kind.name {
            // What moves remote objects does not touch it.
            "FILE" => each_local_backend(|local| {
                run(&|options| options.local_backend = Some(local), Backend::EasyThreadpool);
            }),
            _ => for_both_backends(|backend| run(&|_| {}, backend)),
        }
    }
}

#[test]
fn stat_tells_the_size_and_reads_keep_to_it() {
    each(|fixture, client| {
        let object = fixture.open(client, &fixture.object);
        assert_eq!(object.size(), None, "opening asks nobody");
        assert_eq!(stat(&object).unwrap(), SIZE);
        read(&object, 0, SIZE as usize);
        read(&object, SIZE - 1, 1);
        for (offset, len) in [(SIZE, 1), (SIZE - 1, 2), (0, SIZE as usize + 1), (u64::MAX, 1)] {
            let error = try_start(&object, offset, len, &ReadOptions::default()).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
    });
}

#[test]
fn any_range_can_be_read_without_a_stat() {
    each(|fixture, client| {
        let object = fixture.open(client, &fixture.object);
        for (offset, len) in [(0, 1), (1, 2999), (2999, 2), (0, 3000), (1, 9999), (0, 10_000)] {
            read(&object, offset, len);
        }
        // WebHDFS sends bytes, and says nothing about the file.
        let learns = !matches!(fixture.server, Storage::Hdfs(_));
        assert_eq!(object.size(), learns.then_some(SIZE), "a read learns the size");
    });
}

#[test]
fn nothing_can_be_read_of_an_empty_object() {
    each(|fixture, client| {
        let object = fixture.open(client, &fixture.empty);
        assert_eq!(stat(&object).unwrap(), 0);
        assert_eq!(start(&object, 0, 0).succeeds().bytes, 0);
    });
}

#[test]
fn a_range_beyond_the_end_is_an_error_where_the_size_is_unknown() {
    each(|fixture, client| {
        for (offset, len) in [(SIZE, 10), (SIZE - 5, 10)] {
            start(&fixture.open(client, &fixture.object), offset, len).fails(ErrorKind::Range, &[]);
        }
    });
}

#[test]
fn a_batch_reads_every_item_or_says_why_not() {
    each(|fixture, client| {
        let object = fixture.open(client, &fixture.object);
        let missing = fixture.open(client, &fixture.missing);
        // Over and behind the end of an object of unknown size: some share a request, some do not.
        let items = [
            range(&object, 5, 100),
            range(&object, 9_990, 20),
            range(&object, 50, 7000),
            range(&missing, 0, 10),
            range(&object, 9_000, 1000),
            range(&object, 10_000, 5),
            range(&object, 0, 0),
        ];
        for gap in [Gap::Default, Gap::Never] {
            let mut batch = Batch::start(client, &items, BatchOptions { gap, ..BatchOptions::default() });
            assert!(batch.wait().error.is_some());
            for good in [0, 2, 4, 6] {
                batch.item(good).succeeds();
            }
            batch.item(3).fails(ErrorKind::NotFound, &[missing.name()]);
            for bad in [1, 5] {
                let kind = batch.item(bad).error.as_ref().expect("an error").kind();
                // By its reply, or by what others had learned before.
                assert!(matches!(kind, ErrorKind::Range | ErrorKind::InvalidArgument), "{kind:?}");
            }
        }
    });
}

#[test]
fn the_end_of_an_object_is_found_whatever_its_size() {
    each(|fixture, client| {
        let options = ReadOptions::default();
        let object = fixture.open(client, &fixture.object);
        start_last(&object, 100, &options).succeeds_at(SIZE - 100, 100);
        assert_eq!(object.size(), Some(SIZE));
        // Longer than a task.
        start_last(&fixture.open(client, &fixture.object), 8000, &options).succeeds_at(SIZE - 8000, 8000);
        start_last(&fixture.open(client, &fixture.object), 20_000, &options).succeeds_at(0, SIZE as usize);
        start_last(&fixture.open(client, &fixture.empty), 100, &options).succeeds_at(0, 0);
        start_last(&fixture.open(client, &fixture.missing), 100, &options).fails(ErrorKind::NotFound, &["last 100"]);
    });
}

#[test]
fn what_is_missing_or_forbidden_says_so_and_names_the_object() {
    each(|fixture, client| {
        for (url, kind) in [(&fixture.missing, ErrorKind::NotFound), (&fixture.forbidden, ErrorKind::PermissionDenied)]
        {
            let object = fixture.open(client, url);
            start(&object, 0, 10).fails(kind, &[object.name()]);
            assert_eq!(stat(&object).unwrap_err().kind(), kind);
        }
    });
}

#[test]
fn a_server_that_is_busy_is_asked_again() {
    each(|fixture, client| {
        // Nobody is asked for a file.
        if matches!(fixture.server, Storage::Files(_)) {
            return;
        }
        fixture.is_busy_once();
        let object = fixture.open(client, &fixture.object);
        assert_eq!(stat(&object).unwrap(), SIZE);
        read(&object, 100, 100);
        assert_eq!(client.stats().requests_retried, 2);
    });
}
