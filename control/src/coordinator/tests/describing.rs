//! How the cluster is described, and what follows from another description.

use super::*;

/// Two machines, for two virtual clusters.
const SHARED: &str = "virtualClusters:
  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  other: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}";
const OTHERS: &str =
    "virtualClusters: {other: {virtualCells: [{cellType: CPU-NODE, cellNumber: 2}]}}";

fn description(text: &str) -> ClusterSpec {
    ClusterSpec::from_hived_yaml(text).unwrap()
}

fn describe(bench: &mut Bench, text: &str) -> String {
    bench.description = description(text);
    bench.input(CoordinatorInput::Described(Some(Box::new(
        bench.description.clone(),
    ))));
    bench.heard()
}

/// What is held and promised of each virtual cluster, in cores.
fn shares(bench: &Bench) -> Vec<(String, u32, u32)> {
    let vcs = bench.coordinator.virtual_clusters();
    let share = |vc: &muster_model::vc::VcView| (vc.name.to_string(), vc.used.cpu, vc.total.cpu);
    vcs.iter().map(share).collect()
}

#[test]
fn nothing_is_placed_before_the_description_is_known() {
    let mut bench = Bench::new();
    bench.coordinator = Coordinator::new(bench.options.clone());
    let term = Term(bench.term + 1);
    bench.term += 1;
    bench.input(CoordinatorInput::Elected { term });
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    bench.commit(&job("x", 1, CPU));
    bench.heard();
    assert_eq!(bench.coordinator.deadline(), None, "nothing hurries");
    assert_eq!(
        bench.waiting_for("x"),
        "waits for its leader to hear how the cluster is described"
    );
    assert!(describe(&mut bench, "{}").contains("reserve"));
    bench.audit();
}

#[test]
fn a_virtual_cluster_has_what_it_is_promised_and_no_more() {
    let mut bench = Bench::new();
    describe(&mut bench, SHARED);
    assert_eq!(
        shares(&bench),
        [("default".to_owned(), 0, CPU), ("other".to_owned(), 0, CPU)]
    );
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard().matches("reserve").count(), 1);
    assert_eq!(shares(&bench)[0].1, CPU);
    bench.commit(&job("y", 1, CPU));
    assert_eq!(bench.heard(), "", "the other machine is promised to others");
    // With the promise gone it may run: everything is for one.
    assert_eq!(describe(&mut bench, "{}").matches("reserve").count(), 1);
    bench.audit();
}

#[test]
fn a_new_leader_goes_by_the_description_whatever_it_hears_first() {
    let mut bench = Bench::new();
    describe(&mut bench, SHARED);
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    bench.grant(&on);
    bench.stands(&on, &TaskStanding::Ready);
    bench.stands(&on, &TaskStanding::Running);
    bench.elect();
    // A machine is missing: the promise that is used is kept on the one that reports.
    bench.report(&on, Vec::new());
    bench.audit();
    assert_eq!(
        shares(&bench),
        [("default".to_owned(), CPU, CPU), ("other".to_owned(), 0, 0)]
    );
    let problems = bench.coordinator.problems().join("; ");
    assert!(
        problems.contains("missing machine 1: 128 cells of type CPU are promised"),
        "{problems}"
    );
    let other = if on == "n1" { "n2" } else { "n1" };
    bench.report(other, Vec::new());
    bench.audit();
    assert_eq!(bench.coordinator.problems(), Vec::<String>::new());
    assert_eq!(shares(&bench)[1], ("other".to_owned(), 0, CPU));
}

#[test]
fn nobody_gets_what_a_gang_has_on_a_node_that_was_not_heard_yet() {
    let mut bench = Bench::new();
    describe(&mut bench, SHARED);
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    bench.grant(&on);
    bench.commit(&job("y", 1, CPU));
    bench.heard();
    bench.elect();
    let other = if on == "n1" { "n2" } else { "n1" };
    bench.report(other, Vec::new());
    assert!(
        !bench.heard().contains("reserve"),
        "it is promised to the other one"
    );
    bench.report(&on, Vec::new());
    assert!(!bench.heard().contains("reserve"), "the promise is used");
    assert_eq!(shares(&bench)[0], ("default".to_owned(), CPU, CPU));
    bench.audit();
    // One that does not come is not waited for.
    bench.elect();
    bench.report(other, Vec::new());
    assert_eq!(bench.heard(), "");
    assert_eq!(
        bench.waiting_for("y"),
        "waits while its leader, which is new, hears what runs on the machines"
    );
    while !bench.heard().contains("reserve") {
        bench.wait();
    }
}

