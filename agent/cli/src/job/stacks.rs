//! `muster job stacks`.

use std::fmt::Write as _;

use clap::Args;
use muster_model::id::RoleName;
use muster_model::stacks::{
    JobStacks, ProcessStack, StackGroup, StackMember, StacksFilter, TaskStacks, ThreadStack,
};

use crate::console::{Console, Paint, printable};
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::JobArgument;
use crate::moment::span;
use crate::output::OutputOption;
use crate::page::Page;
use crate::status::CliStatus;
use crate::table::TextTable;

/// Members of a group that are named.
const MEMBERS_MAX: usize = 16;

pub(super) const EXAMPLES: &str = "\
Stacks of Python programs are read by py-spy, of others the kernel tells in which call they wait. Nothing is
stopped by that. Only the job's owner and admins may look.

Examples:
  muster job stacks train
  muster job stacks ada~train --role worker --task 3 --all-threads
  muster job stacks train -o json | jq -r '.groups[] | select(.is_odd) | .members[].task'";

#[derive(Debug, Args)]
pub struct StacksArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Only tasks of this role.
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleName>,
    /// Only tasks with this index.
    #[arg(long, value_name = "N")]
    task: Option<u32>,
    /// Show every process with all its threads.
    #[arg(long)]
    all_threads: bool,
    #[command(flatten)]
    output: OutputOption,
}

impl StacksArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (api, key) = self.job.resolve(connection)?;
        let filter = StacksFilter {
            role: self.role,
            index: self.task,
            all_threads: self.all_threads,
        };
        let stacks = api.stacks(&key, &filter).await?;
        self.output.write(console, &stacks, |stacks, paint| {
            page(stacks, filter.all_threads, paint)
        })?;
        Ok(CliStatus::Ok)
    }
}

/// The stacks as text.
fn page(stacks: &JobStacks, all_threads: bool, paint: Paint) -> String {
    let (first, others) = match stacks.summary.split_first() {
        Some((first, others)) => (first.as_str(), others),
        None => ("", &[][..]),
    };
    let mut page = Page::titled(paint, first);
    page.lines(&others.join("\n"));
    for group in &stacks.groups {
        page.section(&title(group), &group.stack.join("\n"));
    }
    page.section("Tasks", &tasks(&stacks.tasks, paint));
    if all_threads {
        for task in &stacks.tasks {
            for process in &task.taken.processes {
                let title = format!("{} on {}: {}", task.task, task.node, heading(process));
                page.section(&title, &threads(process));
            }
        }
    }
    page.into_text()
}

fn title(group: &StackGroup) -> String {
    let mut names: Vec<_> = group.members.iter().take(MEMBERS_MAX).map(name).collect();
    if let Some(more @ 1..) = group.members.len().checked_sub(MEMBERS_MAX) {
        names.push(format!("{more} more"));
    }
    let odd = if group.is_odd {
        "  (elsewhere than most)"
    } else {
        ""
    };
    format!("{}{odd}", names.join(", "))
}

fn name(member: &StackMember) -> String {
    match (member.is_one_of_many, member.rank) {
        (false, _) => member.task.to_string(),
        (true, Some(rank)) => format!("{} (rank {rank})", member.task),
        (true, None) => format!("{} (process {})", member.task, member.pid),
    }
}

fn tasks(tasks: &[TaskStacks], paint: Paint) -> String {
    let mut table = TextTable::new([
        "TASK",
        "NODE",
        "SILENT FOR",
        "DEVICES BUSY",
        "PROCESSES",
        "",
    ]);
    for TaskStacks { task, node, taken } in tasks {
        let silent = taken
            .silent_s
            .map(|seconds| span(seconds.saturating_mul(1000)));
        let busy = taken.devices_busy.map(|percent| format!("{percent} %"));
        table.row([
            task.to_string().into(),
            node.as_str().into(),
            silent.unwrap_or_default().into(),
            busy.unwrap_or_default().into(),
            taken.processes.len().to_string().into(),
            taken.problem.clone().unwrap_or_default().into(),
        ]);
    }
    table.render(paint, 0)
}

