//! The processes in a group.

use std::fs;
use std::path::{Path, PathBuf};

use super::CgroupError;

/// Processes that are looked for in a container.
pub const MEMBERS_MAX: usize = 4096;
/// Groups that are looked into: the container's own, and those that it has made in it.
const GROUPS_MAX: usize = 256;

/// The processes in a group and in those below it.
pub(super) fn member_ids(group: &Path) -> Result<Vec<u32>, CgroupError> {
    let mut members = listed(group)?;
    let mut left = below(group);
    let mut groups = 1;
    while let Some(next) = left.pop() {
        groups += 1;
        if groups > GROUPS_MAX || members.len() >= MEMBERS_MAX {
            break;
        }
        // It may be gone by now.
        members.extend(listed(&next).unwrap_or_default());
        left.extend(below(&next));
    }
    members.sort_unstable();
    members.dedup();
    members.truncate(MEMBERS_MAX);
    Ok(members)
}

fn listed(group: &Path) -> Result<Vec<u32>, CgroupError> {
    let path = group.join("cgroup.procs");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
        Err(source) => Err(CgroupError::Read { path, source }),
    }
}

fn below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    groups.map(|entry| entry.path()).collect()
}
