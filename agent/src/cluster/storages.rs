//! Storages: what the cluster's document declares.

use async_trait::async_trait;
use muster_model::storage::Storage;
use muster_portal_gateway::port::{PortError, Storages};

use crate::documents::storages::StoragesInForce;

#[async_trait]
impl Storages for StoragesInForce {
    async fn list(&self) -> Result<Vec<Storage>, PortError> {
        Ok(self.now().storages.clone())
    }
}
