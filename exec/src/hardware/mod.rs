//! What the machine has: cores, memory, GPUs, and the ports that tasks may get.
//!
//! GPUs are found through NVIDIA's driver library, loaded when the machine has it. A machine
//! without it has none, which is no error.

mod gpu;
mod near;
mod simulate;

use std::path::{Path, PathBuf};

use muster_model::node::Capacity;

use crate::inventory::HostResources;
use crate::inventory::nvidia::NvidiaError;
use crate::port::{self, PortRange};
pub use simulate::{Simulated, simulate};

/// Where the kernel tells the memory, below the root.
const MEMINFO: &str = "proc/meminfo";

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeConfig {
    /// The machine's file tree.
    pub root: PathBuf,
    /// NVIDIA's driver library, if not where the loader finds it.
    pub nvml: Option<PathBuf>,
    /// The ports for tasks; the widest safe range if none are named.
    pub ports: Option<PortRange>,
    /// Memory kept for the machine itself, MiB.
    pub reserved_memory_mb: u64,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        Self {
            root: "/".into(),
            nvml: None,
            ports: None,
            reserved_memory_mb: 0,
        }
    }
}

/// Why the machine's hardware is not known.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    /// The driver library is there, but it does not answer for the machine.
    #[error(transparent)]
    Driver(#[from] NvidiaError),
    /// The kernel does not say how much memory there is.
    #[error("the size of the memory is not known: {} does not tell it", .0.display())]
    Memory(PathBuf),
    /// No ports for tasks.
    #[error("no ports for tasks")]
    Ports(#[from] port::PortRangeError),
    /// `[hardware] simulate` is not understood.
    #[error("simulated devices {text:?}: {reason}")]
    Simulate {
        /// As written.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Looks at the machine once. Takes up to some seconds where the GPU driver has to wake.
pub fn probe(config: &ProbeConfig) -> Result<Capacity, HardwareError> {
    let ports = port::range(&config.root, config.ports)?;
    let gpus = gpu::probe(&config.root, config.nvml.as_deref())?;
    let levels = near::levels(&config.root, &gpus.devices, &gpus.nvlink);
    let host = HostResources::read(&config.root);
    let memory_mb = host.memory_mb;
    let memory_mb = memory_mb.ok_or_else(|| HardwareError::Memory(config.root.join(MEMINFO)))?;
    Ok(Capacity {
        cpu: cpus(&config.root, host.cpus),
        memory_mb: memory_mb.saturating_sub(config.reserved_memory_mb),
        devices: gpus.devices.into_iter().map(|(device, _)| device).collect(),
        levels,
        port_first: ports.first,
        port_last: ports.last,
    })
}

/// The CPUs for tasks: of this machine not more than this process may use, which is confined
/// itself where it runs in a cgroup.
fn cpus(root: &Path, online: u32) -> u32 {
    if root != Path::new("/") {
        return online.max(1);
    }
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let usable = u32::try_from(usable).unwrap_or(u32::MAX);
    match online {
        // The kernel does not list them.
        0 => usable,
        online => usable.min(online),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_memory_and_ports() {
        let capacity = probe(&ProbeConfig::default()).unwrap();
        assert!(capacity.cpu >= 1);
        assert!(capacity.memory_mb > 64);
        assert!(capacity.port_first < capacity.port_last);
    }

    #[test]
    fn a_tree_gives_its_own_cpus_and_memory() {
        let root = tempfile::tempdir().unwrap();
        let config = ProbeConfig {
            root: root.path().to_owned(),
            nvml: Some(root.path().join("libnvidia-ml.so")),
            reserved_memory_mb: 512,
            ..ProbeConfig::default()
        };
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
        let error = probe(&config).unwrap_err().to_string();
        assert!(error.ends_with("proc/meminfo does not tell it"), "{error}");
        let huge = "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
        write("sys/devices/system/cpu/online", "0-191\n");
        write("proc/meminfo", "MemTotal: 1056784384 kB\n");
        write(huge, "8\n");
        let capacity = probe(&config).unwrap();
        assert_eq!(capacity.cpu, 192);
        assert_eq!(capacity.memory_mb, (1_056_784_384 >> 10) - 8192 - 512);
    }

    #[test]
    fn a_missing_driver_means_no_gpus_and_a_broken_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("libnvidia-ml.so");
        let config = |nvml: &std::path::Path| ProbeConfig {
            nvml: Some(nvml.to_owned()),
            ..ProbeConfig::default()
        };
        assert_eq!(probe(&config(&missing)).unwrap().devices, []);
        std::fs::write(&missing, "no library").unwrap();
        let error = probe(&config(&missing)).unwrap_err();
        assert_eq!(error.to_string(), "the GPU driver cannot load");
    }
}
