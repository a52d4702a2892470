//! What this node offers: the machine's hardware under the configuration's rules.

use std::collections::BTreeMap;
use std::path::Path;

use muster_exec::hardware::{self, HardwareError, ProbeConfig};
use muster_exec::inventory;
use muster_exec::inventory::nvidia::device_files;
use muster_exec::port::PortRange;
use muster_model::node::Capacity;

use crate::causes::causes;
use crate::config::Hardware;

/// Where no driver library is: the machine's GPUs are then not looked for.
const NO_DRIVER: &str = "/nonexistent/libnvidia-ml.so.1";

/// What a look at the machine gave.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    /// What the node offers.
    pub(crate) capacity: Capacity,
    /// What is wrong with its hardware, as sentences for people.
    pub(crate) problems: Vec<String>,
}

/// Looks at the machine. A GPU driver that does not answer costs the GPUs, not the node.
///
/// # Errors
/// When the configuration does not fit the machine, or the machine cannot be read at all.
pub(crate) fn probe(config: &Hardware) -> Result<Probed, HardwareError> {
    let probe = ProbeConfig {
        ports: config.ports.map(|[first, last]| PortRange { first, last }),
        reserved_memory_mb: config.memory_reserved_mb,
        ..ProbeConfig::default()
    };
    let without_gpus = ProbeConfig {
        nvml: Some(NO_DRIVER.into()),
        ..probe.clone()
    };
    let unmade = match &config.simulate {
        Some(_) => None,
        None => device_files::make(&probe.root).err(),
    };
    let (mut capacity, mut problems) = match &config.simulate {
        Some(text) => {
            let mut capacity = hardware::probe(&without_gpus)?;
            let simulated = hardware::simulate(text)?;
            capacity.devices = simulated.devices;
            capacity.levels = simulated.levels;
            (capacity, Vec::new())
        }
        None => match hardware::probe(&probe) {
            Ok(capacity) if capacity.devices.is_empty() => (capacity, unlisted(&probe.root)),
            Ok(capacity) => (capacity, Vec::new()),
            Err(error @ HardwareError::Driver(_)) => {
                let problem = format!("its GPUs are not granted: {}", causes(&error));
                (hardware::probe(&without_gpus)?, vec![problem])
            }
            Err(error) => return Err(error),
        },
    };
    problems.extend(unmade);
    let cores = scaled(u64::from(capacity.cpu), config.cpu_overcommit);
    capacity.cpu = u32::try_from(cores).unwrap_or(u32::MAX).max(1);
    capacity.memory_mb = scaled(capacity.memory_mb, config.memory_overcommit);
    Ok(Probed { capacity, problems })
}

/// GPUs on the bus that the driver, which lists none, should have listed. Those with the same
/// problem are one sentence.
fn unlisted(root: &Path) -> Vec<String> {
    let mut same: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for problem in inventory::unlisted(root, "nvidia") {
        let gpus = same.entry((problem.evidence, problem.remedy)).or_default();
        gpus.extend(problem.subject);
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

    use super::*;

    #[test]
    fn gpus_without_a_driver_are_told_in_one_sentence() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(unlisted(root.path()), [] as [String; 0]);
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
        let told = unlisted(root.path());
        let [sentence] = &told[..] else {
            panic!("{told:?}")
        };
        let begin =
            "GPU 0000:3b:00.0, 0000:af:00.0: The PCI bus shows it, but the kernel module nvidia";
        assert!(sentence.starts_with(begin), "{sentence}");
        assert!(sentence.contains("`modprobe nvidia`"), "{sentence}");
    }
}
