//! `muster job show`.

use clap::Args;
use muster_model::state::JobState;
use muster_model::view::{Dated, JobDetail};
use serde::Serialize;

use super::page::page;
use crate::age;
use crate::console::Console;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::JobArgument;
use crate::moment::now_ms;
use crate::output::OutputOption;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job show train
  muster job show ada~train --attempt 0
  muster job show train -o json | jq -r .state";

#[derive(Debug, Args)]
pub struct ShowArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Show the job as it was in this attempt, counted from 0 [default: the latest].
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    #[command(flatten)]
    output: OutputOption,
}

#[derive(Serialize)]
struct ShownJob {
    /// What users see of the summary's sub-state and exit code.
    state: JobState,
    #[serde(flatten)]
    detail: Dated<JobDetail>,
}

impl ShowArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (api, key) = self.job.resolve(connection)?;
        let Dated {
            value: mut detail,
            age,
        } = api.job(&key, self.attempt).await?;
        age::tell(&age, console);
        // Only a leader knows why a job waits.
        if detail.summary.state() == JobState::Waiting && age.is_none() {
            let explanation = api.explanation(&key).await?;
            detail.summary.waiting_for = explanation.reason.or(detail.summary.waiting_for);
        }
        let shown = ShownJob {
            state: detail.summary.state(),
            detail: Dated { value: detail, age },
        };
        let now = now_ms();
        self.output.write(console, &shown, |shown, paint| {
            page(&shown.detail.value, now, paint)
        })?;
        Ok(CliStatus::Ok)
    }
}
