//! Figures of GPUs, made of samples: under the names of NVIDIA's dcgm-exporter and of OpenPAI's job exporter, and our
//! own for what neither tells. Nothing is asked of a driver here.

mod amd;
mod dcgm;
mod job_exporter;
mod load;
mod own;

use std::collections::BTreeMap;

use muster_model::metric::{MetricFamily, MetricKind};

use crate::inventory::amd::AmdSample;
use crate::inventory::nvidia::GpuSample;
pub use load::{DeviceLoad, loads};

/// What figures of GPUs are made of.
#[derive(Clone, Copy, Debug)]
pub struct GpuFigures<'a> {
    /// The machine's host name.
    pub host_name: &'a str,
    /// NVIDIA's GPUs.
    pub nvidia: &'a [GpuSample],
    /// AMD's GPUs.
    pub amd: &'a [AmdSample],
    /// The number of the last Xid in the kernel's log, by the address of the GPU as the kernel writes it. A GPU
    /// without one has had none since the log is read.
    pub xids: Option<&'a BTreeMap<String, u32>>,
}

impl GpuFigures<'_> {
    /// All families that have samples. No two have the same name.
    pub fn families(&self) -> Vec<MetricFamily> {
        let parts = [
            dcgm::families(self),
            job_exporter::families(self),
            amd::families(self.amd),
            own::families(self.nvidia),
        ];
        let families = parts.into_iter().flatten();
        families.filter(|it| !it.samples.is_empty()).collect()
    }
}

/// A figure that each GPU has one of.
struct GpuMetric {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    read: fn(&GpuSample) -> Option<f64>,
}

impl GpuMetric {
    /// Of those of a table, a family each.
    fn families(
        table: &[Self],
        gpus: &[GpuSample],
        labels: impl Fn(&GpuSample) -> Vec<(&'static str, String)>,
    ) -> Vec<MetricFamily> {
        let family = |metric: &Self| {
            let mut family = MetricFamily::new(metric.name, metric.kind, metric.help);
            for gpu in gpus {
                if let Some(value) = (metric.read)(gpu) {
                    family.push(labels(gpu), value);
                }
            }
            family
        };
        table.iter().map(family).collect()
    }
}

/// The label of OpenPAI's job exporter: the number of the GPU's device file, which need not be its index.
fn minor(number: u32) -> (&'static str, String) {
    ("minor_number", number.to_string())
}

/// A share in percent; none of nothing.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| super::count(part) / super::count(whole) * 100.0)
}

#[cfg(test)]
mod tests;
