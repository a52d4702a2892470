//! `muster history`: jobs that have ended, and sums of them.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, ValueEnum};
use muster_model::id::{JobKey, UserName, VcName};
use muster_model::state::JobState;
use muster_model::view::JobSummary;
use serde::Serialize;

use super::api::{Api, Filter};
use super::console::{Console, Paint, printable, state_style};
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::incomplete;
use super::moment::{date, duration, now_ms, span};
use super::status::CliStatus;
use super::table::{TableCell, TextTable};

pub(super) const EXAMPLES: &str = "\
RAN is from the first start of the job's commands to its end, with the pauses between its attempts. GPU HOURS are
that time for all GPUs that the job asked for. A job counts in the period in which it ended. How long ended jobs are
kept is in the policy (`muster policy show`): what is kept no longer is missing here. EXIT is the code by the failure
rules; `muster job show` has that of the command itself.

Examples:
  muster history
  muster history --since 30d --by user
  muster history --user ada --vc vision --since 2d --until 1d
  muster history --since 30d -o csv > jobs.csv";

/// Forms of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistoryFormat {
    /// For people.
    Table,
    /// For programs; the fields are stable.
    Json,
    /// For spreadsheets; the same fields.
    Csv,
}

/// What sums are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistorySum {
    /// A line for each user.
    User,
    /// A line for each virtual cluster.
    Vc,
}

/// Arguments of `muster history`.
#[derive(Debug, Args)]
pub struct HistoryArguments {
    /// Only jobs of these users.
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    user: Vec<UserName>,
    /// Only jobs of these virtual clusters.
    #[arg(long, value_name = "VC", value_delimiter = ',')]
    vc: Vec<VcName>,
    /// Only jobs that ended within this time: 12h, 7d, 4w.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    since: Duration,
    /// Only jobs that ended at least this long ago: 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    until: Option<Duration>,
    /// Show sums.
    #[arg(long, value_name = "WHAT")]
    by: Option<HistorySum>,
    /// The form of the answer.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: HistoryFormat,
}

/// A job that has ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct EndedJob {
    user: UserName,
    name: String,
    vc: VcName,
    state: JobState,
    exit_code: Option<i32>,
    submitted_ms: u64,
    ended_ms: u64,
    ran_s: u64,
    gpus: u32,
    gpu_hours: f64,
}

/// Jobs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct HistoryTotal {
    name: String,
    jobs: u32,
    succeeded: u32,
    failed: u32,
    stopped: u32,
    ran_s: u64,
    gpu_hours: f64,
}

impl EndedJob {
    fn of(job: &JobSummary) -> Option<Self> {
        let ended_ms = job.completed?;
        // A job that was stopped before it started has run for no time.
        let start = job.launched.unwrap_or(ended_ms);
        let ran_s = ended_ms.saturating_sub(start) / 1000;
        let JobKey { user, name } = job.key.clone();
        let hours = Duration::from_secs(ran_s).as_secs_f64() / 3_600.0;
        Some(Self {
            user,
            name: name.to_string(),
            vc: job.vc.clone(),
            state: job.state(),
            exit_code: job.exit_code,
            submitted_ms: job.submitted,
            ended_ms,
            ran_s,
            gpus: job.gpus,
            gpu_hours: (hours * f64::from(job.gpus) * 1_000.0).round() / 1_000.0,
        })
    }
}

impl HistoryArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let now = now_ms();
        let ago =
            |time: Duration| now.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(now));
        let (from, to) = (ago(self.since), self.until.map_or(now, ago));
        if to <= from && self.until.is_some() {
            let why = "--until has to be shorter than --since: both count back from now";
            return Err(CliError::Usage(why.to_owned()));
        }
        let api = Api::new(connection, None)?;
        let filter = Filter {
            users: &self.user,
            states: &[JobState::Succeeded, JobState::Failed, JobState::Stopped],
            vcs: &self.vc,
        };
        let listing = api.jobs(filter).await?;
        incomplete::tell(&listing, console);
        let ended = listing
            .jobs
            .iter()
            .filter_map(|job| EndedJob::of(&job.summary));
        let mut jobs: Vec<EndedJob> = ended
            .filter(|job| (from..=to).contains(&job.ended_ms))
            .collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.ended_ms));
        match self.by {
            None => write(self.output, console, &jobs, |paint| table(&jobs, paint))?,
            Some(by) => {
                let sums = sums(&jobs, by);
                write(self.output, console, &sums, |paint| {
                    sum_table(&sums, by, paint)
                })?;
            }
        }
        Ok(CliStatus::Ok)
    }
}

fn write<T: Serialize>(
    format: HistoryFormat,
    console: &Console,
    rows: &[T],
    table: impl FnOnce(Paint) -> String,
) -> Result<(), CliError> {
    match format {
        HistoryFormat::Table => console.line(table(console.paint).trim_end()),
        HistoryFormat::Json => {
            let text = serde_json::to_string_pretty(rows).map_err(CliError::unwritable)?;
            console.line(text)
        }
        HistoryFormat::Csv => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            for row in rows {
                writer.serialize(row).map_err(CliError::unwritable)?;
            }
            let text = writer
                .into_inner()
                .map_err(|error| CliError::unwritable(error.to_string()))?;
            console.out(text)
        }
    }
}

