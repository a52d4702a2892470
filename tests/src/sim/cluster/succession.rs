//! The cluster's affairs are settled by another group from now on: what machines hear of it, and do.

use muster_consensus::GroupId;
use muster_control::cluster::{Briefing, Lineage};
use muster_control::groups;
use muster_gossip::record::{RecordKey, SuccessionBody};
use muster_model::id::NodeId;

use super::Cluster;

/// The number of the description's text, and the machines that are kept free.
pub(super) type Edits = (Option<usize>, Vec<NodeId>);

impl Cluster {
    /// Which groups have settled the cluster's affairs, as far as a machine has heard.
    pub(super) fn heard(&self, node: usize) -> Lineage {
        let core = self.mesh.core(node);
        let said = core.and_then(|core| core.record(RecordKey::Succession));
        let said: Option<SuccessionBody> = said.and_then(|record| record.body().ok());
        Lineage::of_cluster(self.mesh.authority.cluster, said.as_ref())
    }

    /// The group that a machine asks.
    pub(super) fn affairs(&self, node: usize) -> GroupId {
        let process = self.machines[node].process.as_ref();
        let lineage = process.and_then(|it| it.core.lineage());
        lineage.map_or(self.group, |it| GroupId(it.group))
    }

    /// A machine says which group it is, for its copy is to be the first one there.
    pub(super) fn note_succession(&mut self, said: &SuccessionBody) {
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
        let Some((process, groups::Machine::Cluster(state))) = process.zip(machine) else {
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
                groups::Machine::Cluster(state) => state.briefing(),
                groups::Machine::Vc(_) => None,
            }
        });
        let told = processes.filter_map(|it| it.core.briefing());
        let briefings = told.map(|it| Briefing::clone(it)).chain(copies);
        self.edits(briefings.max_by_key(|it| it.version))
    }

    /// What holds of that by the word of the group's leader.
    pub(super) fn in_force(&self) -> Edits {
        let leader = self.leader(self.group);
        let process = leader.and_then(|it| self.machines[it].process.as_ref());
        match process.and_then(|it| it.core.groups().host().machine(self.group)) {
            Some(groups::Machine::Cluster(state)) => self.edits(state.briefing()),
            _ => Edits::default(),
        }
    }

    fn edits(&self, briefing: Option<Briefing>) -> Edits {
        let Some(briefing) = briefing else {
            return Edits::default();
        };
        let closed = briefing.closed.into_keys().collect();
        (self.text(briefing.description), closed)
    }
}
