//! What a leader places on: the cells, made from what nodes report, and which gang is which there.
//!
//! Everything in it can be made again from the committed state and fresh reports: a new leader
//! adopts what runs where it runs.

mod accounting;
mod adopt;
mod audit;
mod demand;
mod drains;
mod foreign;
mod judge;
mod layout;
mod relocation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{JobKey, TaskId, VcName};
use muster_placement::cells::Cells;
use muster_placement::gang::{Gang, GangNumber as Number};

use super::nodes::ReportedNodes;
use crate::gang::{GangId, GangRun, JobId};
use crate::vc::{Current, VcState};

use demand::Asking;
pub(super) use demand::Terms;
use drains::Drains;
use foreign::ForeignGangs;
pub use judge::UnplaceableJob;
pub(super) use judge::judge;
pub(super) use layout::{Layout, resolved};

/// The cells and who is in them.
#[derive(Clone, Debug, Default)]
pub(super) struct Inventory {
    layout: Layout,
    known: BTreeMap<Number, NumberedGang>,
    numbers: BTreeMap<GangId, Number>,
    /// Members of gangs that other places are looked for, by the numbers that they have meanwhile.
    relocating: BTreeMap<GangId, Number>,
    /// Gangs of other virtual clusters.
    foreign: ForeignGangs,
    drains: Drains,
    given: GivenNumbers,
}

/// The numbers that were given so far.
#[derive(Clone, Copy, Debug, Default)]
struct GivenNumbers(u64);

impl GivenNumbers {
    /// A number that nobody had.
    const fn next(&mut self) -> Number {
        self.0 += 1;
        Number(self.0)
    }
}

/// A gang that has a number.
#[derive(Clone, Debug)]
pub(super) struct NumberedGang {
    pub(super) run: GangRun,
    /// Its tasks in the order of its pods.
    tasks: Vec<TaskId>,
    /// Pods that were given back: of tasks that have ended, or that other places are looked for.
    gone: BTreeSet<usize>,
    /// Its placement was committed: its nodes may hold something.
    is_live: bool,
}

impl Inventory {
    /// Forgets everything but the description and what nodes told, as a new leader must.
    pub(super) fn clear(&mut self) {
        self.layout.clear();
        *self = Self {
            layout: std::mem::take(&mut self.layout),
            foreign: self.foreign.unplaced(),
            ..Self::default()
        };
    }

    /// The cells, and what they were made from.
    pub(super) const fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) const fn layout_mut(&mut self) -> &mut Layout {
        &mut self.layout
    }

    pub(super) fn cells(&self) -> Option<&Cells> {
        self.layout.cells()
    }

    /// Brings the cells up to what nodes report, and to how the cluster is described. Whether they were
    /// made anew.
    pub(super) fn update(
        &mut self,
        nodes: &mut ReportedNodes,
        state: &VcState,
        terms: &Terms,
    ) -> bool {
        let is_shaped = self.layout.update(nodes) == Some(true);
        if is_shaped {
            self.adopt(state, terms);
        }
        is_shaped
    }

    /// Whether a gang in this very run holds or claims cells.
    pub(super) fn holds(&self, run: &GangRun) -> bool {
        self.number(run)
            .is_some_and(|number| self.layout.has(number))
    }

    /// The numbers that gangs have.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Number> {
        self.known.keys().copied()
    }

    /// Who a number stands for.
    pub(super) fn known(&self, number: Number) -> Option<&NumberedGang> {
        self.known.get(&number)
    }

    /// The job that a number stands for.
    pub(super) fn job_of<'a>(
        &'a self,
        state: &'a VcState,
        number: Number,
    ) -> Option<(&'a VcName, &'a JobKey)> {
        let Some(known) = self.known(number) else {
            return self.foreign_job(number);
        };
        let accepted = &state.current(&known.run.gang)?.job.accepted;
        Some((&accepted.spec.vc, &accepted.key))
    }

    /// The number of a gang in this very run.
    pub(super) fn number(&self, run: &GangRun) -> Option<Number> {
        let number = *self.numbers.get(&run.gang)?;
        let known = self.known.get(&number)?;
        (known.run == *run).then_some(number)
    }

    /// The gangs of a job that have a number.
    pub(super) fn gangs_of(&self, job: JobId) -> impl Iterator<Item = &GangId> {
        let first = GangId { job, task: None };
        let gangs = self.numbers.range(first..).map(|(gang, _)| gang);
        gangs.take_while(move |gang| gang.job == job)
    }

    /// The gang as placement knows it, under a number that stays while it is in this run.
    ///
    /// # Errors
    /// Why it can be placed nowhere, as the end of a sentence.
    pub(super) fn demand(&mut self, current: &Current<'_>, terms: &Terms) -> Result<Gang, String> {
        let number = match self.number(&current.run) {
            Some(number) => number,
            None => self.enlist(current),
        };
        self.gang(current, number, terms)
    }

    /// The gang under the number that it has, if it has one.
    pub(super) fn demand_of(&self, current: &Current<'_>, terms: &Terms) -> Option<Gang> {
        let number = self.number(&current.run)?;
        self.gang(current, number, terms).ok()
    }

    fn gang(&self, current: &Current<'_>, number: Number, terms: &Terms) -> Result<Gang, String> {
        let tasks = current.job.attempt.tasks_of(current.gang);
        let asking = Asking {
            job: &current.job.accepted.spec,
            user: &current.job.accepted.key.user,
            tasks: &tasks.map(|task| &task.id).collect::<Vec<_>>(),
            since: terms.now,
        };
        demand::gang(self.layout.spec(), &asking, number, terms)
    }
}
