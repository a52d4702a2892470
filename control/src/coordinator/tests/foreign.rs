//! What leaders of other virtual clusters have placed on the same nodes.

use muster_model::cluster_spec::CPU_LEAF_FIRST;
use muster_model::id::AttemptUid;

use super::*;
use crate::order::TaskHolding;

const SHARED: &str = "virtualClusters:
  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  other: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}";

/// A task of another virtual cluster that has every core of its node.
fn other(name: &str, evictable: bool) -> HeldTask {
    HeldTask {
        holding: Some(TaskHolding {
            job: key("lent"),
            leaves: vec![CPU_LEAF_FIRST],
            devices: Vec::new(),
            cpu: CPU,
            memory_mb: 1,
            ports: 0,
            evictable,
        }),
        ..held("other", 1, name, TaskStanding::Running)
    }
}

fn bench(evictable: bool) -> Bench {
    let mut bench = Bench::new();
    bench.description = ClusterSpec::from_hived_yaml(SHARED).unwrap();
    let description = Box::new(bench.description.clone());
    bench.input(CoordinatorInput::Described(Some(description)));
    for name in ["n1", "n2"] {
        let mut task = other(name, evictable);
        task.run.gang.job = JobId(1 + u64::from(name == "n2"));
        bench.report(name, vec![task]);
    }
    bench.heard();
    bench
}

fn victims(bench: &Bench, name: &str) -> Vec<AttemptUid> {
    match &bench.orders[&node(name)].command {
        GangCommand::Reserve { victims, .. } => victims.clone(),
        command => panic!("{command:?}"),
    }
}

#[test]
fn what_others_use_of_a_promise_is_claimed_at_its_node() {
    let mut bench = bench(true);
    bench.commit(&job("x", 1, CPU));
    let heard = bench.heard();
    let (on, word) = heard.split_once(' ').unwrap();
    assert_eq!(word, "reserve", "nobody else is asked");
    assert_eq!(victims(&bench, on), [on.parse().unwrap()]);
    bench.grant(on);
    assert_eq!(bench.heard(), format!("Placed, {on} launch"));
    bench.audit();
    // It is there until its node has ended it.
    bench.report(on, vec![other(on, true)]);
    bench.audit();
}

#[test]
fn what_a_node_does_not_give_up_is_others_again() {
    let mut bench = bench(true);
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    let not_free = OrderRefusal::NotFree("cores".to_owned());
    bench.answer(&on, OrderOutcome::Refused(not_free));
    bench.audit();
    let vcs = bench.coordinator.virtual_clusters();
    let default = vcs.iter().find(|vc| vc.name.as_str() == "default");
    assert_eq!(default.unwrap().used.cpu, 0);
}

#[test]
fn nobody_evicts_what_another_virtual_cluster_was_promised() {
    let mut bench = bench(false);
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "");
    bench.audit();
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "n1 reserve");
}

#[test]
fn opportunistic_jobs_tell_nodes_that_they_may_be_evicted() {
    let mut bench = Bench::new();
    for (name, priority) in [("x", None), ("y", Some(PriorityClass::Oppo))] {
        bench.commit(&job_of(name, 1, CPU, priority));
        let on = bench.heard().split(' ').next().unwrap().to_owned();
        let GangCommand::Reserve { evictable, .. } = bench.orders[&node(&on)].command else {
            panic!("{:?}", bench.orders);
        };
        assert_eq!(evictable, priority.is_some());
    }
}

#[test]
fn a_node_that_takes_nothing_by_its_own_word_is_left_alone() {
    let mut bench = Bench::new();
    for name in ["n1", "n2"] {
        bench.report_closed(name, Some("its disk is full"));
    }
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "");
    bench.report_closed("n2", None);
    assert_eq!(bench.heard(), "n2 reserve");
}
