//! `squeue`.

use std::collections::BTreeMap;

use muster_model::state::PriorityClass;
use muster_model::view::JobSummary;
use serde_json::{Value, json};

use super::field_format::{FieldFormat, KnownField, field, whole};
use super::job_nodes::{NodesOfJobs, nodes_of};
use super::number::{JobSelector, SlurmNumber, shown};
use super::option::OptionValue::{Needed, No};
use super::option::{NO_SHORT, OF_ALL, SlurmOption, SlurmTool, done, refused};
use super::queued::{JobChoice, SlurmState};
use super::slurm_time::timestamp;
use super::words;
use crate::api::{Api, ListedJob};
use crate::console::{Console, printable};
use crate::error::CliError;
use crate::moment::now_ms;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster slurm squeue --me
  squeue -u ada,bob -t PD,R -p vision
  squeue -j 123456789 -h -o '%T'
  squeue --json | jq -r '.jobs[].muster_job'

Times are UTC. A job that sbatch has not submitted has no number: JOBID is its name.";

const ABOUT: &str = "Lists jobs of Muster that wait or run.";

const OPTIONS: &[SlurmOption] = &[
    done('u', "user", Needed, "only jobs of these users"),
    done(NO_SHORT, "me", No, "only jobs of mine"),
    done(
        'p',
        "partition",
        Needed,
        "only jobs of these virtual clusters",
    ),
    done(
        't',
        "states",
        Needed,
        "only jobs in these states: PD, CF, R, CG, CD, CA, F, all",
    ),
    done('j', "jobs", Needed, "only these jobs"),
    done('n', "name", Needed, "only jobs with these names"),
    done('o', "format", Needed, "fields, as in '%.18i %.9P %j %T'"),
    done('h', "noheader", No, "no heading"),
    done('l', "long", No, "more columns"),
    done(
        'a',
        "all",
        No,
        "jobs of all virtual clusters, as without it",
    ),
    done(NO_SHORT, "json", No, "data for programs"),
    done(NO_SHORT, "help", No, "this text"),
    refused('O', "Format", "give --format"),
    refused(
        'S',
        "sort",
        "pipe it through sort(1); jobs that were submitted first come first",
    ),
    refused('i', "iterate", "use watch(1), or `muster top`"),
    refused(
        NO_SHORT,
        "start",
        "`muster job explain JOB` forecasts the start",
    ),
    refused('A', "account", "there are no accounts; give --partition"),
    refused(
        'q',
        "qos",
        "`muster job list -o json` has the priority class",
    ),
    refused(
        'w',
        "nodelist",
        "`muster node show` lists what runs on a node",
    ),
    refused(
        'r',
        "array",
        "an array is one job; `muster job show JOB` lists its tasks",
    ),
    refused('s', "steps", "there are no steps"),
    refused('v', "verbose", "there is no more to tell"),
    refused(NO_SHORT, "yaml", "give --json"),
];

const TOOL: SlurmTool = SlurmTool {
    name: "squeue",
    operands: "",
    options: &[OPTIONS, OF_ALL],
    ends_at_operand: false,
};

const FORMAT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const FORMAT_LONG: &str = "%.18i %.9P %.8j %.8u %.11T %.10M %.6D %.13b %R";

const FIELDS: &[KnownField] = &[
    whole('i', "JOBID"),
    whole('A', "JOBID"),
    whole('F', "ARRAY_JOB_ID"),
    field('P', "PARTITION"),
    field('j', "NAME"),
    field('u', "USER"),
    field('t', "ST"),
    field('T', "STATE"),
    field('M', "TIME"),
    field('D', "NODES"),
    field('R', "NODELIST(REASON)"),
    field('N', "NODELIST"),
    field('r', "REASON"),
    field('b', "TRES_PER_NODE"),
    field('V', "SUBMIT_TIME"),
    field('S', "START_TIME"),
    field('e', "END_TIME"),
    field('q', "QOS"),
];

