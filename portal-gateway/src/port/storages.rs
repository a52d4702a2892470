//! Storages that the cluster declares.

use async_trait::async_trait;
use muster_model::storage::Storage;

use super::PortError;

/// Storages. Which of them a user may use, their groups say.
#[async_trait]
pub trait Storages: std::fmt::Debug + Send + Sync {
    /// Every storage, secrets included, in the order that the cluster's document has them.
    async fn list(&self) -> Result<Vec<Storage>, PortError>;
}
