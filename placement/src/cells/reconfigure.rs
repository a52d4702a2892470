//! Another description while gangs run.
//!
//! Cells are built anew and every gang is put back where it is, the most important first. A
//! guaranteed gang keeps its quota if unused quota cells of its cluster can be bound to the
//! cells it is in; else it goes on as opportunistic. One that had lost its quota before gets it
//! back if there is enough now. Devices that are gone are forgotten, the rest of their gang stays.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;

use super::{AllocationMode, Bins, Cells, CellsError, Owners, PlacedGang};
use crate::gang::{Gang, GangNumber, Leaf, Placement, Swap};
use crate::index::{NONE, at};

/// What a gang's leaf belonged to before: the type of its quota cell.
/// A leaf that is not named may be covered by any type.
pub(super) type Former = BTreeMap<Leaf, String>;

impl Cells {
    pub(crate) fn reconfigure(
        &mut self,
        spec: &ClusterSpec,
        owners: Option<Owners>,
    ) -> Result<(), CellsError> {
        let mut new = Self::owned(spec, self.bins, owners).map_err(CellsError::Spec)?;
        self.carry_faults(&mut new);
        self.carry_capacities(&mut new)?;
        new.stand(self.racks.clone());
        let mut gangs: Vec<&PlacedGang> = self.gangs.all().collect();
        gangs.retain(|running| running.mode != AllocationMode::Preempting);
        let rank = |running: &&PlacedGang| {
            let quota = running.mode == AllocationMode::Guaranteed;
            (!quota, -running.gang.priority, running.seq)
        };
        gangs.sort_by_key(rank);
        for running in gangs {
            self.carry(running, &mut new);
        }
        new.gangs.continue_after(&self.gangs);
        new.refresh();
        *self = new;
        Ok(())
    }

    /// What a change of description would do: the gangs that would lose their quota, and those
    /// that would lose devices.
    ///
    /// # Errors
    /// Everything that is wrong with the description.
    pub fn what_if(&self, spec: &ClusterSpec) -> Result<ReconfigureEffect, CellsError> {
        let mut what = ReconfigureEffect {
            after: self.clone(),
            lose_quota: Vec::new(),
            lose_devices: Vec::new(),
        };
        // Who has what follows from it.
        what.after.reconfigure(spec, None)?;
        let running = self.gangs.all();
        // A claim holds nothing yet.
        for running in running.filter(|running| running.mode != AllocationMode::Preempting) {
            let id = running.gang.id;
            let new = what.after.gangs.by_id(id);
            let leaves = |running: &PlacedGang| running.placement.leaves().count();
            if new.map_or(0, leaves) < leaves(running) {
                what.lose_devices.push(id);
            }
            if running.mode == AllocationMode::Guaranteed
                && new.is_none_or(|new| new.mode != AllocationMode::Guaranteed)
            {
                what.lose_quota.push(id);
            }
        }
        Ok(what)
    }

    fn carry_faults(&self, new: &mut Self) {
        for leaf in 0..self.leaf_count() {
            let fault = self.leaves.fault[at(leaf)];
            if fault != 0 {
                let (node, device) = self.address(leaf);
                if let Some(leaf) = new.find_leaf(node, device) {
                    new.fault(leaf, fault, true);
                }
            }
        }
        new.refresh();
    }

    fn carry_capacities(&self, new: &mut Self) -> Result<(), CellsError> {
        for (node, numbers) in &self.nodes.by_name {
            let first = numbers.first().map(|node| self.nodes.machine[at(*node)]);
            let total = first.and_then(|machine| self.nodes.machines[at(machine)].total);
            if let Some(amount) = total.filter(|_| new.nodes.by_name.contains_key(node)) {
                new.state_capacity(node, amount)?;
            }
        }
        Ok(())
    }

    fn carry(&self, running: &PlacedGang, new: &mut Self) {
        let mut former = Former::new();
        let moved = |leaf: &Leaf| {
            let (node, device) = self.address(*leaf);
            let there = new.find_leaf(node, device)?;
            Some((there, self.quota_type(*leaf)))
        };
        let mut placement = Placement::default();
        for pod in &running.placement.pods {
            let leaves: Vec<(Leaf, String)> = pod.iter().filter_map(moved).collect();
            placement
                .pods
                .push(leaves.iter().map(|leaf| leaf.0).collect());
            former.extend(leaves);
        }
        if running.mode != AllocationMode::Guaranteed {
            former.clear();
        }
        let guaranteed =
            !running.gang.is_opportunistic() && new.cover(&running.gang, &placement, &former);
        let mode = match guaranteed {
            true => AllocationMode::Guaranteed,
            false => AllocationMode::Opportunistic,
        };
        let slot = new.put(running.gang.clone(), placement, mode);
        if let Some(carried) = new.gangs.get_mut(slot) {
            carried.alive.clone_from(&running.alive);
        }
        new.gangs.set_seq(slot, running.seq);
    }

