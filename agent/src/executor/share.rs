//! The most that one task may have of what all of the machine needs, whatever the settings say.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// One task may have one in so many of the machine's processes.
pub(crate) const PIDS_SHARE: u64 = 4;
/// The same of the disk with the containers' layers.
const DISK: u64 = 2;
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
const MIB: u64 = 1 << 20;

/// The limit on a task's processes and threads: as the policy has it, but no more than a quarter of
/// what the kernel has for all. The doctor tells where that is less.
pub(super) fn pids(policy: u32) -> u32 {
    let most = std::fs::read_to_string(PID_MAX).ok();
    pids_of(policy, most.and_then(|text| text.trim().parse().ok()))
}

fn pids_of(configured: u32, most: Option<u64>) -> u32 {
    let share = most.map(|most| u32::try_from(most / PIDS_SHARE).unwrap_or(u32::MAX));
    share.map_or(configured, |share| configured.min(share).max(1))
}

/// The limit on a task's writable layer in MiB: as ordered, but no more than half of the disk that it
/// is on. 0, which an admin has chosen, is no limit.
pub(super) fn disk_mb(ordered: u64, disk: &Path) -> u64 {
    let size = statvfs(disk).ok();
    let size = size.map(|disk| disk.blocks().saturating_mul(disk.fragment_size()));
    disk_mb_of(ordered, size)
}

fn disk_mb_of(ordered: u64, bytes: Option<u64>) -> u64 {
    match bytes {
        Some(bytes) if ordered > 0 => ordered.min((bytes / DISK / MIB).max(1)),
        _ => ordered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_gets_a_share_of_the_processes() {
        for (configured, most, limit) in [
            (32_768, Some(32_768), 8192),
            (32_768, Some(4_194_304), 32_768),
            (100, Some(32_768), 100),
            (32_768, None, 32_768),
            (16, Some(2), 1),
        ] {
            assert_eq!(pids_of(configured, most), limit, "{configured} {most:?}");
        }
    }

    #[test]
    fn a_task_gets_half_of_the_disk_at_most() {
        for (ordered, bytes, limit) in [
            (102_400, Some(459 << 20), 229),
            (102_400, Some(1 << 40), 102_400),
            (0, Some(459 << 20), 0),
            (500, None, 500),
            (500, Some(0), 1),
        ] {
            assert_eq!(disk_mb_of(ordered, bytes), limit, "{ordered} {bytes:?}");
        }
    }
}
