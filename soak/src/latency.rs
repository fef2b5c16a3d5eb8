//! How long a cancel and a shutdown take under load: 256 requests in flight to a server that trickles, 1,000 queued.

use raskio::client::Client;
use raskio::config::{Backend, Config, Overrides};
use raskio::error::ErrorKind;
use raskio::object::{Object, ObjectOptions, ReadOptions};
use raskio::op::{OpResult, Operation};
use raskio_testserver::{Object as Served, Reply, Server, get};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::memory::Guarded;

const IN_FLIGHT: usize = 256;
const QUEUED: usize = 1000;
/// Bytes a second of each reply: about a wake-up of the server every 50 ms, so that it leaves the processor alone.
const TRICKLE: u64 = 20;
/// Each starts over with a client of its own.
const REPETITIONS: usize = 5;
/// Cancels of each sort in a repetition, one after the other.
const CANCELS: usize = 200;
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(30);

/// An operation and how to learn of its end.
struct Pending {
    op: Arc<Operation>,
    over: Receiver<(Instant, Option<ErrorKind>)>,
    buffer: Guarded,
}

impl Pending {
    fn start(object: &Arc<Object>) -> Pending {
        let (sender, over) = channel();
        let done = Box::new(move |result: &OpResult<'_>| {
            let _ = sender.send((Instant::now(), result.error.map(raskio::error::Error::kind)));
        });
        let mut buffer = Guarded::new(64 << 10);
        let pending = object.read(0, buffer.host(), &ReadOptions::default(), done).expect("a read");
        let op = pending.op().clone();
        pending.submit();
        Pending { op, over, buffer }
    }

    /// How long after `since` its callback came, which must tell of `kind`.
    fn ended(self, since: Instant, kind: ErrorKind) -> Result<Duration, String> {
        let Ok((at, told)) = self.over.recv_timeout(LIMIT) else {
            // RaskIO still has the buffer.
            std::mem::forget(self.buffer);
            return Err(format!("no callback within {LIMIT:?}"));
        };
        match told {
            Some(told) if told == kind => Ok(at.saturating_duration_since(since)),
            told => Err(format!("the callback told of {told:?} and not of {kind:?}")),
        }
    }
}

/// A client under load: first those in flight, in the order of their start, then those in the queue.
struct Load {
    client: Arc<Client>,
    operations: Vec<Pending>,
}

impl Load {
    fn new(server: &Server, backend: Backend) -> Result<Load, String> {
        let overrides = Overrides {
            backend: Some(backend),
            num_reactors: Some(1),
            num_threads: Some(IN_FLIGHT as u32),
            max_concurrent_requests: Some(IN_FLIGHT as u32),
            ..Overrides::default()
        };
        let config = Config::resolve(&overrides, &|_| None).map_err(|error| error.to_string())?;
        let client = Client::new(config, None).map_err(|error| error.to_string())?;
        let object = client.open(&server.url("/slow"), ObjectOptions::default()).map_err(|error| error.to_string())?;
        let mut operations: Vec<_> = (0..IN_FLIGHT).map(|_| Pending::start(&object)).collect();
        if !server.wait_for(|counts| counts.in_flight == IN_FLIGHT as u64, LIMIT) {
            return Err(format!("{} requests in flight, not {IN_FLIGHT}", server.in_flight()));
        }
        operations.extend((0..QUEUED).map(|_| Pending::start(&object)));
        Ok(Load { client, operations })
    }

    /// Shuts down; how long until the call returned, and until the last callback.
    fn shut_down(self, server: &Server) -> Result<(Duration, Duration), String> {
        let since = Instant::now();
        self.client.shut_down(Some(LIMIT)).map_err(|error| error.to_string())?;
        let returned = since.elapsed();
        let ends = self.operations.into_iter().map(|operation| operation.ended(since, ErrorKind::ShutDown));
        let last = ends.collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or_default();
        drop(self.client);
        match server.wait_for(|counts| counts.open_connections == 0, LIMIT) {
            true => Ok((returned, last)),
            false => Err("connections stay open".into()),
        }
    }
}

