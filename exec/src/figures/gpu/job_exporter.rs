//! NVIDIA's GPUs under the names of OpenPAI's job exporter. `vender` is written as it writes it.

use muster_model::metric::{MetricFamily, MetricKind};

use super::super::count;
use super::{GpuFigures, GpuMetric, minor, percent};
use crate::inventory::amd::AmdSample;
use crate::inventory::nvidia::GpuSample;

/// Memory that a driver may keep for a GPU that no process has.
const LEAK_BYTES_MIN: u64 = 20 << 20;

/// What the driver's bits stand for, by the names that nvidia-smi gives them in XML.
const THROTTLE_REASONS: [(u64, &str); 9] = [
    (1, "gpu_idle"),
    (2, "applications_clocks_setting"),
    (4, "sw_power_cap"),
    (8, "hw_slowdown"),
    (16, "sync_boost"),
    (32, "sw_thermal_slowdown"),
    (64, "hw_thermal_slowdown"),
    (128, "hw_power_brake_slowdown"),
    (256, "display_clocks_setting"),
];

const METRICS: &[GpuMetric] = &[
    GpuMetric {
        name: "nvidiasmi_utilization_gpu",
        kind: MetricKind::Gauge,
        help: "Share of time in which a kernel ran, percent.",
        read: |it| it.utilization.map(f64::from),
    },
    GpuMetric {
        name: "nvidiasmi_utilization_memory",
        kind: MetricKind::Gauge,
        help: "Share of the memory that is used, percent.",
        read: memory_percent,
    },
    GpuMetric {
        name: "nvidiasmi_temperature",
        kind: MetricKind::Gauge,
        help: "Temperature of the GPU, degrees Celsius.",
        read: |it| it.temperature.gpu.map(f64::from),
    },
    GpuMetric {
        name: "nvidiasmi_memory_leak_count",
        kind: MetricKind::Gauge,
        help: "1 where more than 20 MiB are used and no process has the GPU.",
        read: leak,
    },
];

pub(super) fn families(figures: &GpuFigures<'_>) -> Vec<MetricFamily> {
    let gpus = figures.nvidia;
    let labels = |gpu: &GpuSample| vec![minor(gpu.identity.minor)];
    let mut families = GpuMetric::families(METRICS, gpus, labels);
    families.push(ecc(figures));
    families.push(performance(figures));
    families.push(common(
        "gpu_utilization",
        "Share of time in which a kernel ran, percent.",
        (gpus, |gpu| gpu.utilization.map(f64::from)),
        (figures.amd, |gpu| gpu.busy_percent.map(f64::from)),
    ));
    families.push(common(
        "gpu_mem_utilization",
        "Share of the memory that is used, percent.",
        (gpus, memory_percent),
        (figures.amd, super::amd::memory_percent),
    ));
    families
}

/// GPUs of a vendor, and how a figure of one is read.
type Figured<'a, S> = (&'a [S], fn(&S) -> Option<f64>);

/// A figure of GPUs of all vendors.
fn common(
    name: &str,
    help: &'static str,
    (nvidia, of_nvidia): Figured<'_, GpuSample>,
    (amd, of_amd): Figured<'_, AmdSample>,
) -> MetricFamily {
    let mut family = MetricFamily::new(name, MetricKind::Gauge, help);
    let mut push = |number, vendor: &str, value: Option<f64>| {
        if let Some(value) = value {
            family.push(vec![minor(number), ("vender", vendor.to_owned())], value);
        }
    };
    for gpu in nvidia {
        push(gpu.identity.minor, "nvidia", of_nvidia(gpu));
    }
    for gpu in amd {
        push(gpu.index, "amd", of_amd(gpu));
    }
    family
}

fn memory_percent(gpu: &GpuSample) -> Option<f64> {
    let memory = gpu.memory?;
    percent(memory.used, memory.total)
}

/// Only where there is a leak, as job exporter does. Processes in instances are not told of their card.
fn leak(gpu: &GpuSample) -> Option<f64> {
    let memory = gpu.memory.filter(|it| it.used > LEAK_BYTES_MIN)?;
    let is_unused = gpu.processes.as_ref().is_some_and(Vec::is_empty);
    // Drivers that count their own share as used always use more than that.
    (is_unused && gpu.instances.is_none() && memory.reserved.is_some()).then_some(1.0)
}

fn ecc(figures: &GpuFigures<'_>) -> MetricFamily {
    let mut family = MetricFamily::new(
        "nvidiasmi_ecc_error_count",
        MetricKind::Gauge,
        "Memory errors since the driver was loaded: single were corrected, double were not.",
    );
    for gpu in figures.nvidia {
        for (kind, errors) in [
            ("single", gpu.ecc.corrected),
            ("double", gpu.ecc.uncorrected),
        ] {
            if let Some(errors) = errors {
                let labels = vec![
                    ("node_name", figures.host_name.to_owned()),
                    minor(gpu.identity.minor),
                    ("type", kind.to_owned()),
                ];
                family.push(labels, count(errors));
            }
        }
    }
    family
}

fn performance(figures: &GpuFigures<'_>) -> MetricFamily {
    let mut family = MetricFamily::new(
        "nvidiasmi_performance_state",
        MetricKind::Gauge,
        "Performance state, 0 the fastest, with why the clocks are not at their highest.",
    );
    for gpu in figures.nvidia {
        if let (Some(state), Some(bits)) = (gpu.performance_state, gpu.throttle_reasons) {
            let labels = vec![
                ("node_name", figures.host_name.to_owned()),
                minor(gpu.identity.minor),
                ("clocks_throttle_reasons", reasons(bits)),
            ];
            family.push(labels, f64::from(state));
        }
    }
    family
}

/// Empty where there is no reason: OpenPAI's alert of a slow GPU looks for that.
fn reasons(bits: u64) -> String {
    let set = THROTTLE_REASONS.iter().filter(|(bit, _)| bits & bit != 0);
    let names: Vec<_> = set
        .map(|(_, name)| format!("clocks_throttle_reason_{name}"))
        .collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_by_the_names_of_nvidia_smi() {
        assert_eq!(reasons(0), "");
        assert_eq!(reasons(1), "clocks_throttle_reason_gpu_idle");
        let two = "clocks_throttle_reason_sw_power_cap,clocks_throttle_reason_hw_slowdown";
        assert_eq!(reasons(4 | 8), two);
    }
}
