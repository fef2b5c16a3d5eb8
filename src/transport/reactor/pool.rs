//! MULTI_POLL: N reactors under one budget.

use super::engine::{Engine, Message, Stop};
use crate::config::{Backend, Config, Dispatch, UNLIMITED};
use crate::error::Result;
use crate::exit::{self, Threads};
use crate::memory;
use crate::op::Operation;
use crate::op::items::Part;
use crate::stats::{self, Stats};
use crate::sys::limits;
use crate::transport::{Kind, Transfer, Transport};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// File descriptors left to the host and to RaskIO's own use when a budget is cut to the open-file limit.
const RESERVED_FILES: u64 = 64;
/// Connections that a reactor keeps at least, however small the budget: a program that reads from dozens of servers, a few requests at
/// a time, would open one for nearly every request. An idle one costs a descriptor and, with TLS, some tens of KiB.
const KEPT: u32 = 64;

/// The row in [`crate::transport::KINDS`].
pub const KIND: Kind = Kind { name: "MULTI_POLL", backend: Backend::MultiPoll, start };

fn start(config: &Config, stats: Arc<Stats>) -> Result<Arc<dyn Transport>> {
    let open_files = limits::open_file_limit();
    let budget = budget_within_open_files(config.max_concurrent_requests, open_files);
    let kept = connections_kept(budget, config.num_reactors, open_files);
    // Requests of one read may go anywhere, so they go where there is time for them.
    let shared = config.dispatch == Dispatch::PerChunk && config.num_reactors > 1;
    let engine = Engine::new(config, stats, config.num_reactors, kept, Some(budget), shared)?;
    Ok(Arc::new(ReactorPool::start(engine, config.dispatch)?))
}

/// The reactors of one client.
pub struct ReactorPool {
    engine: Arc<Engine>,
    dispatch: Dispatch,
    /// Where the next request (or read) goes.
    next: AtomicUsize,
}

impl ReactorPool {
    /// Starts a thread for each member of `engine`.
    ///
    /// # Errors
    /// IO when the system cannot make one; those that run are ended again.
    pub fn start(engine: Engine, dispatch: Dispatch) -> Result<ReactorPool> {
        let engine = start_threads(engine, "raskio-react")?;
        Ok(ReactorPool { engine, dispatch, next: AtomicUsize::new(0) })
    }
}

/// Starts a thread for each member of `engine`.
pub(in crate::transport) fn start_threads(engine: Engine, name: &str) -> Result<Arc<Engine>> {
    let engine = Arc::new(engine);
    exit::watch(engine.clone());
    for index in 0..engine.members.len() {
        let of_thread = engine.clone();
        let started = engine.spawn(&format!("{name}-{index}"), move || super::run(&of_thread, index));
        if let Err(error) = started {
            engine.set_stop(Stop::ShutDown);
            return Err(error);
        }
    }
    Ok(engine)
}

/// Counts a batch in, and has somebody watch the deadline of its operation.
pub(in crate::transport) fn accept(engine: &Engine, batch: &[Transfer], watcher: usize) {
    let requests = batch.len() as u64;
    stats::add(&engine.stats.requests_started, requests);
    stats::add(&engine.stats.requests_queued, requests);
    if let Some((at, op)) = batch.first().and_then(|transfer| Some((transfer.op.deadline()?, &transfer.op))) {
        let message = Message::Deadline(at, Arc::downgrade(op));
        // A closed inbox belongs to a thread that ended every operation there was.
        let _ = engine.members[watcher].inbox.push(vec![message]);
    }
}

/// The requests among messages.
pub(in crate::transport) fn works(messages: Vec<Message>) -> Vec<Transfer> {
    let work = |message| match message {
        Message::Work(batch) => batch,
        Message::Nothing(..)
        | Message::Deadline(..)
        | Message::Trim
        | Message::Name(..)
        | Message::Secret(..)
        | Message::Room(_) => Vec::new(),
    };
    messages.into_iter().flat_map(work).collect()
}