pub(super) async fn run(
    given: &[String],
    api: impl FnOnce() -> Result<Api, CliError>,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let Some(line) = words(&TOOL, given, ABOUT, EXAMPLES, console)? else {
        return Ok(CliStatus::Ok);
    };
    line.no_operands("jobs are named with -j")?;
    let is_long = line.has("long");
    let format = line.value("format");
    let format = format.unwrap_or(if is_long { FORMAT_LONG } else { FORMAT });
    let format = FieldFormat::read(format, FIELDS).map_err(CliError::Usage)?;
    let api = api()?;
    let mut choice = JobChoice::read(&line)?;
    if line.has("me") {
        choice.users = vec![api.user()?];
    }
    let jobs = line.list("jobs");
    let jobs: Result<Vec<_>, _> = jobs.iter().map(|job| JobSelector::read(job)).collect();
    choice.jobs = jobs.map_err(CliError::Usage)?;
    let jobs = chosen(choice, &api, console).await?;
    let running = jobs.iter().map(|it| &it.summary);
    let running = running.filter(|job| has_nodes(job)).map(|job| &job.key);
    let nodes = match line.has("json") || format.has(&['R', 'N']) {
        true => nodes_of(running, &api, console).await?,
        false => BTreeMap::new(),
    };
    if line.has("json") {
        let jobs: Vec<Value> = jobs
            .iter()
            .map(|job| as_json(&job.summary, &nodes))
            .collect();
        let text = serde_json::to_string_pretty(&json!({ "jobs": jobs }));
        console.line(text.map_err(CliError::unwritable)?)?;
        return Ok(CliStatus::Ok);
    }
    let now = now_ms();
    if is_long && !line.has("noheader") {
        console.line(crate::moment::date(now))?;
    }
    let rows = jobs
        .iter()
        .map(|job| row(&format, &job.summary, &nodes, now));
    let heading = (!line.has("noheader")).then(|| format.heading());
    let lines: String = heading
        .into_iter()
        .chain(rows)
        .map(|line| line + "\n")
        .collect();
    console.out(printable(&lines))?;
    Ok(CliStatus::Ok)
}

/// The jobs to show: those that are active, unless states are named. A job that is named and has ended is none of
/// them, for scripts wait until squeue shows it no longer; that is told beside it.
async fn chosen(
    mut choice: JobChoice,
    api: &Api,
    console: &Console,
) -> Result<Vec<ListedJob>, CliError> {
    if !choice.states.is_empty() {
        return choice.find(api, console).await;
    }
    if choice.jobs.is_empty() {
        choice.states = SlurmState::ACTIVE.to_vec();
        return choice.find(api, console).await;
    }
    let found = choice.find(api, console).await?;
    if found.is_empty() {
        let why = "no such job; `muster job list` shows all that are kept";
        return Err(CliError::Usage(why.to_owned()));
    }
    let (ended, active): (Vec<ListedJob>, _) =
        found.into_iter().partition(|it| it.state.is_final());
    for job in ended {
        let shown = shown(&job.summary.key);
        console.note(format!("{shown} has ended: {}; -t all shows it", job.state));
    }
    Ok(active)
}

/// Whether it has nodes that it may use now.
fn has_nodes(job: &JobSummary) -> bool {
    let states = [
        SlurmState::Running,
        SlurmState::Configuring,
        SlurmState::Completing,
    ];
    states.contains(&SlurmState::of(job))
}

fn row(format: &FieldFormat, job: &JobSummary, nodes: &NodesOfJobs, now: u64) -> String {
    format.line(|letter| value(letter, job, nodes, now))
}

