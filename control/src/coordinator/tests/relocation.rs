//! A gang that is placed and cannot start where it is.

use std::collections::BTreeSet;

use muster_model::cluster_spec::Level;
use muster_model::exit::{Behavior, Cause};
use muster_model::job::NearSpec;
use muster_model::state::JobState;

use super::{Bench, CPU, CoordinatorInput, LeaderPolicy, ended, held, job, node};
use crate::order::{GangCommand, TaskStanding};
use crate::vc::VcEntry;
use crate::verdict::{self, EXIT_NOT_CREATED};

#[test]
fn who_is_well_keeps_its_place_into_the_next_round() {
    let mut bench = Bench::new();
    bench.report("n3", Vec::new());
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.grant("n2");
    bench.heard();
    let before = bench.places("x");
    bench.stands("n1", &TaskStanding::Gone);
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "n1 reserve");
    bench.audit();
    bench.grant("n1");
    assert_eq!(bench.heard(), "Placed, n1 stop, n1 launch, n2 launch");
    let after = bench.places("x");
    assert_eq!(bench.orders[&node("n2")].run.round, 1);
    assert_ne!(before[1].uid, after[1].uid, "its container is made anew");
    assert!(before[1].is_same_place(&after[1]));
    bench.audit();
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "", "half a gang does not start");
    bench.stands("n1", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
}

#[test]
fn who_is_on_a_machine_that_is_gone_is_placed_on_another_before_go() {
    let mut bench = Bench::placed();
    bench.report("n3", Vec::new());
    bench.stands("n1", &TaskStanding::Ready);
    bench.heard();
    let lost = bench.places("x")[1].clone();
    bench.unreachable(&["n2"]);
    assert_eq!(bench.heard(), "n3 reserve");
    let expected = "another place is looked for, for w:1: n2 cannot be reached";
    assert_eq!(bench.waiting_for("x"), expected);
    bench.audit();
    bench.grant("n3");
    assert_eq!(bench.heard(), "Placed, n2 stop, n1 launch, n3 launch");
    bench.audit();
    for name in ["n1", "n3"] {
        bench.stands(name, &TaskStanding::Ready);
    }
    assert_eq!(bench.heard(), "Go, n1 go, n3 go");
    // It comes back with what it had.
    bench.unreachable(&[]);
    let mut left = held("default", 2, lost.uid.as_str(), TaskStanding::Ready);
    left.member.task = lost.task;
    bench.report("n2", vec![left.clone()]);
    assert_eq!(bench.heard(), "n2 stop");
    left.standing = ended(-220);
    bench.report("n2", vec![left]);
    assert_eq!(bench.heard(), "n2 settle");
}

#[test]
fn who_comes_back_while_another_place_is_looked_for_stays() {
    let mut bench = Bench::placed();
    bench.report("n3", Vec::new());
    bench.heard();
    bench.unreachable(&["n2"]);
    assert_eq!(bench.heard(), "n3 reserve");
    bench.unreachable(&[]);
    assert_eq!(bench.heard(), "n3 stop");
    bench.audit();
    for name in ["n1", "n2"] {
        bench.stands(name, &TaskStanding::Ready);
    }
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
    assert_eq!(bench.orders[&node("n2")].run.round, 0);
}

#[test]
fn a_node_that_does_not_answer_its_launch_is_given_up() {
    let mut bench = Bench::placed();
    bench.report("n3", Vec::new());
    bench.stands("n1", &TaskStanding::Ready);
    bench.heard();
    let since = bench.now;
    while bench.heard.last().is_none_or(|last| last != "n3 reserve") {
        bench.wait();
    }
    let patience_ms = LeaderPolicy::default().round_timeout_ms;
    assert_eq!(bench.now, since.plus_millis(patience_ms));
    bench.audit();
    // It says something, though not on the Launch.
    bench.heard();
    bench.report("n2", Vec::new());
    assert_eq!(bench.heard(), "n2 launch, n3 stop");
    bench.audit();
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
}

