//! What this machine and this agent are busy with.

use std::path::Path;

use async_trait::async_trait;
use muster_exec::figures;
use muster_model::metric::MetricFamily;
use muster_portal_gateway::port::{DeviceFigure, Figures};
use tokio::time::Instant;

use crate::gpu_samples::GpuSamples;

/// Figures of the machine that this agent runs on.
#[derive(Debug)]
pub(super) struct LocalFigures {
    pub(super) gpus: GpuSamples,
    pub(super) host_name: String,
}

#[async_trait]
impl Figures for LocalFigures {
    async fn machine(&self) -> Vec<MetricFamily> {
        // Files of /sys may take long to read on a machine that is not well.
        let read = tokio::task::spawn_blocking(|| {
            let root = Path::new("/");
            let (mut families, own) = (figures::machine(root), figures::process(root));
            families.extend(own);
            families
        });
        let mut families = read.await.unwrap_or_default();
        let gpus = self.gpus.borrow().clone();
        families.extend(gpus.families(Instant::now(), &self.host_name));
        families
    }

    async fn devices(&self) -> Vec<DeviceFigure> {
        self.gpus.borrow().devices(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_exec::figures::loads;
    use muster_exec::inventory::nvidia::GpuSample;
    use muster_portal_gateway::conformance;
    use tokio::sync::watch;

    use super::*;
    use crate::gpu_samples::NewestSamples;

    #[tokio::test]
    async fn this_node_does_what_every_node_does() {
        let gpu = GpuSample {
            utilization: Some(5),
            ..GpuSample::default()
        };
        let newest = NewestSamples {
            at: Some(Instant::now()),
            loads: loads(std::slice::from_ref(&gpu), &[]),
            nvidia: vec![gpu],
            ..NewestSamples::default()
        };
        let (_sender, gpus) = watch::channel(Arc::new(newest));
        let figures = LocalFigures {
            gpus,
            host_name: "n1".to_owned(),
        };
        conformance::figures(&figures).await;
        let families = figures.machine().await;
        let own = families
            .iter()
            .find(|it| it.name == "process_resident_memory_bytes");
        assert!(own.is_some_and(|it| it.samples[0].value > 1e6));
    }
}
