//! Every node of the cluster, as the leader knows it.

use std::collections::BTreeSet;

use muster_model::id::NodeId;
use muster_model::known_node::{Has, KEPT_FREE, KnownNode};

use crate::coordinator::inventory::Layout;
use crate::coordinator::liveness::{Liveness, MUTE};
use crate::coordinator::nodes::{ReportedNode, ReportedNodes};

/// All that says which nodes there are, and which of them are placed on.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct NodeRoster<'a> {
    pub(in crate::coordinator) nodes: &'a ReportedNodes,
    pub(in crate::coordinator) liveness: &'a Liveness,
    pub(in crate::coordinator) layout: &'a Layout,
}

impl NodeRoster<'_> {
    /// All members, those among them that were not heard yet, and nodes that have left while tasks may be
    /// on them. `silence_ms`: for how long nothing was heard of a node.
    pub(in crate::coordinator) fn list(
        &self,
        members: BTreeSet<&NodeId>,
        silence_ms: impl Fn(&NodeId) -> u64,
    ) -> Vec<KnownNode> {
        let all: BTreeSet<&NodeId> = members.into_iter().chain(self.nodes.ids()).collect();
        let known = |id: &NodeId| {
            let node = self.nodes.get(id);
            let has = node.map(|node| Has::of(&node.capacity, &node.free.free, silence_ms(id)));
            KnownNode {
                id: id.clone(),
                has,
                closed: self.why_closed(id, node),
            }
        };
        all.into_iter().map(known).collect()
    }

    /// Why nothing is placed on a node.
    fn why_closed(&self, id: &NodeId, node: Option<&ReportedNode>) -> Vec<String> {
        let is_away = self.liveness.is_unreachable(id);
        let is_mute = !is_away && self.nodes.mute().contains(id);
        let description = self.layout.description();
        let is_described = description.is_some_and(|it| !it.cells.is_empty());
        let is_stranger = is_described && node.is_some() && !self.layout.has_node(id);
        let reasons = [
            (is_away, "it cannot be reached"),
            (is_mute, MUTE),
            (
                node.is_none(),
                "the leader of the virtual cluster has not heard yet what it has",
            ),
            (self.liveness.is_cordoned(id), KEPT_FREE),
            (
                is_stranger,
                "the description of the cluster does not name it: add it under physicalCells",
            ),
        ];
        let reasons = reasons.into_iter().filter(|(holds, _)| *holds);
        let own = node.and_then(|node| node.closed.clone());
        reasons.map(|(_, why)| why.to_owned()).chain(own).collect()
    }
}
