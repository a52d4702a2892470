//! Containers that the ledger does not know.

use super::*;

/// A ledger that was lost, or is as it was: its agent has just started.
fn started(disk: BTreeMap<String, Vec<u8>>) -> Bench {
    let mut bench = Bench::new();
    bench.disk = disk;
    bench.start += 1;
    let identity = identity(bench.start);
    bench.ledger = Ledger::recover(identity, bench.disk.clone(), capacity()).unwrap();
    bench.learn(1);
    bench.input(LedgerInput::Started);
    bench.steps();
    bench
}

fn closed(bench: &mut Bench) -> Option<String> {
    bench.input(LedgerInput::Report(None));
    match bench.tells.pop() {
        Some(Tell::Report(report)) => {
            assert_eq!(report.has_strays, report.closed.is_some());
            report.closed
        }
        other => panic!("no report but {other:?}"),
    }
}

#[test]
fn what_a_lost_ledger_held_is_removed_before_anything_is_granted() {
    let mut bench = started(BTreeMap::new());
    assert_eq!(bench.told(1, reserve(1, &[0])), "refused", "not looked yet");
    assert!(closed(&mut bench).unwrap().contains("not seen yet"));
    bench.input(LedgerInput::Found(vec![uid(8), uid(9)]));
    assert_eq!(bench.steps(), "remove u8, remove u9");
    bench.seen(8, Observation::Gone);
    assert_eq!(bench.told(1, reserve(1, &[0])), "refused", "one is there");
    assert!(closed(&mut bench).unwrap().contains("being removed"));
    bench.seen(9, Observation::Gone);
    assert_eq!(closed(&mut bench), None);
    assert_eq!(bench.told(1, reserve(1, &[0])), "granted");
}

#[test]
fn what_is_held_stays_and_what_has_no_container_yet_loses_it() {
    let mut bench = Bench::new();
    for job in [1, 2] {
        let device = u32::try_from(job).unwrap() - 1;
        assert_eq!(bench.told(job, reserve(job, &[device])), "granted");
    }
    bench.say(1, launch(1));
    let mut bench = started(bench.disk);
    assert_eq!(bench.told(2, launch(2)), "refused", "not looked yet");
    // The second one ran before the ledger was put back to what it was.
    bench.input(LedgerInput::Found(vec![uid(1), uid(2)]));
    assert_eq!(bench.steps(), "remove u2");
    bench.seen(2, Observation::Gone);
    assert_eq!(bench.told(2, launch(2)), "starting");
    assert_eq!(bench.steps(), "create u2");
}

#[test]
fn nothing_is_said_to_be_gone_that_may_be_a_container_yet() {
    let mut bench = started(BTreeMap::new());
    let stop = || GangCommand::Stop {
        members: vec![member(9)],
        cause: Cause::UserStop,
        grace_ms: 1,
    };
    assert_eq!(bench.told(9, stop()), "refused", "not looked yet");
    bench.input(LedgerInput::Found(vec![uid(9)]));
    assert_eq!(bench.told(9, stop()), "refused", "it is there");
    bench.seen(9, Observation::Gone);
    assert_eq!(bench.told(9, stop()), "gone");
}

#[test]
fn a_stop_is_not_held_up() {
    let mut bench = Bench::new();
    assert_eq!(bench.told(1, reserve(1, &[0])), "granted");
    bench.say(1, launch(1));
    let mut bench = started(bench.disk);
    let stop = GangCommand::Stop {
        members: vec![member(1)],
        cause: Cause::UserStop,
        grace_ms: 1,
    };
    assert_eq!(bench.told(1, stop), "stopping");
    assert_eq!(bench.steps(), "stop u1");
}
