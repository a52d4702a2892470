//! `muster job logs`.

use std::collections::BTreeMap;

use clap::Args;
use muster_model::id::{JobKey, RoleName};
use muster_model::view::{Dated, JobDetail};
use tokio::sync::mpsc::{self, Receiver};

use super::written;
use crate::age;
use crate::api::{Api, LogSelection, LogSource, LogStart};
use crate::console::Console;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::follow::{EVENTS_MAX, FollowEvent, JobFollower, Selection, sources, tell_missing};
use crate::job_ref::JobArgument;
use crate::progress::ProgressLine;
use crate::status::CliStatus;

/// A longer line is shown in parts.
const LINE_BYTES_MAX: usize = 64 << 10;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job logs train
  muster job logs train -f
  muster job logs ada~train --role worker --index 3 --name stderr --tail 4096
  muster job logs train --attempt 0 --name runtime.log

Where a job has more than one task, each line begins with `role:index | `.";

#[derive(Debug, Args)]
pub struct LogsArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Go on with what is written until the job has ended, through its retries too.
    #[arg(short, long)]
    follow: bool,
    /// Only tasks of this role.
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleName>,
    /// Only tasks with this index.
    #[arg(long, value_name = "I")]
    index: Option<u32>,
    /// The job's attempt, counted from 0 [default: the latest].
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// The task's attempt within that, counted from 0 [default: the latest; with -f, all].
    #[arg(long, value_name = "N")]
    task_attempt: Option<u32>,
    /// Which log: all (both streams as they were written), stdout, stderr or runtime.log. Each is
    /// kept in two files; with .1 behind the name only the older one is read.
    #[arg(long, value_name = "NAME", default_value = "all")]
    name: String,
    /// Begin so many bytes before the end.
    #[arg(long, value_name = "BYTES")]
    tail: Option<u64>,
}

impl LogsArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (api, key) = self.job.resolve(connection)?;
        let selection = Selection {
            role: self.role,
            index: self.index,
            attempt: self.attempt,
            task_attempt: self.task_attempt,
        };
        let start = self.tail.map_or(LogStart::Beginning, LogStart::Tail);
        if self.follow {
            let (events, received) = mpsc::channel(EVENTS_MAX);
            let follower =
                JobFollower::new(&api, &key, &[&self.name], events).only(selection, start);
            tokio::try_join!(follower.run(), print(&api, &key, received, console))?;
            return Ok(CliStatus::Ok);
        }
        let Dated { value: detail, age } = api.job(&key, selection.attempt).await?;
        age::tell(&age, console);
        let names = [self.name];
        let logs = match written::newest(&api, &detail, &selection, &names).await? {
            Some(written) => {
                written
                    .remark
                    .iter()
                    .for_each(|remark| console.note(remark));
                written.logs
            }
            None => latest(sources(&detail, &selection, &names), &selection),
        };
        if logs.is_empty() {
            return Err(nothing_to_read(&detail, &selection));
        }
        let part = LogSelection {
            start,
            follow: false,
        };
        print_each(&api, &key, &logs, part, console).await
    }
}

/// Of each task only its latest attempt, unless one was asked for.
fn latest(logs: Vec<LogSource>, selection: &Selection) -> Vec<LogSource> {
    if selection.task_attempt.is_some() {
        return logs;
    }
    let mut latest: Vec<LogSource> = Vec::new();
    for log in logs {
        match latest.last_mut() {
            Some(last) if last.task == log.task => *last = log,
            _ => latest.push(log),
        }
    }
    latest
}

fn nothing_to_read(detail: &JobDetail, selection: &Selection) -> CliError {
    let key = &detail.summary.key;
    if detail.tasks().next().is_none() && detail.summary.retries.total > 0 {
        return CliError::Usage(format!(
            "no attempt of {key} that is kept has written anything; `muster job show` tells how they ended"
        ));
    }
    if detail.tasks().next().is_none() {
        return CliError::Usage(format!(
            "{key} has not started any task yet; use -f to wait for it"
        ));
    }
    if detail.tasks().any(|task| selection.takes(&task.id)) {
        return CliError::Usage(format!("{key} has not started this attempt of the task"));
    }
    let roles: Vec<String> = detail
        .roles
        .iter()
        .map(|role| match role.tasks.len() {
            0 | 1 => format!("{}:0", role.name),
            n => format!("{}:0 to {}", role.name, n - 1),
        })
        .collect();
    CliError::Usage(format!(
        "{key} has no such task; it has {}",
        roles.join(", ")
    ))
}

