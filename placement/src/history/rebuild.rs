//! A new leader: cells are made anew from what the machines say and what runs on them.

use super::HistoryRun;
use crate::cells::{
    AllocationMode, BAD_DEVICE, BAD_NODE, Bins, CORDONED, CellEvent, Cells, PlacedGang,
};
use crate::index::at;

impl HistoryRun {
    pub(super) fn rebuild(&mut self) -> Result<(), String> {
        self.action = "adopted by a new leader".to_owned();
        self.tally.rebuilt += 1;
        let cells = Cells::new(&self.spec, self.cells.bins);
        let mut cells = cells.map_err(|problems| format!("{problems:?}"))?;
        let racks = CellEvent::Racks(self.cells.racks.clone());
        let told = std::iter::once(racks);
        for event in told.chain(self.machines()).chain(self.running()) {
            cells.apply(event).map_err(|error| error.to_string())?;
        }
        let before = std::mem::replace(&mut self.cells, cells);
        self.check_adopted(&before)
    }

    /// What the machines say of themselves.
    fn machines(&self) -> impl Iterator<Item = CellEvent> {
        let cells = &self.cells;
        let faults = (0..cells.leaf_count()).flat_map(|leaf| {
            let (node, device) = cells.address(leaf);
            let (node, fault) = (node.to_owned(), cells.leaves.fault[at(leaf)]);
            let bad_device = CellEvent::DeviceHealth {
                node: node.clone(),
                device,
                healthy: false,
            };
            let bad_node = CellEvent::NodeHealth {
                node: node.clone(),
                healthy: false,
            };
            let cordoned = CellEvent::Cordon { node, on: true };
            let events = [
                (BAD_DEVICE, bad_device),
                (BAD_NODE, bad_node),
                (CORDONED, cordoned),
            ];
            let events = events.into_iter().filter(move |event| fault & event.0 != 0);
            events.map(|event| event.1)
        });
        let amounts = cells.node_names().filter_map(|node| {
            let amount = cells.capacity(node)?;
            let node = node.to_owned();
            Some(CellEvent::Capacity { node, amount })
        });
        faults.chain(amounts)
    }

    /// What runs on them, the most important first.
    fn running(&self) -> impl Iterator<Item = CellEvent> {
        let mut gangs: Vec<&PlacedGang> = self.cells.gangs.all().collect();
        gangs.retain(|running| running.mode != AllocationMode::Preempting);
        gangs.sort_by_key(|running| {
            let in_quota = running.mode == AllocationMode::Guaranteed;
            (!in_quota, -running.gang.priority, running.seq)
        });
        gangs.into_iter().flat_map(|running| {
            let id = running.gang.id;
            let adopted = CellEvent::Adopted {
                gang: running.gang.clone(),
                placement: running.placement.clone(),
            };
            let pods = running.alive.iter().zip(&running.placement.pods);
            let is_ended = |(alive, leaves): &(&bool, &Vec<u32>)| !**alive && !leaves.is_empty();
            let ended = (0..).zip(pods).filter(move |(_, pod)| is_ended(pod));
            let ended = ended.map(move |(pod, _)| CellEvent::PodEnded { gang: id, pod });
            std::iter::once(adopted).chain(ended)
        })
    }

    /// Every gang is where it was. It keeps its cluster's quota, unless quota cells have to be
    /// exchanged for that: which were bound to its leaves nobody knows any more.
    fn check_adopted(&mut self, before: &Cells) -> Result<(), String> {
        for running in before.gangs.all() {
            if running.mode == AllocationMode::Preempting {
                continue;
            }
            let id = running.gang.id;
            let pods = running.alive.iter().zip(&running.placement.pods);
            let runs = |(alive, leaves): (&bool, &Vec<u32>)| *alive && !leaves.is_empty();
            let Some(now) = self.cells.gangs.by_id(id) else {
                match pods.into_iter().any(runs) {
                    true => return Err(format!("{id} is not adopted")),
                    // The machines of what was left of it are gone.
                    false => continue,
                }
            };
            if now.placement != running.placement || !same_pods_run(now, running) {
                return Err(format!("{id} is not where it was"));
            }
            if running.mode != AllocationMode::Guaranteed || now.mode == AllocationMode::Guaranteed
            {
                continue;
            }
            self.tally.lost += 1;
            let mut leaves = running.placement.leaves();
            let is_home = |leaf| before.chains[before.chain_of(leaf)].away.is_empty();
            if self.cells.bins == Bins::Merged && leaves.all(is_home) {
                return Err(format!("{id} lost its quota when it was adopted"));
            }
        }
        Ok(())
    }
}

fn same_pods_run(a: &PlacedGang, b: &PlacedGang) -> bool {
    let pods = a.alive.iter().zip(&b.alive).zip(&a.placement.pods);
    let differs = |((a, b), leaves): ((&bool, &bool), &Vec<u32>)| a != b && !leaves.is_empty();
    !pods.into_iter().any(differs)
}
