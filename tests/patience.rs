//! A reactor is not woken for every packet of a large body (src/sys/curl/patience.rs), and no byte is left lying for that.

mod support;

use raskio::config::UNLIMITED;
use raskio::object::ObjectOptions;
use raskio_testserver::{Object, Reply, Server, get};
use std::ffi::c_int;
use std::time::Instant;
use support::{TestClient, for_both_backends, ms, read, start, tls};

const M: usize = 1 << 20;

fn server_of(len: usize) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len as u64));
    server
}

/// From how many bytes on the kernel tells of them, for each of this process's connections to the server.
fn told_from(server: &Server) -> Vec<c_int> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = descriptors.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<c_int>().ok());
    let of = |fd: c_int| {
        // SAFETY: plain data of ours is filled in, of the size that is said; whatever the number is, it is not taken for more than a socket.
        unsafe {
            let mut peer: libc::sockaddr_in = std::mem::zeroed();
            let mut size = size_of_val(&peer) as libc::socklen_t;
            let known = libc::getpeername(fd, (&raw mut peer).cast(), &raw mut size);
            if known != 0 || u16::from_be(peer.sin_port) != server.addr().port() {
                return None;
            }
            let mut bytes: c_int = 0;
            size = size_of_val(&bytes) as libc::socklen_t;
            let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
            (libc::getsockopt(fd, level, name, (&raw mut bytes).cast(), &raw mut size) == 0).then_some(bytes)
        }
    };
    numbers.filter_map(of).collect()
}

#[test]
fn a_large_body_that_comes_in_small_pieces_is_told_of_many_of_them_at_a_time() {
    for_both_backends(|backend| {
        let (server, client) = (server_of(4 * M), TestClient::new(backend));
        let object = client.open(&server.url("/data"));
        // It takes half a second, and all but its end is waited for, unless the machine is so busy that nothing comes for a quarter of one.
        let waits = (0..20).any(|_| {
            server.script(get("/data"), [Reply::object().rate(8 * M as u64)]);
            let mut reading = start(&object, 0, 4 * M);
            let mut waits = false;
            while !reading.is_over() {
                waits |= told_from(&server).contains(&(256 << 10));
                std::thread::sleep(ms(2));
            }
            reading.succeeds();
            waits
        });
        assert!(waits, "it never was");
        // And nothing is left of it for the next request.
        let left = told_from(&server);
        assert!(!left.is_empty() && left.iter().all(|&bytes| bytes == 1), "{left:?}");
    });
}

#[test]
fn a_body_that_slows_down_is_not_taken_for_one_that_has_stalled() {
    for_both_backends(|backend| {
        let server = server_of(M);
        let client = TestClient::with(backend, |options| options.stall_timeout_ms = Some(600));
        // What is waited for takes 1.3 s.
        server.script(get("/data"), [Reply::object().rate(200_000)]);
        let outcome = read(&client.open(&server.url("/data")), 0, M);
        assert_eq!(outcome.attempts, 1);
    });
}

#[test]
fn what_came_before_a_stall_is_not_asked_for_again_however_little_it_is() {
    for_both_backends(|backend| {
        let server = server_of(4 * M);
        let client = TestClient::with(backend, |options| options.stall_timeout_ms = Some(500));
        let first = M + 70_000;
        server.script(get("/data"), [Reply::object().stall_after(first as u64), Reply::object()]);
        read(&client.open(&server.url("/data")), 0, 4 * M);
        assert_eq!(server.ranges(), ["0-4194303".to_owned(), format!("{first}-4194303")]);
    });
}

/// The end of a body that nobody is told of would come a quarter of a second late at least, when stalls are looked for.
#[test]
fn neither_the_end_of_a_body_nor_a_small_one_after_it_is_ever_waited_for() {
    for_both_backends(|backend| {
        let server = server_of(3 * M);
        let relay = tls::start(server.addr()).unwrap();
        // Without a stall limit nothing is waited for.
        let [best, without] = [None, Some(UNLIMITED)].map(|stall_limit| {
            let client = TestClient::with(backend, |options| {
                options.num_threads = Some(1);
                options.max_concurrent_requests = Some(1);
                options.stall_timeout_ms = stall_limit;
            });
            let options = ObjectOptions { tls_unverified: true, ..ObjectOptions::default() };
            let secure = client.0.open(&format!("https://{relay}/data"), options).unwrap();
            [client.open(&server.url("/data")), secure].map(|object| {
                let times = (0..10).map(|number| {
                    server.script(get("/data"), [Reply::object().rate(16 * M as u64), Reply::object()]);
                    let began = Instant::now();
                    assert_eq!(read(&object, 0, M + number * 40_021).attempts, 1);
                    read(&object, number as u64, 1);
                    began.elapsed()
                });
                // Of ten, since a machine that is busy is late, too.
                times.min().unwrap()
            })
        });
        for (best, without) in best.into_iter().zip(without) {
            assert!(best < without + ms(200), "{best:?}, and {without:?} where nothing is waited for");
        }
    });
}
