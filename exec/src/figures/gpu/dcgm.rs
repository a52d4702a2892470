//! NVIDIA's GPUs under the names and labels of dcgm-exporter, as far as the driver's library tells the same.
//!
//! The label of the host is `hostname`, as in releases since May 2026; older ones write `Hostname`. Of a card in MIG
//! mode the memory is told for each instance, as dcgm-exporter does. `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is not
//! told: DCGM makes it by rules of its own.

use muster_model::metric::{MetricFamily, MetricKind};

use super::super::count;
use super::{GpuFigures, GpuMetric};
use crate::inventory::nvidia::{GpuActivity, GpuMemory, GpuSample, MigSample, RemappedRows};

const MIB: u64 = 1 << 20;

pub(super) fn families(figures: &GpuFigures<'_>) -> Vec<MetricFamily> {
    let tables = [DEVICE, LIFE, LINKS, ACTIVITY];
    let host = figures.host_name;
    let mut families: Vec<_> = tables
        .into_iter()
        .flat_map(|table| GpuMetric::families(table, figures.nvidia, |gpu| labels(gpu, host)))
        .collect();
    families.extend(memory(figures));
    families.push(xids(figures));
    families
}

fn labels(gpu: &GpuSample, host: &str) -> Vec<(&'static str, String)> {
    let identity = &gpu.identity;
    let mut labels = vec![
        ("gpu", identity.index.to_string()),
        ("UUID", identity.uuid.clone()),
    ];
    labels.extend(
        identity
            .pci
            .as_deref()
            .map(|pci| ("pci_bus_id", bus_id(pci))),
    );
    labels.extend([
        ("device", format!("nvidia{}", identity.minor)),
        ("modelName", identity.model.clone()),
        ("hostname", host.to_owned()),
    ]);
    labels
}

/// Of `0000:1a:00.0` the `00000000:1A:00.0` that NVIDIA writes.
fn bus_id(pci: &str) -> String {
    let (domain, rest) = pci.split_once(':').unwrap_or(("", pci));
    format!("{domain:0>8}:{rest}").to_uppercase()
}

/// The labels of an instance: those of its card, and its own.
fn instance_labels(
    gpu: &GpuSample,
    instance: &MigSample,
    host: &str,
) -> Vec<(&'static str, String)> {
    let profile = instance.model.rsplit_once("MIG ");
    let profile = profile.map_or(&*instance.model, |(_, profile)| profile);
    let mut labels = labels(gpu, host);
    labels.push(("GPU_I_PROFILE", profile.to_owned()));
    labels.push(("GPU_I_ID", instance.gpu_instance.to_string()));
    labels
}

fn memory(figures: &GpuFigures<'_>) -> Vec<MetricFamily> {
    type Part = fn(&GpuMemory) -> Option<u64>;
    let parts: [(&str, &str, Part); 4] = [
        ("DCGM_FI_DEV_FB_TOTAL", "Memory of the GPU, MiB.", |it| {
            Some(it.total)
        }),
        ("DCGM_FI_DEV_FB_FREE", "Memory that is free, MiB.", |it| {
            Some(it.free)
        }),
        ("DCGM_FI_DEV_FB_USED", "Memory that is used, MiB.", |it| {
            Some(it.used)
        }),
        (
            "DCGM_FI_DEV_FB_RESERVED",
            "Memory that the driver keeps for itself, MiB.",
            |it| it.reserved,
        ),
    ];
    let family = |(name, help, part): (&str, &'static str, Part)| {
        let mut family = MetricFamily::new(name, MetricKind::Gauge, help);
        for (labels, memory) in memories(figures) {
            if let Some(bytes) = part(&memory) {
                family.push(labels, count(bytes / MIB));
            }
        }
        family
    };
    parts.into_iter().map(family).collect()
}

/// Memory of cards, and of instances in place of their card.
fn memories(figures: &GpuFigures<'_>) -> Vec<(Vec<(&'static str, String)>, GpuMemory)> {
    let host = figures.host_name;
    let mut found = Vec::new();
    for gpu in figures.nvidia {
        match &gpu.instances {
            None => found.extend(gpu.memory.map(|memory| (labels(gpu, host), memory))),
            Some(instances) => found.extend(instances.iter().filter_map(|instance| {
                Some((instance_labels(gpu, instance, host), instance.memory?))
            })),
        }
    }
    found
}

