//! This node's copies of groups, for what answers by them.

use std::time::Duration;

use muster_consensus::{GroupId, StoreId};
use muster_control::answers::{CopiesPort, Event};
use muster_control::groups::{ApplyOutcome, GroupError, Local, LocalGroup};
use muster_control::now::Now;
use muster_gossip::member::MemberId;
use muster_model::id::NodeId;

use super::events::log;
use super::handle::Groups;
use crate::clock;

impl CopiesPort for Groups {
    fn now(&self) -> Now {
        Now {
            steady: clock::since_boot(),
            wall: clock::now(),
        }
    }

    async fn pause(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        tokio::task::spawn_blocking(work).await.ok()
    }

    async fn propose(&self, group: GroupId, entry: &[u8]) -> Result<ApplyOutcome, GroupError> {
        Self::propose(self, group, entry).await
    }

    async fn read<T: Send + 'static>(
        &self,
        group: GroupId,
        read: impl FnOnce(LocalGroup<'_>) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        Self::read(self, group, read).await
    }

    async fn renew(&self, group: GroupId, node: NodeId) -> Result<(), GroupError> {
        Self::renew(self, group, node).await
    }

    async fn look<T: Send + 'static>(
        &self,
        group: GroupId,
        look: impl FnOnce(Local<'_>) -> T + Send + 'static,
    ) -> Result<Option<T>, GroupError> {
        Self::look(self, group, look).await
    }

    async fn going(&self, group: GroupId, member: MemberId) -> Result<(), GroupError> {
        Self::going(self, group, member).await
    }

    async fn off(&self, group: GroupId, node: NodeId) -> Result<(), GroupError> {
        Self::off(self, group, node).await
    }

    async fn store(&self) -> Result<StoreId, GroupError> {
        Self::store(self).await
    }

    fn tell(&self, event: Event) {
        log(event);
    }
}
