//! What tasks said themselves: nothing was given twice and nothing ran twice.

use super::super::history::{ClientAnswer, ClientHistory, CommandRun};

/// No device of a node is held by two tasks at a time.
pub(super) fn devices(history: &ClientHistory) -> Vec<String> {
    let shares = |a: &CommandRun, b: &CommandRun| {
        let shared = a.devices.iter().find(|device| b.devices.contains(device));
        shared.filter(|_| a.node == b.node).copied()
    };
    at_once(history)
        .filter_map(|(a, b)| {
            let device = shares(a, b)?;
            Some(format!(
                "device {device} is given twice: {}, {}",
                said(a),
                said(b)
            ))
        })
        .collect()
}

/// No two attempts of a job run at a time.
pub(super) fn attempts(history: &ClientHistory) -> Vec<String> {
    let twice = at_once(history).filter(|(a, b)| a.mark == b.mark && a.attempt != b.attempt);
    twice
        .map(|(a, b)| format!("two attempts at once: {}, {}", said(a), said(b)))
        .collect()
}

/// No commands run twice in an attempt.
pub(super) fn once(history: &ClientHistory) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, run) in history.runs.iter().enumerate() {
        if run.begun > 1 {
            wrong.push(format!("commands began {} times: {}", run.begun, said(run)));
        }
        let same = |other: &&CommandRun| {
            (other.mark, other.attempt, other.index) == (run.mark, run.attempt, run.index)
        };
        if let Some(other) = history.runs[..at].iter().find(same) {
            wrong.push(format!(
                "one task ran twice: {}, {}",
                said(other),
                said(run)
            ));
        }
    }
    wrong
}

/// No commands run before every member of their gang was made.
pub(super) fn gangs(history: &ClientHistory) -> Vec<String> {
    let missing = history.runs.iter().filter_map(|run| {
        let order = history.orders.get(&run.mark)?;
        let record = history.ending.records.get(&order.job)?;
        let gang = record.attempts.get(&run.attempt)?;
        let made = gang.iter().filter(|member| member.made).count();
        (made < order.tasks as usize).then(|| {
            let of = order.tasks;
            format!(
                "commands ran in a gang of which {made} of {of} members were made: {}",
                said(run)
            )
        })
    });
    missing.collect()
}

/// Whatever ran is in a record, which says where, and on which devices.
pub(super) fn recorded(history: &ClientHistory) -> Vec<String> {
    let wrong = history.runs.iter().filter_map(|run| {
        let refusals = history
            .submissions()
            .filter(|(_, mark, ..)| *mark == run.mark);
        let mut answers = refusals.map(|(.., answer)| answer);
        if answers.any(ClientAnswer::is_refused) {
            return Some(format!("a refused job ran: {}", said(run)));
        }
        let order = history.orders.get(&run.mark)?;
        let Some(record) = history.ending.records.get(&order.job) else {
            return Some(format!("a job without a record ran: {}", said(run)));
        };
        let Some(gang) = record.attempts.get(&run.attempt) else {
            // One that was let go is not to be found, and what goes on may have gone further than its
            // record when that was read.
            if record.has_let_go(run.attempt) || !record.state.is_final() {
                return None;
            }
            return Some(format!(
                "an attempt that is not recorded ran: {}",
                said(run)
            ));
        };
        let member = gang.iter().find(|member| member.index == run.index)?;
        let there = member.node == Some(run.node) && member.devices == run.devices;
        (!there).then(|| {
            let (node, devices) = (member.node, &member.devices);
            format!("recorded on {node:?} with {devices:?}: {}", said(run))
        })
    });
    wrong.collect()
}

/// What the record of a task says that gave way.
const GAVE_WAY: &str = "It gave way";

/// No fault ends what runs before its run lease does, and only who has no promise gives way.
pub(super) fn undisturbed(history: &ClientHistory) -> Vec<String> {
    let disturbed = history.runs.iter().filter_map(|run| {
        let order = history.orders.get(&run.mark).filter(|it| it.outlasts)?;
        let record = history.ending.records.get(&order.job)?;
        let gang = record.attempts.get(&run.attempt)?;
        let last = record.attempts.last_key_value();
        let again = last.is_some_and(|(last, _)| *last > run.attempt);
        let gave_way = gang.iter().any(|member| member.why.contains(GAVE_WAY));
        (again && !(order.gives_way && gave_way)).then(|| {
            let why: Vec<&str> = gang.iter().map(|member| &*member.why).collect();
            format!("what ran was begun anew too soon: {} {why:?}", said(run))
        })
    });
    disturbed.collect()
}

