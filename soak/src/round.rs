//! One round: a client of each backend, from its making to its end, under load, with everything going wrong meanwhile.

use crate::chaos;
use crate::check::{Facts, Tally};
use crate::plan::OBJECTS;
use crate::worker::{Side, work};
use crate::world::{ENOUGH, World};
use raskio::client::Client;
use raskio::config::{Backend, Concurrency, Config, Dispatch, Overrides};
use raskio::object::{ObjectOptions, ReadOptions};
use raskio_testserver::Gate;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Requests in flight of the reactors' client; fewer than the workers have going, so that the limiter has something to do.
const BUDGET: u32 = 48;
/// Threads of the thread pool's client.
const THREADS: u32 = 24;
/// Threads that start operations, for each client.
const WORKERS: usize = 3;
/// What a shutdown may take.
const SHUT_DOWN_LIMIT: Duration = Duration::from_secs(30);

/// What a round does.
pub struct Round {
    /// Its number; the first one is 0.
    pub number: u64,
    /// Its operations.
    pub ids: Range<u64>,
    /// No operation is started after this.
    pub end: Instant,
    /// Handles may be lost for good.
    pub leaks: bool,
    /// The clients are shut down with operations running.
    pub under_load: bool,
}

impl Round {
    fn max_attempts(&self) -> u32 {
        [3, 2, 1, 4][self.number as usize % 4]
    }

    fn client(&self, backend: Backend) -> Arc<Client> {
        let odd = self.number % 2 == 1;
        let overrides = Overrides {
            backend: Some(backend),
            dispatch: Some(if odd { Dispatch::PerPread } else { Dispatch::PerChunk }),
            num_reactors: Some(if odd { 1 } else { 2 }),
            num_threads: Some(THREADS),
            max_concurrent_requests: Some(BUDGET),
            // Two rounds of each, one with one reactor and one with two.
            concurrency: Some(if self.number / 2 % 2 == 0 { Concurrency::Fixed } else { Concurrency::Adaptive }),
            max_attempts: Some(self.max_attempts()),
            connect_timeout_ms: Some(2000),
            stall_timeout_ms: Some(2000),
            request_timeout_ms: Some(10_000),
            callback_threads: Some(if odd { 2 } else { 0 }),
            ..Overrides::default()
        };
        let config = Config::resolve(&overrides, &|_| None).expect("settings");
        Client::new(config, None).expect("a client")
    }

