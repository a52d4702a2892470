//! What happened becomes what is.

use std::collections::BTreeSet;

use super::{AllocationMode, CellEvent, Cells, CellsError};
use crate::gang::{Gang, GangNumber, Grant, Leaf, Placement, Swap};
use crate::index::{NONE, at};

impl Cells {
    /// Takes note of something that happened.
    ///
    /// # Errors
    /// Why it cannot have happened; nothing is changed then.
    pub fn apply(&mut self, event: CellEvent) -> Result<(), CellsError> {
        let done = match event {
            CellEvent::Started { gang, grant } => self.start(gang, grant),
            CellEvent::Preempting { gang, grant } => self.preempt(gang, grant),
            CellEvent::PreemptionCancelled(gang) => self.cancel_by_id(gang),
            CellEvent::Demoted(gangs) => self.check_known(&gangs).map(|()| self.demote(&gangs)),
            CellEvent::PodEnded { gang, pod } => self.end_pod(gang, pod),
            CellEvent::PodRestarted { gang, pod } => self.restart_pod(gang, pod),
            CellEvent::PodReleased { gang, pod } => self.release_pod(gang, pod),
            CellEvent::Adopted { gang, placement } => self.adopt(gang, placement),
            CellEvent::Capacity { node, amount } => self.state_capacity(&node, amount),
            CellEvent::GangEnded(gang) => self.end(gang),
            CellEvent::NodeHealth { node, healthy } => self.node_health(&node, healthy),
            CellEvent::DeviceHealth {
                node,
                device,
                healthy,
            } => self.device_health(&node, device, healthy),
            CellEvent::Cordon { node, on } => self.cordon(&node, on),
            CellEvent::Racks(racks) => {
                self.stand(racks);
                Ok(())
            }
            CellEvent::Swapped(swap) => self.swap(swap),
            CellEvent::Owned(spec, owners) => self.reconfigure(&spec, owners),
            CellEvent::Reconfigured(spec) => self.reconfigure(&spec, self.owners.clone()),
        };
        self.refresh();
        done
    }

    fn start(&mut self, gang: Gang, grant: Grant) -> Result<(), CellsError> {
        let own = self.gangs.slot(gang.id);
        let claims = |slot: &u32| {
            self.gangs
                .get(*slot)
                .is_some_and(|g| g.mode == AllocationMode::Preempting)
        };
        if own.is_some_and(|slot| !claims(&slot)) {
            return Err(CellsError::Known(gang.id));
        }
        self.check_leaves(&gang, &grant.placement)?;
        self.check_held(&grant.placement)?;
        self.check_shares(&gang, &grant.placement)?;
        self.check_known(&grant.demoted)?;
        self.exchange(&gang, &grant)?;
        if let Some(slot) = own {
            self.drop_claim(slot);
        }
        self.demote(&grant.demoted);
        let restored = self.cancel_others(&grant.placement);
        let mode = match gang.is_opportunistic() {
            true => AllocationMode::Opportunistic,
            false => AllocationMode::Guaranteed,
        };
        let leaves: Vec<Leaf> = grant.placement.leaves().collect();
        let slot = self.insert(gang, grant.placement, mode);
        for leaf in leaves {
            self.set_holder(leaf, slot);
        }
        self.promote_all(&restored);
        Ok(())
    }

    fn preempt(&mut self, gang: Gang, grant: Grant) -> Result<(), CellsError> {
        if self.gangs.slot(gang.id).is_some() {
            return Err(CellsError::Known(gang.id));
        }
        self.check_leaves(&gang, &grant.placement)?;
        self.check_known(&grant.demoted)?;
        self.exchange(&gang, &grant)?;
        self.demote(&grant.demoted);
        let restored = self.cancel_others(&grant.placement);
        let leaves: Vec<Leaf> = grant.placement.leaves().collect();
        let slot = self.insert(gang, grant.placement, AllocationMode::Preempting);
        if let Some(running) = self.gangs.get_mut(slot) {
            running.swaps = grant.swaps;
            running.demoted = grant.demoted;
        }
        for leaf in leaves {
            self.set_claim(leaf, slot);
        }
        self.promote_all(&restored);
        Ok(())
    }

    fn check_leaves(&self, gang: &Gang, placement: &Placement) -> Result<(), CellsError> {
        let mut seen = BTreeSet::new();
        for leaf in placement.leaves() {
            if leaf >= self.leaf_count() || !seen.insert(leaf) {
                return Err(CellsError::NotPromised {
                    gang: gang.id,
                    leaf,
                });
            }
            // A claim gives way to a more important gang only.
            if let Some(claim) = self.gangs.get(self.leaves.claim[at(leaf)])
                && claim.gang.id != gang.id
                && claim.gang.priority >= gang.priority
            {
                let holder = claim.gang.id;
                return Err(CellsError::Held { leaf, holder });
            }
        }
        Ok(())
    }

    pub(super) fn check_held(&self, placement: &Placement) -> Result<(), CellsError> {
        let held = |leaf: Leaf| self.holder(leaf).map(|running| (leaf, running.gang.id));
        match placement.leaves().find_map(held) {
            Some((leaf, holder)) => Err(CellsError::Held { leaf, holder }),
            None => Ok(()),
        }
    }

