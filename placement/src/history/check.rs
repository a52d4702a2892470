//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use super::brute::{Supply, firm};
use super::{HistoryRun, harm, nearness};
use crate::cells::{
    AllocationMode, Bins, CellEvent, Cells, GangState, PlacedGang, Quota, ReconfigureEffect, Sum,
};
use crate::decide::{Decision, decide};
use crate::gang::{Gang, GangMember, GangNumber, Grant, Leaf};
use crate::index::{at, small};

impl HistoryRun {
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.check_state()?;
        self.digest();
        self.check_safety()
    }

    pub(super) fn check_state(&self) -> Result<(), String> {
        self.cells.audit()
    }

    fn digest(&mut self) {
        for leaf in 0..self.cells.leaf_count() {
            let holder = self
                .cells
                .holder(leaf)
                .map_or(0, |running| running.gang.id.0);
            let state = holder ^ u64::from(self.cells.leaves.quota[at(leaf)]) << 32;
            self.tally.digest = (self.tally.digest ^ state).wrapping_mul(0x100_0000_01B3);
        }
    }

    /// Two states are the same but for the order in which the same things are kept.
    pub(super) fn same_as(&self, other: &Cells, when: &str) -> Result<(), String> {
        let view = |cells: &Cells| -> Vec<(u64, u64, u32, u8)> {
            let id = |slot: u32| cells.gangs.get(slot).map_or(0, |running| running.gang.id.0);
            let leaf = |leaf: Leaf| {
                let leaf = at(leaf);
                let leaves = &cells.leaves;
                let (holder, claim) = (id(leaves.holder[leaf]), id(leaves.claim[leaf]));
                (holder, claim, leaves.quota[leaf], leaves.fault[leaf])
            };
            (0..cells.leaf_count()).map(leaf).collect()
        };
        let states = |cells: &Cells| -> Vec<(GangNumber, GangState)> {
            cells.gangs().map(|gang| (gang.0.id, gang.2)).collect()
        };
        if view(&self.cells) == view(other) && states(&self.cells) == states(other) {
            return Ok(());
        }
        Err(format!("{when} the state is not what it was"))
    }

    pub(super) fn check_decision(&self, gang: &Gang, decision: &Decision) -> Result<(), String> {
        match decision {
            Decision::Place(grant) => self.check_grant(gang, grant, &[]),
            Decision::Preempt { victims, grant } => {
                if gang.is_opportunistic() {
                    return Err("an opportunistic gang preempts".to_owned());
                }
                self.check_victims(gang, victims)?;
                self.check_needed(gang)?;
                self.check_minimal(gang, victims, &grant.demoted)?;
                self.check_grant(gang, grant, victims)
            }
            Decision::Wait(_) => self.check_wait(gang),
            Decision::Refuse(_) => Ok(()),
        }
    }

    fn check_grant(
        &self,
        gang: &Gang,
        grant: &Grant,
        victims: &[GangNumber],
    ) -> Result<(), String> {
        let sizes: Vec<u32> = grant
            .placement
            .pods
            .iter()
            .map(|pod| small(pod.len()))
            .collect();
        if sizes != gang.sizes() {
            return Err(format!(
                "asked for pods of {:?}, got {sizes:?}",
                gang.sizes()
            ));
        }
        for leaf in grant.placement.leaves() {
            if !self.cells.usable(leaf) {
                return Err(format!("leaf {leaf} is not usable"));
            }
            let holder = self.cells.holder(leaf).map(|running| running.gang.id);
            if holder.is_some_and(|holder| !victims.contains(&holder)) {
                return Err(format!("leaf {leaf} is held by somebody who is no victim"));
            }
        }
        self.check_types(gang, grant)?;
        nearness::check(&self.cells, gang, &grant.placement)?;
        self.check_racks(gang, grant)?;
        self.check_shares(gang, grant, victims)?;
        for id in &grant.demoted {
            let demoted = self.cells.gangs.by_id(*id);
            let may = |d: &PlacedGang| d.gang.lazy && is_below(&d.gang, gang) && !self.is_fixed(d);
            if demoted.is_none_or(|demoted| !may(demoted)) {
                return Err(format!("{id} may not be lazily preempted"));
            }
        }
        Ok(())
    }

    /// Pods of a member have leaves of its type; those of any type all have the same.
    fn check_types(&self, gang: &Gang, grant: &Grant) -> Result<(), String> {
        let mut pods = grant.placement.pods.iter();
        let mut any = BTreeSet::new();
        for member in &gang.members {
            for leaf in pods.by_ref().take(at(member.pods)).flatten() {
                let leaf_type = self.cells.leaf_type(*leaf);
                any.extend(Some(leaf_type).filter(|_| member.leaf_type.is_empty()));
                if !member.leaf_type.is_empty() && member.leaf_type != leaf_type {
                    return Err(format!(
                        "asked for {:?}, got {leaf_type:?}",
                        member.leaf_type
                    ));
                }
            }
        }
        match any.len() {
            0 | 1 => Ok(()),
            _ => Err(format!("asked for any type, got {any:?}")),
        }
    }

    /// The machines have enough beside whatever stays.
    fn check_shares(
        &self,
        gang: &Gang,
        grant: &Grant,
        victims: &[GangNumber],
    ) -> Result<(), String> {
        let cells = &self.cells;
        for (number, asked) in cells.shares_by_machine(gang, &grant.placement) {
            let Some(total) = cells.nodes.machines[at(number)].total else {
                continue;
            };
            let mut used = Sum::default();
            let stays = |running: &&PlacedGang| {
                running.mode != AllocationMode::Preempting && !victims.contains(&running.gang.id)
            };
            for running in cells.gangs.all().filter(stays) {
                let shares = cells.shares_of(&running.gang, &running.placement);
                for (_, share) in shares.filter(|share| share.0 == number) {
                    used.add(share);
                }
            }
            if !asked.fits_in(&used.left_of(total)) {
                let node = cells.machine_name(number);
                return Err(format!(
                    "{node} has not enough: {asked:?} of {total:?}, {used:?} used"
                ));
            }
        }
        Ok(())
    }

    fn is_fixed(&self, running: &PlacedGang) -> bool {
        let until = running.gang.fixed_until;
        running.mode == AllocationMode::Guaranteed && until.is_some_and(|until| until > self.now)
    }

    /// The quota cells that a gang has leaves of.
    pub(super) fn quotas_of(&self, id: GangNumber) -> BTreeSet<u32> {
        let running = self.cells.gangs.by_id(id);
        let running = running.filter(|running| running.mode == AllocationMode::Guaranteed);
        let leaves = running
            .into_iter()
            .flat_map(|running| running.placement.leaves());
        leaves
            .map(|leaf| self.cells.leaves.quota[at(leaf)])
            .collect()
    }

    /// Quota cells that became unused went home, if nothing was in the way.
    pub(super) fn check_home(&self, quotas: &BTreeSet<u32>) -> Result<(), String> {
        let stuck = |quota: &&u32| {
            let is_away =
                self.cells.quotas[at(**quota)].cell != self.cells.quotas[at(**quota)].home;
            is_away && self.cells.way_home(**quota).is_some()
        };
        match quotas.iter().find(stuck) {
            Some(quota) => Err(format!("unused quota cell {quota} could have gone home")),
            None => Ok(()),
        }
    }

    /// Victims are opportunistic, or less important gangs of the same cluster; and each is
    /// really in the way.
    fn check_victims(&self, gang: &Gang, victims: &[GangNumber]) -> Result<(), String> {
        for victim in victims {
            let Some(running) = self.cells.gangs.by_id(*victim) else {
                return Err(format!("victim {victim} does not run"));
            };
            if running.mode == AllocationMode::Guaranteed && !is_below(&running.gang, gang) {
                return Err(format!("victim {victim} is as important as the gang"));
            }
            if self.is_fixed(running) {
                return Err(format!("victim {victim} is fixed for now"));
            }
        }
        match victims.is_empty() {
            true => Err("preempts nobody".to_owned()),
            false => Ok(()),
        }
    }

    /// A gang that preempts does not fit on idle leaves of its cluster.
    fn check_needed(&self, gang: &Gang) -> Result<(), String> {
        let supply = Supply {
            leaf: &|leaf| self.cells.usable(leaf) && self.cells.is_unused(leaf),
            stays: &|_| true,
        };
        match self.is_exact(gang) && self.fits(gang, &supply) {
            true => Err("preempts although it fits on idle leaves".to_owned()),
            false => Ok(()),
        }
    }

    /// None of the gangs that lose their quota could have been left alone.
    fn check_minimal(
        &self,
        gang: &Gang,
        victims: &[GangNumber],
        demoted: &[GangNumber],
    ) -> Result<(), String> {
        let cells = &self.cells;
        let mode = |id: &GangNumber| cells.gangs.by_id(*id).map(|running| running.mode);
        let losing = victims.iter().chain(demoted);
        let losing: BTreeSet<GangNumber> = losing
            .copied()
            .filter(|id| mode(id) == Some(AllocationMode::Guaranteed))
            .collect();
        let claims = cells
            .gangs
            .all()
            .any(|running| running.mode == AllocationMode::Preempting);
        // A pod may lie in one of several pools there, and the search is for one at a time.
        if claims || cells.bins == Bins::PerQuotaCell || !self.is_exact(gang) {
            return Ok(());
        }
        for spared in &losing {
            let room = |leaf: Leaf| {
                let holder = cells.holder(leaf).map(|running| running.gang.id);
                let gone = holder.is_some_and(|id| id != *spared && losing.contains(&id));
                cells.usable(leaf) && (gone || !cells.is_guaranteed(leaf))
            };
            let stays = |running: &PlacedGang| {
                let id = running.gang.id;
                firm(running) && (id == *spared || !losing.contains(&id))
            };
            let supply = Supply {
                leaf: &room,
                stays: &stays,
            };
            if self.fits(gang, &supply) {
                return Err(format!("{spared} could have been spared"));
            }
        }
        Ok(())
    }

    /// A gang that waits fits nowhere, not even without opportunistic gangs.
    fn check_wait(&self, gang: &Gang) -> Result<(), String> {
        let cells = &self.cells;
        let room = |leaf: Leaf| match gang.is_opportunistic() {
            true => cells.usable(leaf) && cells.is_unused(leaf),
            false => cells.usable(leaf) && !cells.is_guaranteed(leaf),
        };
        let supply = Supply {
            leaf: &room,
            stays: &|running| !gang.is_opportunistic() && firm(running) || gang.is_opportunistic(),
        };
        if self.is_exact(gang) && self.fits(gang, &supply) {
            return Err("waits although it fits".to_owned());
        }
        self.check_wait_for_all(gang)
    }

    /// Not even if everybody goes whom it may evict.
    fn check_wait_for_all(&self, gang: &Gang) -> Result<(), String> {
        let cells = &self.cells;
        let claims = cells
            .gangs
            .all()
            .any(|running| running.mode == AllocationMode::Preempting);
        if claims || cells.bins == Bins::PerQuotaCell || !self.is_exact(gang) {
            return Ok(());
        }
        let stays = |running: &PlacedGang| {
            let goes = is_below(&running.gang, gang) && !self.is_fixed(running);
            firm(running) && !goes || gang.is_opportunistic()
        };
        let supply = Supply {
            leaf: &|leaf| cells.usable(leaf) && cells.holder(leaf).is_none_or(|r| !stays(r)),
            stays: &stays,
        };
        match self.fits(gang, &supply) {
            true => Err("waits although less important gangs could make room".to_owned()),
            false => Ok(()),
        }
    }

    /// On a copy: every unused quota cell on good hardware is taken by a gang of its shape, the
    /// largest first, and only opportunistic gangs ever go. A quota cell that cannot be had is lost to an exchange for
    /// a damaged one, which made a larger damaged quota cell whole. Which of an owner's gangs goes without is open: one
    /// may take several small quota cells for its own large one, or one of another chain.
    pub(super) fn check_safety(&self) -> Result<(), String> {
        let mut cells = self.cells.clone();
        let mut quotas: Vec<u32> = (0..small(cells.quotas.len())).collect();
        quotas.retain(|number| {
            let quota = &cells.quotas[at(*number)];
            quota.guaranteed == 0 && quota.bad == 0
        });
        quotas
            .sort_by_key(|number| std::cmp::Reverse(cells.bound(&cells.quotas[at(*number)]).len()));
        let mut lost: BTreeMap<QuotaOwner<'_>, u64> = BTreeMap::new();
        let mut lost_leaves = 0;
        for (number, quota) in quotas.into_iter().enumerate() {
            let gang = self.taker(quota, GangNumber(u64::MAX - number as u64));
            let leaves = gang.leaves();
            if let Err(why) = self.take(&mut cells, gang) {
                let owner = self.owner(&self.cells.quotas[at(quota)]);
                let of_owner = lost.entry(owner).or_default();
                *of_owner += leaves;
                lost_leaves += leaves;
                if *of_owner > self.damaged(&cells, owner) || lost_leaves >= self.mended(&cells) {
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    fn owner(&self, quota: &Quota) -> QuotaOwner<'_> {
        let pool = &self.cells.pools[at(quota.pool)];
        QuotaOwner {
            vc: &pool.vc,
            pinned: &pool.pinned,
            leaf_type: &self.cells.chains[pool.chain].shape.types[0],
        }
    }

    /// Leaves of an owner's quota cells that are good, and damaged later: they were exchanged.
    fn damaged(&self, later: &Cells, owner: QuotaOwner<'_>) -> u64 {
        let both = self.cells.quotas.iter().zip(&later.quotas);
        let damaged = both.filter(|(before, later)| before.bad == 0 && later.bad > 0);
        let own = damaged.filter(|(before, _)| self.owner(before) == owner);
        own.map(|(_, quota)| later.bound(quota).len() as u64).sum()
    }

    /// Leaves of quota cells that are damaged, and whole later.
    fn mended(&self, later: &Cells) -> u64 {
        let before = self.cells.quotas.iter().zip(&later.quotas);
        let mended = before.filter(|(before, later)| before.bad > 0 && later.bad == 0);
        let leaves = mended.map(|(_, later_quota)| later.bound(later_quota).len() as u64);
        leaves.sum()
    }

    fn taker(&self, quota: u32, id: GangNumber) -> Gang {
        let quota = &self.cells.quotas[at(quota)];
        let pool = &self.cells.pools[at(quota.pool)];
        let shape = &self.cells.chains[pool.chain].shape;
        let leaves = shape.size[quota.level];
        let node = shape.size[shape.node].min(leaves);
        Gang {
            id,
            vc: pool.vc.clone(),
            priority: 0,
            pinned: pool.pinned.clone(),
            members: vec![GangMember {
                pods: leaves / node,
                leaves: node,
                leaf_type: shape.types[0].clone(),
                ..GangMember::default()
            }],
            ..Gang::default()
        }
    }

    fn take(&self, cells: &mut Cells, gang: Gang) -> Result<(), String> {
        let grant = match decide(cells, &gang, &self.policy, self.now) {
            Decision::Place(grant) => grant,
            Decision::Preempt { victims, grant } => {
                let claim = CellEvent::Preempting {
                    gang: gang.clone(),
                    grant,
                };
                harm::apply(cells, claim, &self.policy)?;
                for victim in victims {
                    let running = cells.gangs.by_id(victim);
                    if running.is_none_or(|running| running.mode != AllocationMode::Opportunistic) {
                        return Err(format!("promised cells cost {victim} its own"));
                    }
                    harm::apply(cells, CellEvent::GangEnded(victim), &self.policy)?;
                }
                match decide(cells, &gang, &self.policy, self.now) {
                    Decision::Place(grant) => grant,
                    other => return Err(format!("its victims are gone, but it gets {other:?}")),
                }
            }
            other => {
                let shape = (&gang.vc, &gang.pinned, &gang.members);
                return Err(format!(
                    "an unused quota cell {shape:?} cannot be had: {other:?}"
                ));
            }
        };
        let shown = format!("{gang:?} {grant:?}");
        let started = harm::apply(cells, CellEvent::Started { gang, grant }, &self.policy);
        started.map_err(|error| format!("{error}: {shown}"))
    }

    /// Nothing that ran is lost, and what was said beforehand came true.
    pub(super) fn check_carried(
        &self,
        before: &Cells,
        what_if: &ReconfigureEffect,
    ) -> Result<(), String> {
        for (gang, _, state) in before.gangs() {
            let now = self.cells.gang(gang.id).map(|gang| gang.2);
            let lost_quota = what_if.lose_quota.contains(&gang.id);
            let expected = match state {
                GangState::Preempting => None,
                GangState::Allocated { lazily_preempted } => Some(GangState::Allocated {
                    lazily_preempted: lazily_preempted || lost_quota,
                }),
            };
            let had_lost = GangState::Allocated {
                lazily_preempted: true,
            };
            let has = GangState::Allocated {
                lazily_preempted: false,
            };
            let is_back = state == had_lost && now == Some(has) && !gang.is_opportunistic();
            if now != expected && !is_back {
                return Err(format!("{} was {state:?} and is {now:?}", gang.id));
            }
        }
        Ok(())
    }
}

/// Whose quota cells may be taken by one gang: it may take several small ones for a large one, and
/// those of another chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QuotaOwner<'a> {
    vc: &'a str,
    pinned: &'a str,
    leaf_type: &'a str,
}

/// Whether a gang may be preempted by another within their cluster.
fn is_below(victim: &Gang, gang: &Gang) -> bool {
    victim.vc == gang.vc && victim.priority < gang.priority
}
