//! A sample of a GPU as the judge of health reads it.

use muster_exec::health::reading::GpuReading;
use muster_exec::inventory::nvidia::GpuSample;

/// NVML's bits for clocks that are lowered because of heat: by the driver, by the GPU itself.
const THERMAL: u64 = 0x20 | 0x40;
/// The bit for clocks that the machine's power supply lowers.
const POWER_BRAKE: u64 = 0x80;

/// What a sample tells of a GPU's health.
pub(crate) fn reading(sample: &GpuSample) -> GpuReading {
    let has = |bits: u64| sample.throttle_reasons.map(|reasons| reasons & bits != 0);
    let rows = sample.remapped_rows.as_ref();
    let processes = sample.processes.as_ref();
    GpuReading {
        ecc_uncorrected: sample.ecc.uncorrected,
        ecc_uncorrected_ever: sample.ecc.uncorrected_ever,
        rows_pending: rows.map(|rows| rows.pending),
        rows_failed: rows.map(|rows| rows.failed),
        recovery_action: sample.recovery_action,
        temperature_c: sample.temperature.gpu,
        slowdown_c: sample.temperature.slowdown,
        slow_thermal: has(THERMAL),
        slow_power: has(POWER_BRAKE),
        clock_reason: has(u64::MAX),
        power_mw: sample.power.milliwatts.map(u64::from),
        power_limit_mw: sample.power.limit_milliwatts.map(u64::from),
        nvlinks_active: sample.nvlink.active,
        nvlinks_inactive: sample.nvlink.inactive,
        pcie_width: sample.pcie.width,
        pcie_width_max: sample.pcie.width_max,
        p_state: sample.performance_state,
        utilisation_percent: sample.utilization,
        processes: processes.map(|all| u32::try_from(all.len()).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_the_clocks_are_told_apart() {
        let of = |reasons| {
            let sample = GpuSample {
                throttle_reasons: reasons,
                ..GpuSample::default()
            };
            let reading = reading(&sample);
            (
                reading.slow_thermal,
                reading.slow_power,
                reading.clock_reason,
            )
        };
        let (no, yes) = (Some(false), Some(true));
        assert_eq!(of(None), (None, None, None));
        assert_eq!(of(Some(0)), (no, no, no));
        assert_eq!(of(Some(0x1)), (no, no, yes), "idle");
        assert_eq!(of(Some(0x40)), (yes, no, yes));
        assert_eq!(of(Some(0x80)), (no, yes, yes));
    }
}
