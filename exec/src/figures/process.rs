//! What this process uses, under the names of Prometheus' client libraries.

use std::path::Path;

use muster_model::metric::MetricFamily;

use super::{count, names, text};

const TICKS_PER_S: f64 = 100.0;

/// Figures of the process that asks. What cannot be read is left out.
pub fn process(root: &Path) -> Vec<MetricFamily> {
    let stat = text(root, "proc/self/stat");
    // The name in brackets may hold anything.
    let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
    let fields: Vec<f64> = rest
        .split_whitespace()
        .skip(1)
        .map(|it| it.parse().unwrap_or(0.0))
        .collect();
    let mut families = Vec::new();
    if let [_, _, _, _, _, _, _, _, _, _, user, system, ..] = fields[..] {
        let seconds = (user + system) / TICKS_PER_S;
        families.push(MetricFamily::counter(
            "process_cpu_seconds_total",
            "CPU time of the agent.",
            seconds,
        ));
    }
    let statm = text(root, "proc/self/status");
    let resident = statm.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|it| it.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    if let Some(kib) = resident {
        let bytes = count(kib) * 1024.0;
        families.push(MetricFamily::gauge(
            "process_resident_memory_bytes",
            "Memory of the agent.",
            bytes,
        ));
    }
    let files = names(root, "proc/self/fd").len();
    if files > 0 {
        let files = f64::from(u32::try_from(files).unwrap_or(u32::MAX));
        families.push(MetricFamily::gauge(
            "process_open_fds",
            "Files that the agent has open.",
            files,
        ));
    }
    families
}
