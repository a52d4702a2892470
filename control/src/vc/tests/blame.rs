//! Ranks of a gang that fail because they lost a peer, and say so before anybody knows what became of it.

use muster_model::health::{DeviceEvent, EventClass, HealthSubject};

use super::*;
use crate::lease::LeaseTime;

/// Three ranks run, by a lease or by none.
fn ranks(partition: Partition) -> Bench {
    let mut bench = Bench::new(JobSpec {
        partition,
        ..spec(true, 0, &[("w", 3, 1, -1)])
    });
    start(&mut bench, partition);
    bench
}

fn start(bench: &mut Bench, partition: Partition) {
    let run = bench.waiting().remove(0);
    let lease = match partition {
        Partition::FailoverAfter { seconds } => Some(LeaseTime { seconds }),
        Partition::Hold | Partition::Overlap => None,
    };
    let placed = Placed {
        lease,
        ..bench.placed(&run)
    };
    bench.apply(&VcEntry::Placed(Box::new(placed))).unwrap();
    bench
        .apply(&VcEntry::Go {
            run,
            limit_s: None,
            at_ms: 20,
        })
        .unwrap();
}

/// One says that its connection was reset, and one has to end for that.
fn fails_first(bench: &mut Bench) {
    bench.end("w", 1, exit(1, Behavior::Unknown));
    bench.end("w", 2, stopped(Cause::AttemptCompleted));
}

/// How the job stands and what is said of its first attempt.
fn first_attempt(bench: &Bench) -> (u32, u32, i32, String) {
    let retries = bench.state.summary(&key()).unwrap().retries;
    let detail = bench.state.detail(&key(), Some(0)).unwrap();
    let attempt = detail.attempt.unwrap();
    let code = attempt.verdict.map(|verdict| verdict.code());
    let trigger = attempt.trigger.map(|it| it.message);
    (
        retries.total,
        retries.accountable,
        code.unwrap_or_default(),
        trigger.unwrap_or_default(),
    )
}

#[test]
fn who_fails_because_a_peer_was_evicted_gives_way_with_it() {
    let mut bench = ranks(Partition::Hold);
    let evicted = || stopped(Cause::Preempted);
    // Its connection was reset, and it said so first.
    bench.end("w", 1, exit(1, Behavior::Unknown));
    bench.end("w", 0, evicted());
    bench.end("w", 2, stopped(Cause::AttemptCompleted));
    assert_eq!(bench.waiting().len(), 1, "it waits for its turn again");
    let retries = bench.state.summary(&key()).unwrap().retries;
    assert_eq!((retries.total, retries.accountable), (1, 0));
    // Whom its user stops is not started again, whoever is evicted meanwhile.
    bench.start();
    let stop = VcEntry::SetExecution {
        job: key(),
        value: ExecutionType::Stop,
        at_ms: 27,
    };
    bench.apply(&stop).unwrap();
    for index in 0..3 {
        bench.end("w", index, evicted());
    }
    assert_eq!(bench.state().0, JobState::Stopped);
}

#[test]
fn who_fails_because_a_peers_machine_was_lost_is_not_charged() {
    let leased = Partition::FailoverAfter { seconds: 15 };
    let table = [
        (leased, TaskEnd::Lost),
        (leased, stopped(Cause::LeaseEnded)),
        (Partition::Overlap, TaskEnd::Overlapped),
        (Partition::Hold, TaskEnd::Off),
        (Partition::Hold, TaskEnd::Gone),
        (Partition::Hold, stopped(Cause::NodeRestarted)),
    ];
    for (partition, end) in table {
        let mut bench = ranks(partition);
        fails_first(&mut bench);
        assert_eq!(bench.waiting().len(), 0, "the lost one may still be there");
        bench.end("w", 0, end.clone());
        assert_eq!(bench.waiting().len(), 1, "{end:?}: it starts anew");
        let (total, charged, code, trigger) = first_attempt(&bench);
        assert_eq!(
            (total, charged, code),
            (1, 0, verdict::EXIT_LOST),
            "{end:?}"
        );
        assert!(
            trigger.starts_with("w:0 was lost and w:1 failed"),
            "{trigger}"
        );
    }
}

#[test]
fn a_loss_that_was_known_before_explains_the_failure_that_decides() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 3, 2, -1)]));
    bench.start();
    bench.end("w", 0, stopped(Cause::NodeRestarted));
    assert_eq!(bench.state().0, JobState::Running, "two have to fail");
    fails_first(&mut bench);
    assert_eq!(bench.waiting().len(), 1);
    let (total, charged, code, _) = first_attempt(&bench);
    assert_eq!((total, charged, code), (1, 0, verdict::EXIT_LOST));
}

