//! The composition root: the only file that knows every part.

use crate::callbacks::Callbacks;
use crate::config::Config;
use crate::endpoint::{self, site};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{About, Listener, OpKind, Watch};
use crate::exit;
use crate::object::{Object, ObjectOptions};
use crate::op::items::{Items, Part};
use crate::op::{self, Completion, OpOwner, Operation};
use crate::profile::{self, Span};
use crate::staging::{self, Staging, Target};
use crate::stats::{self, Latencies, Snapshot, Stats};
use crate::sync::{Condvar, Mutex};
use crate::sys::mem::Buffer;
use crate::sys::per_process::PerProcess;
use crate::sys::{curl, process};
use crate::transport::reactor::engine::shut_down;
use crate::transport::{self, Transfer, Transport};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The client's last callback.
pub type OnShutDown = Box<dyn FnOnce() + Send>;

struct Gate {
    /// Operations that have begun and whose callback has not returned.
    running: u64,
    closed: bool,
}

/// What the host gives a client to call.
#[derive(Default)]
pub struct Hooks {
    /// Called once, on a RaskIO thread, as the client's last callback.
    pub on_shut_down: Option<OnShutDown>,
    /// Credentials and tokens.
    pub secrets: site::Host,
    /// Told of retries and connections.
    pub listener: Option<Listener>,
    /// Looks environment variables up; `None`: those of the process.
    pub env: Option<site::Env>,
}

/// Owns threads, caches and limits.
pub struct Client {
    config: Config,
    generation: u64,
    stats: Arc<Stats>,
    transport: Arc<dyn Transport>,
    /// For local files; there is none before the first is opened.
    files: Mutex<Option<Arc<dyn Transport>>>,
    /// In the order of [`staging::KINDS`].
    stagings: Vec<Arc<dyn Staging>>,
    callbacks: Arc<Callbacks>,
    site: Arc<site::Site>,
    gate: Mutex<Gate>,
    all_done: Condvar,
    on_shut_down: Mutex<Option<OnShutDown>>,
    /// For operations, which hold their client.
    own: Weak<Client>,
}

impl Client {
    /// A client with these settings, and its threads. `on_shut_down` runs once, on a RaskIO thread, as its last callback.
    ///
    /// # Errors
    /// UNSUPPORTED when the libcurl in use lacks what is needed, IO when the system has no threads or files left.
    pub fn new(config: Config, on_shut_down: Option<OnShutDown>) -> Result<Arc<Client>> {
        Client::with(config, Hooks { on_shut_down, ..Hooks::default() })
    }

