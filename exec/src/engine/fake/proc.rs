//! What a process group uses, by /proc.

use std::fs;
use std::path::Path;

use crate::engine::Usage;

/// /proc counts time in these.
const TICK_USEC: u64 = 10_000;

/// The sum over all processes of the group that have not ended. One that nobody has reaped yet
/// has.
pub(super) fn usage(group: u32) -> Usage {
    let mut sum = Usage::default();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(one) = usage_in_group(&entry.path(), group) {
            sum.memory_bytes += one.memory_bytes;
            sum.cpu_usec += one.cpu_usec;
            sum.pids += one.pids;
        }
    }
    sum
}

/// The processes of the group that have not ended.
pub(super) fn members(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let members = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        usage_in_group(&entry.path(), group).map(|_| pid)
    });
    members.collect()
}

/// One process, if it is of the group and alive.
fn usage_in_group(dir: &Path, group: u32) -> Option<Usage> {
    let stat = fs::read_to_string(dir.join("stat")).ok()?;
    // The name in parentheses may hold anything; what follows it is numbers.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
    };
    if number(2)? != u64::from(group) || matches!(fields[0], "Z" | "X") {
        return None;
    }
    let status = fs::read_to_string(dir.join("status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident_kib = resident
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    Some(Usage {
        memory_bytes: resident_kib * 1024,
        cpu_usec: (number(11)? + number(12)?) * TICK_USEC,
        pids: number(17)?,
        ..Usage::default()
    })
}

/// Bytes of all files below `dir`.
pub(super) fn tree_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => tree_bytes(&entry.path()),
        _ => entry.metadata().map_or(0, |file| file.len()),
    });
    bytes.sum()
}