#[test]
fn who_could_not_be_launched_is_placed_on_another_machine_a_few_times() {
    for (code, behavior) in [
        (250, Behavior::Transient),
        (253, Behavior::Transient),
        (EXIT_NOT_CREATED, Behavior::Unknown),
    ] {
        let mut failed = verdict::stopped(Cause::BarrierTimeout);
        failed.spec.code = code;
        failed.spec.behavior = behavior;
        is_tried_on_four_machines(&TaskStanding::Ended(Box::new(failed)));
    }
}

fn is_tried_on_four_machines(failed: &TaskStanding) {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    bench.grant("n1");
    for name in ["n3", "n4", "n5", "n6"] {
        bench.report(name, Vec::new());
    }
    bench.heard();
    let mut tried = BTreeSet::from([node("n1")]);
    for round in 0..3 {
        let at = bench.places("x")[0].node.clone();
        bench.stands(at.as_str(), failed);
        let heard = bench.heard();
        let next = heard.strip_suffix(" reserve").expect(&heard).to_owned();
        assert!(tried.insert(node(&next)), "{next} was tried before");
        bench.grant(&next);
        assert_eq!(
            bench.heard(),
            format!("Placed, {at} settle, {at} stop, {next} launch"),
            "round {round}"
        );
        bench.audit();
    }
    let at = bench.places("x")[0].node.clone();
    bench.stands(at.as_str(), failed);
    let heard = bench.heard();
    assert!(
        heard.starts_with(&format!("TaskEnded, {at} settle")),
        "{heard}"
    );
}

#[test]
fn what_is_the_users_fault_is_tried_on_no_other_machine() {
    for (code, behavior) in [(254, Behavior::Permanent), (255, Behavior::Unknown)] {
        let mut bench = Bench::placed();
        bench.report("n3", Vec::new());
        bench.heard();
        let mut failed = verdict::stopped(Cause::BarrierTimeout);
        failed.spec.code = code;
        failed.spec.behavior = behavior;
        bench.stands("n2", &TaskStanding::Ended(Box::new(failed)));
        assert!(bench.heard().starts_with("TaskEnded"), "{code}");
    }
}

#[test]
fn where_there_is_no_other_place_the_round_is_void() {
    let mut bench = Bench::placed();
    bench.report_closed("n1", Some("it is drained"));
    bench.heard();
    bench.stands("n1", &TaskStanding::Gone);
    assert_eq!(bench.heard(), "Void, n1 stop, n2 stop");
    bench.stands("n1", &TaskStanding::Gone);
    assert_eq!(bench.heard(), "TaskEnded");
    bench.wait();
    assert_eq!(bench.heard(), "n2 stop", "n2 may still hold the round");
    bench.stands("n2", &TaskStanding::Gone);
    assert_eq!(bench.heard(), "TaskEnded");
    bench.report("n1", Vec::new());
    assert_eq!(bench.wait_long(), "n1 reserve, n2 reserve");
    assert_eq!(bench.orders[&node("n1")].run.round, 1);
}

#[test]
fn nobody_waits_for_a_machine_that_is_gone_where_nothing_was_started() {
    let mut bench = Bench::placed();
    bench.heard();
    let since = bench.now;
    bench.unreachable(&["n2"]);
    while bench.heard.iter().all(|heard| heard != "Void") {
        assert_ne!(bench.heard(), "TaskEnded");
        bench.wait();
    }
    let patience_ms = LeaderPolicy::default().round_timeout_ms;
    assert_eq!(bench.now, since.plus_millis(patience_ms), "it may be back");
    assert_eq!(bench.heard(), "Void, n1 stop, n2 stop, TaskEnded");
    bench.stands("n1", &TaskStanding::Gone);
    assert_eq!(bench.heard(), "TaskEnded");
    bench.report("n3", Vec::new());
    assert_eq!(bench.wait_long(), "n1 reserve, n3 reserve");
    bench.audit();
    // The same where the user stops it.
    bench.grant("n1");
    bench.grant("n3");
    bench.unreachable(&["n2", "n3"]);
    bench.heard();
    bench.stop("x");
    assert_eq!(bench.heard(), "n1 stop, n3 stop, TaskEnded");
    bench.stands("n1", &TaskStanding::Gone);
    assert_eq!(bench.state(), JobState::Stopped);
}

