//! Has processes read by a program of its own, and takes what it says until its time is up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use muster_model::stacks::{PROCESSES_MAX, ProcessStack};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::proc_file::count;
use super::{ReadLine, StackReading};

/// What the program may take beyond its own limit, before it is killed.
const LATE: Duration = Duration::from_millis(500);
/// How long its end is waited for. One that the kernel does not end is left to the kernel.
const END: Duration = Duration::from_millis(200);

/// Has processes read.
#[derive(Clone, Debug)]
pub struct StackReader {
    program: PathBuf,
    command: Vec<OsString>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadStacks {
    /// Processes, by their numbers. Those that have ended are left out.
    pub processes: Vec<ProcessStack>,
    /// Processes for which there was no room.
    pub left_out: u32,
    /// Why nothing was read, if so.
    pub problem: Option<String>,
}

/// How the program ended.
#[derive(Clone, Copy, Debug)]
enum ReaderEnd {
    /// By itself.
    Done,
    /// Its time was up.
    Late,
    /// It had said all that there is room for.
    Full,
    /// A signal ended it.
    Killed(i32),
}

impl StackReader {
    /// One that has this program read, by this command of it, which is to call [`super::read_all`].
    pub fn new(program: PathBuf, command: &[&str]) -> Self {
        Self {
            program,
            command: command.iter().map(OsString::from).collect(),
        }
    }

    /// Reads processes. What is told of them is at most `bytes_max` of JSON.
    pub async fn read(&self, mut reading: StackReading, bytes_max: u64) -> ReadStacks {
        reading.pids.sort_unstable();
        let left_out = count(reading.pids.len().saturating_sub(PROCESSES_MAX));
        reading.pids.truncate(PROCESSES_MAX);
        if reading.pids.is_empty() {
            return ReadStacks::default();
        }
        let mut child = match self.start(&reading) {
            Ok(child) => child,
            Err(error) => {
                return ReadStacks {
                    problem: Some(format!("cannot start {}: {error}", self.program.display())),
                    ..ReadStacks::default()
                };
            }
        };
        let mut said = Vec::new();
        let is_whole = timeout(
            reading.limit + LATE,
            listen(&mut child, &mut said, bytes_max),
        )
        .await;
        let end = match is_whole {
            Err(_) => ReaderEnd::Late,
            Ok(false) => ReaderEnd::Full,
            Ok(true) => ReaderEnd::Done,
        };
        let end = ended(child, end).await;
        let read = gathered(&said, reading.limit, end);
        ReadStacks {
            left_out: left_out + read.left_out,
            ..read
        }
    }

    fn start(&self, reading: &StackReading) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.command);
        if reading.all_threads {
            command.arg("--all-threads");
        }
        command
            .arg("--limit-ms")
            .arg(reading.limit.as_millis().to_string())
            .args(reading.pids.iter().map(ToString::to_string))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }
}

/// Takes what the program says. Whether that is all of it.
async fn listen(child: &mut Child, said: &mut Vec<u8>, bytes_max: u64) -> bool {
    let Some(stdout) = child.stdout.take() else {
        return true;
    };
    // After an error the bytes that were read before it count.
    let _ = stdout.take(bytes_max).read_to_end(said).await;
    (said.len() as u64) < bytes_max
}

/// Has the program end, and says how it did.
async fn ended(mut child: Child, end: ReaderEnd) -> ReaderEnd {
    if !matches!(end, ReaderEnd::Done) {
        // It may have ended meanwhile.
        let _ = child.start_kill();
    }
    let status = timeout(END, child.wait()).await;
    let signal = status
        .ok()
        .and_then(Result::ok)
        .and_then(|it: ExitStatus| it.signal());
    match (end, signal) {
        (ReaderEnd::Done, Some(signal)) => ReaderEnd::Killed(signal),
        _ => end,
    }
}

/// What the program said of each process last.
fn gathered(said: &[u8], limit: Duration, end: ReaderEnd) -> ReadStacks {
    let mut read: BTreeMap<u32, ReadLine> = BTreeMap::new();
    // The last line may be cut off.
    let whole = said
        .rsplitn(2, |byte| *byte == b'\n')
        .nth(1)
        .unwrap_or_default();
    for line in whole.split(|byte| *byte == b'\n') {
        if let Ok(line) = serde_json::from_slice::<ReadLine>(line) {
            read.insert(line.process.host_pid, line);
        }
    }
    let why = match end {
        ReaderEnd::Done | ReaderEnd::Late => {
            format!("it could not be read within {} s", limit.as_secs())
        }
        ReaderEnd::Full => "there is no room for more".to_owned(),
        ReaderEnd::Killed(signal) => format!("what reads it was ended by signal {signal}"),
    };
    let processes = read.into_values().map(|ReadLine { is_done, process }| {
        let problem = (!is_done).then(|| why.clone());
        ProcessStack {
            problem: process.problem.or(problem),
            ..process
        }
    });
    ReadStacks {
        processes: processes.collect(),
        ..ReadStacks::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(host_pid: u32, is_done: bool) -> String {
        let process = ProcessStack {
            host_pid,
            ..ProcessStack::default()
        };
        let line = ReadLine { is_done, process };
        format!("{}\n", serde_json::to_string(&line).unwrap())
    }

    #[test]
    fn what_was_said_before_the_end_is_kept() {
        let whole = [line(7, false), line(8, false), line(8, true)].concat();
        let cut = format!("{whole}{}", &line(7, true)[..20]);
        let limit = Duration::from_secs(5);
        for (end, expect) in [
            (ReaderEnd::Late, "it could not be read within 5 s"),
            (ReaderEnd::Full, "there is no room for more"),
            (
                ReaderEnd::Killed(11),
                "what reads it was ended by signal 11",
            ),
        ] {
            let read = gathered(cut.as_bytes(), limit, end);
            let problems = read
                .processes
                .iter()
                .map(|it| (it.host_pid, it.problem.as_deref()));
            assert_eq!(problems.collect::<Vec<_>>(), [(7, Some(expect)), (8, None)]);
        }
    }

    fn reading(limit: Duration) -> StackReading {
        StackReading {
            pids: vec![std::process::id()],
            all_threads: false,
            limit,
        }
    }

    #[tokio::test]
    async fn a_program_that_hangs_or_talks_too_much_is_ended() {
        let limit = Duration::from_millis(100);
        let begun = std::time::Instant::now();
        let hangs = StackReader::new("/bin/sh".into(), &["-c", "echo '{}'; exec sleep 600"]);
        let read = hangs.read(reading(limit), 1 << 20).await;
        assert_eq!(read, ReadStacks::default());
        let talks = StackReader::new("/bin/sh".into(), &["-c", "exec yes"]);
        let read = talks.read(reading(Duration::from_secs(60)), 1 << 20).await;
        assert_eq!(read, ReadStacks::default());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_told() {
        let missing = StackReader::new("/no/such/program".into(), &[]);
        let read = missing.read(reading(Duration::from_secs(1)), 1 << 20).await;
        let problem = read.problem.unwrap();
        assert!(
            problem.contains("cannot start /no/such/program"),
            "{problem}"
        );
    }
}
