//! What was accepted is there, once; what was refused is not.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{ClientAnswer, ClientHistory, Deed, Mark, Moment};

/// HTTP's status for a name that is taken.
const CONFLICT: u16 = 409;

/// What was accepted is listed by every node at the end, under the record that was accepted.
pub(super) fn kept(history: &ClientHistory) -> Vec<String> {
    let accepted = history.submissions().filter(|(.., answer)| told(answer));
    accepted
        .flat_map(|(operation, mark, order, _)| {
            let (lists, job) = (&history.ending.lists, &order.job);
            let lacks = lists.iter().filter(|(_, list)| !list.contains_key(job));
            let taker = operation.node;
            let mut wrong: Vec<String> = lacks
                .map(|(node, _)| format!("n{node} does not list {job}, which n{taker} accepted"))
                .collect();
            let times = lists.values().filter_map(|list| list.get(job));
            let times: BTreeSet<u64> = times.map(|seen| seen.submitted_ms).collect();
            if times.len() > 1 {
                wrong.push(format!("nodes list different records as {job}: {times:?}"));
            }
            match history.ending.records.get(job).map(|it| it.mark) {
                Some(Some(found)) if found == mark => {}
                Some(found) => wrong.push(format!(
                    "{job} was accepted as {mark:?} by n{taker}, its record is of {found:?}"
                )),
                None if lists.is_empty() => {}
                None => wrong.push(format!("{job}, which n{taker} accepted, has no record")),
            }
            wrong
        })
        .collect()
}

/// What was refused is not there, and nothing is that nobody submitted.
pub(super) fn refused(history: &ClientHistory) -> Vec<String> {
    let answers: BTreeMap<Mark, &ClientAnswer<()>> = history
        .submissions()
        .map(|(_, mark, _, answer)| (mark, answer))
        .collect();
    let records = history.ending.records.iter();
    records
        .filter_map(|(job, record)| {
            let mark = record.mark?;
            match answers.get(&mark) {
                None => Some(format!(
                    "{job} is there as {mark:?}, which nobody submitted"
                )),
                Some(ClientAnswer::Refused { status, why }) => Some(format!(
                    "{job} is there as {mark:?}, which was refused with {status}: {why}"
                )),
                Some(ClientAnswer::Told(()) | ClientAnswer::Unknown(_)) => None,
            }
        })
        .collect()
}

/// No name is accepted twice, and none is refused as taken that nobody else can have taken.
pub(super) fn once(history: &ClientHistory) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut accepted: BTreeMap<&str, Vec<Mark>> = BTreeMap::new();
    for (operation, mark, order, answer) in history.submissions() {
        match answer {
            ClientAnswer::Told(()) => accepted.entry(&order.job).or_default().push(mark),
            ClientAnswer::Refused { status, .. } if *status == CONFLICT => {
                if !may_be_taken(history, mark, &order.job, operation.ended) {
                    let job = &order.job;
                    wrong.push(format!("{job} as {mark:?} was refused as taken, by nobody"));
                }
            }
            ClientAnswer::Refused { .. } | ClientAnswer::Unknown(_) => {}
        }
    }
    let twice = accepted.into_iter().filter(|(_, marks)| marks.len() > 1);
    wrong.extend(twice.map(|(job, marks)| format!("{job} was accepted as each of {marks:?}")));
    wrong
}

/// Whether another submission than this may have taken a name before a moment.
fn may_be_taken(history: &ClientHistory, but: Mark, name: &str, before: Moment) -> bool {
    let mut others = history.submissions();
    others.any(|(operation, mark, order, answer)| {
        let earlier = operation.begun < before && mark != but;
        earlier && order.job == name && !answer.is_refused()
    })
}

/// Who asks after an acceptance, at whatever node, finds the job.
pub(super) fn found(history: &ClientHistory) -> Vec<String> {
    let mut since: BTreeMap<&str, Moment> = BTreeMap::new();
    for (operation, _, order, answer) in history.submissions() {
        if told(answer) {
            let first = since.entry(&order.job).or_insert(operation.ended);
            *first = operation.ended.min(*first);
        }
    }
    let missing = since.iter().filter_map(|(job, since)| {
        let mut looks = history.sightings(job);
        let (blind, _) = looks.find(|(look, seen)| seen.is_none() && look.begun > *since)?;
        let how = match blind.deed {
            Deed::List { .. } => "listed",
            _ => "found",
        };
        Some(format!(
            "{job} was accepted at {since} and not {how} by n{} from {} to {}",
            blind.node, blind.begun, blind.ended
        ))
    });
    missing.collect()
}

fn told(answer: &ClientAnswer<()>) -> bool {
    answer.told().is_some()
}

#[cfg(test)]
mod tests {
    use super::super::example::{
        ClientHistory as Example, caught, fine, list, look, refuse, submit,
    };
    use super::*;

    #[test]
    fn a_fine_history_has_nothing_wrong() {
        assert_eq!(super::super::check(&fine()), Vec::<String>::new());
    }

    #[test]
    fn an_accepted_job_that_is_lost_is_seen() {
        caught(kept, "n2 does not list one", |history: &mut Example| {
            history.ending.lists.get_mut(&2).unwrap().remove("one");
        });
        caught(kept, "has no record", |history| {
            history.ending.records.remove("one");
        });
    }

    #[test]
    fn another_record_under_the_name_is_seen() {
        caught(kept, "its record is of Some(Mark(9))", |history| {
            history.ending.records.get_mut("one").unwrap().mark = Some(Mark(9));
        });
        caught(kept, "different records", |history| {
            let list = history.ending.lists.get_mut(&2).unwrap();
            list.get_mut("one").unwrap().submitted_ms += 1;
        });
    }

    #[test]
    fn a_refused_job_that_is_there_is_seen() {
        caught(refused, "which was refused with 503", |history| {
            history.operations.remove(0);
            history.operations.push(refuse(1, 1, 503));
        });
        caught(refused, "which nobody submitted", |history| {
            history.ending.records.get_mut("one").unwrap().mark = Some(Mark(77));
        });
    }

    #[test]
    fn a_name_that_is_taken_twice_is_seen() {
        caught(once, "accepted as each of", |history| {
            let again = history.orders[&Mark(1)].clone();
            history.orders.insert(Mark(8), again);
            history
                .operations
                .push(submit(30, 8, ClientAnswer::Told(())));
        });
        caught(once, "refused as taken, by nobody", |history| {
            let mut alone = history.orders[&Mark(1)].clone();
            alone.job = "alone".to_owned();
            history.orders.insert(Mark(8), alone);
            history.operations.push(refuse(30, 8, CONFLICT));
        });
    }

    #[test]
    fn a_job_that_is_not_found_after_its_acceptance_is_seen() {
        caught(found, "not found by n3", |history| {
            history.operations.push(look(40, "one", None));
        });
        caught(found, "not listed by n3", |history| {
            history.operations.push(list(40, &[]));
        });
        // While it is being accepted, both answers are right.
        let mut history = fine();
        history.operations.push(look(1, "one", None));
        assert_eq!(found(&history), Vec::<String>::new());
    }
}
