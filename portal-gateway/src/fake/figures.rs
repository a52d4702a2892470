//! Figures in memory.

use async_trait::async_trait;
use muster_model::metric::MetricFamily;

use super::FakeCluster;
use crate::port::{DeviceFigure, Figures};

impl FakeCluster {
    /// Says how busy the node's devices are.
    pub fn set_device_figures(&self, devices: Vec<DeviceFigure>) {
        self.state().device_figures = devices;
    }
}

#[async_trait]
impl Figures for FakeCluster {
    async fn machine(&self) -> Vec<MetricFamily> {
        vec![MetricFamily::gauge("node_load1", "Load.", 0.5)]
    }

    async fn devices(&self) -> Vec<DeviceFigure> {
        self.state().device_figures.clone()
    }
}
