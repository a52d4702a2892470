//! Gangs whose members ask for different leaf types: each type is decided by itself, and all of
//! them start or none.
//!
//! Leaves of different types lie in different chains, so the parts meet only in gangs that lie in
//! several chains and on machines that are in several. Members that take any type come last,
//! around the others.

use std::collections::BTreeSet;

use muster_model::time::Time;

use super::case::GangCase;
use super::need::Need;
use super::{Decision, DecisionPolicy, evict, guaranteed, opportunistic, refuse};
use crate::cells::{AllocationMode, CellEvent, Cells};
use crate::gang::{Gang, GangNumber, Grant, Leaf, Placement, Swap};

/// Victims that are tried to be spared one by one.
const PRUNED_MAX: usize = 64;

/// The members of a gang that ask for one leaf type.
pub(crate) struct LeafTypeGroup {
    /// As a gang of their own.
    pub(crate) gang: Gang,
    /// Their pods' numbers in the whole gang.
    pub(super) pods: Vec<usize>,
}

impl LeafTypeGroup {
    /// Whether its leaves may be of any type.
    pub(crate) fn takes_any(&self) -> bool {
        self.gang.leaf_type().is_empty()
    }
}

/// The groups of a gang, those of any type last; none if there is but one.
pub(crate) fn split(gang: &Gang) -> Option<Vec<LeafTypeGroup>> {
    let first = gang.leaf_type();
    if gang.members.iter().all(|member| member.leaf_type == first) {
        return None;
    }
    let types: BTreeSet<&str> = gang
        .members
        .iter()
        .map(|member| &*member.leaf_type)
        .collect();
    let mut types: Vec<&str> = types.into_iter().collect();
    types.sort_by_key(|name| name.is_empty());
    Some(types.into_iter().map(|name| group(gang, name)).collect())
}

fn group(gang: &Gang, leaf_type: &str) -> LeafTypeGroup {
    let (mut members, mut pods, mut next) = (Vec::new(), Vec::new(), 0);
    for member in &gang.members {
        let count = member.pods as usize;
        if member.leaf_type == leaf_type {
            members.push(member.clone());
            pods.extend(next..next + count);
        }
        next += count;
    }
    let gang = Gang {
        members,
        ..gang.clone()
    };
    LeafTypeGroup { gang, pods }
}

/// What becomes of the groups together: those whose leaves are scarcest first, and the other way
/// round if machines have not enough for all that way.
pub(super) fn decide(
    cells: &Cells,
    gang: &Gang,
    groups: &[LeafTypeGroup],
    policy: &DecisionPolicy,
    now: Time,
) -> Decision {
    let mut order: Vec<&LeafTypeGroup> = groups.iter().collect();
    order.sort_by_cached_key(|group| (group.takes_any(), leaves_of(cells, group)));
    let mut reversed = order.clone();
    reversed.reverse();
    reversed.sort_by_key(|group| group.takes_any());
    let joint = |order: &[&LeafTypeGroup]| {
        let joint = Joint {
            cells,
            gang,
            groups: order,
            policy,
            now,
        };
        joint.attempt(None).map(|parts| joint.spare(parts))
    };
    let mut best = joint(&order);
    let is_free = best.as_ref().is_ok_and(|parts| parts.victims.is_empty());
    if gang.has_shares() && !is_free {
        let other = joint(&reversed);
        let victims = |way: &Result<PartialDecision, Decision>| {
            let parts = way.as_ref().ok();
            parts.map_or(usize::MAX, |parts| parts.victims.len())
        };
        if victims(&other) < victims(&best) {
            best = other;
        }
    }
    match best {
        Ok(parts) => pruned(cells, gang, policy, now, parts.into_decision(gang)),
        Err(decision) => decision,
    }
}

/// Leaves those alone who were to go for a machine that has enough without that, once all
/// groups are placed.
fn pruned(
    cells: &Cells,
    gang: &Gang,
    policy: &DecisionPolicy,
    now: Time,
    mut decision: Decision,
) -> Decision {
    if let Decision::Preempt { victims, grant } = &mut decision {
        let case = GangCase::new(cells, gang, policy, now);
        evict::spare(&case, grant, victims);
    }
    match decision {
        Decision::Preempt { victims, grant } if victims.is_empty() => Decision::Place(grant),
        decision => decision,
    }
}

/// How many leaves of a group's type there are.
fn leaves_of(cells: &Cells, group: &LeafTypeGroup) -> u32 {
    let chains = refuse::chains(cells, group.gang.leaf_type()).into_iter();
    chains.map(|chain| cells.chains[chain].shape.leaves()).sum()
}

/// A gang in several groups.
struct Joint<'a> {
    cells: &'a Cells,
    gang: &'a Gang,
    /// In the order in which they are decided.
    groups: &'a [&'a LeafTypeGroup],
    policy: &'a DecisionPolicy,
    now: Time,
}

/// What is decided so far.
#[derive(Clone, Debug, Default)]
struct PartialDecision {
    /// Which pods of the gang go where.
    pods: Vec<(usize, Vec<Leaf>)>,
    swaps: Vec<Swap>,
    demoted: Vec<GangNumber>,
    victims: Vec<GangNumber>,
}

impl PartialDecision {
    fn join(&mut self, group: &LeafTypeGroup, grant: Grant, victims: Vec<GangNumber>) {
        let pods = group.pods.iter().copied();
        self.pods.extend(pods.zip(grant.placement.pods));
        self.swaps.extend(grant.swaps);
        self.demoted.extend(grant.demoted);
        self.victims.extend(victims);
        for gangs in [&mut self.demoted, &mut self.victims] {
            gangs.sort_unstable();
            gangs.dedup();
        }
    }

