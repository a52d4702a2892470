//! `muster job submit`.

use std::path::PathBuf;

use clap::Args;
use muster_model::forecast::ForecastOutcome;

use super::forecast_page;
use super::wait::{tell, until_final};
use crate::api::Accepted;
use crate::console::Console;
use crate::document_file;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::Acting;
use crate::moment::now_ms;
use crate::output::{Format, OutputOption};
use crate::status::CliStatus;

/// The agent takes no larger job.
pub(super) const JOB_BYTES_MAX: u64 = 1 << 20;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job submit train.yaml
  muster job submit train.yaml --wait && echo it worked
  muster job submit train.yaml --dry-run
  muster job submit train.yaml --dry-run -o json | jq -r '.places[].node'
  sed s/NAME/train-$(date +%s)/ train.yaml | muster job submit -";

#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// The job file; - for stdin.
    file: PathBuf,
    /// Wait until it has ended, and exit as `muster job wait` does.
    #[arg(long)]
    wait: bool,
    /// Submit nothing: say what it would take, and where and when it would start. Exits with 0 if it would start
    /// at once, 1 if it would wait.
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// The form of the answer of --dry-run.
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "table",
        requires = "dry_run"
    )]
    format: Format,
    #[command(flatten)]
    acting: Acting,
}

impl SubmitArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let yaml = document_file::read(&self.file, JOB_BYTES_MAX)?;
        let api = self.acting.api(connection)?;
        if self.dry_run {
            let forecast = api.forecast(yaml).await?;
            let output = OutputOption::of(self.format);
            output.write(console, &forecast, |told, paint| {
                forecast_page::page(told, now_ms(), paint)
            })?;
            let starts = [ForecastOutcome::Starts, ForecastOutcome::Preempts];
            return Ok(CliStatus::of(starts.contains(&forecast.outcome)));
        }
        let Accepted { key, warnings } = api.submit(yaml).await?;
        console.warn(&warnings);
        console.line(key.to_string())?;
        if self.wait {
            let Some(job) = until_final(&api, &key, None).await? else {
                return Ok(CliStatus::TimedOut);
            };
            return tell(&job, console);
        }
        Ok(CliStatus::Ok)
    }
}
