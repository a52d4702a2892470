//! CPU time, from `/proc/stat`.

use std::path::Path;

use muster_model::metric::{MetricFamily, MetricKind};

use super::{count, text};

/// The kernel writes hundredths of a second for programs, whatever its own tick is.
const TICKS_PER_S: f64 = 100.0;
/// The columns, in the kernel's order. Time of guests is a part of user time and not counted again.
const MODES: [&str; 8] = [
    "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
];

pub(super) fn families(root: &Path) -> Vec<MetricFamily> {
    let stat = text(root, "proc/stat");
    let mut seconds = MetricFamily::new(
        "node_cpu_seconds_total",
        MetricKind::Counter,
        "Seconds that each CPU spent in each mode.",
    );
    let mut families = Vec::new();
    for line in stat.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or_default();
        match name.strip_prefix("cpu") {
            Some(cpu) if !cpu.is_empty() => push(&mut seconds, cpu, rest),
            None if name == "btime" => families.extend(boot_time(rest)),
            _ => {}
        }
    }
    families.push(seconds);
    families
}

fn push(seconds: &mut MetricFamily, cpu: &str, ticks: &str) {
    let ticks = ticks.split_whitespace().map(str::parse::<u64>);
    for (mode, ticks) in MODES.into_iter().zip(ticks) {
        if let Ok(ticks) = ticks {
            let labels = vec![("cpu", cpu.to_owned()), ("mode", mode.to_owned())];
            seconds.push(labels, count(ticks) / TICKS_PER_S);
        }
    }
}

fn boot_time(text: &str) -> Option<MetricFamily> {
    let at_s = text.trim().parse().ok()?;
    Some(MetricFamily::gauge(
        "node_boot_time_seconds",
        "When the machine booted, seconds since 1970.",
        at_s,
    ))
}
