//! What the kernel counts of this machine, under the names of Prometheus' node exporter.
//!
//! A dashboard or an alert rule that was made for the node exporter works with these figures. Only metrics that
//! dashboards of GPU clusters use are read.

mod cpu;
mod disk;
mod fabric;
mod gpu;
mod memory;
mod network;
mod pressure;
mod process;

use std::path::Path;

use muster_model::metric::{MetricFamily, MetricKind};

pub use gpu::{DeviceLoad, GpuFigures, loads};
pub use process::process;

/// All figures of the machine whose file tree is at `root`. What cannot be read is left out.
pub fn machine(root: &Path) -> Vec<MetricFamily> {
    let parts = [
        cpu::families(root),
        memory::families(root),
        disk::families(root),
        network::families(root),
        pressure::families(root),
        fabric::families(root),
        system(root),
    ];
    let families = parts.into_iter().flatten();
    families.filter(|it| !it.samples.is_empty()).collect()
}

/// Which machine it is, and how busy it has been.
fn system(root: &Path) -> Vec<MetricFamily> {
    let mut families = vec![uname(root)];
    let load = text(root, "proc/loadavg");
    let names = ["node_load1", "node_load5", "node_load15"];
    for (name, part) in names.into_iter().zip(load.split_whitespace()) {
        if let Ok(value) = part.parse() {
            families.push(MetricFamily::gauge(
                name,
                "Processes that run or wait for a CPU or a disk, on average.",
                value,
            ));
        }
    }
    families
}

fn uname(root: &Path) -> MetricFamily {
    let kernel = |name: &str| {
        text(root, &format!("proc/sys/kernel/{name}"))
            .trim()
            .to_owned()
    };
    let family = MetricFamily::new(
        "node_uname_info",
        MetricKind::Gauge,
        "The machine's name and kernel.",
    );
    let labels = vec![
        ("domainname", kernel("domainname")),
        ("machine", std::env::consts::ARCH.to_owned()),
        ("nodename", kernel("hostname")),
        ("release", kernel("osrelease")),
        ("sysname", kernel("ostype")),
        ("version", kernel("version")),
    ];
    match labels
        .iter()
        .any(|(name, value)| *name == "nodename" && !value.is_empty())
    {
        true => family.with(labels, 1.0),
        false => family,
    }
}

/// A file's text; empty if it cannot be read.
fn text(root: &Path, path: &str) -> String {
    let bytes = std::fs::read(root.join(path)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The names in a directory, in order of their length, then of the alphabet: node2 before node10.
fn names(root: &Path, path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root.join(path))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|it| it.file_name().into_string().ok())
        .collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

/// A count as a figure. Exact up to 2^53, as all figures of Prometheus.
#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus has no other numbers"
)]
pub fn count(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests;
