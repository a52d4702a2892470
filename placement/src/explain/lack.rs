//! What still has to come free for a gang, and who holds it.

use std::collections::BTreeMap;

use muster_model::time::Time;

use super::{Constraint, ExplainCase};
use crate::cells::Cells;
use crate::decide::lacking::{CheapestPlace, cheapest};
use crate::decide::{Decision, WaitReason, demands_rack};
use crate::gang::{GangNumber, Leaf, Placement};
use crate::index::at;

/// Leaves of one machine that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLeaves {
    /// The machine.
    pub node: String,
    /// The leaves' type, or the resource of the machine.
    pub what: String,
    /// How many of them the gang would have there.
    pub wanted: u64,
    /// How many of those are not free.
    pub missing: u64,
    /// The rack that the machine stands in, if the gang demands one.
    pub rack: Option<String>,
}

/// Who holds what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangHolder {
    /// The gang.
    pub gang: GangNumber,
    /// How many of the missing leaves it holds.
    pub leaves: u32,
    /// When it says that it will have ended.
    pub ends_by: Option<Time>,
}

/// What is missing, where the fewest leaves have to come free, and who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// By machine.
    pub lacks: Vec<MissingLeaves>,
    /// By gang, who holds most first.
    pub holders: Vec<GangHolder>,
}

pub(super) fn find(case: &ExplainCase<'_>, constraint: &Constraint) -> Lacking {
    match constraint {
        Constraint::Refused(_)
        | Constraint::TooLarge
        | Constraint::Turn(_)
        | Constraint::Kept(_) => Lacking::default(),
        Constraint::Hardware { alone: true, .. } => Lacking::default(),
        Constraint::GivingWay(victims) => held_by(case.cells, victims),
        Constraint::Machines => machines(case),
        _ => match cheapest(case.cells, case.gang, case.policy, case.now) {
            Some(place) => missing(case, &place),
            None => Lacking::default(),
        },
    }
}

/// By machine, and by who holds or claims exactly the leaves that are missing.
fn missing(case: &ExplainCase<'_>, place: &CheapestPlace) -> Lacking {
    let cells = case.cells;
    let is_in_rack = case.gang.members.iter().any(demands_rack);
    let rack = |node: &str| cells.rack(node).filter(|_| is_in_rack).map(str::to_owned);
    let mut lacks: BTreeMap<(&str, &str), MissingLeaves> = BTreeMap::new();
    for leaf in place.placement.leaves() {
        let (node, what) = (cells.address(leaf).0, cells.leaf_type(leaf));
        let lack = lacks.entry((node, what)).or_insert_with(|| MissingLeaves {
            node: node.to_owned(),
            what: what.to_owned(),
            wanted: 0,
            missing: 0,
            rack: rack(node),
        });
        lack.wanted += 1;
        lack.missing += u64::from(place.lacking.contains(&leaf));
    }
    let lacks = lacks.into_values().filter(|lack| lack.missing > 0);
    let mut holders = BTreeMap::new();
    for leaf in &place.lacking {
        let leaves = &cells.leaves;
        let slots = [leaves.holder[at(*leaf)], leaves.claim[at(*leaf)]];
        for running in slots.into_iter().filter_map(|slot| cells.gangs.get(slot)) {
            *holders.entry(running.gang.id).or_default() += 1;
        }
    }
    Lacking {
        lacks: lacks.collect(),
        holders: ranked(cells, holders),
    }
}

fn ranked(cells: &Cells, holders: BTreeMap<GangNumber, u32>) -> Vec<GangHolder> {
    let mut ranked: Vec<GangHolder> = holders
        .into_iter()
        .map(|(gang, leaves)| GangHolder {
            gang,
            leaves,
            ends_by: cells.gang(gang).and_then(|(gang, _, _)| gang.ends_by),
        })
        .collect();
    ranked.sort_by_key(|holder| (std::cmp::Reverse(holder.leaves), holder.gang));
    ranked
}

/// Gangs that were told to give way, with all they have.
fn held_by(cells: &Cells, gangs: &[GangNumber]) -> Lacking {
    let count = |gang: &GangNumber| {
        let placement = cells.gang(*gang)?.1;
        Some((*gang, crate::index::small(placement.leaves().count())))
    };
    let holders: BTreeMap<GangNumber, u32> = gangs.iter().filter_map(count).collect();
    Lacking {
        lacks: Vec::new(),
        holders: ranked(cells, holders),
    }
}

/// The machine that has most of what is missing, and who uses it there.
fn machines(case: &ExplainCase<'_>) -> Lacking {
    let Decision::Wait(WaitReason::Machine {
        what,
        asked,
        most_free,
        node,
        ..
    }) = case.decision()
    else {
        return Lacking::default();
    };
    let lack = MissingLeaves {
        node: node.clone(),
        what: what.name().to_owned(),
        wanted: asked,
        missing: asked.saturating_sub(most_free),
        rack: None,
    };
    let uses = |gang: &crate::gang::Gang, placement: &Placement| -> u32 {
        let there = |pod: &&Vec<Leaf>| {
            let first = pod.first();
            first.is_some_and(|leaf| case.cells.address(*leaf).0 == node)
        };
        let shares = gang.members.iter().any(|member| member.share.of(what) > 0);
        let pods = placement.pods.iter().filter(there);
        crate::index::small(if shares { pods.flatten().count() } else { 0 })
    };
    let users = case
        .cells
        .gangs()
        .map(|(gang, placement, _)| (gang.id, uses(gang, placement)));
    let users: BTreeMap<GangNumber, u32> = users.filter(|user| user.1 > 0).collect();
    Lacking {
        lacks: vec![lack],
        holders: ranked(case.cells, users),
    }
}
