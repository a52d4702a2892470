//! What this machine and this agent are busy with.

use std::path::Path;

use async_trait::async_trait;
use muster_exec::figures;
use muster_model::health::{HealthCheck, HealthState};
use muster_model::metric::{MetricFamily, MetricKind};
use muster_portal_gateway::port::{DeviceFigure, Figures};
use tokio::time::Instant;

use crate::gpu_samples::GpuSamples;
use crate::health::NodeHealth;

/// Figures of the machine that this agent runs on.
#[derive(Debug)]
pub(super) struct LocalFigures {
    pub(super) gpus: GpuSamples,
    pub(super) health: NodeHealth,
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
        let health = self.health.now();
        let xids = health.last_xids.as_ref();
        families.extend(gpus.families(Instant::now(), &self.host_name, xids));
        families.push(held_back(&health.checks));
        families.extend(checks(&health.checks));
        families
    }

    async fn devices(&self) -> Vec<DeviceFigure> {
        self.gpus.borrow().devices(Instant::now())
    }
}

/// What checks of the machine's parts say; none of those that cannot tell.
fn checks(checks: &[HealthCheck]) -> Option<MetricFamily> {
    let family = MetricFamily::new(
        "muster_health_check",
        MetricKind::Gauge,
        "What a check of a part of the machine says: 0 good, 1 warn, 2 bad.",
    );
    let family = checks.iter().fold(family, |family, check| {
        let value = match check.state {
            HealthState::Good => 0.0,
            HealthState::Warn => 1.0,
            HealthState::Bad => 2.0,
            HealthState::Unknown => return family,
        };
        let labels = vec![
            ("check", check.name.clone()),
            ("subject", check.subject.to_string()),
            ("shadow", check.shadow.to_string()),
        ];
        family.with(labels, value)
    });
    (!family.samples.is_empty()).then_some(family)
}

/// How many checks would quarantine something, and are held back by the cluster's breaker.
fn held_back(checks: &[HealthCheck]) -> MetricFamily {
    let family = MetricFamily::new(
        "muster_health_held_back",
        MetricKind::Gauge,
        "Health checks whose quarantine the breaker of the cluster holds back.",
    );
    let held_back = checks.iter().filter(|check| check.held_back.is_some());
    family.with(Vec::new(), held_back.count() as f64)
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
    use crate::health::HealthNow;

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
            health: NodeHealth::new(HealthNow::default()).0,
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
