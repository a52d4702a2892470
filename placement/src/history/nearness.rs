//! What members required of each other's places, by arithmetic on leaves.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::Level;

use super::HistoryRun;
use crate::cells::{Bins, Cells};
use crate::gang::{Gang, GangMember, Grant, Leaf, Placement};

/// Whether any member requires nearness.
pub(super) fn is_asked(gang: &Gang) -> bool {
    let mut levels = gang.members.iter().filter_map(required);
    levels.next().is_some()
}

fn required(member: &GangMember) -> Option<Level> {
    let near = member.near.filter(|near| near.required);
    near.map(|near| near.level)
}

/// Every member got what it required.
pub(super) fn check(cells: &Cells, gang: &Gang, placement: &Placement) -> Result<(), String> {
    let mut pods = placement.pods.iter();
    for member in &gang.members {
        let own: Vec<&Vec<Leaf>> = pods.by_ref().take(member.pods as usize).collect();
        let Some(level) = required(member) else {
            continue;
        };
        let groups: Vec<Vec<Leaf>> = match level {
            Level::Pcie | Level::Nvlink | Level::Numa => own.into_iter().cloned().collect(),
            Level::Node | Level::Rack => vec![own.into_iter().flatten().copied().collect()],
        };
        for leaves in groups {
            let mut places = leaves.iter().map(|leaf| place(cells, *leaf, level));
            let first = places.next().flatten();
            if first.is_none() || places.any(|place| place != first) {
                return Err(format!("{leaves:?} are not in one cell of level {level}"));
            }
        }
    }
    Ok(())
}

/// The cell or the group of a level that a leaf is in: its chain and its first leaf.
fn place(cells: &Cells, leaf: Leaf, level: Level) -> Option<(usize, u32)> {
    let (chain, local) = cells.local(leaf);
    let shape = &cells.chains[chain].shape;
    if let Some(own) = shape.levels.iter().position(|own| *own == Some(level)) {
        return Some((chain, local - local % shape.size[own]));
    }
    if level == Level::Rack {
        return told_rack(cells, leaf);
    }
    let groups = shape.uneven.iter().find(|groups| groups.level == level)?;
    let on_machine = local % shape.size[shape.node];
    let mut starts = groups.starts.iter().rev();
    let start = starts.find(|start| **start <= on_machine)?;
    Some((chain, local - on_machine + start))
}

/// Whether told racks count in a chain: it has no cells of that level.
fn has_told(cells: &Cells, chain: usize) -> bool {
    !cells.chains[chain]
        .shape
        .levels
        .contains(&Some(Level::Rack))
}

/// The machines of one told rack have the first of them in common; one without is alone. None if no machine of the
/// chain was told.
fn told_rack(cells: &Cells, leaf: Leaf) -> Option<(usize, u32)> {
    let chain = cells.chain_of(leaf);
    let name = |leaf: Leaf| cells.address(leaf).0;
    let rack = |leaf: Leaf| cells.rack(name(leaf));
    let mut all = (0..cells.leaf_count()).filter(|other| cells.chain_of(*other) == chain);
    all.clone().find_map(rack)?;
    let is_with = |other: &Leaf| match rack(leaf) {
        Some(own) => rack(*other) == Some(own),
        None => name(*other) == name(leaf),
    };
    Some((chain, all.find(is_with)?))
}

impl HistoryRun {
    /// A gang of alike pods that asks for no nearness lies in one told rack if one has room for it on idle leaves.
    pub(super) fn check_racks(&self, gang: &Gang, grant: &Grant) -> Result<(), String> {
        let cells = &self.cells;
        let ([member], Some(first)) = (&gang.members[..], grant.placement.leaves().next()) else {
            return Ok(());
        };
        let (chain, is_plain) = (
            cells.chain_of(first),
            member.near.is_none() && !gang.has_shares(),
        );
        // An exchange, and a cell that is kept whole for somebody, come before nearness.
        let is_free = grant.swaps.is_empty() && cells.chains[chain].bad == 0;
        let is_idle = grant.placement.leaves().all(|leaf| cells.is_unused(leaf));
        let is_one = gang.is_opportunistic() || cells.bins == Bins::PerQuotaCell;
        if !is_plain || !is_free || !is_idle || is_one || !has_told(cells, chain) {
            return Ok(());
        }
        let racks = grant.placement.leaves().map(|leaf| told_rack(cells, leaf));
        if racks.collect::<BTreeSet<_>>().len() < 2 {
            return Ok(());
        }
        let mut free: BTreeMap<(usize, u32), BTreeMap<u32, u32>> = BTreeMap::new();
        for leaf in (0..cells.leaf_count()).filter(|leaf| cells.chain_of(*leaf) == chain) {
            let is_own =
                cells.usable(leaf) && cells.is_unused(leaf) && cells.is_promised(gang, leaf);
            if let (true, Some(rack)) = (is_own, told_rack(cells, leaf)) {
                *free
                    .entry(rack)
                    .or_default()
                    .entry(cells.node_of(leaf))
                    .or_default() += 1;
            }
        }
        let pods =
            |rack: &BTreeMap<u32, u32>| rack.values().map(|free| free / member.leaves).sum::<u32>();
        match free.values().any(|rack| pods(rack) >= member.pods) {
            true => Err("lies in several racks although one has room for it".to_owned()),
            false => Ok(()),
        }
    }

    /// Whether a gang of one member fits as near as it requires on leaves of one chain.
    pub(super) fn fits_near(
        &self,
        gang: &Gang,
        member: &GangMember,
        room: &dyn Fn(Leaf) -> bool,
    ) -> bool {
        let Some(level) = required(member) else {
            return false;
        };
        let cells = &self.cells;
        // Free leaves of each cell in which a pod must lie, by the cell in which all must lie.
        let mut free: BTreeMap<(usize, u32), BTreeMap<(usize, u32), u32>> = BTreeMap::new();
        for leaf in (0..cells.leaf_count()).filter(|leaf| room(*leaf)) {
            let is_own = gang.is_opportunistic() || cells.is_promised(gang, leaf);
            let is_type = member.leaf_type.is_empty() || cells.leaf_type(leaf) == member.leaf_type;
            let (pod, all) = match level.is_inside_node() {
                true => (level, None),
                false => (Level::Node, Some(level)),
            };
            let chain = (cells.chain_of(leaf), 0);
            let all = all.map_or(Some(chain), |level| place(cells, leaf, level));
            if let (true, true, Some(pod), Some(all)) =
                (is_own, is_type, place(cells, leaf, pod), all)
            {
                *free.entry(all).or_default().entry(pod).or_default() += 1;
            }
        }
        let fit = |parts: &BTreeMap<_, u32>| parts.values().map(|f| f / member.leaves).sum::<u32>();
        free.values().any(|parts| fit(parts) >= member.pods)
    }
}
