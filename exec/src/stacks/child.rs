//! The program that reads, under limits on its memory and its time.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use muster_model::stacks::ProcessStack;
use nix::sys::resource::{Resource, setrlimit};

use super::proc_file::ProcFiles;
use super::{ReadLine, StackReading, python};

/// Processes that are read at a time. One that cannot be read keeps its thread.
const AT_ONCE: usize = 8;
/// The memory of this program, with the files that it maps, in bytes. py-spy maps Python itself.
const MEMORY_MAX: u64 = 2 << 30;
/// The kernel takes this program first where memory is short.
const OOM_SCORE: &str = "1000";

/// What a process says of itself; once at first, and once more when its memory was read.
type Lines = Sender<ReadLine>;

/// Reads processes, and writes a line of JSON for each, and a second one where there is more to say. Returns when all
/// is said, or the time is up; threads may be left that read still.
///
/// # Errors
/// When the lines cannot be written.
pub fn read_all(reading: &StackReading, out: &mut dyn Write) -> io::Result<()> {
    bound_self(reading);
    read_below(Path::new("/proc"), reading, out)
}

/// What fails here leaves a program that is bound by who started it alone.
fn bound_self(reading: &StackReading) {
    let seconds = reading.limit.as_secs() + 1;
    let _ = setrlimit(Resource::RLIMIT_AS, MEMORY_MAX, MEMORY_MAX);
    let _ = setrlimit(
        Resource::RLIMIT_CPU,
        seconds * AT_ONCE as u64,
        seconds * AT_ONCE as u64,
    );
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

pub(super) fn read_below(
    proc: &Path,
    reading: &StackReading,
    out: &mut dyn Write,
) -> io::Result<()> {
    let until = Instant::now() + reading.limit;
    let (lines, said) = mpsc::channel();
    let mut queue = VecDeque::new();
    // First what needs no look into any memory, of all: this is the moment that is told.
    for pid in &reading.pids {
        let files = ProcFiles::new(proc, *pid);
        if let Some(process) = files.process(*pid, reading.all_threads) {
            let first = ReadLine {
                is_done: false,
                process,
            };
            write(out, &first)?;
            queue.push_back((files, first.process));
        }
    }
    let workers = queue.len().min(AT_ONCE);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..workers {
        let (queue, lines) = (Arc::clone(&queue), lines.clone());
        thread::Builder::new().spawn(move || work(&queue, &lines))?;
    }
    drop(lines);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match said.recv_timeout(left) {
            Ok(line) => write(out, &line)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn write(out: &mut dyn Write, line: &ReadLine) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn work(queue: &Mutex<VecDeque<(ProcFiles, ProcessStack)>>, lines: &Lines) {
    let next = || {
        queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    };
    while let Some((files, mut process)) = next() {
        look_inside(&files, &mut process);
        let line = ReadLine {
            is_done: true,
            process,
        };
        // Nobody listens any more when the time is up.
        if lines.send(line).is_err() {
            return;
        }
    }
}

fn look_inside(files: &ProcFiles, process: &mut ProcessStack) {
    files.describe(process);
    process.is_python = python::is_python(files);
    if !process.is_python {
        return;
    }
    match python::read(process.host_pid) {
        Ok(stacks) => stacks.add_to(process, files),
        Err(why) => process.problem = Some(why),
    }
}
