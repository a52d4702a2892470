//! What the virtual cluster is bound to by the cluster's group, and what is placed there.

use super::*;
use crate::bound::{BoundLeaves, Span};
use crate::coordinator::Bindings;
use crate::order::TaskHolding;

const BOTH: &str = "virtualClusters:
  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  other: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}";
const ALL: &str =
    "virtualClusters: {default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 2}]}}";
const NONE: &str =
    "virtualClusters: {other: {virtualCells: [{cellType: CPU-NODE, cellNumber: 2}]}}";
const FIRST: u32 = 1_000_000;

/// All cells of these machines, in these epochs.
fn machines(of: &[(&str, u64)]) -> BoundLeaves {
    let mut bound = BoundLeaves::default();
    for (name, epoch) in of {
        let (first, last, epoch) = (FIRST, FIRST + 127, *epoch);
        bound.add(&node(name), Span { first, last, epoch });
    }
    bound
}

impl Bench {
    /// A leader in a cluster that is described so.
    fn bound(text: &str) -> Self {
        let mut bench = Self::new();
        bench.input(CoordinatorInput::BoundByCluster(true));
        bench.describe(text);
        bench
    }

    fn describe(&mut self, text: &str) {
        self.description = ClusterSpec::from_hived_yaml(text).unwrap();
        let description = Box::new(self.description.clone());
        self.input(CoordinatorInput::Described(Some(description)));
    }

    /// The `cluster` group answers.
    fn binds(&mut self, version: u64, own: &[(&str, u64)], other: &[(&str, u64)]) {
        let vc = |name: &str| name.parse().unwrap();
        let cells = [
            (vc("default"), machines(own)),
            (vc("other"), machines(other)),
        ];
        let cells = cells.into();
        self.input(CoordinatorInput::Bound(Some(Bindings {
            version,
            cells,
            ..Bindings::default()
        })));
    }

    /// What was asked for and given back last, as machines, when it was asked once more.
    fn wants(&mut self) -> (Vec<String>, Vec<String>) {
        self.asked.clear();
        while self.asked.is_empty() {
            self.wait();
        }
        let (mut claims, mut released) = (Vec::new(), Vec::new());
        let names =
            |bound: &BoundLeaves| bound.nodes().map(ToString::to_string).collect::<Vec<_>>();
        for (_, binding) in &self.asked {
            claims.extend(binding.claims.iter().flat_map(names));
            released.extend(names(&binding.released));
        }
        (claims, released)
    }
}

#[test]
fn nothing_is_placed_on_a_promise_before_the_cluster_has_bound_it() {
    let mut bench = Bench::bound(BOTH);
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "");
    let why = bench.waiting_for("x");
    assert!(why.contains("is not bound yet to 128 leaf cells"), "{why}");
    // Whoever was not heard is asked for nothing.
    assert_eq!(bench.wants(), (vec![], vec![]));
    bench.asked.clear();
    bench.input(CoordinatorInput::Bound(None));
    let (_, binding) = bench.asked.pop().unwrap();
    assert_eq!((binding.claims.len(), binding.waits), (1, Some(true)));
    bench.binds(4, &[("n2", 4)], &[("n1", 3)]);
    assert_eq!(bench.heard(), "n2 reserve");
    let GangCommand::Reserve { asks, .. } = &bench.orders[&node("n2")].command else {
        panic!("{:?}", bench.orders);
    };
    assert_eq!(asks[0].epochs, vec![4; asks[0].leaves.len()]);
    bench.grant("n2");
    assert!(bench.heard().contains("Placed"));
    assert_eq!(bench.wants(), (vec![], vec![]));
    bench.audit();
}

