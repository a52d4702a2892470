//! Pods that have ended: their leaves are given back when their node says that they are free.

use muster_model::id::NodeId;
use muster_placement::cells::Event;
use muster_placement::gang::GangId as Number;

use super::{Foreign, Inventory, Nodes};

/// A pod that has ended, whose devices its node may not have cleared yet.
#[derive(Clone, Debug)]
pub(super) struct Draining {
    pub(super) gang: Number,
    pub(super) pod: u32,
    node: Option<NodeId>,
    devices: Vec<u32>,
}

impl Draining {
    /// Whether its node holds none of its devices, or somebody else's task has them by now. A sick
    /// device is never free, and in nobody's way.
    fn is_free(&self, nodes: &Nodes, foreign: &Foreign) -> bool {
        let known = self.node.as_ref().map(|id| (id, nodes.get(id)));
        let Some((id, Some(node))) = known else {
            return true;
        };
        self.devices.iter().all(|index| {
            let mut free = node.free.free.devices.iter();
            let mut known = node.capacity.devices.iter();
            let is_well = known.any(|d| d.index == *index && d.fault.is_none());
            free.any(|(free, _)| free == index) || !is_well || foreign.has(id, *index)
        })
    }
}

impl Inventory {
    /// Lets pods go as soon as their devices are free by their nodes' own word.
    pub(super) fn drain(&mut self, gang: Number, pods: impl Iterator<Item = usize>) {
        let Some(cells) = &self.cells else {
            return;
        };
        let Some((_, placement, _)) = cells.gang(gang) else {
            return;
        };
        for pod in pods {
            let Some(leaves) = placement.pods.get(pod) else {
                continue;
            };
            let devices = leaves.iter().filter(|leaf| {
                let leaf_type = cells.leaf_type(**leaf);
                !self.spec.is_plain(leaf_type)
            });
            self.draining.push(Draining {
                gang,
                pod: u32::try_from(pod).unwrap_or(u32::MAX),
                node: leaves
                    .first()
                    .and_then(|leaf| cells.address(*leaf).0.parse().ok()),
                devices: devices.map(|leaf| cells.address(*leaf).1).collect(),
            });
        }
    }

    /// Gives back what was waiting for its nodes to say that it is free.
    pub(in crate::coordinator) fn settle(&mut self, nodes: &Nodes) {
        let all = std::mem::take(&mut self.draining);
        let (free, busy) = all
            .into_iter()
            .partition(|pod: &Draining| pod.is_free(nodes, &self.foreign));
        self.draining = busy;
        for Draining { gang, pod, .. } in free {
            self.note(Event::PodReleased { gang, pod });
            self.leave(gang);
            self.look_for_others();
            self.is_roomier = true;
        }
    }

    /// A gang that has ended is out of the cells once its last pod is, though the last one may
    /// have lost its leaves with its node's devices.
    pub(super) fn leave(&mut self, number: Number) {
        let drains = self.draining.iter().any(|pod| pod.gang == number);
        if !drains && !self.known.contains_key(&number) {
            self.withdraw(number);
        }
    }
}
