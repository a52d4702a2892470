//! A task that runs: on which node, and which attempt.

use muster_model::id::{AttemptUid, NodeId, TaskId};
use muster_model::state::SubState;
use muster_model::view::TaskView;

/// A task that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunningTask {
    pub(super) task: TaskId,
    pub(super) node: NodeId,
    pub(super) uid: AttemptUid,
    /// When its command began, milliseconds since the epoch.
    pub(super) launched_ms: Option<u64>,
}

/// The attempt of a task that runs now; none if the task does not run.
pub(super) fn running(task: &TaskView) -> Option<RunningTask> {
    let last = task.attempts.last()?;
    if last.sub_state != SubState::AttemptRunning {
        return None;
    }
    Some(RunningTask {
        task: task.id.clone(),
        node: last.node.clone()?,
        uid: last.uid.clone()?,
        launched_ms: last.launched,
    })
}
