//! Control groups: where a container's group lies, and what its counters say.
//!
//! Both kinds of machine are served: version 2 (one tree) and version 1 (a tree per
//! controller). A hybrid machine counts as version 1, because its controllers are there.
//! Every path is below a root that tests replace by a fixture.

mod counter;
mod disk;
mod member_ids;

use std::path::{Path, PathBuf};

use crate::engine::Usage;
use counter::{field, number};
use disk::{disk_v1, disk_v2};
pub use member_ids::MEMBERS_MAX;
use member_ids::member_ids;

/// Why control groups cannot be used or read.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// Neither version is mounted.
    #[error("no control groups are mounted at {}", .0.display())]
    NotMounted(PathBuf),
    /// The parent group's name would not be one group on every kind of machine.
    #[error("parent control group {0:?}: use letters, digits and '_'")]
    BadParent(String),
    /// A counter cannot be read: its group does not exist, or the kernel lacks it.
    #[error("counter {}", path.display())]
    Read {
        /// The counter's file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A counter's file holds something unexpected.
    #[error("counter {} holds {text:?}", path.display())]
    Malformed {
        /// The counter's file.
        path: PathBuf,
        /// Its content, cut.
        text: String,
    },
}

/// Which interface the kernel offers the controllers at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

/// Who makes a container's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupDriver {
    /// The runtime itself.
    Cgroupfs,
    /// systemd, on the runtime's behalf: it owns the tree of a version 2 machine it runs on.
    Systemd,
}

/// The machine's control groups, and the parent of all containers' groups.
#[derive(Clone, Debug)]
pub struct Cgroups {
    mount: PathBuf,
    version: CgroupVersion,
    driver: CgroupDriver,
    parent: String,
    limits_swap: bool,
}

impl Cgroups {
    /// Looks at the machine whose file tree is at `root`. `parent` names the group that all
    /// containers' groups are made in.
    pub fn detect(root: &Path, parent: &str) -> Result<Self, CgroupError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if parent.is_empty() || !parent.bytes().all(plain) {
            return Err(CgroupError::BadParent(parent.to_owned()));
        }
        let mount = root.join("sys/fs/cgroup");
        let version = if mount.join("cgroup.controllers").exists() {
            CgroupVersion::V2
        } else if mount.join("memory").is_dir() {
            CgroupVersion::V1
        } else {
            return Err(CgroupError::NotMounted(mount));
        };
        let systemd = version == CgroupVersion::V2 && root.join("run/systemd/system").is_dir();
        Ok(Self {
            // Version 1 kernels may be built or booted without swap accounting.
            limits_swap: version == CgroupVersion::V2
                || mount.join("memory/memory.memsw.limit_in_bytes").exists(),
            driver: if systemd {
                CgroupDriver::Systemd
            } else {
                CgroupDriver::Cgroupfs
            },
            version,
            mount,
            parent: parent.to_owned(),
        })
    }

    /// Whether the machine has the one tree of version 2.
    pub fn is_v2(&self) -> bool {
        self.version == CgroupVersion::V2
    }

    /// Whether some controllers are in the tree of version 2 and the rest are not.
    pub fn is_split(&self) -> bool {
        let controllers = self.mount.join("unified/cgroup.controllers");
        self.version == CgroupVersion::V1
            && std::fs::read_to_string(controllers).is_ok_and(|names| !names.trim().is_empty())
    }

    /// Whether the runtime has to ask systemd for the group.
    pub fn needs_systemd(&self) -> bool {
        self.driver == CgroupDriver::Systemd
    }

    /// Whether a limit on memory and swap together can be set.
    pub fn limits_swap(&self) -> bool {
        self.limits_swap
    }

    /// The group of container `name` as the OCI specification's `cgroupsPath` says it.
    pub fn spec_path(&self, name: &str) -> String {
        let parent = &self.parent;
        match self.driver {
            CgroupDriver::Cgroupfs => format!("/{parent}/{name}"),
            CgroupDriver::Systemd => format!("{parent}.slice:{parent}:{name}"),
        }
    }

    /// What container `name` used, by the kernel's counters.
    pub fn usage(&self, name: &str) -> Result<Usage, CgroupError> {
        match self.version {
            CgroupVersion::V1 => self.usage_v1(name),
            CgroupVersion::V2 => self.usage_v2(name),
        }
    }

    /// The processes of container `name`, those in groups that it has made in its own included, by their numbers on
    /// this machine. At most [`MEMBERS_MAX`].
    pub fn process_ids(&self, name: &str) -> Result<Vec<u32>, CgroupError> {
        let controller = match self.version {
            CgroupVersion::V1 => "pids",
            CgroupVersion::V2 => "",
        };
        member_ids(&self.group(controller, name))
    }

    fn usage_v1(&self, name: &str) -> Result<Usage, CgroupError> {
        let memory = self.group("memory", name);
        let pids = self.group("pids", name);
        let used = number(&memory.join("memory.usage_in_bytes"))?;
        let cached = field(&memory.join("memory.stat"), "total_inactive_file")?;
        Ok(Usage {
            memory_bytes: used.saturating_sub(cached),
            memory_peak_bytes: number(&memory.join("memory.max_usage_in_bytes")).ok(),
            cpu_usec: number(&self.group("cpuacct", name).join("cpuacct.usage"))? / 1000,
            disk: disk_v1(&self.group("blkio", name)),
            pids: number(&pids.join("pids.current"))?,
            oom_kills: field(&memory.join("memory.oom_control"), "oom_kill")?,
            pids_refused: field(&pids.join("pids.events"), "max")?,
        })
    }

    fn usage_v2(&self, name: &str) -> Result<Usage, CgroupError> {
        let group = self.group("", name);
        let used = number(&group.join("memory.current"))?;
        let cached = field(&group.join("memory.stat"), "inactive_file")?;
        Ok(Usage {
            memory_bytes: used.saturating_sub(cached),
            memory_peak_bytes: number(&group.join("memory.peak")).ok(),
            cpu_usec: field(&group.join("cpu.stat"), "usage_usec")?,
            disk: disk_v2(&group),
            pids: number(&group.join("pids.current"))?,
            oom_kills: field(&group.join("memory.events"), "oom_kill")?,
            pids_refused: field(&group.join("pids.events"), "max")?,
        })
    }

    fn group(&self, controller: &str, name: &str) -> PathBuf {
        let parent = &self.parent;
        let tree = self.mount.join(controller);
        match self.driver {
            CgroupDriver::Cgroupfs => tree.join(parent).join(name),
            CgroupDriver::Systemd => tree
                .join(format!("{parent}.slice"))
                .join(format!("{parent}-{name}.scope")),
        }
    }
}

#[cfg(test)]
mod tests;
