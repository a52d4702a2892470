//! `muster job list`.

use clap::Args;
use muster_model::id::{UserName, VcName};
use muster_model::state::JobState;
use muster_model::view::{Age, JobSummary};

use super::last_end::in_short;
use super::page::{failed_tasks, idle_gpus};
use crate::age;
use crate::api::{Api, Filter, JobListing, ListedJob};
use crate::console::{Console, Paint, state_style};
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::incomplete;
use crate::moment::{now_ms, span};
use crate::output::OutputOption;
use crate::status::CliStatus;
use crate::table::{TableCell, TextTable};

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job list
  muster job list --state waiting,running --vc vision
  muster job list --user ada -o json | jq -r '.[].key.name'";

#[derive(Debug, Args)]
pub struct ListArguments {
    /// Only jobs of these users.
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    user: Vec<UserName>,
    /// Only jobs in one of these states: waiting, running, stopping, succeeded, stopped, failed.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<JobState>,
    /// Only jobs of these virtual clusters.
    #[arg(long, value_name = "VC", value_delimiter = ',')]
    vc: Vec<VcName>,
    #[command(flatten)]
    output: OutputOption,
}

fn state(text: &str) -> Result<JobState, String> {
    serde_json::from_value(text.to_uppercase().into())
        .map_err(|_| "use waiting, running, stopping, succeeded, stopped or failed".to_owned())
}

impl ListArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let api = Api::new(connection, None)?;
        let filter = Filter {
            users: &self.user,
            states: &self.state,
            vcs: &self.vc,
        };
        let listing = api.jobs(filter).await?;
        for sentence in incomplete::sentences(&listing) {
            console.note(sentence);
        }
        let JobListing { mut jobs, aged, .. } = listing;
        let is_asked = |age: &&Age| self.vc.is_empty() || self.vc.contains(&age.vc);
        age::tell(aged.iter().filter(is_asked), console);
        jobs.sort_by(|a, b| {
            let newest = b.summary.submitted.cmp(&a.summary.submitted);
            newest.then_with(|| a.summary.key.cmp(&b.summary.key))
        });
        let now = now_ms();
        self.output
            .write(console, &jobs, |jobs, paint| table(jobs, now, paint))?;
        Ok(CliStatus::Ok)
    }
}

fn table(jobs: &[ListedJob], now: u64, paint: Paint) -> String {
    if jobs.is_empty() {
        return "no jobs".to_owned();
    }
    let mut table = TextTable::new([
        "JOB", "STATE", "VC", "TASKS", "GPUS", "RETRIES", "AGE", "RAN", "",
    ]);
    for ListedJob { state, summary, .. } in jobs {
        let end = summary.completed.unwrap_or(now);
        let ran = summary
            .launched
            .map(|launched| span(end.saturating_sub(launched)));
        table.row([
            (&summary.key).into(),
            TableCell::styled(state, state_style(*state)),
            (&summary.vc).into(),
            summary.tasks.into(),
            summary.gpus.into(),
            summary.retries.total.into(),
            span(now.saturating_sub(summary.submitted)).into(),
            ran.unwrap_or_default().into(),
            remark(*state, summary, now).into(),
        ]);
    }
    table.render(paint, 0)
}

/// The one thing to know beyond the state; of a job that was tried again, how its last attempt ended too.
fn remark(state: JobState, summary: &JobSummary, now: u64) -> String {
    let last = summary.last_end.as_deref();
    let last = last.map(|last| in_short(last, now));
    match (state, summary.exit_code, summary.waiting_for.as_deref()) {
        (JobState::Failed, Some(code), _) => format!("exit {code}"),
        (JobState::Succeeded, _, _) => failed_tasks(summary).unwrap_or_default(),
        (JobState::Waiting, _, Some(reason)) => match last {
            Some(last) => format!("{reason}; {last}"),
            None => reason.to_owned(),
        },
        (JobState::Waiting | JobState::Running, _, _) => {
            let idle = idle_gpus(summary.gpus_idle);
            let all: Vec<String> = idle.into_iter().chain(last).collect();
            all.join("; ")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::last_end::tests::unresolved;
    use crate::stub::summary;
    use muster_model::state::SubState;

    #[test]
    fn the_table_says_what_matters_of_each_job() {
        let mut waits = summary("ada~waits", SubState::AttemptCreationPending, None);
        waits.waiting_for = Some("needs 8 GPUs, 4 are free".into());
        waits.launched = None;
        waits.completed = None;
        let mut again = summary("ada~z", SubState::AttemptRunning, None);
        again.last_end = Some(Box::new(unresolved()));
        let mut idle = summary("ada~idle", SubState::AttemptRunning, None);
        idle.gpus_idle = 1;
        let failed = summary("bob~failed", SubState::Completed, Some(137));
        let mut badly = summary("bob~well", SubState::Completed, Some(0));
        badly.tasks_failed = 2;
        let jobs: Vec<ListedJob> = [waits, again, idle, failed, badly]
            .into_iter()
            .map(|summary| ListedJob {
                state: summary.state(),
                summary,
                age: None,
            })
            .collect();
        assert_eq!(
            table(&jobs, 3_600_000, Paint { colour: false }),
            "\
JOB         STATE      VC       TASKS  GPUS  RETRIES  AGE      RAN
ada~waits   WAITING    default  2      4     1        59m 59s           needs 8 GPUs, 4 are free
ada~z       RUNNING    default  2      4     1        59m 59s  59m 50s  attempt 3 ended with 254 (ContainerImageNotExists), 4 of 5 in a row
ada~idle    RUNNING    default  2      4     1        59m 59s  59m 50s  keeps 1 GPU idle, of cells that it was given for cores or memory
bob~failed  FAILED     default  2      4     1        59m 59s  1m 30s   exit 137
bob~well    SUCCEEDED  default  2      4     1        59m 59s  1m 30s   2 of 2 tasks failed
"
        );
    }
}
