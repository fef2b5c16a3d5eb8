//! The object_store crate as a client: its HTTP store and `get_range`, WIDTH tasks on THREADS runtime threads.
//!
//! `get_range` hands out `Bytes` of its own, so each range is copied into the destination, as a program with a buffer of
//! its own would have to. Whole bodies are collected by the crate, which checks status and length.

use object_store::http::{HttpBuilder, HttpStore};
use object_store::path::Path;
use object_store::{Certificate, ClientOptions, ObjectStoreExt};
use std::io::Read;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One request: where from, and where to in the destination.
struct Span {
    path: Path,
    range: Range<u64>,
    at: usize,
}

struct Job {
    store: HttpStore,
    spans: Vec<Span>,
    next: AtomicUsize,
    /// Each part of the destination has one writer at a time: the task that took its span.
    parts: Vec<Mutex<Box<[u8]>>>,
    latencies: Vec<Mutex<f64>>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, plan, request, reps, width, threads] = arguments.as_slice() else {
        return Err("usage: bench-object-store BASE PLAN REQUEST REPS WIDTH THREADS".into());
    };
    let (reps, width, threads): (usize, usize, usize) = (reps.parse()?, width.parse()?, threads.parse()?);
    let spans = split(&std::fs::read_to_string(plan)?, request.parse()?)?;
    let total: usize = spans.iter().map(length).sum();
    let job = Arc::new(Job {
        store: open(base)?,
        next: AtomicUsize::new(0),
        // Written once, so that every page is there before the clock starts.
        parts: spans.iter().map(|span| Mutex::new(vec![1; length(span)].into_boxed_slice())).collect(),
        latencies: spans.iter().map(|_| Mutex::new(0.0)).collect(),
        spans,
    });
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).enable_all().build()?;
    let before = memory("VmRSS:")?;
    for _ in 0..reps {
        job.parts.iter().for_each(|part| part.lock().unwrap().fill(1));
        job.next.store(0, Ordering::Relaxed);
        let (cpu, start) = (cpu_seconds(), Instant::now());
        let tasks: Vec<_> = (0..width).map(|_| runtime.spawn(work(Arc::clone(&job)))).collect();
        for task in tasks {
            runtime.block_on(task)??;
        }
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        report(&job, total, seconds, cpu, before)?;
    }
    if std::env::var_os("BENCH_HOLD").is_some() {
        std::io::stdin().read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

fn open(base: &str) -> Result<HttpStore, Failure> {
    let mut options = ClientOptions::new().with_allow_http(true);
    if let (true, Some(file)) = (base.starts_with("https:"), std::env::var_os("CURL_CA_BUNDLE")) {
        options = options.with_root_certificate(Certificate::from_pem(&std::fs::read(file)?)?);
    }
    Ok(HttpBuilder::new().with_url(base).with_client_options(options).build()?)
}

/// The plan's reads ("PATH FIRST LENGTH", one a line) in requests of at most `request` bytes.
fn split(plan: &str, request: u64) -> Result<Vec<Span>, Failure> {
    let (mut spans, mut at) = (Vec::new(), 0);
    for line in plan.lines() {
        let mut words = line.split(' ');
        let (Some(path), Some(first), Some(length)) = (words.next(), words.next(), words.next()) else {
            return Err(format!("the plan has the line {line:?}; it must be PATH FIRST LENGTH").into());
        };
        let (first, length): (u64, u64) = (first.parse()?, length.parse()?);
        let mut done = 0;
        while done < length {
            let size = request.min(length - done);
            spans.push(Span { path: Path::parse(path)?, range: first + done..first + done + size, at });
            done += size;
            at += size as usize;
        }
    }
    Ok(spans)
}

fn length(span: &Span) -> usize {
    (span.range.end - span.range.start) as usize
}

async fn work(job: Arc<Job>) -> Result<(), Failure> {
    loop {
        let index = job.next.fetch_add(1, Ordering::Relaxed);
        let Some(span) = job.spans.get(index) else { return Ok(()) };
        let start = Instant::now();
        let bytes = job.store.get_range(&span.path, span.range.clone()).await?;
        if bytes.len() != length(span) {
            return Err(format!("{} bytes at {}, not {}", bytes.len(), span.at, length(span)).into());
        }
        job.parts[index].lock().unwrap().copy_from_slice(&bytes);
        *job.latencies[index].lock().unwrap() = start.elapsed().as_secs_f64() * 1e6;
    }
}

fn report(job: &Job, total: usize, seconds: f64, cpu: f64, before: u64) -> Result<(), Failure> {
    let mut latencies: Vec<f64> = job.latencies.iter().map(|latency| *latency.lock().unwrap()).collect();
    latencies.sort_by(f64::total_cmp);
    // Nearest rank, as in bench.h.
    let rank = |percent: usize| latencies[(latencies.len() * percent).div_ceil(100) - 1];
    let (mut a, mut b) = (1u32, 0u32);
    for part in &job.parts {
        for block in part.lock().unwrap().chunks(5552) {
            // As two sums that the compiler can vectorise, as in bench.h.
            let size = block.len() as u32;
            let (mut sum, mut weighted) = (0u32, 0u32);
            for (i, byte) in block.iter().enumerate() {
                sum += u32::from(*byte);
                weighted += (size - i as u32) * u32::from(*byte);
            }
            (a, b) = ((a + sum) % 65521, (b + size * a + weighted) % 65521);
        }
    }
    let peak = memory("VmHWM:")?;
    println!(
        "{{\"client\": \"object_store\", \"version\": \"object_store {}\", \"bytes\": {total}, \"requests\": {}, \"seconds\": \
         {seconds:.6}, \"cpu_seconds\": {cpu:.6}, \"adler32\": {}, \"peak_memory\": {}, \"grown_memory\": {}, \
         \"latency_p50_us\": {:.1}, \"latency_p99_us\": {:.1}}}",
        env!("OBJECT_STORE_VERSION"),
        job.spans.len(),
        b << 16 | a,
        peak.saturating_sub(total as u64),
        peak.saturating_sub(before),
        rank(50),
        rank(99),
    );
    Ok(())
}

/// A line of /proc/self/status, in bytes.
fn memory(name: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// User and system time of every thread of this process.
fn cpu_seconds() -> f64 {
    // SAFETY: rusage is plain integers, for which zero is a value, and getrusage fills the one that it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