#[test]
fn a_cluster_that_goes_on_from_a_copy_is_told_what_the_own_log_says() {
    let mut bench = Bench::bound(BOTH);
    bench.binds(4, &[("n2", 4)], &[("n1", 3)]);
    let own = bench.state.own_cells().clone();
    bench.asked.clear();
    bench.input(CoordinatorInput::Bound(Some(Bindings {
        version: 90,
        cells: [("default".parse().unwrap(), machines(&[("n1", 2)]))].into(),
        unheard: ["default".parse().unwrap()].into(),
        ..Bindings::default()
    })));
    assert_eq!(*bench.state.own_cells(), own, "what is said of it is old");
    let (_, binding) = bench.asked.pop().unwrap();
    assert_eq!(binding.held.as_ref(), Some(own.held()));
    assert!(binding.claims.is_empty());
    // It places on what it has all the while.
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "n2 reserve");
    bench.asked.clear();
    bench.binds(91, &[("n2", 91)], &[("n1", 91)]);
    assert_eq!(*bench.state.own_cells().held(), machines(&[("n2", 91)]));
    assert!(bench.asked.iter().all(|(_, it)| it.held.is_none()));
}

#[test]
fn what_others_have_left_is_asked_for_though_nothing_waits() {
    let mut bench = Bench::bound(BOTH);
    bench.binds(4, &[], &[("n1", 3)]);
    let other = HeldTask {
        holding: Some(TaskHolding {
            job: key("theirs"),
            leaves: vec![FIRST],
            devices: Vec::new(),
            cpu: 1,
            memory_mb: 1,
            ports: 0,
            evictable: false,
        }),
        ..held("other", 1, "theirs", TaskStanding::Running)
    };
    bench.report("n2", vec![other]);
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.wants(), (vec![], vec![]), "somebody is there");
    bench.stop("x");
    bench.report("n2", Vec::new());
    assert_eq!(bench.wants(), (vec!["n2".to_owned()], vec![]));
}

#[test]
fn who_leads_next_places_by_the_own_log_without_asking_anybody() {
    let mut bench = Bench::bound(BOTH);
    bench.binds(4, &[("n2", 4)], &[("n1", 3)]);
    bench.elect();
    bench.input(CoordinatorInput::BoundByCluster(true));
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "n2 reserve");
}

#[test]
fn what_is_promised_no_more_is_given_back_once_it_is_free() {
    let mut bench = Bench::bound(ALL);
    bench.binds(4, &[("n1", 4), ("n2", 4)], &[]);
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    bench.grant(&on);
    let other = if on == "n1" { "n2" } else { "n1" };
    bench.describe(NONE);
    // What the gang was placed on stays.
    let place = bench.state.live().next().unwrap().job.attempt.tasks[0]
        .live()
        .unwrap()
        .leaves[0];
    let both = vec!["n1".to_owned(), "n2".to_owned()];
    assert_eq!(bench.wants(), (vec![], both));
    let used = BoundLeaves::of([(&node(&on), place)], 4);
    assert_eq!(*bench.state.own_cells().held(), used);
    let cells = [("default", used), ("other", machines(&[(other, 6)]))];
    let cells = cells.map(|(vc, bound)| (vc.parse().unwrap(), bound)).into();
    let mut bindings = Bindings {
        version: 6,
        cells,
        ..Bindings::default()
    };
    bench.heard();
    bench.input(CoordinatorInput::Bound(Some(bindings.clone())));
    assert_eq!(bench.heard(), "", "nobody needs it yet");
    bindings.version = 7;
    bindings.waiting = ["other".parse().unwrap()].into();
    bench.input(CoordinatorInput::Bound(Some(bindings)));
    assert_eq!(bench.heard(), format!("Stopping, {on} stop"));
    bench.stands(&on, &ended(0));
    bench.report(&on, Vec::new());
    assert_eq!(bench.wants(), (vec![], vec![on]));
    assert!(bench.state.own_cells().held().is_empty());
    bench.audit();
}

#[test]
fn a_placement_that_came_too_late_is_planned_again() {
    let mut bench = Bench::bound(ALL);
    bench.binds(4, &[("n1", 4), ("n2", 4)], &[]);
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    // The last leader had given it back when it was deposed.
    let entry = VcEntry::Released(machines(&[(&*on, 4)]));
    bench.index += 1;
    bench.state.apply(bench.index, &entry).unwrap();
    bench.grant(&on);
    assert_eq!(bench.heard(), format!("Placed, {on} stop"));
    let other = if on == "n1" { "n2" } else { "n1" };
    bench.binds(6, &[(other, 4)], &[(&*on, 6)]);
    let heard = bench.wait_long();
    assert!(heard.contains(&format!("{other} reserve")), "{heard}");
    bench.audit();
}

