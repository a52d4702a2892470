//! What nodes are told to forget.

use super::*;

#[test]
fn an_end_that_a_node_was_not_told_to_forget_is_settled_again() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    let name = bench.heard();
    let (name, _) = name.split_once(' ').unwrap();
    bench.grant(name);
    bench.stands(name, &Standing::Ready);
    bench.heard();
    bench.stands(name, &ended(0));
    assert_eq!(bench.heard(), format!("TaskEnded, {name} settle"));
    let settled = members(&bench.orders[&node(name)]);
    let order = bench.orders[&node(name)].clone();
    bench.wait();
    // The order was lost.
    let task = HeldTask {
        vc: order.vc,
        run: order.run,
        member: settled[0].clone(),
        standing: ended(0),
        holding: None,
    };
    bench.report(name, vec![task]);
    assert_eq!(bench.heard(), format!("{name} settle"));
    bench.wait();
    bench.report(name, Vec::new());
    assert_eq!(bench.coordinator.deadline(), None);
}
