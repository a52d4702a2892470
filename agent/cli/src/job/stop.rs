//! `muster job stop`.

use clap::Args;

use super::page::headline;
use super::wait::until_final;
use crate::console::Console;
use crate::endpoint::Connection;
use crate::error::Error;
use crate::job_ref::JobArgument;
use crate::status::Status;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job stop train
  muster job stop ada~train --wait";

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    job: JobArgument,
    /// Wait until nothing of it runs any more.
    #[arg(long)]
    wait: bool,
}

impl Arguments {
    pub(super) async fn run(
        self,
        connection: &Connection,
        console: &Console,
    ) -> Result<Status, Error> {
        let (api, key) = self.job.resolve(connection)?;
        api.stop(&key).await?;
        if !self.wait {
            console.note(format!("{key} is being stopped"));
            return Ok(Status::Ok);
        }
        if let Some(job) = until_final(&api, &key, None).await? {
            console.line(headline(&job.summary, console.paint))?;
        }
        Ok(Status::Ok)
    }
}
