//! Local files are read like remote objects, through the system's cache and past it.

mod support;

use raskio::batch::{BatchOptions, Gap};
use raskio::config::LocalBackend;
use raskio::error::ErrorKind;
use raskio::object::{ObjectOptions, ReadOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use support::batch::{Batch, last, range};
use support::files::{CACHED, DIRECT, Directory, Lease, OVER, client, each_local_backend, has_uring};
use support::{LONG, ms, read, start, start_last, start_with, stat};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

#[test]
fn every_range_arrives_whole_through_the_cache_and_past_it() {
    let files = Directory::new();
    let path = files.put("data", 2 * MIB as u64 + 77);
    each_local_backend(|local| {
        for past in [CACHED, DIRECT, OVER] {
            for task_size in [4 << 20, 4096, 100_000] {
                let client = client(local, past, |options| options.task_size = Some(task_size));
                let object = client.open(&path);
                let small = [(0, 1), (4095, 2), (4096, 4096), (1, 8191), (5000, 20_000), (4096, 100_000)];
                for (offset, len) in small {
                    read(&object, offset, len);
                }
                let large = if task_size == 4096 { MIB / 4 } else { 2 * MIB - 4096 };
                for offset in [0, 4093] {
                    read(&object, offset, large);
                }
                let end = 2 * MIB as u64 + 77;
                read(&object, end - 77, 77);
                read(&object, end - 5000, 5000);
                start_last(&client.open(&path), 9000, &ReadOptions::default()).succeeds_at(end - 9000, 9000);
            }
        }
    });
}

/// Case 30.
#[test]
fn the_last_piece_of_a_file_that_is_not_aligned_is_read_past_the_cache() {
    let files = Directory::new();
    let path = files.put("data", 4196);
    each_local_backend(|local| {
        for past in [DIRECT, OVER] {
            let client = client(local, past, |_| {});
            let object = client.open(&path);
            read(&object, 4096, 100);
            start(&client.open(&path), 4096, 101).fails(ErrorKind::Range, &["4196 bytes"]);
            start(&client.open(&path), 8192, 1).fails(ErrorKind::Range, &["4196 bytes"]);
        }
    });
}

#[test]
fn the_statistics_tell_which_way_the_bytes_went() {
    let files = Directory::new();
    let path = files.put("data", MIB as u64);
    each_local_backend(|local| {
        for (past, cached) in [(CACHED, u64::MAX), (DIRECT, 8191), (OVER, 0)] {
            let client = client(local, past, |_| {});
            let object = client.open(&path);
            read(&object, 4000, MIB / 2 + 999);
            let stats = client.stats();
            assert_eq!(stats.file_bytes_read, MIB as u64 / 2 + 999);
            let direct = stats.file_bytes_read_direct;
            if past == CACHED {
                assert_eq!(direct, 0);
            } else if direct > 0 {
                // The ragged ends, of less than 4 KiB each.
                assert!(stats.file_bytes_read - direct <= cached, "{past:?}: {direct}");
            } else {
                eprintln!("the build directory's file system has no O_DIRECT");
            }
            let uring = if local == LocalBackend::Uring { stats.file_bytes_read } else { 0 };
            assert_eq!((stats.file_bytes_uring, stats.bytes_received), (uring, 0));
        }
    });
}

#[test]
fn a_path_that_is_given_to_another_file_mixes_no_two_files() {
    let files = Directory::new();
    let path = files.path("data");
    let (a, b) = (files.path("a"), files.path("b"));
    let len = 64 * KIB - 100;
    std::fs::write(&path, vec![b'A'; len]).unwrap();
    each_local_backend(|local| {
        let client = client(local, DIRECT, |_| {});
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for (new, byte) in [(&b, b'B'), (&a, b'A')] {
                        std::fs::write(new, vec![byte; len]).unwrap();
                        std::fs::rename(new, &path).unwrap();
                    }
                }
            });
            for _ in 0..300 {
                let mut reading = start(&client.open(&path), 0, len);
                reading.wait().succeeds();
                let found = reading.buffer().bytes();
                let other = found.iter().position(|byte| *byte != found[0]);
                stop.store(other.is_some(), Ordering::Relaxed);
                assert_eq!(other, None, "the bytes of two files");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_read_of_a_file_that_is_being_opened_is_accepted_at_once() {
    let files = Directory::new();
    each_local_backend(|local| {
        let path = files.put("leased", 1000);
        let lease = Lease::on(&path);
        let client = client(local, CACHED, |_| {});
        let object = client.open(&path);
        let mut first = start(&object, 0, 1000);
        lease.wait_for_opener();
        let mut second = start(&object, 10, 100);
        assert!(!first.is_over() && !second.is_over());
        lease.give_back();
        first.succeeds();
        second.succeeds();
    });
}

#[test]
fn an_objects_option_comes_before_the_settings() {
    let files = Directory::new();
    let path = files.put("data", MIB as u64);
    each_local_backend(|local| {
        let direct_bytes = |past, wanted| {
            let client = client(local, past, |_| {});
            let options = ObjectOptions { direct: wanted, ..ObjectOptions::default() };
            read(&client.0.open(&path, options).unwrap(), 0, MIB);
            client.stats().file_bytes_read_direct
        };
        let possible = direct_bytes(DIRECT, None);
        assert_eq!(direct_bytes(CACHED, Some(true)), possible);
        assert_eq!(direct_bytes(DIRECT, Some(false)), 0);
    });
}

#[test]
fn a_batch_of_scattered_ranges_of_several_files_arrives() {
    let files = Directory::new();
    let paths: Vec<String> = (0..3).map(|i| files.put(&format!("file{i}"), 2 * MIB as u64 + i)).collect();
    each_local_backend(|local| {
        for past in [CACHED, DIRECT, OVER] {
            let client = client(local, past, |_| {});
            let objects: Vec<_> = paths.iter().map(|path| client.open(path)).collect();
            let mut items: Vec<_> = (0..200)
                .map(|i| range(&objects[i % 3], (i * 37_321 % (2 * MIB - 9000)) as u64, 1 + i * 13 % 9000))
                .collect();
            // Beside each other, large enough to be lent, overlapping, and the end.
            items.extend((0..4).map(|i| range(&objects[0], i * 200_000, 200_000)));
            items.push(range(&objects[0], 100_000, 300_000));
            for gap in [Gap::Default, Gap::Never, Gap::Bytes(10_000)] {
                let mut batch = Batch::start(&client, &items, BatchOptions { gap, ..BatchOptions::default() });
                batch.wait().succeeds();
                for item in 0..items.len() {
                    batch.item(item).succeeds();
                }
            }
            let mut batch = Batch::start(&client, &[last(&client.open(&paths[1]), 5000)], BatchOptions::default());
            batch.wait().succeeds();
            batch.item(0).succeeds_at(2 * MIB as u64 + 1 - 5000, 5000);
        }
    });
}

#[test]
fn a_file_is_named_by_a_url_or_by_a_path() {
    let files = Directory::new();
    let path = files.put("a b%41?#\u{fc}", 100);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let encoded = path.replace('%', "%25").replace(' ', "%20").replace('?', "%3f").replace('#', "%23");
        for url in
            [path.clone(), format!("file://{encoded}"), format!("file:{encoded}"), format!("FILE://localhost{encoded}")]
        {
            let object = client.open(&url);
            assert_eq!((object.name(), stat(&object).unwrap()), (path.as_str(), 100));
            read(&object, 1, 99);
        }
        // Any name, if it is said that it is one.
        let options = ObjectOptions { endpoint: Some(6), ..ObjectOptions::default() };
        let object = client.0.open("Cargo.toml", options).unwrap();
        assert!(stat(&object).unwrap() > 1000);
    });
}