#[test]
fn what_was_started_on_a_machine_that_is_gone_is_waited_for() {
    let mut bench = Bench::new();
    bench.ready();
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
    bench.report("n3", Vec::new());
    bench.unreachable(&["n2"]);
    bench.stop("x");
    assert_eq!(bench.heard(), "n1 stop, n2 stop");
}

#[test]
fn a_new_leader_stops_nobody_who_keeps_its_place() {
    let mut bench = Bench::placed();
    let before = bench.places("x")[1].clone();
    bench.stands("n1", &TaskStanding::Gone);
    bench.grant("n1");
    bench.heard();
    bench.elect();
    let mut kept = held("default", 2, before.uid.as_str(), TaskStanding::Ready);
    kept.member.task = before.task;
    bench.report("n2", vec![kept]);
    assert_eq!(bench.heard(), "n2 launch", "of the round that it is in");
    let order = &bench.orders[&node("n2")];
    assert_eq!(order.run.round, 1);
}

#[test]
fn who_keeps_its_place_keeps_its_lease() {
    let mut bench = Bench::new();
    bench.input(CoordinatorInput::Leases(false));
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.grant("n2");
    bench.report("n3", Vec::new());
    // There are voters enough by now.
    bench.input(CoordinatorInput::Leases(true));
    bench.unreachable(&["n2"]);
    bench.grant("n3");
    for name in ["n1", "n3"] {
        let order = &bench.orders[&node(name)];
        let GangCommand::Launch { tasks, .. } = &order.command else {
            panic!("{name}: {order:?}");
        };
        let leases: Vec<_> = tasks.iter().map(|task| task.lease_s).collect();
        assert_eq!((order.run.round, leases), (1, vec![None]), "{name}");
    }
}

#[test]
fn who_is_back_before_the_others_has_its_place_back() {
    let mut bench = Bench::placed();
    bench.unreachable(&["n1", "n2"]);
    bench.audit();
    bench.unreachable(&["n2"]);
    bench.audit();
    let current = bench.state.live().next().unwrap();
    let held = bench.coordinator.inventory.number(&current.run);
    let cells = bench.coordinator.inventory.cells().unwrap();
    let (_, placement, _) = cells.gang(held.unwrap()).unwrap();
    let nodes: Vec<&str> = placement
        .leaves()
        .map(|leaf| cells.address(leaf).0)
        .collect();
    assert!(nodes.contains(&"n1") && !nodes.contains(&"n2"), "{nodes:?}");
}

#[test]
fn a_node_that_answers_nothing_holds_nobody_up_who_has_not_started() {
    let mut bench = Bench::placed();
    bench.stands("n1", &TaskStanding::Ready);
    while bench.heard.iter().all(|heard| heard != "Void") {
        bench.wait();
    }
    let void = bench.now;
    bench.stands("n1", &TaskStanding::Gone);
    while bench.state.live().next().is_some() {
        bench.wait();
    }
    let patience_ms = LeaderPolicy::default().round_timeout_ms;
    assert_eq!(bench.now, void.plus_millis(patience_ms));
}

#[test]
fn who_is_to_be_near_the_others_waits_for_a_machine_that_may_be_back() {
    let mut bench = Bench::new();
    let mut entry = job("x", 2, CPU);
    if let VcEntry::Accept(job) = &mut entry {
        job.spec.roles[0].near = Some(NearSpec {
            level: Level::Rack,
            required: false,
        });
    }
    bench.commit(&entry);
    bench.grant("n1");
    bench.grant("n2");
    bench.report("n3", Vec::new());
    bench.stands("n1", &TaskStanding::Ready);
    bench.heard();
    bench.unreachable(&["n2"]);
    assert_eq!(bench.heard(), "", "it is not placed alone");
    bench.unreachable(&[]);
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
}
