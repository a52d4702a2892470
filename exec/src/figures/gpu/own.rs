//! What neither dcgm-exporter nor job exporter tells of NVIDIA's GPUs.

use muster_model::metric::{MetricFamily, MetricKind};

use super::super::count;
use super::GpuMetric;
use crate::inventory::nvidia::GpuSample;

const METRICS: &[GpuMetric] = &[
    GpuMetric {
        name: "muster_gpu_recovery_action",
        kind: MetricKind::Gauge,
        help: "What the driver wants done: 0 nothing, 1 reset the GPU, 2 restart the machine, 3 drain its peers, 4 drain \
               and reset it, 5 recover the IMEX domain.",
        read: |it| it.recovery_action.map(f64::from),
    },
    GpuMetric {
        name: "muster_gpu_processes",
        kind: MetricKind::Gauge,
        help: "Processes with memory on the GPU.",
        read: |it| it.processes.as_ref().map(|all| count(all.len() as u64)),
    },
    GpuMetric {
        name: "muster_gpu_nvlinks_active",
        kind: MetricKind::Gauge,
        help: "NVLinks of the GPU that carry data.",
        read: |it| it.nvlink.active.map(f64::from),
    },
    GpuMetric {
        name: "muster_gpu_nvlinks_inactive",
        kind: MetricKind::Gauge,
        help: "NVLinks of the GPU that carry no data.",
        read: |it| it.nvlink.inactive.map(f64::from),
    },
    GpuMetric {
        name: "muster_gpu_nvlink_sent_bytes_total",
        kind: MetricKind::Counter,
        help: "Data that the GPU sent over all its NVLinks.",
        read: |it| it.nvlink.sent_bytes.map(count),
    },
    GpuMetric {
        name: "muster_gpu_nvlink_received_bytes_total",
        kind: MetricKind::Counter,
        help: "Data that the GPU received over all its NVLinks.",
        read: |it| it.nvlink.received_bytes.map(count),
    },
];

pub(super) fn families(gpus: &[GpuSample]) -> Vec<MetricFamily> {
    let labels = |gpu: &GpuSample| {
        vec![
            ("gpu", gpu.identity.index.to_string()),
            ("uuid", gpu.identity.uuid.clone()),
        ]
    };
    GpuMetric::families(METRICS, gpus, labels)
}
