//! What the virtual cluster is bound to, and what is placed on it.

use super::*;
use crate::bound::{BoundLeaves, Span};

fn cells(spans: &[(u32, u32, u64)]) -> BoundLeaves {
    let mut bound = BoundLeaves::default();
    for (first, last, epoch) in spans {
        let (first, last, epoch) = (*first, *last, *epoch);
        bound.add(&"n1".parse().unwrap(), Span { first, last, epoch });
    }
    bound
}

impl Bench {
    fn bind(&mut self, version: u64, cells: BoundLeaves) -> Result<VcApplied, VcRejection> {
        self.apply(&VcEntry::Bound { version, cells })
    }

    fn release(&mut self, cells: BoundLeaves) -> Result<VcApplied, VcRejection> {
        self.apply(&VcEntry::Released(cells))
    }

    /// The only task is placed on this leaf, as one that is promised it or not.
    fn on(&mut self, leaf: u32, is_within: bool) -> Result<VcApplied, VcRejection> {
        let run = self.waiting().remove(0);
        let mut placed = self.placed(&run);
        placed.is_within = is_within;
        placed.members[0].leaves = vec![leaf];
        self.apply(&VcEntry::Placed(Box::new(placed)))
    }

    fn held(&self) -> &BoundLeaves {
        self.state.own_cells().held()
    }
}

fn bench() -> Bench {
    Bench::new(spec(true, 0, &[("w", 1, 1, -1)]))
}

#[test]
fn a_promise_is_used_on_own_cells_alone() {
    let mut bench = bench();
    assert!(matches!(bench.on(0, true), Err(VcRejection::NotOwn(_))));
    bench.bind(5, cells(&[(0, 3, 5)])).unwrap();
    assert!(matches!(bench.on(4, true), Err(VcRejection::NotOwn(_))));
    assert!(bench.on(3, true).is_ok());
    let mut lent = self::bench();
    assert!(lent.on(4, false).is_ok(), "what is lent is anybody's");
}

#[test]
fn nothing_is_given_back_that_a_promised_gang_is_on() {
    let mut bench = bench();
    bench.bind(5, cells(&[(0, 3, 5)])).unwrap();
    bench.on(1, true).unwrap();
    assert!(matches!(
        bench.release(cells(&[(0, 3, 5)])),
        Err(VcRejection::Cells(_))
    ));
    assert!(bench.release(cells(&[(2, 3, 5)])).is_ok());
    assert_eq!(*bench.held(), cells(&[(0, 1, 5)]));
    bench.end("w", 0, TaskEnd::Gone);
    assert!(bench.release(cells(&[(0, 1, 5)])).is_ok());
    assert!(matches!(bench.on(1, true), Err(VcRejection::NotOwn(_))));
}

#[test]
fn what_was_given_back_is_not_had_again_by_an_old_word() {
    let mut bench = bench();
    bench.bind(5, cells(&[(0, 3, 5)])).unwrap();
    for wrong in [cells(&[(3, 4, 5)]), cells(&[(0, 0, 4)])] {
        assert!(matches!(bench.release(wrong), Err(VcRejection::Cells(_))));
    }
    bench.release(cells(&[(0, 1, 5)])).unwrap();
    assert_eq!(
        bench.bind(5, cells(&[(0, 3, 5)])),
        Err(VcRejection::OldBinding(5))
    );
    // Said before it was heard of: something else has changed meanwhile.
    bench.bind(7, cells(&[(0, 3, 5), (8, 9, 7)])).unwrap();
    assert_eq!(*bench.held(), cells(&[(2, 3, 5), (8, 9, 7)]));
    assert!(
        bench
            .state
            .own_cells()
            .is_as(&cells(&[(0, 3, 5), (8, 9, 7)]))
    );
    // It was heard of, and another one had it in between.
    bench.bind(9, cells(&[(0, 0, 9), (2, 3, 5)])).unwrap();
    assert_eq!(*bench.held(), cells(&[(0, 0, 9), (2, 3, 5)]));
    assert!(bench.state.own_cells().released().is_empty());
    // All at once, though nobody gave it back: a machine that left.
    bench.bind(11, BoundLeaves::default()).unwrap();
    assert!(bench.held().is_empty());
}
