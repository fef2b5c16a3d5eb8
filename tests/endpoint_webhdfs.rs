//! WebHDFS, against a simulation of a name node and a data node (`raskio_testserver::webhdfs`) written from Hadoop's REST
//! specification.

mod support;

use raskio::credentials::Secret;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::webhdfs::Node;
use raskio_testserver::{Reply, RequestInfo, Server, WebHdfs, any};
use support::{TestClient, for_both_backends, read, read_fails, start_with, stat};

fn hdfs() -> WebHdfs {
    let hdfs = WebHdfs::start();
    hdfs.put("/d/file", Node::File(1000));
    hdfs.put("/d", Node::Folder);
    hdfs
}

fn targets(server: &Server) -> Vec<String> {
    server.log().iter().map(|request| request.target.clone()).collect()
}

/// Case 29.
#[test]
fn a_name_is_encoded_once_and_read_from_the_data_node() {
    for_both_backends(|backend| {
        let hdfs = hdfs();
        hdfs.put("/d/datestamp=2023-11-11/a b%c", Node::File(100));
        hdfs.only_for("a&b");
        let client = TestClient::new(backend);
        let options = ObjectOptions { user_name: Some("a&b".into()), ..ObjectOptions::default() };
        let wire = "/webhdfs/v1/d/datestamp=2023-11-11/a%20b%25c";
        let (pasted, encoded) = (hdfs.url("/d/datestamp=2023-11-11/a b%c"), hdfs.name_node.url(wire));
        let raw = pasted.replace("http://", "webhdfs://").replace("/webhdfs/v1", "");
        for url in [pasted, encoded, raw] {
            for server in [&hdfs.name_node, &hdfs.data_node] {
                server.reset_counts();
            }
            let object = client.0.open(&url, options.clone()).unwrap();
            assert_eq!(object.info().endpoint, 5);
            read(&object, 10, 20);
            assert_eq!(targets(&hdfs.name_node), [format!("{wire}?op=OPEN&offset=10&length=20&user.name=a%26b")]);
            assert_eq!(
                targets(&hdfs.data_node),
                [format!("{wire}?op=OPEN&offset=10&length=20&user.name=a%26b&namenoderpcaddress=localhost:9000")]
            );
            assert_eq!(hdfs.name_node.log()[0].header("Range"), None);
            assert_eq!(stat(&object).unwrap(), 100);
            assert_eq!(targets(&hdfs.name_node)[1], format!("{wire}?op=GETFILESTATUS&user.name=a%26b"));
        }
    });
}

#[test]
fn the_name_node_is_asked_for_each_range() {
    for_both_backends(|backend| {
        let hdfs = hdfs();
        let client = TestClient::new(backend);
        let object = client.open(&hdfs.url("/d/file"));
        let options = ReadOptions { task_size: Some(100), ..ReadOptions::default() };
        start_with(&object, 0, 1000, &options).succeeds();
        read(&object, 5, 10);
        assert_eq!((hdfs.name_node.requests(), hdfs.data_node.requests()), (11, 11));
    });
}

#[test]
fn the_user_comes_from_option_query_or_environment_and_a_token_stands_alone() {
    for_both_backends(|backend| {
        let hdfs = hdfs();
        let environment = [("KVIKIO_WEBHDFS_USERNAME", "env user")];
        for (query, option, token, variables, want) in [
            ("", None, None, &[][..], ""),
            ("", None, None, &environment[..], "&user.name=env%20user"),
            ("?user.name=query%2Buser", None, None, &environment[..], "&user.name=query%2Buser"),
            (
                "?op=OPEN&user.name=query&offset=7&length=1&doas=x",
                Some("option"),
                None,
                &environment[..],
                "&doas=x&user.name=option",
            ),
            ("?delegation=s3cr3t-tok%2Fen", None, None, &environment[..], "&delegation=s3cr3t-tok%2Fen"),
            (
                "?delegation=old",
                Some("option"),
                Some("s3cr3t-to/k=en"),
                &environment[..],
                "&delegation=s3cr3t-to%2Fk%3Den",
            ),
        ] {
            hdfs.name_node.reset_counts();
            let client = TestClient::in_environment(backend, variables, |_| {});
            let options = ObjectOptions {
                user_name: option.map(Into::into),
                session_token: token.map(Secret::new),
                ..ObjectOptions::default()
            };
            let object = client.0.open(&format!("{}{query}", hdfs.url("/d/file")), options).unwrap();
            assert!(!object.name().contains("s3cr3t"), "{}", object.name());
            assert_eq!(stat(&object).unwrap(), 1000);
            read(&object, 0, 10);
            let base = "/webhdfs/v1/d/file?op=";
            assert_eq!(
                targets(&hdfs.name_node),
                [format!("{base}GETFILESTATUS{want}"), format!("{base}OPEN&offset=0&length=10{want}")]
            );
        }
    });
}

