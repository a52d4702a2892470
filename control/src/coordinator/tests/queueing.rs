//! Long queues, and pauses that nobody waits out.

use super::*;

/// A job on each node, and so many that wait for one of the nodes.
fn crowd(waiting: usize) -> Bench {
    let mut bench = Bench::new();
    for (name, on) in [("x", "n1"), ("y", "n2")] {
        bench.commit(&job(name, 1, CPU));
        bench.grant(on);
        bench.stands(on, &TaskStanding::Ready);
        bench.stands(on, &TaskStanding::Running);
    }
    for number in 0..waiting {
        bench.commit(&job(&format!("w{number}"), 1, CPU));
    }
    bench.now = bench.now.plus_millis(1_000);
    bench.heard();
    bench
}

#[test]
fn a_long_queue_is_looked_through_once_in_a_while() {
    for (waiting, pause_ms) in [(50, None), (250, Some(2))] {
        let mut bench = crowd(waiting);
        bench.stands("n1", &ended(0));
        assert_eq!(bench.heard(), "TaskEnded, n1 settle, n1 reserve");
        bench.stands("n2", &ended(0));
        match pause_ms {
            None => assert_eq!(bench.heard(), "TaskEnded, n2 settle, n2 reserve"),
            Some(pause_ms) => {
                assert_eq!(bench.heard(), "TaskEnded, n2 settle");
                assert_eq!(bench.wait(), pause_ms);
                assert_eq!(bench.heard(), "n2 reserve");
            }
        }
        bench.audit();
    }
}

#[test]
fn nobody_is_woken_by_the_pause_of_who_was_stopped() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.answer(
        "n2",
        OrderOutcome::Refused(OrderRefusal::NotFree("taken".to_owned())),
    );
    assert!(
        bench.coordinator.deadline().is_some(),
        "it is planned again"
    );
    bench.stop("x");
    bench.now = bench.now.plus_millis(1_000);
    bench.input(CoordinatorInput::Tick);
    let next = bench.coordinator.deadline();
    assert!(next.is_none_or(|at| at > bench.now), "{next:?}");
}
