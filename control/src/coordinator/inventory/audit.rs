//! Whether the cells are as committed, checked from scratch. For tests.

use std::collections::BTreeSet;

use muster_model::id::NodeId;
use muster_placement::cells::{Cells, GangState};
use muster_placement::gang::{GangNumber as Number, Leaf, Placement};

use super::{Inventory, NumberedGang, ReportedNodes};
use crate::coordinator::nodes::ReportedNode;
use crate::gang::GangId;
use crate::vc::attempt::GangPhase;
use crate::vc::{Current, VcState};

impl Inventory {
    pub(in crate::coordinator) fn audit(
        &self,
        state: &VcState,
        is_reserving: impl Fn(&GangId) -> bool,
    ) -> Result<(), String> {
        let Some(cells) = self.layout.cells() else {
            return Ok(());
        };
        cells.audit()?;
        self.audit_numbers(state)?;
        for current in state.live() {
            self.audit_live(cells, &current)?;
        }
        let gangs = cells.gangs();
        for (gang, placement, is) in gangs.filter(|(gang, ..)| !self.is_foreign(gang.id)) {
            self.audit_held(gang.id, placement, is, &is_reserving)?;
        }
        Ok(())
    }

    /// What a node has is as the cells know it, or is known to be news.
    pub(in crate::coordinator) fn audit_news(&self, nodes: &ReportedNodes) -> Result<(), String> {
        let is_unseen =
            |(id, node): &(&NodeId, &ReportedNode)| self.layout.seen(id) != Some(&node.capacity);
        let mut unseen = nodes.iter().filter(is_unseen);
        match unseen.find(|(id, _)| !nodes.news().contains(*id)) {
            Some((id, _)) => Err(format!("the cells do not have {id} as it is")),
            None => Ok(()),
        }
    }

    pub(in crate::coordinator) fn is_pristine(&self) -> bool {
        self.known.is_empty()
            && self.relocating.is_empty()
            && self.numbers.is_empty()
            && self.drains.is_empty()
            && self.foreign.is_empty()
            && self.layout.cells().is_none_or(Cells::is_pristine)
    }

    /// Who has a number has not ended, and numbers and names are the same pairs.
    fn audit_numbers(&self, state: &VcState) -> Result<(), String> {
        let is_pair = |(number, known): (&Number, &NumberedGang)| {
            self.numbers.get(&known.run.gang) == Some(number)
        };
        if self.numbers.len() != self.known.len() || !self.known.iter().all(is_pair) {
            return Err("numbers and names of gangs differ".to_owned());
        }
        let is_over = |known: &&NumberedGang| {
            let current = state.current(&known.run.gang);
            current.is_none_or(|c| c.run != known.run || c.gang.phase == GangPhase::Ended)
        };
        match self.known.values().find(is_over) {
            Some(known) => Err(format!("{} is over and has a number", known.run)),
            None => Ok(()),
        }
    }

    /// What a live gang's tasks were given is theirs in the cells, as far as there is such a cell:
    /// the very device, or as many places for tasks without one.
    fn audit_live(&self, cells: &Cells, current: &Current<'_>) -> Result<(), String> {
        let mut held: BTreeSet<Leaf> = self
            .number(&current.run)
            .and_then(|number| cells.gang(number))
            .into_iter()
            .flat_map(|(_, placement, _)| placement.leaves())
            .collect();
        let number = self.number(&current.run);
        let has_left = |pod| number.is_some_and(|number| self.has_left(number, pod));
        let tasks = current.job.attempt.tasks_of(current.gang).enumerate();
        let tasks = tasks.filter(|(pod, _)| !has_left(*pod));
        for place in tasks.filter_map(|(_, task)| task.live()) {
            let node = place.node.as_str();
            let is_place = |leaf: &Leaf| self.layout.spec().is_plain(cells.leaf_type(*leaf));
            for address in &place.leaves {
                let Some(leaf) = cells.leaf(node, *address) else {
                    continue;
                };
                let stands_in = || {
                    let mut places = cells.leaves_on(node).filter(is_place);
                    places.find(|place| is_place(&leaf) && held.contains(place))
                };
                let its = held.contains(&leaf).then_some(leaf).or_else(stands_in);
                if !its.is_some_and(|its| held.remove(&its)) {
                    let run = &current.run;
                    return Err(format!(
                        "{run} runs on {address} of {node}, the cells deny it"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whoever holds or claims something in the cells has a reason to.
    fn audit_held(
        &self,
        number: Number,
        placement: &Placement,
        is: GangState,
        is_reserving: &impl Fn(&GangId) -> bool,
    ) -> Result<(), String> {
        if self.relocating.values().any(|members| *members == number) {
            return Ok(());
        }
        let drains = |pod: usize| self.drains.has_pod(number, pod);
        let known = self.known.get(&number);
        for (pod, leaves) in placement.pods.iter().enumerate() {
            let is_there = known.is_some_and(|known| match (is, known.is_live) {
                (GangState::Preempting, is_live) => !is_live,
                (GangState::Allocated { .. }, false) => is_reserving(&known.run.gang),
                (GangState::Allocated { .. }, true) => !known.gone.contains(&pod),
            });
            if !leaves.is_empty() && !is_there && !drains(pod) {
                let run = known.map(|known| known.run.to_string());
                return Err(format!(
                    "pod {pod} of {number} ({run:?}) holds leaves for nothing"
                ));
            }
        }
        let is_empty = placement.leaves().next().is_none();
        match is_empty && known.is_none() && !self.drains.has(number) {
            true => Err(format!("{number} is in the cells and nobody knows it")),
            false => Ok(()),
        }
    }
}
