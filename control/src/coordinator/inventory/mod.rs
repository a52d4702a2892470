//! What a leader places on: the cells, made from what nodes report, and which gang is which there.
//!
//! Everything in it can be made again from the committed state and fresh reports: a new leader
//! adopts what runs where it runs.

mod accounting;
mod adopt;
mod audit;
mod demand;
mod draining;
mod foreign;
mod judging;
mod observe;
mod relocation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{JobKey, NodeId, TaskId, VcName};
use muster_model::job::JobSpec;
use muster_model::node::{Capacity, DeviceId};
use muster_placement::cells::{Cells, Event, Owners};
use muster_placement::gang::{Gang, GangId as Number, Leaf};

use super::nodes::Nodes;
use crate::gang::{GangId, JobId, Run};
use crate::vc::{Current, VcState};

use demand::Asking;
pub(super) use demand::Terms;
use draining::Draining;
use foreign::Foreign;
pub use judging::Refused;
pub(super) use judging::judge;
pub(super) use observe::resolved;

/// The cells and who is in them.
#[derive(Clone, Debug, Default)]
pub(super) struct Inventory {
    /// As the administrator describes the cluster; without physical cells: as it is found. None
    /// while it is not known.
    description: Option<ClusterSpec>,
    /// Whether the cells were made by another description.
    is_outdated: bool,
    /// Who has which leaves, where the cluster binds.
    owners: Option<Owners>,
    /// Whether the cells were made by other owners.
    is_rebound: bool,
    /// What the cells were made from.
    spec: Arc<ClusterSpec>,
    cells: Option<Cells>,
    /// Why there are none.
    problem: Option<String>,
    /// What was found but has no place in them, as sentences.
    left_out: Vec<String>,
    /// What the cells know of each node.
    seen: BTreeMap<NodeId, Capacity>,
    /// Nodes that they were told cannot be reached.
    cut_off: BTreeSet<NodeId>,
    /// Nodes that they were told are kept free.
    cordoned: BTreeSet<NodeId>,
    known: BTreeMap<Number, Known>,
    numbers: BTreeMap<GangId, Number>,
    /// Members of gangs that other places are looked for, by the numbers that they have meanwhile.
    relocating: BTreeMap<GangId, Number>,
    /// Gangs of other virtual clusters.
    foreign: Foreign,
    draining: Vec<Draining>,
    last: u64,
    /// Something may fit now that did not before.
    is_roomier: bool,
}

