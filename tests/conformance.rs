//! What every kind of endpoint promises over every transport: a new row in `endpoint::KINDS` is tested without a new
//! test, once it has a fixture here.

mod support;

use raskio::endpoint::{KINDS, Kind};
use raskio::error::ErrorKind;
use raskio::object::ReadOptions;
use raskio_testserver::{Object, Reply, Server, get, head};
use support::{TestClient, for_both_backends, read, start, stat, try_start};

const SIZE: u64 = 10_000;

/// One kind's storage, with the same contents behind all of them.
struct Fixture {
    server: Server,
    /// The object with [`SIZE`] bytes of the pattern.
    object: String,
    /// One of no bytes.
    empty: String,
    /// None at all.
    missing: String,
    /// One that may not be read.
    forbidden: String,
}

fn fixture(kind: &Kind) -> Fixture {
    let server = Server::start();
    match kind.name {
        "HTTP" => {
            server.put("/object", Object::pattern(SIZE));
            server.put("/empty", Object::pattern(0));
            server.script("/forbidden", [Reply::status(403)]);
            let url = |path| server.url(path);
            let (object, empty, missing, forbidden) =
                (url("/object"), url("/empty"), url("/missing"), url("/forbidden"));
            Fixture { object, empty, missing, forbidden, server }
        }
        name => panic!("the endpoint kind {name} has no fixture: add one, and this suite tests it"),
    }
}

fn each(test: impl Fn(&Fixture, &TestClient) + Sync) {
    for kind in KINDS {
        for_both_backends(|backend| {
            let fixture = fixture(kind);
            let client = TestClient::with(backend, |options| options.task_size = Some(3000));
            assert_eq!(client.open(&fixture.object).info().endpoint, kind.number);
            test(&fixture, &client);
        });
    }
}

#[test]
fn stat_tells_the_size_and_reads_keep_to_it() {
    each(|fixture, client| {
        let object = client.open(&fixture.object);
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
        let object = client.open(&fixture.object);
        for (offset, len) in [(0, 1), (1, 2999), (2999, 2), (0, 3000), (1, 9999), (0, 10_000)] {
            read(&object, offset, len);
        }
        assert_eq!(object.size(), Some(SIZE), "a read learns the size");
    });
}

#[test]
fn nothing_can_be_read_of_an_empty_object() {
    each(|fixture, client| {
        let object = client.open(&fixture.empty);
        assert_eq!(stat(&object).unwrap(), 0);
        assert_eq!(start(&object, 0, 0).succeeds().bytes, 0);
    });
}

#[test]
fn a_range_beyond_the_end_is_an_error_where_the_size_is_unknown() {
    each(|fixture, client| {
        for (offset, len) in [(SIZE, 10), (SIZE - 5, 10)] {
            start(&client.open(&fixture.object), offset, len).fails(ErrorKind::Range, &[]);
        }
    });
}

#[test]
fn what_is_missing_or_forbidden_says_so_and_names_the_object() {
    each(|fixture, client| {
        for (url, kind) in [(&fixture.missing, ErrorKind::NotFound), (&fixture.forbidden, ErrorKind::PermissionDenied)]
        {
            let object = client.open(url);
            start(&object, 0, 10).fails(kind, &[object.name()]);
            assert_eq!(stat(&object).unwrap_err().kind(), kind);
        }
    });
}

#[test]
fn a_server_that_is_busy_is_asked_again() {
    each(|fixture, client| {
        let path = fixture.object.rsplit_once('/').map(|(_, name)| format!("/{name}")).unwrap();
        fixture.server.script(get(&path), [Reply::status(503), Reply::object()]);
        fixture.server.script(head(&path), [Reply::status(503), Reply::object()]);
        let object = client.open(&fixture.object);
        assert_eq!(stat(&object).unwrap(), SIZE);
        read(&object, 100, 100);
        assert_eq!(client.stats().requests_retried, 2);
    });
}
