//! What members required of each other's places, by arithmetic on leaves.

use std::collections::BTreeMap;

use muster_model::cluster_spec::Level;

use super::HistoryRun;
use crate::cells::Cells;
use crate::gang::{Gang, GangMember, Leaf, Placement};

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
    let groups = shape.uneven.iter().find(|groups| groups.level == level)?;
    let on_machine = local % shape.size[shape.node];
    let mut starts = groups.starts.iter().rev();
    let start = starts.find(|start| **start <= on_machine)?;
    Some((chain, local - on_machine + start))
}

impl HistoryRun {
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
