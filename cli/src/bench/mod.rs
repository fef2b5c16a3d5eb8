//! `raskio bench`: which settings are best for an object and its server.
//!
//! | file | what |
//! |---|---|
//! | [`measure`] | one setting for a while |
//! | [`advice`] | which settings are measured, and which is recommended |
//! | [`plot`] | a picture of it |

mod advice;
mod measure;
mod plot;

use crate::failure::{Failure, Outcome, code};
use crate::output::{self, Output};
use crate::stop::Stop;
use crate::{remote, units};
use advice::Setting;
use clap::ArgMatches;
use measure::{Figures, Subject};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Runs it.
pub fn run(matches: &ArgMatches, output: &Output) -> Outcome<()> {
    sweep(matches, output).map_err(|failure| output.failed("", failure))
}

fn many<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<T> {
    matches.get_many::<T>(name).into_iter().flatten().cloned().collect()
}

fn sweep(matches: &ArgMatches, output: &Output) -> Outcome<()> {
    let url = matches
        .get_one::<String>("url")
        .map(|url| remote::urls(std::slice::from_ref(url)))
        .transpose()?
        .unwrap_or_default();
    let [url] = url.as_slice() else { return Err(Failure::usage("bench takes one URL")) };
    let seconds = *matches.get_one::<f64>("seconds").unwrap_or(&3.0);
    if !(0.05..=3600.0).contains(&seconds) {
        return Err(Failure::usage(format!("--seconds is {seconds}; it must be 0.05 to 3600")));
    }
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let mut reactors: Vec<u32> = many(matches, "reactors");
    if reactors.is_empty() {
        reactors = [1, 2, 4].into_iter().filter(|n| *n <= cpus).collect();
    }
    let memory = *matches.get_one::<u64>("memory").unwrap_or(&(1 << 30));
    let options = remote::object_options(matches);
    // What is asked once: whether it can be read at all, and how large it is.
    let probe = remote::client(&remote::overrides())?.open(url, options.clone())?;
    let size = probe.stat_sync()?;
    let settings = Setting::grid(&reactors, &many(matches, "requests"), &many(matches, "task-size"));
    let (settings, left_out): (Vec<Setting>, Vec<Setting>) =
        settings.into_iter().partition(|setting| setting.task_size <= size && setting.bytes() <= memory);
    if settings.is_empty() {
        let words = format!(
            "no setting can be measured: {} is {}, and --memory {}; give smaller --task-size or --requests",
            probe.name(),
            units::size(size),
            units::size(memory)
        );
        return Err(Failure::usage(words));
    }
    let quiet = matches.get_flag("quiet");
    let say = |line: String| {
        if !quiet {
            output::say(&line);
        }
    };
    let rounds = *matches.get_one::<u32>("rounds").unwrap_or(&1);
    let subject = Subject { url, options, size, stop: Stop::on_signals()?, time: Duration::from_secs_f64(seconds) };
    let about = seconds * 1.2 * f64::from(rounds) * settings.len() as f64;
    say(format!("{}: {}; {} settings, about {about:.0} s", probe.name(), units::size(size), settings.len()));
    if !left_out.is_empty() {
        say(format!("{} settings are left out: more than the object has, or than --memory allows", left_out.len()));
    }
    let mut rows: Vec<(Setting, Vec<Figures>)> = settings.iter().map(|setting| (*setting, Vec::new())).collect();
    // Round by round, so that a bad minute of the network does not hit one setting alone.
    let mut worked = false;
    for _ in 0..rounds {
        for (setting, figures) in &mut rows {
            if figures.iter().any(|figures| figures.failure.is_some()) {
                continue;
            }
            let measured = match subject.measure(setting) {
                Ok(measured) => measured,
                // What goes wrong with every setting is not the setting's fault; but what was measured is not thrown away.
                Err(failure) if !worked || failure.code >= code::SIGNAL => return Err(failure),
                Err(failure) => Figures::failed(failure),
            };
            worked = true;
            match &measured.failure {
                None => say(format!("{}: {}", setting.words(), units::rate(measured.bytes_per_s))),
                Some(failure) => say(format!("{}: given up: {}", setting.words(), failure.message)),
            }
            figures.push(measured);
        }
    }
    let rows: Vec<(Setting, Figures)> =
        rows.into_iter().map(|(setting, figures)| (setting, Figures::median(figures))).collect();
    let best = advice::recommend(&rows).ok_or_else(|| Failure::usage("nothing was measured"))?;
    if let Some(path) = matches.get_one::<PathBuf>("plot") {
        std::fs::write(path, plot::svg(&rows, best, probe.name()))
            .map_err(|error| Failure::file("write", path, &error))?;
        say(format!("the plot is in {}", path.display()));
    }
    output.result(|| all_json(probe.name(), size, &rows, best), || table(&rows, best));
    Ok(())
}

fn all_json(name: &str, size: u64, rows: &[(Setting, Figures)], best: usize) -> Value {
    let results: Vec<Value> = rows.iter().map(|(setting, figures)| figures.json(setting)).collect();
    let environment: serde_json::Map<String, Value> =
        rows[best].0.environment().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    json!({"object": name, "size": size, "results": results, "recommended": best, "environment": environment})
}

fn table(rows: &[(Setting, Figures)], best: usize) -> String {
    let mut lines = vec![format!(
        "  {:>8} {:>8} {:>9} {:>12} {:>9} {:>9} {:>9} {:>8} {:>7}",
        "reactors", "requests", "task size", "rate", "p50 ms", "p99 ms", "CPU s/GB", "retries", "errors"
    )];
    for (at, (setting, figures)) in rows.iter().enumerate() {
        if figures.failure.is_some() {
            let (reactors, requests, size) = (setting.reactors, setting.requests, units::size(setting.task_size));
            lines.push(format!("  {reactors:>8} {requests:>8} {size:>9}     given up: reads failed"));
            continue;
        }
        lines.push(format!(
            "{} {:>8} {:>8} {:>9} {:>12} {:>9} {:>9} {:>9.2} {:>8} {:>7}",
            if at == best { '*' } else { ' ' },
            setting.reactors,
            setting.requests,
            units::size(setting.task_size),
            units::rate(figures.bytes_per_s),
            units::ms(figures.p50_us),
            units::ms(figures.p99_us),
            figures.cpu_s_per_gb,
            figures.retries,
            figures.errors,
        ));
    }
    lines.push(
        "\n* is recommended: the least requests and threads of what comes within 5 % of the fastest. To use it:\n"
            .into(),
    );
    lines.extend(rows[best].0.environment().iter().map(|(name, value)| format!("  export {name}={value}")));
    lines.join("\n")
}