#[test]
fn whom_its_user_stops_is_stopped_whatever_is_lost() {
    let mut bench = ranks(Partition::Hold);
    bench.end("w", 1, exit(1, Behavior::Unknown));
    let stop = VcEntry::SetExecution {
        job: key(),
        value: ExecutionType::Stop,
        at_ms: 27,
    };
    bench.apply(&stop).unwrap();
    bench.end("w", 2, stopped(Cause::AttemptCompleted));
    bench.end("w", 0, TaskEnd::Gone);
    assert_eq!(bench.state().0, JobState::Stopped);
}

#[test]
fn what_ends_for_its_own_reasons_explains_nothing() {
    for end in [
        stopped(Cause::AttemptCompleted),
        exit(1, Behavior::Unknown),
        exit(0, Behavior::Unknown),
    ] {
        let mut bench = ranks(Partition::Hold);
        fails_first(&mut bench);
        bench.end("w", 0, end.clone());
        assert_eq!(bench.state(), (JobState::Failed, Some(1)), "{end:?}");
    }
    // Nor does a loss explain what had no peers yet: nothing was started.
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, -1)]));
    let run = bench.waiting().remove(0);
    bench.place(&run);
    bench.end("w", 1, exit(1, Behavior::Unknown));
    bench.end("w", 0, TaskEnd::Gone);
    assert_eq!(bench.state(), (JobState::Failed, Some(1)));
    // Nor a success.
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, 1)]));
    bench.start();
    bench.end("w", 1, exit(0, Behavior::Unknown));
    bench.end("w", 0, TaskEnd::Gone);
    assert_eq!(bench.state(), (JobState::Succeeded, Some(0)));
}

#[test]
fn a_loss_explains_the_failures_of_a_gang_that_was_told_to_give_way_too_late() {
    // Whichever of them is heard of first.
    for order in [[0, 1, 2], [2, 0, 1], [0, 2, 1]] {
        for loss in [stopped(Cause::LeaseEnded), stopped(Cause::NodeRestarted)] {
            let mut bench = ranks(Partition::Hold);
            let (run, _) = bench.live().remove(0);
            let told = VcEntry::Stopping {
                run,
                cause: Cause::Preempted,
                by: Some("alice~y".parse().unwrap()),
                at_ms: 25,
            };
            bench.apply(&told).unwrap();
            for index in order {
                let end = match index {
                    2 => loss.clone(),
                    _ => exit(1, Behavior::Unknown),
                };
                bench.end("w", index, end);
            }
            assert_eq!(bench.waiting().len(), 1, "{order:?}: it starts anew");
            let (total, charged, code, trigger) = first_attempt(&bench);
            assert_eq!((total, charged, code), (1, 0, verdict::EXIT_LOST));
            assert!(
                trigger.starts_with("w:2 was lost and w:0 failed"),
                "{trigger}"
            );
        }
    }
}

#[test]
fn who_failed_by_itself_before_it_was_told_to_give_way_is_charged() {
    let mut bench = ranks(Partition::Hold);
    let (run, _) = bench.live().remove(0);
    let told = VcEntry::Stopping {
        run,
        cause: Cause::Preempted,
        by: None,
        at_ms: 25,
    };
    bench.apply(&told).unwrap();
    for index in 0..3 {
        bench.end("w", index, exit(1, Behavior::Unknown));
    }
    assert_eq!(bench.state(), (JobState::Failed, Some(1)));
}

/// A stop that the gang's end brought, on a machine that had reported an event of a device.
fn stopped_with(class: EventClass) -> TaskEnd {
    let TaskEnd::Exit(mut verdict) = stopped(Cause::AttemptCompleted) else {
        panic!("a stop is an exit")
    };
    verdict.device_events.push(DeviceEvent {
        subject: HealthSubject::FabricPort {
            device: "mlx5_0".to_owned(),
            port: 1,
        },
        at_ms: 22,
        code: "port-down".to_owned(),
        class,
        pid: None,
        text: "mlx5_0/1: the link is down".to_owned(),
    });
    TaskEnd::Exit(verdict)
}

