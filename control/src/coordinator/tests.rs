//! One leader between a log that commits at once and nodes that say what the test has them say.

mod ageing;
mod answering;
mod away;
pub(super) mod bench;
mod binding;
mod describing;
mod foreign;
mod giving_way;
mod holding;
mod judging;
mod launching;
mod limits;
mod listing;
mod queueing;
mod recovered;
mod recurring;
mod relocation;
mod settling;
mod time_over;
mod trying;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::explanation::Earliest;
use muster_model::id::NodeId;
use muster_model::job::{JobSpec, Partition};
use muster_model::node::Free;
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::sight::JobSight;
use muster_model::state::{JobState, PriorityClass};
use muster_model::vc::WhatIf;

use super::{Coordinator, CoordinatorInput, CoordinatorOptions, LeaderPolicy};
use crate::fence::{StartId, Term};
use crate::gang::JobId;
use crate::order::{
    FreeList, GangCommand, HeldTask, Order, OrderOutcome, OrderRefusal, TaskStanding,
};
use crate::vc::{JobDocument, VcEntry, VcState};
use crate::verdict;
use bench::*;

#[test]
fn a_gang_from_acceptance_to_the_end() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    assert_eq!(bench.heard(), "n1 reserve, n2 reserve");
    bench.grant("n1");
    assert_eq!(bench.heard(), "", "half a gang is not placed");
    bench.grant("n2");
    assert_eq!(bench.heard(), "Placed, n1 launch, n2 launch");
    bench.stands("n1", &TaskStanding::Ready);
    bench.stands("n2", &TaskStanding::Starting);
    assert_eq!(bench.heard(), "", "half a gang does not start");
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
    assert_eq!(bench.state(), JobState::Running);
    bench.stands("n1", &ended(0));
    assert_eq!(bench.heard(), "TaskEnded, n1 settle");
    bench.stands("n2", &ended(0));
    assert_eq!(bench.heard(), "TaskEnded, n2 settle");
    assert_eq!(bench.state(), JobState::Succeeded);
    // That they have forgotten it is asked for once.
    bench.wait();
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    assert!(bench.has_nothing_to_do());
}

#[test]
fn a_task_that_fails_takes_the_rest_with_it() {
    let mut bench = Bench::new();
    bench.ready();
    bench.heard();
    bench.stands("n1", &ended(1));
    assert_eq!(bench.heard(), "TaskEnded, n1 settle, n2 stop");
    assert_eq!(bench.state(), JobState::Running, "n2 may still run it");
    bench.stands("n2", &ended(143));
    assert_eq!(bench.heard(), "TaskEnded, n2 settle");
    assert_eq!(bench.state(), JobState::Failed);
}

#[test]
fn a_refused_plan_is_taken_back_and_made_again() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.heard();
    bench.grant("n1");
    let refusal = OrderRefusal::NotFree("4 cores asked, 2 free".to_owned());
    bench.answer("n2", OrderOutcome::Refused(refusal));
    assert_eq!(bench.heard(), "n1 stop, n2 stop");
    let pause = bench.wait();
    assert!((1..=100).contains(&pause), "{pause} ms");
    assert_eq!(bench.heard(), "n1 reserve, n2 reserve");
}

#[test]
fn only_the_answer_to_the_newest_order_counts() {
    type Bend = fn(&mut Order);
    let table: [(Bend, &str); 4] = [
        (|_| (), "Placed, n1 launch"),
        (|order| order.fence.seq -= 1, ""),
        (|order| order.fence.term = Term(0), ""),
        (|order| order.start = StartId(9), ""),
    ];
    for (i, (bend, expected)) in table.into_iter().enumerate() {
        let mut bench = Bench::new();
        bench.commit(&job("x", 1, CPU));
        bench.wait();
        assert_eq!(bench.heard(), "n1 reserve, n1 reserve");
        let mut order = bench.orders[&node("n1")].clone();
        let granted = members(&order).into_iter().map(|m| (m, Vec::new()));
        let reply = OrderOutcome::Granted(granted.collect());
        bend(&mut order);
        bench.answer_to("n1", &order, reply);
        assert_eq!(bench.heard(), expected, "row {i}");
    }
}

#[test]
fn orders_are_sent_again_ever_more_rarely() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    bench.grant("n1");
    bench.stands("n1", &TaskStanding::Ready);
    bench.heard();
    let mut pauses = Vec::new();
    while pauses.iter().sum::<u64>() < 120_000 {
        let mut pause = 0;
        while bench.heard.is_empty() {
            pause += bench.wait();
        }
        assert_eq!(bench.heard(), "n1 go");
        pauses.push(pause);
    }
    assert_eq!(pauses[..6], [1000, 2000, 4000, 8000, 16_000, 30_000]);
    assert_eq!(pauses.last(), Some(&30_000));
    // A new life of the agent knows of no order, and gets it soon.
    bench.start = 2;
    bench.report("n1", Vec::new());
    assert_eq!((bench.wait(), bench.heard().as_str()), (1000, "n1 go"));
    assert_eq!(bench.orders[&node("n1")].start, StartId(2));
}

