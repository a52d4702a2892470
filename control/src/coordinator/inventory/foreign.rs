//! Gangs of other virtual clusters, which have leaders of their own: what nodes report of them is in
//! the cells like what runs of this one.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{AttemptUid, JobKey, NodeId, VcName};
use muster_placement::cells::Event;
use muster_placement::gang::{
    Amount, GUARANTEED_MIN, Gang, GangId as Number, GangMember, Leaf, OPPORTUNISTIC, Placement,
};

use super::{Inventory, Node, demand};
use crate::gang::Run;
use crate::order::{HeldTask, Holding};

/// What the leaders of other virtual clusters have placed.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// What each node holds for them.
    by_node: BTreeMap<NodeId, Vec<HeldTask>>,
    gangs: BTreeMap<Number, ForeignGang>,
    /// The cells may not be as the nodes say.
    is_news: bool,
}

/// A gang of another virtual cluster, as far as nodes have told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForeignGang {
    vc: VcName,
    run: Run,
    tasks: BTreeMap<AttemptUid, (NodeId, Holding)>,
}

impl ForeignGang {
    /// Any leader may have it evicted.
    fn is_evictable(&self) -> bool {
        self.tasks.values().all(|(_, holding)| holding.evictable)
    }

    /// As placement knows it, on the leaves that it was found on.
    fn as_found(&self, number: Number, found: &Placement) -> Gang {
        let members = self.tasks.values().zip(&found.pods);
        let members = members.map(|((_, holding), leaves)| GangMember {
            pods: 1,
            leaves: u32::try_from(leaves.len()).unwrap_or(u32::MAX).max(1),
            share: Amount {
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
            members: members.collect(),
            ..Gang::default()
        }
    }
}

impl Foreign {
    pub(super) fn is_empty(&self) -> bool {
        self.gangs.is_empty()
    }

    /// What nodes told, which cells made anew do not have.
    pub(super) fn unplaced(&mut self) -> Self {
        Self {
            by_node: std::mem::take(&mut self.by_node),
            gangs: BTreeMap::new(),
            is_news: true,
        }
    }

    /// Whether a task of another virtual cluster has this device.
    pub(super) fn has(&self, node: &NodeId, device: u32) -> bool {
        let mut holdings = self
            .by_node
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|task| task.holding.as_ref());
        holdings.any(|holding| holding.devices.contains(&device))
    }

    /// What there is by what nodes say.
    fn reported(&self) -> BTreeMap<(VcName, Run), ForeignGang> {
        let mut all = BTreeMap::new();
        for (node, tasks) in &self.by_node {
            for HeldTask {
                vc,
                run,
                member,
                holding,
                ..
            } in tasks
            {
                let Some(holding) = holding else { continue };
                let gang = all
                    .entry((vc.clone(), run.clone()))
                    .or_insert_with(|| ForeignGang {
                        vc: vc.clone(),
                        run: run.clone(),
                        tasks: BTreeMap::new(),
                    });
                let task = (node.clone(), holding.clone());
                gang.tasks.insert(member.uid.clone(), task);
            }
        }
        all
    }
}

impl Inventory {
    /// A node tells what it holds for other virtual clusters. Whether that is news.
    pub(in crate::coordinator) fn uses(&mut self, node: &NodeId, tasks: Vec<HeldTask>) -> bool {
        let known = self.foreign.by_node.get(node);
        if known.map_or(tasks.is_empty(), |known| *known == tasks) {
            return false;
        }
        self.foreign.by_node.insert(node.clone(), tasks);
        self.foreign.is_news = true;
        true
    }

    /// Whether another virtual cluster's leader has placed it.
    pub(in crate::coordinator) fn is_foreign(&self, number: Number) -> bool {
        self.foreign.gangs.contains_key(&number)
    }

    /// The job that a gang of another virtual cluster belongs to.
    pub(in crate::coordinator) fn foreign_job(&self, number: Number) -> Option<&JobKey> {
        let gang = self.foreign.gangs.get(&number)?;
        let (_, holding) = gang.tasks.values().next()?;
        Some(&holding.job)
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
    pub(super) fn displace(&mut self, gangs: &[Number]) {
        for number in gangs {
            if self.foreign.gangs.remove(number).is_some() {
                self.note(Event::GangEnded(*number));
            }
        }
        self.look_for_others();
    }

    /// What was in the way of a gang that was found may not be any more.
    pub(super) fn look_for_others(&mut self) {
        self.foreign.is_news = true;
    }

    /// Brings the cells up to what nodes say of other virtual clusters.
    pub(in crate::coordinator) fn follow_others(&mut self, nodes: &BTreeMap<NodeId, Node>) {
        if !std::mem::take(&mut self.foreign.is_news) || self.cells.is_none() {
            return;
        }
        self.foreign.by_node.retain(|id, _| nodes.contains_key(id));
        let mut reported = self.foreign.reported();
        let gangs = std::mem::take(&mut self.foreign.gangs);
        for (number, gang) in gangs {
            let key = (gang.vc.clone(), gang.run.clone());
            let is_same = reported.get(&key) == Some(&gang) && self.is_whole(number, &gang);
            if is_same {
                reported.remove(&key);
                self.foreign.gangs.insert(number, gang);
            } else {
                self.note(Event::GangEnded(number));
                self.is_roomier = true;
            }
        }
        for gang in reported.into_values() {
            self.find(gang);
        }
    }

    /// Whether the cells have all that a gang is known to use.
    fn is_whole(&self, number: Number, gang: &ForeignGang) -> bool {
        let held = self.cells().and_then(|cells| cells.gang(number));
        let held = held.map_or(0, |(_, placement, _)| placement.leaves().count());
        let uses = gang.tasks.values().map(|(_, holding)| holding.leaves.len());
        held == uses.sum::<usize>()
    }

    /// Whether a leaf is a place for a task without devices.
    fn is_place(&self, leaf: Leaf) -> bool {
        self.cells()
            .is_some_and(|cells| demand::is_plain(&self.spec, cells.leaf_type(leaf)))
    }

    /// Puts a gang where it runs. What this virtual cluster was placed on by what is committed is
    /// its own, whoever has yet to leave it.
    fn find(&mut self, gang: ForeignGang) {
        self.last += 1;
        let number = Number(self.last);
        let mut taken = BTreeSet::new();
        let mut found = Placement::default();
        for (node, holding) in gang.tasks.values() {
            let leaves = holding.leaves.iter().filter_map(|address| {
                let leaf = self.ours(node.as_str(), *address, number, &taken)?;
                // Without the device it is in nobody's way there.
                let is_used = holding.devices.contains(address) || self.is_place(leaf);
                is_used.then(|| taken.insert(leaf))?;
                Some(leaf)
            });
            found.pods.push(leaves.collect());
        }
        if found.leaves().next().is_none() {
            return;
        }
        self.note(Event::Adopted {
            gang: gang.as_found(number, &found),
            placement: found,
        });
        self.foreign.gangs.insert(number, gang);
    }
}
