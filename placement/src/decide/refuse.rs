//! What can never start, whatever ends.

use super::groups::split;
use super::{DecisionPolicy, GangRefusal, near};
use crate::amount::Resource;
use crate::cells::{Cells, Sum};
use crate::gang::{Gang, GangMember, OPPORTUNISTIC, PODS_MAX, PRIORITY_MAX};
use crate::index::at;

pub(super) fn check(
    cells: &Cells,
    gang: &Gang,
    policy: &DecisionPolicy,
) -> Result<(), GangRefusal> {
    let Some(vc) = cells.vcs.get(&gang.vc) else {
        return Err(GangRefusal::NoSuchVc(gang.vc.clone()));
    };
    if !(OPPORTUNISTIC..=PRIORITY_MAX).contains(&gang.priority) {
        return Err(GangRefusal::Priority(gang.priority));
    }
    members(gang)?;
    if !gang.pinned.is_empty() {
        if gang.is_opportunistic() {
            return Err(GangRefusal::PinnedOpportunistic(gang.pinned.clone()));
        }
        if !vc.pinned.contains_key(&gang.pinned) {
            return Err(GangRefusal::NoSuchPinnedCell {
                vc: gang.vc.clone(),
                pinned: gang.pinned.clone(),
            });
        }
    }
    let Some(groups) = split(gang) else {
        return group(cells, gang, policy);
    };
    let mut groups = groups.iter();
    groups.try_for_each(|part| group(cells, &part.gang, policy))
}

/// What is refused of members of one leaf type.
fn group(cells: &Cells, gang: &Gang, policy: &DecisionPolicy) -> Result<(), GangRefusal> {
    let pools = match gang.is_opportunistic() {
        true => Vec::new(),
        false => pools(cells, gang),
    };
    leaf_type(cells, gang, &pools)?;
    near::refuse(cells, gang)?;
    oversize(cells, gang, policy, &pools)?;
    if gang.has_shares() {
        machines(cells, gang, &pools)?;
    }
    Ok(())
}

/// More than the largest machine has, or all of them together.
fn machines(cells: &Cells, gang: &Gang, pools: &[u32]) -> Result<(), GangRefusal> {
    let mut chains = match gang.is_opportunistic() {
        true => chains(cells, gang.leaf_type()),
        false => {
            let chain = |pool: &u32| cells.pools[at(*pool)].chain;
            pools.iter().map(chain).collect()
        }
    };
    chains.dedup();
    let stocks = || chains.iter().map(|chain| &cells.chains[*chain].stock);
    if stocks().any(|stock| stock.unstated > 0) {
        return Ok(());
    }
    let mut sum = Sum::default();
    gang.shares().for_each(|share| sum.add(share));
    for what in Resource::ALL {
        let largest = stocks().map(|stock| stock.largest(what)).max().unwrap_or(0);
        let asked = gang.members.iter().map(|member| member.share.of(what));
        let asked = asked.max().unwrap_or(0);
        if asked > largest {
            return Err(GangRefusal::Machine {
                what,
                asked,
                largest,
            });
        }
        let all = stocks().fold(Sum::default(), |all, stock| all.plus(stock.sum));
        let all = all.of(what);
        let asked = sum.of(what);
        if asked > all {
            return Err(GangRefusal::Machines { what, asked, all });
        }
    }
    Ok(())
}

fn members(gang: &Gang) -> Result<(), GangRefusal> {
    let nothing = |member: &crate::gang::GangMember| member.pods == 0 || member.leaves == 0;
    if let Some(number) = gang.members.iter().position(nothing) {
        return Err(GangRefusal::Nothing(number));
    }
    let pods = gang.pods();
    if gang.members.is_empty() {
        return Err(GangRefusal::Nothing(0));
    }
    if pods > u64::from(PODS_MAX) || gang.leaves() > u64::from(u32::MAX) {
        return Err(GangRefusal::Pods(pods));
    }
    Ok(())
}

fn leaf_type(cells: &Cells, gang: &Gang, pools: &[u32]) -> Result<(), GangRefusal> {
    let known = match gang.is_opportunistic() {
        true => !chains(cells, gang.leaf_type()).is_empty(),
        false => gang.leaf_type().is_empty() || !pools.is_empty(),
    };
    if known {
        return Ok(());
    }
    Err(GangRefusal::LeafType {
        leaf_type: gang.leaf_type().to_owned(),
        whose: match gang.is_opportunistic() {
            true => "is in the cluster".to_owned(),
            false => format!("is promised to virtual cluster {} there", gang.vc),
        },
    })
}

fn oversize(
    cells: &Cells,
    gang: &Gang,
    policy: &DecisionPolicy,
    pools: &[u32],
) -> Result<(), GangRefusal> {
    if !policy.refuse_oversize || gang.is_opportunistic() {
        return Ok(());
    }
    let promised = pools
        .iter()
        .map(|pool| cells.pools[at(*pool)].promised)
        .sum();
    let asked = gang.leaves();
    let what = match gang.leaf_type() {
        "" => "devices".to_owned(),
        leaf_type => format!("{leaf_type} cells"),
    };
    if asked > promised {
        let vc = gang.vc.clone();
        return Err(GangRefusal::Oversize {
            asked,
            what,
            vc,
            promised,
        });
    }
    let bins = pools
        .iter()
        .map(|pool| cells.pools[at(*pool)].claimable.frame.bin_size);
    let (asked, largest) = (gang.sizes().into_iter().max(), bins.max());
    match (asked, largest) {
        (Some(asked), Some(largest)) if asked > largest => Err(GangRefusal::Node {
            asked,
            what,
            largest,
        }),
        _ => Ok(()),
    }
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
    pools.retain(|pool| cells.chains[cells.pools[at(*pool)].chain].serves(gang.leaf_type()));
    pools.sort_by_key(|pool| {
        let pool = &cells.pools[at(*pool)];
        (pool.chain, pool.free.frame.bin)
    });
    pools
}

/// The chains of a leaf type, or all of them.
pub(super) fn chains(cells: &Cells, leaf_type: &str) -> Vec<usize> {
    let chains = 0..cells.chains.len();
    chains
        .filter(|chain| cells.chains[*chain].serves(leaf_type))
        .collect()
}

/// The chains that pods of a member may lie in.
pub(super) fn chains_of(cells: &Cells, gang: &Gang, member: &GangMember) -> Vec<usize> {
    let all = chains(cells, &member.leaf_type);
    if gang.is_opportunistic() {
        return all;
    }
    let promised = |pool: &crate::cells::Pool, chain: usize| {
        pool.chain == chain && pool.vc == gang.vc && pool.pinned == gang.pinned
    };
    let has = |chain: &usize| cells.pools.iter().any(|pool| promised(pool, *chain));
    all.into_iter().filter(has).collect()
}
