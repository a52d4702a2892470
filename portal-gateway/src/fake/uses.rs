//! Uses in memory.

use async_trait::async_trait;
use muster_model::id::AttemptUid;
use muster_model::task_use::{DiskUse, TaskUse, TaskUseNow};

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

    async fn now(&self, uid: &AttemptUid) -> Option<TaskUseNow> {
        let point = *self.state().uses.get(uid)?.points.last()?;
        Some(TaskUseNow {
            point,
            cpu_usec: 2_500_000,
            disk: Some(DiskUse {
                read: 4096,
                written: 512,
            }),
        })
    }
}
