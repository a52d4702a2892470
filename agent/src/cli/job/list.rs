//! `muster job list`.

use clap::Args;
use muster_model::id::{UserName, VcName};
use muster_model::state::State;
use muster_model::view::Age;

use crate::cli::age;
use crate::cli::api::{Api, Filter, Listed, ListedJob};
use crate::cli::console::{Console, Paint, state_style};
use crate::cli::endpoint::Connection;
use crate::cli::error::Error;
use crate::cli::moment::{now_ms, span};
use crate::cli::output::Output;
use crate::cli::status::Status;
use crate::cli::table::{Cell, Table};

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job list
  muster job list --state waiting,running --vc vision
  muster job list --user ada -o json | jq -r '.[].key.name'";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only jobs of these users.
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    user: Vec<UserName>,
    /// Only jobs in one of these states: waiting, running, stopping, succeeded, stopped, failed.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<State>,
    /// Only jobs of these virtual clusters.
    #[arg(long, value_name = "VC", value_delimiter = ',')]
    vc: Vec<VcName>,
    #[command(flatten)]
    output: Output,
}

fn state(text: &str) -> Result<State, String> {
    serde_json::from_value(text.to_uppercase().into())
        .map_err(|_| "use waiting, running, stopping, succeeded, stopped or failed".to_owned())
}

impl Arguments {
    pub(super) async fn run(
        self,
        connection: &Connection,
        console: &Console,
    ) -> Result<Status, Error> {
        let api = Api::new(connection, None)?;
        let filter = Filter {
            users: &self.user,
            states: &self.state,
            vcs: &self.vc,
        };
        let Listed {
            mut jobs,
            away,
            aged,
        } = api.jobs(filter).await?;
        if let Some(away) = away {
            console.note(format!(
                "the jobs of {away} are missing: nobody leads there who can be reached; `muster \
                 cluster status` says more"
            ));
        }
        let is_asked = |age: &&Age| self.vc.is_empty() || self.vc.contains(&age.vc);
        age::tell(aged.iter().filter(is_asked), console);
        jobs.sort_by(|a, b| {
            let newest = b.summary.submitted.cmp(&a.summary.submitted);
            newest.then_with(|| a.summary.key.cmp(&b.summary.key))
        });
        let now = now_ms();
        self.output
            .write(console, &jobs, |jobs, paint| table(jobs, now, paint))?;
        Ok(Status::Ok)
    }
}

fn table(jobs: &[ListedJob], now: u64, paint: Paint) -> String {
    if jobs.is_empty() {
        return "no jobs".to_owned();
    }
    let mut table = Table::new([
        "JOB", "STATE", "VC", "TASKS", "GPUS", "RETRIES", "AGE", "RAN", "",
    ]);
    for ListedJob { state, summary, .. } in jobs {
        let end = summary.completed.unwrap_or(now);
        let ran = summary
            .launched
            .map(|launched| span(end.saturating_sub(launched)));
        table.row([
            (&summary.key).into(),
            Cell::styled(state, state_style(*state)),
            (&summary.vc).into(),
            summary.tasks.into(),
            summary.gpus.into(),
            summary.retries.total.into(),
            span(now.saturating_sub(summary.submitted)).into(),
            ran.unwrap_or_default().into(),
            remark(*state, summary.exit_code, summary.waiting_for.as_deref()).into(),
        ]);
    }
    table.render(paint, 0)
}

/// The one thing to know beyond the state.
fn remark(state: State, exit_code: Option<i32>, waiting_for: Option<&str>) -> String {
    match (state, exit_code, waiting_for) {
        (State::Failed, Some(code), _) => format!("exit {code}"),
        (State::Waiting, _, Some(reason)) => reason.to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::stub::summary;
    use muster_model::state::SubState;

    #[test]
    fn the_table_says_what_matters_of_each_job() {
        let mut waits = summary("ada~waits", SubState::AttemptCreationPending, None);
        waits.waiting_for = Some("needs 8 GPUs, 4 are free".into());
        waits.launched = None;
        waits.completed = None;
        let failed = summary("bob~failed", SubState::Completed, Some(137));
        let jobs: Vec<ListedJob> = [waits, failed]
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
JOB         STATE    VC       TASKS  GPUS  RETRIES  AGE      RAN
ada~waits   WAITING  default  2      4     1        59m 59s          needs 8 GPUs, 4 are free
bob~failed  FAILED   default  2      4     1        59m 59s  1m 30s  exit 137
"
        );
    }
}
