//! `sacct`.

use muster_model::view::JobSummary;

use super::job_nodes::{NodesOfJobs, nodes_of};
use super::number::{JobSelector, SlurmNumber, shown};
use super::option::OptionValue::{Needed, No};
use super::option::{NO_SHORT, OF_ALL, OptionLine, SlurmOption, SlurmTool, done, refused};
use super::queued::{JobChoice, SlurmState, names};
use super::sacct_format::{SacctField, SacctFormat, SacctLayout};
use super::slurm_time::{self, timestamp};
use super::words;
use crate::api::Api;
use crate::console::{Console, printable};
use crate::error::CliError;
use crate::moment::now_ms;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster slurm sacct -j 123456789
  sacct -S now-2days -s F,CA -X
  sacct -a -S 2026-11-01 -E 2026-12-01 -P -o JobID,User,State,Elapsed,ReqTRES

Without -S the jobs of today are listed, and with -j those of any time. A job is listed if it was there at some
time from -S to -E; -s looks at the state that it has now. Times are UTC. Jobs that have ended are kept as long as the
policy says. ExitCode is the job's exit code by the failure rules: `-210:0` is a job that was stopped.";

const ABOUT: &str = "Lists jobs of Muster that wait, run or have ended.";

const OPTIONS: &[SlurmOption] = &[
    done('a', "allusers", No, "jobs of all users"),
    done('u', "user", Needed, "only jobs of these users; else mine"),
    done('j', "jobs", Needed, "only these jobs, of any user and time"),
    done(
        'r',
        "partition",
        Needed,
        "only jobs of these virtual clusters",
    ),
    done(NO_SHORT, "name", Needed, "only jobs with these names"),
    done(
        's',
        "state",
        Needed,
        "only jobs in these states: PD, CF, R, CG, CD, CA, F, all",
    ),
    done(
        'S',
        "starttime",
        Needed,
        "only jobs that had not ended then; else today",
    ),
    done(
        'E',
        "endtime",
        Needed,
        "only jobs that were submitted until then; else now",
    ),
    done(
        'X',
        "allocations",
        No,
        "jobs without their steps, as without it: there are no steps",
    ),
    done(
        'o',
        "format",
        Needed,
        "fields, as in JobID,JobName%30,State",
    ),
    done('b', "brief", No, "JobID, State and ExitCode"),
    done('e', "helpformat", No, "the fields there are"),
    done('n', "noheader", No, "no heading"),
    done('p', "parsable", No, "fields with | behind each"),
    done('P', "parsable2", No, "fields with | between them"),
    done(NO_SHORT, "delimiter", Needed, "another text in place of |"),
    done(NO_SHORT, "help", No, "this text"),
    refused(
        'l',
        "long",
        "name the fields with --format; --helpformat lists them",
    ),
    refused('A', "accounts", "there are no accounts; give --partition"),
    refused('q', "qos", "list the field QOS with --format"),
    refused('N', "nodelist", "list the field NodeList with --format"),
    refused('g', "gid", "give --user"),
    refused(
        'D',
        "duplicates",
        "a job that is tried again is one job: list the field Restarts",
    ),
    refused('L', "allclusters", "name another cluster by MUSTER_CONTEXT"),
    refused(
        'T',
        "truncate",
        "--starttime and --endtime choose jobs, and change no time of theirs",
    ),
    refused('c', "completion", "there is no file of completed jobs"),
    refused('f', "file", "there is no file of jobs"),
    refused('v', "verbose", "there is no more to tell"),
    refused(
        NO_SHORT,
        "json",
        "give `muster history -o json` or `squeue --json -t all`",
    ),
    refused(NO_SHORT, "yaml", "give `muster history -o json`"),
];

const TOOL: SlurmTool = SlurmTool {
    name: "sacct",
    operands: "",
    options: &[OPTIONS, OF_ALL],
    ends_at_operand: false,
};

const FORMAT: &str = "JobID,JobName,Partition,User,ReqTRES%20,State,ExitCode";
const FORMAT_BRIEF: &str = "JobID,State,ExitCode";

/// What a row is made of.
#[derive(Debug)]
pub(super) struct SacctJob {
    job: JobSummary,
    /// Where it runs or ran, if that was asked for.
    nodes: Vec<String>,
    now_ms: u64,
}

/// A negative width fills on the right.
const fn field(
    name: &'static str,
    width: i32,
    value: fn(&SacctJob) -> String,
) -> SacctField<SacctJob> {
    SacctField { name, width, value }
}

