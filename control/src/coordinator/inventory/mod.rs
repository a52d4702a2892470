//! What a leader places on: the cells, made from what nodes report, and which gang is which there.
//!
//! Everything in it can be made again from the committed state and fresh reports: a new leader
//! adopts what runs where it runs.

mod adopt;
mod audit;
mod demand;
mod observe;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{NodeId, TaskId, UserName};
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::node::{Capacity, DeviceId};
use muster_model::time::Time;
use muster_placement::cells::{Cells, Event, State};
use muster_placement::decide::{self, Policy};
use muster_placement::gang::{Gang, GangId as Number, Grant, Leaf};

use super::node::Node;
use crate::gang::{GangId, JobId, Run};
use crate::vc::attempt::{Phase, Task};
use crate::vc::{Current, VcState};

use demand::Asking;
pub(super) use demand::Terms;

/// The cells and who is in them.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// As the administrator describes the cluster; none: as it is found.
    description: Option<ClusterSpec>,
    /// What the cells were made from.
    spec: ClusterSpec,
    cells: Option<Cells>,
    /// Why there are none.
    problem: Option<String>,
    /// What was found but has no place in them, as sentences.
    left_out: Vec<String>,
    /// What the cells know of each node.
    seen: BTreeMap<NodeId, Capacity>,
    known: BTreeMap<Number, Known>,
    numbers: BTreeMap<GangId, Number>,
    draining: Vec<Draining>,
    last: u64,
    /// Something may fit now that did not before.
    is_roomier: bool,
}

/// A gang that has a number.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) run: Run,
    /// Its tasks in the order of its pods.
    tasks: Vec<TaskId>,
    /// Pods that were given back.
    gone: BTreeSet<usize>,
    /// Its placement was committed: its nodes may hold something.
    is_live: bool,
}

/// A pod that has ended, whose devices its node may not have cleared yet.
#[derive(Debug)]
struct Draining {
    gang: Number,
    pod: u32,
    node: Option<String>,
    devices: Vec<u32>,
}

impl Draining {
    /// Whether its node holds none of its devices. A sick device is never free, and in nobody's
    /// way.
    fn is_free(&self, nodes: &BTreeMap<NodeId, Node>) -> bool {
        let mut nodes = nodes.iter();
        let node = nodes.find(|(id, _)| Some(id.as_str()) == self.node.as_deref());
        let Some((_, node)) = node else {
            return true;
        };
        self.devices.iter().all(|index| {
            let mut free = node.free.free.devices.iter();
            let mut known = node.capacity.devices.iter();
            let is_well = known.any(|d| d.index == *index && d.fault.is_none());
            free.any(|(free, _)| free == index) || !is_well
        })
    }
}

impl Inventory {
    pub(super) fn new(description: Option<ClusterSpec>) -> Self {
        Self {
            description,
            ..Self::default()
        }
    }

    /// Forgets everything but the description, as a new leader must.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.description.take());
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
        let unused = self
            .problem
            .iter()
            .map(|p| format!("nothing is placed: {p}"));
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

    /// Whether a job could ever be placed, judged as a whole or task by task, as it asks.
    ///
    /// # Errors
    /// Why not, as the end of a sentence.
    pub(super) fn judge(
        &self,
        job: &JobSpec,
        user: &UserName,
        policy: &Policy,
    ) -> Result<(), String> {
        let Some(cells) = &self.cells else {
            return Ok(());
        };
        let all = job.roles.iter().flat_map(task_ids);
        let ids: Vec<TaskId> = all.collect();
        let each: Vec<&TaskId> = ids.iter().collect();
        let size = if job.gang { each.len() } else { 1 };
        for tasks in each.chunks(size.max(1)) {
            let asking = Asking {
                job,
                user,
                tasks,
                since: Time::default(),
            };
            let gang = demand::gang(&self.spec, &asking, Number(0), &Terms::default())?;
            decide::judge(cells, &gang, policy).map_err(|refusal| refusal.to_string())?;
        }
        Ok(())
    }