#[test]
fn a_machine_that_may_only_be_late_is_waited_for() {
    let mut bench = Bench::bound(BOTH);
    bench.binds(4, &[("n3", 4)], &[("n1", 3)]);
    assert_eq!(bench.wants(), (vec![], vec![]));
    let begun = bench.now;
    while bench.wants().0.is_empty() {}
    assert!(bench.now.micros_since(begun) > 15_000_000);
    let mut gone = Bench::bound(BOTH);
    gone.binds(4, &[("n3", 4)], &[("n1", 3)]);
    gone.input(CoordinatorInput::Unreachable([node("n3")].into()));
    assert_eq!(gone.wants().0, ["n2"], "who cannot be reached is not late");
    // What it has of the one that is away is given back once there is another for it.
    bench.binds(6, &[("n3", 4), ("n2", 6)], &[("n1", 3)]);
    let (claims, released) = bench.wants();
    assert_eq!((claims, released), (vec![], vec!["n3".to_owned()]));
}

#[test]
fn where_no_cluster_binds_the_leader_does() {
    let mut bench = Bench::new();
    bench.describe(BOTH);
    bench.commit(&job("x", 1, CPU));
    assert!(bench.heard().contains("reserve"));
    assert_eq!(bench.asked, []);
    assert_eq!(bench.coordinator.lacking(), None);
}

/// The constraint of a job that waits, its reason and when it may start.
fn told(bench: &Bench, name: &str) -> (String, String, Earliest) {
    let (coordinator, key) = (&bench.coordinator, key(name));
    let told = coordinator.explanation(bench.now, &bench.state, (&key, &JobSight::All));
    let gang = told.unwrap().gangs.remove(0);
    (gang.constraint, gang.reason, gang.earliest)
}

#[test]
fn a_job_that_misses_a_machine_which_is_away_names_it() {
    let mut bench = Bench::bound(BOTH);
    bench.binds(4, &[("n2", 4)], &[("n1", 3)]);
    let expect = (
        "hardware".to_owned(),
        "needs 1 CPU on one node; 128 such cells are away (n2); it can start when n2 is back"
            .to_owned(),
        Earliest::Unknown,
    );
    bench.unreachable(&["n2"]);
    bench.commit(&job("x", 1, CPU));
    assert_eq!(told(&bench, "x"), expect);
    assert_eq!(
        bench.waiting_for("x"),
        "needs 1 device; 0 are free in virtual cluster default; 128 cells are away (n2)"
    );
    // The next leader has never heard what is there.
    bench.elect();
    bench.input(CoordinatorInput::BoundByCluster(true));
    bench.unreachable(&["n2"]);
    bench.binds(5, &[("n2", 4)], &[("n1", 3)]);
    bench.report("n1", Vec::new());
    bench.wait();
    assert_eq!(told(&bench, "x"), expect);
    bench.unreachable(&[]);
    bench.report("n2", Vec::new());
    assert!(bench.heard().contains("n2 reserve"));
}

#[test]
fn a_job_that_is_too_large_without_a_machine_that_is_away_is_not_told_never() {
    let mut bench = Bench::new();
    bench.elect();
    bench.report("n1", Vec::new());
    bench.unreachable(&["n2"]);
    bench.commit(&job("x", 2, CPU));
    let (constraint, reason, earliest) = told(&bench, "x");
    assert_eq!((&*constraint, earliest), ("hardware", Earliest::Unknown));
    assert!(reason.contains("when n2 is back"), "{reason}");
    assert!(!reason.contains("never"), "{reason}");
    bench.input(CoordinatorInput::Left([node("n2")].into()));
    let (constraint, reason, earliest) = told(&bench, "x");
    assert_eq!((&*constraint, earliest), ("refused", Earliest::Never));
    assert!(reason.contains("it can never start here"), "{reason}");
}