const FIELDS: &[SacctField<SacctJob>] = &[
    field("JobID", -12, |it| shown(&it.job.key)),
    field("JobIDRaw", -12, |it| shown(&it.job.key)),
    field("JobName", 10, |it| {
        SlurmNumber::split(&it.job.key.name).0.to_owned()
    }),
    field("User", 9, |it| it.job.key.user.to_string()),
    field("Partition", 10, |it| it.job.vc.to_string()),
    field("QOS", 10, |it| super::squeue::class(it.job.priority)),
    field("State", 10, |it| SlurmState::of(&it.job).word().to_owned()),
    field("Reason", 22, |it| super::squeue::reason(&it.job)),
    field("ExitCode", 8, |it| {
        format!("{}:0", it.job.exit_code.unwrap_or(0))
    }),
    field("Restarts", 8, |it| it.job.retries.total.to_string()),
    field("Submit", 19, |it| timestamp(it.job.submitted)),
    field("Start", 19, |it| known(it.job.launched)),
    field("End", 19, |it| known(it.job.completed)),
    field("Elapsed", 10, |it| elapsed(it.ran_s())),
    field("ElapsedRaw", 10, |it| it.ran_s().to_string()),
    field("ReqTRES", 10, |it| resources(it.job.gpus, it.job.tasks)),
    field("AllocTRES", 10, SacctJob::allocated),
    field("NNodes", 8, |it| it.job.tasks.to_string()),
    field("NodeList", 15, SacctJob::node_list),
];

impl SacctJob {
    fn ran_s(&self) -> u64 {
        super::squeue::ran_ms(&self.job, self.now_ms) / 1_000
    }

    /// What it holds or held; nothing while it waits. GPUs that it keeps from others without use are among it.
    fn allocated(&self) -> String {
        let is_placed = SlurmState::of(&self.job) != SlurmState::Pending;
        match self.job.created.filter(|_| is_placed) {
            Some(_) => resources(self.job.gpus + self.job.gpus_idle, self.job.tasks),
            None => String::new(),
        }
    }

    fn node_list(&self) -> String {
        match self.nodes.is_empty() {
            true => "None assigned".to_owned(),
            false => self.nodes.join(","),
        }
    }
}

pub(super) async fn run(
    given: &[String],
    api: impl FnOnce() -> Result<Api, CliError>,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let Some(line) = words(&TOOL, given, ABOUT, EXAMPLES, console)? else {
        return Ok(CliStatus::Ok);
    };
    line.no_operands("jobs are named with -j")?;
    if line.has("helpformat") {
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        console.line(names.join("\n"))?;
        return Ok(CliStatus::Ok);
    }
    let brief = if line.has("brief") {
        FORMAT_BRIEF
    } else {
        FORMAT
    };
    let format = SacctFormat::read(line.value("format").unwrap_or(brief), FIELDS);
    let format = format.map_err(CliError::Usage)?;
    let now_ms = now_ms();
    let (from_ms, until_ms) = period(&line, now_ms).map_err(CliError::Usage)?;
    let api = api()?;
    let mut jobs = choice(&line, &api)?.find(&api, console).await?;
    jobs.retain(|job| was_there(&job.summary, from_ms, until_ms));
    if jobs.is_empty() && line.has("jobs") {
        console.note(
            "no such job in that time; those that have ended are kept as long as the policy says",
        );
    }
    let mut nodes = match format.has("NodeList") {
        true => {
            let placed = jobs.iter().map(|it| &it.summary);
            let placed = placed.filter(|it| it.created.is_some()).map(|it| &it.key);
            nodes_of(placed, &api, console).await?
        }
        false => NodesOfJobs::new(),
    };
    let rows = jobs.into_iter().map(|job| SacctJob {
        nodes: nodes.remove(&job.summary.key).unwrap_or_default(),
        job: job.summary,
        now_ms,
    });
    let layout = layout(&line);
    console.out(printable(&format.table(
        rows,
        &layout,
        !line.has("noheader"),
    )))?;
    Ok(CliStatus::Ok)
}

fn layout(line: &OptionLine) -> SacctLayout {
    let delimiter = line.value("delimiter").unwrap_or("|").to_owned();
    match (line.has("parsable2"), line.has("parsable")) {
        (true, _) => SacctLayout::Between(delimiter),
        (_, true) => SacctLayout::Behind(delimiter),
        _ => SacctLayout::Columns,
    }
}

/// Which jobs, apart from when.
fn choice(line: &OptionLine, api: &Api) -> Result<JobChoice, CliError> {
    let mut jobs = Vec::new();
    for job in line.list("jobs") {
        if let Some((whole, step)) = job.split_once('.') {
            return Err(CliError::Usage(format!(
                "{job}: there are no steps such as {step}; give {whole} for all of it"
            )));
        }
        jobs.push(JobSelector::read(&job).map_err(CliError::Usage)?);
    }
    let mut users = names(line, "user")?;
    if users.is_empty() && jobs.is_empty() && !line.has("allusers") {
        users.push(api.user()?);
    }
    Ok(JobChoice {
        users,
        partitions: names(line, "partition")?,
        states: SlurmState::read_all(line, "state")?,
        names: line.list("name"),
        jobs,
    })
}