    fn quota_type(&self, leaf: Leaf) -> String {
        self.quota_of(leaf).map_or_else(String::new, |quota| {
            let chain = self.pools[at(quota.pool)].chain;
            self.chains[chain].shape.types[quota.level].clone()
        })
    }

    /// Binds unused quota cells of the gang's cluster to the cells it is in. False if there are
    /// not enough, and nothing is exchanged then.
    pub(super) fn cover(&mut self, gang: &Gang, placement: &Placement, former: &Former) -> bool {
        let mut cover = QuotaCover::default();
        let done = placement.pods.iter().all(|pod| {
            pod.iter().all(|leaf| {
                let was = former.get(leaf).map(|name| &**name);
                self.cover_leaf(gang, *leaf, was, &mut cover)
            }) && self.pod_holds(pod)
        });
        if !done {
            self.swap_back(&cover.swaps);
        }
        done
    }

    /// Whether a pod may lie across the quota cells it is in.
    fn pod_holds(&self, pod: &[Leaf]) -> bool {
        if self.bins == Bins::Merged {
            return true;
        }
        let small = |leaf: &Leaf| {
            let quota = self.quota_of(*leaf)?;
            let node = self.chains[self.pools[at(quota.pool)].chain].shape.node;
            (quota.level < node).then_some(self.leaves.quota[at(*leaf)])
        };
        let quotas: BTreeSet<Option<u32>> = pod.iter().map(small).collect();
        quotas.len() <= 1
    }

    fn cover_leaf(
        &mut self,
        gang: &Gang,
        leaf: Leaf,
        former: Option<&str>,
        cover: &mut QuotaCover,
    ) -> bool {
        let quota = self.leaves.quota[at(leaf)];
        if quota != NONE && cover.chosen.contains(&quota) {
            return true;
        }
        let is_type =
            self.bins == Bins::Merged || former.is_none_or(|name| self.quota_type(leaf) == name);
        if self.is_promised(gang, leaf) && is_type && !self.is_guaranteed(leaf) {
            cover.chosen.insert(quota);
            return true;
        }
        gang.pinned.is_empty() && self.bind_to(gang, leaf, former, cover)
    }

    /// Exchanges an unused quota cell of the gang's cluster for the cell around a leaf.
    fn bind_to(
        &mut self,
        gang: &Gang,
        leaf: Leaf,
        former: Option<&str>,
        cover: &mut QuotaCover,
    ) -> bool {
        let (chain, local) = self.local(leaf);
        for number in self.spare_quotas(gang, chain, former) {
            let quota = &self.quotas[at(number)];
            let level = quota.level;
            let swap = Swap {
                chain,
                level,
                a: quota.cell,
                b: local / self.chains[chain].shape.size[level],
            };
            let chosen = &mut cover.chosen;
            let inside = self.quotas_in(chain, level, swap.b);
            let taken = chosen.contains(&number) || inside.iter().any(|q| chosen.contains(q));
            if !taken && self.swap(swap).is_ok() {
                chosen.insert(number);
                cover.swaps.push(swap);
                return true;
            }
        }
        false
    }

    /// The unused quota cells of the gang's cluster in a chain: those of the former type first,
    /// then the smallest.
    fn spare_quotas(&self, gang: &Gang, chain: usize, former: Option<&str>) -> Vec<u32> {
        let Some(vc) = self.vcs.get(&gang.vc) else {
            return Vec::new();
        };
        let pools = vc.pools.iter().map(|pool| &self.pools[at(*pool)]);
        let pools = pools.filter(|pool| pool.chain == chain);
        let mut quotas: Vec<u32> = pools.flat_map(|pool| pool.quotas.iter().copied()).collect();
        let types = &self.chains[chain].shape.types;
        let other =
            |quota: u32| former.is_some_and(|name| types[self.quotas[at(quota)].level] != name);
        quotas.retain(|q| {
            self.quotas[at(*q)].guaranteed == 0 && (self.bins == Bins::Merged || !other(*q))
        });
        quotas.sort_by_key(|q| (other(*q), self.quotas[at(*q)].level));
        quotas
    }
}

/// Quota cells that were found for the cells a gang is in.
#[derive(Debug, Default)]
struct QuotaCover {
    chosen: BTreeSet<u32>,
    /// What was exchanged for it.
    swaps: Vec<Swap>,
}

/// What a change of description would do to what runs.
#[derive(Clone, Debug)]
pub struct ReconfigureEffect {
    /// The cells as they would be.
    pub after: Cells,
    /// Gangs that would go on as opportunistic.
    pub lose_quota: Vec<GangNumber>,
    /// Gangs some of whose devices would be gone.
    pub lose_devices: Vec<GangNumber>,
}