    /// [`Client::new`] with more of the host's callbacks.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with(config: Config, hooks: Hooks) -> Result<Arc<Client>> {
        process::watch_forks()?;
        crate::log::init(config.verbose);
        curl::global_init()?;
        let stats = Stats::of_client();
        hooks.listener.into_iter().for_each(|listener| stats.observer.listen(listener));
        let callbacks = Arc::new(Callbacks::start(config.callback_threads)?);
        let transport = start_transport(&config, stats.clone()).inspect_err(|_| callbacks.stop())?;
        let env = hooks.env.unwrap_or_else(|| Arc::new(|name: &str| std::env::var_os(name)));
        let site = site::Site::new(env, hooks.secrets);
        let stagings = staging::KINDS.iter().map(|kind| (kind.start)(&config, &stats)).collect();
        log::info!(target: "raskio", "client with {:?}: {}", config.backend, curl::version().1);
        Ok(Arc::new_cyclic(|own| Client {
            generation: process::generation(),
            stats,
            transport,
            files: Mutex::new(None),
            stagings,
            callbacks,
            site,
            gate: Mutex::new(Gate { running: 0, closed: false }),
            all_done: Condvar::new(),
            on_shut_down: Mutex::new(hooks.on_shut_down),
            own: own.clone(),
            config,
        }))
    }

    /// The process-wide client, made on first use from the environment alone; a forked child gets its own.
    ///
    /// # Errors
    /// As [`Config::from_env`] and [`Client::new`]; the next call tries again.
    pub fn process_default() -> Result<Arc<Client>> {
        static DEFAULT: PerProcess<Mutex<Option<Arc<Client>>>> = PerProcess::new();
        let mut default = DEFAULT.get_or_make(|| Mutex::new(None)).0.lock();
        if let Some(client) = &*default {
            return Ok(client.clone());
        }
        let client = Client::new(Config::from_env(&crate::config::Overrides::default())?, None)?;
        *default = Some(client.clone());
        Ok(client)
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Ok, or FORKED in a child process that inherited this client. Takes no lock.
    ///
    /// # Errors
    /// FORKED.
    pub fn check_process(&self) -> Result<()> {
        if self.generation == process::generation() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Forked,
            "this client was made before the process forked, and its threads stayed with the parent; make a new client in the child",
        ))
    }

    /// Opens an object; no network I/O.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, UNSUPPORTED, SHUT_DOWN, FORKED.
    pub fn open(self: &Arc<Self>, url: &str, options: ObjectOptions) -> Result<Arc<Object>> {
        self.check_process()?;
        if self.gate.lock().closed {
            return Err(shut_down());
        }
        let endpoint = endpoint::open(&self.site, url, &options)?;
        if endpoint.local().is_some() {
            self.start_files()?;
        }
        Ok(Object::new(self.clone(), endpoint, options.size))
    }

    /// Has the transport of local files started.
    fn start_files(&self) -> Result<()> {
        let mut files = self.files.lock();
        if files.is_none() {
            // Whoever closes it ends the transport that it finds here then.
            if self.gate.lock().closed {
                return Err(shut_down());
            }
            *files = Some(transport::file::start(&self.config, self.stats.clone())?);
        }
        Ok(())
    }

    fn files(&self) -> Option<Arc<dyn Transport>> {
        self.files.lock().clone()
    }

    /// Counts an operation of so many requests in.
    pub(crate) fn begin(
        &self,
        requests: usize,
        deadline: Option<Instant>,
        about: About<'_>,
        done: Completion,
    ) -> Result<Arc<Operation>> {
        let offset = about.offset;
        self.begin_as(about, done, |own, done| Operation::new(own, requests, offset, deadline, done))
    }

    /// Counts an operation of these items in.
    pub(crate) fn begin_items(
        &self,
        items: Items,
        deadline: Option<Instant>,
        size: u64,
        done: Completion,
    ) -> Result<Arc<Operation>> {
        let about = About { kind: OpKind::Batch, object: "", offset: 0, size };
        self.begin_as(about, done, |own, done| Operation::of_items(own, items, deadline, done))
    }

    fn begin_as(
        &self,
        about: About<'_>,
        done: Completion,
        make: impl FnOnce(Arc<dyn OpOwner>, Completion) -> Arc<Operation>,
    ) -> Result<Arc<Operation>> {
        self.check_process()?;
        let Some(own) = self.own.upgrade() else { return Err(shut_down()) };
        {
            let mut gate = self.gate.lock();
            if gate.closed {
                return Err(shut_down());
            }
            gate.running += 1;
        }
        stats::add(&self.stats.ops_started, 1);
        let done = in_range(&about, done);
        let Some(watch) = Watch::new(&self.stats, &about) else { return Ok(make(own, done)) };
        let at_end = watch.clone();
        let op = make(
            own,
            Box::new(move |result| {
                at_end.finished(result);
                done(result);
            }),
        );
        op.when_begun(Box::new(move || watch.started()));
        Ok(op)
    }

    /// The caller's buffer, to be cut into what requests write into.
    pub(crate) fn target(&self, buffer: Buffer) -> Result<Box<dyn Target>> {
        // Before a thread is started, or a driver is asked.
        self.check_process()?;
        let mut kinds = staging::KINDS.iter().zip(&self.stagings);
        match kinds.find(|(kind, _)| (kind.takes)(&buffer)) {
            Some((_, staging)) => staging.open(buffer),
            None => Err(Error::new(ErrorKind::Unsupported, "no staging writes memory of this kind")),
        }
    }

    pub(crate) fn end_soon(&self, op: Arc<Operation>, part: Part) {
        self.transport.end_soon(op, part);
    }

    pub(crate) fn submit(&self, transfers: Vec<Transfer>) {
        match transfers.first().filter(|first| first.is_local()).and_then(|_| self.files()) {
            Some(files) => files.submit(transfers),
            None => self.transport.submit(transfers),
        }
    }

    /// Ends every operation with SHUT_DOWN and stops the threads. May be called again, also while it runs.
    ///
    /// # Errors
    /// TIMED_OUT: not everything is over yet; it goes on by itself. WOULD_DEADLOCK inside a callback, FORKED.
    pub fn shut_down(&self, timeout: Option<Duration>) -> Result<()> {
        self.check_process()?;
        if op::in_callback() {
            return Err(op::would_deadlock("shutting a client down"));
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.gate.lock().closed = true;
        self.site.stop();
        self.transport.shut_down();
        let files = self.files();
        files.iter().for_each(|files| files.shut_down());
        let timed_out =
            |what: String| Err(Error::new(ErrorKind::TimedOut, format!("the shutdown is not complete: {what}")));
        let mut gate = self.gate.lock();
        while gate.running > 0 {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return timed_out(format!("{} operations still run", gate.running));
            }
            gate = self.all_done.wait_until(gate, deadline);
        }
        drop(gate);
        let transports = files.iter().chain([&self.transport]);
        if !transports.into_iter().all(|transport| transport.wait_stopped(deadline)) {
            return timed_out("a transport's thread still runs".into());
        }
        if !self.site.wait_stopped(deadline) {
            return timed_out("credentials are still being asked for".into());
        }
        // No sink is left.
        self.stagings.iter().for_each(|staging| staging.shut_down());
        if !self.stagings.iter().all(|staging| staging.wait_stopped(deadline)) {
            return timed_out("a stager still runs".into());
        }
        self.callbacks.stop();
        if !self.callbacks.wait_stopped(deadline) {
            return timed_out("a callback still runs".into());
        }
        let last = self.on_shut_down.lock().take();
        match last {
            Some(last) => run_last_callback(last, deadline),
            None => Ok(()),
        }
    }

    /// Gives back idle memory and connections.
    pub fn trim(&self) {
        if self.check_process().is_ok() {
            self.transport.trim();
            self.files().iter().for_each(|files| files.trim());
            self.stagings.iter().for_each(|staging| staging.trim());
        }
    }

    /// The counters now.
    pub fn stats(&self) -> Snapshot {
        self.stats.snapshot()
    }

    /// How long things took until now.
    pub fn latencies(&self) -> Latencies {
        self.stats.latencies()
    }
}

