//! Who was bound to a cell before gets nothing of it.

use super::*;

/// A reservation of the first device in this epoch of its cell.
fn in_epoch(job: u64, epoch: u64) -> GangCommand {
    let mut command = reserve(job, &[0]);
    if let GangCommand::Reserve { asks, .. } = &mut command {
        asks[0].epochs = vec![epoch];
    }
    command
}

#[test]
fn an_older_epoch_is_refused_for_good() {
    let mut bench = Bench::new();
    assert_eq!(bench.told(1, in_epoch(1, 7)), "granted");
    bench.told(1, stop(1));
    let refused = OrderRefusal::OldCell { leaf: 0, epoch: 7 };
    assert_eq!(
        bench.say(2, in_epoch(2, 6)),
        OrderOutcome::Refused(refused.clone())
    );
    bench.restart();
    bench.steps();
    assert_eq!(bench.say(2, in_epoch(2, 6)), OrderOutcome::Refused(refused));
    // Reservations that were given up before the restart end by themselves.
    bench.now = bench.now.plus_millis(TTL_MS);
    assert_eq!(bench.told(2, in_epoch(2, 7)), "granted");
    bench.told(2, stop(2));
    // Whoever is promised nothing names no epoch.
    assert_eq!(bench.told(3, reserve(3, &[0])), "granted");
}

#[test]
fn another_cluster_counts_epochs_anew() {
    let mut bench = Bench::new();
    bench.told(1, in_epoch(1, 7));
    bench.told(1, stop(1));
    bench.start += 1;
    let start = StartId(bench.start);
    bench.input(LedgerInput::Moved { start });
    bench.learn(1);
    bench.restart();
    assert_eq!(bench.told(2, in_epoch(2, 1)), "granted");
}
