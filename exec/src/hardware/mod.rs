//! What the machine grants: cores, memory, devices of all vendors, and the ports that tasks may
//! get.
//!
//! It is made of one look at the inventory. A machine without devices has none, which is no
//! error.

mod simulate;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use muster_model::inventory::Inventory;
use muster_model::node::Capacity;

use crate::inventory::{self, GrantedDevices, HostResources, InventoryConfig};
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
    /// NCCL's topology file by its path below the root, as `NCCL_TOPO_FILE` names it.
    pub nccl_topology: Option<PathBuf>,
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
            nccl_topology: None,
            ports: None,
            reserved_memory_mb: 0,
        }
    }
}

/// Why the machine's hardware is not known.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
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

/// What the machine has, and what of it is granted.
#[derive(Clone, Debug)]
pub struct ProbedMachine {
    /// What is granted.
    pub capacity: Capacity,
    /// All that there is, and what is wrong with it.
    pub inventory: Inventory,
}

/// Looks at the machine once. Takes up to some seconds where the GPU driver has to wake.
///
/// # Errors
/// When the configured ports cannot be used, or the memory is not known.
pub fn probe(config: &ProbeConfig) -> Result<ProbedMachine, HardwareError> {
    let look = inventory::look(&InventoryConfig {
        root: config.root.clone(),
        nvml: config.nvml.clone(),
        nccl_topology: config.nccl_topology.clone(),
        ..InventoryConfig::default()
    });
    Ok(ProbedMachine {
        capacity: capacity(config, &look.host, look.granted)?,
        inventory: look.inventory,
    })
}

/// Looks at the machine once, and at none of its devices: `simulated` are granted instead.
///
/// # Errors
/// As with [`probe`].
pub fn probe_host(config: &ProbeConfig, simulated: Simulated) -> Result<Capacity, HardwareError> {
    let Simulated { devices, levels } = simulated;
    let host = HostResources::read(&config.root);
    capacity(config, &host, GrantedDevices { devices, levels })
}

fn capacity(
    config: &ProbeConfig,
    host: &HostResources,
    granted: GrantedDevices,
) -> Result<Capacity, HardwareError> {
    let ports = port::range(&config.root, config.ports)?;
    let memory_mb = host.memory_mb;
    let memory_mb = memory_mb.ok_or_else(|| HardwareError::Memory(config.root.join(MEMINFO)))?;
    Ok(Capacity {
        cpu: cpus(&config.root, host.cpus),
        memory_mb: memory_mb.saturating_sub(config.reserved_memory_mb),
        devices: granted.devices,
        levels: granted.levels,
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
