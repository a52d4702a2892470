//! Looks at AMD's GPUs.

use muster_model::health::HealthSubject;

use super::memory::GpuMemory;
use super::{HealthJudge, Look};
use crate::health::reading::AmdReading;
use crate::health::rules::HealthLimits;

const HOUR_MS: u64 = 3_600_000;

impl HealthJudge {
    pub(super) fn amd(&mut self, now_ms: u64, readings: &[AmdReading]) {
        for reading in readings {
            let subject = HealthSubject::at(reading.pci.as_str());
            let gpu = &mut self.memory.part(&subject).gpu;
            gpu.was_in_kfd |= reading.in_kfd;
            let mut looks = Vec::new();
            // A card for screens is never in KFD.
            if gpu.was_in_kfd {
                let gone = "KFD does not list the GPU any more.".to_owned();
                looks.push(("kfd-gone", (!reading.in_kfd).then_some(gone)));
            }
            if reading.corrected.is_some() {
                looks.push(("ras-uncorrected", uncorrected(reading)));
            }
            looks.extend(corrected(now_ms, reading, gpu, &self.rules.limits));
            self.looked(now_ms, &subject, looks);
        }
    }
}

fn uncorrected(reading: &AmdReading) -> Option<String> {
    let blocks = reading.uncorrected.iter();
    let blocks: Vec<String> = blocks
        .map(|(block, errors)| format!("{block} {errors}"))
        .collect();
    let list = blocks.join(", ");
    (!blocks.is_empty()).then(|| format!("Errors since the driver was loaded, by block: {list}."))
}

/// How fast corrected errors grow, over an hour at most. A counter that fell began anew.
fn corrected(
    now_ms: u64,
    reading: &AmdReading,
    gpu: &mut GpuMemory,
    limits: &HealthLimits,
) -> Option<Look> {
    let now = reading.corrected?;
    let (since_ms, before) = *gpu.corrected.get_or_insert((now_ms, now));
    let grown = now.saturating_sub(before);
    if now < before || now_ms.saturating_sub(since_ms) >= HOUR_MS {
        gpu.corrected = Some((now_ms, now));
    }
    let is_sign = grown > limits.ras_correctable_per_hour;
    let evidence = format!("{grown} errors were corrected within an hour.");
    Some(("ras-correctable", is_sign.then_some(evidence)))
}
