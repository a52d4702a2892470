//! Which nodes may be placed on, as far as others say: the mesh, which reaches them or does not, and admins,
//! who keep some of them free. What a node says of itself is in [`ReportedNodes`].

mod cordons;
mod losses;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::NodeId;
use muster_model::time::Time;

use super::nodes::ReportedNodes;
use super::places::live_places;
use crate::vc::Current;
use crate::vc::attempt::GangPhase;

pub use cordons::Cordon;
use cordons::Cordons;
use losses::Losses;

/// What is said of a node that others hear, for people.
pub(super) const MUTE: &str =
    "the leader of the virtual cluster hears nothing of it, though others do";

/// What the mesh and admins say of nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Liveness {
    /// Nodes that cannot be reached, by the word of the mesh.
    unreachable: BTreeSet<NodeId>,
    /// Those of them that are no members any more.
    left: BTreeSet<NodeId>,
    /// Since when, and how fast gangs may be started anew without them.
    losses: Losses,
    /// Nodes that can be reached, as far as was said.
    reachable: BTreeSet<NodeId>,
    cordons: Cordons,
    /// Whether runs may hold by leases.
    leases: bool,
}

impl Liveness {
    /// These nodes cannot be reached, all others can. Those that could not before, if that is news.
    pub(super) fn set_unreachable(
        &mut self,
        now: Time,
        unreachable: BTreeSet<NodeId>,
    ) -> Option<BTreeSet<NodeId>> {
        if self.unreachable == unreachable {
            return None;
        }
        self.losses.seen(now, &unreachable);
        debug_assert!(
            self.losses.nodes().eq(&unreachable),
            "what is lost is what cannot be reached"
        );
        Some(std::mem::replace(&mut self.unreachable, unreachable))
    }

    /// These nodes are no members any more, all others are.
    pub(super) fn set_left(&mut self, left: BTreeSet<NodeId>) {
        self.left = left;
    }

    /// The members that cannot be reached, by the word of the mesh.
    pub(super) fn away_members(&self) -> impl Iterator<Item = &NodeId> {
        self.unreachable.difference(&self.left)
    }

    /// These nodes can be reached.
    pub(super) fn set_reachable(&mut self, reachable: BTreeSet<NodeId>) {
        self.reachable = reachable;
    }

    /// Whether runs may hold by leases from now on. Whether that is news.
    pub(super) const fn set_leases(&mut self, leases: bool) -> bool {
        std::mem::replace(&mut self.leases, leases) != leases
    }

    pub(super) const fn allows_leases(&self) -> bool {
        self.leases
    }

    /// The nodes that cannot be reached, by the word of the mesh.
    pub(super) const fn unreachable(&self) -> &BTreeSet<NodeId> {
        &self.unreachable
    }

    pub(super) fn is_unreachable(&self, node: &NodeId) -> bool {
        self.unreachable.contains(node)
    }

    /// The nodes that cannot be reached, by the word of the mesh, or by what this leader hears itself.
    pub(super) fn cut_off(&self, nodes: &ReportedNodes) -> BTreeSet<NodeId> {
        self.unreachable.union(nodes.mute()).cloned().collect()
    }

    /// The nodes that others hear, and this leader does not.
    pub(super) fn mute<'a>(&'a self, nodes: &'a ReportedNodes) -> impl Iterator<Item = &'a NodeId> {
        nodes.mute().difference(&self.unreachable)
    }

    /// Whether a node that can be reached may run what nobody knows any more. It may also as long as
    /// nobody has said which can be.
    pub(super) fn has_strays(&self, nodes: &ReportedNodes) -> bool {
        let is_open = |node| nodes.get(node).is_none_or(|known| known.is_unsettled);
        self.reachable.is_empty() || self.reachable.iter().any(is_open)
    }

    /// When it was first heard that a node cannot be reached, if it cannot.
    pub(super) fn lost_since(&self, node: &NodeId) -> Option<Time> {
        self.losses.since(node)
    }

    /// Until when gangs are started anew one after the other only, after many nodes were lost at once. Those
    /// that are no members any more were not lost.
    pub(super) fn limited_until(&self, now: Time, nodes: &ReportedNodes) -> Option<Time> {
        let known: BTreeSet<&NodeId> = nodes.ids().chain(self.losses.nodes()).collect();
        let members = known.difference(&self.left.iter().collect()).count();
        self.losses.limited_until(now, members, &self.left)
    }

    /// Whether a gang may be started anew now that restarts are limited.
    pub(super) fn take_turn(&mut self, now: Time) -> bool {
        self.losses.take_turn(now)
    }

    /// When the next gang may be.
    pub(super) const fn next_turn(&self) -> Time {
        self.losses.next_turn()
    }

    /// That many nodes were lost at once, as a sentence for people.
    pub(super) fn mass_failure(&self, now: Time, nodes: &ReportedNodes) -> Option<String> {
        let until = self.limited_until(now, nodes)?;
        let minutes = until.micros_since(now).div_ceil(60_000_000);
        let count = self.away_members().count();
        Some(format!(
            "{count} machines cannot be reached, many of which were lost at once: for {minutes} more \
             minutes their jobs start anew one after the other only; `muster cluster off` does it at \
             once for a machine that is off"
        ))
    }

    /// Takes the admins' word on all nodes. Whether that is news.
    pub(super) fn cordon(&mut self, cordons: BTreeMap<NodeId, Cordon>) -> bool {
        self.cordons.set(cordons)
    }

    pub(super) fn is_cordoned(&self, node: &NodeId) -> bool {
        self.cordons.contains(node)
    }

    /// The nodes that nothing is placed on: by an admin's word, or by their own.
    pub(super) fn closed(&self, nodes: &ReportedNodes) -> BTreeSet<NodeId> {
        let closed = nodes.closed().iter();
        self.cordons.nodes().chain(closed).cloned().collect()
    }

    /// When gangs have to leave a node that they may still be on, by the time of day.
    pub(super) const fn next_drain(&self) -> Option<Time> {
        self.cordons.next_drain()
    }

    /// Whether a node is to be empty by now that was not when this was last asked.
    pub(super) fn take_drain(&mut self, wall: Time) -> bool {
        self.cordons.take_drain(wall)
    }

    /// Whether a gang is on a node that is to be empty by now.
    pub(super) fn must_leave(&self, current: &Current<'_>, wall: Time) -> bool {
        let is_placed = matches!(
            current.gang.phase,
            GangPhase::Placed { .. } | GangPhase::Going
        );
        let is_drained = |node| self.cordons.is_drained(node, wall);
        is_placed
            && !self.cordons.is_empty()
            && live_places(current).any(|place| is_drained(&place.node))
    }
}
