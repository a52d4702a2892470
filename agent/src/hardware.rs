//! What this node offers: the machine's hardware under the configuration's rules.

use std::collections::BTreeMap;

use muster_exec::hardware::{self, HardwareError, ProbeConfig, ProbedMachine};
use muster_exec::inventory::nvidia::device_files;
use muster_exec::port::PortRange;
use muster_model::inventory::{Inventory, InventoryProblem};
use muster_model::node::{Capacity, Device, NVIDIA};

use crate::config::Hardware;
use crate::inventory::nccl_topology;

/// Problems of NVIDIA's driver by which its GPUs are not granted, by their names.
const DRIVER_PROBLEMS: &[&str] = &["driver-unusable", "driver-mismatch", "driver-hangs"];

/// What a look at the machine gave.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    /// What the node offers.
    pub(crate) capacity: Capacity,
    /// What is wrong with its hardware, as sentences for people.
    pub(crate) problems: Vec<String>,
    /// All that it has. None where devices are made up.
    pub(crate) inventory: Option<Inventory>,
}

/// Looks at the machine. A GPU driver that does not answer costs the GPUs, not the node.
///
/// # Errors
/// When the configuration does not fit the machine, or the machine cannot be read at all.
pub(crate) fn probe(config: &Hardware) -> Result<Probed, HardwareError> {
    let probe = ProbeConfig {
        ports: config.ports.map(|[first, last]| PortRange { first, last }),
        reserved_memory_mb: config.memory_reserved_mb,
        nccl_topology: nccl_topology(),
        ..ProbeConfig::default()
    };
    let unmade = match &config.simulate {
        Some(_) => None,
        None => device_files::make(&probe.root).err(),
    };
    let (mut capacity, mut problems, inventory) = match &config.simulate {
        Some(text) => {
            let simulated = hardware::simulate(text)?;
            (hardware::probe_host(&probe, simulated)?, Vec::new(), None)
        }
        None => {
            let ProbedMachine {
                capacity,
                inventory,
            } = hardware::probe(&probe)?;
            let problems = problems(&inventory, &capacity.devices);
            (capacity, problems, Some(inventory))
        }
    };
    problems.extend(unmade);
    let cores = scaled(u64::from(capacity.cpu), config.cpu_overcommit);
    capacity.cpu = u32::try_from(cores).unwrap_or(u32::MAX).max(1);
    capacity.memory_mb = scaled(capacity.memory_mb, config.memory_overcommit);
    Ok(Probed {
        capacity,
        problems,
        inventory,
    })
}

/// Why GPUs of NVIDIA are not granted: what is wrong with the driver, and which of them it should
/// have listed if it lists none. A device that is granted tells its own fault.
fn problems(inventory: &Inventory, granted: &[Device]) -> Vec<String> {
    let is_driver = |problem: &&InventoryProblem| DRIVER_PROBLEMS.contains(&&*problem.name);
    let driver = inventory.problems.iter().filter(is_driver);
    let driver = driver.map(|problem| {
        let InventoryProblem {
            evidence, remedy, ..
        } = problem;
        format!("its GPUs are not granted: {evidence} {remedy}")
    });
    let mut problems: Vec<String> = driver.collect();
    if problems.is_empty() && !granted.iter().any(Device::is_nvidia) {
        problems = unlisted(inventory);
    }
    problems
}

/// What is wrong with the GPUs of NVIDIA on the bus. Those with the same problem are one sentence.
fn unlisted(inventory: &Inventory) -> Vec<String> {
    let ours = inventory.devices.iter().filter(|it| it.vendor == NVIDIA);
    let ours: Vec<&str> = ours.filter_map(|it| it.pci.as_deref()).collect();
    let mut same: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for problem in &inventory.problems {
        if let Some(subject) = problem.subject.as_deref().filter(|it| ours.contains(it)) {
            let gpus = same.entry((&problem.evidence, &problem.remedy));
            gpus.or_default().push(subject);
        }
    }
    let texts = same
        .into_iter()
        .map(|((evidence, remedy), gpus)| format!("GPU {}: {evidence} {remedy}", gpus.join(", ")));
    texts.collect()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both are positive"
)]
fn scaled(amount: u64, factor: f64) -> u64 {
    (amount as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use muster_exec::inventory::{self, InventoryConfig};

    use super::*;

    #[test]
    fn gpus_without_a_driver_are_told_in_one_sentence() {
        let root = tempfile::tempdir().unwrap();
        let config = InventoryConfig {
            root: root.path().to_owned(),
            nvml: Some(root.path().join("libnvidia-ml.so.1")),
            ..InventoryConfig::default()
        };
        let told = || problems(&inventory::read(&config), &[]);
        assert_eq!(told(), [] as [String; 0]);
        for bus in ["3b", "af"] {
            let dir = root
                .path()
                .join(format!("sys/bus/pci/devices/0000:{bus}:00.0"));
            fs::create_dir_all(&dir).unwrap();
            for (name, text) in [
                ("class", "0x030200"),
                ("vendor", "0x10de"),
                ("device", "0x1db1"),
            ] {
                fs::write(dir.join(name), text).unwrap();
            }
        }
        let told = told();
        let [sentence] = &told[..] else {
            panic!("{told:?}")
        };
        let begin =
            "GPU 0000:3b:00.0, 0000:af:00.0: The PCI bus shows it, but the kernel module nvidia";
        assert!(sentence.starts_with(begin), "{sentence}");
        assert!(sentence.contains("`modprobe nvidia`"), "{sentence}");
    }
}
