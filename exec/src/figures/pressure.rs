//! How long work waited for CPU, memory and disks, from `/proc/pressure`.

use std::path::Path;

use muster_model::metric::MetricFamily;

use super::{count, text};

const MICROSECONDS_PER_S: f64 = 1e6;
/// Files, the line of each, and the family. All work of a machine never waits for CPU: that line means nothing.
const LINES: [(&str, &str, &str); 6] = [
    ("cpu", "some", "node_pressure_cpu_waiting_seconds_total"),
    ("io", "some", "node_pressure_io_waiting_seconds_total"),
    ("io", "full", "node_pressure_io_stalled_seconds_total"),
    (
        "memory",
        "some",
        "node_pressure_memory_waiting_seconds_total",
    ),
    (
        "memory",
        "full",
        "node_pressure_memory_stalled_seconds_total",
    ),
    ("irq", "full", "node_pressure_irq_stalled_seconds_total"),
];

pub(super) fn families(root: &Path) -> Vec<MetricFamily> {
    let families = LINES.into_iter().filter_map(|(file, line, name)| {
        let total = total(&text(root, &format!("proc/pressure/{file}")), line)?;
        let help = match line {
            "some" => "Seconds in which some work waited for it.",
            _ => "Seconds in which all work waited for it.",
        };
        Some(MetricFamily::counter(
            name,
            help,
            count(total) / MICROSECONDS_PER_S,
        ))
    });
    families.collect()
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`
fn total(text: &str, line: &str) -> Option<u64> {
    let found = text.lines().find_map(|it| it.strip_prefix(line))?;
    let (_, total) = found.rsplit_once("total=")?;
    total.trim().parse().ok()
}
