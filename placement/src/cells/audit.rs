//! Everything that must be true of cells at any time, checked from scratch. For tests.

use std::collections::BTreeMap;

use super::{AllocationMode, Cells, PlacedGang};
use crate::gang::Leaf;
use crate::index::{LeafView, NONE, at, small};

impl Cells {
    /// Whether nothing is held, claimed or away from where it was bound first.
    pub fn is_pristine(&self) -> bool {
        self.gangs.all().next().is_none()
            && self.leaves.holder.iter().all(|slot| *slot == NONE)
            && self.leaves.claim.iter().all(|slot| *slot == NONE)
            && self.quotas.iter().all(|quota| quota.cell == quota.home)
    }

    /// Checks every invariant of the data from scratch.
    ///
    /// # Errors
    /// The first that does not hold, as a sentence.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_bindings()?;
        self.audit_gangs()?;
        self.gangs.audit()?;
        self.audit_counts()?;
        self.audit_shares()?;
        self.audit_views()
    }

    /// Each quota cell is bound to one cell of its level, no two overlap.
    fn audit_bindings(&self) -> Result<(), String> {
        let mut bound = vec![NONE; self.leaves.quota.len()];
        for (number, quota) in self.quotas.iter().enumerate() {
            for leaf in self.bound(quota) {
                if bound[at(leaf)] != NONE {
                    return Err(format!("leaf {leaf} is promised twice"));
                }
                bound[at(leaf)] = small(number);
            }
            let chain = &self.chains[self.pools[at(quota.pool)].chain];
            let away = chain.away.contains(&small(number));
            if away != (quota.cell != quota.home) {
                return Err(format!("quota cell {number} is away and is not, at once"));
            }
            let pinned = !self.pools[at(quota.pool)].pinned.is_empty();
            if pinned && away {
                return Err(format!("pinned cell {number} moved"));
            }
        }
        for quota in self.quotas.iter().filter(|quota| quota.is_bound) {
            let pool = &self.pools[at(quota.pool)];
            let cell = (pool.chain, quota.level, quota.cell);
            if self.owners.is_some() && !self.is_owned(&pool.vc, cell) {
                return Err(format!(
                    "{} has not the leaves that it is bound to",
                    pool.vc
                ));
            }
        }
        match bound == self.leaves.quota {
            true => Ok(()),
            false => Err("a leaf names another quota cell than the one bound to it".to_owned()),
        }
    }

    fn audit_gangs(&self) -> Result<(), String> {
        let mut holder = vec![NONE; self.leaves.holder.len()];
        let mut claim = holder.clone();
        for running in self.gangs.all() {
            let slot = self.gangs.slot(running.gang.id).unwrap_or(NONE);
            self.audit_gang(running)?;
            let taken = match running.mode {
                AllocationMode::Preempting => &mut claim,
                _ => &mut holder,
            };
            for leaf in running.placement.leaves() {
                if std::mem::replace(&mut taken[at(leaf)], slot) != NONE {
                    return Err(format!("leaf {leaf} is given twice"));
                }
            }
        }
        if holder != self.leaves.holder || claim != self.leaves.claim {
            return Err("a leaf names another holder than the gang that has it".to_owned());
        }
        Ok(())
    }

    fn audit_gang(&self, running: &PlacedGang) -> Result<(), String> {
        let id = running.gang.id;
        for pod in &running.placement.pods {
            let nodes: Vec<u32> = pod.iter().map(|leaf| self.node_of(*leaf)).collect();
            if nodes.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(format!("a pod of {id} lies on two machines"));
            }
        }
        let foreign = |leaf: &Leaf| !self.is_promised(&running.gang, *leaf);
        if running.mode != AllocationMode::Opportunistic
            && running.placement.leaves().any(|l| foreign(&l))
        {
            return Err(format!(
                "{id} is on leaves that its cluster is not promised"
            ));
        }
        Ok(())
    }

    fn audit_counts(&self) -> Result<(), String> {
        let mut nodes = vec![0; self.nodes.name.len()];
        let mut chains = vec![(0, 0); self.chains.len()];
        let mut quotas = vec![(0, 0); self.quotas.len()];
        for leaf in 0..self.leaf_count() {
            let used = u32::from(self.is_guaranteed(leaf));
            let bad = u32::from(!self.usable(leaf));
            nodes[at(self.node_of(leaf))] += used;
            let chain = &mut chains[self.chain_of(leaf)];
            *chain = (chain.0 + used, chain.1 + bad);
            if let Some(quota) = quotas.get_mut(at(self.leaves.quota[at(leaf)])) {
                *quota = (quota.0 + used, quota.1 + bad);
            }
        }
        let same = nodes == self.nodes.guaranteed
            && chains
                .iter()
                .zip(&self.chains)
                .all(|(c, chain)| *c == (chain.guaranteed, chain.bad))
            && quotas
                .iter()
                .zip(&self.quotas)
                .all(|(q, quota)| *q == (quota.guaranteed, quota.bad));
        match same {
            true => Ok(()),
            false => Err("a count of used or bad leaves is wrong".to_owned()),
        }
    }

    fn audit_views(&self) -> Result<(), String> {
        let mut free: BTreeMap<u32, (Vec<Leaf>, Vec<Leaf>)> = BTreeMap::new();
        for leaf in 0..self.leaf_count() {
            let (chain, local) = self.local(leaf);
            let unused = self.usable(leaf) && self.is_unused(leaf);
            let quiet = unused && self.nodes.guaranteed[at(self.node_of(leaf))] == 0;
            let chain = &self.chains[chain];
            if chain.free.has(local) != unused || chain.quiet.has(local) != quiet {
                return Err(format!("leaf {leaf} is free and is not, at once"));
            }
            if let Some(quota) = self.quota_of(leaf).filter(|quota| quota.is_bound) {
                let pool = free.entry(quota.pool).or_default();
                if unused {
                    pool.0.push(local);
                }
                if self.usable(leaf) && !self.is_guaranteed(leaf) {
                    pool.1.push(local);
                }
            }
        }
        for (number, pool) in self.pools.iter().enumerate() {
            let (unused, claimable) = free.remove(&small(number)).unwrap_or_default();
            audit_view(&pool.free, &unused)?;
            audit_view(&pool.claimable, &claimable)?;
        }
        self.chains.iter().try_for_each(|chain| {
            chain.free.audit()?;
            chain.quiet.audit()
        })
    }
}

fn audit_view(view: &LeafView, leaves: &[Leaf]) -> Result<(), String> {
    if view.free(view.frame.domains.root) != small(leaves.len())
        || !leaves.iter().all(|leaf| view.has(*leaf))
    {
        return Err("a view of a pool has other leaves than the pool".to_owned());
    }
    view.audit()
}
