//! What a job was seen to be only goes forward, whoever was asked.

use std::collections::BTreeSet;

use super::super::history::{ClientHistory, JobObservation, Operation};

/// An ended job stays as it ended, the number of its attempt never goes back, and it stays the
/// same job: for looks of which one ended before the other began.
pub(super) fn forward(history: &ClientHistory) -> Vec<String> {
    let jobs: BTreeSet<&str> = history.orders.values().map(|order| &*order.job).collect();
    jobs.iter()
        .filter_map(|job| backward(history, job))
        .collect()
}

/// The first step back of a job, if there is one.
fn backward(history: &ClientHistory, job: &str) -> Option<String> {
    let seen = history.sightings(job);
    let mut seen: Vec<Look<'_>> = seen
        .filter_map(|(by, what)| Some(Look { by, what: what? }))
        .collect();
    seen.sort_unstable_by_key(|look| look.by.begun);
    let mut ended: Vec<&Look<'_>> = seen.iter().collect();
    ended.sort_unstable_by_key(|look| look.by.ended);
    let mut ended = ended.into_iter().peekable();
    let mut before: Vec<&Look<'_>> = Vec::new();
    for look in &seen {
        while let Some(earlier) = ended.next_if(|earlier| earlier.by.ended < look.by.begun) {
            before.push(earlier);
        }
        let step = before
            .iter()
            .find_map(|old| Some((old, stepped(old.what, look.what)?)));
        if let Some((old, what)) = step {
            return Some(format!("{job} {what}: {old}, then {look}"));
        }
    }
    None
}

/// What went back between two sightings of a job, if something did.
fn stepped(old: &JobObservation, new: &JobObservation) -> Option<&'static str> {
    if old.submitted_ms != new.submitted_ms {
        Some("became another job")
    } else if old.state.is_final() && old.state != new.state {
        Some("left its end")
    } else if old.attempt > new.attempt {
        Some("went back to an earlier attempt")
    } else {
        None
    }
}

struct Look<'a> {
    by: &'a Operation,
    what: &'a JobObservation,
}

impl std::fmt::Display for Look<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { by, what } = self;
        let (state, attempt, submitted) = (what.state, what.attempt, what.submitted_ms);
        let (node, begun, ended) = (by.node, by.begun, by.ended);
        write!(
            f,
            "{state} in attempt {attempt}, submitted {submitted}, at n{node} from {begun} to {ended}"
        )
    }
}

#[cfg(test)]
mod tests {
    use muster_model::state::JobState;

    use super::super::example::{caught, fine, look, seen};
    use super::*;

    #[test]
    fn a_job_that_leaves_its_end_is_seen() {
        for state in [JobState::Running, JobState::Failed, JobState::Waiting] {
            caught(forward, "one left its end", |history| {
                history
                    .operations
                    .push(look(40, "one", Some(seen(state, 1))));
            });
        }
    }

    #[test]
    fn an_attempt_that_goes_back_is_seen() {
        caught(forward, "one went back to an earlier attempt", |history| {
            history
                .operations
                .push(look(12, "one", Some(seen(JobState::Running, 1))));
            history
                .operations
                .push(look(14, "one", Some(seen(JobState::Running, 0))));
        });
    }

    #[test]
    fn another_job_under_the_name_is_seen() {
        caught(forward, "one became another job", |history| {
            let mut other = seen(JobState::Succeeded, 1);
            other.submitted_ms += 1;
            history.operations.push(look(40, "one", Some(other)));
        });
    }

    #[test]
    fn looks_at_the_same_time_may_differ() {
        let mut history = fine();
        let mut long = look(5, "one", Some(seen(JobState::Running, 0)));
        long.ended = 1000;
        history.operations.push(long);
        assert_eq!(forward(&history), Vec::<String>::new());
    }
}
