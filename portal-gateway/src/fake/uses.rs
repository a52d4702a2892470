//! Uses in memory.

use async_trait::async_trait;
use muster_model::id::AttemptUid;
use muster_model::task_use::TaskUse;

use super::FakeCluster;
use crate::port::Uses;

impl FakeCluster {
    /// Says what a task attempt used.
    pub fn set_use(&self, uid: &AttemptUid, used: TaskUse) {
        self.state().uses.insert(uid.clone(), used);
    }
}

#[async_trait]
impl Uses for FakeCluster {
    async fn of(&self, uid: &AttemptUid) -> Option<TaskUse> {
        self.state().uses.get(uid).cloned()
    }
}
