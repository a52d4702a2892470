//! Pods that have ended: their leaves are given back when their node says that they are free.

use muster_model::id::NodeId;
use muster_placement::cells::CellEvent;
use muster_placement::gang::GangNumber as Number;

use super::foreign::ForeignGangs;
use super::layout::Layout;
use super::{Inventory, ReportedNodes};

/// A pod that has ended, whose devices its node may not have cleared yet.
#[derive(Clone, Debug)]
struct Draining {
    gang: Number,
    pod: u32,
    node: Option<NodeId>,
    devices: Vec<u32>,
}

impl Draining {
    /// Whether its node holds none of its devices, or somebody else's task has them by now. A sick
    /// device is never free, and in nobody's way.
    fn is_free(&self, nodes: &ReportedNodes, foreign: &ForeignGangs) -> bool {
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

/// The pods that have ended and have not left yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Drains(Vec<Draining>);

impl Drains {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a pod of the gang has not left yet.
    pub(super) fn has(&self, gang: Number) -> bool {
        self.0.iter().any(|pod| pod.gang == gang)
    }

    /// Whether this very pod has not left yet.
    pub(super) fn has_pod(&self, gang: Number, pod: usize) -> bool {
        let mut pods = self.0.iter().filter(|pod| pod.gang == gang);
        pods.any(|it| usize::try_from(it.pod) == Ok(pod))
    }

    /// These pods of a gang have ended.
    fn add(&mut self, layout: &Layout, gang: Number, pods: impl Iterator<Item = usize>) {
        let (Some(cells), Some((_, placement, _))) = (layout.cells(), layout.gang(gang)) else {
            return;
        };
        for pod in pods {
            let Some(leaves) = placement.pods.get(pod) else {
                continue;
            };
            let devices = leaves.iter().filter(|leaf| {
                let leaf_type = cells.leaf_type(**leaf);
                !layout.spec().is_plain(leaf_type)
            });
            self.0.push(Draining {
                gang,
                pod: u32::try_from(pod).unwrap_or(u32::MAX),
                node: leaves
                    .first()
                    .and_then(|leaf| cells.address(*leaf).0.parse().ok()),
                devices: devices.map(|leaf| cells.address(*leaf).1).collect(),
            });
        }
    }

    /// Those that have left by now.
    fn take_free(&mut self, nodes: &ReportedNodes, foreign: &ForeignGangs) -> Vec<Draining> {
        let all = std::mem::take(&mut self.0).into_iter();
        let (free, busy) = all.partition(|pod| pod.is_free(nodes, foreign));
        self.0 = busy;
        free
    }
}

impl Inventory {
    /// Lets pods go as soon as their devices are free by their nodes' own word.
    pub(super) fn drain(&mut self, gang: Number, pods: impl Iterator<Item = usize>) {
        self.drains.add(&self.layout, gang, pods);
    }

    /// Gives back what was waiting for its nodes to say that it is free.
    pub(in crate::coordinator) fn settle(&mut self, nodes: &ReportedNodes) {
        for Draining { gang, pod, .. } in self.drains.take_free(nodes, &self.foreign) {
            self.layout.note(CellEvent::PodReleased { gang, pod });
            self.leave(gang);
            self.foreign.look_again();
            self.layout.make_room();
        }
    }

    /// A gang that has ended is out of the cells once its last pod is, though the last one may
    /// have lost its leaves with its node's devices.
    pub(super) fn leave(&mut self, number: Number) {
        if !self.drains.has(number) && !self.known.contains_key(&number) {
            self.withdraw(number);
        }
    }
}
