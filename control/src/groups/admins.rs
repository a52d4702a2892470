//! What admins say of nodes and of the cluster, for those who place there.

use muster_consensus::GroupId;
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id;

use super::{GroupError, GroupHost, Lead};
use crate::coordinator;

impl GroupHost {
    /// Tells coordinators which nodes are kept free.
    pub(super) fn keep_free(&mut self) {
        self.feed_all(&coordinator::CoordinatorInput::Cordoned(
            self.cordons.clone(),
        ));
    }

    /// Tells coordinators in which racks nodes stand.
    pub(super) fn stand(&mut self) {
        self.feed_all(&coordinator::CoordinatorInput::Racks(self.racks.clone()));
    }

    /// Tells coordinators how the cluster is described.
    pub(super) fn describe(&mut self) {
        let known = self.description.as_ref();
        let spec = known.map(|(_, spec)| Box::new(ClusterSpec::clone(spec)));
        self.feed_all(&coordinator::CoordinatorInput::Described(spec));
    }

    /// Tells coordinators what they go by, where that is known.
    pub(super) fn set_policy(&mut self) {
        if let Some(policy) = self.policy.clone() {
            self.feed_all(&coordinator::CoordinatorInput::Policy(policy));
        }
    }

    /// Gives up the tasks on a node that is said to be off, unless it can be reached from here.
    pub(super) fn say_off(&mut self, group: GroupId, node: id::NodeId) -> Result<(), GroupError> {
        let leads = self.vcs.get(&group).and_then(Lead::term).is_some();
        if !leads {
            let view = self.host.view(group);
            let leader = view.and_then(|view| view.leader);
            return Err(leader.map_or(GroupError::NoLeader, GroupError::Elsewhere));
        }
        let number = self.numbers.get(&node);
        if number.is_some_and(|number| self.members.get(number) == Some(&true)) {
            return Err(GroupError::On(node));
        }
        self.feed(group, coordinator::CoordinatorInput::Off(node));
        Ok(())
    }
}
