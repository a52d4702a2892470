//! Jobs whose time is over.

use muster_model::exit::Cause;
use muster_model::policy::{JobBounds, JobPolicy};

use super::*;
use crate::coordinator::CoordinatorOutput;
use crate::now::Now;

const LIMIT_S: u64 = 60;

/// A job of two tasks that runs and has this of its limit.
fn running(bench: &mut Bench, change: impl Fn(&mut JobSpec)) {
    let mut entry = job("x", 2, CPU);
    if let VcEntry::Accept(job) = &mut entry {
        change(&mut job.spec);
    }
    bench.commit(&entry);
    for name in ["n1", "n2"] {
        bench.grant(name);
    }
    for name in ["n1", "n2"] {
        bench.stands(name, &TaskStanding::Ready);
    }
    for name in ["n1", "n2"] {
        bench.stands(name, &TaskStanding::Running);
    }
    bench.heard();
}

fn binding(spec: &mut JobSpec) {
    spec.max_run_s = Some(LIMIT_S);
    spec.ending.is_max_run_binding = true;
}

/// Lets so much time pass, and says what was done.
fn pass(bench: &mut Bench, ms: u64) -> String {
    bench.now = bench.now.plus_millis(ms);
    bench.input(CoordinatorInput::Tick);
    bench.heard()
}

#[test]
fn a_job_is_ended_at_its_limit_and_not_before() {
    let mut bench = Bench::new();
    running(&mut bench, binding);
    assert_eq!(pass(&mut bench, 59_999), "");
    assert_eq!(pass(&mut bench, 1), "Stopping, n1 stop, n2 stop");
    let order = &bench.orders[&node("n1")];
    assert!(
        matches!(
            &order.command,
            GangCommand::Stop {
                cause: Cause::RunTimeOver,
                grace_ms: 20_000,
                ..
            }
        ),
        "{order:?}"
    );
    for name in ["n1", "n2"] {
        let verdict = verdict::stopped(Cause::RunTimeOver);
        bench.stands(name, &TaskStanding::Ended(Box::new(verdict)));
    }
    let summary = bench.state.summary(&key("x")).unwrap();
    assert_eq!(
        (summary.state(), summary.exit_code),
        (JobState::Failed, Some(209))
    );
    bench.audit();
}

#[test]
fn what_a_job_declares_is_no_limit_unless_somebody_says_so() {
    let mut bench = Bench::new();
    running(&mut bench, |spec| spec.max_run_s = Some(LIMIT_S));
    assert_eq!(pass(&mut bench, 3_600_000), "");

    let mut options = options();
    let all = JobBounds {
        run_time_max_s: Some(LIMIT_S),
        ..JobBounds::default()
    };
    options.policy.jobs = JobPolicy {
        all,
        ..JobPolicy::default()
    }
    .into();
    let mut bench = Bench::with(options);
    running(&mut bench, |_| ());
    // An edit holds for what starts from then on.
    bench.input(CoordinatorInput::Policy(Box::default()));
    assert_eq!(pass(&mut bench, 60_000), "Stopping, n1 stop, n2 stop");
}

#[test]
fn a_new_leader_goes_on_with_the_time_that_is_left() {
    let mut bench = Bench::new();
    running(&mut bench, binding);
    pass(&mut bench, 40_000);
    bench.elect();
    bench.heard();
    assert!(!pass(&mut bench, 19_999).contains("Stopping"));
    assert!(pass(&mut bench, 1).contains("Stopping"));
    bench.audit();
}

#[test]
fn a_time_of_day_that_is_set_later_ends_nothing() {
    let mut bench = Bench::new();
    running(&mut bench, binding);
    let (steady, wall) = (
        bench.now.plus_millis(1_000),
        bench.now.plus_millis(7_200_000),
    );
    let mut out = Vec::new();
    let now = Now { steady, wall };
    bench
        .coordinator
        .handle(now, &bench.state, CoordinatorInput::Tick, &mut out);
    assert!(
        !out.iter()
            .any(|output| matches!(output, CoordinatorOutput::Propose(_))),
        "{out:?}"
    );
}
