//! Gangs of other virtual clusters, which have leaders of their own: what nodes report of them is in
//! the cells like what runs of this one.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{AttemptUid, JobKey, NodeId, VcName};
use muster_placement::cells::{CellEvent, GangState};
use muster_placement::gang::{
    GUARANTEED_MIN, Gang, GangMember, GangNumber as Number, MachineAmount, OPPORTUNISTIC, Placement,
};

use super::layout::Layout;
use super::{GivenNumbers, Inventory, ReportedNodes};
use crate::gang::GangRun;
use crate::order::{HeldTask, TaskHolding};

/// A task that the leader of another virtual cluster has placed, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForeignTask {
    vc: VcName,
    run: GangRun,
    holding: TaskHolding,
}

/// What a node holds for other virtual clusters, by attempt, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ForeignTasks(Vec<(AttemptUid, ForeignTask)>);

impl ForeignTasks {
    fn get(&self, uid: &AttemptUid) -> Option<&ForeignTask> {
        let place = self.0.binary_search_by(|(known, _)| known.cmp(uid)).ok()?;
        Some(&self.0.get(place)?.1)
    }

    fn has(&self, device: u32) -> bool {
        let mut tasks = self.0.iter();
        tasks.any(|(_, task)| task.holding.devices.contains(&device))
    }
}

impl FromIterator<(AttemptUid, ForeignTask)> for ForeignTasks {
    fn from_iter<T: IntoIterator<Item = (AttemptUid, ForeignTask)>>(tasks: T) -> Self {
        let mut tasks: Vec<_> = tasks.into_iter().collect();
        // Ledgers tell them in this order: there is nothing to move.
        tasks.sort_by(|(a, _), (b, _)| a.cmp(b));
        tasks.dedup_by(|(a, _), (b, _)| a == b);
        Self(tasks)
    }
}

/// What a task of another virtual cluster uses, if anything. How far it has come is no matter here.
fn in_use(held: HeldTask) -> Option<(AttemptUid, ForeignTask)> {
    let task = ForeignTask {
        vc: held.vc,
        run: held.run,
        holding: held.holding?,
    };
    Some((held.member.uid, task))
}

/// A gang of another virtual cluster.
type Key = (VcName, GangRun);

/// What the leaders of other virtual clusters have placed. Nodes tell often, and each of little: only
/// gangs of which something is new are looked at, and those only when something is to be placed.
#[derive(Clone, Debug, Default)]
pub(super) struct ForeignGangs {
    /// The newest word of nodes, where it was not looked at yet.
    unread: BTreeMap<NodeId, ForeignTasks>,
    /// What each node holds for them, as far as that was looked at.
    by_node: BTreeMap<NodeId, ForeignTasks>,
    /// The same by gang.
    reported: BTreeMap<Key, ForeignGang>,
    /// What the cells have of it.
    gangs: BTreeMap<Number, ForeignGang>,
    numbers: BTreeMap<Key, Number>,
    /// Gangs of which the cells have not all, or not within what they were promised: something was in
    /// the way.
    partial: BTreeSet<Key>,
    /// Gangs that the cells may not have as the nodes say.
    news: BTreeSet<Key>,
    /// All are to be looked at.
    is_all_news: bool,
}

/// A gang of another virtual cluster, as far as nodes have told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForeignGang {
    vc: VcName,
    run: GangRun,
    tasks: BTreeMap<AttemptUid, (NodeId, TaskHolding)>,
}

impl ForeignGang {
    /// Any leader may have it evicted.
    fn is_evictable(&self) -> bool {
        self.tasks.values().all(|(_, holding)| holding.evictable)
    }

    /// As placement knows it, on the leaves that it was found on. Which pinned cell it is in is
    /// its leader's affair.
    fn as_found(&self, number: Number, found: &Placement) -> Gang {
        let members = self.tasks.values().zip(&found.pods);
        let members = members.map(|((_, holding), leaves)| GangMember {
            pods: 1,
            leaves: u32::try_from(leaves.len()).unwrap_or(u32::MAX).max(1),
            share: MachineAmount {
                cpu: holding.cpu,
                memory_mb: holding.memory_mb,
                ports: holding.ports,
            },
            ..GangMember::default()
        });
        Gang {
            id: number,
            vc: self.vc.to_string(),
            priority: match self.is_evictable() {
                true => OPPORTUNISTIC,
                false => GUARANTEED_MIN,
            },
            stays: !self.is_evictable(),
            members: members.collect(),
            ..Gang::default()
        }
    }
}