#[test]
fn a_new_leader_takes_up_what_is_committed() {
    let mut bench = Bench::new();
    bench.ready();
    bench.heard();
    let running = bench.orders[&node("n1")].clone();
    bench.elect();
    assert_eq!(bench.heard(), "", "it knows no node yet");
    let member = members(&running).remove(0);
    let held = |standing| HeldTask {
        vc: "default".parse().unwrap(),
        run: running.run.clone(),
        member: member.clone(),
        standing,
        holding: None,
    };
    bench.report("n1", vec![held(TaskStanding::Running)]);
    bench.report("n2", Vec::new());
    assert_eq!(bench.heard(), "n1 go, n2 go");
    bench.stands("n2", &TaskStanding::Gone);
    assert_eq!(
        bench.heard(),
        "TaskEnded, n1 stop",
        "lost, so the gang ends"
    );
    bench.stands("n1", &TaskStanding::Gone);
    bench.heard();
    bench.report("n1", vec![held(TaskStanding::Running)]);
    let heard = bench.heard();
    assert!(heard.contains("n1 stop"), "left over from before: {heard}");
    bench.report("n1", vec![held(ended(0))]);
    assert_eq!(bench.heard(), "n1 settle");
}

#[test]
fn without_a_node_nothing_is_refused() {
    let mut bench = Bench::new();
    bench.coordinator = Coordinator::new(bench.options.clone());
    bench.elect();
    bench.commit(&job("x", 1, CPU));
    assert_eq!(
        bench.waiting_for("x"),
        "waits for a machine: none is connected"
    );
    let told = bench
        .coordinator
        .explanation(bench.now, &bench.state, (&key("x"), &JobSight::All));
    let told = told.unwrap().gangs.remove(0);
    assert_eq!(
        (&*told.constraint, told.earliest),
        ("nodes", Earliest::Unknown)
    );
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "n1 reserve");
}

#[test]
fn a_waiting_job_says_why() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    assert_eq!(
        bench.waiting_for("x"),
        "waits for its resources to be reserved"
    );
    bench.commit(&job("huge", 1, 64));
    bench.commit(&job("next", 1, 1));
    bench.commit(&job("last", 1, 1));
    assert_eq!(
        bench.waiting_for("huge"),
        "asks for 64 CPU cores, but the largest node has 4: it can never start here, ask for less"
    );
    bench.grant("n1");
    bench.grant("n2");
    assert_eq!(bench.waiting_for("x"), "");
}

#[test]
fn a_launch_that_takes_long_says_where() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.grant("n2");
    assert_eq!(bench.waiting_for("x"), "");
    bench.stands("n1", &TaskStanding::Starting);
    bench.stands("n2", &TaskStanding::Starting);
    let placed = bench.now;
    while bench.now.micros_since(placed) < 12_000_000 {
        bench.wait();
    }
    let reason = bench.waiting_for("x");
    assert!(
        reason.starts_with("waits for its containers on n1, n2 for "),
        "{reason}"
    );
    bench.stands("n1", &TaskStanding::Ready);
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.waiting_for("x"), "", "it runs");
}

const CRIT: Option<PriorityClass> = Some(PriorityClass::Crit);

#[test]
fn a_new_leader_gives_nobody_what_runs_on_the_node_that_reports_last() {
    let mut bench = Bench::new();
    bench.ready();
    bench.elect();
    bench.heard();
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
        bench.audit();
    }
    bench.heard();
    bench.commit(&job("z", 1, CPU));
    assert_eq!(bench.heard(), "");
    assert!(
        bench.waiting_for("z").contains("CPU"),
        "{}",
        bench.waiting_for("z")
    );
}

#[test]
fn who_was_refused_keeps_its_place_while_it_pauses() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.heard();
    let refusal = OrderRefusal::NotFree("4 cores asked, 2 free".to_owned());
    bench.answer("n2", OrderOutcome::Refused(refusal));
    assert_eq!(bench.heard(), "n1 stop, n2 stop");
    bench.commit(&job("z", 1, CPU));
    assert_eq!(bench.heard(), "", "nobody slips in");
    bench.wait();
    assert_eq!(bench.heard(), "n1 reserve, n2 reserve");
    bench.audit();
}

#[test]
fn nothing_is_placed_where_nobody_can_reach() {
    let mut bench = Bench::new();
    bench.input(CoordinatorInput::Unreachable([node("n1")].into()));
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "n2 reserve");
    bench.commit(&job("y", 1, CPU));
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "", "its word arrived, but it may be old");
    bench.input(CoordinatorInput::Unreachable([node("n2")].into()));
    assert_eq!(bench.heard(), "n2 stop, n1 reserve");
    bench.elect();
    bench.input(CoordinatorInput::Unreachable([node("n1")].into()));
    bench.report("n1", Vec::new());
    bench.commit(&job("z", 1, CPU));
    assert_eq!(bench.heard(), "", "a new leader heeds it too");
}
