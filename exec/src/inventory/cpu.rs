//! CPUs and cores that are online.

use std::collections::BTreeSet;
use std::path::Path;

use super::cpu_set::CpuSet;
use super::kernel_file::{number, numbered, text};

const CPUS: &str = "sys/devices/system/cpu";

/// Logical CPUs that are online. Empty if the tree does not tell.
pub(super) fn online(root: &Path) -> CpuSet {
    let listed = text(root.join(CPUS).join("online"));
    let listed = listed.and_then(|list| CpuSet::from_list(&list));
    let listed = listed.filter(|set| !set.is_empty());
    listed.unwrap_or_else(|| by_directories(root).unwrap_or_else(|| by_cpuinfo(root)))
}

/// For kernels that write no list: a directory for each CPU, with a file `online` if it can be
/// taken offline.
fn by_directories(root: &Path) -> Option<CpuSet> {
    let cpus = numbered(root.join(CPUS), "cpu").into_iter();
    let online = cpus.filter(|(_, dir)| number(dir.join("online")) != Some(0));
    let set: BTreeSet<u32> = online.map(|(cpu, _)| cpu).collect();
    (!set.is_empty()).then_some(CpuSet(set))
}

fn by_cpuinfo(root: &Path) -> CpuSet {
    let text = text(root.join("proc/cpuinfo")).unwrap_or_default();
    let numbers = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(':')?;
        (name.trim() == "processor").then(|| number.trim().parse().ok())?
    });
    CpuSet(numbers.collect())
}

/// What tells the cores of a machine apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CoreKey {
    /// The first of its threads that is online.
    FirstThread(u32),
    /// Numbers of its package and within it.
    Numbers(i64, i64),
}

/// How many cores have a thread among `online`.
pub(super) fn cores(root: &Path, online: &CpuSet) -> u32 {
    let keys = online.0.iter().map(|cpu| core(root, *cpu, online));
    let keys: BTreeSet<CoreKey> = keys.collect();
    u32::try_from(keys.len()).unwrap_or(u32::MAX)
}

fn core(root: &Path, cpu: u32, online: &CpuSet) -> CoreKey {
    let topology = root.join(CPUS).join(format!("cpu{cpu}/topology"));
    if let Some(first) = threads(&topology, cpu, online) {
        return CoreKey::FirstThread(first);
    }
    let package = number(topology.join("physical_package_id")).unwrap_or(-1);
    match number(topology.join("core_id")) {
        Some(core) if core >= 0 => CoreKey::Numbers(package, core),
        _ => CoreKey::FirstThread(cpu),
    }
}

/// The first thread of a CPU's core that is online. Newer kernels call the file `core_cpus`.
fn threads(topology: &Path, cpu: u32, online: &CpuSet) -> Option<u32> {
    let of = |name: &str| set(&topology.join(name), &topology.join(format!("{name}_list")));
    let threads = of("core_cpus").or_else(|| of("thread_siblings"))?;
    let threads = threads.intersection(online);
    threads.contains(cpu).then_some(())?;
    threads.0.first().copied()
}

/// A set that the kernel writes in both forms. The map wins: it is what the kernel keeps.
pub(super) fn set(map: &Path, list: &Path) -> Option<CpuSet> {
    let by_map = text(map).and_then(|text| CpuSet::from_map(&text));
    by_map.or_else(|| CpuSet::from_list(&text(list)?))
}
