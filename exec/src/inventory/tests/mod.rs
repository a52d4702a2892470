//! Inventories of machines: captures of real ones, and trees made here of what machines show.

mod captures;
mod cells;
mod devices;
mod host;
mod made;
mod near;
mod rule_files;
mod tree;
mod ways;
mod witness;

use std::fmt::Write as _;

use super::*;

/// An inventory in a few lines, all of its facts in it.
fn text(inventory: &Inventory) -> String {
    let mut text = format!(
        "cpus {} cores {} memory {}\n",
        inventory.cpus, inventory.cores, inventory.memory_mb
    );
    for node in &inventory.numa {
        let list = CpuList(&node.cpu_list);
        let _ = writeln!(
            text,
            "node {}: {} {list}, {}",
            node.id, node.cpus, node.memory_mb
        );
    }
    for device in &inventory.devices {
        let _ = writeln!(text, "{}", device_line(device));
    }
    for level in &inventory.levels {
        let _ = writeln!(text, "{}", level_line(level));
    }
    for problem in &inventory.problems {
        let subject = problem.subject.as_deref().unwrap_or("-");
        let _ = writeln!(text, "problem {} {subject}", problem.name);
    }
    text
}

struct CpuList<'t>(&'t str);

impl std::fmt::Display for CpuList<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "-" } else { self.0 })
    }
}

/// `gpu nvidia 0000:1a:00.0 numa 0, 16384: Tesla V100`.
fn device_line(device: &Accelerator) -> String {
    let numa = device
        .numa
        .map_or_else(|| "?".into(), |node| node.to_string());
    let part = device.partition_of.as_ref();
    let part = part.map_or_else(String::new, |card| format!(" of {card}"));
    format!(
        "{} {} {} numa {numa}, {}: {}{part}",
        device.kind.as_str(),
        device.vendor,
        device.pci.as_deref().unwrap_or("-"),
        device.memory_mb,
        device.model,
    )
}

/// `pcie 0,1 2,3`.
fn level_line(level: &DeviceLevel) -> String {
    let group = |group: &Vec<u32>| {
        let numbers: Vec<String> = group.iter().map(u32::to_string).collect();
        numbers.join(",")
    };
    let groups: Vec<String> = level.groups.iter().map(group).collect();
    format!("{} {}", level.level, groups.join(" "))
}

/// The levels of an inventory in one line.
fn levels_line(inventory: &Inventory) -> String {
    let levels: Vec<String> = inventory.levels.iter().map(level_line).collect();
    levels.join("; ")
}

fn of_root(root: &Path) -> InventoryConfig {
    InventoryConfig {
        root: root.to_owned(),
        ..InventoryConfig::default()
    }
}