impl Transport for ReactorPool {
    fn submit(&self, batch: Vec<Transfer>) {
        let members = &self.engine.members;
        if self.engine.board.is_some() {
            accept(&self.engine, &batch, self.next.fetch_add(1, Ordering::Relaxed) % members.len());
            if let Err(late) = self.engine.post(batch, false) {
                self.engine.refuse(late);
            }
            return;
        }
        let steps = match self.dispatch {
            Dispatch::PerChunk => batch.len(),
            Dispatch::PerPread => 1,
        };
        let first = self.next.fetch_add(steps, Ordering::Relaxed) % members.len();
        accept(&self.engine, &batch, first);
        let used = if self.dispatch == Dispatch::PerPread { 1 } else { members.len().min(batch.len()) };
        let rooms = if used > 1 { rooms(used, batch.len()) } else { None };
        let parts = match rooms {
            Some(mut parts) => {
                for (i, transfer) in batch.into_iter().enumerate() {
                    parts[i % used].push(transfer);
                }
                parts
            }
            None => vec![batch],
        };
        for (i, part) in parts.into_iter().enumerate() {
            if let Err(late) = members[(first + i) % members.len()].inbox.push(vec![Message::Work(part)]) {
                self.engine.refuse(works(late));
            }
        }
    }

    fn end_soon(&self, op: Arc<Operation>, part: Part) {
        let member = self.next.fetch_add(1, Ordering::Relaxed) % self.engine.members.len();
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

/// Room to part so many requests; without the memory for that they all go to one reactor.
fn rooms(parts: usize, requests: usize) -> Option<Vec<Vec<Transfer>>> {
    let room = |_| memory::vec(requests.div_ceil(parts), || "to part requests".into()).ok();
    (0..parts).map(room).collect()
}

/// Connections that the open-file limit can bear: a very small one keeps half for the host.
fn bearable(limit: u64) -> u32 {
    u32::try_from(limit.saturating_sub(RESERVED_FILES).max(limit / 2).max(1)).unwrap_or(UNLIMITED)
}

/// Connections that each reactor keeps. Any one may use the whole budget, and must not close one that it will need again. Those
/// beyond the budget are for other servers, as many as the open-file limit bears over all reactors.
fn connections_kept(budget: u32, reactors: u32, limit: Option<u64>) -> u32 {
    budget.max(limit.map_or(KEPT, |limit| KEPT.min(bearable(limit) / reactors.max(1))))
}

/// A budget that the open-file limit can bear: a connection is a file.
fn budget_within_open_files(budget: u32, limit: Option<u64>) -> u32 {
    let Some(limit) = limit else { return budget };
    let bearable = bearable(limit);
    if budget <= bearable {
        return budget;
    }
    if budget != UNLIMITED {
        log::warn!(
            target: "raskio",
            "max_concurrent_requests is cut from {budget} to {bearable}: the open-file limit is {limit} (ulimit -n), and \
             each request may need a connection; raise the limit to use more"
        );
    }
    bearable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_cut_to_what_the_open_file_limit_bears() {
        assert_eq!(budget_within_open_files(256, Some(1024)), 256);
        assert_eq!(budget_within_open_files(5000, Some(1024)), 960);
        assert_eq!(budget_within_open_files(UNLIMITED, Some(1024)), 960);
        assert_eq!(budget_within_open_files(5000, None), 5000);
        assert_eq!(budget_within_open_files(256, Some(20)), 10);
        assert_eq!(budget_within_open_files(256, Some(1)), 1);
    }

    #[test]
    fn a_reactor_keeps_what_it_may_use_and_connections_to_other_servers_as_the_open_file_limit_bears() {
        assert_eq!(connections_kept(256, 1, Some(1024)), 256);
        assert_eq!(connections_kept(4, 1, Some(1024)), 64);
        assert_eq!(connections_kept(4, 1000, None), 64);
        assert_eq!(connections_kept(4, 32, Some(1024)), 30);
        assert_eq!(connections_kept(4, 1024, Some(1024)), 4);
        assert_eq!(connections_kept(4, 1, Some(20)), 10);
    }
}
