//! How everything ended when it was left in peace.

use muster_model::state::JobState;

use super::super::history::{AskedJob, ClientHistory, FoundRecord};

/// Every job has ended, the exit of every task whose commands came to their end is recorded, and
/// nothing else stayed undone.
pub(super) fn settled(history: &ClientHistory) -> Vec<String> {
    let mut wrong = history.ending.trouble.clone();
    for (job, record) in &history.ending.records {
        if !record.state.is_final() {
            wrong.push(format!("{job} is still {}", record.state));
        }
    }
    for run in history.runs.iter().filter(|run| run.code.is_some()) {
        let member = history.orders.get(&run.mark).and_then(|order| {
            let record = history.ending.records.get(&order.job)?;
            let ended = Some(record).filter(|record| record.state.is_final())?;
            let mut gang = ended.attempts.get(&run.attempt)?.iter();
            gang.find(|member| member.index == run.index)
        });
        if member.is_some_and(|member| !member.ended) {
            let (mark, attempt, index) = (run.mark, run.attempt, run.index);
            wrong.push(format!(
                "no exit is recorded of {mark:?} attempt {attempt} task {index}"
            ));
        }
    }
    wrong
}

/// A job that nobody stopped ended as its commands do.
pub(super) fn as_ordered(history: &ClientHistory) -> Vec<String> {
    let records = history.ending.records.iter();
    let own = records.filter(|(job, record)| record.state.is_final() && !history.was_to_stop(job));
    own.filter_map(|(job, record)| {
        let order = history.orders.get(&record.mark?)?;
        (!is_as_ordered(order, record)).then(|| {
            let last = record.last();
            let (state, code, ordered) = (record.state, record.code, order.code);
            format!("{job} ended {state} with {code:?}, its commands end with {ordered}: {last:?}")
        })
    })
    .collect()
}

fn is_as_ordered(order: &AskedJob, record: &FoundRecord) -> bool {
    let mut codes = record.last().iter().map(|member| member.code);
    match order.code {
        0 => record.state == JobState::Succeeded && codes.all(|code| code == Some(0)),
        code => record.state == JobState::Failed && codes.any(|one| one == Some(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::{ClientAnswer, Deed};
    use super::super::example::{at, caught, fine};
    use super::*;

    #[test]
    fn a_job_that_does_not_end_is_seen() {
        caught(settled, "one is still RUNNING", |history| {
            history.ending.records.get_mut("one").unwrap().state = JobState::Running;
        });
        caught(settled, "n4 does not start", |history| {
            history.ending.trouble.push("n4 does not start".to_owned());
        });
    }

    #[test]
    fn an_exit_that_is_not_recorded_is_seen() {
        caught(
            settled,
            "no exit is recorded of Mark(1) attempt 1 task 0",
            |history| {
                let record = history.ending.records.get_mut("one").unwrap();
                record.attempts.get_mut(&1).unwrap()[0].ended = false;
            },
        );
    }

    #[test]
    fn a_job_that_ends_otherwise_is_seen() {
        caught(as_ordered, "one ended FAILED", |history| {
            history.ending.records.get_mut("one").unwrap().state = JobState::Failed;
        });
        caught(as_ordered, "two ended SUCCEEDED", |history| {
            history.ending.records.get_mut("two").unwrap().state = JobState::Succeeded;
        });
        // Unless it was to be stopped.
        let mut history = fine();
        history.ending.records.get_mut("one").unwrap().state = JobState::Stopped;
        let (job, answer) = (
            "one".to_owned(),
            ClientAnswer::Unknown("no answer".to_owned()),
        );
        history.operations.push(at(9, Deed::Stop { job, answer }));
        assert_eq!(as_ordered(&history), Vec::<String>::new());
    }
}
