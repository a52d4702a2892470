//! What was right when a task's place was reserved, looked at again right before its container is made:
//! its image may have taken an hour to come.

use std::path::Path;

use muster_model::health::{HealthCheck, HealthSubject, Quarantine};
use muster_model::inventory::FabricPort;
use muster_model::launch::TaskSpec;
use muster_model::node::Capacity;

use crate::inventory::fabric::{active_infiniband, adapter_pci};

/// The machine as it is now.
pub struct MachineNow<'a> {
    /// Its file tree.
    pub root: &'a Path,
    /// Its devices with their faults, as they were seen last.
    pub capacity: &'a Capacity,
    /// What checks of its parts say.
    pub checks: &'a [HealthCheck],
    /// Whether a port can be bound.
    pub port_is_free: &'a dyn Fn(u16) -> bool,
}

/// Why a task is not to be started on this machine. Nothing was changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreflightError {
    /// Somebody else has taken one of its ports since they were chosen.
    #[error("port {0} is taken by somebody else")]
    PortTaken(u16),
    /// The machine does not know of one of its devices.
    #[error("device {0} is not there any more")]
    NoDevice(String),
    /// One of its devices has fallen sick.
    #[error("device {id} is sick: {fault}")]
    Sick {
        /// Which.
        id: String,
        /// What is wrong with it.
        fault: String,
    },
    /// It asks for InfiniBand, and no adapter's link is up.
    #[error("no InfiniBand port is active")]
    NoInfiniband,
    /// It asks for InfiniBand, and all ports that are active are quarantined.
    #[error("every active InfiniBand port is quarantined: {0}")]
    FabricQuarantined(String),
}

impl std::fmt::Debug for MachineNow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Machine");
        shown.field("root", &self.root);
        shown.finish_non_exhaustive()
    }
}

/// Checks that the machine has what the task was promised: its ports, its devices, and the fabric if it
/// asks for it.
///
/// # Errors
/// The first thing that it lacks.
pub fn check(task: &TaskSpec, machine: &MachineNow<'_>) -> Result<(), PreflightError> {
    let ports = task.placement.ports.iter().flat_map(|(_, ports)| ports);
    if let Some(port) = ports.copied().find(|port| !(machine.port_is_free)(*port)) {
        return Err(PreflightError::PortTaken(port));
    }
    for (_, id) in &task.placement.devices {
        let mut devices = machine.capacity.devices.iter();
        let device = devices.find(|device| device.id == *id);
        let device = device.ok_or_else(|| PreflightError::NoDevice(id.0.clone()))?;
        if let Some(fault) = &device.fault {
            return Err(PreflightError::Sick {
                id: id.0.clone(),
                fault: fault.clone(),
            });
        }
    }
    if task.infiniband {
        check_fabric(machine)?;
    }
    Ok(())
}

/// One port that may be used is enough: which port a task uses is its library's choice.
fn check_fabric(machine: &MachineNow<'_>) -> Result<(), PreflightError> {
    let ports = active_infiniband(machine.root);
    if ports.is_empty() {
        return Err(PreflightError::NoInfiniband);
    }
    let mut reasons = Vec::new();
    for port in &ports {
        match machine.quarantine_of(port) {
            Some(check) => reasons.push(format!(
                "{}/{} by {}: {}",
                port.device, port.port, check.name, check.evidence
            )),
            None => return Ok(()),
        }
    }
    Err(PreflightError::FabricQuarantined(reasons.join("; ")))
}

