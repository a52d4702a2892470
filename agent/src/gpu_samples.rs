//! The newest samples of this node's GPUs, as figures and pages want them. Nothing is asked of a driver here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_exec::figures::{DeviceLoad, GpuFigures};
use muster_exec::inventory::amd::AmdSample;
use muster_exec::inventory::nvidia::GpuSample;
use muster_model::metric::MetricFamily;
use muster_portal_gateway::port::DeviceFigure;
use tokio::sync::watch;
use tokio::time::Instant;

/// Samples that are older than this are told no more.
const AGE_MAX: Duration = Duration::from_secs(60);

/// The newest samples. A cheap clone shares them.
pub(crate) type GpuSamples = watch::Receiver<Arc<NewestSamples>>;

/// What the last round gave that the driver answered.
#[derive(Debug, Default)]
pub(crate) struct NewestSamples {
    /// When it ended. None before the first one, and on a machine without GPUs.
    pub(crate) at: Option<Instant>,
    /// When it began: what the driver answered may be as old as that.
    pub(crate) began: Option<Instant>,
    /// NVIDIA's GPUs.
    pub(crate) nvidia: Vec<GpuSample>,
    /// AMD's GPUs.
    pub(crate) amd: Vec<AmdSample>,
    /// The same of all of them, of instances too.
    pub(crate) loads: Vec<DeviceLoad>,
    /// For how many seconds each device that is held has been idle, by its lasting name.
    pub(crate) idle_s: BTreeMap<String, u64>,
}

impl NewestSamples {
    /// Families for Prometheus: the age of the samples, and all figures of them while they are new enough.
    pub(crate) fn families(
        &self,
        now: Instant,
        host_name: &str,
        xids: Option<&BTreeMap<String, u32>>,
    ) -> Vec<MetricFamily> {
        let Some(at) = self.at else {
            return Vec::new();
        };
        let age = now.duration_since(at);
        let mut families = vec![MetricFamily::gauge(
            "muster_gpu_sample_age_seconds",
            "Time since the GPU drivers answered last. From 60 s on no figures of GPUs are told.",
            age.as_secs_f64(),
        )];
        if age <= AGE_MAX {
            let figures = GpuFigures {
                host_name,
                nvidia: &self.nvidia,
                amd: &self.amd,
                xids,
            };
            families.extend(figures.families());
        }
        families
    }

    /// How busy each device is; none of samples that are too old.
    pub(crate) fn devices(&self, now: Instant) -> Vec<DeviceFigure> {
        let is_new = self.at.is_some_and(|at| now.duration_since(at) <= AGE_MAX);
        let loads = self.loads.iter().filter(|_| is_new);
        loads.map(|load| self.device(load)).collect()
    }

    fn device(&self, load: &DeviceLoad) -> DeviceFigure {
        DeviceFigure {
            id: load.id.clone(),
            minor: load.minor,
            utilization: load.utilization,
            memory_used: load.memory_used,
            memory_total: load.memory_total,
            idle_s: self.idle_s.get(&load.id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn samples_that_are_too_old_are_told_no_more() {
        let load = DeviceLoad {
            id: "GPU-1".to_owned(),
            utilization: Some(5),
            ..DeviceLoad::default()
        };
        let gpu = GpuSample {
            utilization: Some(5),
            ..GpuSample::default()
        };
        let at = Instant::now();
        let newest = NewestSamples {
            at: Some(at),
            nvidia: vec![gpu],
            loads: vec![load],
            idle_s: BTreeMap::from([("GPU-1".to_owned(), 7)]),
            ..NewestSamples::default()
        };
        let names = |age_s| {
            let families = newest.families(at + Duration::from_secs(age_s), "n1", None);
            families
                .iter()
                .map(|it| it.name.clone())
                .collect::<Vec<_>>()
        };
        assert!(names(60).contains(&"DCGM_FI_DEV_GPU_UTIL".to_owned()));
        assert_eq!(names(61), ["muster_gpu_sample_age_seconds"]);
        assert_eq!(newest.devices(at)[0].idle_s, Some(7));
        assert!(newest.devices(at + Duration::from_secs(61)).is_empty());
        assert_eq!(NewestSamples::default().families(at, "n1", None), []);
    }
}
