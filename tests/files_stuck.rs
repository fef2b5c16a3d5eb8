//! Files that do not open: a file system may take as long as it likes, and operations end in time all the same.

mod support;

use raskio::batch::BatchOptions;
use raskio::config::Overrides;
use raskio::error::ErrorKind;
use raskio::object::{Object, ReadOptions};
use raskio::op::OpResult;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use support::batch::{Batch, last, range};
use support::files::{CACHED, Directory, Lease, client, each_local_backend, source, writable};
use support::{LONG, Outcome, Reading, child, eventually, ms, read, start, start_last, start_with, stat};

/// The kernel takes a lease back after 45 s; what has not ended by then has waited for that.
const SOON: Duration = Duration::from_secs(20);

fn within(limit: Duration) -> ReadOptions {
    ReadOptions { deadline: Some(limit), ..ReadOptions::default() }
}

fn one_thread(options: &mut Overrides) {
    options.num_threads = Some(1);
}

fn times_out(mut reading: Reading) {
    reading.wait_within(SOON).fails(ErrorKind::TimedOut, &["deadline"]);
    reading.buffer().assert_untouched();
}

/// Starts a stat or a write; its outcome comes.
fn outcome_of(
    begin: impl FnOnce(raskio::op::Completion) -> raskio::error::Result<raskio::object::Pending>,
) -> std::sync::mpsc::Receiver<Outcome> {
    let (sender, outcome) = channel();
    let done = Box::new(move |result: &OpResult<'_>| drop(sender.send(Outcome::of(result))));
    begin(done).expect("accepted").submit();
    outcome
}

#[test]
fn a_deadline_ends_what_opens_a_file_and_what_waits_behind_it() {
    let files = Directory::new();
    each_local_backend(|local| {
        let (path, other) = (files.put("stuck", 1000), files.put("other", 1000));
        let lease = Lease::on(&path);
        let client = client(local, CACHED, one_thread);
        let (stuck, other) = (writable(&client, &path), client.open(&other));
        let opens = start_with(&stuck, 0, 1000, &within(ms(200)));
        lease.wait_for_opener();
        let same = start_with(&stuck, 10, 100, &within(ms(150)));
        let end = start_last(&stuck, 100, &within(ms(100)));
        let behind = start_with(&other, 0, 1000, &within(ms(100)));
        let asked = outcome_of(|done| stuck.stat(&within(ms(100)), done));
        let bytes = vec![1u8; 100];
        let written = outcome_of(|done| stuck.write(0, source(&bytes), &within(ms(100)), true, done));
        let options = BatchOptions { read: within(ms(100)), ..BatchOptions::default() };
        let mut batch =
            Batch::start(&client.0, &[range(&stuck, 0, 10), range(&other, 0, 10), last(&stuck, 5)], options);
        [opens, same, end, behind].into_iter().for_each(times_out);
        for outcome in [asked, written] {
            outcome.recv_timeout(SOON).expect("a callback").fails(ErrorKind::TimedOut, &["deadline"]);
        }
        batch.wait_within(SOON).fails(ErrorKind::TimedOut, &["deadline"]);
        for item in 0..3 {
            batch.item(item).fails(ErrorKind::TimedOut, &["deadline"]);
        }
        // Nobody has any of them any more, and what comes now is served.
        lease.give_back();
        read(&stuck, 0, 1000);
        read(&other, 0, 1000);
    });
}

#[test]
fn a_cancel_ends_what_opens_a_file_and_what_waits_behind_it() {
    let files = Directory::new();
    each_local_backend(|local| {
        let (path, other) = (files.put("stuck", 1000), files.put("other", 1000));
        let lease = Lease::on(&path);
        let client = client(local, CACHED, one_thread);
        let (stuck, other) = (client.open(&path), client.open(&other));
        let opens = start(&stuck, 0, 1000);
        lease.wait_for_opener();
        for mut reading in [start(&stuck, 10, 100), start(&other, 0, 1000), opens] {
            reading.op.cancel();
            reading.wait_within(SOON).fails(ErrorKind::Cancelled, &[]);
            reading.buffer().assert_untouched();
        }
        // Of a file that is still being opened, and is then there.
        let mut later = start(&stuck, 0, 1000);
        lease.give_back();
        later.succeeds();
        read(&other, 0, 1000);
    });
}

#[test]
fn a_file_that_does_not_open_holds_no_other_up() {
    let files = Directory::new();
    each_local_backend(|local| {
        let path = files.put("stuck", 1000);
        let lease = Lease::on(&path);
        let client = client(local, CACHED, |options| options.num_threads = Some(2));
        let stuck = client.open(&path);
        let mut waiting: Vec<Reading> = (0..20).map(|_| start(&stuck, 0, 1000)).collect();
        lease.wait_for_opener();
        for i in 0..10 {
            let other = client.open(&files.put(&format!("other{i}"), 1000));
            start(&other, 0, 1000).wait_within(SOON).succeeds();
            assert_eq!(stat(&other).unwrap(), 1000);
        }
        assert!(!waiting.iter().any(Reading::is_over));
        lease.give_back();
        waiting.iter_mut().for_each(|reading| drop(reading.succeeds()));
    });
}

#[test]
fn a_write_that_waits_behind_a_read_of_a_missing_file_makes_it() {
    let files = Directory::new();
    each_local_backend(|local| {
        let path = files.put("stuck", 1000);
        let client = client(local, CACHED, one_thread);
        // A read makes no file, and a write that waits behind it does.
        let lease = Lease::on(&path);
        let first = client.open(&path);
        let mut opens = start(&first, 0, 1000);
        lease.wait_for_opener();
        let unmade = writable(&client, &files.path(&format!("unmade-{local:?}")));
        let mut reads = start(&unmade, 0, 10);
        let bytes = raskio_testserver::pattern(100);
        let written = outcome_of(|done| unmade.write(0, source(&bytes), &ReadOptions::default(), false, done));
        let asked = outcome_of(|done| unmade.stat(&ReadOptions::default(), done));
        lease.give_back();
        opens.succeeds();
        reads.fails(ErrorKind::NotFound, &["unmade"]);
        written.recv_timeout(LONG).expect("a callback").succeeds();
        asked.recv_timeout(LONG).expect("a callback").succeeds();
        read(&unmade, 0, 100);
    });
}

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|comm| comm.starts_with("raskio-")).count()
}

