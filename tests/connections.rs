//! Connections are kept and used again, and one that died meanwhile costs nothing.

mod support;

use raskio::config::Backend;
use raskio_testserver::{Object, Reply, Server};
use support::{TestClient, for_both_backends, read, start_with};

fn server_of(len: u64) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len));
    server
}

/// One thread, so that the second read meets the first one's connection.
fn client(backend: Backend) -> TestClient {
    TestClient::with(backend, |options| options.num_threads = Some(1))
}

#[test]
fn one_connection_serves_read_after_read() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), client(backend));
        let object = client.open(&server.url("/data"));
        for _ in 0..20 {
            read(&object, 0, 100);
        }
        assert_eq!((server.requests(), server.connections()), (20, 1));
        let stats = client.stats();
        assert_eq!((stats.connections_opened, stats.connections_reused), (1, 19));
    });
}

/// Case 18: the end is announced.
#[test]
fn a_server_that_closes_after_each_reply_costs_no_attempt() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), client(backend));
        server.script("/data", [Reply::object().announce_close()]);
        let object = client.open(&server.url("/data"));
        for _ in 0..2 {
            assert_eq!(read(&object, 0, 100).attempts, 1);
        }
        assert_eq!((server.requests(), server.connections()), (2, 2));
        assert_eq!(client.stats().requests_retried, 0);
    });
}

/// Case 18: the end is not announced, and seen at once, later, or only when the request is sent.
#[test]
fn a_server_that_closes_idle_connections_costs_no_attempt() {
    for_both_backends(|backend| {
        for pause in [0, 20] {
            let server = server_of(100);
            let client = TestClient::with(backend, |options| {
                options.num_threads = Some(1);
                // A lost attempt would be the only one.
                options.max_attempts = Some(1);
            });
            server.script("/data", [Reply::object().close_silently()]);
            let object = client.open(&server.url("/data"));
            for _ in 0..10 {
                read(&object, 0, 100);
                std::thread::sleep(support::ms(pause));
            }
            assert_eq!(server.requests(), 10);
            assert_eq!(client.stats().requests_retried, 0);
        }
    });
}

#[test]
fn dead_kept_alive_connections_cost_no_attempt() {
    for_both_backends(|backend| {
        let server = server_of(100_000);
        let client = TestClient::with(backend, |options| options.max_attempts = Some(1));
        let object = client.open(&server.url("/data"));
        let options = raskio::object::ReadOptions { task_size: Some(1000), deadline: None };
        for _ in 0..5 {
            start_with(&object, 0, 100_000, &options).succeeds();
            server.drop_connections();
        }
        assert_eq!(server.requests(), 500);
        assert_eq!(client.stats().requests_retried, 0);
    });
}

/// The connection dies while the request is under way: libcurl could not have known.
#[test]
fn a_kept_alive_connection_that_dies_at_the_next_request_costs_no_attempt() {
    for_both_backends(|backend| {
        for last in [Reply::close(), Reply::reset()] {
            let server = server_of(100);
            let client = TestClient::with(backend, |options| {
                options.num_threads = Some(1);
                options.max_attempts = Some(1);
            });
            server.script("/data", [Reply::object(), last, Reply::object()]);
            let object = client.open(&server.url("/data"));
            read(&object, 0, 100);
            read(&object, 0, 100);
            assert_eq!((server.requests(), server.connections()), (3, 2));
        }
    });
}

/// A server that sends a body to a HEAD, or more than it announced: the next request finds the rest of it on the connection.
#[test]
fn what_is_left_of_the_last_reply_costs_a_connection_and_no_attempt() {
    for_both_backends(|backend| {
        for rest in ["left over, and no status line\r\n\r\n", "HTTP/0 left over\r\n\r\n", "\0\0\0\0"] {
            let server = server_of(100);
            let client = TestClient::with(backend, |options| {
                options.num_threads = Some(1);
                options.max_attempts = Some(1);
            });
            // As if the rest had come in front of the reply.
            server.script("/data", [Reply::object(), Reply::raw(rest), Reply::object()]);
            let object = client.open(&server.url("/data"));
            read(&object, 0, 100);
            read(&object, 0, 100);
            assert_eq!((server.requests(), server.connections()), (3, 2), "{rest:?}");
        }
    });
}

#[test]
fn a_server_that_was_restarted_is_read_again() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), client(backend));
        let object = client.open(&server.url("/data"));
        read(&object, 0, 100);
        server.refuse_connections();
        server.drop_connections();
        server.accept_connections();
        assert_eq!(read(&object, 0, 100).attempts, 1);
        assert_eq!(client.stats().requests_retried, 0);
    });
}

#[test]
fn trim_gives_idle_connections_back() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(100), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        read(&object, 0, 100);
        assert_eq!(server.counts().open_connections, 1);
        client.trim();
        assert!(server.wait_for(|counts| counts.open_connections == 0, support::LONG));
        read(&object, 0, 100);
    });
}