fn table(jobs: &[EndedJob], paint: Paint) -> String {
    if jobs.is_empty() {
        return "no job has ended in that time".to_owned();
    }
    let mut table = TextTable::new([
        "JOB",
        "STATE",
        "VC",
        "ENDED",
        "RAN",
        "GPUS",
        "GPU HOURS",
        "EXIT",
    ]);
    for job in jobs {
        table.row([
            format!("{}~{}", job.user, job.name).into(),
            TableCell::styled(job.state, state_style(job.state)),
            (&job.vc).into(),
            date(job.ended_ms).into(),
            span(job.ran_s * 1000).into(),
            job.gpus.into(),
            hours(job.gpu_hours).into(),
            job.exit_code
                .map(|code| code.to_string())
                .unwrap_or_default()
                .into(),
        ]);
    }
    let all: f64 = jobs.iter().map(|job| job.gpu_hours).sum();
    let count = jobs.len();
    format!(
        "{}\n{count} jobs, {} GPU hours",
        table.render(paint, 0),
        hours(all)
    )
}

fn hours(hours: f64) -> String {
    format!("{hours:.2}")
}

/// The most GPU hours first.
fn sums(jobs: &[EndedJob], by: HistorySum) -> Vec<HistoryTotal> {
    let mut sums: BTreeMap<&str, HistoryTotal> = BTreeMap::new();
    for job in jobs {
        let name = match by {
            HistorySum::User => job.user.as_str(),
            HistorySum::Vc => job.vc.as_str(),
        };
        let sum = sums.entry(name).or_default();
        sum.jobs += 1;
        sum.succeeded += u32::from(job.state == JobState::Succeeded);
        sum.failed += u32::from(job.state == JobState::Failed);
        sum.stopped += u32::from(job.state == JobState::Stopped);
        sum.ran_s += job.ran_s;
        sum.gpu_hours += job.gpu_hours;
    }
    let sums = sums.into_iter().map(|(name, sum)| HistoryTotal {
        name: name.to_owned(),
        ..sum
    });
    let mut sums: Vec<HistoryTotal> = sums.collect();
    sums.sort_by(|a, b| b.gpu_hours.total_cmp(&a.gpu_hours));
    sums
}

fn sum_table(sums: &[HistoryTotal], by: HistorySum, paint: Paint) -> String {
    if sums.is_empty() {
        return "no job has ended in that time".to_owned();
    }
    let first = match by {
        HistorySum::User => "USER",
        HistorySum::Vc => "VC",
    };
    let mut table = TextTable::new([
        first,
        "JOBS",
        "SUCCEEDED",
        "FAILED",
        "STOPPED",
        "RAN",
        "GPU HOURS",
    ]);
    for sum in sums {
        table.row([
            printable(&sum.name).into(),
            sum.jobs.into(),
            sum.succeeded.into(),
            sum.failed.into(),
            sum.stopped.into(),
            span(sum.ran_s * 1000).into(),
            hours(sum.gpu_hours).into(),
        ]);
    }
    table.render(paint, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{AgentStub, StubAnswer, summary};
    use muster_model::state::SubState;
    use serde_json::{Value, json};

    fn ended(key: &str, code: i32, hours_ago: u64) -> Value {
        let mut summary = summary(key, SubState::Completed, Some(code));
        let end = now_ms() - hours_ago * 3_600_000 - 1_000;
        summary.completed = Some(end);
        summary.launched = Some(end - 7_200_000);
        let mut value = serde_json::to_value(&summary).unwrap();
        value["state"] = json!(summary.state());
        value
    }

    #[tokio::test]
    async fn what_ended_in_the_time_is_shown_and_summed() {
        let stub = AgentStub::start();
        let jobs = [
            ended("ada~a", 0, 1),
            ended("bob~b", 9, 30),
            ended("ada~c", -210, 3),
            ended("ada~old", 0, 200),
        ];
        stub.answer(
            "GET /api/muster/v1/jobs?limit=2000&offset=0&state=SUCCEEDED,FAILED,STOPPED",
            [StubAnswer::json(jobs)],
        );
        let (status, out, err) = stub.muster(&["history"]).await;
        assert_eq!((status, err.as_str()), (CliStatus::Ok, ""));
        let names: Vec<&str> = out
            .lines()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(names, ["JOB", "ada~a", "ada~c", "bob~b", "", "3"]);
        assert!(out.contains("SUCCEEDED") && out.contains(" 2h "), "{out}");
        assert!(out.ends_with("3 jobs, 24.00 GPU hours\n"), "{out}");

        let (_, out, _) = stub
            .muster(&["history", "--since", "24h", "--by", "user"])
            .await;
        assert_eq!(
            out,
            "USER  JOBS  SUCCEEDED  FAILED  STOPPED  RAN  GPU HOURS\n\
             ada   2     1          0       1        4h   16.00\n"
        );
        let (_, out, _) = stub
            .muster(&["history", "--since", "2d", "--until", "1d", "-o", "csv"])
            .await;
        let lines: Vec<&str> = out.lines().collect();
        assert!(
            lines[0].starts_with("user,name,vc,state,exit_code,"),
            "{out}"
        );
        assert!(lines[1].starts_with("bob,b,default,FAILED,9,"), "{out}");
        assert!(lines[1].ends_with(",7200,4,8.0"), "{out}");
        assert_eq!(lines.len(), 2);
        let (_, out, _) = stub.muster(&["history", "--by", "vc", "-o", "json"]).await;
        let sums: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(sums[0]["jobs"], 3);
        let (status, _, err) = stub.muster(&["history", "--until", "8d"]).await;
        assert_eq!(status, CliStatus::Usage);
        assert!(err.contains("--until has to be shorter"), "{err}");
    }
}
