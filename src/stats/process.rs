//! All clients of the process together, those that are gone included, and its last fault.

use super::{Latencies, Snapshot, Stats};
use crate::sync::Mutex;
use crate::sys::per_process::PerProcess;
use crate::sys::process;
use std::sync::{Arc, Weak};

#[derive(Default)]
struct All {
    living: Vec<Weak<Stats>>,
    ended: Snapshot,
    ended_latencies: Latencies,
    fault: Option<String>,
}

/// A forked child begins with nothing: the clients stay with its parent.
static ALL: PerProcess<Mutex<All>> = PerProcess::new();

fn all() -> &'static Mutex<All> {
    ALL.get_or_make(Mutex::default).0
}

/// A client's numbers, counted in from now on.
pub(super) fn register() -> Arc<Stats> {
    let mut stats = Stats::default();
    stats.registered = Some(process::generation());
    let stats = Arc::new(stats);
    let mut all = all().lock();
    all.living.retain(|one| one.strong_count() > 0);
    all.living.push(Arc::downgrade(&stats));
    stats
}

/// The numbers of a client that is gone, which stay in the sum.
pub(super) fn ended(generation: u64, numbers: &Snapshot, latencies: &Latencies) {
    // A child may drop what it inherited: that was counted by its parent.
    if generation != process::generation() {
        return;
    }
    let mut all = all().lock();
    all.ended.add(numbers, false);
    all.ended_latencies.add(latencies);
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
    let (living, mut numbers, mut latencies) = {
        let all = all().lock();
        let living: Vec<Arc<Stats>> = all.living.iter().filter_map(Weak::upgrade).collect();
        (living, all.ended, all.ended_latencies.clone())
    };
    for stats in living {
        numbers.add(&stats.snapshot(), true);
        latencies.add(&stats.latencies());
        // Outside the lock, should this be the last reference.
        drop(stats);
    }
    (numbers, latencies)
}
