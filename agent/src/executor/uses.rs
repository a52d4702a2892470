//! Reads what tasks use, at every ten seconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::{MissedTickBehavior, interval};

use super::{ExecutorShared, ExecutorTask};

const PAUSE: Duration = Duration::from_secs(10);

/// Runs until the agent ends. A task whose counters cannot be read, for it has no container yet or none any more,
/// has no point then.
pub(super) async fn run(shared: Arc<ExecutorShared>) {
    let mut pause = interval(PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        let running: Vec<_> = {
            let tasks = shared.lock();
            let running = tasks
                .iter()
                .filter(|(_, task)| matches!(task, ExecutorTask::Running(_)));
            running.map(|(uid, _)| uid.clone()).collect()
        };
        let mut used = BTreeMap::new();
        for uid in running {
            if let Ok(usage) = shared.engine.usage(&uid).await {
                used.insert(uid, usage);
            }
        }
        let now_ms = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        shared
            .uses
            .tasks
            .note(u64::try_from(now_ms).unwrap_or(u64::MAX), &used);
    }
}
