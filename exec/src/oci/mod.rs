//! The OCI runtime specification of a task's container: what it sees, and what it may do.
//!
//! A container has its own processes, mounts, System V IPC and (on cgroup v2) control groups.
//! It shares the host's network, because gangs talk over the fabric at full speed, and the
//! host's name, because that is the name its address resolves to. Everything else follows
//! Docker's defaults: capabilities (but for raw sockets), masked paths, and the system calls, which
//! muster-init restricts on itself before it starts anything, because runtimes compile such a filter
//! anew every time.

mod capabilities;
mod cdi;
mod device;
mod environment;
mod mount;
mod resources;
pub(crate) mod user;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cgroup::Cgroups;
use crate::engine::ContainerSpec;
use device::{DeviceNode, DeviceRule};
use mount::Mount;
use user::ContainerUser;

/// Tasks go before the host's own services when the machine runs out of memory.
const OOM_SCORE_ADJ: i32 = 500;

/// Open files: what programs that loop over all descriptors can bear, and how far a program may
/// raise it by itself.
const OPEN_FILES: u64 = 65_536;
const OPEN_FILES_MAX: u64 = 524_288;

/// Parts of /proc and /sys that tell of the host, hidden.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Parts of /proc that change the host, read-only.
const READ_ONLY: &[&str] = &[
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Why no specification could be made.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum OciSpecError {
    /// A device file cannot be read.
    #[error("device {path}", path = .path.display())]
    Device {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// A path named as a device is something else.
    #[error("{} is no device file", .0.display())]
    NoDevice(PathBuf),
    /// A CDI file is there but cannot be used.
    #[error("CDI specification {path}: {reason}", path = .path.display())]
    BadCdi {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No CDI file names the device.
    #[error("no CDI specification names {0}")]
    NoCdiDevice(String),
}

/// What of an image's configuration shapes its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageDefaults {
    pub user: ContainerUser,
    /// `NAME=value` lines.
    pub environment: Vec<String>,
    /// Empty for `/`.
    pub working_dir: String,
}

/// What of the machine shapes its containers.
#[derive(Clone, Debug)]
pub(crate) struct HostFacts {
    pub cgroups: Cgroups,
    /// The network that containers are on, where it is not the engine's own.
    pub network: Option<PathBuf>,
    /// Where CDI files lie; a later directory outranks an earlier one.
    pub cdi_dirs: Vec<PathBuf>,
    /// The hard limit on open files; not every machine lets root raise it.
    pub open_files_max: u64,
}

/// The lists that several sources add to.
#[derive(Clone, Debug, Default)]
struct SpecLists {
    environment: environment::Environment,
    mounts: Vec<Mount>,
    devices: Vec<DeviceNode>,
    device_rules: Vec<DeviceRule>,
    hooks: cdi::OciHooks,
    groups: Vec<u32>,
    intel_rdt: Option<cdi::IntelRdt>,
}

impl SpecLists {
    /// Several devices may share a file: it is made once.
    fn add_device(&mut self, node: DeviceNode, access: &str) {
        self.device_rules.push(DeviceRule::allow(&node, access));
        if self.devices.iter().all(|other| other.path != node.path) {
            self.devices.push(node);
        }
    }
}

/// The specification as JSON. Reads device files and CDI files, nothing else of the host.
pub(crate) fn document(
    spec: &ContainerSpec,
    image: &ImageDefaults,
    host: &HostFacts,
) -> Result<Value, OciSpecError> {
    let parts = parts(spec, image, host)?;
    let mut document = json!({
        "ociVersion": "1.0.2",
        "root": { "path": "rootfs", "readonly": false },
        "process": process(spec, image, host, &parts),
        "mounts": parts.mounts,
        "hooks": parts.hooks,
        "linux": {
            "namespaces": namespaces(host),
            "cgroupsPath": host.cgroups.spec_path(spec.uid.as_str()),
            "resources": resources::resources(&spec.limits, &parts.device_rules, host),
            "devices": parts.devices,
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    });
    if let Some(rdt) = &parts.intel_rdt {
        document["linux"]["intelRdt"] = json!(rdt);
    }
    Ok(document)
}

fn parts(
    spec: &ContainerSpec,
    image: &ImageDefaults,
    host: &HostFacts,
) -> Result<SpecLists, OciSpecError> {
    let mut parts = SpecLists {
        mounts: mount::defaults(spec.limits.shm_mb, &spec.mounts),
        device_rules: vec![DeviceRule::deny_all()],
        groups: image.user.groups.clone(),
        ..SpecLists::default()
    };
    parts.environment.add(&spec.default_environment);
    parts.environment.add_lines(&image.environment);
    let infiniband = spec.infiniband.then(|| PathBuf::from("/dev/infiniband"));
    let plain = cdi::inject(&spec.devices, &host.cdi_dirs, &mut parts)?;
    // Several devices may share one: each is mapped once.
    let paths: BTreeSet<PathBuf> = plain.into_iter().chain(infiniband).collect();
    for path in paths {
        for node in device::read(&path)? {
            parts.add_device(node, "rwm");
        }
    }
    parts.environment.add(&spec.environment);
    parts.mounts.extend(spec.mounts.iter().map(Mount::bind));
    Ok(parts)
}

fn process(
    spec: &ContainerSpec,
    image: &ImageDefaults,
    host: &HostFacts,
    parts: &SpecLists,
) -> Value {
    let root = image.user.uid == 0;
    // Like execve: whoever is not root holds no capability, but a bounded set may be regained.
    let bound = capabilities::granted(spec.raw_sockets);
    let held: &[&str] = if root { &bound } else { &[] };
    let cwd = if image.working_dir.is_empty() {
        "/"
    } else {
        &image.working_dir
    };
    json!({
        "terminal": false,
        "user": {
            "uid": image.user.uid,
            "gid": image.user.gid,
            "additionalGids": parts.groups,
        },
        "args": spec.args,
        "env": parts.environment.lines(),
        "cwd": cwd,
        "capabilities": {
            "bounding": bound,
            "effective": held,
            "permitted": held,
        },
        "rlimits": rlimits(spec.infiniband, host.open_files_max),
        "noNewPrivileges": true,
        "oomScoreAdj": OOM_SCORE_ADJ,
    })
}

/// RDMA pins the memory it moves, so it needs the locked-memory limit lifted.
fn rlimits(infiniband: bool, open_files_max: u64) -> Vec<Value> {
    let limit =
        |kind: &str, soft: u64, hard: u64| json!({ "type": kind, "soft": soft, "hard": hard });
    let hard = OPEN_FILES_MAX.min(open_files_max);
    let mut limits = vec![limit("RLIMIT_NOFILE", OPEN_FILES.min(hard), hard)];
    if infiniband {
        limits.push(limit("RLIMIT_MEMLOCK", u64::MAX, u64::MAX));
    }
    limits
}

fn namespaces(host: &HostFacts) -> Vec<Value> {
    let own = ["mount", "pid", "ipc"].into_iter();
    let own = own
        .chain(host.cgroups.is_v2().then_some("cgroup"))
        .map(|kind| json!({ "type": kind }));
    let network = host.network.iter();
    own.chain(network.map(|path| json!({ "type": "network", "path": path })))
        .collect()
}

#[cfg(test)]
mod tests;
