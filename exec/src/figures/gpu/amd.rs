//! AMD's GPUs under the names of OpenPAI's job exporter. `minor_number` is the number in the order of KFD.

use muster_model::metric::{MetricFamily, MetricKind};

use super::{minor, percent};
use crate::inventory::amd::AmdSample;

/// A figure that each GPU has one of.
type AmdFigure = (&'static str, &'static str, fn(&AmdSample) -> Option<f64>);

const METRICS: [AmdFigure; 4] = [
    (
        "rocmsmi_utilization_gpu",
        "Share of time in which the GPU was busy, percent.",
        |it| it.busy_percent.map(f64::from),
    ),
    (
        "rocmsmi_utilization_memory",
        "Share of the memory that is used, percent.",
        memory_percent,
    ),
    (
        "rocmsmi_temperature",
        "Temperature of the GPU, degrees Celsius.",
        |it| it.temperature_milli.map(|milli| f64::from(milli) / 1000.0),
    ),
    (
        "muster_amd_gpu_power_watts",
        "Power that the GPU draws.",
        |it| {
            it.power_microwatts
                .map(|micro| super::super::count(micro) / 1e6)
        },
    ),
];

pub(super) fn families(gpus: &[AmdSample]) -> Vec<MetricFamily> {
    let family = |(name, help, read): AmdFigure| {
        let mut family = MetricFamily::new(name, MetricKind::Gauge, help);
        for gpu in gpus {
            if let Some(value) = read(gpu) {
                family.push(vec![minor(gpu.index)], value);
            }
        }
        family
    };
    METRICS.into_iter().map(family).collect()
}

pub(super) fn memory_percent(gpu: &AmdSample) -> Option<f64> {
    percent(gpu.memory_used?, gpu.memory_total?)
}
