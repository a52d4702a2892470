//! Places in a Python program: those where every program waits, and those where one only looks after others.

use super::StackFrame;

/// A file, and functions in it; none named: all of them.
type KnownPlace = (&'static str, &'static [&'static str]);

/// Where Python waits whatever a program does. What called these tells more.
const WAITS: &[KnownPlace] = &[
    (
        "threading.py",
        &[
            "wait",
            "wait_for",
            "join",
            "acquire",
            "__enter__",
            "_wait_for_tstate_lock",
            "_shutdown",
        ],
    ),
    ("queue.py", &["get", "put", "join"]),
    ("selectors.py", &["select"]),
    ("socket.py", &["accept", "readinto"]),
    ("ssl.py", &["read", "recv_into", "recv"]),
    ("socketserver.py", &["serve_forever"]),
    (
        "subprocess.py",
        &["wait", "_wait", "_try_wait", "communicate", "_communicate"],
    ),
    ("asyncio/base_events.py", &[]),
    ("asyncio/runners.py", &[]),
    ("concurrent/futures/_base.py", &["result", "wait"]),
    ("concurrent/futures/thread.py", &["_worker"]),
    ("multiprocessing/connection.py", &[]),
    ("multiprocessing/popen_fork.py", &["poll", "wait"]),
    ("multiprocessing/process.py", &["join"]),
    ("multiprocessing/queues.py", &["get", "_feed"]),
    ("multiprocessing/synchronize.py", &[]),
];

/// Where a main thread waits for another thread that does the work.
const HANDS_OVER: &[KnownPlace] = &[
    (
        "threading.py",
        &["join", "_wait_for_tstate_lock", "_shutdown"],
    ),
    ("concurrent/futures/_base.py", &["result", "wait"]),
];

/// Where a process looks after others that do the work.
const LAUNCHES: &[KnownPlace] = &[
    ("torch/distributed/run.py", &[]),
    ("torch/distributed/launcher/api.py", &[]),
    ("torch/distributed/elastic/agent/server/api.py", &[]),
    (
        "torch/multiprocessing/spawn.py",
        &["join", "start_processes"],
    ),
    ("accelerate/commands/launch.py", &[]),
    ("deepspeed/launcher/launch.py", &[]),
    ("deepspeed/launcher/runner.py", &[]),
    ("horovod/runner/launch.py", &[]),
    (
        "subprocess.py",
        &["wait", "_wait", "_try_wait", "communicate", "_communicate"],
    ),
    ("multiprocessing/popen_fork.py", &["poll", "wait"]),
    ("multiprocessing/process.py", &["join"]),
];

/// Where a process serves another one of the same task.
const HELPS: &[KnownPlace] = &[
    ("torch/utils/data/_utils/worker.py", &["_worker_loop"]),
    ("multiprocessing/resource_tracker.py", &[]),
    ("multiprocessing/forkserver.py", &["main"]),
    ("multiprocessing/managers.py", &["serve_forever"]),
    ("multiprocessing/pool.py", &["worker"]),
    ("concurrent/futures/process.py", &["_process_worker"]),
    ("torch/_inductor/compile_worker/", &[]),
];

fn is_at(frame: &StackFrame, known: &[KnownPlace]) -> bool {
    let function = last_word(&frame.function);
    known.iter().any(|(file, functions)| {
        let is_there = is_file(&frame.file, file);
        is_there && (functions.is_empty() || functions.contains(&function))
    })
}

/// Whether a path ends with that of a known file, or goes through a known directory.
fn is_file(path: &str, known: &str) -> bool {
    if known.ends_with('/') {
        return path.starts_with(known) || path.contains(&format!("/{known}"));
    }
    let before = path.strip_suffix(known);
    before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// `wait` of `Condition.wait`: from Python 3.11 on functions are told with their class.
fn last_word(function: &str) -> &str {
    function.rsplit('.').next().unwrap_or(function)
}

/// Whether a thread only waits in one of the known places.
pub(super) fn is_idle(frames: &[StackFrame]) -> bool {
    frames.first().is_some_and(|frame| is_at(frame, WAITS))
}

/// Whether a main thread waits for another thread.
pub(super) fn hands_over(frames: &[StackFrame]) -> bool {
    frames.first().is_some_and(|frame| is_at(frame, HANDS_OVER))
}

/// Whether a process with such a main stack only starts others and waits for them.
pub(super) fn is_launcher(frames: &[StackFrame]) -> bool {
    frames.iter().any(|frame| is_at(frame, LAUNCHES))
}

/// Whether a process with such a main stack serves another one of its task.
pub(super) fn is_helper(frames: &[StackFrame]) -> bool {
    frames.iter().any(|frame| is_at(frame, HELPS))
}

/// The frame that says best where a thread is: the innermost that is not a place where every program waits.
pub(super) fn telling(frames: &[StackFrame]) -> Option<&StackFrame> {
    let told = frames.iter().find(|frame| !is_at(frame, WAITS));
    told.or_else(|| frames.first())
}

/// A file as a sentence names it: of packages the path in them, of others the name alone.
pub(super) fn shown(file: &str) -> &str {
    match file.starts_with('/') {
        true => file.rsplit('/').next().unwrap_or(file),
        false => file,
    }
}
