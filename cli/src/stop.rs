//! Ctrl-C and its like: the first ends what runs in good order, the second at once.

use crate::failure::{Failure, Outcome, code};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// How often whoever waits for something else looks whether a signal came.
pub const LOOK: Duration = Duration::from_millis(50);

/// Whether a signal asked for an end.
#[derive(Clone)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// From now on signals are caught.
    ///
    /// # Errors
    /// The system refuses.
    pub fn on_signals() -> Outcome<Stop> {
        let number = Arc::new(AtomicUsize::new(0));
        let second = Arc::new(AtomicBool::new(false));
        // What whoever started this has it ignore stays ignored: the SIGHUP of nohup, the SIGINT of a shell's `&`.
        let ignored = ignored();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            let caught = flag::register_conditional_shutdown(signal, i32::from(code::SIGNAL) + signal, second.clone())
                .and_then(|_| flag::register(signal, second.clone()))
                .and_then(|_| flag::register_usize(signal, number.clone(), signal as usize));
            caught.map_err(|error| Failure::new(code::FAILED, "IO", format!("cannot catch signals: {error}")))?;
        }
        Ok(Stop(number))
    }

    /// Signals do what they always do.
    pub fn never() -> Stop {
        Stop(Arc::default())
    }

    /// The signal, if one came.
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(SeqCst) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}

/// A bit for each signal that is ignored, from 1.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
