//! Pods and gangs that end, and what becomes free by it.

use super::{AllocationMode, Cells, CellsError, Quota, Sum};
use crate::gang::{GangNumber, Leaf};
use crate::index::{NONE, at};

impl Cells {
    fn set_alive(&mut self, id: GangNumber, pod: u32, alive: bool) -> Result<bool, CellsError> {
        let slot = self.gangs.slot(id).ok_or(CellsError::Unknown(id))?;
        let running = self.gangs.get_mut(slot).ok_or(CellsError::Unknown(id))?;
        let pod = running.alive.get_mut(at(pod));
        *pod.ok_or_else(|| no_such_pod(id))? = alive;
        Ok(running.alive.contains(&true))
    }

    pub(super) fn end_pod(&mut self, id: GangNumber, pod: u32) -> Result<(), CellsError> {
        if self.set_alive(id, pod, false)? {
            return Ok(());
        }
        self.end(id)
    }

    pub(super) fn restart_pod(&mut self, id: GangNumber, pod: u32) -> Result<(), CellsError> {
        let leaves = self.gangs.by_id(id).ok_or(CellsError::Unknown(id))?;
        let leaves = leaves.placement.pods.get(at(pod));
        if leaves.is_none_or(Vec::is_empty) {
            return Err(no_such_pod(id));
        }
        self.set_alive(id, pod, true).map(|_| ())
    }

    pub(super) fn release_pod(&mut self, id: GangNumber, pod: u32) -> Result<(), CellsError> {
        let slot = self.gangs.slot(id).ok_or(CellsError::Unknown(id))?;
        let running = self.gangs.get(slot).ok_or(CellsError::Unknown(id))?;
        let mode = running.mode;
        if mode == AllocationMode::Preempting {
            return Err(CellsError::Known(id));
        }
        let leaves = running.placement.pods.get(at(pod));
        let leaves = leaves.filter(|leaves| !leaves.is_empty()).cloned();
        let leaves = leaves.ok_or_else(|| no_such_pod(id))?;
        let unused = self.let_go(&leaves, mode);
        self.count_shares(slot, Sum::take);
        self.gangs.release_pod(slot, pod);
        self.count_shares(slot, Sum::add);
        self.go_home(&unused);
        self.end_pod(id, pod)
    }

    pub(super) fn end(&mut self, id: GangNumber) -> Result<(), CellsError> {
        let slot = self.gangs.slot(id).ok_or(CellsError::Unknown(id))?;
        let running = self.gangs.get(slot).ok_or(CellsError::Unknown(id))?;
        let mode = running.mode;
        if mode == AllocationMode::Preempting {
            self.cancel(slot);
            return Ok(());
        }
        let leaves: Vec<Leaf> = running.placement.leaves().collect();
        let unused = self.let_go(&leaves, mode);
        self.remove(slot);
        self.go_home(&unused);
        Ok(())
    }

    /// Nobody holds the leaves any more. Gives the quota cells that are unused by it and not
    /// where they were bound first.
    fn let_go(&mut self, leaves: &[Leaf], mode: AllocationMode) -> Vec<u32> {
        let mut unused = Vec::new();
        for leaf in leaves {
            self.set_holder(*leaf, NONE);
            let quota = self.leaves.quota[at(*leaf)];
            let was_guaranteed = mode == AllocationMode::Guaranteed;
            let is_away = |q: &Quota| was_guaranteed && q.guaranteed == 0 && q.cell != q.home;
            if self.quotas.get(at(quota)).is_some_and(is_away) {
                unused.push(quota);
            }
        }
        unused
    }
}

fn no_such_pod(id: GangNumber) -> CellsError {
    CellsError::NoSuch(format!("pod of that number in {id}"))
}
