//! What nodes are told to forget.

use super::*;

/// A job whose only task has ended on a node, and what that node was told to forget of it.
fn ended_on(bench: &mut Bench) -> (String, HeldTask) {
    bench.commit(&job("x", 1, CPU));
    let name = bench.heard();
    let (name, _) = name.split_once(' ').unwrap();
    bench.grant(name);
    bench.stands(name, &TaskStanding::Ready);
    bench.heard();
    bench.stands(name, &ended(0));
    assert_eq!(bench.heard(), format!("TaskEnded, {name} settle"));
    let order = bench.orders[&node(name)].clone();
    let task = HeldTask {
        vc: order.vc.clone(),
        run: order.run.clone(),
        member: members(&order)[0].clone(),
        standing: ended(0),
        holding: None,
    };
    (name.to_owned(), task)
}

#[test]
fn an_end_that_a_node_was_not_told_to_forget_is_settled_again() {
    let mut bench = Bench::new();
    let (name, task) = ended_on(&mut bench);
    bench.wait();
    // The order was lost.
    bench.report(&name, vec![task]);
    assert_eq!(bench.heard(), format!("{name} settle"));
    bench.wait();
    bench.report(&name, Vec::new());
    assert!(bench.has_nothing_to_do());
}

#[test]
fn a_report_of_before_does_not_say_that_an_end_is_forgotten() {
    let mut bench = Bench::new();
    bench.version = 7;
    let (name, task) = ended_on(&mut bench);
    // The order was lost, and what the node said before it had the task comes late.
    bench.version = 6;
    bench.report(&name, Vec::new());
    bench.version = 7;
    bench.wait();
    assert_eq!(bench.polled.last(), Some(&node(&name)));
    bench.report(&name, vec![task]);
    assert_eq!(bench.heard(), format!("{name} settle"));
}
