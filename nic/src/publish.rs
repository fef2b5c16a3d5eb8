//! Samples as NVTX counters: one group an interface, and one for the total.

use crate::rates::{Rate, Sample};
use raskio_nvtx::{Counter, Counters, Domain};
use std::collections::BTreeMap;

/// What a group consists of.
const COUNTERS: [Counter; 4] = [
    Counter { name: c"rx", unit: c"B/s" },
    Counter { name: c"tx", unit: c"B/s" },
    Counter { name: c"dropped", unit: c"packets" },
    Counter { name: c"errors", unit: c"packets" },
];

/// Hands samples to the profiler.
pub struct Publisher {
    domain: Domain,
    groups: BTreeMap<String, Counters>,
}

impl Publisher {
    /// `None`: no profiler is there.
    pub fn new() -> Option<Publisher> {
        Domain::new(c"RaskIO NIC").map(|domain| Publisher { domain, groups: BTreeMap::new() })
    }

    /// What goes through the interfaces now.
    pub fn publish(&mut self, sample: &Sample) {
        for name in &sample.vanished {
            if let Some(group) = self.groups.get(name) {
                group.unavailable();
            }
        }
        for rate in &sample.interfaces {
            self.one(rate);
        }
        if !sample.interfaces.is_empty() {
            self.one(&sample.total);
        }
    }

    fn one(&mut self, rate: &Rate) {
        let group = self.groups.entry(rate.name.clone()).or_insert_with(|| {
            let description = match rate.speed_mbit {
                Some(speed) => format!("Network interface {}, {speed} Mbit/s", rate.name),
                None => format!("Network interface {}", rate.name),
            };
            self.domain.counters(&rate.name, &description, &COUNTERS)
        });
        group.sample(&[rate.rx_bytes_per_s, rate.tx_bytes_per_s, rate.dropped as f64, rate.errors as f64]);
    }
}
