//! The cluster state is held by another group from now on: what machines hear of it, and do.

use muster_consensus::GroupId;
use muster_control::cluster::{ClusterMap, Lineage};
use muster_control::groups;
use muster_gossip::record::{RecordKey, ReplacementBody};
use muster_model::id::NodeId;

use super::Cluster;

/// The number of the description's text, and the machines that are kept free.
pub(super) type Edits = (Option<usize>, Vec<NodeId>);

impl Cluster {
    /// Which groups have held the cluster state, as far as a machine has heard.
    pub(super) fn heard(&self, node: usize) -> Lineage {
        let core = self.mesh.core(node);
        let said = core.and_then(|core| core.record(RecordKey::Replacement));
        let said: Option<ReplacementBody> = said.and_then(|record| record.body().ok());
        Lineage::of_cluster(self.mesh.authority.cluster, said.as_ref())
    }

    /// The group that a machine asks.
    pub(super) fn cluster_service(&self, node: usize) -> GroupId {
        let process = self.machines[node].process.as_ref();
        let lineage = process.and_then(|it| it.core.lineage());
        lineage.map_or(self.group, |it| GroupId(it.group))
    }

    /// A machine says which group it is, for its copy is to be the first one there.
    pub(super) fn note_replacement(&mut self, said: &ReplacementBody) {
        let before = std::mem::replace(&mut self.group, GroupId(said.group));
        if before != self.group {
            self.account.recovered(before, self.group);
        }
    }

    /// Whether the newest group has been told what others know, and takes what it is asked.
    pub(super) fn has_succeeded(&self) -> bool {
        let leader = self.leader(self.group);
        let process = leader.and_then(|it| self.machines[it].process.as_ref());
        let machine = process.and_then(|it| it.core.groups().host().machine(self.group));
        let Some((process, groups::GroupState::Cluster(state))) = process.zip(machine) else {
            return false;
        };
        let known = state.cluster().map(|cluster| cluster.generation);
        known.is_some() && known == process.core.lineage().map(|it| it.generation)
    }

    /// What admins have said last, as far as machines that run have heard of it: the text of the description
    /// and the machines that are kept free.
    pub(super) fn told(&self) -> Edits {
        let processes = self.machines.iter().filter_map(|it| it.process.as_ref());
        let copies = processes.clone().filter_map(|it| {
            match it.core.groups().host().machine(self.group)? {
                groups::GroupState::Cluster(state) => state.cluster_map(),
                groups::GroupState::Vc(_) => None,
            }
        });
        let told = processes.filter_map(|it| it.core.cluster_map());
        let cluster_maps = told.map(|it| ClusterMap::clone(it)).chain(copies);
        self.edits(cluster_maps.max_by_key(|it| it.version))
    }

    /// What holds of that by the word of the group's leader.
    pub(super) fn in_force(&self) -> Edits {
        let leader = self.leader(self.group);
        let process = leader.and_then(|it| self.machines[it].process.as_ref());
        match process.and_then(|it| it.core.groups().host().machine(self.group)) {
            Some(groups::GroupState::Cluster(state)) => self.edits(state.cluster_map()),
            _ => Edits::default(),
        }
    }

    fn edits(&self, cluster_map: Option<ClusterMap>) -> Edits {
        let Some(cluster_map) = cluster_map else {
            return Edits::default();
        };
        let closed = cluster_map.closed.into_keys().collect();
        (self.text(cluster_map.description), closed)
    }
}
