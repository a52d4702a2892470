//! Which processes of a task do its work, and which of their threads: these are compared.

use super::place::{hands_over, is_helper, is_idle, is_launcher, shown};
use super::{ProcessStack, StackFrame, TaskStacks, ThreadStack};

/// The first process of every container: muster-init.
const INIT_PID: u32 = 1;
/// System calls that wait for a child.
const CHILD_WAITS: &[&str] = &["wait4", "waitid", "waitpid"];
/// Programs that start others and look after them, however they wait.
const LAUNCHERS: &[&str] = &[
    "tini",
    "dumb-init",
    "timeout",
    "mpirun",
    "mpiexec",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "hydra_pmi_proxy",
    "srun",
    "slurmstepd",
    "supervisord",
];

/// The processes that do the work of a task: its ranks if it tells them; else those of Python that no other one of
/// Python has started; else the one that took the most CPU time.
pub(super) fn workers(task: &TaskStacks) -> Vec<&ProcessStack> {
    let all = &task.taken.processes;
    let able: Vec<_> = all
        .iter()
        .filter(|process| !is_ended(process) && !looks_after_others(process, all))
        .collect();
    let ranks: Vec<_> = able
        .iter()
        .copied()
        .filter(|it| is_rank(it, &able))
        .collect();
    if !ranks.is_empty() {
        return ranks;
    }
    let python: Vec<_> = able.iter().copied().filter(|it| it.is_python).collect();
    if !python.is_empty() {
        let tops = python.iter().copied();
        return tops.filter(|it| !has_ancestor(it, &python, all)).collect();
    }
    let busiest = able.iter().max_by_key(|it| (it.cpu_ms, it.host_pid));
    busiest.copied().into_iter().collect()
}

fn is_ended(process: &ProcessStack) -> bool {
    let main = process.threads.first();
    main.is_none_or(|main| matches!(main.state.as_str(), "Z" | "X"))
}

fn looks_after_others(process: &ProcessStack, all: &[ProcessStack]) -> bool {
    let main = process.threads.first();
    let frames = main.map_or(&[][..], |main| &main.frames);
    if is_helper(frames) {
        return true;
    }
    let has_child = all.iter().any(|other| other.parent == process.host_pid);
    let call = main.and_then(|main| main.syscall.as_deref());
    let waits = call.is_some_and(|call| CHILD_WAITS.contains(&call))
        || main.is_some_and(|main| main.wchan.as_deref() == Some("do_wait"));
    let is_named = LAUNCHERS.contains(&process.name.as_str());
    has_child && (process.pid == INIT_PID || waits || is_named || is_launcher(frames))
}

/// Whether it has a rank that it did not inherit from another process that does work.
fn is_rank(process: &ProcessStack, able: &[&ProcessStack]) -> bool {
    let Some(rank) = process.rank else {
        return false;
    };
    let parent = able.iter().find(|it| it.host_pid == process.parent);
    parent.is_none_or(|parent| parent.rank != Some(rank))
}

/// Whether one of these has started it, or has started who did. A process that was started later has a greater
/// number, mostly; the bound is for cycles of numbers that were read at different times.
fn has_ancestor(process: &ProcessStack, these: &[&ProcessStack], all: &[ProcessStack]) -> bool {
    let mut parent = process.parent;
    for _ in 0..all.len() {
        if these.iter().any(|it| it.host_pid == parent) {
            return true;
        }
        match all.iter().find(|it| it.host_pid == parent) {
            Some(above) => parent = above.parent,
            None => return false,
        }
    }
    false
}

/// The thread that does the work of a process: the main one, unless that waits for another one.
pub(super) fn working(process: &ProcessStack) -> Option<&ThreadStack> {
    let (main, others) = process.threads.split_first()?;
    if !hands_over(&main.frames) {
        return Some(main);
    }
    let busy = |thread: &&ThreadStack| !thread.frames.is_empty() && !is_idle(&thread.frames);
    others.iter().find(busy).or(Some(main))
}

/// What is compared of a frame: lines change while a program goes round in a loop, and programs may lie in
/// directories of their own.
pub(super) fn key(frame: &StackFrame) -> (&str, &str) {
    (&frame.function, shown(&frame.file))
}
