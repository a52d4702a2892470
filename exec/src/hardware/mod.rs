//! What the machine has: cores, memory, GPUs, and the ports that tasks may get.
//!
//! GPUs are found through NVIDIA's driver library, loaded when the machine has it. A machine
//! without it has none, which is no error.

mod gpu;
mod near;
mod simulate;

use std::path::PathBuf;

use muster_model::node::Capacity;
use sysinfo::System;

use crate::inventory::nvidia::NvidiaError;
use crate::port::{self, PortRange};
pub use simulate::{Simulated, simulate};

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
    #[error("the size of the memory is not known")]
    Memory(#[source] sysinfo::Error),
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
    Ok(Capacity {
        cpu: cores(),
        memory_mb: memory_mb()?.saturating_sub(config.reserved_memory_mb),
        devices: gpus.devices.into_iter().map(|(device, _)| device).collect(),
        levels,
        port_first: ports.first,
        port_last: ports.last,
    })
}

fn memory_mb() -> Result<u64, HardwareError> {
    let mut system = System::new().map_err(HardwareError::Memory)?;
    system.refresh_memory();
    Ok(system.total_memory() / (1 << 20))
}

/// Cores that this process may use: fewer than the machine's where it is confined itself.
fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX)
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
