//! The room that a job takes at every voter.

use super::*;
use crate::gang::JobId;
use crate::vc::job::Job;
use crate::vc::{EVENTS_KEPT, FINISHED_AGE_MAX_MS};

fn job() -> Job {
    let accepted = AcceptedJob {
        key: key(),
        uid: "u".parse().unwrap(),
        spec: spec(true, 0, &[("w", 1, 1, -1)]),
        document: Document::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: 1,
    };
    Job::new(JobId(1), accepted)
}

#[test]
fn a_job_takes_no_more_than_what_is_in_it() {
    let job = job();
    let attempt = &job.attempt;
    assert_eq!((attempt.tasks.capacity(), attempt.gangs.capacity()), (1, 1));
    // A step of the allocator: the next one is 512.
    assert!(size_of::<Job>() <= 448, "{} bytes", size_of::<Job>());
}

#[test]
fn the_first_event_and_the_latest_are_kept() {
    let mut job = job();
    for i in 0..100 {
        job.news("Tried", i.to_string(), 10 + i);
        job.news("Tried", i.to_string(), 11 + i);
    }
    let events = job.events();
    let told = |i: usize| (&*events[i].message, events[i].count, events[i].last);
    assert_eq!(events.len(), EVENTS_KEPT);
    assert_eq!(told(0), ("The job was accepted.", 1, 1));
    assert_eq!(told(1), ("37", 2, 48));
    assert_eq!(told(EVENTS_KEPT - 1), ("99", 2, 110));
    let uids: BTreeSet<&String> = events.iter().map(|event| &event.uid).collect();
    assert_eq!(uids.len(), EVENTS_KEPT);
}

fn stop(key: JobKey, at_ms: u64) -> Entry {
    Entry::SetExecution {
        job: key,
        value: ExecutionType::Stop,
        at_ms,
    }
}

#[test]
fn an_ended_job_is_kept_for_its_time_by_what_leaders_say() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
    bench.apply(&stop(key(), 2)).unwrap();
    for name in ["alice~y", "alice~z"] {
        let accepted = AcceptedJob {
            key: name.parse().unwrap(),
            uid: name[6..].parse().unwrap(),
            ..job().accepted
        };
        bench.apply(&Entry::Accept(Box::new(accepted))).unwrap();
    }
    // Somebody's clock is far ahead, but nobody's who leads.
    let ahead = stop("alice~z".parse().unwrap(), 10 * FINISHED_AGE_MAX_MS);
    bench.apply(&ahead).unwrap();
    let run = bench.waiting().remove(0);
    bench.place(&run);
    let last_ms = 2 + FINISHED_AGE_MAX_MS;
    let go = Entry::Go {
        run: run.clone(),
        at_ms: last_ms,
    };
    bench.apply(&go).unwrap();
    assert!(bench.state.summary(&key()).is_some(), "as old as it may be");
    let stopping = Entry::Stopping {
        run,
        cause: Cause::BarrierTimeout,
        by: None,
        at_ms: last_ms + 1,
    };
    bench.apply(&stopping).unwrap();
    assert!(bench.state.summary(&key()).is_none());
    assert_eq!(bench.state.job_id(&key()), None, "its name is free");
    for name in ["alice~y", "alice~z"] {
        assert!(
            bench.state.summary(&name.parse().unwrap()).is_some(),
            "{name}"
        );
    }
}
