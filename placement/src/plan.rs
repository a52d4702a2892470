//! What becomes of everything that waits, decided one after the other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use muster_model::time::Time;

use crate::cells::{Cells, Event};
use crate::decide::{Decision, Policy, Waiting, decide};
use crate::gang::{Gang, GangId};
use crate::queue::{Queue, Queued};

/// Decisions in the order in which they are to be carried out. Each takes the ones before it for
/// done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One per gang of the queue.
    pub decisions: Vec<(GangId, Decision)>,
}

/// Decides on every gang of the queue. A gang that waits stops nobody behind it, until it has
/// waited for [`Policy::hold_back_after_ms`]: from then on gangs of its cluster that are no more
/// important, and opportunistic ones, wait behind it, so that its cells come free in the end.
pub fn plan(cells: &Cells, queue: &Queue, policy: &Policy, now: Time) -> Plan {
    let mut cells = Cow::Borrowed(cells);
    let mut plan = Plan::default();
    // The longest waiting gang of each cluster that the ones behind it must not pass.
    let mut blocked: BTreeMap<String, GangId> = BTreeMap::new();
    for queued in queue.in_order() {
        let gang = &queued.gang;
        let decision = match blocked.get(&gang.vc) {
            Some(blocker) => Decision::Wait(Waiting::Behind(*blocker)),
            None => decide(&cells, gang, policy),
        };
        if let Decision::Wait(_) = decision
            && is_overdue(queued, policy, now)
        {
            blocked.entry(gang.vc.clone()).or_insert(gang.id);
        }
        carry_out(&mut cells, gang, &decision);
        plan.decisions.push((gang.id, decision));
    }
    plan
}

fn is_overdue(queued: &Queued, policy: &Policy, now: Time) -> bool {
    let waited_ms = now.micros_since(queued.since) / 1000;
    let limit = policy.hold_back_after_ms;
    !queued.gang.is_opportunistic() && limit.is_some_and(|limit_ms| waited_ms >= limit_ms)
}

/// What later decisions of the plan must see. The cells are copied once a plan places anything.
fn carry_out(cells: &mut Cow<'_, Cells>, gang: &Gang, decision: &Decision) {
    let (gang, known) = (gang.clone(), cells.gang(gang.id).is_some());
    let event = match decision {
        Decision::Place(grant) => Event::Started {
            gang,
            grant: grant.clone(),
        },
        Decision::Preempt { grant, .. } if !known => Event::Preempting {
            gang,
            grant: grant.clone(),
        },
        Decision::Preempt { .. } | Decision::Wait(_) | Decision::Refuse(_) => return,
    };
    let done = cells.to_mut().apply(event);
    debug_assert!(done.is_ok(), "a decision cannot be applied: {done:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Bins;
    use crate::gang::GangMember;

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
            id: GangId(id),
            vc: "v".to_owned(),
            priority,
            lazy: false,
            leaf_type: String::new(),
            pinned: String::new(),
            members: vec![GangMember { pods, leaves: 4 }],
        };
        let since = Time::from_millis(since_ms);
        Queued { gang, since }
    }

    fn kinds(plan: &Plan) -> Vec<(u64, &'static str)> {
        let kind = |decision: &Decision| match decision {
            Decision::Place(_) => "place",
            Decision::Preempt { .. } => "preempt",
            Decision::Wait(Waiting::Behind(_)) => "behind",
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
        let first = Queue {
            gangs: vec![queued(1, 0, 1, 0)],
        };
        let Decision::Place(grant) =
            &plan(&cells, &first, &Policy::default(), Time(0)).decisions[0].1
        else {
            panic!("an empty cluster has room");
        };
        let gang = first.gangs[0].gang.clone();
        let grant = grant.clone();
        cells.apply(Event::Started { gang, grant }).unwrap();
        let queue = Queue {
            gangs: vec![queued(3, 0, 1, 20), queued(2, 0, 2, 10), queued(9, 0, 3, 0)],
        };
        let soon = plan(&cells, &queue, &Policy::default(), Time::from_millis(30));
        assert_eq!(kinds(&soon), [(9, "refuse"), (2, "wait"), (3, "place")]);
        let late = plan(
            &cells,
            &queue,
            &Policy::default(),
            Time::from_millis(90_000_000),
        );
        assert_eq!(kinds(&late), [(9, "refuse"), (2, "wait"), (3, "behind")]);
        let more = Queue {
            gangs: vec![queued(4, 5, 2, 0), queued(5, 0, 1, 0)],
        };
        let both = plan(&cells, &more, &Policy::default(), Time(0));
        assert_eq!(kinds(&both), [(4, "preempt"), (5, "wait")]);
    }
}
