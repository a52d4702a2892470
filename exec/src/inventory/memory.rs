//! The memory that tasks can use.

use std::path::Path;

use super::kernel_file::{entries, number, text};
use super::numa::NumaNodes;

const HUGE_PAGES: &str = "sys/kernel/mm/hugepages";

/// What `proc/meminfo` says.
#[derive(Clone, Debug)]
pub(super) struct MemInfo(String);

impl MemInfo {
    /// None if there is no such file, or it does not tell the total.
    pub(super) fn read(root: &Path) -> Option<Self> {
        let info = Self(text(root.join("proc/meminfo"))?);
        info.number("MemTotal").is_some().then_some(info)
    }

    /// `MemTotal:       97445600 kB`.
    fn number(&self, name: &str) -> Option<u64> {
        let lines = self.0.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.into_iter().find(|(found, _)| found.trim() == name)?;
        value.split_whitespace().next()?.parse().ok()
    }

    /// All memory that the kernel counts.
    pub(super) fn total_kb(&self) -> u64 {
        self.number("MemTotal").unwrap_or(0)
    }

    /// Memory in the pools of huge pages. Old kernels have only the line of the default size.
    fn huge_kb(&self, root: &Path) -> u64 {
        let pools = entries(root.join(HUGE_PAGES));
        if pools.is_empty() {
            let pages = self.number("HugePages_Total").unwrap_or(0);
            return pages * self.number("Hugepagesize").unwrap_or(0);
        }
        let sizes = pools.iter().filter_map(|(name, dir)| {
            let size: u64 = size_kb(name)?;
            let pages = u64::try_from(number(dir.join("nr_hugepages"))?).ok()?;
            Some(size.saturating_mul(pages))
        });
        sizes.sum()
    }
}

/// `hugepages-2048kB`.
fn size_kb(name: &str) -> Option<u64> {
    let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    size.parse().ok()
}

/// Memory for tasks, kB: the kernel's total less the memory of devices and the huge pages. Where
/// a node with memory is not online, the nodes that are tell the total.
pub(super) fn usable_kb(root: &Path, info: &MemInfo, numa: &NumaNodes) -> u64 {
    let sum = |nodes: &[super::numa::MemoryNode]| -> u64 {
        nodes.iter().map(|node| node.memory_kb).sum()
    };
    let of_devices = sum(&numa.of_devices);
    let mut host = info.total_kb().saturating_sub(of_devices);
    if numa.lacks_memory {
        host = host.min(sum(&numa.nodes));
    }
    host.saturating_sub(info.huge_kb(root))
}
