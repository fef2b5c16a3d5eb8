//! All clients of the process together, those that are gone included, and its last fault.

use super::{Latencies, Snapshot, Stats};
use crate::sync::Mutex;
use crate::sys::per_process::PerProcess;
use std::sync::Arc;

#[derive(Default)]
struct All {
    /// Held here as well, so that nothing is ever in neither sum.
    clients: Vec<Arc<Stats>>,
    ended: Snapshot,
    ended_latencies: Latencies,
    fault: Option<String>,
}

impl All {
    /// Adds up what nobody can change any more: those that are held here alone.
    fn fold(&mut self) {
        let All { clients, ended, ended_latencies, .. } = self;
        clients.retain(|stats| {
            let living = Arc::strong_count(stats) > 1;
            if !living {
                ended.add(&stats.snapshot(), false);
                ended_latencies.add(&stats.latencies());
            }
            living
        });
    }
}

/// A forked child begins with nothing: the clients stay with its parent.
static ALL: PerProcess<Mutex<All>> = PerProcess::new();

fn all() -> &'static Mutex<All> {
    ALL.get_or_make(Mutex::default).0
}

/// A client's numbers, counted in from now on.
pub(super) fn register() -> Arc<Stats> {
    let stats = Arc::<Stats>::default();
    let mut all = all().lock();
    all.fold();
    all.clients.push(stats.clone());
    stats
}

/// Something went wrong inside RaskIO that should not have, and was contained.
pub fn fault(text: &str) {
    all().lock().fault = Some(text.to_owned());
}

/// The last such fault of the process.
pub fn last_fault() -> Option<String> {
    all().lock().fault.clone()
}

/// The sums over all clients. Of what is there now (in flight, queued, pinned), those of the living.
pub fn read() -> (Snapshot, Latencies) {
    let mut all = all().lock();
    all.fold();
    let (mut numbers, mut latencies) = (all.ended, all.ended_latencies.clone());
    for stats in &all.clients {
        numbers.add(&stats.snapshot(), true);
        latencies.add(&stats.latencies());
    }
    (numbers, latencies)
}
