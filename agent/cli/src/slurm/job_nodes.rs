//! Where jobs run, and ran.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use muster_model::id::JobKey;
use muster_model::view::JobDetail;

use crate::api::Api;
use crate::console::Console;
use crate::error::CliError;

/// So many jobs are asked for their nodes at once.
const AT_ONCE: usize = 8;
/// No more jobs are asked for their nodes.
const ASKED_MAX: usize = 500;

/// The nodes of each job, by name.
pub(super) type NodesOfJobs = BTreeMap<JobKey, Vec<String>>;

/// Asks for each job by itself: listings do not have nodes.
pub(super) async fn nodes_of(
    jobs: impl Iterator<Item = &JobKey>,
    api: &Api,
    console: &Console,
) -> Result<NodesOfJobs, CliError> {
    let mut jobs: Vec<&JobKey> = jobs.collect();
    if jobs.len() > ASKED_MAX {
        console.note(format!(
            "nodes are shown of the first {ASKED_MAX} of {} jobs only",
            jobs.len()
        ));
        jobs.truncate(ASKED_MAX);
    }
    let asked = stream::iter(jobs).map(|key| async move {
        match api.job(key, None).await {
            Ok(job) => Ok((key.clone(), nodes(&job.value))),
            // It has ended and is kept no longer.
            Err(error) if error.is_not_found() => Ok((key.clone(), Vec::new())),
            Err(error) => Err(error),
        }
    });
    let answers: Vec<Result<_, CliError>> = asked.buffer_unordered(AT_ONCE).collect().await;
    answers.into_iter().collect()
}

fn nodes(job: &JobDetail) -> Vec<String> {
    let last = job.tasks().filter_map(|task| task.attempts.last());
    let nodes: BTreeSet<String> = last
        .filter_map(|attempt| attempt.node.as_ref())
        .map(ToString::to_string)
        .collect();
    nodes.into_iter().collect()
}
