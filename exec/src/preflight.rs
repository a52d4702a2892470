//! What was right when a task's place was reserved, looked at again right before its container is made:
//! its image may have taken an hour to come.

use std::path::Path;

use muster_model::launch::TaskSpec;
use muster_model::node::Capacity;

use crate::inventory::fabric::has_active_infiniband;

/// The machine as it is now.
pub struct MachineNow<'a> {
    /// Its file tree.
    pub root: &'a Path,
    /// Its devices with their faults, as they were seen last.
    pub capacity: &'a Capacity,
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
    if task.infiniband && !has_active_infiniband(machine.root) {
        return Err(PreflightError::NoInfiniband);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
            infiniband: true,
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
            port_is_free: &|_| true,
        };
        assert_eq!(check(&task(), &machine), Err(PreflightError::NoInfiniband));
        let plain = TaskSpec {
            infiniband: false,
            ..task()
        };
        assert_eq!(check(&plain, &machine), Ok(()));
    }
}
