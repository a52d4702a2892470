//! Which members have reported to the leader of a virtual cluster in its term.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::NodeId;

/// Members, and whom the leader has heard. Nothing is counted before somebody asks: a leader is looked at
/// far more often than this matters.
#[derive(Clone, Copy, Debug)]
pub struct Reports<'a> {
    /// All members, and which of them can be reached.
    pub(super) members: &'a BTreeMap<NodeId, bool>,
    /// Those that have reported.
    pub(super) heard: &'a BTreeSet<NodeId>,
}

impl Reports<'_> {
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

    #[test]
    fn a_report_is_missing_of_whom_can_be_reached_and_was_not_heard() {
        let members = [(NodeId(1), true), (NodeId(2), true), (NodeId(3), false)].into();
        let missing = |heard: &BTreeSet<NodeId>| {
            let members = &members;
            Reports { members, heard }.missing()
        };
        assert_eq!(missing(&[].into()), 2);
        assert_eq!(missing(&[NodeId(2)].into()), 1);
        assert_eq!(missing(&[NodeId(1), NodeId(2)].into()), 0);
        let heard = &[NodeId(1)].into();
        let members = &members;
        assert_eq!(Reports { members, heard }.unheard(), 2);
    }
}
