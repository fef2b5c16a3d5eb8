//! `raskio nic`: what goes through the network interfaces.

use crate::failure::{Failure, Outcome, code};
use crate::output::{self, Output};
use crate::stop::{LOOK, Stop};
use clap::ArgMatches;
use raskio_nic::counters::Sysfs;
use raskio_nic::rates::Sampler;
use raskio_nic::select::Selection;
use raskio_nic::text;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Lines of a table between two heads.
const PAGE: usize = 24;

/// Runs it.
pub fn run(matches: &ArgMatches, output: &Output) -> Outcome<()> {
    watch(matches, output).map_err(|failure| output.failed("", failure))
}

fn watch(matches: &ArgMatches, output: &Output) -> Outcome<()> {
    let devices: Vec<String> = matches.get_many("device").into_iter().flatten().cloned().collect();
    let interval = Duration::from_millis(*matches.get_one("interval").unwrap_or(&1000));
    let count = matches.get_one::<u64>("count").copied();
    let root = matches.get_one::<PathBuf>("sysfs").cloned().unwrap_or_else(|| "/sys/class/net".into());
    let csv = matches.get_flag("csv");
    let stop = Stop::on_signals()?;
    let named = !devices.is_empty();
    let mut sampler = Sampler::new(Sysfs::new(root), Selection::new(devices));
    let (mut next, mut lines, mut taken) = (Instant::now(), 0, 0);
    let failed = |error: std::io::Error| Failure::new(code::FAILED, "IO", format!("cannot read the counters: {error}"));
    let first = sampler.sample(next).map_err(failed)?;
    if first.interfaces.is_empty() && sampler.watched() == 0 && named {
        return Err(Failure::new(code::FAILED, "NOT_FOUND", "there is no interface of that name"));
    }
    if sampler.watched() == 0 {
        output::say("raskio: no interface is up, but loopback at most (-d '*' takes all); waiting for one");
    }
    if csv {
        output::print(text::CSV_HEAD);
    }
    while count.is_none_or(|count| taken < count) {
        next += interval;
        if !sleep_until(next, &stop) {
            // Being interrupted is how it ends.
            return Ok(());
        }
        let sample = sampler.sample(Instant::now()).map_err(failed)?;
        taken += 1;
        match (csv, output.json) {
            (true, _) => output::print(&output::tame(&text::csv(&sample))),
            (_, true) => output::print(&text::json(&sample).to_string()),
            _ => {
                let table = text::table(&sample);
                if lines == 0 || lines >= PAGE {
                    output::print(&text::table_head());
                    lines = 0;
                }
                lines += table.lines().count();
                output::print(&output::tame(&table));
            }
        }
    }
    Ok(())
}

/// False: a signal came first.
fn sleep_until(when: Instant, stop: &Stop) -> bool {
    while let Some(left) = when.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if stop.signal().is_some() {
            return false;
        }
        std::thread::sleep(left.min(LOOK));
    }
    stop.signal().is_none()
}
