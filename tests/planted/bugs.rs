//! One test, one bug.

use crate::support::{LONG, TestClient};
use raskio::config::Backend;
use raskio::object::{ObjectOptions, ReadOptions};
use raskio::sys::mem::HostBuffer;
use raskio_testserver::{Object, Server};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
#[ignore = "planted"]
fn use_after_free() {
    let text = Box::new(black_box([7_u8; 64]));
    let dangling = std::ptr::from_ref(&text[3]);
    drop(text);
    // SAFETY: none, on purpose.
    black_box(unsafe { dangling.read() });
}

#[test]
#[ignore = "planted"]
fn out_of_bounds_write() {
    let mut bytes = black_box(vec![0_u8; 64]);
    // SAFETY: none, on purpose: one byte behind the end.
    unsafe { bytes.as_mut_ptr().add(64).write(1) };
    black_box(bytes);
}

/// A caller that breaks the contract: RaskIO writes a buffer that is gone. What is reported happens in the library's code.
#[test]
#[ignore = "planted"]
fn read_into_freed_memory() {
    let server = Server::start();
    server.put("/data", Object::pattern(1000));
    let client = TestClient::new(Backend::MultiPoll);
    let object = client.open(&server.url("/data"));
    let mut memory = vec![0_u8; 1000];
    // SAFETY: none, on purpose: the memory is freed before the read begins.
    let buffer = unsafe { HostBuffer::new(memory.as_mut_ptr(), 1000) };
    drop(memory);
    let _ = object.read_sync(0, buffer, &ReadOptions::default());
}

#[test]
#[ignore = "planted"]
fn leak() {
    std::mem::forget(black_box(vec![0_u8; 4096]));
    // What is left on the stack must not look like a reference to it.
    black_box([0_usize; 1024]);
}

struct Shared(UnsafeCell<u64>);
// SAFETY: none, on purpose.
unsafe impl Sync for Shared {}

#[test]
#[ignore = "planted"]
fn data_race() {
    let shared = Arc::new(Shared(UnsafeCell::new(0)));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let shared = shared.clone();
            std::thread::spawn(move || {
                for _ in 0..1000 {
                    // SAFETY: none, on purpose: two threads add without a lock.
                    unsafe { *shared.0.get() += 1 };
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A caller that looks at its buffer without waiting for the operation: it races with the library's own thread.
#[test]
#[ignore = "planted"]
fn race_with_a_read() {
    const LEN: usize = 4096;
    let url = std::env::var("RASKIO_TEST_URL").expect("the address of a server") + "/medium";
    let client = TestClient::new(Backend::MultiPoll);
    let object = client.0.open(&url, ObjectOptions::default()).expect("an object");
    let memory: &'static mut [u8] = Box::leak(vec![0_u8; LEN].into_boxed_slice());
    let start = memory.as_mut_ptr();
    // SAFETY: the memory is there for ever; but it is read below, where it must not be.
    let buffer = unsafe { HostBuffer::new(start, LEN as u64) };
    let over = Arc::new(AtomicBool::new(false));
    let of_completion = over.clone();
    let done = Box::new(move |_: &raskio::op::OpResult<'_>| of_completion.store(true, Ordering::Relaxed));
    let pending = object.read(0, buffer, &ReadOptions::default(), done).expect("accepted");
    let op = pending.op().clone();
    pending.submit();
    while !over.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    // The bytes are there, but nothing has said so in a way that orders this after the library's write.
    // SAFETY: none, on purpose.
    black_box(unsafe { start.add(LEN / 2).read() });
    op.wait(Some(LONG)).unwrap();
}
