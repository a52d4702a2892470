//! A leader of a virtual cluster that was recovered.

use std::collections::BTreeSet;

use super::*;

/// What the node runs, and nobody who is left knows of.
fn stray(standing: TaskStanding) -> HeldTask {
    held("default", 77, "lost", standing)
}

#[test]
fn nothing_is_placed_beside_what_nobody_knows() {
    for (generation, waits) in [(1, false), (2, true)] {
        let mut bench = Bench::with(CoordinatorOptions {
            generation,
            ..options()
        });
        // The nodes are heard before the first entry of the term is applied.
        bench.coordinator = Coordinator::new(bench.options.clone());
        let description = Box::new(bench.description.clone());
        bench.input(CoordinatorInput::Described(Some(description)));
        let nodes: BTreeSet<_> = ["n1", "n2"].map(node).into();
        bench.input(CoordinatorInput::Reachable(nodes));
        bench.report("n1", vec![stray(TaskStanding::Running)]);
        bench.report("n2", Vec::new());
        bench.term += 1;
        let term = Term(bench.term);
        bench.input(CoordinatorInput::Elected { term });
        bench.commit(&job("x", 1, 1));
        let heard = bench.heard();
        assert!(!heard.contains("reserve"), "nobody has said anything yet");
        bench.report("n2", Vec::new());
        assert_eq!(bench.heard().contains("reserve"), !waits);
        if !waits {
            continue;
        }
        bench.report("n1", vec![stray(TaskStanding::Running)]);
        assert_eq!(bench.heard(), "n1 stop");
        bench.report("n1", vec![stray(TaskStanding::Stopping)]);
        assert!(!bench.heard().contains("reserve"));
        bench.report("n1", Vec::new());
        assert!(bench.heard().contains("reserve"));
    }
}

#[test]
fn nothing_is_placed_beside_what_a_lost_ledger_does_not_know() {
    let mut bench = Bench::with(CoordinatorOptions {
        generation: 2,
        ..options()
    });
    bench.elect();
    let nodes: BTreeSet<_> = ["n1", "n2"].map(node).into();
    bench.input(CoordinatorInput::Reachable(nodes));
    bench.report("n2", Vec::new());
    // It has lost its ledger, and has not looked at its containers yet.
    bench.has_strays = true;
    bench.report_closed("n1", Some("not seen yet"));
    bench.commit(&job("x", 1, 1));
    assert_eq!(bench.heard(), "");
    bench.report_closed("n1", Some("being removed"));
    assert_eq!(bench.heard(), "");
    bench.has_strays = false;
    bench.report("n1", Vec::new());
    assert!(bench.heard().contains("reserve"));
}

#[test]
fn who_does_not_report_is_not_waited_for_for_ever() {
    let mut bench = Bench::with(CoordinatorOptions {
        generation: 2,
        ..options()
    });
    bench.elect();
    let nodes: BTreeSet<_> = ["n1", "n2", "n3"].map(node).into();
    bench.input(CoordinatorInput::Reachable(nodes));
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    bench.commit(&job("x", 1, 1));
    assert_eq!(bench.heard(), "");
    let begun = bench.now;
    assert!(bench.wait_long().contains("reserve"));
    assert_eq!(bench.now.micros_since(begun), 120_000_000);
}
