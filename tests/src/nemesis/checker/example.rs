//! A small history in which all is well, for tests to plant something in.

use muster_model::state::JobState;

pub(super) use super::super::history::ClientHistory;
use super::super::history::{
    AskedJob, ClientAnswer, CommandRun, Deed, FinalState, FoundRecord, JobObservation, Mark,
    Member, Moment, Operation,
};

/// Two jobs: `one` has two tasks and succeeds in its second attempt, `two` has one and fails.
pub(super) fn fine() -> ClientHistory {
    let order = |job: &str, code, tasks| AskedJob {
        job: job.to_owned(),
        code,
        tasks,
        outlasts: false,
        gives_way: false,
    };
    let (one, two) = (seen(JobState::Succeeded, 1), seen(JobState::Failed, 0));
    let list = [("one".to_owned(), one), ("two".to_owned(), two)];
    let first = vec![member(0, 1, None), member(1, 2, None)];
    let second = vec![member(0, 1, Some(0)), member(1, 2, Some(0))];
    let record = |mark, state, attempts: Vec<_>| FoundRecord {
        mark: Some(Mark(mark)),
        state,
        code: None,
        attempts: (0..).zip(attempts).collect(),
    };
    ClientHistory {
        orders: [(Mark(1), order("one", 0, 2)), (Mark(2), order("two", 7, 1))].into(),
        operations: vec![
            submit(1, 1, ClientAnswer::Told(())),
            submit(2, 2, ClientAnswer::Told(())),
            look(6, "one", Some(seen(JobState::Running, 0))),
            look(20, "one", Some(one)),
            look(22, "two", Some(two)),
        ],
        runs: vec![CommandRun {
            mark: Mark(1),
            attempt: 1,
            index: 0,
            node: 1,
            devices: vec![3, 4],
            first_cs: 1000,
            last_cs: 1200,
            code: Some(0),
            begun: 1,
        }],
        ending: FinalState {
            lists: (1..=2).map(|node| (node, list.clone().into())).collect(),
            records: [
                (
                    "one".to_owned(),
                    record(1, JobState::Succeeded, vec![first, second]),
                ),
                (
                    "two".to_owned(),
                    record(2, JobState::Failed, vec![vec![member(0, 3, Some(7))]]),
                ),
            ]
            .into(),
            trouble: Vec::new(),
        },
    }
}

fn member(index: u32, node: usize, code: Option<i32>) -> Member {
    Member {
        index,
        node: Some(node),
        devices: vec![3, 4],
        made: true,
        ended: true,
        code,
        why: String::new(),
    }
}

/// Plants something in the fine history: the rule must say so, and must have said nothing before.
pub(super) fn caught(
    rule: fn(&ClientHistory) -> Vec<String>,
    expect: &str,
    plant: impl Fn(&mut ClientHistory),
) {
    let mut history = fine();
    assert_eq!(rule(&history), Vec::<String>::new());
    plant(&mut history);
    let wrong = rule(&history);
    let told = wrong.iter().any(|sentence| sentence.contains(expect));
    assert!(told, "{expect} is not in {wrong:?}");
    assert!(!super::check(&history).is_empty());
}

/// Something asked of node 3 at a moment, and answered one later.
pub(super) fn at(begun: Moment, deed: Deed) -> Operation {
    Operation {
        begun,
        ended: begun + 1,
        node: 3,
        deed,
    }
}

pub(super) fn submit(begun: Moment, mark: u32, answer: ClientAnswer<()>) -> Operation {
    let mark = Mark(mark);
    at(begun, Deed::Submit { mark, answer })
}

pub(super) fn refuse(begun: Moment, mark: u32, status: u16) -> Operation {
    let why = "no".to_owned();
    submit(begun, mark, ClientAnswer::Refused { status, why })
}

pub(super) fn look(begun: Moment, job: &str, seen: Option<JobObservation>) -> Operation {
    let (job, answer) = (job.to_owned(), ClientAnswer::Told(seen));
    at(begun, Deed::Look { job, answer })
}

pub(super) fn list(begun: Moment, jobs: &[(&str, JobObservation)]) -> Operation {
    let jobs = jobs.iter().map(|(job, seen)| ((*job).to_owned(), *seen));
    let answer = ClientAnswer::Told(jobs.collect());
    at(begun, Deed::List { answer })
}

pub(super) fn seen(state: JobState, attempt: u32) -> JobObservation {
    JobObservation {
        state,
        attempt,
        submitted_ms: 100,
    }
}
