//! What runs by what is committed is put where it runs.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_model::cluster_spec::ClusterSpec;
use muster_placement::cells::CellEvent;
use muster_placement::gang::{Gang, GangNumber as Number, Placement};

use super::Inventory;
use super::demand::{self, Asking, Terms};
use crate::vc::{Current, VcState};

impl Inventory {
    /// Puts what runs where it runs, the most important first. Nodes report one after the other:
    /// each may bring leaves of gangs that are there already.
    pub(super) fn adopt(&mut self, state: &VcState, terms: &Terms) {
        let mut live: Vec<Current<'_>> = state.live().collect();
        live.sort_by_key(|current| {
            (
                Reverse(demand::priority(&current.job.accepted.spec)),
                current.run.gang.job,
            )
        });
        for current in live {
            self.adopt_one(&current, terms);
        }
    }

    /// Gangs that hold cells hold them by these terms from now on.
    pub(in crate::coordinator) fn adopt_anew(&mut self, state: &VcState, terms: &Terms) {
        for current in state.live() {
            if let Some(number) = self.number(&current.run)
                && self.layout.has(number)
            {
                self.layout.note(CellEvent::GangEnded(number));
            }
        }
        self.adopt(state, terms);
    }

    pub(super) fn adopt_one(&mut self, current: &Current<'_>, terms: &Terms) {
        let number = self.number(&current.run);
        let number = number.unwrap_or_else(|| self.enlist(current));
        self.push_aside(current);
        let found = self.found(current, number);
        let known = self.layout.placement(number);
        if found.leaves().next().is_none() || known.as_ref() == Some(&found) {
            return;
        }
        let gang = running(current, number, &found, (self.layout.spec(), terms));
        if known.is_some() {
            self.layout.note(CellEvent::GangEnded(number));
        }
        self.layout.note(CellEvent::Adopted {
            gang,
            placement: found,
        });
    }

    /// Gangs of other virtual clusters give their cells up to what was placed there by what is
    /// committed: they have left, are about to, or have no device there.
    fn push_aside(&mut self, current: &Current<'_>) {
        let tasks = current.job.attempt.tasks_of(current.gang);
        let places = tasks.filter_map(|task| task.live());
        let holders = places.flat_map(|place| {
            let node = place.node.as_str();
            let cells = self.layout.cells();
            let leaves = place.leaves.iter();
            leaves.filter_map(move |address| {
                let cells = cells?;
                cells.held_by(cells.leaf(node, *address)?)
            })
        });
        let foreign: BTreeSet<Number> = holders.filter(|it| self.is_foreign(*it)).collect();
        if !foreign.is_empty() {
            self.displace(foreign);
        }
    }

    /// Where a gang's tasks run, as far as there are such cells; of those that ended, what they
    /// have not left yet.
    fn found(&self, current: &Current<'_>, number: Number) -> Placement {
        let known = self.layout.placement(number).unwrap_or_default();
        let mut taken = BTreeSet::new();
        let tasks = current.job.attempt.tasks_of(current.gang);
        let pods = tasks.enumerate().map(|(pod, task)| {
            let place = task.live().filter(|_| !self.has_left(number, pod));
            let Some(place) = place else {
                return known.pods.get(pod).cloned().unwrap_or_default();
            };
            let node = place.node.as_str();
            let ours = place.leaves.iter().filter_map(|address| {
                let leaf = self.layout.ours(node, *address, number, &taken)?;
                taken.insert(leaf);
                Some(leaf)
            });
            ours.collect()
        });
        Placement {
            pods: pods.collect(),
        }
    }
}

/// The gang as it runs. It does whatever the cluster's description says of its roles by now.
fn running(
    current: &Current<'_>,
    number: Number,
    found: &Placement,
    (spec, terms): (&ClusterSpec, &Terms),
) -> Gang {
    let tasks = current.job.attempt.tasks_of(current.gang);
    let asking = Asking {
        job: &current.job.accepted.spec,
        user: &current.job.accepted.key.user,
        tasks: &tasks.map(|task| &task.id).collect::<Vec<_>>(),
        since: demand::placed_at(current).unwrap_or(terms.now),
    };
    demand::gang(spec, &asking, number, terms)
        .unwrap_or_else(|_| demand::as_found(&asking, number, found, terms))
}
