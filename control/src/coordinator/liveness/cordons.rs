//! Nodes that admins keep free.

use std::collections::BTreeMap;

use muster_model::id::NodeId;
use muster_model::time::Time;

/// An admin's word on a node: nothing is placed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cordon {
    /// When gangs that are there have to go; none: they may stay till they end.
    pub drain_at: Option<Time>,
}

/// The nodes that are kept free, and when gangs have to leave them. All times are times of day.
#[derive(Clone, Debug, Default)]
pub(super) struct Cordons {
    known: BTreeMap<NodeId, Cordon>,
    /// When gangs have to leave a node that they may still be on.
    drain_at: Option<Time>,
}

impl Cordons {
    /// These nodes are kept free, no others. Whether that is news.
    pub(super) fn set(&mut self, cordons: BTreeMap<NodeId, Cordon>) -> bool {
        if self.known == cordons {
            return false;
        }
        self.known = cordons;
        self.drain_at = self.drains().min();
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn contains(&self, node: &NodeId) -> bool {
        self.known.contains_key(node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.known.keys()
    }

    /// When gangs have to leave a node that they may still be on.
    pub(super) const fn next_drain(&self) -> Option<Time> {
        self.drain_at
    }

    /// Whether the time of the next drain has come; the one after it is waited for then.
    pub(super) fn take_drain(&mut self, wall: Time) -> bool {
        if self.drain_at.is_none_or(|at| at > wall) {
            return false;
        }
        self.drain_at = self.drains().filter(|at| *at > wall).min();
        true
    }

    /// Whether a node is to be empty by now.
    pub(super) fn is_drained(&self, node: &NodeId, wall: Time) -> bool {
        let cordon = self.known.get(node);
        let at = cordon.and_then(|cordon| cordon.drain_at);
        at.is_some_and(|at| at <= wall)
    }

    fn drains(&self) -> impl Iterator<Item = Time> {
        self.known.values().filter_map(|cordon| cordon.drain_at)
    }
}
