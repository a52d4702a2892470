//! What becomes of everything that waits, decided one after the other.

use std::collections::BTreeMap;

use muster_model::time::Time;

use crate::cells::{CellEvent, Cells};
use crate::decide::{Decision, DecisionPolicy, WaitReason, decide, keep};
use crate::gang::{Gang, GangNumber, Grant, Placement};
use crate::queue::{GangQueue, GangTurn};

/// Decisions in the order in which they are to be carried out. Each takes the ones before it for
/// done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One per gang of the queue.
    pub decisions: Vec<(GangNumber, Decision)>,
    /// What is kept for overdue gangs that wait: who came later gets none of it.
    pub kept: Vec<(GangNumber, Placement)>,
}

/// Decides on every gang of the queue, in the order of [`Turns`](crate::decide::Turns). A gang
/// that waits stops nobody behind it, but once it is overdue leaf cells are kept for it.
pub fn plan(cells: &Cells, queue: &GangQueue, policy: &DecisionPolicy, now: Time) -> Plan {
    PlanBuilder::new(Scratch::Seen(cells), policy).all(queue, now)
}

/// The same; the cells are then as they are once every [`Decision::Place`] and every new
/// [`Decision::Preempt`] is carried out. Nothing is copied.
pub fn advance(cells: &mut Cells, queue: &GangQueue, policy: &DecisionPolicy, now: Time) -> Plan {
    let plan = PlanBuilder::new(Scratch::Own(cells), policy).all(queue, now);
    for (gang, _) in &plan.kept {
        let done = cells.apply(CellEvent::PreemptionCancelled(*gang));
        debug_assert!(done.is_ok(), "what was kept is not given back: {done:?}");
    }
    plan
}

/// Cells that a plan may change.
enum Scratch<'a> {
    /// The caller's own.
    Own(&'a mut Cells),
    /// Somebody else's, nothing changed so far.
    Seen(&'a Cells),
    /// A copy of those.
    Copied(Box<Cells>),
}

impl Scratch<'_> {
    fn get(&self) -> &Cells {
        match self {
            Self::Own(cells) => cells,
            Self::Seen(cells) => cells,
            Self::Copied(cells) => cells,
        }
    }

    fn apply(&mut self, event: CellEvent) {
        if let Self::Seen(cells) = self {
            *self = Self::Copied(Box::new((*cells).clone()));
        }
        let done = match self {
            Self::Own(cells) => cells.apply(event),
            Self::Copied(cells) => cells.apply(event),
            Self::Seen(_) => Ok(()),
        };
        debug_assert!(done.is_ok(), "a decision cannot be applied: {done:?}");
    }
}

/// A plan in the making.
struct PlanBuilder<'a> {
    /// As decided so far.
    cells: Scratch<'a>,
    policy: &'a DecisionPolicy,
    plan: Plan,
    /// By cluster, the gang that nobody may pass.
    blocked: BTreeMap<String, GangNumber>,
    /// By cluster, how many leaf cells are kept.
    kept: BTreeMap<String, u64>,
    /// Gangs that must wait while cells only get fewer, and why: who asks for the same waits too.
    unfit: Vec<(Gang, WaitReason)>,
}

impl<'a> PlanBuilder<'a> {
    fn new(cells: Scratch<'a>, policy: &'a DecisionPolicy) -> Self {
        Self {
            cells,
            policy,
            plan: Plan::default(),
            blocked: BTreeMap::new(),
            kept: BTreeMap::new(),
            unfit: Vec::new(),
        }
    }

    fn all(mut self, queue: &GangQueue, now: Time) -> Plan {
        for turn in queue.in_order(self.cells.get(), &self.policy.turns, now) {
            let gang = &turn.queued.gang;
            let decision = self.decide(gang, now);
            if let Decision::Wait(_) = decision {
                self.hold_back(&turn);
            }
            self.carry_out(gang, &decision);
            self.plan.decisions.push((gang.id, decision));
        }
        self.plan
    }

    fn decide(&mut self, gang: &Gang, now: Time) -> Decision {
        // Whoever has a claim has had its turn, and waits for nothing but what it claims.
        if self.cells.get().gang(gang.id).is_some() {
            return decide(self.cells.get(), gang, self.policy, now);
        }
        if let Some(blocker) = self.blocked.get(&gang.vc) {
            return Decision::Wait(WaitReason::Behind(*blocker));
        }
        let mut unfit = self.unfit.iter();
        if let Some((_, why)) = unfit.find(|(other, _)| asks_the_same(gang, other)) {
            return Decision::Wait(why.clone());
        }
        let decision = decide(self.cells.get(), gang, self.policy, now);
        if let Decision::Wait(why) = &decision {
            self.unfit.push((gang.clone(), why.clone()));
        }
        decision
    }

    /// Sees to it that a gang that waits gets its turn in the end.
    fn hold_back(&mut self, turn: &GangTurn<'_>) {
        let gang = &turn.queued.gang;
        if gang.is_opportunistic() {
            return;
        }
        if self.policy.turns.is_strict {
            self.blocked.entry(gang.vc.clone()).or_insert(gang.id);
        } else if turn.is_overdue {
            self.keep(gang);
        }
    }

    fn keep(&mut self, gang: &Gang) {
        // Whoever has a claim has its leaf cells, and gives them back in no case.
        if self.cells.get().gang(gang.id).is_some() {
            return;
        }
        let quota = self.cells.get().promised(&gang.vc);
        let kept = self.kept.entry(gang.vc.clone()).or_default();
        let limit = quota * self.policy.turns.kept_percent / 100;
        if *kept > 0 && *kept + gang.leaves() > limit {
            return;
        }
        if let Some(placement) = keep(self.cells.get(), gang) {
            *kept += gang.leaves();
            self.plan.kept.push((gang.id, placement.clone()));
            let grant = Grant {
                placement,
                ..Grant::default()
            };
            let gang = gang.clone();
            self.cells.apply(CellEvent::Preempting { gang, grant });
        }
    }

