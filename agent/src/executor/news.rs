//! What runners tell, judged and passed on to the ledger in the order it happened.

use std::sync::Arc;

use muster_control::ledger::Observation;
use muster_exec::task::TaskEvent;
use muster_model::exit::{Evidence, RawExit, Verdict};
use muster_model::health::DeviceEvent;
use muster_model::id::AttemptUid;
use muster_model::node::{Capacity, NodeTask};
use muster_model::rule_test::JudgedAs;
use muster_model::view::TaskHold;
use tokio::sync::mpsc;

use super::ExecutorShared;
use crate::documents::failure_rules::Rules;
use crate::failures::{FailureNote, is_failure};
use crate::health::DevicesHeld;
use crate::loops::node::LedgerView;

/// Bytes of the reason that is told of a task whose container is kept: every voter has it.
const HOLD_REASON_BYTES_MAX: usize = 300;

/// Passes events on until the agent ends. One at a time: a task's end must reach the ledger
/// before the news that nothing of it is left.
pub(super) async fn run(shared: Arc<ExecutorShared>, mut events: mpsc::Receiver<TaskEvent>) {
    while let Some(event) = events.recv().await {
        let (uid, what) = match event {
            TaskEvent::Started { .. } => continue,
            TaskEvent::Ready { uid } => (uid, Observation::Ready),
            TaskEvent::Running { uid, .. } => (uid, Observation::Running),
            TaskEvent::LaunchFailed { uid, exit } => {
                let verdict = Box::new(judge_launch(&shared.rules.now(), exit));
                (uid, Observation::LaunchFailed(verdict))
            }
            TaskEvent::Held {
                uid,
                mut evidence,
                launched_ms: since_ms,
                infiniband,
                until_ms,
            } => {
                let view = shared.node.view().await;
                let task = view.as_ref().and_then(|view| LedgerTask::of(view, &uid));
                evidence.device_events = device_events(&shared, task, (infiniband, since_ms)).await;
                let verdict = judge(&shared.rules.now(), &evidence);
                let hold = on_hold(&verdict, until_ms);
                shared.held().insert(uid.clone(), verdict);
                (uid, Observation::OnHold(Box::new(hold)))
            }
            TaskEvent::Exited {
                uid,
                mut evidence,
                launched_ms: since_ms,
                infiniband,
                usage,
            } => {
                let view = shared.node.view().await;
                let task = view.as_ref().and_then(|view| LedgerTask::of(view, &uid));
                evidence.device_events = device_events(&shared, task, (infiniband, since_ms)).await;
                let rules = shared.rules.now();
                // What happened while its container was kept is no part of the failure.
                let held = shared.held().remove(&uid);
                let mut verdict = held.unwrap_or_else(|| judge(&rules, &evidence));
                if let Some(LedgerTask { task, .. }) = task
                    && is_failure(&evidence.exit, verdict.code())
                {
                    shared.failures.note(FailureNote {
                        uid: uid.clone(),
                        job: task.job.clone(),
                        task: task.task.clone(),
                        evidence: *evidence,
                        rules,
                        judged: JudgedAs::from(&verdict),
                    });
                }
                verdict.used = Some(shared.uses.total(&uid, usage));
                (uid, Observation::Ended(Box::new(verdict)))
            }
            TaskEvent::Gone { uid } => {
                shared.lock().remove(&uid);
                shared.held().remove(&uid);
                shared.storages.release(&uid);
                (uid, Observation::Gone)
            }
        };
        shared.node.observed(uid, what).await;
    }
}

/// What is shown of a task whose container is kept.
fn on_hold(verdict: &Verdict, until: u64) -> TaskHold {
    let reason = verdict.diagnostics.trim();
    TaskHold {
        until,
        code: verdict.code(),
        phrase: verdict.spec.phrase.clone(),
        reason: reason[..reason.floor_char_boundary(HOLD_REASON_BYTES_MAX)].to_owned(),
    }
}

/// A task as the ledger holds it.
#[derive(Clone, Copy)]
struct LedgerTask<'a> {
    task: &'a NodeTask,
    capacity: &'a Capacity,
}

impl<'a> LedgerTask<'a> {
    fn of(view: &'a LedgerView, uid: &AttemptUid) -> Option<Self> {
        let task = view.tasks.iter().find(|task| task.uid == uid.as_str())?;
        let capacity = &view.capacity;
        Some(Self { task, capacity })
    }
}

/// What was reported of a task's devices since its first command began.
async fn device_events(
    shared: &ExecutorShared,
    task: Option<LedgerTask<'_>>,
    (infiniband, since_ms): (bool, u64),
) -> Vec<DeviceEvent> {
    // Where the start is not known, neither is which events are of the task's time.
    let Some(LedgerTask { task, capacity }) = task.filter(|_| since_ms != 0) else {
        return Vec::new();
    };
    let devices = capacity.devices.iter();
    let held = DevicesHeld {
        devices: devices
            .filter(|device| task.devices.contains(&device.index))
            .cloned()
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
pub(super) fn judge_launch(rules: &Rules, exit: RawExit) -> Verdict {
    judge(
        rules,
        &Evidence {
            exit,
            user_log: Vec::new(),
            user_log_from: 0,
            platform_log: Vec::new(),
            device_events: Vec::new(),
        },
    )
}

/// Searching long logs takes milliseconds, so other tasks of this thread go elsewhere.
fn judge(rules: &Rules, evidence: &Evidence) -> Verdict {
    tokio::task::block_in_place(|| rules.judge(evidence))
}