async fn print_each(
    api: &Api,
    key: &JobKey,
    logs: &[LogSource],
    part: LogSelection,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let mut prefixer = Prefixer::new(logs.len() > 1);
    for source in logs {
        let mut log = match api.log(key, source, part).await {
            Ok(log) => log,
            Err(error) if error.is_not_found() && logs.len() > 1 => {
                console.note(format!("{} has no log {}", source.task, source.name));
                continue;
            }
            Err(error) => return Err(error),
        };
        let missing = log.missing(part.start);
        if missing > 0 {
            tell_missing(source, missing, console);
        }
        while let Some(bytes) = log.next().await? {
            console.out(prefixer.push(source, &bytes))?;
        }
        console.out(prefixer.finish())?;
    }
    Ok(CliStatus::Ok)
}

async fn print(
    api: &Api,
    key: &JobKey,
    mut received: Receiver<FollowEvent>,
    console: &Console,
) -> Result<(), CliError> {
    let mut progress = ProgressLine::new(api, key);
    let mut prefixer = Prefixer::new(false);
    while let Some(event) = received.recv().await {
        match event {
            FollowEvent::Job(summary) => {
                prefixer.on |= summary.tasks > 1;
                progress.tell(&summary);
            }
            FollowEvent::Missing(source, bytes) => {
                progress.suspend(|| tell_missing(&source, bytes, console));
            }
            FollowEvent::Chunk(source, bytes) => {
                progress.clear();
                console.out(prefixer.push(&source, &bytes))?;
            }
        }
    }
    console.out(prefixer.finish())
}

/// Puts `role:index | ` before each line, so that lines of several tasks can be told apart. A
/// line is held back until it is whole.
#[derive(Debug)]
struct Prefixer {
    on: bool,
    held: BTreeMap<LogSource, Vec<u8>>,
}

impl Prefixer {
    const fn new(on: bool) -> Self {
        Self {
            on,
            held: BTreeMap::new(),
        }
    }

    /// What can be printed once `bytes` have come.
    fn push(&mut self, source: &LogSource, bytes: &[u8]) -> Vec<u8> {
        if !self.on {
            return bytes.to_vec();
        }
        let held = self.held.entry(source.clone()).or_default();
        let mut printed = Vec::new();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            held.extend_from_slice(part);
            if part.ends_with(b"\n") || held.len() >= LINE_BYTES_MAX {
                emit(source, held, &mut printed);
            }
        }
        printed
    }

    /// The lines that were never ended.
    fn finish(&mut self) -> Vec<u8> {
        let mut printed = Vec::new();
        for (source, mut held) in std::mem::take(&mut self.held) {
            if !held.is_empty() {
                emit(&source, &mut held, &mut printed);
            }
        }
        printed
    }
}

fn emit(source: &LogSource, line: &mut Vec<u8>, printed: &mut Vec<u8>) {
    printed.extend_from_slice(format!("{} | ", source.task).as_bytes());
    printed.append(line);
    if !printed.ends_with(b"\n") {
        printed.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_tasks_are_never_mixed() {
        let source = |index| LogSource {
            task: muster_model::id::TaskId {
                role: "w".parse().unwrap(),
                index,
            },
            attempt: 0,
            task_attempt: 0,
            name: "all".into(),
        };
        let mut prefixer = Prefixer::new(true);
        let mut printed = Vec::new();
        for (index, text) in [
            (0, "one\ntw"),
            (1, "uno\n"),
            (0, "o\n\nthr"),
            (1, "do"),
            (0, "ee"),
        ] {
            printed.extend(prefixer.push(&source(index), text.as_bytes()));
        }
        printed.extend(prefixer.finish());
        assert_eq!(
            String::from_utf8(printed).unwrap(),
            "w:0 | one\nw:1 | uno\nw:0 | two\nw:0 | \nw:0 | three\nw:1 | do\n"
        );
        let long = vec![b'x'; LINE_BYTES_MAX];
        assert!(
            prefixer.push(&source(0), &long).ends_with(b"x\n"),
            "a line has a bound"
        );
    }
}