impl ForeignGangs {
    pub(super) fn is_empty(&self) -> bool {
        self.gangs.is_empty()
    }

    /// What nodes told, which cells made anew do not have.
    pub(super) fn unplaced(&mut self) -> Self {
        Self {
            unread: std::mem::take(&mut self.unread),
            by_node: std::mem::take(&mut self.by_node),
            reported: std::mem::take(&mut self.reported),
            is_all_news: true,
            ..Self::default()
        }
    }

    /// Whether a task of another virtual cluster has this device.
    pub(super) fn has(&self, node: &NodeId, device: u32) -> bool {
        self.newest(node).is_some_and(|tasks| tasks.has(device))
    }

    /// What a node holds for them, by its newest word.
    fn newest(&self, node: &NodeId) -> Option<&ForeignTasks> {
        self.unread.get(node).or_else(|| self.by_node.get(node))
    }

    /// Looks at what nodes have told.
    fn read(&mut self) {
        for (node, tasks) in std::mem::take(&mut self.unread) {
            self.hear(&node, tasks);
        }
    }

    /// A node holds this for them, and no more of what it held before.
    fn hear(&mut self, node: &NodeId, tasks: ForeignTasks) {
        let before = self.by_node.remove(node).unwrap_or_default();
        for (uid, task) in &before.0 {
            if tasks.get(uid) != Some(task) {
                self.take_away(node, uid, task);
            }
        }
        for (uid, task) in &tasks.0 {
            if before.get(uid) != Some(task) {
                self.add(node, uid, task);
            }
        }
        if !tasks.0.is_empty() {
            self.by_node.insert(node.clone(), tasks);
        }
    }

    fn take_away(&mut self, node: &NodeId, uid: &AttemptUid, task: &ForeignTask) {
        let key = (task.vc.clone(), task.run.clone());
        if let Some(gang) = self.reported.get_mut(&key) {
            if gang.tasks.get(uid).is_some_and(|(at, _)| at == node) {
                gang.tasks.remove(uid);
            }
            if gang.tasks.is_empty() {
                self.reported.remove(&key);
            }
        }
        self.news.insert(key);
    }

    fn add(&mut self, node: &NodeId, uid: &AttemptUid, task: &ForeignTask) {
        let key = (task.vc.clone(), task.run.clone());
        let gang = self.reported.entry(key.clone());
        let gang = gang.or_insert_with(|| ForeignGang {
            vc: task.vc.clone(),
            run: task.run.clone(),
            tasks: BTreeMap::new(),
        });
        let place = (node.clone(), task.holding.clone());
        gang.tasks.insert(uid.clone(), place);
        self.news.insert(key);
    }

    /// Forgets nodes that are none any more.
    fn keep_only(&mut self, nodes: &ReportedNodes) {
        let gone = self.by_node.keys().filter(|id| !nodes.contains(id));
        let gone: Vec<NodeId> = gone.cloned().collect();
        for node in gone {
            self.hear(&node, ForeignTasks::default());
        }
    }

    /// The gangs to be looked at, once.
    fn take_news(&mut self) -> BTreeSet<Key> {
        let mut news = std::mem::take(&mut self.news);
        if std::mem::take(&mut self.is_all_news) {
            news.extend(self.reported.keys().cloned());
            news.extend(self.numbers.keys().cloned());
        }
        if !news.is_empty() {
            // It may be gone.
            news.extend(self.partial.iter().cloned());
        }
        news
    }

    /// The cells have it no more.
    fn take_out(&mut self, number: Number) -> Option<Key> {
        let gang = self.gangs.remove(&number)?;
        let key = (gang.vc, gang.run);
        self.numbers.remove(&key);
        Some(key)
    }

    /// What was in the way of gangs that were found may not be any more.
    pub(super) fn look_again(&mut self) {
        let partial = self.partial.iter().cloned();
        self.news.extend(partial);
    }

    /// Brings the cells up to what nodes say of other virtual clusters.
    fn follow(&mut self, nodes: &ReportedNodes, layout: &mut Layout, given: &mut GivenNumbers) {
        self.is_all_news |= layout.take_changed();
        self.read();
        if self.is_all_news {
            self.keep_only(nodes);
        }
        let mut missing = Vec::new();
        for key in self.take_news() {
            let number = self.numbers.get(&key).copied();
            let gang = self.reported.get(&key);
            if let Some(number) = number {
                let known = self.gangs.get(&number);
                if gang.is_some_and(|gang| known == Some(gang) && is_where(layout, number, gang)) {
                    continue;
                }
                self.take_out(number);
                layout.note(CellEvent::GangEnded(number));
                layout.make_room();
            }
            match self.reported.get(&key).cloned() {
                Some(gang) => missing.push((key, gang)),
                None => {
                    self.partial.remove(&key);
                }
            }
        }
        for (key, gang) in missing {
            self.find(key, gang, layout, given.next());
        }
    }