fn xids(figures: &GpuFigures<'_>) -> MetricFamily {
    let mut family = MetricFamily::new(
        "DCGM_FI_DEV_XID_ERRORS",
        MetricKind::Gauge,
        "Number of the last Xid in the kernel's log; 0 if there was none.",
    );
    let Some(xids) = figures.xids else {
        return family;
    };
    for gpu in figures.nvidia {
        if let Some(pci) = &gpu.identity.pci {
            let last = xids.get(pci).copied().unwrap_or(0);
            family.push(labels(gpu, figures.host_name), f64::from(last));
        }
    }
    family
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    read: fn(&GpuSample) -> Option<f64>,
) -> GpuMetric {
    GpuMetric {
        name,
        kind: MetricKind::Gauge,
        help,
        read,
    }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    read: fn(&GpuSample) -> Option<f64>,
) -> GpuMetric {
    GpuMetric {
        kind: MetricKind::Counter,
        ..gauge(name, help, read)
    }
}

/// What a GPU is busy with now.
const DEVICE: &[GpuMetric] = &[
    gauge(
        "DCGM_FI_DEV_SM_CLOCK",
        "Clock of the processors, MHz.",
        |it| it.sm_clock_mhz.map(f64::from),
    ),
    gauge("DCGM_FI_DEV_MEM_CLOCK", "Clock of the memory, MHz.", |it| {
        it.memory_clock_mhz.map(f64::from)
    }),
    gauge(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "Temperature of the memory, degrees Celsius.",
        |it| it.temperature.memory.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_GPU_TEMP",
        "Temperature of the GPU, degrees Celsius.",
        |it| it.temperature.gpu.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_SLOWDOWN_TEMP",
        "Temperature at which the clocks are lowered, degrees Celsius.",
        |it| it.temperature.slowdown.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_SHUTDOWN_TEMP",
        "Temperature at which the GPU turns itself off, degrees Celsius.",
        |it| it.temperature.shutdown.map(f64::from),
    ),
    gauge("DCGM_FI_DEV_POWER_USAGE", "Power that is drawn, W.", |it| {
        it.power.milliwatts.map(watts)
    }),
    gauge(
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "The most power that may be drawn, W.",
        |it| it.power.limit_milliwatts.map(watts),
    ),
    counter(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "Energy that was drawn since the driver was loaded, mJ.",
        |it| it.power.energy_millijoules.map(count),
    ),
    gauge(
        "DCGM_FI_DEV_GPU_UTIL",
        "Share of time in which a kernel ran, percent.",
        |it| it.utilization.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "Share of time in which the memory was read or written, percent.",
        |it| it.memory_utilization.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_ENC_UTIL",
        "Load of the video encoder, percent.",
        |it| it.encoder_utilization.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_DEC_UTIL",
        "Load of the video decoder, percent.",
        |it| it.decoder_utilization.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_PSTATE",
        "Performance state, 0 the fastest.",
        |it| it.performance_state.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        "Why the clocks are not at their highest, as the driver's bits.",
        |it| it.throttle_reasons.map(count),
    ),
    gauge(
        "DCGM_FI_DEV_PCIE_LINK_GEN",
        "Generation of the PCIe link now.",
        |it| it.pcie.generation.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
        "Highest generation of the PCIe link.",
        |it| it.pcie.generation_max.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_PCIE_LINK_WIDTH",
        "Lanes of the PCIe link now.",
        |it| it.pcie.width.map(f64::from),
    ),
    gauge(
        "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
        "Most lanes of the PCIe link.",
        |it| it.pcie.width_max.map(f64::from),
    ),
];

