//! Who is a member and can be reached, for those who place there.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::{GroupId, HostInput, NodeId};
use muster_model::id;

use super::{GENERATION, GroupHost};
use crate::coordinator;

impl GroupHost {
    pub(super) fn see_others(
        &mut self,
        members: BTreeMap<NodeId, bool>,
        names: BTreeMap<id::NodeId, NodeId>,
        (cluster, voters): (GroupId, usize),
    ) {
        self.members = members;
        self.numbers.extend(names);
        self.members.insert(self.me, true);
        // Said of one that was left meanwhile, or that another has taken the place of.
        let is_meant = self.cluster == Some(cluster);
        self.cluster_voters = if is_meant { voters } else { 0 };
        self.end_former_clusters();
        self.avoid_unreachable();
        self.forget_left();
        self.allow_leases();
    }

    /// Once somebody votes in the group that holds the cluster state, those that did before it go on
    /// nowhere. Until then one of their copies may be all that is left.
    fn end_former_clusters(&mut self) {
        let Some(cluster) = self.cluster.filter(|_| self.cluster_voters > 0) else {
            return;
        };
        let is_former = |group: &GroupId| *group != cluster && self.before.contains(group);
        let former: Vec<_> = self.host.groups().filter(is_former).collect();
        for group in former {
            self.give(HostInput::Succeeded { group });
        }
    }

    /// Tells coordinators which nodes nothing may be placed on.
    pub(super) fn avoid_unreachable(&mut self) {
        let reachable = |number| self.members.get(number) == Some(&true);
        let known = self.numbers.iter();
        let gone = known.clone().filter(|(_, number)| !reachable(*number));
        let gone: BTreeSet<_> = gone.map(|(name, _)| name.clone()).collect();
        let there = known.filter(|(_, number)| reachable(*number));
        let recovered = self.vcs.iter();
        let recovered = recovered.filter(|(_, lead)| lead.generation() > GENERATION);
        let recovered: Vec<GroupId> = recovered.map(|(group, _)| *group).collect();
        // Of many machines this is long: only who waits for them is told.
        let there: BTreeSet<_> = match recovered.is_empty() {
            true => BTreeSet::new(),
            false => there.map(|(name, _)| name.clone()).collect(),
        };
        self.feed_all(&coordinator::CoordinatorInput::Unreachable(gone));
        for group in recovered {
            self.feed(
                group,
                coordinator::CoordinatorInput::Reachable(there.clone()),
            );
        }
    }

    /// Tells coordinators who is no member any more.
    pub(super) fn forget_left(&mut self) {
        let is_left = |number: &NodeId| !self.members.contains_key(number);
        let known = self.numbers.iter();
        let left = known.filter(|(_, number)| is_left(number));
        let left: BTreeSet<_> = left.map(|(name, _)| name.clone()).collect();
        self.feed_all(&coordinator::CoordinatorInput::Left(left));
    }

    /// Asks nodes for reports that the leader of a virtual cluster has not heard yet.
    pub(super) fn ask_around(&mut self) {
        let mut asked = Vec::new();
        for (group, lead) in &mut self.vcs {
            let nodes = lead.unheard(self.now.steady, &self.members);
            asked.extend(nodes.into_iter().map(|node| (*group, node)));
        }
        for (group, node) in asked {
            self.ask(group, node);
        }
    }
}