    /// Runs it, to the end of its clients.
    pub fn run(&self, world: &Arc<World>) -> Tally {
        let hits = chaos::inside::hits();
        let sides = [(0, Backend::MultiPoll), (1, Backend::EasyThreadpool)].map(|(parity, backend)| {
            let client = self.client(backend);
            let shared = (0..OBJECTS).map(|object| {
                let object = client.open(&world.shared_url(object), ObjectOptions::default()).expect("an object");
                object.stat_sync().expect("a size, from a request that meets no fault");
                object
            });
            Arc::new(Side {
                shared: shared.collect(),
                client,
                parity,
                next: AtomicU64::new(0),
                accepted: AtomicU64::new(u64::from(OBJECTS)),
                victim: Mutex::new(None),
                facts: Facts { max_attempts: self.max_attempts(), closing: AtomicBool::new(false) },
            })
        });
        let starting = AtomicUsize::new(sides.len() * WORKERS);
        let stop = AtomicBool::new(false);
        let mut tally = Tally::default();
        thread::scope(|scope| {
            let clients: Vec<_> = sides.iter().map(|side| side.client.clone()).collect();
            let chaos = scope.spawn(|| {
                let clients = clients;
                chaos::run(world, &clients, self.number, self.leaks, &stop);
            });
            let workers: Vec<_> = (0..sides.len() * WORKERS)
                .map(|n| {
                    let (side, starting) = (&sides[n % sides.len()], &starting);
                    scope.spawn(move || work(world, side, self, starting))
                })
                .collect();
            while starting.load(SeqCst) > 0 {
                thread::sleep(Duration::from_millis(5));
            }
            if self.under_load {
                for side in &sides {
                    side.facts.closing.store(true, SeqCst);
                    self.shut_down(world, side, &mut tally);
                }
            }
            for worker in workers {
                tally.add(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            stop.store(true, SeqCst);
            let _ = chaos.join();
        });
        if !self.under_load && world.violations() < ENOUGH {
            for (side, budget) in sides.iter().zip([BUDGET, THREADS]) {
                whole_budget_is_there(world, side, budget as usize);
                side.facts.closing.store(true, SeqCst);
                self.shut_down(world, side, &mut tally);
            }
        }
        for (id, buffer) in tally.given_back.drain(..) {
            if !buffer.is_as_left() {
                world.violation(format!("operation {id}: its buffer was written after its callback"));
            }
        }
        self.check_counters(world, &sides, &hits, &mut tally);
        tally
    }

    fn shut_down(&self, world: &World, side: &Side, tally: &mut Tally) {
        let before = Instant::now();
        if let Err(error) = side.client.shut_down(Some(SHUT_DOWN_LIMIT)) {
            world.violation(format!("round {}: {:?}: {error}", self.number, side.client.config().backend));
        }
        tally.longest_shutdown = tally.longest_shutdown.max(before.elapsed());
    }

    fn check_counters(
        &self,
        world: &World,
        sides: &[Arc<Side>],
        hits_before: &[(&'static str, u64)],
        tally: &mut Tally,
    ) {
        let (mut replaced, mut leaked) = (0, 0);
        for side in sides {
            let stats = side.client.stats();
            let accepted = side.accepted.load(SeqCst);
            let balanced = stats.ops_started == accepted
                && stats.ops_finished == accepted
                && stats.requests_started == stats.requests_finished
                && (stats.requests_in_flight, stats.requests_queued) == (0, 0)
                && (stats.bounce_buffers_total, stats.bounce_buffers_in_use, stats.pinned_bytes) == (0, 0, 0);
            if !balanced {
                let backend = side.client.config().backend;
                world.violation(format!("round {}: {backend:?}: {accepted} accepted, {stats:?}", self.number));
            }
            replaced += stats.reactors_replaced;
            leaked += stats.handles_leaked;
            tally.requests += stats.requests_started;
            tally.retried += stats.requests_retried;
            tally.connections += stats.connections_opened;
            tally.reused += stats.connections_reused;
            tally.cancelled_by_stats += stats.ops_cancelled;
        }
        if tally.cancelled_by_stats != tally.failed_with(raskio::error::ErrorKind::Cancelled) {
            let told = tally.failed_with(raskio::error::ErrorKind::Cancelled);
            world.violation(format!("{} cancelled by the counters, {told} by callbacks", tally.cancelled_by_stats));
        }
        let hits = chaos::inside::hits();
        let since = |names: &[&str]| -> u64 {
            let now = hits.iter().zip(hits_before).filter(|((name, _), _)| names.contains(name));
            now.map(|((_, now), (_, before))| now - before).sum()
        };
        let certain = since(&["curl_multi_socket_action", "epoll_wait", "panic in a loop"]);
        let possible = certain + since(&["curl_multi_remove_handle", "curl_multi_init"]);
        if !(certain..=possible).contains(&replaced) {
            let told = format!("{replaced} reactors replaced, {certain} to {possible} of them hit");
            world.violation(format!("round {}: {told}", self.number));
        }
        if leaked != since(&["curl_multi_remove_handle"]) {
            world.violation(format!("round {}: {leaked} handles leaked, and {hits:?}", self.number));
        }
        if tally.panicked > since(&["panic in a body"]) {
            world.violation(format!("round {}: {} panics told of, and {hits:?}", self.number, tally.panicked));
        }
        (tally.replaced, tally.leaked) = (replaced, leaked);
    }
}

/// Every permit came back: exactly the budget can be in flight at once. Where the limit adapts, it has grown no further
/// than that, and is at least what every reactor may have.
fn whole_budget_is_there(world: &World, side: &Side, budget: usize) {
    let gate = Gate::new();
    *world.script.gate.lock().unwrap_or_else(PoisonError::into_inner) = gate.clone();
    let object = side.client.open(&world.servers[0].url("/gate"), ObjectOptions::default()).expect("an object");
    let mut ops = Vec::new();
    let succeeded = Arc::new(AtomicUsize::new(0));
    for _ in 0..budget + 4 {
        let counted = succeeded.clone();
        let done = Box::new(move |result: &raskio::op::OpResult<'_>| {
            counted.fetch_add(usize::from(result.error.is_none()), SeqCst);
        });
        let pending = object.stat(&ReadOptions::default(), done).expect("an operation");
        ops.push(pending.op().clone());
        pending.submit();
        side.accepted.fetch_add(1, SeqCst);
    }
    // Less than the stall limit, which would end them.
    let reached = gate.wait_held(budget, Duration::from_millis(1500));
    thread::sleep(Duration::from_millis(50));
    let held = gate.held();
    let config = side.client.config();
    let backend = config.backend;
    let adapts = backend == Backend::MultiPoll && config.concurrency == Concurrency::Adaptive;
    let as_expected = if adapts { (4..=budget).contains(&held) } else { reached && held == budget };
    if !as_expected {
        world.violation(format!("{backend:?}: {held} requests in flight at once, and the budget is {budget}"));
    }
    gate.open();
    for op in &ops {
        if let Err(error) = op.wait(Some(Duration::from_secs(20))) {
            world.violation(format!("a request that was held: {error}"));
        }
    }
    if succeeded.load(SeqCst) != ops.len() {
        world.violation(format!("{} of {} held requests succeeded", succeeded.load(SeqCst), ops.len()));
    }
}
