//! What a container read from and wrote to disks, of all of them together.

use std::path::Path;

use muster_model::task_use::DiskUse;

/// By `io.stat` of a group of version 2: `8:0 rbytes=4096 wbytes=0 rios=1 ...` for each disk. None where the `io`
/// controller is not on for the group.
pub(super) fn disk_v2(group: &Path) -> Option<DiskUse> {
    let text = std::fs::read_to_string(group.join("io.stat")).ok()?;
    let sum = |name: &str| {
        let figures = text.split_whitespace();
        let figures = figures.filter_map(|figure| figure.strip_prefix(name)?.strip_prefix('='));
        figures
            .filter_map(|figure| figure.parse::<u64>().ok())
            .sum()
    };
    Some(DiskUse {
        read: sum("rbytes"),
        written: sum("wbytes"),
    })
}

/// By a group of version 1: `8:0 Read 4096` for each disk and kind.
pub(super) fn disk_v1(group: &Path) -> Option<DiskUse> {
    let file = group.join("blkio.throttle.io_service_bytes_recursive");
    let text = std::fs::read_to_string(file).ok()?;
    let sum = |kind: &str| {
        let figures = text.lines().filter_map(|line| {
            let (disk, figure) = line.split_once(&format!(" {kind} "))?;
            disk.contains(':')
                .then(|| figure.trim().parse::<u64>().ok())?
        });
        figures.sum()
    };
    Some(DiskUse {
        read: sum("Read"),
        written: sum("Write"),
    })
}
