//! What a leader is doing about one run of a gang.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{AttemptUid, NodeId};
use muster_model::launch::TaskPlacement;
use muster_model::time::Time;

use super::link::GangLink;
use crate::gang::GangRun;
use crate::order::{ReserveAsk, RunMember, TaskStanding};
use crate::small_map::SmallMap;

/// A gang's run in the hands of its leader.
#[derive(Clone, Debug)]
pub(super) struct RunWork {
    pub(super) run: GangRun,
    pub(super) links: SmallMap<NodeId, GangLink>,
    pub(super) reserving: Option<Box<Reserving>>,
    pub(super) proposed: SmallMap<Proposal>,
    /// Whether other places are looked for, for members of it.
    pub(super) relocation: Relocation,
    /// Members that their nodes have no place for any more.
    pub(super) gone: SmallMap<AttemptUid>,
    /// Nodes where a member of it could not be launched.
    pub(super) shunned: SmallMap<NodeId>,
    /// Since when this leader has it launched.
    pub(super) launching_since: Option<Time>,
    /// Since when a task has been waiting for the rest.
    pub(super) ready_since: Option<Time>,
    /// When its time is over, if it has a limit.
    pub(super) run_ends: Option<Time>,
    /// Plans that nodes refused in a row.
    pub(super) refused: u32,
    /// Not to be planned again before.
    pub(super) retry_at: Time,
    pub(super) wake: Option<Time>,
}

/// A plan that is being reserved.
#[derive(Clone, Debug)]
pub(super) struct Reserving {
    /// Every task in the gang's order; ports come with the grants, but for who keeps its place.
    pub(super) members: Vec<TaskPlacement>,
    /// Who had another place in the round before, and why it has not any more; empty in the first.
    pub(super) instead: Option<Instead>,
    pub(super) asks: BTreeMap<NodeId, Vec<ReserveAsk>>,
    /// Tasks of other virtual clusters that would have to give way.
    pub(super) victims: BTreeMap<NodeId, Vec<AttemptUid>>,
    pub(super) since: Time,
}

/// Whether other places are looked for, for members that cannot start where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relocation {
    /// All can start where they are, as far as is known.
    NotNeeded,
    Since(Time),
    /// There are none: the round is void.
    GivenUp,
}

/// Members that are to have other places than in the round before.
#[derive(Clone, Debug)]
pub(super) struct Instead {
    /// Where they were placed then.
    pub(super) left: Vec<(NodeId, RunMember)>,
    /// Why they cannot stay there, a sentence part.
    pub(super) reason: String,
}

/// What was proposed for the run and is not to be proposed again in this term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proposal {
    Placed,
    Go,
    Void,
    Stopping,
    Ended(AttemptUid),
    OnHold(AttemptUid),
}

impl RunWork {
    pub(super) fn new(run: GangRun) -> Self {
        Self {
            run,
            links: SmallMap::default(),
            reserving: None,
            proposed: SmallMap::default(),
            relocation: Relocation::NotNeeded,
            gone: SmallMap::default(),
            shunned: SmallMap::default(),
            launching_since: None,
            ready_since: None,
            run_ends: None,
            refused: 0,
            retry_at: Time::default(),
            wake: None,
        }
    }

    /// By when the first of the answers must have come that are waited for.
    pub(super) fn answers_by(&self, patience_ms: u64) -> Option<Time> {
        let links = self.links.values();
        links.filter_map(|link| link.answers_by(patience_ms)).min()
    }

    /// Notes that something is proposed for the run. False if it was before.
    pub(super) fn propose(&mut self, what: Proposal) -> bool {
        self.proposed.add(what)
    }

    /// Whether something was proposed for the run in this term.
    pub(super) fn is_proposed(&self, what: &Proposal) -> bool {
        self.proposed.contains(what)
    }

    /// What a node has no place for in this run it never will have one for.
    pub(super) fn note_gone(&mut self) {
        let standings = self.links.values().flat_map(|link| link.standing.iter());
        let gone = standings.filter(|(_, standing)| **standing == TaskStanding::Gone);
        for (member, _) in gone {
            self.gone.add(member.uid.clone());
        }
    }

    /// The nodes that have let an order wait for too long by now.
    pub(super) fn note_silent(&mut self, now: Time, patience_ms: u64) -> Vec<NodeId> {
        let mut silent = Vec::new();
        for (node, link) in self.links.iter_mut() {
            if link.answers_by(patience_ms).is_some_and(|by| by <= now) {
                link.set_silent();
                silent.push(node.clone());
            }
        }
        silent
    }

    /// A held task without a container is launched again.
    pub(super) fn relaunch_absent(&mut self, node: &NodeId) {
        let Some(link) = self.links.get_mut(node) else {
            return;
        };
        if link.standing.values().any(|s| *s == TaskStanding::Absent) {
            link.standing
                .retain(|_, standing| *standing != TaskStanding::Absent);
            link.doubt();
        }
    }

    /// Takes what nodes said of tasks that are no more by what is committed: those are given that had ended.
    pub(super) fn take_settled(
        &mut self,
        live: &BTreeSet<&AttemptUid>,
    ) -> BTreeMap<NodeId, Vec<RunMember>> {
        let mut settled: BTreeMap<NodeId, Vec<RunMember>> = BTreeMap::new();
        for (node, link) in self.links.iter_mut() {
            link.standing.retain(|member, standing| {
                let live = live.contains(&member.uid);
                if matches!(standing, TaskStanding::Ended(_)) && !live {
                    settled
                        .entry(node.clone())
                        .or_default()
                        .push(member.clone());
                }
                live
            });
        }
        settled
    }

    /// Where a task stands that has this place.
    pub(super) fn standing(&self, place: &TaskPlacement) -> Option<&TaskStanding> {
        self.links.get(&place.node)?.standing_of(&place.uid)
    }
}
