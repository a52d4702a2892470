//! What the stacks of a job show, in sentences.

use super::group::ComparedProcess;
use super::place::{shown, telling};
use super::{IDLE_PERCENT, SILENT_S, StackFrame, StackGroup, StackMember, TaskStacks};
use crate::rule_test::UnheardNode;

/// Members that a sentence names, and groups.
const NAMED_MAX: usize = 8;

type ToldGroup<'a> = (StackGroup, ComparedProcess<'a>);

/// Who is where: the first sentence.
pub(super) fn who_is_where(groups: &[ToldGroup<'_>]) -> String {
    let all: usize = groups.iter().map(|(group, _)| group.members.len()).sum();
    let noun = noun(groups);
    match groups {
        [] => "No process could be compared.".to_owned(),
        [(group, _)] if all == 1 => {
            let member = member(&group.members[0]);
            format!(
                "{member} {}; there is no other to compare it with.",
                group.place
            )
        }
        [(group, _)] => format!("All {all} {noun} {}.", group.place),
        [(largest, _), others @ ..] if largest.members.len() * 2 > all => {
            let first = format!(
                "{} of {all} {noun} {}",
                largest.members.len(),
                largest.place
            );
            format!("{first}; {}.", named(others))
        }
        _ => format!(
            "The {all} {noun} are in {} places, and none has most of them: {}.",
            groups.len(),
            named(groups)
        ),
    }
}

/// What is counted.
fn noun(groups: &[ToldGroup<'_>]) -> &'static str {
    let mut members = groups.iter().flat_map(|(group, _)| &group.members);
    match members.any(|member| member.is_one_of_many) {
        true => "processes",
        false => "tasks",
    }
}

/// `worker:3 is in load_batch (data.py:41); ps:0 and ps:1 wait in serve (ps.py)`
fn named(groups: &[ToldGroup<'_>]) -> String {
    let mut texts: Vec<_> = groups
        .iter()
        .take(NAMED_MAX)
        .map(|(group, _)| format!("{} {}", members(&group.members), group.place))
        .collect();
    if let Some(more @ 1..) = groups.len().checked_sub(NAMED_MAX) {
        texts.push(format!("and {more} more"));
    }
    texts.join("; ")
}

/// `worker:3`, `worker:3 and worker:4`, `a, b, … and 12 more`
pub(super) fn members(members: &[StackMember]) -> String {
    let mut texts: Vec<_> = members.iter().take(NAMED_MAX).map(member).collect();
    let more = members.len() - texts.len();
    let last = match more {
        0 => texts.pop().unwrap_or_default(),
        _ => format!("{more} more"),
    };
    match texts.is_empty() {
        true => last,
        false => format!("{} and {last}", texts.join(", ")),
    }
}

fn member(member: &StackMember) -> String {
    let task = &member.task;
    match (member.is_one_of_many, member.rank) {
        (false, _) => task.to_string(),
        (true, Some(rank)) => format!("{task} (rank {rank})"),
        (true, None) => format!("{task} (process {})", member.pid),
    }
}

/// Where a process is, as the end of a sentence about so many.
pub(super) fn described(one: &ComparedProcess<'_>, count: usize) -> String {
    let is_one = count == 1;
    let Some(frame) = telling(&one.thread.frames) else {
        return native(one, is_one);
    };
    let does = match (one.thread.state.as_str(), is_one) {
        ("R" | "?", true) => "is in",
        ("R" | "?", false) => "are in",
        (_, true) => "waits in",
        (_, false) => "wait in",
    };
    let file = shown(&frame.file);
    let place = match is_one && frame.line > 0 {
        true => format!("{file}:{}", frame.line),
        false => file.to_owned(),
    };
    format!("{does} {} ({place})", frame.function)
}

/// The same of a program that is not Python, or whose stack is not known.
fn native(one: &ComparedProcess<'_>, is_one: bool) -> String {
    let name = &one.process.name;
    let runs = if is_one { "runs" } else { "run" };
    let place = match (&one.thread.syscall, &one.thread.wchan) {
        (Some(call), Some(wchan)) => format!(" in {call} ({wchan})"),
        (Some(call), None) => format!(" in {call}"),
        (None, Some(wchan)) => format!(" in {wchan}"),
        (None, None) => String::new(),
    };
    match one.thread.state.as_str() {
        "R" => format!("{runs} {name}, which computes"),
        "D" => format!("{runs} {name}, which the kernel lets nobody end{place}"),
        "T" | "t" => format!("{runs} {name}, which was stopped by a signal or a debugger"),
        _ => format!("{runs} {name}, which waits{place}"),
    }
}

/// The stack of a process in lines, innermost first.
pub(super) fn stack(one: &ComparedProcess<'_>) -> Vec<String> {
    match one.thread.frames.is_empty() {
        true => one.thread.kernel.clone(),
        false => one.thread.frames.iter().map(line).collect(),
    }
}

fn line(frame: &StackFrame) -> String {
    match frame.line {
        0 => format!("{} ({})", frame.function, frame.file),
        line => format!("{} ({}:{line})", frame.function, frame.file),
    }
}

/// A process of Python whose stack could not be read.
pub(super) fn unread(one: &ComparedProcess<'_>) -> String {
    let member = member(&one.member);
    let why = one
        .process
        .problem
        .as_deref()
        .unwrap_or("it is not known why");
    format!("The Python stack of {member} could not be read: {why}.")
}

/// A process that does not go on whatever the others do: one that cannot be ended, for a device or a file server does
/// not answer it, and one that somebody has stopped.
pub(super) fn held(one: &ComparedProcess<'_>) -> Option<String> {
    let member = member(&one.member);
    let thread = one.thread;
    match thread.state.as_str() {
        "D" => {
            let place = thread.wchan.as_deref().or(thread.syscall.as_deref());
            let place = place.map_or_else(String::new, |place| format!(", in {place}"));
            Some(format!(
                "{member} is in uninterruptible sleep (D){place}: a device, a disk or a file server does not answer it."
            ))
        }
        "T" | "t" => Some(format!(
            "{member} was stopped, by a signal or a debugger, and does not go on by itself."
        )),
        _ => None,
    }
}

/// Whether all tasks have been silent for long, and what their devices did meanwhile.
pub(super) fn silence(tasks: &[TaskStacks]) -> Option<String> {
    let silent: Option<Vec<u64>> = tasks.iter().map(|task| task.taken.silent_s).collect();
    let least = silent?
        .into_iter()
        .min()
        .filter(|least| *least >= SILENT_S)?;
    let minutes = least / 60;
    let busy: Vec<u64> = tasks
        .iter()
        .filter_map(|task| task.taken.devices_busy)
        .map(u64::from)
        .collect();
    let mean = busy.iter().sum::<u64>().checked_div(busy.len() as u64);
    let devices = match mean {
        None => String::new(),
        Some(mean) if mean <= u64::from(IDLE_PERCENT) => ", and its devices are idle".to_owned(),
        Some(mean) => format!(
            ", while its devices are busy {mean} % of the time, as they are in a collective call that waits for others"
        ),
    };
    Some(format!(
        "The job has written nothing for {minutes} min{devices}."
    ))
}

pub(super) fn problem(task: &TaskStacks) -> Option<String> {
    let why = task.taken.problem.as_ref()?;
    Some(format!("Of {} on {}: {why}.", task.task, task.node))
}

pub(super) fn unheard(node: &UnheardNode) -> String {
    format!("Node {} says nothing: {}.", node.node, node.why)
}

pub(super) fn left_out(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("One more task does not run now.".to_owned()),
        more => Some(format!("{more} more tasks do not run now.")),
    }
}
