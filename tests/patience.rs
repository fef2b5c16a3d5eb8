//! A reactor is not woken for every packet of a large body (src/sys/curl/patience.rs), and no byte is left lying for that.

mod support;

use raskio::config::{Backend, UNLIMITED};
use raskio::object::ObjectOptions;
use raskio_testserver::{Object, Reply, Server, get};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use support::{TestClient, for_both_backends, ms, read, tls};

const M: usize = 1 << 20;

fn server_of(len: usize) -> Server {
    let server = Server::start();
    server.put("/data", Object::pattern(len as u64));
    server
}

/// One test at a time: they count what the process's threads do.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often RaskIO's threads have gone to sleep.
fn naps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let ours = field("Name:")?.starts_with("raskio-");
        ours.then(|| field("voluntary_ctxt_switches:").unwrap().parse().unwrap())
    };
    tasks.filter_map(of).sum()
}

#[test]
fn a_large_body_that_comes_in_small_pieces_wakes_a_reactor_for_many_of_them_at_a_time() {
    let _alone = alone();
    let (server, client) = (server_of(4 * M), TestClient::new(Backend::MultiPoll));
    let object = client.open(&server.url("/data"));
    // Of five, since a machine that is so busy that nothing comes for a quarter of a second makes it give up.
    let woken = (0..5).map(|_| {
        server.script(get("/data"), [Reply::object().rate(8 * M as u64)]);
        let before = naps();
        read(&object, 0, 4 * M);
        naps() - before
    });
    let woken = woken.min().unwrap();
    // It comes in 50 pieces of 80 KB, of which the last few are told of one by one.
    assert!(woken < 35, "woken {woken} times");
}

#[test]
fn a_body_that_slows_down_is_not_taken_for_one_that_has_stalled() {
    let _alone = alone();
    for_both_backends(|backend| {
        let server = server_of(5 * M / 4);
        let client = TestClient::with(backend, |options| options.stall_timeout_ms = Some(300));
        // What is waited for takes 0.64 s.
        server.script(get("/data"), [Reply::object().rate(400_000)]);
        let outcome = read(&client.open(&server.url("/data")), 0, 5 * M / 4);
        assert_eq!(outcome.attempts, 1);
    });
}

#[test]
fn what_came_before_a_stall_is_not_asked_for_again_however_little_it_is() {
    let _alone = alone();
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
    let _alone = alone();
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
