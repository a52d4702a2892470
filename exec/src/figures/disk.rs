//! Disks, from `/proc/diskstats`.

use std::path::Path;

use muster_model::metric::{MetricFamily, MetricKind};

use super::{count, text};

/// The kernel counts sectors of this size, whatever the disk's own are.
const SECTOR_BYTES: f64 = 512.0;
const MS: f64 = 0.001;
/// Columns after the name, from 0, with the family and the factor to its unit.
const COLUMNS: [(usize, &str, f64, &str); 4] = [
    (
        2,
        "node_disk_read_bytes_total",
        SECTOR_BYTES,
        "Bytes that were read.",
    ),
    (
        6,
        "node_disk_written_bytes_total",
        SECTOR_BYTES,
        "Bytes that were written.",
    ),
    (
        9,
        "node_disk_io_time_seconds_total",
        MS,
        "Seconds in which the disk was at work.",
    ),
    (
        10,
        "node_disk_io_time_weighted_seconds_total",
        MS,
        "Seconds of waiting of all requests together.",
    ),
];

pub(super) fn families(root: &Path) -> Vec<MetricFamily> {
    let stats = text(root, "proc/diskstats");
    let family = |(column, name, factor, help): (usize, &'static str, f64, &'static str)| {
        let mut family = MetricFamily::new(name, MetricKind::Counter, help);
        for line in stats.lines() {
            let mut parts = line.split_whitespace().skip(2);
            let Some(device) = parts.next().filter(|it| !is_part(it)) else {
                continue;
            };
            if let Some(Ok(value)) = parts.nth(column).map(str::parse::<u64>) {
                family.push(vec![("device", device.to_owned())], count(value) * factor);
            }
        }
        family
    };
    COLUMNS.into_iter().map(family).collect()
}

/// Whether a device is a partition, or none of hardware: `sda1`, `nvme0n1p1`, `loop0`. Node exporter leaves out the same.
fn is_part(device: &str) -> bool {
    let bare = device.trim_end_matches(|c: char| c.is_ascii_digit());
    if bare.len() == device.len() {
        return false;
    }
    let is_letters = |text: &str, prefix: &str| {
        let rest = text.strip_prefix(prefix);
        rest.is_some_and(|it| it.len() == 1 && it.bytes().all(|b| b.is_ascii_lowercase()))
    };
    let is_disk = ["hd", "sd", "vd", "xvd"]
        .into_iter()
        .any(|prefix| is_letters(bare, prefix));
    let is_nvme = bare.starts_with("nvme") && bare.ends_with('p');
    is_disk || is_nvme || ["ram", "zram", "loop", "fd"].contains(&bare)
}
