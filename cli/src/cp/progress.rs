//! How far a copy is: a bar on a terminal, elsewhere a line every few seconds.

use crate::output::say;
use crate::units;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two lines.
const LINES: Duration = Duration::from_secs(5);
const BAR: &str = "{prefix} {wide_bar} {percent:>3} % {bytes}/{total_bytes} {binary_bytes_per_sec} ETA {eta}";

enum Way {
    Quiet,
    Bars(MultiProgress),
    Lines,
}

/// All copies of one command.
pub struct Progress(Way);

/// One of them.
pub struct Bar {
    way: Shown,
    done: Mutex<(u64, Instant)>,
    name: String,
    total: u64,
    /// What was there before.
    before: u64,
    started: Instant,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    /// As standard error bears it.
    pub fn new(quiet: bool) -> Progress {
        // A dumb terminal shows the bar's commands instead of obeying them.
        let obeys = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        Progress(match (quiet, obeys && std::io::stderr().is_terminal()) {
            (true, _) => Way::Quiet,
            (false, true) => Way::Bars(MultiProgress::new()),
            (false, false) => Way::Lines,
        })
    }

    /// Runs `f`, which writes lines, with no bar in its way.
    pub fn suspend<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.0 {
            Way::Bars(bars) => bars.suspend(f),
            _ => f(),
        }
    }

    /// A copy of `total` bytes begins, `before` of which are there.
    pub fn begin(&self, name: &str, total: u64, before: u64) -> Bar {
        let way = match &self.0 {
            Way::Quiet => Shown::Nothing,
            Way::Lines => Shown::Lines,
            Way::Bars(bars) => {
                let bar = bars.add(ProgressBar::new(total));
                if let Ok(style) = ProgressStyle::with_template(BAR) {
                    bar.set_style(style);
                }
                bar.set_prefix(name.to_owned());
                bar.set_position(before);
                // The rate is that of this copy.
                bar.reset_eta();
                bar.enable_steady_tick(Duration::from_millis(200));
                Shown::Bar(bar)
            }
        };
        let bar = Bar {
            way,
            done: Mutex::new((before, Instant::now())),
            name: name.into(),
            total,
            before,
            started: Instant::now(),
        };
        if before > 0 && !matches!(self.0, Way::Quiet) {
            let (before, total) = (units::size(before), units::size(total));
            self.suspend(|| say(&format!("{name}: goes on, {before} of {total} are there")));
        }
        bar
    }
}

impl Bar {
    /// So many more bytes are in the file.
    pub fn add(&self, bytes: u64) {
        if let Shown::Bar(bar) = &self.way {
            bar.inc(bytes);
        }
        let mut done = self.done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        done.0 += bytes;
        if matches!(self.way, Shown::Lines) && done.1.elapsed() >= LINES {
            done.1 = Instant::now();
            let seconds = self.started.elapsed().as_secs_f64().max(1e-6);
            let rate = (done.0 - self.before) as f64 / seconds;
            let left = (self.total.saturating_sub(done.0) as f64 / rate.max(1.0)).ceil();
            say(&format!(
                "{}: {:.0} % of {}, {}, {left:.0} s left",
                self.name,
                100.0 * done.0 as f64 / self.total.max(1) as f64,
                units::size(self.total),
                units::rate(rate),
            ));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.way {
            bar.finish_and_clear();
        }
    }
}
