//! Local files: by io_uring where the kernel allows it, else by pread and pwrite on threads.
//!
//! | file | what |
//! |---|---|
//! | [`work`] | a request piece by piece: through the cache or past it, what short reads leave, what errors mean |
//! | [`queue`] | what is before the threads |
//! | [`pool`] | the threads; one of them, the keeper, never asks the system for anything that may last, and ends what is over |
//! | [`serve`] | what the others do: open files, ask for sizes, find the end; without io_uring they move the bytes too |
//! | [`ring`] | a thread and a ring for each block device |
//!
//! Nothing is started before the first file is opened. A read or a write that the kernel has begun cannot be taken back: its
//! operation ends when the kernel is done with it.

pub mod pool;
mod queue;
pub mod ring;
mod serve;
mod work;

use super::{Start, Transfer, Transport};
use crate::config::{Config, LocalBackend};
use crate::error::Result;
use crate::exit::Threads;
use crate::op::Operation;
use crate::op::items::Part;
use crate::stats::Stats;
use crate::sys::uring;
use pool::Pool;
use ring::Rings;
use std::sync::Arc;
use std::time::Instant;

/// One way of moving the bytes of files.
pub struct Kind {
    /// As `RASKIO_LOCAL_BACKEND` names it.
    pub name: &'static str,
    /// The setting that chooses it.
    pub backend: LocalBackend,
    /// Starts it for a client.
    pub start: Start,
}

/// Every kind, the better one first.
pub const KINDS: &[Kind] = &[
    Kind { name: "URING", backend: LocalBackend::Uring, start: start_uring },
    Kind { name: "PREAD", backend: LocalBackend::Pread, start: start_pread },
];

/// Starts the transport that the settings name, or the best there is.
///
/// # Errors
/// UNSUPPORTED, PERMISSION_DENIED: io_uring was asked for and cannot be had. IO: the system has no threads left.
pub fn start(config: &Config, stats: Arc<Stats>) -> Result<Arc<dyn Transport>> {
    match config.local_backend {
        LocalBackend::Auto => start_uring(config, stats.clone()).or_else(|error| {
            let later = ring::is_temporary(&error);
            let until = if later { ", until a ring can be had" } else { "" };
            log::warn!(target: "raskio", "local files are read by pread on threads{until}: {}", error.message());
            // Each device tries for itself.
            let rings = later.then(|| Rings::after_a_failure(config));
            Ok(Arc::new(Files { pool: Pool::start(config, stats, rings)? }) as Arc<dyn Transport>)
        }),
        LocalBackend::Uring => start_uring(config, stats).map_err(|error| {
            error.note("choose AUTO or PREAD as the backend of local files to go on without io_uring")
        }),
        LocalBackend::Pread => start_pread(config, stats),
    }
}

fn start_pread(config: &Config, stats: Arc<Stats>) -> Result<Arc<dyn Transport>> {
    Ok(Arc::new(Files { pool: Pool::start(config, stats, None)? }))
}

fn start_uring(config: &Config, stats: Arc<Stats>) -> Result<Arc<dyn Transport>> {
    let rings = Rings::new(config);
    uring::probe(rings.options())?;
    Ok(Arc::new(Files { pool: Pool::start(config, stats, Some(rings))? }))
}

/// The threads of one client.
struct Files {
    pool: Arc<Pool>,
}

impl Transport for Files {
    fn submit(&self, batch: Vec<Transfer>) {
        self.pool.accept(&batch);
        // What needs no more than moving goes where that is done.
        self.pool.post(self.pool.to_rings(batch));
    }

    fn end_soon(&self, op: Arc<Operation>, part: Part) {
        self.pool.end_soon(op, part);
    }

    fn sweep(&self, _: &Operation) {
        self.pool.sweep();
    }

    fn trim(&self) {
        self.pool.trim();
    }

    fn shut_down(&self) {
        self.pool.shut_down();
    }

    fn wait_stopped(&self, deadline: Option<Instant>) -> bool {
        self.pool.wait_stopped(deadline)
    }
}
