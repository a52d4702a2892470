//! `muster job submit`.

use std::path::PathBuf;

use clap::Args;

use super::wait::{tell, until_final};
use crate::api::Accepted;
use crate::console::Console;
use crate::document_file;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::Acting;
use crate::status::CliStatus;

/// The agent takes no larger job.
pub(super) const JOB_BYTES_MAX: u64 = 1 << 20;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job submit train.yaml
  muster job submit train.yaml --wait && echo it worked
  sed s/NAME/train-$(date +%s)/ train.yaml | muster job submit -";

#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// The job file; - for stdin.
    file: PathBuf,
    /// Wait until it has ended, and exit as `muster job wait` does.
    #[arg(long)]
    wait: bool,
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