/// The completion, which ends what a profiler sees of the operation.
fn in_range(about: &About<'_>, done: Completion) -> Completion {
    if !profile::is_on() {
        return done;
    }
    let range = Span::begin(profile::Kind::Operation, about.size, || about.to_string());
    Box::new(move |result| {
        drop(range);
        done(result);
    })
}

/// The last callback runs on a RaskIO thread like every other.
fn run_last_callback(last: OnShutDown, deadline: Option<Instant>) -> Result<()> {
    let returned = Arc::new((Mutex::new(false), Condvar::new()));
    let of_thread = returned.clone();
    process::spawn("raskio-last", move || {
        op::call_host(last);
        *of_thread.0.lock() = true;
        of_thread.1.notify_all();
    })?;
    let mut done = returned.0.lock();
    while !*done {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(ErrorKind::TimedOut, "the shutdown is complete but for its last callback"));
        }
        done = returned.1.wait_until(done, deadline);
    }
    Ok(())
}

impl OpOwner for Client {
    fn cancel_requested(&self, op: &Operation) {
        self.transport.sweep(op);
        self.files().iter().for_each(|files| files.sweep(op));
    }

    fn run_completion(&self, job: Box<dyn FnOnce() + Send>) {
        if exit::is_exiting() {
            // The host may be half gone: neither call it nor drop what it gave.
            return std::mem::forget(job);
        }
        if self.config.callback_threads == 0 {
            return self.callbacks.run(job);
        }
        // It may wait for its turn until the process is on its way out.
        self.callbacks.run(Box::new(move || if exit::is_exiting() { std::mem::forget(job) } else { job() }));
    }

    fn request_failed(&self) {
        stats::add(&self.stats.requests_failed, 1);
    }

    fn op_starts_completion(&self, cancelled: bool, took: Duration) {
        self.stats.op_latency.add(took);
        if cancelled {
            stats::add(&self.stats.ops_cancelled, 1);
        }
        stats::add(&self.stats.ops_finished, 1);
    }

    fn op_finished(&self) {
        let mut gate = self.gate.lock();
        gate.running -= 1;
        if gate.running == 0 {
            self.all_done.notify_all();
        }
    }
}

impl Drop for Client {
    /// The last reference is gone, so nothing runs: the threads are told to end, and nobody waits for them, since this
    /// may be one of them. With a last callback, a helper thread waits and calls it.
    fn drop(&mut self) {
        if self.check_process().is_err() {
            return;
        }
        self.site.stop();
        self.transport.shut_down();
        let files = self.files();
        files.iter().for_each(|files| files.shut_down());
        self.stagings.iter().for_each(|staging| staging.shut_down());
        self.callbacks.stop();
        let Some(last) = self.on_shut_down.lock().take() else { return };
        let (transport, stagings) = (self.transport.clone(), self.stagings.clone());
        let (callbacks, site) = (self.callbacks.clone(), self.site.clone());
        let started = process::spawn("raskio-last", move || {
            transport.wait_stopped(None);
            files.iter().for_each(|files| {
                files.wait_stopped(None);
            });
            site.wait_stopped(None);
            for staging in stagings {
                staging.wait_stopped(None);
            }
            callbacks.wait_stopped(None);
            if !exit::is_exiting() {
                op::call_host(last);
            }
        });
        if let Err(error) = started {
            log::error!(target: "raskio", "on_shut_down is not called: {}", error.message());
        }
    }
}

fn start_transport(config: &Config, stats: Arc<Stats>) -> Result<Arc<dyn Transport>> {
    let kind = transport::KINDS.iter().find(|kind| kind.backend == config.backend);
    let kind = kind.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("the backend {:?} is not in this version", config.backend))
    })?;
    (kind.start)(config, stats)
}
