//! The numbers as text: JSON, and the exposition format of Prometheus.

use super::histogram::Distribution;
use super::{Kind, Latencies, Snapshot};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The quantiles that JSON shows.
const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];
/// Powers of two in microseconds that end a bucket for Prometheus: 64 µs to 67 s.
const PROMETHEUS_BUCKETS: std::ops::RangeInclusive<u32> = 6..=26;

fn distributions(latencies: &Latencies) -> [(&'static str, &'static str, &Distribution); 3] {
    [
        ("op_latency", "From the start of an operation to its callback.", &latencies.op),
        (
            "request_latency",
            "From the start of an attempt that brought all that was missing to its end.",
            &latencies.request,
        ),
        ("first_byte_latency", "From the start of an attempt to the first byte of the answer.", &latencies.first_byte),
    ]
}

/// One object: each number under its name, and each latency as an object of microseconds.
pub fn json(numbers: &Snapshot, latencies: &Latencies, last_fault: Option<&str>) -> String {
    let mut all: Map<String, Value> =
        numbers.numbers().into_iter().map(|(name, _, _, value)| (name.to_owned(), value.into())).collect();
    for (name, _, seen) in distributions(latencies) {
        let mut one = Map::new();
        one.insert("count".into(), seen.count.into());
        one.insert("sum_us".into(), seen.sum_us.into());
        one.insert("max_us".into(), seen.max_us.into());
        for (name, q) in QUANTILES {
            one.insert(format!("{name}_us"), seen.quantile(q).into());
        }
        all.insert(name.into(), one.into());
    }
    all.insert("last_fault".into(), json!(last_fault));
    Value::Object(all).to_string()
}

/// As Prometheus scrapes it (text format 0.0.4): counters end in `_total`, times are in seconds.
pub fn prometheus(numbers: &Snapshot, latencies: &Latencies) -> String {
    let mut text = String::with_capacity(8 << 10);
    // Writing into a String does not fail.
    let mut line = |words: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{words}");
    };
    for (name, kind, help, value) in numbers.numbers() {
        let (name, kind, value) = match kind {
            Kind::Gauge => (format!("raskio_{name}"), "gauge", value.to_string()),
            Kind::Counter => (format!("raskio_{name}_total"), "counter", value.to_string()),
            Kind::Microseconds => {
                (format!("raskio_{}_seconds_total", name.trim_end_matches("_us")), "counter", seconds(value))
            }
        };
        line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"));
    }
    for (name, help, seen) in distributions(latencies) {
        let name = format!("raskio_{name}_seconds");
        line(format_args!("# HELP {name} {help}\n# TYPE {name} histogram"));
        for power in PROMETHEUS_BUCKETS {
            let us = 1u64 << power;
            line(format_args!("{name}_bucket{{le=\"{}\"}} {}", seconds(us), seen.up_to(us - 1)));
        }
        line(format_args!("{name}_bucket{{le=\"+Inf\"}} {}", seen.count));
        line(format_args!("{name}_sum {}\n{name}_count {}", seconds(seen.sum_us), seen.count));
    }
    text
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::stats::Stats;
    use std::time::Duration;

    fn some() -> Stats {
        let stats = Stats::default();
        crate::stats::add(&stats.ops_started, 7);
        crate::stats::add(&stats.connect_us, 1_500_000);
        for ms in [1, 2, 3, 4000] {
            stats.op_latency.add(Duration::from_millis(ms));
        }
        stats
    }

    #[test]
    fn json_has_every_number_and_the_quantiles() {
        let stats = some();
        let text = json(&stats.snapshot(), &stats.latencies(), Some("a \"fault\""));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((value["ops_started"].as_u64(), value["requests_in_flight"].as_u64()), (Some(7), Some(0)));
        assert_eq!(
            (value["op_latency"]["count"].as_u64(), value["op_latency"]["max_us"].as_u64()),
            (Some(4), Some(4_000_000))
        );
        let p50 = value["op_latency"]["p50_us"].as_u64().unwrap();
        assert!((2000..2070).contains(&p50), "{p50}");
        assert_eq!(value["last_fault"], "a \"fault\"");
        assert_eq!(value.as_object().unwrap().len(), stats.snapshot().numbers().len() + 4);
    }

    #[test]
    fn prometheus_gets_totals_seconds_and_cumulative_buckets() {
        let stats = some();
        let text = prometheus(&stats.snapshot(), &stats.latencies());
        for line in [
            "# TYPE raskio_ops_started_total counter",
            "raskio_ops_started_total 7",
            "raskio_connect_seconds_total 1.500000",
            "# TYPE raskio_requests_in_flight gauge",
            "raskio_op_latency_seconds_bucket{le=\"0.001024\"} 1",
            "raskio_op_latency_seconds_bucket{le=\"0.004096\"} 3",
            "raskio_op_latency_seconds_bucket{le=\"4.194304\"} 4",
            "raskio_op_latency_seconds_bucket{le=\"+Inf\"} 4",
            "raskio_op_latency_seconds_sum 4.006000",
            "raskio_op_latency_seconds_count 4",
        ] {
            assert!(text.lines().any(|other| other == line), "{line:?} is missing in:\n{text}");
        }
    }
}
