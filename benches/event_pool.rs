//! What it costs to take an event from the pool and to return it: `event_pool THREADS`. One line of JSON, beside which
//! `cuda_driver.c` says what making and destroying one costs.

use raskio::error::Error;
use raskio::staging::cuda::event_pool::{self, EventPool};
use raskio::stats::Stats;
use raskio::sys::cuda::{Context, Driver};
use std::sync::{Arc, Barrier};
use std::time::Instant;

const LOOPS: u32 = 200_000;

fn main() {
    let threads = std::env::args().nth(1).and_then(|threads| threads.parse().ok()).filter(|threads| *threads > 0);
    let Some(threads) = threads else {
        eprintln!("usage: event_pool THREADS");
        std::process::exit(2);
    };
    match measure(threads) {
        Ok(nanoseconds) => {
            println!("{{\"what\": \"event pool\", \"threads\": {threads}, \"get_return_ns\": {nanoseconds:.0}}}")
        }
        Err(error) => {
            eprintln!("event_pool: {}", error.message());
            std::process::exit(1);
        }
    }
}

/// Nanoseconds for taking and returning an event, the mean of all threads.
fn measure(threads: usize) -> Result<f64, Error> {
    let context = Context::primary(Driver::need()?, 0)?;
    let pool = {
        let _current = context.enter()?;
        event_pool::of_current(1024, Arc::new(Stats::default()))?
    };
    // As many as are out at once are there: none is made while the clock runs.
    let warm: Vec<_> = (0..threads).map(|_| pool.get()).collect::<Result<_, _>>()?;
    drop(warm);
    let start = Barrier::new(threads);
    let each: Vec<Result<f64, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| one(&pool, &start))).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread of the benchmark panicked")).collect()
    });
    let mut sum = 0.0;
    for nanoseconds in each {
        sum += nanoseconds?;
    }
    assert!(pool.free() <= threads, "more events were made than were ever out at once");
    Ok(sum / threads as f64)
}

fn one(pool: &Arc<EventPool>, start: &Barrier) -> Result<f64, Error> {
    start.wait();
    let began = Instant::now();
    for _ in 0..LOOPS {
        drop(pool.get()?);
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(LOOPS))
}
