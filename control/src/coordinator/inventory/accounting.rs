//! Which gang has which number, and what it has in the cells by what is committed.

use std::collections::BTreeSet;

use muster_model::id::TaskId;
use muster_placement::cells::CellEvent;
use muster_placement::decide;
use muster_placement::gang::{Gang, GangNumber as Number, Grant, Placement};

use super::{Inventory, NumberedGang, Terms};
use crate::gang::GangId;
use crate::vc::attempt::{GangPhase, TaskRecord};
use crate::vc::{Current, VcState};

impl Inventory {
    /// Gives a gang a new number; the one of an earlier run ends.
    pub(super) fn enlist(&mut self, current: &Current<'_>) -> Number {
        self.end(&current.run.gang);
        let number = self.given.next();
        let is_live = current.gang.is_live();
        let tasks = current.job.attempt.tasks_of(current.gang);
        let tasks: Vec<&TaskRecord> = tasks.collect();
        let over = tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| is_live && task.live().is_none());
        let known = NumberedGang {
            run: current.run.clone(),
            gone: over.map(|(pod, _)| pod).collect(),
            tasks: tasks.iter().map(|task| task.id.clone()).collect(),
            is_live,
        };
        self.known.insert(number, known);
        self.numbers.insert(current.run.gang.clone(), number);
        number
    }

    /// Takes a gang out of the cells and forgets its number. What ran there leaves when its
    /// devices are free.
    pub(in crate::coordinator) fn end(&mut self, gang: &GangId) {
        let Some(number) = self.numbers.remove(gang) else {
            return;
        };
        let Some(known) = self.known.remove(&number) else {
            return;
        };
        if known.is_live {
            let left = (0..known.tasks.len()).filter(|pod| !known.gone.contains(pod));
            self.drain(number, left);
            self.leave(number);
        } else {
            self.withdraw(number);
        }
    }

    /// Gives back what a gang no longer has by what is committed. `is_reserving`: its nodes are
    /// being asked, so that what it has is not committed yet.
    pub(in crate::coordinator) fn account(
        &mut self,
        state: &VcState,
        gang: &GangId,
        is_reserving: bool,
        terms: &Terms,
    ) {
        let Some(number) = self.numbers.get(gang).copied() else {
            return;
        };
        let current = state.current(gang);
        if let Some(current) = &current {
            self.follow_round(number, current, terms);
        }
        let current = current.filter(|current| {
            let known = self.known.get(&number);
            known.is_some_and(|known| known.run == current.run)
        });
        match current {
            Some(current) if current.gang.is_live() => {
                self.commit(number, &current, terms);
                self.release(number, &current);
            }
            Some(current) if current.gang.phase == GangPhase::Waiting => {
                if !is_reserving && !self.layout.is_preempting(number) {
                    self.withdraw(number);
                }
            }
            Some(_) | None => self.end(gang),
        }
    }

    /// A gang as the cells have it, and where.
    fn in_cells(&self, gang: &GangId) -> Option<(Gang, Placement)> {
        let number = self.numbers.get(gang)?;
        let (gang, placement, _) = self.layout.gang(*number)?;
        Some((gang.clone(), placement.clone()))
    }

    /// A plan was refused: the gang claims its cells for the next try, so that nobody else takes
    /// them just because it pauses.
    pub(in crate::coordinator) fn claim_again(&mut self, gang: &GangId) {
        let Some((demand, placement)) = self.in_cells(gang) else {
            return;
        };
        self.withdraw(demand.id);
        // What nobody was promised nobody may claim.
        if demand.is_opportunistic() {
            return;
        }
        let grant = Grant {
            placement,
            ..Grant::default()
        };
        self.layout.note(CellEvent::Preempting {
            gang: demand,
            grant,
        });
        self.foreign.look_again();
    }

    /// A gang's nodes are asked for what gangs of other virtual clusters use: it is the gang's own
    /// in the cells from now on, though nobody has been told to give way.
    pub(in crate::coordinator) fn take_from(&mut self, gang: &GangId, victims: &[Number]) {
        let Some((demand, placement)) = self.in_cells(gang) else {
            return;
        };
        self.displace(victims.iter().copied());
        let grant = Grant {
            placement,
            ..Grant::default()
        };
        self.layout.note(CellEvent::Started {
            gang: demand,
            grant,
        });
    }

    /// Takes a gang that waits out of the cells; it keeps its number.
    pub(in crate::coordinator) fn withdraw(&mut self, number: Number) {
        if self.layout.has(number) {
            self.layout.note(CellEvent::GangEnded(number));
            self.foreign.look_again();
            self.layout.make_room();
        }
    }

    /// What was reserved is committed. Its nodes may have lost and found devices meanwhile.
    pub(super) fn commit(&mut self, number: Number, current: &Current<'_>, terms: &Terms) {
        let known = self.known.get_mut(&number);
        if known.is_some_and(|known| !std::mem::replace(&mut known.is_live, true)) {
            self.adopt_one(current, terms);
        }
    }

    /// Gives back the pods whose tasks have ended.
    pub(super) fn release(&mut self, number: Number, current: &Current<'_>) {
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        let tasks = current.job.attempt.tasks_of(current.gang);
        let live: BTreeSet<&TaskId> = tasks
            .filter(|task| task.live().is_some())
            .map(|task| &task.id)
            .collect();
        let mut ended = Vec::new();
        for (pod, task) in known.tasks.iter().enumerate() {
            if !live.contains(task) && known.gone.insert(pod) {
                ended.push(pod);
            }
        }
        self.drain(number, ended.into_iter());
    }

    /// Gives up claims on cells that can no longer be used; their gangs are decided anew.
    pub(in crate::coordinator) fn drop_broken_claims(&mut self) {
        let Some(cells) = self.layout.cells() else {
            return;
        };
        let claiming = cells.claiming().filter(|n| self.known.contains_key(n));
        let broken = claiming.filter(|n| !decide::preemption_holds(cells, *n));
        let broken: Vec<Number> = broken.collect();
        for number in broken {
            self.withdraw(number);
        }
    }
}
