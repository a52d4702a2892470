use muster_model::cluster_spec::ClusterSpec;
use muster_model::time::Time;

use super::*;
use crate::cells::tests::gang_of as gang;
use crate::cells::{Bins, CellEvent, GangState};
use crate::decide::{Decision, DecisionPolicy, WaitReason, decide};
use crate::gang::{Gang, GangNumber, Grant, Placement};
use crate::random::SplitMix64;

/// Machines of two halves with two devices each.
fn spec(nodes: &[&str], vcs: &str) -> ClusterSpec {
    let cell = |node: &&str| format!("{{cellType: NODE, cellAddress: {node}}}");
    let cells: Vec<String> = nodes.iter().map(cell).collect();
    let text = format!(
        "physicalCluster:\n  cellTypes:\n    \
         HALF: {{childCellType: G, childCellNumber: 2}}\n    \
         NODE: {{childCellType: HALF, childCellNumber: 2, isNodeLevel: true}}\n  \
         physicalCells: [{}]\nvirtualClusters:\n{vcs}",
        cells.join(", ")
    );
    ClusterSpec::from_hived_yaml(&text).unwrap()
}

/// Cells of these machines on leaves that clusters have: machine, first and last device.
fn cells(spec: &ClusterSpec, owned: &[(&str, &str, u32, u32)]) -> Cells {
    let mut owners = Owners::default();
    for (vc, node, first, last) in owned {
        owners.add(vc, node, *first, *last);
    }
    Cells::owned(spec, Bins::default(), Some(owners)).unwrap()
}

fn adopt(cells: &mut Cells, gang: Gang, node: &str, devices: &[u32]) {
    let leaves = devices
        .iter()
        .map(|device| cells.leaf(node, *device).unwrap());
    let placement = Placement {
        pods: vec![leaves.collect()],
    };
    cells.apply(CellEvent::Adopted { gang, placement }).unwrap();
    cells.audit().unwrap();
}

fn ask(cells: &Cells, gang: &Gang) -> Decision {
    decide(cells, gang, &DecisionPolicy::default(), Time::default())
}

/// Claims and what is too much, as machines and devices.
fn wants(cells: &Cells, vc: &str) -> (Vec<String>, String) {
    let name = |leaves: &Vec<Leaf>| {
        let each = leaves.iter().map(|leaf| {
            let (node, device) = cells.address(*leaf);
            format!("{node}{device}")
        });
        each.collect::<Vec<_>>().join(" ")
    };
    let wants = cells.wants(vc, true);
    (
        wants.claims.iter().map(name).collect(),
        name(&wants.surplus),
    )
}

const BOTH: &str = "  v: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
  w: {virtualCells: [{cellType: NODE.HALF, cellNumber: 1}]}";

#[test]
fn a_gang_goes_where_its_cluster_is_bound_to_and_nowhere_else() {
    let spec = spec(&["a", "b"], BOTH);
    let nothing = cells(&spec, &[]);
    let waits = ask(&nothing, &gang(1, "v", 2, 0));
    let unbound = WaitReason::Unbound {
        vc: "v".to_owned(),
        leaves: 4,
    };
    assert_eq!(waits, Decision::Wait(unbound));
    assert!(matches!(
        ask(&nothing, &gang(1, "v", 2, -1)),
        Decision::Place(_)
    ));
    let both = cells(&spec, &[("v", "b", 0, 3), ("w", "a", 2, 3)]);
    both.audit().unwrap();
    for (vc, leaves, on, device) in [("v", 4, "b", 0), ("w", 2, "a", 2)] {
        let decision = ask(&both, &gang(1, vc, leaves, 0));
        let Decision::Place(grant) = decision else {
            panic!("{decision:?}");
        };
        let first = grant.placement.leaves().next().unwrap();
        assert_eq!(both.address(first), (on, device));
        assert!(grant.swaps.is_empty());
    }
    assert_eq!((both.unbound("v"), nothing.unbound("v")), (0, 1));
}

#[test]
fn what_is_promised_is_asked_for_and_nobody_is_put_out_for_it() {
    let spec = spec(&["a", "b"], BOTH);
    let nothing = cells(&spec, &[]);
    assert_eq!(wants(&nothing, "v").0, ["a0 a1 a2 a3"]);
    let half = cells(&spec, &[("v", "a", 0, 3)]);
    assert_eq!(wants(&half, "w"), (vec!["b0 b1".to_owned()], String::new()));
    // Somebody runs there on a promise, and has not been bound to it yet.
    let mut busy = half;
    let stays = Gang {
        stays: true,
        ..gang(7, "x", 1, 0)
    };
    adopt(&mut busy, stays, "b", &[0]);
    assert_eq!(wants(&busy, "w").0, ["b2 b3"]);
    let stays = Gang {
        stays: true,
        ..gang(9, "x", 1, 0)
    };
    adopt(&mut busy, stays, "b", &[2]);
    assert_eq!(wants(&busy, "w").0, [""; 0]);
    // Its own gang has it bound to where it runs.
    let mut running = cells(&spec, &[("w", "a", 0, 1)]);
    adopt(&mut running, gang(8, "v", 2, 0), "b", &[1, 2]);
    let guaranteed = GangState::Allocated {
        lazily_preempted: false,
    };
    assert_eq!(running.gang(GangNumber(8)).unwrap().2, guaranteed);
    assert_eq!(wants(&running, "v").0, ["b0 b1 b2 b3"]);
}