    /// Gives a gang a new number; the one of an earlier run ends.
    fn enlist(&mut self, current: &Current<'_>) -> Number {
        self.end(&current.run.gang);
        self.last += 1;
        let number = Number(self.last);
        let is_live = current.gang.is_live();
        let tasks = current.job.attempt.tasks_of(current.gang);
        let tasks: Vec<&Task> = tasks.collect();
        let over = tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| is_live && task.live().is_none());
        let known = Known {
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
    pub(super) fn end(&mut self, gang: &GangId) {
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

    /// Gives back what a gang no longer has by what is committed. `is_reserving`: its nodes are
    /// being asked, so that what it has is not committed yet.
    pub(super) fn account(
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
        let current = current.filter(|current| {
            let known = self.known.get(&number);
            known.is_some_and(|known| known.run == current.run)
        });
        match current {
            Some(current) if current.gang.is_live() => {
                self.commit(number, &current, terms);
                self.release(number, &current);
            }
            Some(current) if current.gang.phase == Phase::Waiting => {
                if !is_reserving && !self.is_preempting(number) {
                    self.withdraw(number);
                }
            }
            Some(_) | None => self.end(gang),
        }
    }

    /// A plan was refused: the gang claims its cells for the next try, so that nobody else takes
    /// them just because it pauses.
    pub(super) fn claim_again(&mut self, gang: &GangId) {
        let number = self.numbers.get(gang);
        let cells = self.cells.as_ref();
        let found = number.and_then(|number| cells?.gang(*number));
        let Some((demand, placement)) = found.map(|found| (found.0.clone(), found.1.clone()))
        else {
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
        self.note(Event::Preempting {
            gang: demand,
            grant,
        });
    }

    /// Takes a gang that waits out of the cells; it keeps its number.
    pub(super) fn withdraw(&mut self, number: Number) {
        if self.has(number) {
            self.note(Event::GangEnded(number));
            self.is_roomier = true;
        }
    }

    /// What was reserved is committed. Its nodes may have lost and found devices meanwhile.
    fn commit(&mut self, number: Number, current: &Current<'_>, terms: &Terms) {
        let known = self.known.get_mut(&number);
        if known.is_some_and(|known| !std::mem::replace(&mut known.is_live, true)) {
            self.adopt_one(current, terms);
        }
    }

    /// Gives back the pods whose tasks have ended.
    fn release(&mut self, number: Number, current: &Current<'_>) {
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

    fn is_preempting(&self, number: Number) -> bool {
        let cells = self.cells.as_ref();
        let gang = cells.and_then(|cells| cells.gang(number));
        gang.is_some_and(|(_, _, state)| state == State::Preempting)
    }

    /// Gives up claims on cells that can no longer be used; their gangs are decided anew.
    pub(super) fn drop_broken_claims(&mut self) {
        let Some(cells) = &self.cells else {
            return;
        };
        let preempting = self.known.keys().filter(|n| self.is_preempting(**n));
        let holds = |n: &Number| decide::preemption_holds(cells, *n);
        let broken: Vec<Number> = preempting.copied().filter(|n| !holds(n)).collect();
        for number in broken {
            self.withdraw(number);
        }
    }

    /// Lets pods go as soon as their devices are free by their nodes' own word.
    fn drain(&mut self, gang: Number, pods: impl Iterator<Item = usize>) {
        let Some(cells) = &self.cells else {
            return;
        };
        let Some((_, placement, _)) = cells.gang(gang) else {
            return;
        };
        for pod in pods {
            let Some(leaves) = placement.pods.get(pod) else {
                continue;
            };
            let devices = leaves.iter().filter(|leaf| {
                let leaf_type = cells.leaf_type(**leaf);
                !demand::is_plain(&self.spec, leaf_type)
            });
            self.draining.push(Draining {
                gang,
                pod: u32::try_from(pod).unwrap_or(u32::MAX),
                node: leaves.first().map(|leaf| cells.address(*leaf).0.to_owned()),
                devices: devices.map(|leaf| cells.address(*leaf).1).collect(),
            });
        }
    }

    /// Gives back what was waiting for its nodes to say that it is free.
    pub(super) fn settle(&mut self, nodes: &BTreeMap<NodeId, Node>) {
        let all = std::mem::take(&mut self.draining);
        let (free, busy) = all
            .into_iter()
            .partition(|pod: &Draining| pod.is_free(nodes));
        self.draining = busy;
        for Draining { gang, pod, .. } in free {
            self.note(Event::PodReleased { gang, pod });
            self.leave(gang);
            self.is_roomier = true;
        }
    }

    /// A gang that has ended is out of the cells once its last pod is, though the last one may
    /// have lost its leaves with its node's devices.
    fn leave(&mut self, number: Number) {
        let drains = self.draining.iter().any(|pod| pod.gang == number);
        if !drains && !self.known.contains_key(&number) {
            self.withdraw(number);
        }
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

    /// Brings the cells up to what nodes report.
    pub(super) fn update(
        &mut self,
        nodes: &BTreeMap<NodeId, Node>,
        state: &VcState,
        terms: &Terms,
    ) {
        let is_news = |(id, node): &(&NodeId, &Node)| self.seen.get(*id) != Some(&node.capacity);
        let news: Vec<NodeId> = nodes
            .iter()
            .filter(is_news)
            .map(|(id, _)| id.clone())
            .collect();
        if self.cells.is_some() && news.is_empty() {
            return;
        }
        self.is_roomier = true;
        let is_shaped = self.cells.is_none() || self.is_reshaped(nodes, &news);
        if is_shaped {
            self.reshape(nodes);
        }
        for id in news {
            if let Some(node) = nodes.get(&id) {
                self.observe(&id, &node.capacity);
            }
        }
        if is_shaped {
            self.adopt(state, terms);
        }
    }
}

fn task_ids(role: &RoleSpec) -> impl Iterator<Item = TaskId> {
    (0..role.instances).map(|index| TaskId {
        role: role.name.clone(),
        index,
    })
}
