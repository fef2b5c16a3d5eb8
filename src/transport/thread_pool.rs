//! EASY_THREADPOOL: N threads, each with one transfer at a time.
//!
//! Each drives a multi handle of its own rather than `curl_easy_perform`, which nothing can end promptly; so it is the
//! reactor's loop with room for one, fed from a common board.

use super::reactor::engine::{Engine, Stop};
use super::reactor::pool::{accept, start_threads};
use super::{Kind, Transfer, Transport};
use crate::config::{Backend, Config};
use crate::error::Result;
use crate::exit::Threads;
use crate::op::Operation;
use crate::op::items::Part;
use crate::stats::Stats;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Connections that a thread keeps: it has one transfer at a time, but objects on several hosts.
const MAX_CONNECTIONS: u32 = 4;

/// The row in [`super::KINDS`].
pub const KIND: Kind = Kind { name: "EASY_THREADPOOL", backend: Backend::EasyThreadpool, start };

fn start(config: &Config, stats: Arc<Stats>) -> Result<Arc<dyn Transport>> {
    let engine = Engine::new(config, stats, config.num_threads, MAX_CONNECTIONS, None, true)?;
    Ok(Arc::new(ThreadPool::start(engine)?))
}

/// The threads of one client.
pub struct ThreadPool {
    engine: Arc<Engine>,
    /// Who watches the next deadline.
    watcher: AtomicUsize,
}

impl ThreadPool {
    /// Starts a thread for each member of `engine`.
    ///
    /// # Errors
    /// IO when the system cannot make one; those that run are ended again.
    pub fn start(engine: Engine) -> Result<ThreadPool> {
        Ok(ThreadPool { engine: start_threads(engine, "raskio-pool")?, watcher: AtomicUsize::new(0) })
    }
}

impl Transport for ThreadPool {
    fn submit(&self, batch: Vec<Transfer>) {
        let watcher = self.watcher.fetch_add(1, Ordering::Relaxed) % self.engine.members.len();
        accept(&self.engine, &batch, watcher);
        if let Err(late) = self.engine.post(batch, false) {
            self.engine.refuse(late);
        }
    }

    /// Nothing to wait for: any thread ends it at once, even one that is busy.
    fn end_soon(&self, op: Arc<Operation>, part: Part) {
        let member = self.watcher.fetch_add(1, Ordering::Relaxed) % self.engine.members.len();
        self.engine.end_soon(member, op, part);
    }

    fn sweep(&self, op: &Operation) {
        self.engine.sweep(op);
    }

    fn trim(&self) {
        self.engine.trim();
    }

    fn shut_down(&self) {
        self.engine.set_stop(Stop::ShutDown);
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.engine.wait_stopped(deadline)
    }
}