/// A gang that has a number.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) run: Run,
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
        *self = Self {
            description: self.description.take(),
            foreign: self.foreign.unplaced(),
            ..Self::default()
        };
    }

    /// How the administrator describes the cluster, once that is known.
    pub(super) fn description(&self) -> Option<&ClusterSpec> {
        self.description.as_ref()
    }

    /// The description, if there is one that promises anything.
    pub(super) fn described(&self) -> Option<&ClusterSpec> {
        let description = self.description();
        description.filter(|description| !description.virtual_clusters.is_empty())
    }

    /// The cluster is described so from now on; none: that is not known any more. Whether it is
    /// news.
    pub(super) fn describe(&mut self, description: Option<ClusterSpec>) -> bool {
        let is_news = self.description != description;
        if is_news {
            self.description = description;
            self.is_outdated = true;
        }
        is_news
    }

    /// Who has which leaves from now on; none: whoever leads binds.
    pub(super) fn own(&mut self, owners: Option<Owners>) {
        if self.owners != owners {
            // Whether anybody says so at all is no matter of time.
            self.is_outdated |= self.owners.is_some() != owners.is_some();
            self.owners = owners;
            self.is_rebound = true;
        }
    }

    /// Whether the cluster says who has which leaves.
    pub(super) const fn is_owned(&self) -> bool {
        self.owners.is_some()
    }

    /// Whether a gang of this job is placed within what the virtual cluster is bound to.
    pub(super) fn is_within(&self, job: &JobSpec) -> bool {
        self.is_owned() && !job.is_opportunistic()
    }

    /// How many cells that a virtual cluster was promised it is not bound to yet; none where nobody but
    /// its leader binds it.
    pub(super) fn lacking(&self, vc: &VcName) -> Option<usize> {
        let cells = self.cells().filter(|_| self.is_owned())?;
        Some(cells.unbound(vc.as_str()))
    }

    /// Has a virtual cluster's unused quota cells on the best of its leaves.
    pub(super) fn settle_in(&mut self, vc: &str) {
        if let Some(cells) = &mut self.cells {
            cells.settle_in(vc);
        }
    }

    /// A node is no member any more: cells that were found there are none.
    pub(super) fn forget_node(&mut self, node: &NodeId) {
        self.seen.remove(node);
        self.is_outdated = true;
    }

    /// What the cells were made from, if there are any.
    pub(super) fn made(&self) -> Option<(&Cells, &ClusterSpec)> {
        Some((self.cells.as_ref()?, &self.spec))
    }

    /// The numbers that gangs have.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Number> {
        self.known.keys().copied()
    }

    pub(super) fn cells(&self) -> Option<&Cells> {
        self.cells.as_ref()
    }

    pub(super) fn cells_mut(&mut self) -> Option<&mut Cells> {
        self.cells.as_mut()
    }

    /// What the cells were made from.
    pub(super) fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// What is wrong with the cells, as sentences for people.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let unused = self.problem.iter().map(|problem| match &self.cells {
            Some(_) => format!("the cells are as they were before: {problem}"),
            None => format!("nothing is placed: {problem}"),
        });
        unused.chain(self.left_out.iter().cloned())
    }

    /// Whether something may fit now that did not at the last call.
    pub(super) fn take_roomier(&mut self) -> bool {
        std::mem::take(&mut self.is_roomier)
    }

    /// Who a number stands for.
    pub(super) fn known(&self, number: Number) -> Option<&Known> {
        self.known.get(&number)
    }

    /// The job that a number stands for.
    pub(super) fn job_of<'a>(&'a self, state: &'a VcState, number: Number) -> Option<&'a JobKey> {
        let Some(known) = self.known(number) else {
            return self.foreign_job(number);
        };
        let current = state.current(&known.run.gang)?;
        Some(&current.job.accepted.key)
    }

    /// The number of a gang in this very run.
    pub(super) fn number(&self, run: &Run) -> Option<Number> {
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
        demand::gang(&self.spec, &asking, number, terms)
    }

    /// Whether the cells have a node; so while there are none.
    pub(super) fn has_node(&self, id: &NodeId) -> bool {
        let mut cells = self.cells.iter();
        cells.all(|cells| cells.leaves_on(id.as_str()).next().is_some())
    }

    /// Whether the gang holds or claims cells.
    pub(super) fn has(&self, number: Number) -> bool {
        let cells = self.cells.as_ref();
        cells.is_some_and(|cells| cells.gang(number).is_some())
    }

    /// Whether a gang in this very run holds or claims cells.
    pub(super) fn holds(&self, run: &Run) -> bool {
        self.number(run).is_some_and(|number| self.has(number))
    }

    /// The node of a pod and the addresses of its leaves there.
    pub(super) fn place(&self, leaves: &[Leaf]) -> Option<(NodeId, Vec<u32>)> {
        let cells = self.cells.as_ref()?;
        let node = cells.address(*leaves.first()?).0.parse().ok()?;
        let addresses = leaves.iter().map(|leaf| cells.address(*leaf).1);
        Some((node, addresses.collect()))
    }

    /// The devices of a task that asks for so many, among its leaves; none if one is not there.
    pub(super) fn devices(
        &self,
        capacity: &Capacity,
        leaves: &[u32],
        count: u32,
    ) -> Option<Vec<(u32, DeviceId)>> {
        let named = |index: &u32| {
            let mut devices = capacity.devices.iter();
            let device = devices.find(|device| device.index == *index)?;
            Some((*index, device.id.clone()))
        };
        let count = usize::try_from(count).ok()?;
        let devices: Vec<_> = leaves
            .iter()
            .take(count)
            .map(named)
            .collect::<Option<_>>()?;
        (devices.len() == count).then_some(devices)
    }

    /// Tells the cells something. What they refuse was not so; nothing follows from it.
    fn note(&mut self, event: Event) {
        if let Some(cells) = &mut self.cells {
            let _refused = cells.apply(event);
        }
    }

    /// Nodes that have reported something else than the cells know of them.
    fn news(&self, nodes: &Nodes) -> Vec<NodeId> {
        let is_news = |id: &&NodeId| {
            let now = nodes.get(id).map(|node| &node.capacity);
            self.seen.get(*id) != now
        };
        nodes.news().iter().filter(is_news).cloned().collect()
    }

    /// Whether there are cells that [`Inventory::update`] would make anew, for what nodes report alone.
    pub(super) fn is_to_be_reshaped(&self, nodes: &Nodes) -> bool {
        let is_made = self.cells.is_some() && !self.is_outdated;
        is_made && (self.is_rebound || self.is_reshaped(nodes, &self.news(nodes)))
    }

    /// Brings the cells up to what nodes report, and to how the cluster is described. Whether they were
    /// made anew.
    pub(super) fn update(&mut self, nodes: &mut Nodes, state: &VcState, terms: &Terms) -> bool {
        let news = self.news(nodes);
        let is_outdated = self.is_outdated || self.is_rebound;
        if self.cells.is_some() && news.is_empty() && !is_outdated {
            return false;
        }
        let Some(description) = self.description.clone() else {
            return false;
        };
        nodes.looked_at();
        self.is_roomier = true;
        self.look_for_all_others();
        let is_shaped = self.cells.is_none() || is_outdated || self.is_reshaped(nodes, &news);
        if is_shaped {
            self.is_outdated = false;
            self.is_rebound = false;
            self.reshape(&description, nodes);
        }
        for id in news {
            if let Some(node) = nodes.get(&id) {
                self.observe(&id, &node.capacity);
            }
        }
        if is_shaped {
            self.adopt(state, terms);
        }
        is_shaped
    }
}
