//! Removes the logs of finished tasks that neither the policy nor the configuration keeps.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use muster_exec::log::{LogError, LogSurvey, RetentionPolicy, Swept};
use muster_model::id::AttemptUid;

use super::node::NodeHandle;
use crate::causes::causes;
use crate::config::Tasks;
use crate::documents::policy::PolicyInForce;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// Sweeps until the agent ends. `directory` holds one directory per task.
pub(crate) async fn run(
    directory: PathBuf,
    limits: Tasks,
    policy: PolicyInForce,
    node: NodeHandle,
) {
    let mut days_before = 0;
    loop {
        let days = policy.now().logs.days;
        let kept = RetentionPolicy {
            total_bytes_max: limits.logs_bytes_max,
            // A shorter time counts at the second look: a node that has just joined a cluster goes by the
            // default until it has that cluster's policy.
            age_max: DAY * days.max(days_before),
        };
        days_before = days;
        match sweep(directory.clone(), kept, &node).await {
            None => return,
            Some(Ok(swept)) if swept.removed.is_empty() => {}
            Some(Ok(swept)) => tracing::info!(
                tasks = swept.removed.len(),
                bytes_left = swept.bytes_left,
                "removed logs of finished tasks"
            ),
            Some(Err(error)) => {
                tracing::warn!(error = causes(&error), "logs cannot be removed");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One look; `None` when the agent is ending.
async fn sweep(
    directory: PathBuf,
    policy: RetentionPolicy,
    node: &NodeHandle,
) -> Option<Result<Swept, LogError>> {
    let survey = tokio::task::spawn_blocking(move || LogSurvey::take(&directory));
    let survey = match survey.await.ok()? {
        Ok(survey) => survey,
        Err(error) => return Some(Err(error)),
    };
    // Asked after the directories were listed: a task that has one by then is known here.
    let tasks = node.view().await?.tasks;
    let unfinished: BTreeSet<AttemptUid> = tasks
        .iter()
        .filter_map(|task| task.uid.parse().ok())
        .collect();
    let now = SystemTime::now();
    let swept = tokio::task::spawn_blocking(move || survey.sweep(&policy, &unfinished, now));
    swept.await.ok()
}
