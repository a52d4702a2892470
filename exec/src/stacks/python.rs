//! The stacks of a Python program, by the library of py-spy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use muster_model::stacks::{FRAMES_MAX, ProcessStack, StackFrame, THREADS_MAX, ThreadStack};
use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy, StackTrace};

use super::cut;
use super::proc_file::{ProcFiles, count};

/// How often a program is read that changes meanwhile, and the pause in between.
const TRIES: usize = 3;
const TRY_PAUSE: Duration = Duration::from_millis(20);
/// What Python calls its first thread.
const MAIN_THREAD: &str = "MainThread";

/// The stacks of a process.
#[derive(Debug)]
pub(super) struct PythonStacks {
    version: String,
    threads: Vec<StackTrace>,
}

/// Whether a process runs Python: by its program, or by the library of a program that has Python in it.
pub(super) fn is_python(files: &ProcFiles) -> bool {
    let has_name = |exe: &Path| {
        let name = exe.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("python") || name.starts_with("pypy")
    };
    files.exe().is_some_and(|exe| has_name(&exe))
        || files.maps().is_some_and(|maps| maps.contains("/libpython"))
}

/// Reads the stacks of a process.
///
/// # Errors
/// Why they cannot be read, in one line.
pub(super) fn read(pid: u32) -> Result<PythonStacks, String> {
    let pid = py_spy::Pid::try_from(pid).map_err(|error| error.to_string())?;
    let read = catch_unwind(AssertUnwindSafe(|| tries(pid)));
    match read {
        Ok(Ok(stacks)) => Ok(stacks),
        Ok(Err(error)) => Err(one_line(&error)),
        Err(_) => Err("py-spy met with what it does not expect, and gave up".to_owned()),
    }
}

fn tries(pid: py_spy::Pid) -> Result<PythonStacks, String> {
    let mut problem = String::new();
    for _ in 0..TRIES {
        match once(pid) {
            Ok(stacks) => return Ok(stacks),
            Err(error) => problem = error,
        }
        sleep(TRY_PAUSE);
    }
    Err(problem)
}

fn once(pid: py_spy::Pid) -> Result<PythonStacks, String> {
    let config = Config {
        blocking: LockingStrategy::NonBlocking,
        // Else it looks at the files of the program, which may lie on a server that does not answer.
        full_filenames: true,
        ..Config::default()
    };
    let text = |error| format!("{error:#}");
    let mut spy = PythonSpy::new(pid, &config).map_err(text)?;
    let threads = spy.get_stack_traces().map_err(text)?;
    let version = spy.version.to_string();
    Ok(PythonStacks { version, threads })
}

fn one_line(text: &str) -> String {
    cut(text.lines().next().unwrap_or("no reason is given"))
}

impl PythonStacks {
    /// Adds the Python stacks to the process, which has its threads from `/proc`. The order is then: the main thread,
    /// other threads of Python, all other threads.
    pub(super) fn add_to(self, process: &mut ProcessStack, files: &ProcFiles) {
        process.python = Some(self.version);
        let main_at = main_thread(&self.threads, process.pid);
        let known = process.threads.len();
        let mut native = std::mem::take(&mut process.threads).into_iter();
        let mut main = native.next().unwrap_or_default();
        let mut python = Vec::new();
        for (at, trace) in self.threads.into_iter().enumerate() {
            let frames = frames(&trace);
            if Some(at) == main_at {
                main.name = cut(&trace.thread_name.unwrap_or_else(|| MAIN_THREAD.to_owned()));
                main.frames = frames;
                continue;
            }
            let tid = trace.os_thread_id.and_then(|id| u32::try_from(id).ok());
            // None before Python 3.11.
            let thread = tid.and_then(|tid| files.thread_of(tid));
            let mut thread = thread.unwrap_or_else(|| ThreadStack {
                state: "?".to_owned(),
                ..ThreadStack::default()
            });
            if let Some(name) = trace.thread_name {
                thread.name = cut(&name);
            }
            python.push(ThreadStack { frames, ..thread });
        }
        let is_told =
            |thread: &ThreadStack| python.iter().any(|it| it.tid == thread.tid && it.tid != 0);
        let native: Vec<_> = native.filter(|thread| !is_told(thread)).collect();
        let mut threads = vec![main];
        threads.append(&mut python);
        threads.extend(native);
        let all = process.threads_left_out as usize + known;
        threads.truncate(THREADS_MAX);
        process.threads_left_out = count(all.saturating_sub(threads.len()));
        process.threads = threads;
    }
}

/// Which thread is the main one: it has the number of the process, or its name; else it is the oldest, which Python
/// lists last.
fn main_thread(threads: &[StackTrace], pid: u32) -> Option<usize> {
    let is_main = |trace: &StackTrace| trace.os_thread_id == Some(u64::from(pid));
    let is_called = |trace: &StackTrace| trace.thread_name.as_deref() == Some(MAIN_THREAD);
    let by_number = threads.iter().position(is_main);
    let by_name = || threads.iter().position(is_called);
    by_number
        .or_else(by_name)
        .or_else(|| threads.len().checked_sub(1))
}

fn frames(trace: &StackTrace) -> Vec<StackFrame> {
    let frames = trace.frames.iter().take(FRAMES_MAX);
    let told = frames.map(|frame| StackFrame {
        function: cut(&frame.name),
        file: cut(in_package(&frame.filename)),
        line: u32::try_from(frame.line).unwrap_or_default(),
    });
    told.collect()
}

/// The path of a file within the packages, or within Python's own library: `torch/nn/modules/module.py`.
pub(super) fn in_package(path: &str) -> &str {
    for packages in ["/site-packages/", "/dist-packages/"] {
        if let Some((_, rest)) = path.rsplit_once(packages) {
            return rest;
        }
    }
    let Some((_, below)) = path.rsplit_once("/lib/python") else {
        return path;
    };
    match below.split_once('/') {
        Some((version, rest)) if version.starts_with(|c: char| c.is_ascii_digit()) => rest,
        _ => path,
    }
}