#[test]
fn who_fails_because_a_peers_link_failed_is_not_charged() {
    let mut bench = ranks(Partition::Hold);
    fails_first(&mut bench);
    bench.end("w", 0, stopped_with(EventClass::Link));
    assert_eq!(bench.waiting().len(), 1, "it starts anew");
    let (total, charged, code, trigger) = first_attempt(&bench);
    assert_eq!((total, charged, code), (1, 0, 212));
    let begin = "w:1 failed, and a device of w:0 had failed";
    assert!(trigger.starts_with(begin), "{trigger}");
}

#[test]
fn a_peers_device_explains_no_failure_that_has_a_cause_of_its_own() {
    for (behavior, class) in [
        (Behavior::Permanent, EventClass::Link),
        (Behavior::Unknown, EventClass::Application),
        (Behavior::Unknown, EventClass::Information),
    ] {
        let mut bench = ranks(Partition::Hold);
        bench.end("w", 1, exit(1, behavior));
        bench.end("w", 2, stopped(Cause::AttemptCompleted));
        bench.end("w", 0, stopped_with(class));
        let (_, _, code, _) = first_attempt(&bench);
        assert_eq!(code, 1, "{behavior:?} {class:?}");
    }
}

#[test]
fn a_fault_of_its_own_device_is_not_charged() {
    let mut bench = ranks(Partition::Hold);
    let TaskEnd::Exit(mut failed) = exit(134, Behavior::Transient) else {
        panic!("an exit")
    };
    let TaskEnd::Exit(peer) = stopped_with(EventClass::Hardware) else {
        panic!("an exit")
    };
    (failed.spec.code, failed.device_events) = (211, peer.device_events);
    bench.end("w", 1, TaskEnd::Exit(failed));
    for index in [0, 2] {
        bench.end("w", index, stopped(Cause::AttemptCompleted));
    }
    let (total, charged, code, _) = first_attempt(&bench);
    assert_eq!((total, charged, code), (1, 0, 211));
}

/// What a rank ends with that lost a peer.
const LOST_A_PEER: i32 = 241;

#[test]
fn the_task_that_failed_by_itself_is_the_reason_whichever_is_heard_of_first() {
    for order in [[1, 0, 2], [1, 2, 0], [0, 1, 2]] {
        let mut bench = ranks(Partition::Hold);
        for index in order {
            let end = match index {
                0 => exit(139, Behavior::Unknown),
                1 => exit(LOST_A_PEER, Behavior::Unknown),
                _ => stopped(Cause::AttemptCompleted),
            };
            bench.end("w", index, end);
        }
        assert_eq!(bench.state(), (JobState::Failed, Some(139)), "{order:?}");
        let (_, _, code, trigger) = first_attempt(&bench);
        assert_eq!(code, 139, "{order:?}");
        if order[0] == 1 {
            let begin = "w:1 failed because it lost a peer, and w:0 failed by itself";
            assert!(trigger.starts_with(begin), "{trigger}");
            // The task keeps its own verdict, though it ended when all were being stopped.
            let detail = bench.state.detail(&key(), Some(0)).unwrap();
            let codes = format!("{detail:?}");
            assert!(codes.contains("139"), "{codes}");
        }
    }
}

#[test]
fn the_first_of_several_reasons_stays_the_reason() {
    let mut bench = ranks(Partition::Hold);
    bench.end("w", 1, exit(LOST_A_PEER, Behavior::Unknown));
    bench.end("w", 0, exit(139, Behavior::Unknown));
    bench.end("w", 2, exit(248, Behavior::Unknown));
    assert_eq!(bench.state(), (JobState::Failed, Some(139)));
    // What lost a peer too explains nothing, nor does a success.
    for end in [
        exit(LOST_A_PEER, Behavior::Unknown),
        exit(0, Behavior::Unknown),
    ] {
        let mut bench = ranks(Partition::Hold);
        bench.end("w", 1, exit(LOST_A_PEER, Behavior::Unknown));
        bench.end("w", 0, end.clone());
        bench.end("w", 2, stopped(Cause::AttemptCompleted));
        assert_eq!(
            bench.state(),
            (JobState::Failed, Some(LOST_A_PEER)),
            "{end:?}"
        );
    }
}

#[test]
fn a_reason_that_was_known_before_explains_the_failure_that_decides() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 3, 2, -1)]));
    bench.start();
    bench.end("w", 0, exit(139, Behavior::Unknown));
    assert_eq!(bench.state().0, JobState::Running, "two have to fail");
    bench.end("w", 1, exit(LOST_A_PEER, Behavior::Unknown));
    bench.end("w", 2, stopped(Cause::AttemptCompleted));
    assert_eq!(bench.state(), (JobState::Failed, Some(139)));
}
