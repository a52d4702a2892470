//! What runners tell, judged and passed on to the ledger in the order it happened.

use std::sync::Arc;

use muster_control::ledger::Observation;
use muster_exec::task::TaskEvent;
use muster_failure_rules::RuleSet;
use muster_model::exit::{Evidence, RawExit, Verdict};
use tokio::sync::mpsc;

use super::ExecutorShared;

/// Passes events on until the agent ends. One at a time: a task's end must reach the ledger
/// before the news that nothing of it is left.
pub(super) async fn run(shared: Arc<ExecutorShared>, mut events: mpsc::Receiver<TaskEvent>) {
    while let Some(event) = events.recv().await {
        let (uid, what) = match event {
            TaskEvent::Started { .. } => continue,
            TaskEvent::Ready { uid } => (uid, Observation::Ready),
            TaskEvent::Running { uid, .. } => (uid, Observation::Running),
            TaskEvent::LaunchFailed { uid, exit } => {
                let verdict = Box::new(judge_launch(&shared.rules.now().set, exit));
                (uid, Observation::LaunchFailed(verdict))
            }
            TaskEvent::Exited { uid, evidence } => (
                uid,
                Observation::Ended(Box::new(judge(&shared.rules.now().set, &evidence))),
            ),
            TaskEvent::Gone { uid } => {
                shared.lock().remove(&uid);
                (uid, Observation::Gone)
            }
        };
        shared.node.observed(uid, what).await;
    }
}

/// The verdict on a task that never ran a command.
pub(super) fn judge_launch(rules: &RuleSet, exit: RawExit) -> Verdict {
    judge(
        rules,
        &Evidence {
            exit,
            user_log: Vec::new(),
            platform_log: Vec::new(),
            device_events: Vec::new(),
        },
    )
}

/// Searching long logs takes milliseconds, so other tasks of this thread go elsewhere.
fn judge(rules: &RuleSet, evidence: &Evidence) -> Verdict {
    tokio::task::block_in_place(|| rules.classify(evidence))
}