/// What wears a GPU.
const LIFE: &[GpuMetric] = &[
    counter(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "Packets on PCIe that were sent again.",
        |it| it.pcie.replays.map(count),
    ),
    counter(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "Memory errors that were corrected, since the driver was loaded.",
        |it| it.ecc.corrected.map(count),
    ),
    counter(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "Memory errors that were not corrected, since the driver was loaded.",
        |it| it.ecc.uncorrected.map(count),
    ),
    counter(
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
        "Memory errors that were corrected, in the GPU's life.",
        |it| it.ecc.corrected_ever.map(count),
    ),
    counter(
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "Memory errors that were not corrected, in the GPU's life.",
        |it| it.ecc.uncorrected_ever.map(count),
    ),
    counter(
        "DCGM_FI_DEV_RETIRED_SBE",
        "Pages that were retired because of errors that were corrected.",
        |it| it.retired_pages.single_bit.map(count),
    ),
    counter(
        "DCGM_FI_DEV_RETIRED_DBE",
        "Pages that were retired because of errors that were not corrected.",
        |it| it.retired_pages.double_bit.map(count),
    ),
    gauge(
        "DCGM_FI_DEV_RETIRED_PENDING",
        "Whether pages are retired at the next reset.",
        |it| it.retired_pages.pending.map(flag),
    ),
    counter(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Rows that were replaced because of errors that were not corrected.",
        |it| rows(it, |rows| f64::from(rows.uncorrectable)),
    ),
    counter(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "Rows that were replaced because of errors that were corrected.",
        |it| rows(it, |rows| f64::from(rows.correctable)),
    ),
    gauge(
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "Whether a row is replaced at the next reset.",
        |it| rows(it, |rows| flag(rows.pending)),
    ),
    gauge(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "Whether a row could not be replaced.",
        |it| rows(it, |rows| flag(rows.failed)),
    ),
];

/// Errors of the links to other GPUs.
const LINKS: &[GpuMetric] = &[
    counter(
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "Errors in the flow control of NVLink.",
        |it| it.nvlink.crc_flit_errors.map(count),
    ),
    counter(
        "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
        "Errors in the data of NVLink.",
        |it| it.nvlink.crc_data_errors.map(count),
    ),
    counter(
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        "Packets on NVLink that were sent again.",
        |it| it.nvlink.replay_errors.map(count),
    ),
    counter(
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "Times that an NVLink was trained again.",
        |it| it.nvlink.recovery_errors.map(count),
    ),
];

/// Activity by the GPU's own counters. Only GPUs of Hopper and later have them without DCGM.
const ACTIVITY: &[GpuMetric] = &[
    gauge(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "Ratio of time in which the graphics or compute engine was active.",
        |it| active(it, |it| it.engine),
    ),
    gauge(
        "DCGM_FI_PROF_SM_ACTIVE",
        "Ratio of cycles in which a multiprocessor had a warp.",
        |it| active(it, |it| it.sm),
    ),
    gauge(
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "Ratio of warps that were resident to those that fit.",
        |it| active(it, |it| it.occupancy),
    ),
    gauge(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "Ratio of cycles in which a tensor core worked.",
        |it| active(it, |it| it.tensor),
    ),
    gauge(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "Ratio of cycles in which the memory was read or written.",
        |it| active(it, |it| it.dram),
    ),
    gauge(
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
        "Ratio of cycles in which units for 64 bit numbers worked.",
        |it| active(it, |it| it.fp64),
    ),
    gauge(
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        "Ratio of cycles in which units for 32 bit numbers worked.",
        |it| active(it, |it| it.fp32),
    ),
    gauge(
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
        "Ratio of cycles in which units for 16 bit numbers worked.",
        |it| active(it, |it| it.fp16),
    ),
    gauge(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "Bytes a second over PCIe from the GPU.",
        |it| active(it, |it| it.pcie_sent),
    ),
    gauge(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "Bytes a second over PCIe to the GPU.",
        |it| active(it, |it| it.pcie_received),
    ),
];

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1000.0
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn rows(gpu: &GpuSample, read: fn(&RemappedRows) -> f64) -> Option<f64> {
    gpu.remapped_rows.as_ref().map(read)
}

fn active(gpu: &GpuSample, read: fn(&GpuActivity) -> Option<f64>) -> Option<f64> {
    gpu.activity.as_ref().and_then(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_nvidia_does() {
        assert_eq!(bus_id("0000:1a:00.0"), "00000000:1A:00.0");
        assert_eq!(bus_id("10000:01:00.0"), "00010000:01:00.0");
    }
}
