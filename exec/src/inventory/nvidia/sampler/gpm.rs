//! Activity by the GPU's own counters (GPU performance monitoring): the difference of two readings.

use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};

use super::super::sample::GpuActivity;
use super::asked::AskedCalls;

const METRICS: [GpmMetricId; 10] = [
    GpmMetricId::GraphicsUtil,
    GpmMetricId::SmUtil,
    GpmMetricId::SmOccupancy,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
    GpmMetricId::Fp64Util,
    GpmMetricId::Fp32Util,
    GpmMetricId::Fp16Util,
    GpmMetricId::PcieTxPerSec,
    GpmMetricId::PcieRxPerSec,
];
const PERCENT: f64 = 100.0;
const MIB: f64 = 1_048_576.0;

/// The counters at the last reading.
#[derive(Debug, Default)]
pub(super) struct GpmWindow<'nvml> {
    last: Option<GpmSample<'nvml>>,
}

impl<'nvml> GpmWindow<'nvml> {
    /// Activity since the last call. None at the first one, and where the GPU or its driver has no such counters.
    pub(super) fn activity(
        &mut self,
        calls: &mut AskedCalls,
        (nvml, device): (&'nvml Nvml, &Device<'nvml>),
    ) -> Option<GpuActivity> {
        let now = calls.ask("GPM", || match device.gpm_support()? {
            true => device.gpm_sample(),
            false => Err(NvmlError::NotSupported),
        });
        let last = self.last.take();
        self.last = now;
        let (last, now) = (last?, self.last.as_ref()?);
        let values = calls.ask("GPM metrics", || {
            gpm_metrics_get(nvml, &last, now, &METRICS)
        })?;
        let values: Vec<_> = values
            .into_iter()
            .map(|value| value.ok().map(|it| it.value))
            .collect();
        activity(&values)
    }
}

/// Values in the order of [`METRICS`], in the driver's units.
fn activity(values: &[Option<f64>]) -> Option<GpuActivity> {
    let &[
        engine,
        sm,
        occupancy,
        tensor,
        dram,
        fp64,
        fp32,
        fp16,
        sent,
        received,
    ] = values
    else {
        return None;
    };
    let ratio = |value: Option<f64>| known(value).map(|percent| percent / PERCENT);
    let bytes = |value: Option<f64>| known(value).map(|mib| mib * MIB);
    Some(GpuActivity {
        engine: ratio(engine),
        sm: ratio(sm),
        occupancy: ratio(occupancy),
        tensor: ratio(tensor),
        dram: ratio(dram),
        fp64: ratio(fp64),
        fp32: ratio(fp32),
        fp16: ratio(fp16),
        pcie_sent: bytes(sent),
        pcie_received: bytes(received),
    })
}

/// Counters that were not read in between give no number.
fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_become_ratios_and_what_is_no_number_is_left_out() {
        let mut values = [Some(50.0); 10];
        values[3] = Some(f64::NAN);
        values[4] = None;
        values[9] = Some(2.0);
        let found = activity(&values).unwrap();
        assert_eq!(
            (found.sm, found.tensor, found.dram),
            (Some(0.5), None, None)
        );
        assert_eq!(found.pcie_received, Some(2_097_152.0));
        assert_eq!(activity(&values[1..]), None);
    }
}