    /// What later decisions must see.
    fn carry_out(&mut self, gang: &Gang, decision: &Decision) {
        let known = self.cells.get().gang(gang.id).is_some();
        let gang = gang.clone();
        let event = match decision.clone() {
            Decision::Place(grant) => CellEvent::Started { gang, grant },
            Decision::Preempt { grant, .. } if !known => CellEvent::Preempting { gang, grant },
            Decision::Preempt { .. } | Decision::Wait(_) | Decision::Refuse(_) => return,
        };
        if makes_room(decision) {
            self.unfit.clear();
        }
        self.cells.apply(event);
    }
}

/// Whether somebody may fit afterwards who did not before.
fn makes_room(decision: &Decision) -> bool {
    match decision {
        Decision::Place(grant) => !grant.swaps.is_empty() || !grant.demoted.is_empty(),
        Decision::Preempt { .. } => true,
        Decision::Wait(_) | Decision::Refuse(_) => false,
    }
}

/// Whether two gangs get the same answer of the same cells.
fn asks_the_same(a: &Gang, b: &Gang) -> bool {
    let asks = |gang: &Gang| (gang.priority, gang.members.len());
    asks(a) == asks(b) && a.members == b.members && a.vc == b.vc && a.pinned == b.pinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Bins;
    use crate::decide::Turns;
    use crate::gang::GangMember;
    use crate::queue::Queued;

    fn cells() -> Cells {
        let text = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 4, isNodeLevel: true}
  physicalCells: [{cellType: NODE, cellAddress: a}, {cellType: NODE, cellAddress: b}]
virtualClusters:
  v: {virtualCells: [{cellType: NODE, cellNumber: 2}]}
";
        let spec = muster_model::cluster_spec::ClusterSpec::from_hived_yaml(text).unwrap();
        Cells::new(&spec, Bins::default()).unwrap()
    }

    fn queued(id: u64, priority: i32, pods: u32, since_ms: u64) -> Queued {
        let gang = Gang {
            id: GangNumber(id),
            vc: "v".to_owned(),
            priority,
            members: vec![GangMember {
                pods,
                leaves: 4,
                ..GangMember::default()
            }],
            ..Gang::default()
        };
        let since = Time::from_millis(since_ms);
        Queued { gang, since }
    }

    fn kinds(plan: &Plan) -> Vec<(u64, &'static str)> {
        let kind = |decision: &Decision| match decision {
            Decision::Place(_) => "place",
            Decision::Preempt { .. } => "preempt",
            Decision::Wait(WaitReason::Behind(_)) => "behind",
            Decision::Wait(_) => "wait",
            Decision::Refuse(_) => "refuse",
        };
        plan.decisions
            .iter()
            .map(|(id, decision)| (id.0, kind(decision)))
            .collect()
    }

    #[test]
    fn small_gangs_pass_a_large_one_only_until_it_is_overdue() {
        let mut cells = cells();
        let first = GangQueue {
            gangs: vec![queued(1, 0, 1, 0)],
        };
        let Decision::Place(grant) =
            &plan(&cells, &first, &DecisionPolicy::default(), Time(0)).decisions[0].1
        else {
            panic!("an empty cluster has room");
        };
        let gang = first.gangs[0].gang.clone();
        let grant = grant.clone();
        cells.apply(CellEvent::Started { gang, grant }).unwrap();
        let queue = GangQueue {
            gangs: vec![queued(3, 0, 1, 20), queued(2, 0, 2, 10), queued(9, 0, 3, 0)],
        };
        let soon = plan(
            &cells,
            &queue,
            &DecisionPolicy::default(),
            Time::from_millis(30),
        );
        assert_eq!(kinds(&soon), [(3, "place"), (2, "wait"), (9, "refuse")]);
        let late = plan(
            &cells,
            &queue,
            &DecisionPolicy::default(),
            Time::from_millis(90_000_000),
        );
        assert_eq!(kinds(&late), [(2, "wait"), (3, "wait"), (9, "refuse")]);
        assert_eq!((late.kept.len(), late.kept[0].0), (1, GangNumber(2)));
        let more = GangQueue {
            gangs: vec![queued(4, 5, 2, 0), queued(5, 0, 1, 0)],
        };
        let both = plan(&cells, &more, &DecisionPolicy::default(), Time(0));
        assert_eq!(kinds(&both), [(4, "preempt"), (5, "wait")]);
    }

    #[test]
    fn who_has_a_claim_gets_it_whoever_waits_before() {
        for turns in [Turns::default(), Turns::strict()] {
            let policy = DecisionPolicy {
                turns,
                ..DecisionPolicy::default()
            };
            let mut cells = cells();
            let low = GangQueue {
                gangs: vec![queued(1, -1, 1, 0), queued(2, -1, 1, 0)],
            };
            advance(&mut cells, &low, &policy, Time(0));
            let mut queue = GangQueue {
                gangs: vec![queued(3, 0, 1, 20), queued(4, 0, 1, 30)],
            };
            let first = advance(&mut cells, &queue, &policy, Time(0));
            assert_eq!(kinds(&first), [(3, "preempt"), (4, "preempt")]);
            for id in [1, 2] {
                cells.apply(CellEvent::GangEnded(GangNumber(id))).unwrap();
            }
            queue.gangs.push(queued(5, 0, 1, 10));
            let then = advance(&mut cells, &queue, &policy, Time(0));
            assert_eq!(kinds(&then), [(5, "wait"), (3, "place"), (4, "place")]);
        }
    }
}