    fn into_decision(self, gang: &Gang) -> Decision {
        let mut placement = Placement::default();
        placement.pods.resize(gang.sizes().len(), Vec::new());
        for (pod, leaves) in self.pods {
            placement.pods[pod] = leaves;
        }
        let grant = Grant {
            placement,
            swaps: self.swaps,
            demoted: self.demoted,
        };
        let victims = self.victims;
        match victims.is_empty() {
            true => Decision::Place(grant),
            false => Decision::Preempt { victims, grant },
        }
    }
}

impl<'a> Joint<'a> {
    /// Decides group after group; only gangs in `only` lose anything of their cluster's quota.
    fn attempt(&self, only: Option<&BTreeSet<u32>>) -> Result<PartialDecision, Decision> {
        let mut parts = PartialDecision::default();
        for (number, group) in self.groups.iter().enumerate() {
            let decision = match group.takes_any() {
                true => self.around(number, &parts, only),
                false => self.beside(self.cells, number, only, &parts),
            };
            match decision {
                Decision::Place(grant) => parts.join(group, grant, Vec::new()),
                Decision::Preempt { victims, grant } => parts.join(group, grant, victims),
                other => return Err(other),
            }
        }
        Ok(parts)
    }

    /// A group whose leaves no other group asks for.
    fn beside(
        &self,
        cells: &'a Cells,
        number: usize,
        only: Option<&BTreeSet<u32>>,
        parts: &PartialDecision,
    ) -> Decision {
        let mut case = GangCase::new(cells, &self.groups[number].gang, self.policy, self.now);
        case.only = only;
        let mut rest = parts.pods.iter();
        for group in &self.groups[..number] {
            let pods = rest.by_ref().take(group.pods.len());
            let placement = Placement {
                pods: pods.map(|pod| pod.1.clone()).collect(),
            };
            case.limits.take(cells, &group.gang, &placement);
        }
        let losing = parts.victims.iter().chain(&parts.demoted);
        case.going = losing.filter_map(|id| cells.gangs.slot(*id)).collect();
        one(&case)
    }

    /// The group that takes any type: on a copy on which the others have what they get.
    fn around(
        &self,
        number: usize,
        parts: &PartialDecision,
        only: Option<&BTreeSet<u32>>,
    ) -> Decision {
        let mut cells = self.cells.clone();
        let before = self.groups[..number].iter();
        let members = before.clone().flat_map(|group| group.gang.members.clone());
        // Under a number of its own: what a gang claims itself would count as given back.
        let gang = Gang {
            id: GangNumber(u64::MAX),
            members: members.collect(),
            ..self.gang.clone()
        };
        let pods = parts.pods.iter().map(|pod| pod.1.clone());
        let grant = Grant {
            placement: Placement {
                pods: pods.collect(),
            },
            swaps: parts.swaps.clone(),
            demoted: parts.demoted.clone(),
        };
        let done = cells.apply(CellEvent::Preempting { gang, grant });
        debug_assert!(done.is_ok(), "a group cannot be applied: {done:?}");
        let mut case = GangCase::new(&cells, &self.groups[number].gang, self.policy, self.now);
        case.only = only;
        one(&case)
    }

    /// Leaves every gang alone that turns out not to be needed: one group's victims may make
    /// room for another, too.
    fn spare(&self, mut parts: PartialDecision) -> PartialDecision {
        for _ in 0..PRUNED_MAX {
            let losing = self.losing(&parts);
            if losing.len() < 2 {
                break;
            }
            let fewer = losing.iter().find_map(|slot| {
                let mut only = losing.clone();
                only.remove(slot);
                self.attempt(Some(&only)).ok()
            });
            match fewer {
                Some(fewer) => parts = fewer,
                None => break,
            }
        }
        parts
    }

    /// Who loses something of the cluster's quota, by slot.
    fn losing(&self, parts: &PartialDecision) -> BTreeSet<u32> {
        let gangs = &self.cells.gangs;
        let losing = parts.victims.iter().chain(&parts.demoted);
        let slots = losing.filter_map(|id| gangs.slot(*id));
        let in_quota = |slot: &u32| {
            gangs
                .get(*slot)
                .is_some_and(|g| g.mode == AllocationMode::Guaranteed)
        };
        slots.filter(in_quota).collect()
    }
}

/// What is kept for a gang that waits, group by group; nothing where one takes any type, since
/// that might be what is kept for another.
pub(crate) fn keep(cells: &Cells, gang: &Gang) -> Option<Placement> {
    let Some(groups) = split(gang) else {
        return super::keep::keep(cells, gang);
    };
    let mut parts = PartialDecision::default();
    for group in groups {
        if group.takes_any() {
            return None;
        }
        let placement = super::keep::keep(cells, &group.gang)?;
        let grant = Grant {
            placement,
            ..Grant::default()
        };
        parts.join(&group, grant, Vec::new());
    }
    match parts.into_decision(gang) {
        Decision::Place(grant) => Some(grant.placement),
        _ => None,
    }
}

/// One group, or a gang that is one. What its members would like is tried first, as long as it
/// costs nobody anything.
pub(super) fn one(case: &GangCase<'_>) -> Decision {
    let wanted = Need::wanted(case.gang).map(|need| case.needing(need));
    if let Some(wanted) = wanted
        && let Some(placed) = placed(find(&wanted))
    {
        return placed;
    }
    find(case)
}

/// A decision that costs nobody anything.
fn placed(decision: Decision) -> Option<Decision> {
    match &decision {
        Decision::Place(grant) if grant.demoted.is_empty() => Some(decision),
        _ => None,
    }
}

fn find(case: &GangCase<'_>) -> Decision {
    match case.gang.is_opportunistic() {
        true => opportunistic::decide(case),
        false => guaranteed::decide(case),
    }
}
