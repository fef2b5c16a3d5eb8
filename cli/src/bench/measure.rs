//! One setting for a while.

use super::advice::Setting;
use crate::failure::{Failure, Outcome};
use crate::memory::Memory;
use crate::remote;
use crate::stop::{LOOK, Stop};
use raskio::client::Client;
use raskio::config::{Backend, Concurrency, Overrides};
use raskio::error::Error;
use raskio::object::{Object, ObjectOptions, ReadOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// What is measured.
pub struct Subject<'a> {
    /// Read from.
    pub url: &'a str,
    /// How it is opened.
    pub options: ObjectOptions,
    /// Of the object.
    pub size: u64,
    /// Ends it.
    pub stop: Stop,
    /// Of a measurement, without the time in which connections are made.
    pub time: Duration,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Body bytes a second.
    pub bytes_per_s: f64,
    /// Of requests.
    pub p50_us: u64,
    /// Of requests.
    pub p99_us: u64,
    /// Of the whole process, a GB.
    pub cpu_s_per_gb: f64,
    /// Attempts after the first.
    pub retries: u64,
    /// Reads that failed.
    pub errors: u64,
    /// Why it was given up; there are no other figures then.
    pub failure: Option<Failure>,
}

/// Reads one after the other through the object, and from its beginning again.
struct Reads {
    object: Arc<Object>,
    task_size: u64,
    tasks: u64,
    next: u64,
    done: Sender<(Memory, Result<u64, Error>)>,
}

/// Failed reads after which a setting is given up.
const MOST_ERRORS: u64 = 20;

impl Reads {
    fn begin(&mut self, memory: Memory) -> Result<(), Error> {
        let offset = self.next % self.tasks * self.task_size;
        self.next += 1;
        let done = self.done.clone();
        let options = ReadOptions { task_size: Some(self.task_size), ..ReadOptions::default() };
        remote::read(&self.object, offset, self.task_size, memory, &options, move |memory, result| {
            // Whoever does not listen any more needs no answer.
            let _ = done.send((memory, result));
        })?;
        Ok(())
    }
}

impl Subject<'_> {
    /// Measures.
    pub fn measure(&self, setting: &Setting) -> Outcome<Figures> {
        let overrides = Overrides {
            backend: Some(Backend::MultiPoll),
            num_reactors: Some(setting.reactors),
            max_concurrent_requests: Some(setting.requests),
            // What was asked for is in flight, not what the library finds enough.
            concurrency: Some(Concurrency::Fixed),
            task_size: Some(setting.task_size),
            ..remote::overrides()
        };
        let client = remote::client(&overrides)?;
        let options = ObjectOptions { size: Some(self.size), ..self.options.clone() };
        let object = client.open(self.url, options)?;
        let (to, from) = channel();
        let tasks = (self.size / setting.task_size).max(1);
        let mut reads = Reads { object, task_size: setting.task_size, tasks, next: 0, done: to };
        for _ in 0..setting.requests {
            reads.begin(Memory::new(setting.task_size as usize))?;
        }
        let mut last_error = None;
        let mut errors = 0;
        // Connections are made, and windows grow.
        self.run(&mut reads, &from, self.time / 5, &mut errors, &mut last_error)?;
        let before = (client.stats(), client.latencies(), cpu_seconds(), Instant::now());
        self.run(&mut reads, &from, self.time, &mut errors, &mut last_error)?;
        let seconds = before.3.elapsed().as_secs_f64();
        let (after, latencies, cpu) = (client.stats(), client.latencies(), cpu_seconds());
        end(&client);
        let bytes = after.bytes_received - before.0.bytes_received;
        if let Some(error) = last_error.filter(|_| bytes == 0) {
            return Err(error.into());
        }
        let during = latencies.request.since(&before.1.request);
        Ok(Figures {
            bytes_per_s: bytes as f64 / seconds,
            p50_us: during.quantile(0.5),
            p99_us: during.quantile(0.99),
            cpu_s_per_gb: (cpu - before.2) / (bytes as f64 / 1e9).max(1e-9),
            retries: after.requests_retried - before.0.requests_retried,
            errors,
            failure: None,
        })
    }

    /// Keeps as many reads running as there are, for this long.
    fn run(
        &self,
        reads: &mut Reads,
        from: &Receiver<(Memory, Result<u64, Error>)>,
        time: Duration,
        errors: &mut u64,
        last: &mut Option<Error>,
    ) -> Outcome<()> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if let Some(signal) = self.stop.signal() {
                return Err(Failure::signal(signal, "interrupted"));
            }
            let Ok((memory, result)) = from.recv_timeout(left.min(LOOK)) else { continue };
            if let Err(error) = result {
                *errors += 1;
                if *errors >= MOST_ERRORS {
                    return Err(error.into());
                }
                *last = Some(error);
            }
            reads.begin(memory)?;
        }
        Ok(())
    }
}

/// The reads that still run are not waited for longer than need be.
fn end(client: &Client) {
    if let Err(error) = client.shut_down(Some(Duration::from_secs(10))) {
        log::warn!("a measurement did not end cleanly: {}", error.message());
    }
}

/// CPU time of the process: user and system, from /proc/self/stat.
fn cpu_seconds() -> f64 {
    /// Hundredths of a second, on every Linux: `sysconf(_SC_CLK_TCK)`.
    const TICKS_PER_S: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, which may hold blanks, is in brackets; user and system time are fields 14 and 15.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

impl Figures {
    /// Of a setting that was given up.
    pub fn failed(failure: Failure) -> Figures {
        Figures { errors: MOST_ERRORS, failure: Some(failure), ..Figures::default() }
    }

    /// The one in the middle by its rate; retries and errors are those of all.
    pub fn median(mut all: Vec<Figures>) -> Figures {
        if let Some(at) = all.iter().position(|figures| figures.failure.is_some()) {
            return all.swap_remove(at);
        }
        all.sort_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let mut middle = all.get(all.len() / 2).cloned().unwrap_or_default();
        middle.retries = all.iter().map(|figures| figures.retries).sum();
        middle.errors = all.iter().map(|figures| figures.errors).sum();
        middle
    }

    /// For programs.
    pub fn json(&self, setting: &Setting) -> Value {
        let measured = self.failure.is_none();
        json!({
            "reactors": setting.reactors,
            "requests": setting.requests,
            "task_size": setting.task_size,
            "bytes_per_s": self.bytes_per_s,
            "request_p50_us": measured.then_some(self.p50_us),
            "request_p99_us": measured.then_some(self.p99_us),
            "cpu_s_per_gb": measured.then_some(self.cpu_s_per_gb),
            "retries": self.retries,
            "errors": self.errors,
            "error": self.failure.as_ref().map(Failure::json),
        })
    }
}
