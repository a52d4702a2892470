//! What single answers call for, where others have not come.

use super::{Bench, CPU, ended, held, job, members, node};
use crate::order::{OrderOutcome, TaskStanding};

#[test]
fn an_end_counts_at_once_though_others_have_not_answered() {
    let mut bench = Bench::new();
    bench.ready();
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
    let go = bench.orders[&node("n1")].clone();
    bench.stands("n1", &ended(0));
    assert_eq!(bench.heard(), "TaskEnded, n1 settle");
    bench.audit();
    // The Settle may be lost, and the node say it again.
    let list = members(&go).into_iter().map(|member| (member, ended(0)));
    bench.answer_to("n1", &go, OrderOutcome::Standing(list.collect()));
    assert_eq!(bench.heard(), "n1 settle");
    bench.stands("n2", &TaskStanding::Running);
    assert_eq!(bench.heard(), "");
    bench.stands("n2", &ended(0));
    assert_eq!(bench.heard(), "TaskEnded, n2 settle");
    bench.audit();
}

#[test]
fn an_order_that_is_not_answered_is_sent_again_though_others_answer() {
    let mut bench = Bench::placed();
    bench.heard();
    let (before, resend_ms) = (bench.now, bench.options.policy.resend_ms);
    bench.stands("n1", &TaskStanding::Starting);
    assert_eq!(bench.wait_long(), "n2 launch");
    assert_eq!(bench.now.micros_since(before), resend_ms * 1_000);
}

#[test]
fn the_barrier_stands_from_the_first_that_is_ready() {
    let mut bench = Bench::placed();
    for name in ["n1", "n2"] {
        bench.stands(name, &TaskStanding::Starting);
    }
    let (before, barrier_ms) = (bench.now, bench.options.policy.barrier_ms);
    bench.stands("n1", &TaskStanding::Ready);
    bench.heard();
    assert_eq!(bench.wait_long(), "Stopping, n1 stop, n2 stop");
    assert_eq!(bench.now.micros_since(before), barrier_ms * 1_000);
}

#[test]
fn who_is_known_to_be_ready_by_a_report_keeps_nobody_waiting() {
    let mut bench = Bench::placed();
    bench.heard();
    let place = bench.places("x")[0].clone();
    assert_eq!(place.node, node("n1"));
    bench.report(
        "n1",
        vec![held("default", 2, place.uid.as_str(), TaskStanding::Ready)],
    );
    assert_eq!(bench.heard(), "");
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
}

#[test]
fn each_of_two_on_one_machine_ends_by_itself() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 4, CPU / 2));
    bench.grant("n1");
    bench.grant("n2");
    bench.stands("n1", &TaskStanding::Ready);
    bench.stands("n2", &TaskStanding::Ready);
    bench.stands("n2", &TaskStanding::Running);
    bench.heard();
    let go = bench.orders[&node("n1")].clone();
    let [first, second] = <[_; 2]>::try_from(members(&go)).unwrap();
    let list = vec![(first, ended(0)), (second.clone(), TaskStanding::Running)];
    bench.answer_to("n1", &go, OrderOutcome::Standing(list));
    assert_eq!(bench.heard(), "TaskEnded, n1 settle");
    bench.answer_to("n1", &go, OrderOutcome::Standing(vec![(second, ended(0))]));
    assert_eq!(bench.heard(), "TaskEnded, n1 settle");
    bench.stands("n2", &ended(0));
    assert_eq!(bench.heard(), "TaskEnded, n2 settle, TaskEnded, n2 settle");
    bench.audit();
}

#[test]
fn where_a_node_evicts_one_the_others_are_told_to_end_at_once() {
    let mut bench = Bench::new();
    bench.ready();
    bench.heard();
    bench.stands("n1", &TaskStanding::Running);
    bench.stands("n2", &TaskStanding::Evicted);
    assert_eq!(bench.heard(), "Stopping, n1 stop, n2 stop");
    bench.stands("n2", &TaskStanding::Evicted);
    assert_eq!(bench.heard(), "", "once");
    bench.audit();
    let mut bench = Bench::placed();
    bench.heard();
    bench.stands("n1", &TaskStanding::Evicted);
    assert_eq!(bench.heard(), "Stopping, n1 stop, n2 stop", "before Go too");
}