struct Row {
    backend: Backend,
    what: &'static str,
    samples: Vec<Duration>,
}

impl Row {
    /// The least that so many of a hundred are not above, in milliseconds.
    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort();
        let rank = (sorted.len() * percent).div_ceil(100).clamp(1, sorted.len());
        sorted[rank - 1].as_secs_f64() * 1e3
    }
}

fn measure() -> Result<Vec<Row>, String> {
    let server = Server::builder().max_log(0).start();
    server.put("/slow", Served::pattern(64 << 10));
    server.script(get("/slow"), [Reply::object().rate(TRICKLE)]);
    let mut rows = Vec::new();
    for backend in [Backend::MultiPoll, Backend::EasyThreadpool] {
        let [mut flying, mut queued, mut all, mut returned, mut last] = [const { Vec::new() }; 5];
        for _ in 0..REPETITIONS {
            let mut load = Load::new(&server, backend)?;
            // From the tail, so that nothing that ends lets one of them start.
            for operation in load.operations.split_off(IN_FLIGHT + QUEUED - CANCELS) {
                let since = Instant::now();
                operation.op.cancel();
                queued.push(operation.ended(since, ErrorKind::Cancelled)?);
            }
            // Each lets one start that was queued, which is a part of the load.
            for operation in load.operations.drain(..CANCELS) {
                let since = Instant::now();
                operation.op.cancel();
                flying.push(operation.ended(since, ErrorKind::Cancelled)?);
            }
            load.shut_down(&server)?;

            let mut load = Load::new(&server, backend)?;
            let since = Instant::now();
            load.operations.iter().for_each(|operation| operation.op.cancel());
            let ends = load.operations.drain(..).map(|operation| operation.ended(since, ErrorKind::Cancelled));
            all.push(ends.collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or_default());
            load.shut_down(&server)?;

            let (call, callback) = Load::new(&server, backend)?.shut_down(&server)?;
            returned.push(call);
            last.push(callback);
        }
        for (what, samples) in [
            ("cancel of one in flight: its callback", flying),
            ("cancel of one in the queue: its callback", queued),
            ("cancel of all, one call each: the last callback", all),
            ("shutdown: the last callback", last),
            ("shutdown: the call returns", returned),
        ] {
            rows.push(Row { backend, what, samples });
        }
    }
    Ok(rows)
}

/// Measures, prints a table, and writes JSON.
pub fn run(json: Option<&str>) -> ExitCode {
    let rows = match measure() {
        Ok(rows) => rows,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{IN_FLIGHT} requests in flight, {QUEUED} queued; milliseconds\n");
    println!("| backend | from … to … | samples | p50 | p99 | max |\n|---|---|---:|---:|---:|---:|");
    let mut lines = Vec::new();
    for row in &rows {
        let backend = match row.backend {
            Backend::MultiPoll => "MULTI_POLL",
            Backend::EasyThreadpool => "EASY_THREADPOOL",
        };
        let [p50, p99, max] = [50, 99, 100].map(|percent| row.percentile(percent));
        println!("| {backend} | {} | {} | {p50:.2} | {p99:.2} | {max:.2} |", row.what, row.samples.len());
        lines.push(format!(
            "  {{\"backend\": \"{backend}\", \"what\": \"{}\", \"samples\": {}, \"p50_ms\": {p50:.4}, \"p99_ms\": {p99:.4}, \"max_ms\": {max:.4}}}",
            row.what,
            row.samples.len()
        ));
    }
    let text = format!(
        "{{\"version\": \"{}\", \"in_flight\": {IN_FLIGHT}, \"queued\": {QUEUED}, \"rows\": [\n{}\n]}}\n",
        env!("CARGO_PKG_VERSION"),
        lines.join(",\n")
    );
    match json {
        None => print!("\n{text}"),
        Some(path) => {
            if let Err(error) = std::fs::write(path, text) {
                eprintln!("error: {path} cannot be written: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
