//! `muster job stop`.

use clap::Args;

use super::page::headline;
use super::wait::until_final;
use crate::console::Console;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::JobArgument;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job stop train
  muster job stop ada~train --wait";

#[derive(Debug, Args)]
pub struct StopArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Wait until nothing of it runs any more.
    #[arg(long)]
    wait: bool,
}

impl StopArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (api, key) = self.job.resolve(connection)?;
        api.stop(&key).await?;
        if !self.wait {
            console.note(format!("{key} is being stopped"));
            return Ok(CliStatus::Ok);
        }
        if let Some(job) = until_final(&api, &key, None).await? {
            console.line(headline(&job.summary, console.paint))?;
        }
        Ok(CliStatus::Ok)
    }
}
