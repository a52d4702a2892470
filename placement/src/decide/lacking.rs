//! What a gang that waits lacks: where the fewest leaves have to come free for it, and which.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::time::Time;

use super::DecisionPolicy;
use super::case::GangCase;
use super::cheapest::WaitableLeaves;
use super::groups::split;
use super::refuse::{chains, pools};
use crate::cells::{Cells, PlacedGang};
use crate::gang::{Gang, Leaf, Placement};
use crate::index::{ViewFrame, at};

/// The cheapest place.
#[derive(Clone, Debug)]
pub(crate) struct CheapestPlace {
    pub(crate) placement: Placement,
    /// Leaves of it that have to come free first.
    pub(crate) lacking: BTreeSet<Leaf>,
}

/// Where the fewest leaves have to come free for a gang; none if it fits nowhere even then. Each
/// leaf type's members are looked at by themselves, in one chain.
pub(crate) fn cheapest(
    cells: &Cells,
    gang: &Gang,
    policy: &DecisionPolicy,
    now: Time,
) -> Option<CheapestPlace> {
    let mut placement = Placement::default();
    placement.pods.resize(gang.sizes().len(), Vec::new());
    let mut lacking = BTreeSet::new();
    for (gang, pods) in groups(gang) {
        let case = GangCase::new(cells, &gang, policy, now);
        let taken: BTreeSet<Leaf> = placement.leaves().collect();
        let ways = grounds(&case)
            .into_values()
            .flatten()
            .filter_map(|ground| without(ground, &taken).cheapest(&case.need));
        let (_, way) = ways.min_by_key(|way| way.0)?;
        lacking.extend(way.leaves().filter(|leaf| is_taken(&case, *leaf)));
        for (pod, leaves) in pods.into_iter().zip(way.pods) {
            placement.pods[pod] = leaves;
        }
    }
    Some(CheapestPlace { placement, lacking })
}

/// Whether so many leaves are free for a gang, together or not.
pub(crate) fn has_enough(cells: &Cells, gang: &Gang, policy: &DecisionPolicy, now: Time) -> bool {
    groups(gang).into_iter().all(|(gang, _)| {
        let case = GangCase::new(cells, &gang, policy, now);
        let mut supplies = grounds(&case).into_values();
        supplies.any(|grounds| free(&grounds) >= gang.leaves())
    })
}

fn free(grounds: &[WaitableLeaves]) -> u64 {
    let masks = grounds.iter().flat_map(|ground| &ground.free);
    masks.map(|mask| u64::from(mask.count_ones())).sum()
}

fn groups(gang: &Gang) -> Vec<(Gang, Vec<usize>)> {
    match split(gang) {
        Some(groups) => groups.into_iter().map(|g| (g.gang, g.pods)).collect(),
        None => vec![(gang.clone(), (0..gang.sizes().len()).collect())],
    }
}

/// The pools or chains that a gang may use, together where it may lie in several.
fn grounds(case: &GangCase<'_>) -> BTreeMap<(String, usize), Vec<WaitableLeaves>> {
    let cells = case.cells;
    let mut grounds: BTreeMap<(String, usize), Vec<WaitableLeaves>> = BTreeMap::new();
    let mut add = |chain: usize, ground: WaitableLeaves, spans: bool| {
        let leaf_type = cells.chains[chain].shape.types[0].clone();
        let key = (leaf_type, if spans { 0 } else { chain });
        grounds.entry(key).or_default().push(ground);
    };
    if case.gang.is_opportunistic() {
        for chain in chains(cells, case.gang.leaf_type()) {
            add(chain, ground(case, chain, None), false);
        }
    } else {
        for pool in pools(cells, case.gang) {
            let chain = cells.pools[at(pool)].chain;
            add(
                chain,
                ground(case, chain, Some(pool)),
                case.policy.span_chains,
            );
        }
    }
    grounds
}

fn ground(case: &GangCase<'_>, chain: usize, pool: Option<u32>) -> WaitableLeaves {
    let cells = case.cells;
    let frame: &Arc<ViewFrame> = match pool {
        Some(pool) => &cells.pools[at(pool)].claimable.frame,
        None => &cells.chains[chain].free.frame,
    };
    let mut ground = WaitableLeaves {
        racks: cells.chains[chain].free.racks.clone(),
        frame: Arc::clone(frame),
        leaf_base: cells.chains[chain].leaf_base,
        free: vec![0; at(frame.bins)],
        busy: vec![0; at(frame.bins)],
    };
    for local in 0..frame.shape.leaves() {
        let leaf = ground.leaf_base + local;
        let own = pool.is_none_or(|pool| cells.quota_of(leaf).is_some_and(|q| q.pool == pool));
        if own && cells.usable(leaf) {
            let (bin, bit) = frame.bin_of(local);
            match is_taken(case, leaf) {
                true => ground.busy[bin] |= bit,
                false => ground.free[bin] |= bit,
            }
        }
    }
    ground
}

/// Whether somebody has a leaf, or claims it, who need not give it up for the gang.
fn is_taken(case: &GangCase<'_>, leaf: Leaf) -> bool {
    let leaves = &case.cells.leaves;
    let slots = [leaves.holder[at(leaf)], leaves.claim[at(leaf)]];
    let stays = |running: &PlacedGang| !case.may_evict(running);
    let mut gangs = slots
        .into_iter()
        .filter_map(|slot| case.cells.gangs.get(slot));
    gangs.any(stays)
}

fn without(mut ground: WaitableLeaves, leaves: &BTreeSet<Leaf>) -> WaitableLeaves {
    let chain = ground.leaf_base..ground.leaf_base + ground.frame.shape.leaves();
    for leaf in leaves.range(chain) {
        let (bin, bit) = ground.frame.bin_of(leaf - ground.leaf_base);
        ground.free[bin] &= !bit;
        ground.busy[bin] &= !bit;
    }
    ground
}