#[test]
fn what_is_no_file_says_what_it_is() {
    let files = Directory::new();
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        start(&client.open(&files.path("")), 0, 1).fails(ErrorKind::InvalidArgument, &["is a directory"]);
        start(&client.open("/dev/zero"), 0, 1).fails(ErrorKind::InvalidArgument, &["/dev/zero", "at an offset"]);
        let gone = files.path("gone/file");
        start(&client.open(&gone), 0, 1).fails(ErrorKind::NotFound, &[&gone, "bytes 0-0", "No such file"]);
        let error = client.open(&gone).drop_cache().unwrap_err();
        assert_eq!((error.kind(), error.os_code()), (ErrorKind::NotFound, libc::ENOENT));
    });
}

#[test]
fn a_file_that_shrinks_under_a_read_is_short_and_one_that_changed_is_changed() {
    let files = Directory::new();
    each_local_backend(|local| {
        for past in [CACHED, DIRECT, OVER] {
            let path = files.put("data", 100_000);
            let client = client(local, past, |_| {});
            let object = client.open(&path);
            assert_eq!(stat(&object).unwrap(), 100_000);
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(50_000).unwrap();
            start(&object, 0, 100_000).fails(ErrorKind::Range, &["ends after 50000 bytes"]);
            assert_eq!(stat(&object).unwrap_err().kind(), ErrorKind::ObjectChanged);
            // What is there is there.
            read(&object, 40_000, 10_000);
        }
    });
}

