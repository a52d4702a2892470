//! What tasks used over time, as far as they ran on this node.

use async_trait::async_trait;
use muster_model::id::AttemptUid;
use muster_model::task_use::{TaskUse, TaskUseNow};

/// Uses of tasks on this node.
#[async_trait]
pub trait Uses: std::fmt::Debug + Send + Sync {
    /// What is kept of a task attempt; none where nothing of it is kept here.
    async fn of(&self, uid: &AttemptUid) -> Option<TaskUse>;

    /// What a task attempt uses now; none if it has ended, or was not read yet.
    async fn now(&self, uid: &AttemptUid) -> Option<TaskUseNow>;
}