    /// Puts a gang where it runs.
    fn find(&mut self, key: Key, gang: ForeignGang, layout: &mut Layout, number: Number) {
        let found = place_of(layout, &gang, number);
        let wanted = gang.tasks.values().map(|(_, holding)| holding.leaves.len());
        let is_whole = found.leaves().count() == wanted.sum::<usize>();
        self.partial.insert(key.clone());
        if found.leaves().next().is_none() {
            return;
        }
        layout.note(CellEvent::Adopted {
            gang: gang.as_found(number, &found),
            placement: found,
        });
        if is_whole && is_where(layout, number, &gang) {
            self.partial.remove(&key);
        }
        self.gangs.insert(number, gang);
        self.numbers.insert(key, number);
    }
}

impl Inventory {
    /// A node tells what it holds for other virtual clusters. Whether that is news.
    pub(in crate::coordinator) fn uses(&mut self, node: &NodeId, held: Vec<HeldTask>) -> bool {
        let tasks = held
            .into_iter()
            .filter_map(in_use)
            .collect::<ForeignTasks>();
        let known = self.foreign.newest(node);
        let is_news = known.map_or(!tasks.0.is_empty(), |known| *known != tasks);
        if is_news {
            self.foreign.unread.insert(node.clone(), tasks);
        }
        is_news
    }

    /// Whether another virtual cluster's leader has placed it.
    pub(in crate::coordinator) fn is_foreign(&self, number: Number) -> bool {
        self.foreign.gangs.contains_key(&number)
    }

    /// The job that a gang of another virtual cluster belongs to, and that virtual cluster.
    pub(in crate::coordinator) fn foreign_job(&self, number: Number) -> Option<(&VcName, &JobKey)> {
        let gang = self.foreign.gangs.get(&number)?;
        let (_, holding) = gang.tasks.values().next()?;
        Some((&gang.vc, &holding.job))
    }

    /// The tasks of these gangs, by their nodes.
    pub(in crate::coordinator) fn foreign_tasks(
        &self,
        gangs: &[Number],
    ) -> BTreeMap<NodeId, Vec<AttemptUid>> {
        let mut all: BTreeMap<NodeId, Vec<AttemptUid>> = BTreeMap::new();
        let gangs = gangs.iter().filter_map(|gang| self.foreign.gangs.get(gang));
        for (uid, (node, _)) in gangs.flat_map(|gang| &gang.tasks) {
            all.entry(node.clone()).or_default().push(uid.clone());
        }
        all
    }

    /// Takes gangs of other virtual clusters out of the cells. They are looked for again where
    /// nothing of this one is.
    pub(super) fn displace(&mut self, gangs: impl IntoIterator<Item = Number>) {
        for number in gangs {
            if let Some(key) = self.foreign.take_out(number) {
                self.foreign.partial.insert(key);
                self.layout.note(CellEvent::GangEnded(number));
            }
        }
        self.foreign.look_again();
    }

    /// Brings the cells up to what nodes say of other virtual clusters.
    pub(in crate::coordinator) fn follow_others(&mut self, nodes: &ReportedNodes) {
        if self.layout.cells().is_some() {
            self.foreign
                .follow(nodes, &mut self.layout, &mut self.given);
        }
    }
}

/// Where a gang is, but for what this virtual cluster has there by what is committed.
fn place_of(layout: &Layout, gang: &ForeignGang, number: Number) -> Placement {
    let mut taken = BTreeSet::new();
    let pods = gang.tasks.values().map(|(node, holding)| {
        let leaves = holding.leaves.iter().filter_map(|address| {
            let leaf = layout.ours(node.as_str(), *address, number, &taken)?;
            taken.insert(leaf);
            Some(leaf)
        });
        leaves.collect()
    });
    Placement {
        pods: pods.collect(),
    }
}

/// Whether the cells have a gang wherever it can be, and within what it was promised if it was.
fn is_where(layout: &Layout, number: Number, gang: &ForeignGang) -> bool {
    let held = layout.gang(number);
    let is_promised = GangState::Allocated {
        lazily_preempted: false,
    };
    held.is_some_and(|(_, placement, state)| {
        state == is_promised && *placement == place_of(layout, gang, number)
    })
}
