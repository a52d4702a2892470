//! Nodes that an admin keeps free, and what becomes of gangs that are there.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::NodeId;
use muster_model::time::Time;

use super::launching::live_places;
use super::planning::Due;
use super::work::Work;
use super::{Coordinator, Output};
use crate::gang::GangId;
use crate::vc::attempt::Phase;
use crate::vc::{Current, VcState};

/// An admin's word on a node: nothing is placed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cordon {
    /// When gangs that are there have to go; none: they may stay till they end.
    pub drain_at: Option<Time>,
}

impl Coordinator {
    /// Takes the word on all nodes.
    pub(super) fn cordon(&mut self, cordons: BTreeMap<NodeId, Cordon>) {
        if self.cordons == cordons {
            return;
        }
        self.cordons = cordons;
        self.drain_at = self.drains().min();
        self.plan.due(Due::All);
    }

    fn drains(&self) -> impl Iterator<Item = Time> {
        self.cordons.values().filter_map(|cordon| cordon.drain_at)
    }

    /// Looks at the gangs on nodes that are to be empty by now. What is placed there later, by a
    /// plan from before, is looked at when it is steered.
    pub(super) fn drain(&mut self, state: &VcState, out: &mut Vec<Output>) {
        if self.drain_at.is_none_or(|at| at > self.wall) {
            return;
        }
        self.drain_at = self.drains().filter(|at| *at > self.wall).min();
        let leaving = state.live().filter(|current| self.must_leave(current));
        let leaving: Vec<GangId> = leaving.map(|current| current.run.gang).collect();
        for gang in leaving {
            self.steer(state, &gang, out);
        }
    }

    /// Ends a gang that is on a node which is to be empty: it waits for another turn, elsewhere.
    pub(super) fn leave(&mut self, current: &Current<'_>, out: &mut Vec<Output>) {
        if !self.must_leave(current) {
            return;
        }
        let gang = &current.run.gang;
        let work = self.work.entry(gang.clone());
        work.or_insert_with(|| Work::new(current.run.clone()));
        self.stop_run(&current.run, Cause::Drained, None, out);
    }

    fn must_leave(&self, current: &Current<'_>) -> bool {
        let is_placed = matches!(current.gang.phase, Phase::Placed { .. } | Phase::Going);
        is_placed
            && !self.cordons.is_empty()
            && live_places(current).any(|place| self.is_drained(&place.node))
    }

    fn is_drained(&self, node: &NodeId) -> bool {
        let cordon = self.cordons.get(node);
        let at = cordon.and_then(|cordon| cordon.drain_at);
        at.is_some_and(|at| at <= self.wall)
    }

    /// The nodes that nothing is placed on: by an admin's word, or by their own.
    pub(super) fn cordoned(&self) -> BTreeSet<NodeId> {
        let closed = self.nodes.closed().iter();
        self.cordons.keys().chain(closed).cloned().collect()
    }
}
