//! Which members have reported to the leader of a virtual cluster in its term.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::NodeId;
use muster_model::id;

/// Members, and whom the leader has heard. Nothing is counted before somebody asks: a leader is looked at
/// far more often than this matters.
#[derive(Clone, Copy, Debug)]
pub struct Reports<'a> {
    /// All members, and which of them can be reached.
    pub(super) members: &'a BTreeMap<NodeId, bool>,
    /// The numbers of members, and of others, by their names.
    pub(super) numbers: &'a BTreeMap<id::NodeId, NodeId>,
    /// Those that have reported.
    pub(super) heard: &'a BTreeSet<NodeId>,
}

impl<'a> Reports<'a> {
    /// The names of all members.
    pub fn members(&self) -> BTreeSet<&'a id::NodeId> {
        let numbers = self.numbers.iter();
        let members = numbers.filter(|(_, number)| self.members.contains_key(number));
        members.map(|(name, _)| name).collect()
    }

    /// How many members can be reached and have not reported yet.
    pub fn missing(&self) -> usize {
        let reachable = self.members.iter().filter(|(_, reachable)| **reachable);
        reachable.filter(|(id, _)| !self.heard.contains(id)).count()
    }

    /// How many members have not reported yet, whether they can be reached or not.
    pub fn unheard(&self) -> usize {
        let members = self.members.keys();
        members.filter(|id| !self.heard.contains(id)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports<'a>(
        members: &'a BTreeMap<NodeId, bool>,
        heard: &'a BTreeSet<NodeId>,
    ) -> Reports<'a> {
        static NO_NAMES: BTreeMap<id::NodeId, NodeId> = BTreeMap::new();
        Reports {
            members,
            numbers: &NO_NAMES,
            heard,
        }
    }

    #[test]
    fn a_report_is_missing_of_whom_can_be_reached_and_was_not_heard() {
        let members = [(NodeId(1), true), (NodeId(2), true), (NodeId(3), false)].into();
        let missing = |heard: &BTreeSet<NodeId>| reports(&members, heard).missing();
        assert_eq!(missing(&[].into()), 2);
        assert_eq!(missing(&[NodeId(2)].into()), 1);
        assert_eq!(missing(&[NodeId(1), NodeId(2)].into()), 0);
        assert_eq!(reports(&members, &[NodeId(1)].into()).unheard(), 2);
    }

    #[test]
    fn one_that_has_left_is_no_member_though_its_name_is_known() {
        let members = [(NodeId(1), true), (NodeId(2), false)].into();
        let names = ["n1", "n2", "n3"].map(|name| name.parse().unwrap());
        let numbers = names.into_iter().zip((1..).map(NodeId)).collect();
        let nobody = BTreeSet::new();
        let known = Reports {
            numbers: &numbers,
            ..reports(&members, &nobody)
        };
        let members: Vec<&str> = known.members().into_iter().map(|id| id.as_str()).collect();
        assert_eq!(members, ["n1", "n2"]);
    }
}
