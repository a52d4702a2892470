//! The room that a job takes at every voter.

use super::*;
use crate::gang::JobId;
use crate::vc::EVENTS_KEPT;
use crate::vc::job::JobRecord;

fn job() -> JobRecord {
    let accepted = AcceptedJob {
        key: key(),
        uid: "u".parse().unwrap(),
        spec: spec(true, 0, &[("w", 1, 1, -1)]),
        document: JobDocument::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: 1,
    };
    JobRecord::new(JobId(1), accepted)
}

#[test]
fn a_job_takes_no_more_than_what_is_in_it() {
    let job = job();
    let attempt = &job.attempt;
    assert_eq!((attempt.tasks.capacity(), attempt.gangs.capacity()), (1, 1));
    // A step of the allocator: the next one is 640.
    assert!(
        size_of::<JobRecord>() <= 512,
        "{} bytes",
        size_of::<JobRecord>()
    );
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
