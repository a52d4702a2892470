//! What would become of a job if it were submitted now.

use muster_model::forecast::{ForecastOutcome, JobForecast};

use super::*;
use crate::vc::{AcceptedJob, VcRejection};

fn wanted(entry: &VcEntry) -> AcceptedJob {
    match entry {
        VcEntry::Accept(job) => (**job).clone(),
        other => panic!("{other:?}"),
    }
}

fn tried(bench: &Bench, entry: &VcEntry, sight: &JobSight) -> Result<JobForecast, VcRejection> {
    let trial = bench.coordinator.trial(bench.now, &bench.state);
    trial.forecast(wanted(entry), sight)
}

fn forecast(bench: &Bench, entry: &VcEntry) -> JobForecast {
    tried(bench, entry, &JobSight::All).unwrap()
}

fn nodes(forecast: &JobForecast) -> Vec<(&str, usize)> {
    let shares = forecast.places.iter();
    let nodes = shares.map(|share| (share.node.as_str(), share.tasks.len()));
    nodes.collect()
}

/// A job runs on each of both nodes.
fn full(priority: Option<PriorityClass>) -> Bench {
    let mut bench = Bench::new();
    for (name, on) in [("x", "n1"), ("y", "n2")] {
        bench.commit(&job_of(name, 1, CPU, priority));
        bench.grant(on);
        bench.stands(on, &TaskStanding::Ready);
        bench.stands(on, &TaskStanding::Running);
    }
    bench.now = bench.now.plus_millis(3_600_000);
    bench.heard();
    bench
}

#[test]
fn a_job_that_fits_would_start_where_it_does_start() {
    let mut bench = Bench::new();
    let wants = job("x", 2, CPU);
    let told = forecast(&bench, &wants);
    assert_eq!(told.outcome, ForecastOutcome::Starts);
    assert_eq!((told.reason, told.waiting, told.ahead), (None, 0, 0));
    assert_eq!((told.takes.cpu, told.tasks, told.placed), (2 * CPU, 2, 2));
    let told = forecast(&bench, &wants);
    assert_eq!(nodes(&told), [("n1", 1), ("n2", 1)]);
    bench.commit(&wants);
    assert_eq!(bench.heard(), "n1 reserve, n2 reserve");
}

#[test]
fn a_trial_changes_nothing() {
    let mut bench = full(None);
    bench.commit(&job("w", 1, CPU));
    bench.heard();
    let seen = |bench: &Bench| format!("{:?}", bench.coordinator);
    let (before, state) = (seen(&bench), bench.state.snapshot());
    let important = job_of("z", 2, CPU, CRIT);
    assert_eq!(
        forecast(&bench, &important).outcome,
        ForecastOutcome::Preempts
    );
    assert_eq!(
        forecast(&bench, &job("v", 1, 1)).outcome,
        ForecastOutcome::Waits
    );
    assert!(seen(&bench) == before, "the leader is another one");
    assert!(bench.state.snapshot() == state, "the state is another one");
    bench.audit();
    bench.input(CoordinatorInput::Tick);
    assert_eq!(bench.heard(), "", "nothing is done for it");
    assert!(bench.state.job_id(&key("z")).is_none());
}

#[test]
fn a_job_without_room_would_wait_for_what_it_does_wait_for() {
    let mut bench = full(None);
    bench.commit(&job("w", 1, CPU));
    let wants = job("z", 1, CPU);
    let told = forecast(&bench, &wants);
    assert_eq!(told.outcome, ForecastOutcome::Waits);
    assert_eq!((told.ahead, told.waiting, told.placed), (1, 1, 0));
    bench.commit(&wants);
    let why = bench
        .coordinator
        .explanation(bench.now, &bench.state, (&key("z"), &JobSight::All));
    let why = why.unwrap();
    assert_eq!(told.reason, why.reason);
    assert_eq!(told.gangs, why.gangs);
    let ahead = why.ahead.unwrap();
    assert_eq!((ahead.jobs, ahead.next), (1, Some(key("w"))));
    assert!(told.turn().unwrap().starts_with("1 waiting job"));
}

#[test]
fn whom_it_would_stop_is_told_as_far_as_the_user_sees_them() {
    let bench = full(None);
    let wants = job_of("z", 1, CPU, CRIT);
    let told = forecast(&bench, &wants);
    assert_eq!(told.outcome, ForecastOutcome::Preempts);
    let all = [Some(key("x")), Some(key("y"))];
    assert_eq!(told.victims.len(), 1);
    assert!(all.contains(&told.victims[0]), "{:?}", told.victims);
    let access = AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    };
    let bob = JobSight::of(Some(&"bob".parse().unwrap()), [].into(), &access);
    let told = tried(&bench, &wants, &bob).unwrap();
    assert_eq!(told.victims, [None]);
}

#[test]
fn tasks_that_start_one_by_one_would_start_as_far_as_there_is_room() {
    let bench = Bench::new();
    let mut wants = wanted(&job("z", 3, CPU));
    wants.spec.gang = false;
    let told = forecast(&bench, &VcEntry::Accept(Box::new(wants)));
    assert_eq!(told.outcome, ForecastOutcome::StartsInPart);
    assert_eq!((told.placed, told.waiting, told.tasks), (2, 1, 3));
    let sentence = told.sentence();
    assert!(sentence.starts_with("2 of 3 tasks"), "{sentence}");
}

#[test]
fn a_long_queue_is_looked_through_before_the_answer() {
    let mut bench = full(None);
    for number in 0..250 {
        bench.commit(&job(&format!("w{number}"), 1, CPU));
    }
    bench.heard();
    let told = forecast(&bench, &job("z", 1, CPU));
    assert_eq!(
        (told.outcome, told.ahead),
        (ForecastOutcome::Waits, 250),
        "{told:?}"
    );
}

#[test]
fn a_leader_that_knows_no_machine_says_so() {
    let mut bench = Bench::new();
    bench.coordinator = Coordinator::new(bench.options.clone());
    bench.elect();
    let told = forecast(&bench, &job("x", 1, CPU));
    assert_eq!(told.outcome, ForecastOutcome::Unknown);
    let sentence = told.sentence();
    assert!(sentence.contains("none is connected"), "{sentence}");
}
