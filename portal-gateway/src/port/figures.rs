//! What this machine and this agent are busy with, as Prometheus scrapes it.

use async_trait::async_trait;
use muster_model::metric::MetricFamily;

/// Figures of this node besides its tasks and devices.
#[async_trait]
pub trait Figures: std::fmt::Debug + Send + Sync {
    /// What can be read now. No two families have the same name.
    async fn machine(&self) -> Vec<MetricFamily>;

    /// How busy its devices are, as far as they are sampled. No two have the same name.
    async fn devices(&self) -> Vec<DeviceFigure>;
}

/// How busy a device is. A figure that the device does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFigure {
    /// Its lasting name, that of [`muster_model::node::Device::id`].
    pub id: String,
    /// The number of its device file. It need not be its index.
    pub minor: Option<u32>,
    /// Percent of time in which it was busy.
    pub utilization: Option<u32>,
    /// Memory that is used, bytes.
    pub memory_used: Option<u64>,
    /// All of its memory, bytes.
    pub memory_total: Option<u64>,
    /// For how many seconds the task that has it has done nothing with it.
    pub idle_s: Option<u64>,
}
