//! Rates from recorded counters: wrap-around, drivers that begin anew, interfaces that vanish and come back.

use raskio_nic::counters::{Counters, Reading, Source};
use raskio_nic::rates::{Sample, Sampler};
use raskio_nic::select::Selection;
use raskio_nic::text;
use std::io;
use std::time::{Duration, Instant};

/// Plays readings back, one list after the other.
struct Recording(std::vec::IntoIter<Vec<Reading>>);

impl Source for Recording {
    fn read(&mut self) -> io::Result<Vec<Reading>> {
        self.0.next().ok_or_else(|| io::Error::other("the recording is over"))
    }
}

fn reading(name: &str, rx: u64, tx: u64) -> Reading {
    let counters =
        Counters { rx_bytes: rx, tx_bytes: tx, rx_packets: rx / 1000, tx_packets: tx / 1000, ..Counters::default() };
    Reading { name: name.into(), counters, speed_mbit: Some(10_000), is_up: true, is_loopback: false }
}

/// A sample every half second.
fn play(recording: Vec<Vec<Reading>>, patterns: &[&str]) -> Vec<Sample> {
    let (count, start) = (recording.len(), Instant::now());
    let selection = Selection::new(patterns.iter().map(|pattern| (*pattern).to_owned()).collect());
    let mut sampler = Sampler::new(Recording(recording.into_iter()), selection);
    let mut samples: Vec<Sample> =
        (0..count).map(|n| sampler.sample(start + Duration::from_millis(500) * n as u32).unwrap()).collect();
    assert!(sampler.sample(start + Duration::from_secs(100)).is_err());
    samples.remove(0);
    samples
}

fn rx(sample: &Sample) -> Vec<(&str, f64)> {
    sample.interfaces.iter().map(|rate| (rate.name.as_str(), rate.rx_bytes_per_s)).collect()
}

#[test]
fn rates_are_differences_over_time_and_the_total_is_their_sum() {
    let samples = play(
        vec![
            vec![reading("a", 1000, 0), reading("b", 0, 500)],
            vec![reading("a", 3000, 10), reading("b", 500, 500)],
            vec![reading("a", 3000, 10), reading("b", 500, 500)],
        ],
        &[],
    );
    assert_eq!(rx(&samples[0]), [("a", 4000.0), ("b", 1000.0)]);
    let total = &samples[0].total;
    assert_eq!((total.rx_bytes_per_s, total.tx_bytes_per_s, total.speed_mbit), (5000.0, 20.0, Some(20_000)));
    assert_eq!((samples[1].total.rx_bytes_per_s, samples[1].at), (0.0, Duration::from_secs(1)));
}

#[test]
fn counters_wrap_around_at_32_and_64_bits() {
    let bytes = |rx, tx| {
        let mut reading = reading("a", 0, 0);
        (reading.counters.rx_bytes, reading.counters.tx_bytes) = (rx, tx);
        vec![reading]
    };
    let samples = play(vec![bytes(u64::from(u32::MAX) - 99, u64::MAX - 49), bytes(400, 50)], &[]);
    assert_eq!(rx(&samples[0]), [("a", 1000.0)]);
    assert_eq!(samples[0].total.tx_bytes_per_s, 200.0);
}

#[test]
fn a_counter_that_began_anew_gives_no_rate_until_it_was_read_twice() {
    let samples =
        play(vec![vec![reading("a", 5_000_000, 0)], vec![reading("a", 10, 0)], vec![reading("a", 20, 0)]], &[]);
    assert_eq!((rx(&samples[0]), samples[0].total.rx_bytes_per_s), (vec![], 0.0));
    assert_eq!(rx(&samples[1]), [("a", 20.0)]);
}

#[test]
fn an_interface_that_vanishes_is_named_and_one_that_comes_back_begins_anew() {
    let both = |n: u64| vec![reading("a", n * 100, 0), reading("b", n * 200, 0)];
    let samples =
        play(vec![both(1), both(2), vec![reading("a", 300, 0)], vec![reading("a", 400, 0)], both(5), both(6)], &[]);
    assert_eq!(samples[0].vanished, Vec::<String>::new());
    assert_eq!((&samples[1].vanished[..], rx(&samples[1])), (&["b".to_owned()][..], vec![("a", 200.0)]));
    assert_eq!(samples[2].vanished, Vec::<String>::new());
    assert_eq!(rx(&samples[3]), [("a", 200.0)], "of b there is one reading");
    assert_eq!(rx(&samples[4]), [("a", 200.0), ("b", 400.0)]);
}

#[test]
fn loopback_and_what_is_down_are_left_out_unless_named() {
    let all = |n: u64| {
        let (mut lo, mut down) = (reading("lo", n, 0), reading("eth1", n, 0));
        (lo.is_loopback, down.is_up) = (true, false);
        vec![reading("eth0", n, 0), down, lo]
    };
    let names = |patterns: &[&str]| -> Vec<String> {
        play(vec![all(0), all(1)], patterns)[0].interfaces.iter().map(|rate| rate.name.clone()).collect()
    };
    assert_eq!(names(&[]), ["eth0"]);
    assert_eq!(names(&["lo"]), ["lo"]);
    assert_eq!(names(&["eth*", "l?"]), ["eth0", "eth1", "lo"]);
    assert!(names(&["wlan0"]).is_empty());
}

#[test]
fn drops_and_errors_are_counted_in_both_directions() {
    let mut second = reading("a", 0, 0);
    (second.counters.rx_dropped, second.counters.tx_dropped, second.counters.tx_errors) = (3, 4, 5);
    let samples = play(vec![vec![reading("a", 0, 0)], vec![second.clone()], vec![second]], &[]);
    assert_eq!((samples[0].total.dropped, samples[0].total.errors), (7, 5));
    assert_eq!((samples[1].total.dropped, samples[1].total.errors), (0, 0));
}

#[test]
fn every_form_says_the_same() {
    let samples = play(vec![vec![reading("a,b", 0, 0)], vec![reading("a,b", 625_000_000, 1000)]], &[]);
    let sample = &samples[0];
    assert_eq!(
        text::csv(sample).lines().collect::<Vec<_>>(),
        ["0.500000,\"a,b\",1250000000,2000,1250000,2,0,0,10000", "0.500000,total,1250000000,2000,1250000,2,0,0,10000"]
    );
    let json = text::json(sample);
    assert_eq!((&json["interfaces"][0]["name"], &json["total"]["rx_bytes_per_s"]), (&"a,b".into(), &1.25e9.into()));
    // The whole of ten gigabits.
    assert!(
        text::table(sample).contains("1250.000") && text::table(sample).contains("100 %"),
        "{}",
        text::table(sample)
    );
}
