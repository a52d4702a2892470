//! InfiniBand and its kin, from `/sys/class/infiniband`.

use std::path::Path;

use muster_model::metric::{MetricFamily, MetricKind};

use super::{count, names, text};

const ADAPTERS: &str = "sys/class/infiniband";
/// Data is counted in words of four bytes.
const WORD: f64 = 4.0;
/// Files in `counters/`, with the family and the factor to its unit.
const COUNTERS: [(&str, &str, f64); 19] = [
    ("port_rcv_data", "port_data_received_bytes_total", WORD),
    ("port_xmit_data", "port_data_transmitted_bytes_total", WORD),
    ("port_rcv_packets", "port_packets_received_total", 1.0),
    ("port_xmit_packets", "port_packets_transmitted_total", 1.0),
    ("unicast_rcv_packets", "unicast_packets_received_total", 1.0),
    (
        "unicast_xmit_packets",
        "unicast_packets_transmitted_total",
        1.0,
    ),
    (
        "multicast_rcv_packets",
        "multicast_packets_received_total",
        1.0,
    ),
    (
        "multicast_xmit_packets",
        "multicast_packets_transmitted_total",
        1.0,
    ),
    ("link_downed", "link_downed_total", 1.0),
    ("link_error_recovery", "link_error_recovery_total", 1.0),
    ("symbol_error", "symbol_error_total", 1.0),
    ("port_rcv_errors", "port_errors_received_total", 1.0),
    (
        "port_rcv_constraint_errors",
        "port_constraint_errors_received_total",
        1.0,
    ),
    (
        "port_xmit_constraint_errors",
        "port_constraint_errors_transmitted_total",
        1.0,
    ),
    (
        "port_rcv_remote_physical_errors",
        "port_receive_remote_physical_errors_total",
        1.0,
    ),
    (
        "port_rcv_switch_relay_errors",
        "port_receive_switch_relay_errors_total",
        1.0,
    ),
    ("port_rcv_discards", "port_discards_received_total", 1.0),
    ("port_xmit_discards", "port_discards_transmitted_total", 1.0),
    ("port_xmit_wait", "port_transmit_wait_total", 1.0),
];
const GIGABIT_BYTES: f64 = 125e6;

pub(super) fn families(root: &Path) -> Vec<MetricFamily> {
    let ports = ports(root);
    let gauges = [
        (
            "state_id",
            "The port's state: 1 down, 2 init, 3 armed, 4 active.",
            state as fn(&str) -> Option<f64>,
            "state",
        ),
        (
            "physical_state_id",
            "The state of the port's link: 2 polling, 3 disabled, 5 up.",
            state,
            "phys_state",
        ),
        (
            "rate_bytes_per_second",
            "What the port can carry. A port that is down shows a filler.",
            rate,
            "rate",
        ),
    ];
    let gauges = gauges.into_iter().map(|(name, help, read, file)| {
        let family = MetricFamily::new(format!("node_infiniband_{name}"), MetricKind::Gauge, help);
        filled(family, &ports, |port| {
            read(&text(root, &format!("{port}/{file}")))
        })
    });
    let counters = COUNTERS.into_iter().map(|(file, name, factor)| {
        let help = "The port's counter. Those of errors have few bits, and stay at their top.";
        let family =
            MetricFamily::new(format!("node_infiniband_{name}"), MetricKind::Counter, help);
        filled(family, &ports, |port| {
            // Some drivers write `N/A` in place of a number.
            let value = text(root, &format!("{port}/counters/{file}"))
                .trim()
                .parse()
                .ok()?;
            Some(count(value) * factor)
        })
    });
    gauges.chain(counters).collect()
}

/// Adapter, port number and directory of each port.
fn ports(root: &Path) -> Vec<(String, String, String)> {
    let mut ports = Vec::new();
    for device in names(root, ADAPTERS) {
        let dir = format!("{ADAPTERS}/{device}/ports");
        for port in names(root, &dir) {
            let place = format!("{dir}/{port}");
            ports.push((device.clone(), port, place));
        }
    }
    ports
}

fn filled(
    mut family: MetricFamily,
    ports: &[(String, String, String)],
    read: impl Fn(&str) -> Option<f64>,
) -> MetricFamily {
    for (device, port, place) in ports {
        if let Some(value) = read(place) {
            family.push(
                vec![("device", device.clone()), ("port", port.clone())],
                value,
            );
        }
    }
    family
}

/// `4: ACTIVE`
fn state(text: &str) -> Option<f64> {
    text.split_once(':')?.0.trim().parse().ok()
}

/// `100 Gb/sec (4X EDR)` in bytes a second
fn rate(text: &str) -> Option<f64> {
    let gigabits: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(gigabits * GIGABIT_BYTES)
}
