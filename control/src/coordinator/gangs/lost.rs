//! Members of a gang that is placed and that cannot start where they are.

use std::collections::BTreeSet;

use muster_model::exit::{Behavior, Verdict};
use muster_model::id::NodeId;
use muster_model::job::NearSpec;
use muster_model::launch::TaskPlacement;
use muster_model::time::Time;

use super::link::GangLink;
use super::work::{Relocation, RunWork};
use crate::coordinator::context::Context;
use crate::coordinator::liveness::Liveness;
use crate::coordinator::nodes::ReportedNodes;
use crate::coordinator::places::member_of;
use crate::order::RunMember;
use crate::vc::{Current, some_of};
use crate::verdict::{EXIT_NOT_CREATED, EXIT_PREEMPTED};

/// On so many nodes members may fail to be launched and get other places. Then it is not the machines'
/// fault, and the attempt ends with what they say.
const FAILED_NODES_MAX: usize = 3;

/// Whether a gang has members that cannot start where they are.
pub(super) enum LostMembers {
    /// It has none.
    Nobody,
    /// It has; it is to be looked at again then.
    Until(Option<Time>),
}

/// A member that cannot start where it is.
#[derive(Clone, Debug)]
pub(super) struct LostMember {
    /// Its number among the gang's tasks.
    pub(super) pod: usize,
    pub(super) node: NodeId,
    pub(super) member: RunMember,
    why: Why,
}

/// Why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// The mesh does not reach its node.
    Unreachable,
    /// Its node does not answer this leader.
    Silent,
    /// Its node has no place for it any more.
    Gone,
    /// Its node could not launch it.
    Failed { code: i32, phrase: String },
}

impl LostMember {
    fn reason(&self) -> String {
        let node = &self.node;
        match &self.why {
            Why::Unreachable => format!("{node} cannot be reached"),
            Why::Silent => format!("{node} does not answer"),
            Why::Gone => format!("{node} no longer had the reservation"),
            Why::Failed { code, phrase } => {
                format!("{node} could not launch it: {phrase}, exit code {code}")
            }
        }
    }

    /// Whether it may come to be well without anybody's doing.
    pub(super) const fn may_be_back(&self) -> bool {
        matches!(self.why, Why::Unreachable | Why::Silent)
    }

    /// Whether its node could not launch it.
    pub(super) const fn has_failed(&self) -> bool {
        matches!(self.why, Why::Failed { .. })
    }
}

/// Where it is seen which members are lost.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct LivenessView<'a> {
    pub(in crate::coordinator) context: Context<'a>,
    pub(in crate::coordinator) nodes: &'a ReportedNodes,
    pub(in crate::coordinator) liveness: &'a Liveness,
}

impl LivenessView<'_> {
    /// The members of a gang that cannot start where they are.
    pub(super) fn lost(&self, work: &RunWork, current: &Current<'_>) -> Vec<LostMember> {
        let tasks = current.job.attempt.tasks_of(current.gang).enumerate();
        let places = tasks.filter_map(|(pod, task)| Some((pod, task.live()?)));
        let lost = places.filter_map(|(pod, place)| {
            Some(LostMember {
                pod,
                node: place.node.clone(),
                member: member_of(place),
                why: self.why_lost(current, work, place)?,
            })
        });
        lost.collect()
    }

    /// Asked of every member with every look at the gang: most are well, and that must cost little.
    fn why_lost(
        &self,
        current: &Current<'_>,
        work: &RunWork,
        place: &TaskPlacement,
    ) -> Option<Why> {
        if work.gone.contains(&place.uid) {
            return Some(Why::Gone);
        }
        let link = work.links.get(&place.node)?;
        if let Some(verdict) = link.end_of(&place.uid) {
            let failed = || Why::Failed {
                code: verdict.code(),
                phrase: verdict.spec.phrase.clone(),
            };
            return may_start_elsewhere(current, work, &place.node, verdict).then(failed);
        }
        if self.context.is_recovered() {
            // That it was started may be among what was lost.
            return None;
        }
        if self.liveness.is_unreachable(&place.node) {
            return Some(Why::Unreachable);
        }
        self.is_mute(&place.node, link).then_some(Why::Silent)
    }

    /// Whether a node let this order wait for too long and has not been heard since, or never was.
    pub(super) fn is_mute(&self, node: &NodeId, link: &GangLink) -> bool {
        link.is_silent() && (self.nodes.mute().contains(node) || !self.nodes.contains(node))
    }
}

/// Whether a task that ended before Go is placed elsewhere, and its end is of no other matter.
pub(super) fn may_start_elsewhere(
    current: &Current<'_>,
    work: &RunWork,
    node: &NodeId,
    verdict: &Verdict,
) -> bool {
    may_be_of_machine(verdict)
        && verdict.code() != EXIT_PREEMPTED
        && (work.shunned.contains(node) || work.shunned.keys().count() < FAILED_NODES_MAX)
        && may_relocate(current)
        && work.relocation != Relocation::GivenUp
}

/// Whether another machine may launch what this one could not. Where an engine's refusal does not say whose
/// fault it is, other machines tell: what none of them can make is the user's.
fn may_be_of_machine(verdict: &Verdict) -> bool {
    match verdict.spec.behavior {
        Behavior::Transient | Behavior::TransientConflict => true,
        Behavior::Unknown => verdict.code() == EXIT_NOT_CREATED,
        Behavior::Permanent => false,
    }
}

/// Whether members can have other places alone. Tasks that are to be near each other are placed together.
pub(super) fn may_relocate(current: &Current<'_>) -> bool {
    let mut roles = current.job.accepted.spec.roles.iter();
    let is_apart = |near: NearSpec| near.level.is_inside_node();
    current.next_round().is_some() && roles.all(|role| role.near.is_none_or(is_apart))
}

/// Why they cannot start, each reason once.
pub(super) fn reasons(lost: &[LostMember]) -> String {
    let reasons: BTreeSet<String> = lost.iter().map(LostMember::reason).collect();
    some_of(reasons.into_iter(), "; ")
}
