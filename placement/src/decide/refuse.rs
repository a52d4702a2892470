//! What can never start, whatever ends.

use super::{Policy, Refusal};
use crate::cells::Cells;
use crate::gang::{Gang, OPPORTUNISTIC, PODS_MAX, PRIORITY_MAX};
use crate::index::at;

pub(super) fn check(cells: &Cells, gang: &Gang, policy: &Policy) -> Result<(), Refusal> {
    let Some(vc) = cells.vcs.get(&gang.vc) else {
        return Err(Refusal::NoSuchVc(gang.vc.clone()));
    };
    if !(OPPORTUNISTIC..=PRIORITY_MAX).contains(&gang.priority) {
        return Err(Refusal::Priority(gang.priority));
    }
    members(gang)?;
    if !gang.pinned.is_empty() {
        if gang.is_opportunistic() {
            return Err(Refusal::PinnedOpportunistic(gang.pinned.clone()));
        }
        if !vc.pinned.contains_key(&gang.pinned) {
            return Err(Refusal::NoSuchPinnedCell {
                vc: gang.vc.clone(),
                pinned: gang.pinned.clone(),
            });
        }
    }
    leaf_type(cells, gang)?;
    oversize(cells, gang, policy)
}

fn members(gang: &Gang) -> Result<(), Refusal> {
    let nothing = |member: &crate::gang::GangMember| member.pods == 0 || member.leaves == 0;
    if let Some(number) = gang.members.iter().position(nothing) {
        return Err(Refusal::Nothing(number));
    }
    let pods = gang.pods();
    if gang.members.is_empty() {
        return Err(Refusal::Nothing(0));
    }
    if pods > u64::from(PODS_MAX) || gang.leaves() > u64::from(u32::MAX) {
        return Err(Refusal::Pods(pods));
    }
    Ok(())
}

fn leaf_type(cells: &Cells, gang: &Gang) -> Result<(), Refusal> {
    let known = match gang.is_opportunistic() {
        true => !chains(cells, &gang.leaf_type).is_empty(),
        false => gang.leaf_type.is_empty() || !pools(cells, gang).is_empty(),
    };
    if known {
        return Ok(());
    }
    Err(Refusal::LeafType {
        leaf_type: gang.leaf_type.clone(),
        whose: match gang.is_opportunistic() {
            true => "is in the cluster".to_owned(),
            false => format!("is promised to virtual cluster {} there", gang.vc),
        },
    })
}

fn oversize(cells: &Cells, gang: &Gang, policy: &Policy) -> Result<(), Refusal> {
    if !policy.refuse_oversize || gang.is_opportunistic() {
        return Ok(());
    }
    let pools = pools(cells, gang);
    let promised = pools
        .iter()
        .map(|pool| cells.pools[at(*pool)].promised)
        .sum();
    let asked = gang.leaves();
    if asked <= promised {
        return Ok(());
    }
    Err(Refusal::Oversize {
        asked,
        vc: gang.vc.clone(),
        promised,
    })
}

/// The pools a guaranteed gang may use, chain by chain; in a chain the smallest bins first, so
/// that whole machines are kept for who needs them.
pub(super) fn pools(cells: &Cells, gang: &Gang) -> Vec<u32> {
    let Some(vc) = cells.vcs.get(&gang.vc) else {
        return Vec::new();
    };
    let mut pools = match vc.pinned.get(&gang.pinned) {
        Some(pool) => vec![*pool],
        None => vc.pools.clone(),
    };
    let is_type = |pool: &u32| {
        let leaf = &cells.chains[cells.pools[at(*pool)].chain].shape.types[0];
        gang.leaf_type.is_empty() || *leaf == gang.leaf_type
    };
    pools.retain(is_type);
    pools.sort_by_key(|pool| {
        let pool = &cells.pools[at(*pool)];
        (pool.chain, pool.free.frame.bin)
    });
    pools
}

/// The chains of a leaf type, or all of them.
pub(super) fn chains(cells: &Cells, leaf_type: &str) -> Vec<usize> {
    let is_type = |chain: &usize| {
        let leaf = &cells.chains[*chain].shape.types[0];
        leaf_type.is_empty() || leaf == leaf_type
    };
    (0..cells.chains.len()).filter(is_type).collect()
}