/// Every two runs of which one began before the other had ended.
fn at_once(history: &ClientHistory) -> impl Iterator<Item = (&CommandRun, &CommandRun)> {
    let mut runs: Vec<&CommandRun> = history.runs.iter().collect();
    runs.sort_unstable_by_key(|run| run.first_cs);
    (0..runs.len()).flat_map(move |at| {
        let one = runs[at];
        let later = runs[at + 1..]
            .iter()
            .take_while(|other| other.first_cs < one.last_cs);
        later.map(|other| (one, *other)).collect::<Vec<_>>()
    })
}

fn said(run: &CommandRun) -> String {
    format!(
        "{:?} attempt {} task {} on n{} devices {:?} from {} to {} cs",
        run.mark, run.attempt, run.index, run.node, run.devices, run.first_cs, run.last_cs
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Mark;
    use super::super::example::{caught, fine, refuse};
    use super::*;

    #[test]
    fn a_device_that_is_given_twice_is_seen() {
        caught(devices, "device 3 is given twice", |history| {
            let mut other = history.runs[0].clone();
            other.mark = Mark(2);
            other.devices = vec![3];
            other.first_cs += 1;
            history.runs.push(other);
        });
        // On another node, or afterwards, it is another matter.
        let mut history = fine();
        let mut other = history.runs[0].clone();
        other.first_cs = other.last_cs;
        other.last_cs += 10;
        history.runs.push(other);
        assert_eq!(devices(&history), Vec::<String>::new());
    }

    #[test]
    fn two_attempts_at_once_are_seen() {
        caught(attempts, "two attempts at once", |history| {
            let mut other = history.runs[0].clone();
            other.attempt += 1;
            other.node += 1;
            history.runs.push(other);
        });
    }

    #[test]
    fn a_task_that_ran_twice_is_seen() {
        caught(once, "one task ran twice", |history| {
            let mut other = history.runs[0].clone();
            other.first_cs = other.last_cs + 100;
            other.last_cs += 200;
            history.runs.push(other);
        });
        caught(once, "commands began 2 times", |history| {
            history.runs[0].begun = 2;
        });
    }

    #[test]
    fn a_gang_that_was_not_whole_is_seen() {
        caught(gangs, "1 of 2 members", |history| {
            let record = history.ending.records.get_mut("one").unwrap();
            record.attempts.get_mut(&1).unwrap()[1].made = false;
        });
    }

    #[test]
    fn a_job_that_is_disturbed_is_seen() {
        caught(undisturbed, "begun anew too soon", |history| {
            history.orders.get_mut(&Mark(1)).unwrap().outlasts = true;
            history.runs[0].attempt = 0;
        });
        // Nobody who was promised what it uses gives way.
        let gives_way = |history: &mut ClientHistory| {
            history.orders.get_mut(&Mark(1)).unwrap().outlasts = true;
            history.runs[0].attempt = 0;
            let record = history.ending.records.get_mut("one").unwrap();
            record.attempts.get_mut(&0).unwrap()[0].why =
                format!("{GAVE_WAY} to a job with a better claim");
        };
        caught(undisturbed, "begun anew too soon", gives_way);
        let mut history = fine();
        gives_way(&mut history);
        history.orders.get_mut(&Mark(1)).unwrap().gives_way = true;
        assert_eq!(undisturbed(&history), Vec::<String>::new());
    }

    #[test]
    fn what_ran_without_a_record_is_seen() {
        caught(recorded, "an attempt that is not recorded", |history| {
            history.runs[0].attempt = 7;
        });
        caught(recorded, "a job without a record", |history| {
            history.ending.records.remove("one");
        });
        caught(recorded, "recorded on Some(1)", |history| {
            history.runs[0].node = 4;
        });
        caught(recorded, "a refused job ran", |history| {
            history.operations.push(refuse(1, 1, 503));
        });
        // What is no longer kept proves nothing.
        let mut history = fine();
        history.runs[0].attempt = 0;
        let record = history.ending.records.get_mut("one").unwrap();
        record.attempts.remove(&0);
        assert_eq!(recorded(&history), Vec::<String>::new());
    }
}
