//! Parts of this node by the names that people give them.

use std::sync::Arc;

use muster_control::request::RequestFailure;
use muster_model::health::{HealthCheck, HealthSubject, PersonMark};
use muster_model::inventory::InventoryProblem;
use muster_model::node::{Capacity, Device};
use tokio::sync::Notify;

use super::{HealthNow, NodeHealth};
use crate::accepted::{Acceptance, Accepted};
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

    /// Accepts what the node has now as what it should have: what it lacks is not missed any more,
    /// and ports that it lacks are not judged any more. Answers what was missed until then.
    ///
    /// # Errors
    /// [`RequestFailure`] when it cannot be kept. It may then be accepted in part; to accept it
    /// again does the rest.
    pub(crate) async fn accept(&self) -> Result<Vec<InventoryProblem>, RequestFailure> {
        let accepted = tokio::task::block_in_place(|| self.accepted.accept());
        let Acceptance { gone, ports } = accepted.map_err(|error| {
            RequestFailure::unavailable(format!("it could not be written to the disk: {error}"))
        })?;
        tracing::warn!(count = gone.len(), "a person accepts what the machine has");
        if let Some(ports) = ports
            && !self.health.accept_ports(ports).await
        {
            let why = "what ports had before could not be written to the disk; try again";
            return Err(RequestFailure::unavailable(why));
        }
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

#[cfg(test)]
mod tests {
    use muster_model::inventory::{FabricPort, Inventory, LinkLayer};
    use tokio::sync::watch;

    use super::*;
    use crate::hardware::Probed;
    use crate::health::HealthRequest;

    fn machine(ports: &[&str]) -> Inventory {
        let port = |device: &&str| FabricPort {
            device: (*device).to_owned(),
            port: 1,
            link_layer: LinkLayer::InfiniBand,
            state: "DOWN".to_owned(),
            rate_gbps: 400,
        };
        Inventory {
            fabric: ports.iter().map(port).collect(),
            ..Inventory::default()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_accepts_a_machine_accepts_the_ports_that_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let accepted = Accepted::open(dir.path().join("accepted.json")).unwrap();
        let (health, mut ends) = NodeHealth::new(HealthNow::default());
        let capacity = Inventory::default().to_capacity();
        let (_sender, hardware) = watch::channel(Probed {
            capacity,
            problems: Vec::new(),
            inventory: None,
        });
        let look = Arc::new(Notify::new());
        let both = (accepted.clone(), Arc::clone(&look));
        let parts = NodeParts::new((health, hardware), both);
        assert_eq!(parts.accept().await.unwrap(), [], "nothing was looked at");
        look.notified().await;
        accepted.note(machine(&["mlx5_0", "mlx5_1"]));
        assert_eq!(accepted.note(machine(&["mlx5_0"])).len(), 1);
        // It is accepted only once the judge has forgotten the other one.
        for is_kept in [false, true] {
            let accepting = tokio::spawn({
                let parts = parts.clone();
                async move { parts.accept().await }
            });
            let Some(HealthRequest::PortsAccepted { ports, done }) = ends.requests.recv().await
            else {
                panic!("the judge is not told")
            };
            let names: Vec<String> = ports.iter().map(ToString::to_string).collect();
            assert_eq!(names, ["mlx5_0/1"]);
            if is_kept {
                done.send(()).unwrap();
            } else {
                drop(done);
            }
            assert_eq!(accepting.await.unwrap().is_ok(), is_kept);
        }
    }
}
