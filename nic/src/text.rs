//! Samples for a terminal, a spreadsheet and programs.

use crate::rates::{Rate, Sample};
use serde_json::{Value, json};

/// The first line of CSV.
pub const CSV_HEAD: &str =
    "seconds,interface,rx_bytes_per_s,tx_bytes_per_s,rx_packets_per_s,tx_packets_per_s,dropped,errors,speed_mbit";

fn all(sample: &Sample) -> impl Iterator<Item = &Rate> {
    sample.interfaces.iter().chain([&sample.total])
}

/// One line an interface and one for the total.
pub fn csv(sample: &Sample) -> String {
    let line = |rate: &Rate| {
        // A name may hold a comma or a quote.
        let name = match rate.name.contains([',', '"', '\n']) {
            true => format!("\"{}\"", rate.name.replace('"', "\"\"")),
            false => rate.name.clone(),
        };
        format!(
            "{:.6},{name},{:.0},{:.0},{:.0},{:.0},{},{},{}",
            sample.at.as_secs_f64(),
            rate.rx_bytes_per_s,
            rate.tx_bytes_per_s,
            rate.rx_packets_per_s,
            rate.tx_packets_per_s,
            rate.dropped,
            rate.errors,
            rate.speed_mbit.map(|speed| speed.to_string()).unwrap_or_default()
        )
    };
    all(sample).map(line).collect::<Vec<_>>().join("\n")
}

fn rate(rate: &Rate) -> Value {
    json!({
        "name": rate.name,
        "rx_bytes_per_s": rate.rx_bytes_per_s,
        "tx_bytes_per_s": rate.tx_bytes_per_s,
        "rx_packets_per_s": rate.rx_packets_per_s,
        "tx_packets_per_s": rate.tx_packets_per_s,
        "dropped": rate.dropped,
        "errors": rate.errors,
        "speed_mbit": rate.speed_mbit,
    })
}

/// One object.
pub fn json(sample: &Sample) -> Value {
    json!({
        "seconds": sample.at.as_secs_f64(),
        "interfaces": sample.interfaces.iter().map(rate).collect::<Vec<_>>(),
        "total": rate(&sample.total),
        "vanished": sample.vanished,
    })
}

/// The first line of a table.
pub fn table_head() -> String {
    format!(
        "{:>9}  {:<16} {:>12} {:>12} {:>9} {:>9} {:>8} {:>10}",
        "seconds", "interface", "rx MB/s", "tx MB/s", "dropped", "errors", "of link", "Mbit/s"
    )
}

/// One line an interface; one for the total, if there are several.
pub fn table(sample: &Sample) -> String {
    let line = |rate: &Rate| {
        let most = rate.rx_bytes_per_s.max(rate.tx_bytes_per_s);
        let share = rate.speed_mbit.map(|speed| format!("{:.0} %", most * 8e-4 / speed as f64)).unwrap_or_default();
        format!(
            "{:>9.3}  {:<16} {:>12.3} {:>12.3} {:>9} {:>9} {:>8} {:>10}",
            sample.at.as_secs_f64(),
            rate.name,
            rate.rx_bytes_per_s / 1e6,
            rate.tx_bytes_per_s / 1e6,
            rate.dropped,
            rate.errors,
            share,
            rate.speed_mbit.map(|speed| speed.to_string()).unwrap_or_default()
        )
    };
    let mut lines: Vec<String> = sample.interfaces.iter().map(line).collect();
    if sample.interfaces.len() != 1 {
        lines.push(line(&sample.total));
    }
    lines.extend(sample.vanished.iter().map(|name| format!("{:>9.3}  {name} has vanished", sample.at.as_secs_f64())));
    lines.join("\n")
}
