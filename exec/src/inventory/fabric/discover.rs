//! What ibnetdiscover prints of a fabric: switches, and which host is at which.

use std::collections::{BTreeMap, BTreeSet};

/// A fabric's switches and hosts. Adapters of one host may be at several switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricMap {
    /// Switches: their GUIDs in 16 hex digits, and their descriptions.
    pub switches: BTreeMap<String, String>,
    /// Adapters of hosts, by their GUIDs in 16 hex digits.
    pub hosts: BTreeMap<String, FabricHost>,
}

/// An adapter of a host, or a switch's own that sums up data on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricHost {
    /// What the adapter calls itself: `a08-p1-dgx-04-c01 mlx5_5`. A fabric may have adapters
    /// that nobody has named; those have their model here.
    pub description: String,
    /// The GUIDs of the switches that it is linked to.
    pub switches: BTreeSet<String>,
    /// The links' width and speed: `4xNDR`.
    pub rates: BTreeSet<String>,
}

/// Reads what ibnetdiscover printed. Lines that are of neither a switch nor an adapter are
/// skipped.
pub fn discovered(text: &str) -> FabricMap {
    let mut map = FabricMap::default();
    let mut adapter = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Switch") {
            adapter = None;
            if let Some((guid, description)) = heading(rest, "S-") {
                map.switches.insert(guid, description);
            }
        } else if let Some(rest) = line.strip_prefix("Ca") {
            adapter = heading(rest, "H-").map(|(guid, description)| {
                map.hosts.entry(guid.clone()).or_default().description = description;
                guid
            });
        } else if let (Some(guid), Some((switch, rate))) = (&adapter, link(line)) {
            let host = map.hosts.entry(guid.clone()).or_default();
            host.switches.insert(switch);
            host.rates.insert(rate);
        }
    }
    map
}

/// Of ` 65 "S-2c5eab0300b87b40" # "MF0;LEAF:MQM9701/U1" ...` the GUID and the description.
fn heading(rest: &str, kind: &str) -> Option<(String, String)> {
    let mut quoted = rest.split('"').skip(1).step_by(2);
    let guid = quoted.next()?.strip_prefix(kind)?;
    let description = quoted.next().unwrap_or_default();
    Some((guid.to_owned(), description.to_owned()))
}

/// Of an adapter's line the switch at the other end and the rate:
/// `[1](2c5eab0300b87b50) "S-2c5eab0300b87b40"[65] # lid 193 lmc 0 "LEAF" lid 73 4xNDR`.
fn link(line: &str) -> Option<(String, String)> {
    let line = line.starts_with('[').then_some(line)?;
    let peer = line.split('"').nth(1)?;
    let rate = line.split_whitespace().next_back()?;
    Some((peer.strip_prefix("S-")?.to_owned(), rate.to_owned()))
}
