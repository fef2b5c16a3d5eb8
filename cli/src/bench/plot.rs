//! A picture of a sweep: one panel for each number of reactors, one line for each size of a request, rates over requests.

use super::advice::Setting;
use super::measure::Figures;
use crate::units;
use std::fmt::Write;

const PANEL: (f64, f64) = (300.0, 240.0);
const MARGIN: (f64, f64) = (64.0, 56.0);
const GAP: f64 = 24.0;
const LEGEND: f64 = 110.0;
/// Readable by those who see colours less (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

fn distinct<T: Ord + Copy>(rows: &[(Setting, Figures)], of: impl Fn(&Setting) -> T) -> Vec<T> {
    let mut all: Vec<T> = rows.iter().map(|row| of(&row.0)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A round number that is at least `value`, and how far apart lines are drawn.
fn scale(value: f64) -> (f64, f64) {
    let power = 10f64.powf(value.max(1.0).log10().floor());
    let step =
        [0.2, 0.5, 1.0, 2.0].into_iter().map(|n| n * power).find(|step| value / step <= 6.0).unwrap_or(2.0 * power);
    ((value / step).ceil().max(1.0) * step, step)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// As SVG.
pub fn svg(rows: &[(Setting, Figures)], best: usize, name: &str) -> String {
    let (reactors, requests) = (distinct(rows, |s| s.reactors), distinct(rows, |s| s.requests));
    let sizes = distinct(rows, |s| s.task_size);
    let (top, step) = scale(rows.iter().map(|row| row.1.bytes_per_s).fold(0.0, f64::max));
    let width = MARGIN.0 + reactors.len() as f64 * (PANEL.0 + GAP) + LEGEND;
    let height = 2.0 * MARGIN.1 + PANEL.1;
    let mut out = String::new();
    // Writing into a String does not fail.
    let mut put = |words: std::fmt::Arguments<'_>| {
        let _ = writeln!(out, "{words}");
    };
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    ));
    put(format_args!("<text x=\"{}\" y=\"20\" font-size=\"14\">{}</text>", MARGIN.0, escaped(name)));
    let y = |rate: f64| MARGIN.1 + PANEL.1 * (1.0 - rate / top);
    for (column, count) in reactors.iter().enumerate() {
        let left = MARGIN.0 + column as f64 * (PANEL.0 + GAP);
        let x = |n: u32| {
            let at = requests.iter().position(|other| *other == n).unwrap_or(0) as f64;
            left + PANEL.0 * (at + 0.5) / requests.len() as f64
        };
        let words = if *count == 1 { "1 reactor".into() } else { format!("{count} reactors") };
        put(format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{words}</text>",
            left + PANEL.0 / 2.0,
            MARGIN.1 - 10.0
        ));
        for line in 0..=(top / step).round() as u32 {
            let rate = f64::from(line) * step;
            put(format_args!("<path d=\"M{left} {0}h{1}\" stroke=\"#ddd\"/>", y(rate), PANEL.0));
            if column == 0 {
                put(format_args!(
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                    left - 6.0,
                    y(rate) + 4.0,
                    axis(rate)
                ));
            }
        }
        for n in &requests {
            put(format_args!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{n}</text>",
                x(*n),
                MARGIN.1 + PANEL.1 + 16.0
            ));
        }
        let middle = left + PANEL.0 / 2.0;
        put(format_args!(
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">requests in flight</text>",
            MARGIN.1 + PANEL.1 + 36.0
        ));
        for (at, size) in sizes.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let mut line: Vec<_> =
                rows.iter().filter(|row| row.0.reactors == *count && row.0.task_size == *size).collect();
            line.sort_by_key(|row| row.0.requests);
            let points: Vec<String> =
                line.iter().map(|row| format!("{:.1},{:.1}", x(row.0.requests), y(row.1.bytes_per_s))).collect();
            put(format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                points.join(" ")
            ));
            for row in line {
                let (x, y) = (x(row.0.requests), y(row.1.bytes_per_s));
                put(format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{}: {}</title></circle>",
                    row.0.words(),
                    units::rate(row.1.bytes_per_s)
                ));
                if row.0 == rows[best].0 {
                    put(format_args!(
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"none\" stroke=\"black\" stroke-width=\"1.5\"/>"
                    ));
                }
            }
        }
    }
    let left = width - LEGEND;
    put(format_args!("<text x=\"{left}\" y=\"{}\">task size</text>", MARGIN.1 + 6.0));
    for (at, size) in sizes.iter().enumerate() {
        let y = MARGIN.1 + 26.0 + 20.0 * at as f64;
        put(format_args!("<path d=\"M{left} {y}h18\" stroke=\"{}\" stroke-width=\"2\"/>", COLOURS[at % COLOURS.len()]));
        put(format_args!("<text x=\"{}\" y=\"{}\">{}</text>", left + 24.0, y + 4.0, units::size(*size)));
    }
    let y = MARGIN.1 + 36.0 + 20.0 * sizes.len() as f64;
    put(format_args!(
        "<circle cx=\"{}\" cy=\"{y}\" r=\"8\" fill=\"none\" stroke=\"black\" stroke-width=\"1.5\"/>",
        left + 9.0
    ));
    put(format_args!("<text x=\"{}\" y=\"{}\">advised</text>\n</svg>", left + 24.0, y + 4.0));
    out
}

/// A rate at the axis: without decimals that say nothing.
fn axis(bytes_per_s: f64) -> String {
    match bytes_per_s {
        0.0 => "0".into(),
        rate if rate >= 1e9 => format!("{} GB/s", (rate / 1e8).round() / 10.0),
        rate if rate >= 1e6 => format!("{} MB/s", (rate / 1e5).round() / 10.0),
        rate => format!("{} kB/s", (rate / 1e2).round() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_reaches_over_everything_in_few_round_steps() {
        for value in [0.0, 1.0, 99.0, 101.0, 1.7e9, 9.99e8, 2.5e9] {
            let (top, step) = scale(value);
            assert!(top >= value && top / step <= 7.0 && (top / step).fract() < 1e-9, "{value}: {top} {step}");
        }
    }
}