#[test]
fn a_shutdown_without_a_limit_leaves_a_thread_behind_that_the_system_does_not_let_go() {
    const TEST: &str = "a_shutdown_without_a_limit_leaves_a_thread_behind_that_the_system_does_not_let_go";
    if !child::is_child() {
        child::succeeds(&mut child::again(TEST));
        return;
    }
    let files = Directory::new();
    each_local_backend(|local| {
        let path = files.put("stuck", 1000);
        let lease = Lease::on(&path);
        let client = client(local, CACHED, |_| {});
        let stuck: Arc<Object> = client.open(&path);
        let mut readings: Vec<Reading> = (0..3).map(|_| start(&stuck, 0, 1000)).collect();
        lease.wait_for_opener();
        let began = Instant::now();
        let hurried = client.shut_down(Some(ms(1))).expect_err("a thread is busy");
        assert_eq!(hurried.kind(), ErrorKind::TimedOut);
        for reading in &mut readings {
            reading.wait_within(SOON).fails(ErrorKind::ShutDown, &[]);
            reading.buffer().assert_untouched();
        }
        client.shut_down(None).unwrap();
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(threads(), 1, "the one that opens");
        lease.give_back();
        eventually("it ends too", || threads() == 0);
    });
}

#[test]
fn a_process_that_opens_a_file_in_vain_ends_well() {
    const TEST: &str = "a_process_that_opens_a_file_in_vain_ends_well";
    if !child::is_child() {
        let began = Instant::now();
        let output = child::run(&mut child::again(TEST));
        assert!(output.status.success(), "{output:?}");
        assert!(began.elapsed() < SOON);
        return;
    }
    let files = Directory::new();
    let path = files.put("stuck", 1000);
    let lease = Lease::on(&path);
    let settings = raskio::config::Config::from_env(&raskio::config::Overrides::default()).unwrap();
    let client = raskio::client::Client::new(settings, None).unwrap();
    let object = client.open(&path, raskio::object::ObjectOptions::default()).unwrap();
    std::mem::forget(start(&object, 0, 1000));
    lease.wait_for_opener();
    drop(files);
    std::process::exit(0);
}
