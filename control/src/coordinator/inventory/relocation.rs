//! Other places for members of a gang that is placed and cannot start where it is.

use std::collections::BTreeSet;

use muster_model::id::TaskId;
use muster_placement::cells::CellEvent;
use muster_placement::gang::{Gang, GangNumber as Number};

use super::demand::{self, Asking};
use super::{Inventory, Terms};
use crate::gang::GangId;
use crate::vc::Current;

impl Inventory {
    /// Takes these members out of the cells: they are to be somewhere else. All others stay, or are there
    /// again.
    pub(in crate::coordinator) fn vacate(
        &mut self,
        current: &Current<'_>,
        pods: &BTreeSet<usize>,
        terms: &Terms,
    ) {
        let Some(number) = self.number(&current.run) else {
            return;
        };
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        let gone = &left(current) | pods;
        let before = std::mem::replace(&mut known.gone, gone.clone());
        if !before.is_subset(&gone) {
            self.adopt_one(current, terms);
        }
        for pod in gone.difference(&before) {
            let pod = u32::try_from(*pod).unwrap_or(u32::MAX);
            self.layout
                .note(CellEvent::PodReleased { gang: number, pod });
            self.foreign.look_again();
        }
    }

    /// They are to stay where they are after all.
    pub(in crate::coordinator) fn stay(&mut self, current: &Current<'_>, terms: &Terms) {
        self.vacate(current, &BTreeSet::new(), terms);
    }

    /// What these members ask for, as a gang of their own.
    ///
    /// # Errors
    /// Why they can be placed nowhere, as the end of a sentence.
    pub(in crate::coordinator) fn relocate(
        &mut self,
        current: &Current<'_>,
        tasks: &[&TaskId],
        terms: &Terms,
    ) -> Result<Gang, String> {
        self.end_relocation(&current.run.gang);
        let number = self.given.next();
        self.relocating.insert(current.run.gang.clone(), number);
        let asking = Asking {
            job: &current.job.accepted.spec,
            user: &current.job.accepted.key.user,
            tasks,
            since: terms.now,
        };
        demand::gang(self.layout.spec(), &asking, number, terms)
    }

    /// Gives the places back that were looked for.
    pub(in crate::coordinator) fn end_relocation(&mut self, gang: &GangId) {
        if let Some(number) = self.relocating.remove(gang) {
            self.withdraw(number);
        }
    }

    /// A gang that was placed in an earlier round of its attempt is placed in this one: under the same
    /// number, wherever its members are now.
    pub(super) fn follow_round(&mut self, number: Number, current: &Current<'_>, terms: &Terms) {
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        let is_later = known.run.attempt == current.run.attempt
            && known.run.round < current.run.round
            && known.is_live
            && current.gang.is_live();
        if is_later {
            known.run = current.run.clone();
            known.gone = left(current);
            self.end_relocation(&current.run.gang);
            self.adopt_one(current, terms);
        }
    }

    /// Whether a member has no place in the cells any more.
    pub(super) fn has_left(&self, number: Number, pod: usize) -> bool {
        let known = self.known.get(&number);
        known.is_some_and(|known| known.gone.contains(&pod))
    }
}

/// The members that have ended.
fn left(current: &Current<'_>) -> BTreeSet<usize> {
    let tasks = current.job.attempt.tasks_of(current.gang).enumerate();
    let ended = tasks.filter(|(_, task)| task.live().is_none());
    ended.map(|(pod, _)| pod).collect()
}