fn heading(process: &ProcessStack) -> String {
    let name = printable(&process.name);
    let mut text = format!("process {} {name}", process.pid);
    if let Some(rank) = process.rank {
        let _ = write!(text, ", rank {rank}");
    }
    if let Some(version) = &process.python {
        let _ = write!(text, ", Python {version}");
    }
    text
}

fn threads(process: &ProcessStack) -> String {
    let mut text = format!("{}\n", process.command);
    if let Some(problem) = &process.problem {
        let _ = writeln!(text, "its Python stack could not be read: {problem}");
    }
    for thread in &process.threads {
        let _ = writeln!(text, "{} {}  {}", thread.tid, thread.name, doing(thread));
        for frame in &thread.frames {
            let _ = writeln!(
                text,
                "    {} ({}:{})",
                frame.function, frame.file, frame.line
            );
        }
        for function in &thread.kernel {
            let _ = writeln!(text, "    kernel: {function}");
        }
    }
    if process.threads_left_out > 0 {
        let _ = writeln!(text, "and {} more threads", process.threads_left_out);
    }
    text.trim_end().to_owned()
}

/// `S futex (futex_wait)`
fn doing(thread: &ThreadStack) -> String {
    let mut text = thread.state.clone();
    if let Some(call) = &thread.syscall {
        let _ = write!(text, " {call}");
    }
    if let Some(wchan) = &thread.wchan {
        let _ = write!(text, " ({wchan})");
    }
    text
}

#[cfg(test)]
mod tests {
    use muster_model::stacks::{StackFrame, TakenStacks};

    use super::*;

    fn task(index: u32, function: &str) -> TaskStacks {
        let main = ThreadStack {
            tid: 9,
            name: "MainThread".to_owned(),
            state: "S".to_owned(),
            syscall: Some("futex".to_owned()),
            wchan: Some("futex_wait".to_owned()),
            kernel: vec!["futex_wait".to_owned()],
            frames: vec![StackFrame {
                function: function.to_owned(),
                file: "/code/train.py".to_owned(),
                line: 8,
            }],
        };
        let process = ProcessStack {
            pid: 9,
            host_pid: 4711,
            name: "python3".to_owned(),
            command: "python3 train.py".to_owned(),
            rank: Some(index),
            is_python: true,
            python: Some("3.11.7".to_owned()),
            threads: vec![main],
            threads_left_out: 3,
            ..ProcessStack::default()
        };
        TaskStacks {
            task: format!("worker {index}")
                .split_once(' ')
                .map(|(role, index)| muster_model::id::TaskId {
                    role: role.parse().unwrap(),
                    index: index.parse().unwrap(),
                })
                .unwrap(),
            node: "n1".parse().unwrap(),
            taken: TakenStacks {
                silent_s: Some(1500),
                devices_busy: Some(0),
                processes: vec![process],
                ..TakenStacks::default()
            },
        }
    }

    #[test]
    fn the_odd_one_is_marked_and_threads_are_shown_when_asked_for() {
        let tasks = vec![
            task(0, "all_reduce"),
            task(1, "all_reduce"),
            task(2, "load"),
        ];
        let key = "ada~train".parse().unwrap();
        let stacks = JobStacks::of((key, 0), tasks, Vec::new(), 0);
        let plain = Paint { colour: false };
        let text = page(&stacks, false, plain);
        let first =
            "2 of 3 tasks wait in all_reduce (train.py); worker:2 waits in load (train.py:8).";
        assert!(text.starts_with(first), "{text}");
        for part in [
            "The job has written nothing for 25 min, and its devices are idle.",
            "worker:2  (elsewhere than most)",
            "load (/code/train.py:8)",
            "25m",
            "0 %",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("kernel:"), "{text}");
        let text = page(&stacks, true, plain);
        for part in [
            "worker:0 on n1: process 9 python3, rank 0, Python 3.11.7",
            "9 MainThread  S futex (futex_wait)",
            "kernel: futex_wait",
            "and 3 more threads",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