#[test]
fn what_is_too_much_is_given_back_when_no_gang_is_on_it() {
    let spec = spec(&["a", "b"], BOTH);
    let mut all = cells(&spec, &[("v", "a", 0, 3), ("v", "b", 0, 3)]);
    assert_eq!(wants(&all, "v"), (Vec::new(), "b0 b1 b2 b3".to_owned()));
    // The quota cell follows the gang, for both machines are its cluster's.
    adopt(&mut all, gang(1, "v", 2, 0), "b", &[0, 1]);
    assert_eq!(wants(&all, "v").1, "a0 a1 a2 a3");
    let grant = Grant {
        placement: Placement {
            pods: vec![vec![all.leaf("b", 2).unwrap()]],
        },
        ..Grant::default()
    };
    let started = CellEvent::Started {
        gang: gang(2, "v", 1, 0),
        grant,
    };
    all.apply(started).unwrap();
    all.audit().unwrap();
}

#[test]
fn a_bad_cell_and_one_that_somebody_is_on_are_changed_for_others() {
    let spec = spec(&["a", "b", "c"], BOTH);
    let sick = CellEvent::NodeHealth {
        node: "a".to_owned(),
        healthy: false,
    };
    let mut one = cells(&spec, &[("v", "a", 0, 3)]);
    assert_eq!(wants(&one, "v").0, [""; 0]);
    one.apply(sick.clone()).unwrap();
    // w stands on b, and has it as little as anybody.
    assert_eq!(wants(&one, "v").0, ["c0 c1 c2 c3"]);
    let mut two = cells(&spec, &[("v", "a", 0, 3), ("v", "c", 0, 3)]);
    two.apply(sick).unwrap();
    two.settle_in("v");
    two.audit().unwrap();
    assert_eq!(wants(&two, "v"), (Vec::new(), "a0 a1 a2 a3".to_owned()));
    let mut lent = cells(&spec, &[("v", "a", 0, 3)]);
    adopt(&mut lent, gang(3, "w", 1, -1), "a", &[0]);
    assert_eq!(wants(&lent, "v").0, ["c0 c1 c2 c3"]);
    let mut spared = cells(&spec, &[("v", "a", 0, 3), ("v", "c", 0, 3)]);
    adopt(&mut spared, gang(3, "w", 1, -1), "a", &[0]);
    spared.settle_in("v");
    assert_eq!(wants(&spared, "v").1, "a0 a1 a2 a3");
}

#[test]
fn those_without_a_promise_give_way_and_no_more_than_it_takes() {
    let vcs = "  v: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
  w: {virtualCells: [{cellType: NODE.HALF, cellNumber: 1}]}";
    let spec = spec(&["a", "b"], vcs);
    // v has all, and needs one machine.
    let mut all = cells(&spec, &[("v", "a", 0, 3), ("v", "b", 0, 3)]);
    adopt(&mut all, gang(1, "v", 4, 10), "a", &[0, 1, 2, 3]);
    adopt(&mut all, gang(2, "v", 2, 0), "b", &[0, 1]);
    adopt(&mut all, gang(3, "v", 2, 0), "b", &[2, 3]);
    assert_eq!(all.unbound("w"), 1);
    let waits = ask(&all, &gang(4, "w", 1, 0));
    assert!(
        matches!(waits, Decision::Wait(WaitReason::Unbound { .. })),
        "{waits:?}"
    );
    assert_eq!(all.in_the_way("v", &["w"]), [GangNumber(3)]);
    assert_eq!(all.in_the_way("v", &[]), []);
    assert_eq!(all.in_the_way("w", &["v"]), []);
    // One of w is on what v has by now.
    let mut bound = cells(&spec, &[("v", "a", 0, 3), ("w", "b", 0, 1)]);
    adopt(&mut bound, gang(5, "w", 4, 0), "a", &[0, 1, 2, 3]);
    assert!(
        !bound.is_occupied("v"),
        "it can be evicted as far as is known here"
    );
    assert_eq!(bound.in_the_way("w", &["v"]), [GangNumber(5)]);
}

#[test]
fn a_pinned_cell_is_asked_for_like_any_other_and_changed_for_none() {
    let text = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: a, pinnedCellId: p}
  - {cellType: NODE, cellAddress: b}