fn value(letter: char, job: &JobSummary, nodes: &NodesOfJobs, now: u64) -> String {
    let state = SlurmState::of(job);
    let nodelist = || {
        nodes
            .get(&job.key)
            .map(|it| it.join(","))
            .unwrap_or_default()
    };
    let or_none = |time: Option<u64>| time.map_or_else(|| "N/A".to_owned(), timestamp);
    match letter {
        'i' | 'A' | 'F' => shown(&job.key),
        'P' => job.vc.to_string(),
        'j' => SlurmNumber::split(&job.key.name).0.to_owned(),
        'u' => job.key.user.to_string(),
        't' => state.letters().to_owned(),
        'T' => state.word().to_owned(),
        'M' => elapsed(ran_ms(job, now) / 1000),
        'D' => job.tasks.to_string(),
        'b' if job.gpus > 0 => format!("gpu:{}", job.gpus / job.tasks.max(1)),
        'b' => "N/A".to_owned(),
        'N' => nodelist(),
        'r' => reason(job),
        'R' if state == SlurmState::Pending => format!("({})", reason(job)),
        'R' => nodelist(),
        'V' => timestamp(job.submitted),
        'S' => or_none(job.launched),
        'e' => or_none(job.completed),
        'q' => class(job.priority),
        _ => String::new(),
    }
}

/// Its priority class.
pub(super) fn class(class: Option<PriorityClass>) -> String {
    let name = class.and_then(|class| serde_json::to_value(class).ok());
    let name = name.as_ref().and_then(Value::as_str);
    name.unwrap_or("normal").to_owned()
}

/// Why it waits, in the agent's words.
pub(super) fn reason(job: &JobSummary) -> String {
    match &job.waiting_for {
        Some(reason) => reason.clone(),
        None if SlurmState::of(job) == SlurmState::Pending => "Priority".to_owned(),
        None => "None".to_owned(),
    }
}

/// How long it has run, with the pauses between its attempts.
pub(super) fn ran_ms(job: &JobSummary, now: u64) -> u64 {
    let end = job.completed.unwrap_or(now);
    job.launched.map_or(0, |start| end.saturating_sub(start))
}

/// `1-02:03:04`, `2:05`.
fn elapsed(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, hours) => format!("{hours}:{minutes:02}:{seconds:02}"),
        (days, hours) => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

fn as_json(job: &JobSummary, nodes: &NodesOfJobs) -> Value {
    let (name, number) = SlurmNumber::split(&job.key.name);
    let number: Option<u64> = number.and_then(|it| it.to_string().parse().ok());
    json!({
        "job_id": number,
        "muster_job": job.key,
        "name": name,
        "user_name": job.key.user,
        "partition": job.vc,
        "job_state": [SlurmState::of(job).word()],
        "state_reason": reason(job),
        "node_count": job.tasks,
        "nodes": nodes.get(&job.key).map(|it| it.join(",")).unwrap_or_default(),
        "gpus": job.gpus,
        "submit_time": job.submitted / 1000,
        "start_time": job.launched.map(|ms| ms / 1000),
        "end_time": job.completed.map(|ms| ms / 1000),
        "exit_code": job.exit_code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::summary;
    use muster_model::state::SubState;

    #[test]
    fn spans_are_written_as_slurm_writes_them() {
        for (seconds, expect) in [
            (0, "0:00"),
            (65, "1:05"),
            (3_600, "1:00:00"),
            (93_784, "1-02:03:04"),
        ] {
            assert_eq!(elapsed(seconds), expect);
        }
    }

    #[test]
    fn a_row_has_the_usual_columns() {
        let format = FieldFormat::read(FORMAT, FIELDS).unwrap();
        let mut waits = summary(
            "ada~train-123456789",
            SubState::AttemptCreationPending,
            None,
        );
        waits.waiting_for = Some("needs 8 GPUs, 4 are free".into());
        waits.launched = None;
        let runs = summary("ada~plain", SubState::AttemptRunning, None);
        let nodes = [(runs.key.clone(), vec!["n1".to_owned(), "n2".to_owned()])].into();
        assert_eq!(
            format.heading(),
            "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
        );
        assert_eq!(
            row(&format, &waits, &nodes, 75_000),
            "         123456789   default    train      ada PD       0:00      2 (needs 8 GPUs, 4 are free)"
        );
        assert_eq!(
            row(&format, &runs, &nodes, 75_000),
            "         ada~plain   default    plain      ada  R       1:05      2 n1,n2"
        );
    }
}