#[test]
fn hadoops_errors_are_told_in_its_words() {
    for_both_backends(|backend| {
        let hdfs = hdfs();
        hdfs.put("/secret", Node::Forbidden);
        let client = TestClient::new(backend);
        let open = |path: &str| client.open(&hdfs.url(path));
        let words = ["FileNotFoundException: File does not exist: /none"];
        assert_eq!(read_fails(&open("/none"), 0, 10, ErrorKind::NotFound, &words).http_status(), 404);
        assert!(stat(&open("/none")).unwrap_err().message().contains(words[0]));
        read_fails(
            &open("/secret"),
            0,
            10,
            ErrorKind::PermissionDenied,
            &["AccessControlException: Permission denied"],
        );
        let error = stat(&open("/d")).unwrap_err();
        assert!(error.message().contains("folder") && error.message().contains("/webhdfs/v1/d"), "{error}");
        // Behind the end: the name node has no status for it.
        for (offset, len) in [(1000, 10), (990, 20), (5000, 1)] {
            read_fails(&open("/d/file"), offset, len, ErrorKind::Range, &[]);
        }
    });
}

/// HttpFS answers itself, in chunks and without a redirect.
#[test]
fn a_server_that_sends_no_redirect_and_no_length_is_read_too() {
    for_both_backends(|backend| {
        let server = Server::start();
        server.on(any(), |request: &RequestInfo| {
            let number = |name: &str| request.query_value(name).and_then(|value| value.parse::<u64>().ok());
            Some(match request.query_value("op").as_deref() {
                Some("OPEN") => {
                    let offset = number("offset").unwrap_or(0);
                    let len = number("length").unwrap_or(u64::MAX).min(1000u64.saturating_sub(offset));
                    let bytes = raskio_testserver::pattern_at(offset, len as usize);
                    Reply::serve(bytes).ignore_range().chunked()
                }
                _ => Reply::serve("{\"FileStatus\":{\"length\":1000,\"type\":\"FILE\"}}".to_owned())
                    .ignore_range()
                    .chunked(),
            })
        });
        let client = TestClient::new(backend);
        let object = client.open(&server.url("/webhdfs/v1/f"));
        assert_eq!(stat(&object).unwrap(), 1000);
        read(&object, 0, 1000);
        read(&object, 990, 10);
        assert!(server.log().iter().all(|request| request.method == "GET"));
        // A body that ends too early is no success.
        read_fails(&client.open(&server.url("/webhdfs/v1/f")), 990, 20, ErrorKind::Range, &["short"]);
    });
}

#[test]
fn a_cut_body_is_resumed_from_its_next_byte_by_way_of_the_name_node() {
    for_both_backends(|backend| {
        let hdfs = hdfs();
        let cut = std::sync::atomic::AtomicBool::new(true);
        hdfs.data_node.on(any(), move |request: &RequestInfo| {
            let first = cut.swap(false, std::sync::atomic::Ordering::SeqCst);
            let offset = request.query_value("offset").unwrap().parse().unwrap();
            let len = request.query_value("length").unwrap().parse().unwrap();
            let reply = Reply::serve(raskio_testserver::pattern_at(offset, len)).ignore_range();
            Some(if first { reply.reset_after(300) } else { reply })
        });
        let client = TestClient::new(backend);
        read(&client.open(&hdfs.url("/d/file")), 100, 800);
        let asked: Vec<_> = hdfs.name_node.log().iter().map(|request| request.query().unwrap().to_owned()).collect();
        assert_eq!(asked, ["op=OPEN&offset=100&length=800", "op=OPEN&offset=400&length=500"]);
    });
}

#[test]
fn a_size_that_was_cut_is_asked_for_again() {
    for_both_backends(|backend| {
        let hdfs = hdfs();
        let status = "{\"FileStatus\":{\"length\":1000,\"type\":\"FILE\"}}";
        hdfs.script(
            "/d/file",
            [
                Reply::serve(status.to_owned()).ignore_range().close_after(20),
                Reply::serve(status.to_owned()).ignore_range(),
            ],
        );
        let client = TestClient::new(backend);
        assert_eq!(stat(&client.open(&hdfs.url("/d/file"))).unwrap(), 1000);
        assert_eq!(hdfs.name_node.requests(), 2);
    });
}

#[test]
fn what_is_no_range_of_the_file_is_no_success() {
    for_both_backends(|backend| {
        let server = Server::start();
        let client = TestClient::new(backend);
        let bytes = || raskio_testserver::pattern_at(0, 100);
        for (reply, words) in [
            (Reply::serve(bytes()).ignore_range(), "ignored offset or length"),
            (Reply::serve(bytes()[..5].to_vec()).ignore_range(), "ends after"),
            (Reply::serve(bytes()[..10].to_vec()).ignore_range().header("Content-Encoding", "gzip"), "encoded"),
        ] {
            server.script(any(), [reply]);
            read_fails(&client.open(&server.url("/webhdfs/v1/f")), 0, 10, ErrorKind::Range, &[words]);
        }
        for body in ["", "{}", "[]", "{\"FileStatus\":{\"length\":-5}}", "<html>"] {
            server.script(any(), [Reply::serve(body.to_owned()).ignore_range()]);
            let error = stat(&client.open(&server.url("/webhdfs/v1/f"))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Range, "{body}: {error}");
            assert!(error.message().contains("GETFILESTATUS"), "{error}");
        }
    });
}