virtualClusters:
  v: {pinnedCells: [{pinnedCellId: p}]}
  w: {virtualCells: [{cellType: NODE, cellNumber: 1}]}";
    let spec = ClusterSpec::from_hived_yaml(text).unwrap();
    let nothing = cells(&spec, &[]);
    let pinned = Gang {
        pinned: "p".to_owned(),
        ..gang(1, "v", 2, 0)
    };
    let waits = ask(&nothing, &pinned);
    assert!(
        matches!(waits, Decision::Wait(WaitReason::Unbound { .. })),
        "{waits:?}"
    );
    assert_eq!(
        (nothing.unbound("v"), wants(&nothing, "v").0),
        (1, vec!["a0 a1".to_owned()])
    );
    let mut bound = cells(&spec, &[("v", "a", 0, 1)]);
    bound.audit().unwrap();
    assert!(matches!(ask(&bound, &pinned), Decision::Place(_)));
    let sick = CellEvent::NodeHealth {
        node: "a".to_owned(),
        healthy: false,
    };
    bound.apply(sick).unwrap();
    assert_eq!(wants(&bound, "v"), (Vec::new(), String::new()));
    // Who has it by an earlier description gives it back.
    let others = cells(&spec, &[("w", "a", 0, 1)]);
    assert_eq!(
        wants(&others, "w"),
        (vec!["b0 b1".to_owned()], "a0 a1".to_owned())
    );
}

/// Clusters with leaders of their own, which all look at once, and whoever binds.
struct Farm {
    random: SplitMix64,
    nodes: u32,
    /// Whose each leaf is.
    owner: Vec<Option<usize>>,
}

const VCS: [&str; 3] = ["u", "v", "w"];

impl Farm {
    fn names(&self) -> Vec<String> {
        (0..self.nodes).map(|node| format!("n{node}")).collect()
    }

    /// Promises that together need no more than there is.
    fn description(&mut self) -> ClusterSpec {
        let mut left = self.nodes * 4;
        let mut vcs = String::new();
        for vc in VCS {
            let mut quota = String::new();
            for (path, size) in [("NODE", 4), ("NODE.HALF", 2), ("NODE.HALF.G", 1)] {
                let count = self.random.below(u64::from(left / size) + 1);
                let count = u32::try_from(count).unwrap();
                left -= count * size;
                quota.push_str(&format!("{{cellType: {path}, cellNumber: {count}}},"));
            }
            vcs.push_str(&format!("  {vc}: {{virtualCells: [{quota}]}}\n"));
        }
        let names = self.names();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        spec(&names, &vcs)
    }

    fn cells(&self, spec: &ClusterSpec) -> Cells {
        let mut owners = Owners::default();
        let names = self.names();
        for (leaf, owner) in (0..).zip(&self.owner) {
            if let Some(owner) = owner {
                let (node, device) = (&names[at(leaf / 4)], leaf % 4);
                owners.add(VCS[*owner], node, device, device);
            }
        }
        Cells::owned(spec, Bins::default(), Some(owners)).unwrap()
    }

    /// Every leader looks at the same time; what they ask for is bound one after the other. Whether
    /// anything was.
    fn round(&mut self, spec: &ClusterSpec) -> bool {
        let wants: Vec<(usize, Wants)> = (0..VCS.len())
            .map(|vc| {
                let mut cells = self.cells(spec);
                cells.audit().unwrap();
                cells.settle_in(VCS[vc]);
                cells.audit().unwrap();
                (vc, cells.wants(VCS[vc], true))
            })
            .collect();
        let before = self.owner.clone();
        for (vc, wants) in wants {
            for leaf in wants.surplus {
                assert_eq!(self.owner[at(leaf)], Some(vc));
                self.owner[at(leaf)] = None;
            }
            for claim in wants.claims {
                if claim.iter().all(|leaf| self.owner[at(*leaf)].is_none()) {
                    for leaf in claim {
                        self.owner[at(leaf)] = Some(vc);
                    }
                }
            }
        }
        self.owner != before
    }
}

#[test]
fn leaders_that_know_nothing_of_each_other_come_to_have_what_they_were_promised() {
    for seed in 0..300 {
        let mut farm = Farm {
            random: SplitMix64::new(seed),
            nodes: 4,
            owner: vec![None; 16],
        };
        for _ in 0..6 {
            let spec = farm.description();
            let mut rounds = 0;
            while farm.round(&spec) {
                rounds += 1;
                assert!(rounds < 100, "seed {seed}: no end; {:?}", farm.owner);
            }
            let cells = farm.cells(&spec);
            for (number, vc) in VCS.into_iter().enumerate() {
                assert_eq!(cells.unbound(vc), 0, "seed {seed}, {vc}: {:?}", farm.owner);
                let has = farm.owner.iter().filter(|it| **it == Some(number)).count();
                let quota = &spec.virtual_clusters[&vc.parse().unwrap()].quota;
                let size = |path: usize| [4, 2, 1][path - 1];
                let leaves = quota.iter().map(|it| it.count * size(it.path.len()));
                let promised: u32 = leaves.sum();
                assert_eq!(small(has), promised, "seed {seed}, {vc}");
            }
        }
    }
}
