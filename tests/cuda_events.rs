//! What the event pool promises.

mod support;

use raskio::staging::cuda::event_pool::{EventPool, of_current};
use raskio::stats::Stats;
use raskio::sys::cuda::{Context, Stream};
use std::sync::{Arc, Mutex};
use support::cuda::{Gpu, Sim};
use support::eventually;

struct Bench {
    gpu: Gpu,
    context: Context,
    pool: Arc<EventPool>,
    stats: Arc<Stats>,
}

fn bench(keep: usize) -> Bench {
    let gpu = Gpu::new();
    let stats = Arc::<Stats>::default();
    let pool = of_current(keep, stats.clone()).unwrap();
    Bench { gpu, context: Context::of_this_thread().unwrap(), pool, stats }
}

impl Bench {
    fn counts(&self) -> (u64, u64) {
        let now = self.stats.snapshot();
        (now.events_free, now.events_total)
    }
}

#[test]
fn an_event_that_is_not_used_is_used_again() {
    let bench = bench(8);
    let before = bench.gpu.sim.count("cuEventCreate");
    for _ in 0..10 {
        drop(bench.pool.get().unwrap());
    }
    assert_eq!(bench.gpu.sim.count("cuEventCreate") - before, 1);
    assert_eq!((bench.pool.free(), bench.counts()), (1, (1, 1)));
    // Free ones cost no call to the driver, whichever context is current.
    let queries = bench.gpu.sim.count("cuEventQuery");
    bench.gpu.sim.set_current(0);
    drop(bench.pool.get().unwrap());
    assert_eq!((bench.gpu.sim.count("cuEventCreate") - before, bench.gpu.sim.count("cuEventQuery")), (1, queries));
}

#[test]
fn an_event_with_work_before_it_is_not_handed_out() {
    let bench = bench(8);
    let stream = Stream::of_caller(bench.gpu.sim.stream());
    bench.gpu.sim.sim_cuda_hold_stream(stream.handle(), 1);
    let mut memory = 0;
    assert_eq!(bench.gpu.sim.cuMemAlloc_v2(&mut memory, 64), 0);
    assert_eq!(bench.gpu.sim.cuMemsetD8Async(memory, 1, 64, stream.handle()), 0);
    {
        let current = bench.context.enter().unwrap();
        let mut event = bench.pool.get().unwrap();
        event.record(&current, &stream).unwrap();
        assert_eq!(event.is_done(), Ok(false));
    }
    assert_eq!((bench.pool.free(), bench.pool.pending()), (0, 1));
    let mut another = bench.pool.get().unwrap();
    assert_eq!(another.is_done(), Ok(true), "it tells of no work but its own");
    assert_eq!(bench.counts(), (0, 2));
    drop(another);
    bench.gpu.sim.sim_cuda_hold_stream(stream.handle(), 0);
    assert_eq!(bench.gpu.sim.cuStreamSynchronize(stream.handle()), 0);
    let both = [bench.pool.get().unwrap(), bench.pool.get().unwrap()];
    assert_eq!((bench.pool.pending(), bench.counts()), (0, (0, 2)), "the first is free now");
    drop(both);
    assert_eq!(bench.counts(), (2, 2));
    assert_eq!(bench.gpu.sim.cuMemFree_v2(memory), 0);
}

#[test]
fn no_more_are_kept_than_asked_for() {
    let bench = bench(2);
    let events: Vec<_> = (0..5).map(|_| bench.pool.get().unwrap()).collect();
    assert_eq!(bench.counts(), (0, 5));
    drop(events);
    assert_eq!(bench.counts(), (2, 2));
    assert_eq!(bench.gpu.sim.live().events, 2);
    bench.pool.trim(&bench.context.enter().unwrap());
    assert_eq!((bench.counts(), bench.gpu.sim.live().events), ((0, 0), 0));
}

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn an_event_that_cannot_go_back_is_destroyed_and_the_log_says_why() {
    let bench = bench(8);
    let hook = |record: &log::Record<'_>| LOGGED.lock().unwrap().push(record.args().to_string());
    raskio::log::set_hook(Some(Box::new(hook)), log::LevelFilter::Error).unwrap();
    let stream = Stream::of_caller(bench.gpu.sim.stream());
    {
        let current = bench.context.enter().unwrap();
        let mut event = bench.pool.get().unwrap();
        event.record(&current, &stream).unwrap();
        bench.gpu.sim.fail("cuEventQuery", 1, false, 700);
    }
    assert_eq!((bench.pool.free(), bench.counts(), bench.gpu.sim.live().events), (0, (0, 0), 0));
    raskio::log::set_hook(None, log::LevelFilter::Off).unwrap();
    let logged = LOGGED.lock().unwrap().join("\n");
    for word in ["cuEventQuery", "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"] {
        assert!(logged.contains(word), "{word:?} is missing in: {logged}");
    }
}

#[test]
fn a_destroyed_context_empties_its_pool() {
    let mut bench = bench(8);
    let stream = Stream::of_caller(bench.gpu.sim.stream());
    let (mut recorded, unused) = (bench.pool.get().unwrap(), bench.pool.get().unwrap());
    drop(bench.pool.get().unwrap());
    {
        let current = bench.context.enter().unwrap();
        recorded.record(&current, &stream).unwrap();
    }
    bench.gpu.destroy();
    // Another context, with the same handle perhaps.
    let _another = Gpu::another(0);
    assert!(bench.pool.get().is_ok(), "a free one costs no call");
    drop(recorded);
    drop(unused);
    assert_eq!((bench.pool.free(), bench.counts()), (0, (0, 0)));
    assert!(bench.pool.get().is_err(), "and no new one can be made");
    assert_eq!(bench.counts(), (0, 0));
}

#[test]
fn threads_may_use_one_pool_together() {
    let bench = bench(4);
    let stream = bench.gpu.sim.stream();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let context = &bench.context;
                for i in 0..200 {
                    let mut event = bench.pool.get().unwrap();
                    assert_eq!(event.is_done(), Ok(true));
                    let current = context.enter().unwrap();
                    if i % 3 == 0 {
                        event.record(&current, &Stream::of_caller(stream)).unwrap();
                    }
                }
            });
        }
    });
    let (free, total) = bench.counts();
    assert_eq!(free as usize, bench.pool.free());
    assert_eq!(total as usize, bench.pool.free() + bench.pool.pending());
    assert!(total <= 4);
    eventually("nothing runs", || Sim::get().live().pending == 0);
    bench.pool.trim(&bench.context.enter().unwrap());
    assert_eq!(bench.gpu.sim.live().events, 0);
}
