//! What tasks of this node used.

use async_trait::async_trait;
use muster_model::id::AttemptUid;
use muster_model::task_use::TaskUse;
use muster_portal_gateway::port::Uses;

use crate::task_uses::TaskUses;

#[async_trait]
impl Uses for TaskUses {
    async fn of(&self, uid: &AttemptUid) -> Option<TaskUse> {
        self.kept(uid)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_exec::engine::Usage;
    use muster_portal_gateway::conformance;

    use super::*;

    #[tokio::test]
    async fn this_node_does_what_every_node_does() {
        let uses = TaskUses::default();
        let uid: AttemptUid = "a-0".parse().unwrap();
        for at_ms in [10_000, 20_000] {
            let used = BTreeMap::from([(uid.clone(), Usage::default())]);
            uses.note(at_ms, &used);
        }
        conformance::uses(&uses, &uid).await;
    }
}
