//! What is left of a membership that has ended.

use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;

use super::*;
use crate::ledger::Membership;

fn serves(bench: &mut Bench, cluster: u8) {
    bench.input(LedgerInput::Serves(Membership {
        cluster: ClusterId([cluster; 16]),
        member: MemberId(1),
    }));
}

/// A machine that runs a task of the first cluster.
fn runs() -> Bench {
    let mut bench = Bench::new();
    serves(&mut bench, 1);
    bench.say(1, reserve(1, &[0, 1]));
    bench.say(1, launch(1));
    bench.seen(1, Observation::Ready);
    bench.say(1, go(1));
    bench.seen(1, Observation::Running);
    bench.steps();
    bench
}

/// Its membership ends, and it is in another cluster.
fn moves(bench: &mut Bench) {
    bench.start += 1;
    let start = StartId(bench.start);
    bench.input(LedgerInput::Moved { start });
    serves(bench, 2);
}

#[test]
fn an_end_that_nobody_settles_is_dropped_with_the_membership() {
    let mut bench = runs();
    bench.seen(1, Observation::Ended(exit()));
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.ledger.tasks().len(), 1, "its leader has to settle it");
    serves(&mut bench, 1);
    assert_eq!(bench.ledger.tasks().len(), 1, "said again");
    moves(&mut bench);
    assert_eq!(bench.ledger.tasks(), []);
    assert_eq!(bench.free_cpu(), CPU);
}

#[test]
fn what_runs_is_waited_for_and_then_dropped() {
    let mut bench = runs();
    moves(&mut bench);
    assert_eq!(bench.steps(), "", "nothing ends it");
    assert_eq!(bench.free_cpu(), CPU - 4);
    bench.seen(1, Observation::Ended(exit()));
    assert_eq!(bench.steps(), "remove u1");
    assert_eq!(bench.free_cpu(), CPU - 4, "it may be there still");
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.ledger.tasks(), []);
    assert_eq!(bench.free_cpu(), CPU);
}

#[test]
fn a_later_life_of_the_agent_knows_whom_nobody_settles() {
    let mut bench = runs();
    moves(&mut bench);
    bench.restart();
    serves(&mut bench, 2);
    bench.seen(1, Observation::Running);
    assert_eq!(bench.ledger.tasks().len(), 1, "it runs");
    bench.seen(1, Observation::Ended(exit()));
    bench.restart();
    assert_eq!(bench.ledger.tasks().len(), 1, "it may be there still");
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.ledger.tasks(), []);
}

#[test]
fn an_agent_that_died_while_it_left_drops_them_when_it_starts() {
    let mut bench = runs();
    bench.seen(1, Observation::Ended(exit()));
    bench.seen(1, Observation::Gone);
    bench.now = bench.now.plus_millis(LAZY_WRITE_MS);
    bench.input(LedgerInput::Tick);
    bench.restart();
    assert_eq!(
        bench.ledger.tasks().len(),
        1,
        "not told yet whose member it is"
    );
    serves(&mut bench, 2);
    assert_eq!(bench.ledger.tasks(), []);
    bench.now = bench.now.plus_millis(LAZY_WRITE_MS);
    bench.input(LedgerInput::Tick);
    bench.input(LedgerInput::Tick);
    let left = bench.disk.keys().filter(|key| key.starts_with("grant/"));
    assert_eq!(left.count(), 0, "nor on its disk");
}

#[test]
fn what_nobody_lets_go_is_ended_and_what_is_not_made_is_dropped() {
    let mut bench = Bench::new();
    serves(&mut bench, 1);
    for job in [1, 2] {
        let device = u32::try_from(job).unwrap() - 1;
        assert_eq!(bench.told(job, reserve(job, &[device])), "granted");
    }
    bench.say(1, launch(1));
    bench.seen(1, Observation::Ready);
    bench.steps();
    moves(&mut bench);
    assert_eq!(bench.steps(), "stop u1");
    assert_eq!(bench.free_cpu(), CPU - 4, "the reservation is gone");
    bench.seen(1, Observation::Ended(exit()));
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.ledger.tasks(), []);
}
