//! One reading of an interface's counters.

use std::io;
use std::path::{Path, PathBuf};

/// What counts at an interface, in the order of the files in `statistics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets received and thrown away.
    pub rx_dropped: u64,
    /// Packets that were to be sent and thrown away.
    pub tx_dropped: u64,
    /// Packets received broken.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// One interface at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its name.
    pub name: String,
    /// What it has counted.
    pub counters: Counters,
    /// Megabits a second that the link can do; `None`: it does not say.
    pub speed_mbit: Option<u64>,
    /// It is switched on, and not known to have no link.
    pub is_up: bool,
    /// Traffic of the machine with itself.
    pub is_loopback: bool,
}

/// Where readings come from.
pub trait Source {
    /// Every interface that there is. One that vanishes meanwhile is left out.
    ///
    /// # Errors
    /// The interfaces cannot be listed at all.
    fn read(&mut self) -> io::Result<Vec<Reading>>;
}

/// The kernel's directory.
pub struct Sysfs {
    root: PathBuf,
}

/// `IFF_UP` and `IFF_LOOPBACK` of `linux/if.h`.
const UP: u64 = 0x1;
const LOOPBACK: u64 = 0x8;

impl Sysfs {
    /// Usually `/sys/class/net`.
    pub fn new(root: impl Into<PathBuf>) -> Sysfs {
        Sysfs { root: root.into() }
    }
}

impl Source for Sysfs {
    fn read(&mut self) -> io::Result<Vec<Reading>> {
        let listed = std::fs::read_dir(&self.root)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.root.display())))?;
        let mut readings: Vec<Reading> =
            listed.filter_map(|entry| entry.ok()).filter_map(|entry| reading(&entry.path())).collect();
        readings.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(readings)
    }
}

/// `None`: no interface (such as the file `bonding_masters`), or one that vanishes just now.
fn reading(directory: &Path) -> Option<Reading> {
    let text = |file: &str| std::fs::read_to_string(directory.join(file)).ok();
    let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
    let count = |file: &str| number(&format!("statistics/{file}"));
    let flags = text("flags").and_then(|text| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok())?;
    let state = text("operstate").unwrap_or_default();
    Some(Reading {
        name: directory.file_name()?.to_string_lossy().into_owned(),
        counters: Counters {
            rx_bytes: count("rx_bytes")?,
            tx_bytes: count("tx_bytes")?,
            rx_packets: count("rx_packets")?,
            tx_packets: count("tx_packets")?,
            rx_dropped: count("rx_dropped")?,
            tx_dropped: count("tx_dropped")?,
            rx_errors: count("rx_errors")?,
            tx_errors: count("tx_errors")?,
        },
        // -1, or an error, where there is no link or no such thing as a speed.
        speed_mbit: number("speed").filter(|speed| *speed > 0),
        is_up: flags & UP != 0 && !matches!(state.trim(), "down" | "lowerlayerdown" | "notpresent"),
        is_loopback: flags & LOOPBACK != 0,
    })
}
