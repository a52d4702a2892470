//! `muster cluster join`.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use muster_model::mesh::Joined;
use tokio::time::{Instant, sleep};

use crate::api::Api;
use crate::console::Console;
use crate::document_file;
use crate::error::CliError;
use crate::names::at_most;
use crate::spinner::Spinner;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Jobs must have ended. Their list, and this machine's own users, are there again when it leaves the
cluster.

Examples:
  muster cluster join 10.0.0.1 3f2a.c0ffee.9b1d
  ssh n1 muster cluster token create | muster cluster join n1 -
  muster cluster join mdns 3f2a.c0ffee.9b1d";

/// How long to come again to a cluster that is busy. Longer than it shuts out who knew a wrong
/// secret too often.
const PATIENCE: Duration = Duration::from_secs(75);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest token that is read.
const TOKEN_BYTES_MAX: u64 = 1024;
/// Jobs that are named where some are in the way.
const JOBS_NAMED: usize = 5;

#[derive(Debug, Args)]
pub struct JoinArguments {
    /// A member's address, as HOST or HOST:PORT; mdns for one that is found in the local network.
    address: String,
    /// What `muster cluster token create` printed there; - for stdin.
    token: String,
}

impl JoinArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let token = if self.token == "-" {
            document_file::read(Path::new("-"), TOKEN_BYTES_MAX)?
        } else {
            self.token
        };
        let plan = api.join_plan().await?;
        refuse_with_jobs(&plan.jobs)?;
        let joined = join(api, console, &self.address, token.trim()).await?;
        console.line(format!(
            "{} is member {} of {}",
            joined.name,
            joined.member,
            super::called(&joined.cluster)
        ))?;
        console.note(
            "users, passwords and the list of jobs are those of the cluster now; this machine's own \
             are there again when it leaves",
        );
        Ok(CliStatus::Ok)
    }
}

/// Joins, and comes again while the other side is busy.
async fn join(
    api: &Api,
    console: &Console,
    address: &str,
    token: &str,
) -> Result<Joined, CliError> {
    let start = Instant::now();
    let spinner = Spinner::new(format!("joining the cluster of {address}"));
    let mut told = false;
    loop {
        let ended = api.join(address, token).await;
        let (error, left) = match (ended, patience_left(start.elapsed())) {
            (Err(error), Some(left)) if error.is_busy() => (error, left),
            (ended, _) => return ended,
        };
        let text = format!("{error}; trying for another {} s", left.as_secs());
        if !told {
            spinner.suspend(|| console.note(&text));
            told = true;
        }
        spinner.message(text);
        sleep(PAUSE).await;
    }
}

/// How much longer to come again; none when it took too long.
const fn patience_left(waited: Duration) -> Option<Duration> {
    match PATIENCE.checked_sub(waited) {
        Some(Duration::ZERO) | None => None,
        left => left,
    }
}

fn refuse_with_jobs(jobs: &[String]) -> Result<(), CliError> {
    if jobs.is_empty() {
        return Ok(());
    }
    Err(CliError::Failed {
        what: "cannot join".to_owned(),
        message: format!(
            "jobs are queued or running here: {}. Wait for them, or stop them with \
             `muster job stop`",
            at_most(JOBS_NAMED, jobs.iter())
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(patience_left(PATIENCE - second), Some(second));
        assert_eq!(patience_left(PATIENCE), None);
        assert_eq!(patience_left(PATIENCE + second), None);
    }
}
