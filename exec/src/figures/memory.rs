//! Memory, of the machine and of each NUMA node.

use std::path::Path;

use muster_model::metric::{MetricFamily, MetricKind};

use super::{count, names, text};

const NODES: &str = "sys/devices/system/node";
const HELP: &str = "The field of this name of /proc/meminfo.";
const NUMA_HELP: &str = "The field of this name of the NUMA node's meminfo, bytes or pages.";
const NUMASTAT_HELP: &str = "The field of this name of the NUMA node's numastat, pages.";

pub(super) fn families(root: &Path) -> Vec<MetricFamily> {
    let meminfo = text(root, "proc/meminfo");
    let fields = meminfo.lines().filter_map(field);
    let machine = fields.map(|(name, value, is_bytes)| {
        let unit = if is_bytes { "_bytes" } else { "" };
        MetricFamily::gauge(format!("node_memory_{name}{unit}"), HELP, value)
    });
    let mut families: Vec<_> = machine.collect();
    let first_numa = families.len();
    for node in names(root, NODES) {
        if let Some(number) = node
            .strip_prefix("node")
            .filter(|it| it.bytes().all(|b| b.is_ascii_digit()))
        {
            numa(root, number, (&mut families, first_numa));
        }
    }
    families
}

/// `Active(anon):  4 kB` as name, value and whether it is in bytes. The kernel's kB are KiB.
fn field(line: &str) -> Option<(String, f64, bool)> {
    let (name, value) = line.split_once(':')?;
    let (value, is_bytes) = match value.trim().strip_suffix("kB") {
        Some(value) => (value.trim(), true),
        None => (value.trim(), false),
    };
    let value = value.parse::<u64>().ok()?;
    let factor = if is_bytes { 1024.0 } else { 1.0 };
    let name = name.trim().replace('(', "_").replace(')', "");
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| (name, count(value) * factor, is_bytes))
}

/// Adds a NUMA node's figures to the families from `first` on.
fn numa(root: &Path, number: &str, (families, first): (&mut Vec<MetricFamily>, usize)) {
    let mut add = |name: String, (kind, help), value| {
        let labels = vec![("node", number.to_owned())];
        match families.iter_mut().skip(first).find(|it| it.name == name) {
            Some(family) => family.push(labels, value),
            None => families.push(MetricFamily::new(name, kind, help).with(labels, value)),
        }
    };
    for line in text(root, &format!("{NODES}/node{number}/meminfo")).lines() {
        // `Node 0 MemTotal: 4 kB`
        let rest = line
            .strip_prefix(&format!("Node {number} "))
            .unwrap_or_default();
        if let Some((name, value, _)) = field(rest) {
            add(
                format!("node_memory_numa_{name}"),
                (MetricKind::Gauge, NUMA_HELP),
                value,
            );
        }
    }
    for line in text(root, &format!("{NODES}/node{number}/numastat")).lines() {
        let (name, value) = line.split_once(' ').unwrap_or_default();
        if let Ok(value) = value.trim().parse::<u64>() {
            let name = format!("node_memory_numa_{name}_total");
            add(name, (MetricKind::Counter, NUMASTAT_HELP), count(value));
        }
    }
}
