//! What this machine and this agent are busy with, as Prometheus scrapes it.

use async_trait::async_trait;
use muster_model::metric::MetricFamily;

/// Figures of this node besides its tasks and devices.
#[async_trait]
pub trait Figures: std::fmt::Debug + Send + Sync {
    /// What can be read now. No two families have the same name.
    async fn machine(&self) -> Vec<MetricFamily>;
}
