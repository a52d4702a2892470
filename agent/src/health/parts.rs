//! Parts of this node by the names that people give them.

use std::sync::Arc;

use muster_control::request::RequestFailure;
use muster_model::health::{HealthCheck, HealthSubject, PersonMark};
use muster_model::inventory::InventoryProblem;
use muster_model::node::{Capacity, Device};
use tokio::sync::Notify;

use super::{HealthNow, NodeHealth};
use crate::accepted::Accepted;
use crate::loops::hardware::HardwareState;

/// What names the machine as a whole.
const MACHINE: &str = "machine";

/// The health of this node's parts. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct NodeParts {
    health: NodeHealth,
    hardware: HardwareState,
    accepted: Accepted,
    look: Arc<Notify>,
}

impl NodeParts {
    /// `look` has the hardware looked at.
    pub(crate) fn new(
        (health, hardware): (NodeHealth, HardwareState),
        (accepted, look): (Accepted, Arc<Notify>),
    ) -> Self {
        Self {
            health,
            hardware,
            accepted,
            look,
        }
    }

    /// Accepts what the node has now as what it should have. Answers what was missed until then.
    ///
    /// # Errors
    /// [`RequestFailure`] when it cannot be kept.
    pub(crate) fn accept(&self) -> Result<Vec<InventoryProblem>, RequestFailure> {
        let gone = tokio::task::block_in_place(|| self.accepted.accept()).map_err(|error| {
            RequestFailure::unavailable(format!("it could not be written to the disk: {error}"))
        })?;
        tracing::warn!(count = gone.len(), "a person accepts what the machine has");
        self.look.notify_one();
        Ok(gone)
    }

    /// What is known now.
    pub(crate) fn now(&self) -> HealthNow {
        self.health.now()
    }

    /// Takes a person's word on a part. Answers what checks say of it then.
    ///
    /// # Errors
    /// [`RequestFailure`] when there is no such part, or the word cannot be kept.
    pub(crate) async fn mark_part(
        &self,
        part: &str,
        mark: PersonMark,
    ) -> Result<Vec<HealthCheck>, RequestFailure> {
        let capacity = self.hardware.borrow().capacity.clone();
        let subject = subject(part, &capacity).ok_or_else(|| RequestFailure::missing(part))?;
        tracing::warn!(part, ?mark, "a person says something of a part");
        if !self.health.mark(subject.clone(), mark).await {
            let why = "the word could not be written to the disk; try again";
            return Err(RequestFailure::unavailable(why));
        }
        let mut checks = self.health.now().checks;
        checks.retain(|check| is_same(&check.subject, &subject));
        Ok(checks)
    }
}

/// What a person means: a device by its id, index or PCI address, a port as `mlx5_0/1`, or the
/// machine.
fn subject(part: &str, capacity: &Capacity) -> Option<HealthSubject> {
    if part == MACHINE {
        return Some(HealthSubject::Machine);
    }
    let is_meant = |device: &&Device| {
        device.id.0 == part
            || device.index.to_string() == part
            || device.pci.as_deref() == Some(part)
            || device.partition_of.as_deref() == Some(part)
    };
    if let Some(device) = capacity.devices.iter().find(is_meant) {
        return Some(HealthSubject::Device {
            pci: device.partition_of.clone().or_else(|| device.pci.clone()),
            id: Some(device.id.clone()),
        });
    }
    let (device, port) = part.split_once('/')?;
    let port = port.parse().ok()?;
    Some(HealthSubject::FabricPort {
        device: device.to_owned(),
        port,
    })
}

/// Whether two subjects are one part, as far as both name it.
fn is_same(one: &HealthSubject, other: &HealthSubject) -> bool {
    match (one.pci(), other.pci()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}