    fn check_known(&self, gangs: &[GangNumber]) -> Result<(), CellsError> {
        let unknown = gangs.iter().find(|id| self.gangs.slot(**id).is_none());
        unknown.map_or(Ok(()), |id| Err(CellsError::Unknown(*id)))
    }

    /// Makes the exchanges and checks that the leaves are promised to the gang's cluster then.
    fn exchange(&mut self, gang: &Gang, grant: &Grant) -> Result<(), CellsError> {
        // Who is demoted does not hold its cells fast.
        let modes: Vec<(u32, AllocationMode)> = self.modes(&grant.demoted);
        for (slot, _) in &modes {
            self.set_mode(*slot, AllocationMode::Opportunistic);
        }
        let mut done: Vec<Swap> = Vec::new();
        let mut result = Ok(());
        for swap in &grant.swaps {
            result = self.swap(*swap);
            if result.is_err() {
                break;
            }
            done.push(*swap);
        }
        result = result.and_then(|()| self.check_promised(gang, &grant.placement));
        if result.is_err() {
            self.swap_back(&done);
            for (slot, mode) in modes {
                self.set_mode(slot, mode);
            }
        }
        result
    }

    fn modes(&self, gangs: &[GangNumber]) -> Vec<(u32, AllocationMode)> {
        let slots = gangs.iter().filter_map(|id| self.gangs.slot(*id));
        let modes = slots.filter_map(|slot| Some((slot, self.gangs.get(slot)?.mode)));
        modes.collect()
    }

    fn check_promised(&self, gang: &Gang, placement: &Placement) -> Result<(), CellsError> {
        if gang.is_opportunistic() {
            return Ok(());
        }
        let foreign = |leaf: &Leaf| !self.is_promised(gang, *leaf);
        match placement.leaves().find(foreign) {
            Some(leaf) => Err(CellsError::NotPromised {
                gang: gang.id,
                leaf,
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn is_promised(&self, gang: &Gang, leaf: Leaf) -> bool {
        self.quota_of(leaf).is_some_and(|quota| {
            let pool = &self.pools[at(quota.pool)];
            pool.vc == gang.vc && pool.pinned == gang.pinned
        })
    }

    pub(super) fn swap_back(&mut self, swaps: &[Swap]) {
        for swap in swaps.iter().rev() {
            // What moved in meanwhile stays; the binding is right either way.
            let _refused = self.swap(*swap);
        }
    }

    fn demote(&mut self, gangs: &[GangNumber]) {
        for id in gangs {
            if let Some(slot) = self.gangs.slot(*id) {
                self.set_mode(slot, AllocationMode::Opportunistic);
            }
        }
    }

    /// Cancels every preemption that claims one of the leaves, whose exchanges stay because the
    /// newcomer relies on them. Gives back whom they had demoted.
    pub(super) fn cancel_others(&mut self, placement: &Placement) -> Vec<GangNumber> {
        let mut demoted = Vec::new();
        for leaf in placement.leaves() {
            let slot = self.leaves.claim[at(leaf)];
            if let Some(running) = self.gangs.get(slot) {
                demoted.extend_from_slice(&running.demoted);
                self.drop_claim(slot);
            }
        }
        demoted
    }

    fn cancel_by_id(&mut self, id: GangNumber) -> Result<(), CellsError> {
        let slot = self.gangs.slot(id).ok_or(CellsError::Unknown(id))?;
        let running = self.gangs.get(slot).ok_or(CellsError::Unknown(id))?;
        if running.mode != AllocationMode::Preempting {
            return Err(CellsError::Known(id));
        }
        self.cancel(slot);
        Ok(())
    }

    /// Undoes a preemption: its victims are as they were before.
    pub(super) fn cancel(&mut self, slot: u32) {
        let Some(running) = self.gangs.get(slot) else {
            return;
        };
        let (swaps, demoted) = (running.swaps.clone(), running.demoted.clone());
        self.drop_claim(slot);
        self.swap_back(&swaps);
        self.promote_all(&demoted);
    }

    pub(super) fn promote_all(&mut self, gangs: &[GangNumber]) {
        for (slot, _) in self.modes(gangs) {
            self.promote(slot);
        }
    }

    /// Gives a lazily preempted gang its quota back if nobody else uses it.
    fn promote(&mut self, slot: u32) {
        let Some(running) = self.gangs.get(slot) else {
            return;
        };
        let gang = &running.gang;
        let fits = |leaf: Leaf| self.is_promised(gang, leaf) && !self.is_guaranteed(leaf);
        if !gang.is_opportunistic() && running.placement.leaves().all(fits) {
            self.set_mode(slot, AllocationMode::Guaranteed);
        }
    }

    fn drop_claim(&mut self, slot: u32) {
        let Some(running) = self.gangs.get(slot) else {
            return;
        };
        let leaves: Vec<Leaf> = running.placement.leaves().collect();
        for leaf in leaves {
            self.set_claim(leaf, NONE);
        }
        self.remove(slot);
    }
}
