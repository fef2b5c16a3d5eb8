//! Which settings are measured, and which is recommended.

use super::measure::Figures;
use crate::units;

/// What a measurement is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Threads that move bytes.
    pub reactors: u32,
    /// Requests in flight.
    pub requests: u32,
    /// Bytes of a request.
    pub task_size: u64,
}

/// What is so near to the fastest is as good: two measurements of the same differ as much.
const AS_GOOD: f64 = 0.95;

impl Setting {
    /// Every combination, each once.
    pub fn grid(reactors: &[u32], requests: &[u32], task_sizes: &[u64]) -> Vec<Setting> {
        let mut all = Vec::new();
        for &task_size in task_sizes {
            for &requests in requests {
                for &reactors in reactors {
                    let setting = Setting { reactors, requests, task_size };
                    if !all.contains(&setting) {
                        all.push(setting);
                    }
                }
            }
        }
        all
    }

    /// Bytes under way.
    pub fn bytes(&self) -> u64 {
        u64::from(self.requests).saturating_mul(self.task_size)
    }

    /// For progress.
    pub fn words(&self) -> String {
        let count = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (reactors, requests) = (count(self.reactors, "reactor"), count(self.requests, "request"));
        format!("{reactors}, {requests} of {}", units::size(self.task_size))
    }

    /// The variables that set it, for every program that uses RaskIO.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("KVIKIO_REMOTE_IO_BACKEND", "MULTI_POLL".into()),
            ("KVIKIO_REMOTE_IO_NUM_REACTORS", self.reactors.to_string()),
            ("KVIKIO_REMOTE_IO_MAX_CONCURRENT_REQUESTS", self.requests.to_string()),
            ("RASKIO_CONCURRENCY", "FIXED".into()),
            ("KVIKIO_TASK_SIZE", self.task_size.to_string()),
        ]
    }
}

/// The row of the setting that costs least of those that are about as fast as the fastest: fewest reactors, then fewest
/// requests, then fewest bytes under way.
pub fn recommend(rows: &[(Setting, Figures)]) -> Option<usize> {
    let without_errors = |row: &&(Setting, Figures)| row.1.errors == 0;
    let fastest =
        |rows: &mut dyn Iterator<Item = &(Setting, Figures)>| rows.map(|row| row.1.bytes_per_s).fold(0.0, f64::max);
    let any_good = rows.iter().any(|row| row.1.errors == 0);
    let most = match any_good {
        true => fastest(&mut rows.iter().filter(without_errors)),
        false => fastest(&mut rows.iter()),
    };
    let good = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.1.bytes_per_s >= most * AS_GOOD && (row.1.errors == 0 || !any_good));
    good.min_by_key(|(_, (setting, _))| (setting.reactors, setting.requests, setting.bytes())).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(reactors: u32, requests: u32, task_size: u64, bytes_per_s: f64, errors: u64) -> (Setting, Figures) {
        (Setting { reactors, requests, task_size }, Figures { bytes_per_s, errors, ..Figures::default() })
    }

    #[test]
    fn the_cheapest_of_the_fast_ones_is_recommended() {
        let rows = [row(1, 16, 4, 50.0, 0), row(1, 64, 4, 96.0, 0), row(2, 64, 4, 100.0, 0), row(1, 256, 4, 99.0, 0)];
        assert_eq!(recommend(&rows), Some(1));
        // One with errors is not, however fast, unless all have some.
        assert_eq!(recommend(&[row(1, 1, 1, 200.0, 3), row(2, 2, 2, 100.0, 0)]), Some(1));
        assert_eq!(recommend(&[row(1, 1, 1, 200.0, 3)]), Some(0));
        assert_eq!(recommend(&[]), None);
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        assert_eq!(Setting::grid(&[1, 2, 2], &[16], &[1, 4]).len(), 4);
    }
}
