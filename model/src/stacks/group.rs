//! Groups of processes that are in the same place, and which of them is not where the others are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::select::{key, workers, working};
use super::sentence::{self, described};
use super::{JobStacks, ProcessStack, StackGroup, StackMember, TaskStacks, ThreadStack};
use crate::id::{JobKey, RoleName};
use crate::rule_test::UnheardNode;

/// A process that is compared, with the thread that does its work.
#[derive(Clone, Debug)]
pub(super) struct ComparedProcess<'a> {
    pub(super) member: StackMember,
    pub(super) process: &'a ProcessStack,
    pub(super) thread: &'a ThreadStack,
}

/// What is the same of processes in one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PlaceKey<'a> {
    /// Functions and files.
    Python(Vec<(&'a str, &'a str)>),
    /// The program, and where the kernel has it wait.
    Native(&'a str, [&'a str; 3]),
}

impl JobStacks {
    /// Groups what nodes said of a job's tasks. `left_out`: tasks that do not run now.
    pub fn of(
        (job, attempt): (JobKey, u32),
        tasks: Vec<TaskStacks>,
        unheard: Vec<UnheardNode>,
        left_out: usize,
    ) -> Self {
        let (compared, unread) = compared(&tasks);
        let groups = grouped(&compared);
        let mut summary = vec![sentence::who_is_where(&groups)];
        summary.extend(unread.iter().map(sentence::unread));
        summary.extend(compared.iter().filter_map(sentence::held));
        summary.extend(sentence::silence(&tasks));
        summary.extend(tasks.iter().filter_map(sentence::problem));
        summary.extend(unheard.iter().map(sentence::unheard));
        summary.extend(sentence::left_out(left_out));
        let groups = groups.into_iter().map(|(group, _)| group).collect();
        Self {
            job,
            attempt,
            summary,
            groups,
            tasks,
            unheard,
        }
    }
}

/// The processes that are compared, and those of Python whose stack is not known while that of others is.
fn compared(tasks: &[TaskStacks]) -> (Vec<ComparedProcess<'_>>, Vec<ComparedProcess<'_>>) {
    let mut all = Vec::new();
    for task in tasks {
        let workers = workers(task);
        let is_one_of_many = workers.len() > 1;
        all.extend(workers.into_iter().filter_map(|process| {
            let thread = working(process)?;
            let member = StackMember {
                task: task.task.clone(),
                pid: process.pid,
                rank: process.rank,
                is_one_of_many,
            };
            Some(ComparedProcess {
                member,
                process,
                thread,
            })
        }));
    }
    all.sort_by(|a, b| order(&a.member).cmp(&order(&b.member)));
    let is_read = |one: &ComparedProcess<'_>| !one.thread.frames.is_empty();
    if !all.iter().any(is_read) {
        return (all, Vec::new());
    }
    all.into_iter()
        .partition(|one| is_read(one) || one.process.problem.is_none())
}

fn order(member: &StackMember) -> (&RoleName, u32, Option<u32>, u32) {
    let task = &member.task;
    (&task.role, task.index, member.rank, member.pid)
}

/// The largest group first, each with its first process.
pub(super) fn grouped<'a>(
    compared: &[ComparedProcess<'a>],
) -> Vec<(StackGroup, ComparedProcess<'a>)> {
    let mut places: BTreeMap<PlaceKey<'_>, Vec<&ComparedProcess<'a>>> = BTreeMap::new();
    for one in compared {
        places.entry(place_key(one)).or_default().push(one);
    }
    let mut groups: Vec<_> = places.into_values().collect();
    groups.sort_by_key(|group| (Reverse(group.len()), order(&group[0].member)));
    let usual: Vec<_> = groups
        .iter()
        .map(|group| is_usual(group, compared))
        .collect();
    // Where no place has most of them, none is odd.
    let has_majority = usual.first() == Some(&true);
    let told = groups.into_iter().zip(usual).map(|(group, is_usual)| {
        let members: Vec<_> = group.iter().map(|one| one.member.clone()).collect();
        let told = StackGroup {
            is_odd: has_majority && !is_usual,
            place: described(group[0], members.len()),
            stack: sentence::stack(group[0]),
            members,
        };
        (told, group[0].clone())
    });
    told.collect()
}

fn place_key<'a>(one: &ComparedProcess<'a>) -> PlaceKey<'a> {
    let ComparedProcess {
        process, thread, ..
    } = one;
    if !thread.frames.is_empty() {
        return PlaceKey::Python(thread.frames.iter().map(key).collect());
    }
    let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
    let waits = [text(&thread.syscall), text(&thread.wchan)];
    // One that sleeps and one that is about to are in the same place.
    let state = match thread.state.as_str() {
        "R" => "R",
        "D" => "D",
        _ => "S",
    };
    PlaceKey::Native(&process.name, [state, waits[0], waits[1]])
}

/// Whether a group has most of all processes, or each of its members is where most of its role are. Roles run
/// programs of their own: what is usual in one may be found in no other. A role with one process has no usual place.
fn is_usual(group: &[&ComparedProcess<'_>], all: &[ComparedProcess<'_>]) -> bool {
    if group.len() * 2 > all.len() {
        return true;
    }
    let of_role = |role: &RoleName| {
        let in_group = group.iter().filter(|it| it.member.task.role == *role);
        let in_all = all.iter().filter(|it| it.member.task.role == *role);
        (in_group.count(), in_all.count())
    };
    group.iter().all(|one| {
        let (there, of_all) = of_role(&one.member.task.role);
        of_all > 1 && there * 2 > of_all
    })
}