#[test]
fn dropping_the_cache_leaves_the_bytes_as_they_are() {
    let files = Directory::new();
    let path = files.put("data", MIB as u64);
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let object = client.open(&path);
        for _ in 0..2 {
            object.drop_cache().unwrap();
            read(&object, 0, MIB);
        }
        let remote = client.open("http://localhost:1/x");
        assert_eq!(remote.drop_cache().unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn many_reads_at_once_keep_to_the_depth_and_all_arrive() {
    let files = Directory::new();
    let path = files.put("data", 4 * MIB as u64);
    each_local_backend(|local| {
        for (depth, budget) in [(1, 256), (8, 3), (64, 256)] {
            let client = client(local, CACHED, |options| {
                options.uring_queue_depth = Some(depth);
                options.max_concurrent_requests = Some(budget);
                options.task_size = Some(10_000);
            });
            let object = client.open(&path);
            let mut readings: Vec<_> =
                (0..100).map(|i| start(&object, i * 40_000, 1 + 777 * (i as usize) % 50_000)).collect();
            for reading in &mut readings {
                assert!(client.stats().requests_in_flight <= u64::from(depth.min(budget).max(8)));
                reading.succeeds();
            }
        }
    });
}

#[test]
fn a_cancel_a_deadline_and_a_shutdown_end_what_waits() {
    let files = Directory::new();
    let path = files.put("data", 4 * MIB as u64);
    each_local_backend(|local| {
        let client = client(local, CACHED, |options| {
            options.task_size = Some(1000);
            options.max_concurrent_requests = Some(1);
        });
        let object = client.open(&path);
        let mut reading = start(&object, 0, 4 * MIB);
        reading.op.cancel();
        let outcome = reading.wait();
        assert!(outcome.error.is_none_or(|error| error.kind() == ErrorKind::Cancelled));
        let options = ReadOptions { deadline: Some(ms(1)), task_size: Some(64) };
        let mut reading = start_with(&object, 0, 4 * MIB, &options);
        reading.fails(ErrorKind::TimedOut, &["deadline"]);
        let options = ReadOptions { deadline: Some(LONG), task_size: None };
        start_with(&object, 0, 1000, &options).succeeds();
        let mut readings: Vec<_> = (0..50).map(|_| start(&object, 0, 4 * MIB)).collect();
        client.shut_down(Some(LONG)).unwrap();
        let ended = readings.iter_mut().filter_map(|reading| reading.wait().error).collect::<Vec<_>>();
        assert!(!ended.is_empty() && ended.iter().all(|error| error.kind() == ErrorKind::ShutDown), "{ended:?}");
        let refused = client.0.open(&path, ObjectOptions::default()).err().expect("an error");
        assert_eq!(refused.kind(), ErrorKind::ShutDown);
    });
}

#[test]
fn files_and_remote_objects_share_a_batch() {
    let files = Directory::new();
    let path = files.put("data", 100_000);
    let server = raskio_testserver::Server::start();
    server.put("/x", raskio_testserver::Object::pattern(100_000));
    each_local_backend(|local| {
        let client = client(local, CACHED, |_| {});
        let (file, remote) = (client.open(&path), client.open(&server.url("/x")));
        let items: Vec<_> = (0..40).map(|i| range(if i % 2 == 0 { &file } else { &remote }, i * 1000, 500)).collect();
        let mut batch = Batch::start(&client, &items, BatchOptions::default());
        batch.wait().succeeds();
        for item in 0..items.len() {
            batch.item(item).succeeds();
        }
    });
}

#[test]
fn the_kernels_thread_takes_what_is_submitted_if_that_is_wanted() {
    if !has_uring() {
        return;
    }
    let files = Directory::new();
    let path = files.put("data", MIB as u64);
    let client = client(LocalBackend::Uring, OVER, |options| options.uring_sqpoll_idle_ms = Some(5));
    let object = client.open(&path);
    for i in 0..20 {
        read(&object, i * 1001, 500_000);
        std::thread::sleep(ms(i));
    }
    assert_eq!(client.stats().file_bytes_uring, 20 * 500_000);
}
