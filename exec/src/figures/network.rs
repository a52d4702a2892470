//! Network devices, from `/proc/net/dev`.

use std::path::Path;

use muster_model::metric::{MetricFamily, MetricKind};

use super::{count, text};

/// Columns after the name, from 0.
const COLUMNS: [(usize, &str, &str); 6] = [
    (
        0,
        "node_network_receive_bytes_total",
        "Bytes that were received.",
    ),
    (
        2,
        "node_network_receive_errs_total",
        "Packets that were received with errors.",
    ),
    (
        3,
        "node_network_receive_drop_total",
        "Packets that were received and dropped.",
    ),
    (
        8,
        "node_network_transmit_bytes_total",
        "Bytes that were sent.",
    ),
    (
        10,
        "node_network_transmit_errs_total",
        "Packets that were not sent because of errors.",
    ),
    (
        11,
        "node_network_transmit_drop_total",
        "Packets that were dropped before they were sent.",
    ),
];

pub(super) fn families(root: &Path) -> Vec<MetricFamily> {
    // That of this process's network namespace, which is the machine's.
    let devices = text(root, "proc/net/dev");
    let family = |(column, name, help): (usize, &'static str, &'static str)| {
        let mut family = MetricFamily::new(name, MetricKind::Counter, help);
        for (device, counts) in devices.lines().filter_map(|line| line.split_once(':')) {
            if let Some(Ok(value)) = counts.split_whitespace().nth(column).map(str::parse::<u64>) {
                family.push(vec![("device", device.trim().to_owned())], count(value));
            }
        }
        family
    };
    COLUMNS.into_iter().map(family).collect()
}
