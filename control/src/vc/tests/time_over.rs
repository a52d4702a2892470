//! Runs that were ended because their time was over.

use muster_model::view::{Retries, RunLimitView};

use super::*;

const LIMIT_S: u64 = 60;

/// Everything that waits is started with a limit, and told that its time is over.
fn time_over(bench: &mut Bench) {
    for run in bench.waiting() {
        bench.place(&run);
        let go = VcEntry::Go {
            run: run.clone(),
            limit_s: Some(LIMIT_S),
            at_ms: 20,
        };
        bench.apply(&go).unwrap();
        let entry = VcEntry::Stopping {
            run,
            cause: Cause::RunTimeOver,
            by: None,
            at_ms: 60_020,
        };
        bench.apply(&entry).unwrap();
    }
}

fn outcome(bench: &Bench) -> (JobState, Option<i32>, Retries) {
    let summary = bench.state.summary(&key()).unwrap();
    (summary.state(), summary.exit_code, summary.retries)
}

const NONE: Retries = Retries {
    total: 0,
    accountable: 0,
};

#[test]
fn a_job_whose_time_is_over_fails_with_its_own_code_and_is_not_retried() {
    for gang in [true, false] {
        // -1: retried whatever fails.
        let mut bench = Bench::new(spec(gang, -1, &[("w", 2, 1, -1)]));
        time_over(&mut bench);
        let events = bench.state.events(&key()).unwrap();
        let told = events
            .iter()
            .any(|event| event.message.contains("60 s, which is its run time limit"));
        assert!(told, "{events:?}");
        // One ends well at SIGTERM, which its node judges by the cause.
        bench.end("w", 0, stopped(Cause::RunTimeOver));
        bench.end("w", 1, stopped(Cause::RunTimeOver));
        assert_eq!(outcome(&bench), (JobState::Failed, Some(209), NONE));
    }
}

#[test]
fn what_had_ended_by_itself_keeps_its_own_end() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, 2)]));
    time_over(&mut bench);
    bench.end("w", 0, exit(0, Behavior::Unknown));
    bench.end("w", 1, exit(0, Behavior::Unknown));
    assert_eq!(outcome(&bench), (JobState::Succeeded, Some(0), NONE));

    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, 2)]));
    time_over(&mut bench);
    bench.end("w", 0, exit(0, Behavior::Unknown));
    bench.end("w", 1, stopped(Cause::RunTimeOver));
    assert_eq!(outcome(&bench), (JobState::Failed, Some(209), NONE));
}

#[test]
fn the_limit_is_shown_while_it_runs() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, 1)]));
    let run = bench.waiting().remove(0);
    bench.place(&run);
    let limit = |bench: &Bench| bench.state.detail(&key(), None).unwrap().run_limit;
    assert_eq!(limit(&bench), None);
    let go = VcEntry::Go {
        run,
        limit_s: Some(LIMIT_S),
        at_ms: 20,
    };
    bench.apply(&go).unwrap();
    let expect = RunLimitView {
        seconds: LIMIT_S,
        ends_at: Some(60_020),
    };
    assert_eq!(limit(&bench), Some(expect));
    bench.end("w", 0, exit(0, Behavior::Unknown));
    assert_eq!(limit(&bench), None, "it has ended");
}