/// From when until when, in milliseconds since the epoch.
fn period(line: &OptionLine, now_ms: u64) -> Result<(u64, u64), String> {
    let time = |option: &str, default: u64| match line.value(option) {
        Some(text) => slurm_time::read(text, now_ms).map_err(|why| format!("--{option}: {why}")),
        None => Ok(default),
    };
    let start = match line.has("jobs") {
        true => 0,
        false => slurm_time::midnight(now_ms),
    };
    let (from_ms, until_ms) = (time("starttime", start)?, time("endtime", now_ms)?);
    match from_ms <= until_ms {
        true => Ok((from_ms, until_ms)),
        false => Err(format!(
            "--endtime ({}) is before --starttime ({}); without --starttime the jobs of today are listed",
            timestamp(until_ms),
            timestamp(from_ms)
        )),
    }
}

fn was_there(job: &JobSummary, from_ms: u64, until_ms: u64) -> bool {
    job.submitted <= until_ms && job.completed.is_none_or(|end_ms| end_ms >= from_ms)
}

fn known(time_ms: Option<u64>) -> String {
    time_ms.map_or_else(|| "Unknown".to_owned(), timestamp)
}

fn resources(gpus: u32, nodes: u32) -> String {
    match gpus {
        0 => format!("node={nodes}"),
        gpus => format!("gres/gpu={gpus},node={nodes}"),
    }
}

/// `1-02:03:04`, `00:02:05`.
fn elapsed(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        days => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::state::SubState;

    use super::*;
    use crate::stub::summary;

    fn table(jobs: &[JobSummary], format: &str, layout: &SacctLayout) -> String {
        let format = SacctFormat::read(format, FIELDS).unwrap();
        let nodes = |job: &JobSummary| match job.created {
            Some(_) => vec!["n1".to_owned(), "n2".to_owned()],
            None => Vec::new(),
        };
        let rows = jobs.iter().map(|job| SacctJob {
            nodes: nodes(job),
            job: job.clone(),
            now_ms: 75_000,
        });
        format.table(rows, layout, true)
    }

    fn jobs() -> Vec<JobSummary> {
        let mut waits = summary(
            "ada~a-long-name-987654321",
            SubState::AttemptCreationPending,
            None,
        );
        (waits.launched, waits.created, waits.gpus) = (None, None, 0);
        let ended = summary("ada~train-123456789", SubState::Completed, Some(137));
        let mut runs = summary("bob~plain", SubState::AttemptRunning, None);
        runs.gpus_idle = 2;
        vec![waits, ended, runs]
    }

    #[test]
    fn columns_are_those_of_slurm() {
        let expect = "\
JobID           JobName  Partition      User              ReqTRES      State ExitCode
------------ ---------- ---------- --------- -------------------- ---------- --------
987654321    a-long-na+    default       ada               node=2    PENDING      0:0
123456789         train    default       ada    gres/gpu=4,node=2     FAILED    137:0
bob~plain         plain    default       bob    gres/gpu=4,node=2    RUNNING      0:0
";
        assert_eq!(table(&jobs(), FORMAT, &SacctLayout::Columns), expect);
    }

    #[test]
    fn every_field_tells_what_is_known() {
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        let layout = SacctLayout::Between("|".to_owned());
        let text = table(&jobs(), &names.join(","), &layout);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], names.join("|"));
        let epoch = "1970-01-01T00:0";
        assert_eq!(
            lines[1],
            format!(
                "987654321|987654321|a-long-name|ada|default|normal|PENDING|Priority|0:0|1|{epoch}0:01|Unknown|\
                 Unknown|00:00:00|0|node=2||2|None assigned"
            )
        );
        assert_eq!(
            lines[2],
            format!(
                "123456789|123456789|train|ada|default|normal|FAILED|None|137:0|1|{epoch}0:01|{epoch}0:10|\
                 {epoch}1:40|00:01:30|90|gres/gpu=4,node=2|gres/gpu=4,node=2|2|n1,n2"
            )
        );
        assert!(
            lines[3].contains("|Unknown|00:01:05|65|gres/gpu=4,node=2|gres/gpu=6,node=2|"),
            "{}",
            lines[3]
        );
    }

    #[test]
    fn a_job_counts_where_it_was_there_in_the_time() {
        let ended = summary("ada~x", SubState::Completed, Some(0));
        let runs = summary("ada~x", SubState::AttemptRunning, None);
        // Both were submitted at 1,000; one ended at 100,000.
        for (from_ms, until_ms, of_ended, of_running) in [
            (0, 999, false, false),
            (0, 1_000, true, true),
            (50_000, 60_000, true, true),
            (100_000, 200_000, true, true),
            (100_001, 200_000, false, true),
        ] {
            assert_eq!(was_there(&ended, from_ms, until_ms), of_ended, "{from_ms}");
            assert_eq!(was_there(&runs, from_ms, until_ms), of_running, "{from_ms}");
        }
        assert_eq!(elapsed(93_784), "1-02:03:04");
    }
}
