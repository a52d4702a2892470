//! `muster job wait`.

use std::time::Duration;

use clap::Args;
use muster_model::id::JobKey;
use muster_model::state::JobState;
use muster_model::view::JobDetail;
use tokio::time::Instant;

use super::page::{ending, failed_all_the_same, headline};
use crate::api::Api;
use crate::console::Console;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::JobArgument;
use crate::moment::duration;
use crate::patience::Patience;
use crate::progress::ProgressLine;
use crate::status::CliStatus;

/// One request waits so long at most: proxies cut longer ones.
const POLL: Duration = Duration::from_secs(20);

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job wait train
  muster job wait ada~train --timeout 2h || muster job show ada~train

Exits with 0 if the job succeeded, 1 if it failed or was stopped, 124 if the timeout passed first.
The job runs on when waiting ends.";

#[derive(Debug, Args)]
pub struct WaitArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Wait no longer than this: 60 (seconds), 90s, 15m, 2h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

impl WaitArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (api, key) = self.job.resolve(connection)?;
        match until_final(&api, &key, self.timeout).await? {
            Some(job) => tell(&job, console),
            None => {
                console.note(format!("{key} has not ended in time; it runs on"));
                Ok(CliStatus::TimedOut)
            }
        }
    }
}

/// Waits for a job's end, at most for `limit`; `None` if that passes first.
pub(crate) async fn until_final(
    api: &Api,
    key: &JobKey,
    limit: Option<Duration>,
) -> Result<Option<JobDetail>, CliError> {
    let start = Instant::now();
    let progress = ProgressLine::new(api, key);
    // A copy may tell how the job stands while nobody leads who could tell of its end.
    let (mut looking, mut settling) = (Patience::default(), Patience::default());
    loop {
        let looked = api.job(key, None).await.map(|job| job.value);
        if let Some(job) = looking.bear(looked).await? {
            if job.summary.state().is_final() {
                return Ok(Some(job));
            }
            progress.tell(&job.summary);
        }
        let left = limit.map_or(POLL, |limit| limit.saturating_sub(start.elapsed()));
        if left.is_zero() {
            return Ok(None);
        }
        let settled = api.settle(key, left.min(POLL)).await;
        settling.bear(settled).await?;
    }
}

/// Prints how a job ended, and says it as an exit code.
pub(super) fn tell(job: &JobDetail, console: &Console) -> Result<CliStatus, CliError> {
    let succeeded = job.summary.state() == JobState::Succeeded;
    console.line(headline(&job.summary, console.paint))?;
    if let Some(failed) = failed_all_the_same(job) {
        console.note(failed);
    }
    if !succeeded {
        tell_why(job, console);
    }
    Ok(CliStatus::of(succeeded))
}

/// Says why a job ended otherwise than well, and where there is more.
pub(crate) fn tell_why(job: &JobDetail, console: &Console) {
    if let Some(why) = ending(job) {
        console.note(why);
    }
    console.note(format!("see `muster job show {}`", job.summary.key));
}
