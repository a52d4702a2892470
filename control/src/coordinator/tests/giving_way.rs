//! Gangs that give way to more important ones of their own virtual cluster.

use muster_model::explanation::CellHolder;
use muster_model::policy::{AccessPolicy, JobVisibility};

use super::*;

#[test]
fn a_gang_gives_way_to_a_more_important_one_and_comes_back() {
    let mut bench = Bench::new();
    bench.ready();
    bench.heard();
    bench.commit(&job_of("y", 1, CPU, CRIT));
    assert_eq!(bench.heard(), "Stopping, n1 stop, n2 stop", "as a whole");
    assert_eq!(bench.waiting_for("y"), "waits for alice~x to give way");
    bench.stands("n1", &TaskStanding::Gone);
    assert_eq!(bench.heard(), "TaskEnded, n1 reserve");
    bench.audit();
    bench.grant("n1");
    bench.stands("n2", &TaskStanding::Gone);
    assert!(bench.heard().ends_with("TaskEnded"));
    let retries = bench.state.summary(&key("x")).unwrap().retries;
    assert_eq!((retries.total, retries.accountable), (1, 0), "nobody pays");
    assert_eq!(bench.state(), JobState::Waiting);
    bench.audit();
}

#[test]
fn a_job_that_is_stopped_while_it_waits_for_its_victims_claims_nothing() {
    let mut bench = Bench::new();
    bench.ready();
    bench.commit(&job_of("y", 1, CPU, CRIT));
    bench.heard();
    bench.audit();
    bench.stop("y");
    bench.audit();
    bench.stop("x");
    for name in ["n1", "n2"] {
        bench.stands(name, &TaskStanding::Gone);
    }
    bench.audit();
    assert!(bench.coordinator.is_pristine());
    assert!(bench.has_nothing_to_do());
}

#[test]
fn who_must_not_give_way_yet_does_when_its_time_is_over_whatever_happens_meanwhile() {
    let mut bench = Bench::with(spared_for(90_000));
    bench.ready();
    bench.stands("n1", &TaskStanding::Running);
    bench.stands("n2", &TaskStanding::Running);
    bench.commit(&job_of("y", 1, CPU, CRIT));
    bench.heard();
    for i in 0..3 {
        let name = format!("z{i}");
        bench.commit(&job(&name, 1, CPU));
        bench.wait();
        bench.stop(&name);
        bench.audit();
    }
    assert_eq!(bench.heard(), "");
    assert_eq!(bench.wait_long(), "Stopping, n1 stop, n2 stop");
}

/// Nobody is evicted before it has run for so many milliseconds.
fn spared_for(min_run_ms: u64) -> CoordinatorOptions {
    let policy = LeaderPolicy {
        min_run_ms,
        ..LeaderPolicy::default()
    };
    CoordinatorOptions {
        policy,
        ..options()
    }
}

#[test]
fn a_new_policy_holds_for_what_runs_already() {
    let mut bench = Bench::with(spared_for(90_000));
    bench.ready();
    bench.stands("n1", &TaskStanding::Running);
    bench.stands("n2", &TaskStanding::Running);
    bench.heard();
    bench.commit(&job_of("y", 1, CPU, CRIT));
    assert_eq!(bench.heard(), "");
    bench.input(CoordinatorInput::Policy(Box::default()));
    assert_eq!(bench.heard(), "Stopping, n1 stop, n2 stop");
    bench.audit();
}

#[test]
fn a_job_is_not_named_to_a_user_who_does_not_see_it() {
    let mut bench = Bench::new();
    bench.ready();
    bench.commit(&job_of("y", 1, CPU, CRIT));
    bench.heard();
    let sight = |user: &str| {
        let access = AccessPolicy {
            jobs: JobVisibility::Private,
            ..AccessPolicy::default()
        };
        let user = user.parse().unwrap();
        JobSight::of(Some(&user), BTreeSet::new(), &access)
    };
    let Bench {
        coordinator, state, ..
    } = &bench;
    for (user, name) in [("alice", "alice~x"), ("bob", "a job of another user")] {
        let sight = &sight(user);
        let why = coordinator.waiting_for(state, &key("y"), sight);
        assert_eq!(why.unwrap(), format!("waits for {name} to give way"));
        let asked = (&key("y"), sight);
        let told = coordinator.explanation(bench.now, state, asked).unwrap();
        let holders = &told.gangs[0].holders;
        assert!(!holders.is_empty(), "{told:?}");
        let is_named = |holder: &CellHolder| holder.job == Some(key("x"));
        assert_eq!(holders.iter().all(is_named), user == "alice", "{told:?}");
        assert_eq!(format!("{told:?}").contains("alice~x"), user == "alice");
    }
    let events = |user: &str| {
        let events = state.events_for(&key("x"), &sight(user)).unwrap();
        events
            .into_iter()
            .map(|event| event.message)
            .collect::<Vec<_>>()
    };
    assert!(events("alice").contains(&"It gives way to alice~y.".to_owned()));
    let hidden = events("bob");
    assert!(hidden.contains(&"It gives way to a job of another user.".to_owned()));
    assert!(
        !hidden.iter().any(|text| text.contains("alice~y")),
        "{hidden:?}"
    );
}