impl MachineNow<'_> {
    /// The check that quarantines a port or the adapter that it is of.
    fn quarantine_of(&self, port: &FabricPort) -> Option<&HealthCheck> {
        let pci = adapter_pci(self.root, &port.device);
        let is_of = |subject: &HealthSubject| match subject {
            HealthSubject::Machine => true,
            HealthSubject::Device { .. } => pci.is_some() && subject.pci() == pci.as_deref(),
            HealthSubject::FabricPort {
                device,
                port: number,
            } => (device, *number) == (&port.device, port.port),
        };
        let mut links = self
            .checks
            .iter()
            .filter(|check| check.effect() >= Quarantine::Links);
        links.find(|check| is_of(&check.subject))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_model::health::{HealthState, Remedy};
    use muster_model::id::TaskId;
    use muster_model::launch::{TaskLimits, TaskPlacement};
    use muster_model::node::{Device, DeviceId};

    use super::*;

    fn task() -> TaskSpec {
        let placement = TaskPlacement {
            task: TaskId {
                role: "w".parse().unwrap(),
                index: 0,
            },
            uid: "u".parse().unwrap(),
            node: "n1".parse().unwrap(),
            address: String::new(),
            leaves: Vec::new(),
            devices: vec![(0, DeviceId("GPU-0".to_owned()))],
            ports: vec![("http".to_owned(), vec![10_001, 10_002])],
        };
        TaskSpec {
            job: "alice~a".parse().unwrap(),
            attempt: 0,
            placement,
            image: "image".to_owned(),
            image_auth: None,
            limits: TaskLimits {
                cpu: 1,
                memory_mb: 1,
                shm_mb: 1,
                pids: 1,
                disk_mb: 1,
            },
            lease_s: None,
            hold_s: None,
            infiniband: true,
            storages: Vec::new(),
            ssh: None,
            pre_commands: Vec::new(),
            entrypoint: String::new(),
            post_commands: Vec::new(),
            environment: BTreeMap::new(),
            sealed_secrets: Vec::new(),
        }
    }

    fn capacity(id: &str, fault: Option<&str>) -> Capacity {
        let device = Device {
            fault: fault.map(str::to_owned),
            simulated: false,
            ..Device::simulated(id, 0, "V100")
        };
        Capacity {
            cpu: 1,
            memory_mb: 1,
            devices: vec![device],
            levels: Vec::new(),
            port_first: 1,
            port_last: 1,
        }
    }

    #[test]
    fn what_was_promised_must_still_be_there() {
        let well = capacity("GPU-0", None);
        let sick = PreflightError::Sick {
            id: "GPU-0".to_owned(),
            fault: "Xid 79".to_owned(),
        };
        let gone = PreflightError::NoDevice("GPU-0".to_owned());
        let up = ["4: ACTIVE", "InfiniBand"];
        let none = || Err(PreflightError::NoInfiniband);
        for (capacity, taken, port_files, expect) in [
            (&well, 0, up, Ok(())),
            (&well, 10_002, up, Err(PreflightError::PortTaken(10_002))),
            (&capacity("GPU-0", Some("Xid 79")), 0, up, Err(sick)),
            (&capacity("GPU-1", None), 0, up, Err(gone)),
            (&well, 0, ["1: DOWN", "InfiniBand"], none()),
            (&well, 0, ["4: ACTIVE", "Ethernet"], none()),
        ] {
            let root = tempfile::tempdir().unwrap();
            let port = root.path().join("sys/class/infiniband/mlx5_0/ports/1");
            std::fs::create_dir_all(&port).unwrap();
            for (file, text) in ["state", "link_layer"].into_iter().zip(port_files) {
                std::fs::write(port.join(file), text).unwrap();
            }
            let machine = MachineNow {
                root: root.path(),
                capacity,
                checks: &[],
                port_is_free: &|port| port != taken,
            };
            assert_eq!(check(&task(), &machine), expect);
        }
    }

    #[test]
    fn infiniband_is_looked_for_only_where_it_is_wanted() {
        let root = tempfile::tempdir().unwrap();
        let machine = MachineNow {
            root: root.path(),
            capacity: &capacity("GPU-0", None),
            checks: &[],
            port_is_free: &|_| true,
        };
        assert_eq!(check(&task(), &machine), Err(PreflightError::NoInfiniband));
        let plain = TaskSpec {
            infiniband: false,
            ..task()
        };
        assert_eq!(check(&plain, &machine), Ok(()));
    }

    /// A port of InfiniBand that is active, of the adapter at a PCI address.
    fn add_port(root: &Path, device: &str, pci: &str) {
        let adapter = root.join("sys/class/infiniband").join(device);
        let port = adapter.join("ports/1");
        std::fs::create_dir_all(&port).unwrap();
        std::fs::write(port.join("state"), "4: ACTIVE").unwrap();
        std::fs::write(port.join("link_layer"), "InfiniBand").unwrap();
        std::os::unix::fs::symlink(Path::new("../..").join(pci), adapter.join("device")).unwrap();
    }

    fn links_of(subject: HealthSubject) -> HealthCheck {
        HealthCheck {
            name: "port-flaps".to_owned(),
            subject,
            state: HealthState::Bad,
            evidence: "3 outages in 12 hours.".to_owned(),
            since_ms: 1,
            clears: String::new(),
            shadow: false,
            remedy: Remedy::Inspect,
            advice: String::new(),
            quarantine: Quarantine::Links,
            held_back: None,
        }
    }

    #[test]
    fn a_task_with_the_fabric_needs_a_port_that_is_not_quarantined() {
        let root = tempfile::tempdir().unwrap();
        add_port(root.path(), "mlx5_0", "0000:1a:00.0");
        add_port(root.path(), "mlx5_1", "0000:3b:00.0");
        let port = |device: &str| {
            links_of(HealthSubject::FabricPort {
                device: device.to_owned(),
                port: 1,
            })
        };
        let adapter = links_of(HealthSubject::at("0000:3b:00.0"));
        let gpu = links_of(HealthSubject::at("0000:5e:00.0"));
        let warns = HealthCheck {
            quarantine: Quarantine::None,
            ..port("mlx5_1")
        };
        let both = "mlx5_0/1 by port-flaps: 3 outages in 12 hours.; \
                    mlx5_1/1 by port-flaps: 3 outages in 12 hours.";
        let refused = || Err(PreflightError::FabricQuarantined(both.to_owned()));
        for (checks, expect) in [
            (vec![], Ok(())),
            (vec![port("mlx5_0")], Ok(())),
            (vec![port("mlx5_0"), gpu], Ok(())),
            (vec![port("mlx5_0"), warns], Ok(())),
            (vec![port("mlx5_0"), port("mlx5_1")], refused()),
            (vec![port("mlx5_0"), adapter], refused()),
        ] {
            let machine = MachineNow {
                root: root.path(),
                capacity: &capacity("GPU-0", None),
                checks: &checks,
                port_is_free: &|_| true,
            };
            assert_eq!(check(&task(), &machine), expect, "{checks:?}");
            let plain = TaskSpec {
                infiniband: false,
                ..task()
            };
            assert_eq!(check(&plain, &machine), Ok(()));
        }
    }
}
