//! What runners tell, judged and passed on to the ledger in the order it happened.

use std::sync::Arc;

use muster_control::ledger::Observation;
use muster_exec::task::TaskEvent;
use muster_failure_rules::RuleSet;
use muster_model::exit::{Evidence, RawExit, Verdict};
use muster_model::health::DeviceEvent;
use muster_model::id::AttemptUid;
use tokio::sync::mpsc;

use super::ExecutorShared;
use crate::health::DevicesHeld;

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
            TaskEvent::Exited {
                uid,
                mut evidence,
                launched_ms: since_ms,
                infiniband,
                usage,
            } => {
                evidence.device_events = device_events(&shared, &uid, (infiniband, since_ms)).await;
                let mut verdict = judge(&shared.rules.now().set, &evidence);
                verdict.used = Some(shared.uses.total(&uid, usage));
                (uid, Observation::Ended(Box::new(verdict)))
            }
            TaskEvent::Gone { uid } => {
                shared.lock().remove(&uid);
                (uid, Observation::Gone)
            }
        };
        shared.node.observed(uid, what).await;
    }
}

/// What was reported of a task's devices since its first command began.
async fn device_events(
    shared: &ExecutorShared,
    uid: &AttemptUid,
    (infiniband, since_ms): (bool, u64),
) -> Vec<DeviceEvent> {
    // Where the start is not known, neither is which events are of the task's time.
    if since_ms == 0 {
        return Vec::new();
    }
    let Some(view) = shared.node.view().await else {
        return Vec::new();
    };
    let task = view.tasks.iter().find(|task| task.uid == uid.as_str());
    let Some(task) = task else {
        return Vec::new();
    };
    let devices = view.capacity.devices.into_iter();
    let held = DevicesHeld {
        devices: devices
            .filter(|device| task.devices.contains(&device.index))
            .collect(),
        infiniband,
        since_ms,
    };
    if held.devices.is_empty() && !held.infiniband {
        return Vec::new();
    }
    shared.health.events(&held).await
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
