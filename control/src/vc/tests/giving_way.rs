//! Who has to give way, and how it is charged for what ends then.

use super::*;

/// The gang is told to give way.
fn preempt(bench: &mut Bench) {
    let runs: BTreeSet<GangRun> = bench.live().into_iter().map(|(run, _)| run).collect();
    for run in runs {
        let entry = VcEntry::Stopping {
            run,
            cause: Cause::Preempted,
            by: Some("alice~y".parse().unwrap()),
            at_ms: 25,
        };
        bench.apply(&entry).unwrap();
    }
}

#[test]
fn who_gives_way_waits_again_at_once_and_is_never_charged() {
    let gone = || stopped(Cause::Preempted);
    for gang in [true, false] {
        let mut bench = Bench::new(spec(gang, 0, &[("w", 2, 1, -1)]));
        for _ in 0..50 {
            bench.start();
            preempt(&mut bench);
            bench.end("w", 0, gone());
            bench.end("w", 1, TaskEnd::Gone);
            let waiting: Vec<u64> = bench
                .state
                .waiting()
                .map(|current| current.gang.pause.until_ms)
                .collect();
            assert!(waiting.iter().all(|at| *at <= 30), "{waiting:?}");
            assert_eq!(waiting.len(), if gang { 1 } else { 2 });
        }
        let retries = bench.state.summary(&key()).unwrap().retries;
        assert_eq!(
            (retries.total, retries.accountable),
            (50 * u32::from(gang), 0)
        );
        bench.start();
        bench.end("w", 0, exit(1, Behavior::Unknown));
        bench.end("w", 1, stopped(Cause::AttemptCompleted));
        assert_eq!(
            bench.state(),
            (JobState::Failed, Some(1)),
            "its own failure counts"
        );
    }
}

#[test]
fn where_a_node_evicts_one_task_all_of_its_gang_gives_way() {
    // One that fails would not end the job; one that gives way does.
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, -1, -1)]));
    let evicted = || stopped(Cause::Preempted);
    for launched in [true, false] {
        match launched {
            true => bench.start(),
            false => {
                let run = bench.waiting().remove(0);
                bench.place(&run);
            }
        }
        bench.end("w", 0, evicted());
        let (run, _) = bench.live().remove(0);
        let phase = bench.state.current(&run.gang).unwrap().gang.phase;
        let cause = Cause::Preempted;
        assert_eq!(phase, GangPhase::Stopping { cause }, "the rest goes on");
        bench.end("w", 1, evicted());
        assert_eq!(bench.waiting().len(), 1);
    }
    let retries = bench.state.summary(&key()).unwrap().retries;
    assert_eq!((retries.total, retries.accountable), (2, 0));
}

#[test]
fn who_had_ended_before_it_was_told_to_give_way_ends_as_it_would_have() {
    type Row = ((i32, i32), [i32; 2], (JobState, Option<i32>));
    let table: [Row; 4] = [
        ((1, -1), [0, 0], (JobState::Succeeded, Some(0))),
        ((1, -1), [0, 7], (JobState::Failed, Some(7))),
        ((-1, -1), [7, 0], (JobState::Succeeded, Some(0))),
        ((2, 1), [0, 7], (JobState::Succeeded, Some(0))),
    ];
    for ((min_failed, min_succeeded), codes, expected) in table {
        let mut bench = Bench::new(spec(true, 0, &[("w", 2, min_failed, min_succeeded)]));
        bench.start();
        preempt(&mut bench);
        for (index, code) in (0..).zip(codes) {
            bench.end("w", index, exit(code, Behavior::Unknown));
        }
        assert_eq!(
            bench.state(),
            expected,
            "{min_failed} {min_succeeded} {codes:?}"
        );
    }
}
