//! Figures in memory.

use async_trait::async_trait;
use muster_model::metric::MetricFamily;

use super::FakeCluster;
use crate::port::Figures;

#[async_trait]
impl Figures for FakeCluster {
    async fn machine(&self) -> Vec<MetricFamily> {
        vec![MetricFamily::gauge("node_load1", "Load.", 0.5)]
    }
}
