//! Which jobs a list has.

use muster_model::job_order::JobOrder;
use muster_model::job_query::{First, JobFilter, JobQuery};
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::sight::JobSight;

use super::super::FINISHED_HOURS_MAX;
use super::*;

const JOBS: u64 = 40;

/// Jobs of two users, several of each millisecond, of which every third has ended.
fn many() -> VcState {
    let mut state = VcState::default();
    for nth in 1..=JOBS {
        let user = if nth % 2 == 0 { "alice" } else { "bob" };
        let job = AcceptedJob {
            key: format!("{user}~j{}", JOBS - nth).parse().unwrap(),
            uid: format!("u{nth}").parse().unwrap(),
            spec: spec(true, 0, &[("w", 1, 1, -1)]),
            document: JobDocument::default(),
            sealed_secrets: Vec::new(),
            submitted_ms: 1 + nth * 7 % 11,
        };
        let key = job.key.clone();
        let entry = VcEntry::Accept(Box::new(job));
        state.apply(2 * nth, &entry).unwrap();
        if nth % 3 == 0 {
            let stop = VcEntry::SetExecution {
                job: key,
                value: ExecutionType::Stop,
                at_ms: 100,
            };
            state.apply(2 * nth + 1, &stop).unwrap();
        }
    }
    state
}

/// The names of a list by looking at all jobs.
fn expected(state: &VcState, query: &JobQuery, sight: &JobSight) -> (Vec<JobKey>, usize) {
    let mut all: Vec<StateJob<'_>> = state.rows().collect();
    all.retain(|job| sight.shows(job) && query.filter.matches(job));
    let First { order, count } = query.first.unwrap();
    all.sort_by(|a, b| order.compare(a, b));
    let names = all.iter().take(count).map(|job| job.key().clone());
    (names.collect(), all.len())
}

fn asked(state: &VcState, query: &JobQuery, sight: &JobSight) -> (Vec<JobKey>, usize) {
    let (mut rows, total) = state.asked(query, sight);
    let order = query.first.unwrap().order;
    rows.sort_by(|a, b| order.compare(a, b));
    (rows.iter().map(|job| job.key().clone()).collect(), total)
}

#[test]
fn the_newest_jobs_are_found_without_looking_at_all() {
    let mut state = many();
    let private = AccessPolicy {
        jobs: JobVisibility::Private,
        vcs: [].into(),
    };
    let alice = "alice".parse().unwrap();
    let limited = JobSight::of(Some(&alice), [].into(), &private);
    let orders = ["submissionTime,DESC", "submissionTime,ASC", "jobName,ASC"];
    let filters = [
        JobFilter::default(),
        JobFilter {
            vcs: vec!["default".to_owned()],
            ..JobFilter::default()
        },
        JobFilter {
            vcs: vec!["other".to_owned()],
            ..JobFilter::default()
        },
        JobFilter {
            users: vec!["bob".to_owned()],
            ..JobFilter::default()
        },
        JobFilter {
            states: vec![JobState::Stopped],
            ..JobFilter::default()
        },
    ];
    // As it is, after a restart, and once those that ended are forgotten.
    for round in 0..3 {
        if round == 1 {
            state = VcState::restore(&state.snapshot()).unwrap();
        } else if round == 2 {
            for hour in 0..=FINISHED_HOURS_MAX {
                state.apply(1_000 + hour, &VcEntry::HourPassed).unwrap();
            }
            let stopped = |job: &StateJob<'_>| job.state() == JobState::Stopped;
            assert!(!state.rows().any(|job| stopped(&job)));
        }
        for (order, filter) in orders
            .iter()
            .flat_map(|order| filters.iter().map(move |it| (order, it)))
        {
            for (count, sight) in [0, 1, 3, 7, 39, 40, 1_000]
                .into_iter()
                .flat_map(|count| [(count, &JobSight::All), (count, &limited)])
            {
                let order = JobOrder::parse(order).unwrap();
                let query = JobQuery {
                    filter: filter.clone(),
                    first: Some(First { order, count }),
                    reasons: false,
                };
                let expect = expected(&state, &query, sight);
                assert_eq!(asked(&state, &query, sight), expect, "{query:?}");
            }
        }
    }
}
