//! Storages in memory.

use async_trait::async_trait;
use muster_model::storage::{ClusterStorages, Storage};

use super::FakeCluster;
use crate::port::{PortError, Storages};

impl FakeCluster {
    /// Declares storages, and replaces those that there were.
    pub fn set_storages(&self, storages: ClusterStorages) {
        self.state().storages = storages;
    }
}

#[async_trait]
impl Storages for FakeCluster {
    async fn list(&self) -> Result<Vec<Storage>, PortError> {
        Ok(self.state().storages.storages.clone())
    }
}
