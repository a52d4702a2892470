//! Run leases at their leaders: whom they heard, and what becomes of tasks on silent nodes.

use muster_consensus::GroupId;
use muster_model::id;
use muster_model::time::Time;

use super::{GroupEvent, GroupHost, GroupHostOutput, GroupState};
use crate::coordinator;
use crate::lease::{Hearing, SilenceQuestion};
use crate::vc::VcApplied;

/// Leases are given where so many voters can renew them: where a loss ends no group.
const VOTERS_MIN: usize = 3;

/// Whether a virtual cluster with so many voters gives leases, where the `cluster` group has so many.
const fn are_leases_given(own: usize, cluster: usize) -> bool {
    own >= VOTERS_MIN && cluster >= VOTERS_MIN
}

impl GroupHost {
    /// A node asks the leader of a group for renewal. Noted before it is known whether this node
    /// leads still: that can only make silence shorter.
    pub(super) fn heard(&mut self, group: GroupId, node: &id::NodeId) {
        let now = self.now.steady;
        if let Some(lead) = self.vcs.get_mut(&group) {
            lead.heard(now, node);
        }
        if let Some(hearing) = self.hearing.get_mut(&group) {
            hearing.heard(now, node);
        }
    }

    /// Who was heard by this node as the leader of a group.
    pub(super) fn hearing_of(&self, group: GroupId) -> Option<(&Hearing, Time)> {
        let hearing = match self.hearing.get(&group) {
            Some(hearing) => hearing,
            None => self.vcs.get(&group)?.hearing()?,
        };
        Some((hearing, self.now.steady))
    }

    /// The leader of a virtual cluster that has just begun its term knows by now whose tasks are
    /// on which nodes.
    pub(super) fn begin_watch(&mut self, group: GroupId, applied: &VcApplied) {
        let now = self.now.steady;
        let Self { vcs, host, .. } = self;
        if let (Some(lead), Some(GroupState::Vc(state)), VcApplied::Term(term)) =
            (vcs.get_mut(&group), host.machine(group), applied)
            && lead.term() == Some(*term)
        {
            lead.begin_watch(now, state);
        }
    }

    /// Asks the leader of the `cluster` group about nodes that have been silent for too long.
    pub(super) fn watch_nodes(&mut self) {
        let now = self.now.steady;
        let Self { vcs, host, out, .. } = self;
        for (group, lead) in vcs {
            if let Some(GroupState::Vc(state)) = host.machine(*group)
                && lead.is_ask_due(now)
            {
                for question in lead.questions(now, state) {
                    let silent = GroupEvent::NodeSilent(question.node.clone());
                    out.push(GroupHostOutput::Event(silent));
                    let group = *group;
                    out.push(GroupHostOutput::Question { group, question });
                }
            }
        }
    }

    /// The other leader's answer.
    pub(super) fn silence(
        &mut self,
        group: GroupId,
        question: SilenceQuestion,
        silent: Option<bool>,
    ) {
        let now = self.now.steady;
        let lead = self.vcs.get_mut(&group);
        if lead.is_some_and(|lead| lead.is_lost(now, &question, silent)) {
            let SilenceQuestion { node, for_ms, .. } = question;
            self.out
                .push(GroupHostOutput::Event(GroupEvent::LeasesOver(node.clone())));
            self.feed(
                group,
                coordinator::CoordinatorInput::Silent { node, for_ms },
            );
        }
    }

    /// Tells coordinators whether runs may hold by leases.
    pub(super) fn allow_leases(&mut self) {
        let groups: Vec<_> = self.vcs.keys().copied().collect();
        for group in groups {
            let voters = self.host.view(group).map(|view| view.voters);
            let own = voters.map_or(0, |voters| voters.len());
            let leases = are_leases_given(own, self.cluster_voters);
            self.feed(group, coordinator::CoordinatorInput::Leases(leases));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_given_where_both_groups_bear_a_loss() {
        for (own, cluster, given) in [
            (1, 1, false),
            (2, 2, false),
            (2, 3, false),
            (3, 2, false),
            (3, 0, false),
            (3, 3, true),
            (5, 3, true),
        ] {
            assert_eq!(are_leases_given(own, cluster), given, "{own} and {cluster}");
        }
    }
}
