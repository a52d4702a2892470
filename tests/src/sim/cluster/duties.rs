//! What an agent's loops give the core of a member now and then: the cluster map, and how the mesh sees the
//! members.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_consensus::GroupId;
use muster_control::cluster::{ClusterMap, VcCreation};
use muster_control::groups::{self, VcGroup};
use muster_control::member::{MemberInput, MembersSeen};
use muster_control::request::cluster::GetClusterMap;
use muster_control::request::vc::GetTerm;
use muster_gossip::mesh::Mesh;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::asking::{Purpose, Question};
use super::machine::MachineDue;
use super::{Cluster, Out};
use crate::sim::protocol::ProtocolEvent;

/// Between two rounds of duties, ms.
const PAUSE_MS: u64 = 500;
/// The cluster map is asked for so long, ms.
const BRIEF_MS: u64 = 2_000;
/// The term of a virtual cluster, ms.
const TERM_MS: u64 = 10_000;

impl Cluster {
    pub(super) fn duties(&mut self, now: Time, node: usize, out: &mut Out) {
        self.see_news(now, node, out);
        self.take_turns(now, node, out);
        self.brief(now, node, out);
        self.machines[node].later(now.plus_millis(PAUSE_MS), MachineDue::Duties);
    }

    /// What the leader of the cluster has to do, if it is this one.
    fn take_turns(&mut self, now: Time, node: usize, out: &mut Out) {
        if let Some(process) = &mut self.machines[node].process {
            process.tasks.take_turns(&process.cluster_service);
        }
        self.poll((now, node), out);
    }

    pub(super) fn brief(&mut self, now: Time, node: usize, out: &mut Out) {
        let question = self.to_cluster(node, GetClusterMap);
        self.ask((now, node), (question, Purpose::Brief), BRIEF_MS, out);
    }

    /// The leader of the `cluster` group has answered, or not.
    pub(super) fn follow_map(
        &mut self,
        now: Time,
        node: usize,
        cluster_map: Option<ClusterMap>,
        out: &mut Out,
    ) {
        let Some(cluster_map) = cluster_map else {
            return;
        };
        let known = self.machines[node].process.as_ref();
        let known = known.and_then(|it| it.core.cluster_map());
        if known.is_some_and(|known| known.version >= cluster_map.version) {
            return;
        }
        self.machines[node].kept = Some(cluster_map.clone());
        self.go_by(now, node, cluster_map, out);
    }

    /// A machine goes by this cluster map from now on.
    pub(super) fn go_by(&mut self, now: Time, node: usize, cluster_map: ClusterMap, out: &mut Out) {
        let Some(process) = &self.machines[node].process else {
            return;
        };
        let before = process.core.cluster_map();
        let before = before.map_or_else(BTreeMap::new, |it| groups_of(&it.vcs));
        let vcs = groups_of(&cluster_map.vcs);
        let version = cluster_map.description;
        self.take(
            now,
            node,
            MemberInput::ClusterMap(Arc::new(cluster_map)),
            out,
        );
        let spec = self.descriptions.get(&version);
        let described = spec.map(|spec| (version, spec.clone()));
        self.keep(now, node, groups::GroupHostInput::Described(described), out);
        for (vc, group) in &vcs {
            if before.get(vc) != Some(group) {
                self.learn(now, node, group.id, out);
            }
        }
    }

    /// The term of a virtual cluster is asked for: before it is known the ledger admits no order.
    pub(super) fn learn(&mut self, now: Time, node: usize, group: GroupId, out: &mut Out) {
        let Some(vc) = self.account.vcs.get(&group).cloned() else {
            return;
        };
        let question = Question::vc(group, GetTerm);
        let purpose = Purpose::Learn(group, vc);
        self.ask((now, node), (question, purpose), TERM_MS, out);
    }

    /// The group of a virtual cluster, as far as a machine was told.
    pub(super) fn group_of(&self, node: usize, vc: &VcName) -> Option<GroupId> {
        let process = self.machines[node].process.as_ref()?;
        let creations = &process.core.cluster_map()?.vcs;
        let creation = creations.iter().find(|creation| creation.vc == *vc)?;
        Some(GroupId(creation.group))
    }

    /// Tells the core at once that a member can be reached now or not, as the agent does.
    pub(super) fn see_others(&mut self, now: Time, node: usize, out: &mut Out) {
        let reach = |seen: &ProtocolEvent| matches!(seen, ProtocolEvent::Reach { .. });
        if out.seen.iter().any(reach) {
            self.see(now, node, out);
        }
    }

    /// How many voters of the cluster's group the core of a member knows of.
    pub(super) fn voters_heard(&self, node: usize) -> usize {
        let process = self.machines[node].process.as_ref();
        let seen = process.and_then(|it| it.core.seen());
        seen.map_or(0, |seen| seen.voters(self.group).len())
    }

    /// Tells the core what else the mesh has heard.
    fn see_news(&mut self, now: Time, node: usize, out: &mut Out) {
        let root = self.mesh.core(node).map(Mesh::root);
        let process = self.machines[node].process.as_ref();
        if root.is_some() && process.is_some_and(|it| it.seen != root) {
            self.see(now, node, out);
        }
    }

    /// Tells the core how the mesh sees the members.
    pub(super) fn see(&mut self, now: Time, node: usize, out: &mut Out) {
        let Some(mesh) = self.mesh.core(node) else {
            return;
        };
        let seen = MembersSeen::of(mesh, self.mesh.authority.cluster);
        let root = mesh.root();
        if let Some(process) = &mut self.machines[node].process {
            process.seen = Some(root);
        }
        self.take(now, node, MemberInput::Seen(Box::new(seen)), out);
    }
}

fn groups_of(creations: &[VcCreation]) -> BTreeMap<VcName, VcGroup> {
    let group = |creation: &VcCreation| (creation.vc.clone(), VcGroup::of(creation));
    creations.iter().map(group).collect()
}