#[test]
fn what_another_description_would_do_is_told_beforehand() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    bench.grant(&on);
    bench.commit(&job("y", 2, CPU));
    bench.heard();
    let what_if = |bench: &Bench, text: &str| {
        let what = bench
            .coordinator
            .outlook(&bench.state)
            .what_if(&description(text));
        what.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(
        what_if(&bench, "{}"),
        Ok(WhatIf::default()),
        "nothing is lost"
    );
    assert_eq!(
        what_if(&bench, SHARED),
        Ok(WhatIf::default()),
        "x fits there"
    );
    let others = what_if(&bench, OTHERS).unwrap();
    assert_eq!(others.lose_quota, [key("x")].into());
    assert_eq!(others.impossible.len(), 1, "{others:?}");
    assert_eq!(others.impossible[0].job, key("y"));
    let three = OTHERS.replace('2', "3");
    let three = what_if(&bench, &three).unwrap();
    assert_eq!(three.absent, ["missing machine 1"]);
    assert_eq!(
        three.too_many,
        ["other is promised 3 CPU-NODE, and there are 2 of type CPU-NODE"]
    );
    let unknown = "virtualClusters:
  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 2}]}
  prod: {virtualCells: [{cellType: H100-NODE-8, cellNumber: 2}]}";
    let unknown = what_if(&bench, unknown).unwrap();
    assert_eq!(
        unknown.too_many,
        [
            "prod is promised 2 H100-NODE-8, and no machine has cells of type H100-NODE-8; there \
             are: CPU-NODE"
        ]
    );
    let named = "physicalCluster:
  cellTypes: {N: {childCellType: C, childCellNumber: 1, isNodeLevel: true}}
  physicalCells: [{cellType: N, cellAddress: n9}]
virtualClusters: {default: {virtualCells: [{cellType: N, cellNumber: 1}]}}";
    let named = what_if(&bench, named).unwrap();
    assert_eq!(named.lose_devices, [key("x")].into());
    assert_eq!(
        (named.absent, named.unnamed.len()),
        (vec!["n9".to_owned()], 2)
    );
    for (wrong, problem) in [
        (
            OTHERS.replace("CPU-NODE", "GPU"),
            "virtualClusters.other.virtualCells[0]: no machine",
        ),
        (
            OTHERS.replace('2', "9000000"),
            "more than a cluster can have",
        ),
    ] {
        let problems = what_if(&bench, &wrong).unwrap_err();
        assert!(problems[0].contains(problem), "{problems:?}");
    }
    // It was only a question.
    assert_eq!(bench.heard(), "");
    assert_eq!(bench.coordinator.virtual_clusters().len(), 1);
    bench.audit();
}

#[test]
fn a_node_that_left_is_none_once_nothing_is_on_it() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    bench.grant(&on);
    bench.stands(&on, &TaskStanding::Ready);
    bench.stands(&on, &TaskStanding::Running);
    let all = || CoordinatorInput::Left([node("n1"), node("n2")].into());
    bench.input(all());
    let total = |bench: &Bench| bench.coordinator.virtual_clusters()[0].total.cpu;
    assert_eq!(total(&bench), CPU, "one is in use");
    assert_eq!(bench.coordinator.found().matches("cellAddress").count(), 0);
    bench.audit();
    bench.stands(&on, &TaskStanding::Gone);
    bench.heard();
    bench.stands(&on, &TaskStanding::Gone);
    bench.input(all());
    assert_eq!(total(&bench), 0);
    bench.report("n1", Vec::new());
    assert_eq!(total(&bench), CPU, "it has joined again");
    bench.audit();
}

/// Why the leader cannot tell what another description would do.
fn doubt(bench: &Bench, missing: usize) -> String {
    let outlook = bench.coordinator.outlook(&bench.state);
    let what = outlook.without_reports_of(missing);
    let what = what.what_if(&description("{}")).unwrap();
    let mut unheard = what.unheard.into_iter();
    unheard.next().map(|(_, why)| why).unwrap_or_default()
}

#[test]
fn a_new_leader_says_that_it_cannot_tell_yet_what_jobs_would_lose() {
    let mut bench = Bench::new();
    assert_eq!(doubt(&bench, 2), "", "nobody can lose anything");
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.grant("n2");
    assert_eq!(doubt(&bench, 0), "");
    assert_eq!(
        doubt(&bench, 2),
        "2 machines have not reported to its leader yet"
    );
    bench.coordinator = Coordinator::new(bench.options.clone());
    assert_eq!(doubt(&bench, 0), "its leader has just been elected");
    bench.term += 1;
    let term = Term(bench.term);
    bench.input(CoordinatorInput::Elected { term });
    assert!(doubt(&bench, 0).contains("how the cluster is described"));
    describe(&mut bench, "{}");
    assert!(doubt(&bench, 0).contains("of n1, n2, where jobs of it are"));
    bench.report("n1", Vec::new());
    assert!(doubt(&bench, 0).contains("of n2, where jobs of it are"));
    bench.report("n2", Vec::new());
    assert_eq!(doubt(&bench, 0), "");
    bench.audit();
}
