//! What tasks of this node used.

use async_trait::async_trait;
use muster_exec::engine::Usage;
use muster_model::id::AttemptUid;
use muster_model::task_use::{TaskUse, TaskUseNow, TaskUsed};
use muster_portal_gateway::port::Uses;

use crate::device_uses::DeviceUses;
use crate::task_uses::TaskUses;

/// What tasks of this node used, and what their devices did meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalUses {
    pub(crate) tasks: TaskUses,
    pub(crate) devices: DeviceUses,
}

impl LocalUses {
    /// What a task used in all that has ended, by the kernel's last reading and all those before.
    pub(crate) fn total(&self, uid: &AttemptUid, last: Usage) -> TaskUsed {
        let last_mb = last.memory_bytes >> 20;
        let peak_mb = last.memory_peak_bytes.map(|bytes| bytes >> 20);
        TaskUsed {
            cpu_ms: last.cpu_usec / 1000,
            memory_mb: self.tasks.memory_mb_max(uid).max(whole(last_mb)),
            memory_peak_mb: peak_mb.map(whole),
            devices: self.devices.totals(uid),
        }
    }
}

fn whole(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[async_trait]
impl Uses for LocalUses {
    async fn of(&self, uid: &AttemptUid) -> Option<TaskUse> {
        let used = self.tasks.kept(uid)?;
        Some(TaskUse {
            devices: self.devices.of(uid),
            ..used
        })
    }

    async fn now(&self, uid: &AttemptUid) -> Option<TaskUseNow> {
        self.tasks.now(uid)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_exec::engine::Usage;
    use muster_exec::figures::DeviceLoad;
    use muster_portal_gateway::conformance;

    use super::*;

    #[tokio::test]
    async fn this_node_does_what_every_node_does() {
        let uses = LocalUses {
            tasks: TaskUses::default(),
            devices: DeviceUses::default(),
        };
        let uid: AttemptUid = "a-0".parse().unwrap();
        let load = DeviceLoad {
            id: "GPU-a".to_owned(),
            utilization: Some(7),
            ..DeviceLoad::default()
        };
        for at_ms in [10_000, 20_000] {
            let used = BTreeMap::from([(uid.clone(), Usage::default())]);
            uses.tasks.note(at_ms, &used);
            let held = BTreeMap::from([(uid.clone(), vec![(0, "GPU-a".to_owned())])]);
            uses.devices.note(at_ms, std::slice::from_ref(&load), held);
        }
        conformance::uses(&uses, &uid).await;
    }
}
