//! Looks at GPUs: what figures of a driver are a sign of.

use muster_model::health::{HealthState, HealthSubject};

use super::memory::GpuMemory;
use super::{HealthJudge, Look};
use crate::health::reading::GpuReading;
use crate::health::rules::HealthLimits;

impl HealthJudge {
    /// A driver that does not answer: not known at first, bad after a time. What looks found well
    /// is not known either.
    pub(super) fn gpu_silent(&mut self, now_ms: u64, pci: &str) {
        let subject = HealthSubject::at(pci);
        let limit_ms = self.rules.limits.driver_silent_s.saturating_mul(1000);
        let part = self.memory.part(&subject);
        let since_ms = *part.gpu.silent_since_ms.get_or_insert(now_ms);
        for standing in part.standing.values_mut() {
            if standing.state == HealthState::Good {
                standing.state = HealthState::Unknown;
                standing.since_ms = now_ms;
                standing.evidence = "The driver does not answer.".to_owned();
            }
        }
        let silent_ms = now_ms.saturating_sub(since_ms);
        let state = if silent_ms >= limit_ms {
            HealthState::Bad
        } else {
            HealthState::Unknown
        };
        let evidence = "The driver does not answer for the GPU within its deadline.".to_owned();
        self.stand(now_ms, &subject, "driver-silent", (state, evidence));
    }

    pub(super) fn gpu(&mut self, now_ms: u64, pci: &str, reading: &GpuReading) {
        let subject = HealthSubject::at(pci);
        self.memory.part(&subject).gpu.silent_since_ms = None;
        let mut looks = vec![("driver-silent", None)];
        looks.extend(memory_errors(reading));
        let was_hot = self.memory.part(&subject).state("temperature") > HealthState::Unknown;
        looks.extend(temperature(reading, &self.rules.limits, was_hot));
        looks.extend(power(reading, &self.rules.limits));
        let others_links = self.links_of_others(&subject);
        let gpu = &mut self.memory.part(&subject).gpu;
        looks.extend(links(reading, gpu, others_links));
        looks.extend(slowdown(now_ms, reading, gpu, &self.rules.limits));
        looks.extend(width(reading, gpu, &self.rules.limits));
        looks.extend(p_state(now_ms, reading, gpu, &self.rules.limits));
        looks.extend(ghost(reading, gpu, &self.rules.limits));
        self.looked(now_ms, &subject, looks);
        self.recovery_looked(now_ms, &subject, reading.recovery_action);
    }

    /// The driver's action by a look. One look that finds none may be older than the line of the
    /// log that told one.
    fn recovery_looked(&mut self, now_ms: u64, subject: &HealthSubject, action: Option<u32>) {
        let Some(action) = action else {
            return;
        };
        let looks_min = self.rules.limits.recovered_looks;
        let part = self.memory.part(subject);
        if action == 0 && part.action != 0 {
            part.gpu.recovered_looks += 1;
            if part.gpu.recovered_looks < looks_min {
                return;
            }
        }
        self.recovery(now_ms, subject, action);
    }

    /// The most links that another GPU of the machine has active.
    fn links_of_others(&self, subject: &HealthSubject) -> u32 {
        let others = self.memory.parts.iter();
        let others = others.filter(|part| part.subject != *subject);
        others.map(|part| part.gpu.links).max().unwrap_or(0)
    }
}

fn memory_errors(reading: &GpuReading) -> Vec<Look> {
    let mut looks = Vec::new();
    if let Some(errors) = reading.ecc_uncorrected {
        let ever = reading.ecc_uncorrected_ever;
        let ever = ever.map_or_else(String::new, |ever| format!(", {ever} in the GPU's life"));
        let evidence = (errors > 0).then(|| format!("{errors} errors since the last reset{ever}."));
        // A GPU that remaps rows goes on with what is left.
        let (sign, other) = if reading.rows_pending.is_some() {
            ("ecc-contained", "ecc-uncorrected")
        } else {
            ("ecc-uncorrected", "ecc-contained")
        };
        looks.extend([(sign, evidence), (other, None)]);
    }
    let rows = [
        (
            "rows-pending",
            reading.rows_pending,
            "Rows wait for a reset.",
        ),
        (
            "rows-failed",
            reading.rows_failed,
            "Rows could not be remapped.",
        ),
    ];
    for (name, sign, evidence) in rows {
        looks.extend(sign.map(|sign| (name, sign.then(|| evidence.to_owned()))));
    }
    looks
}

fn temperature(reading: &GpuReading, limits: &HealthLimits, was_hot: bool) -> Option<Look> {
    let (now, slowdown) = (reading.temperature_c?, reading.slowdown_c?);
    let back = if was_hot {
        limits.temperature_back_c
    } else {
        0
    };
    let from = slowdown.saturating_sub(limits.temperature_margin_c + back);
    let evidence = format!("{now} degrees; it slows down from {slowdown} on.");
    Some(("temperature", (now >= from).then_some(evidence)))
}

fn power(reading: &GpuReading, limits: &HealthLimits) -> Option<Look> {
    let (now, limit) = (reading.power_mw?, reading.power_limit_mw?);
    let most = limit.saturating_mul(100 + limits.power_over_percent) / 100;
    let evidence = format!("{} W; the limit is {} W.", now / 1000, limit / 1000);
    Some(("power", (limit > 0 && now > most).then_some(evidence)))
}

/// Links that were active once have to be. A GPU that never had any may have no bridge.
fn links(reading: &GpuReading, gpu: &mut GpuMemory, others: u32) -> Vec<Look> {
    let Some(active) = reading.nvlinks_active else {
        return Vec::new();
    };
    gpu.links = active;
    gpu.links_max = gpu.links_max.max(active);
    let inactive = reading.nvlinks_inactive.unwrap_or(0);
    let was = gpu.links_max;
    let lost = (active < was).then(|| format!("{active} links are active, {was} were."));
    let fewer = lost.is_none() && active > 0 && active < others && inactive > 0;
    let fewer = fewer.then(|| format!("{active} links are active; another GPU has {others}."));
    vec![("nvlinks-inactive", lost), ("nvlinks-fewer", fewer)]
}

/// One look at a slow moment says little: what counts is how many of a window were slow.
fn slowdown(
    now_ms: u64,
    reading: &GpuReading,
    gpu: &mut GpuMemory,
    limits: &HealthLimits,
) -> Vec<Look> {
    if reading.slow_thermal.is_none() && reading.slow_power.is_none() {
        return Vec::new();
    }
    let thermal = reading.slow_thermal.unwrap_or(false);
    let power = reading.slow_power.unwrap_or(false);
    gpu.slow.push_back((now_ms, thermal, power));
    let from = now_ms.saturating_sub(limits.slowdown_window_s.saturating_mul(1000));
    gpu.slow.retain(|(at_ms, ..)| *at_ms >= from);
    let all = gpu.slow.len();
    let sign = |number: usize| {
        let is_sign =
            all >= limits.slowdown_looks_min && number * 100 >= all * limits.slowdown_percent;
        is_sign.then(|| format!("In {number} of the last {all} looks it was slowed down."))
    };
    let hot = gpu.slow.iter().filter(|(_, hot, _)| *hot).count();
    let weak = gpu.slow.iter().filter(|(.., weak)| *weak).count();
    vec![
        ("slowdown-thermal", sign(hot)),
        ("slowdown-power", sign(weak)),
    ]
}

fn width(reading: &GpuReading, gpu: &mut GpuMemory, limits: &HealthLimits) -> Option<Look> {
    let (now, most) = (reading.pcie_width?, reading.pcie_width_max?);
    gpu.narrow_looks = in_a_row(gpu.narrow_looks, now > 0 && now < most);
    let sign = gpu.narrow_looks >= limits.pcie_looks.max(1);
    Some((
        "pcie-width",
        sign.then(|| format!("{now} lanes are in use; {most} could be.")),
    ))
}

/// An idle GPU is slow, and its driver says that it is idle.
fn p_state(
    now_ms: u64,
    reading: &GpuReading,
    gpu: &mut GpuMemory,
    limits: &HealthLimits,
) -> Option<Look> {
    let state = reading.p_state?;
    if state < limits.pstate_slow || reading.clock_reason? {
        gpu.slow_pstate_since_ms = None;
        return Some(("p-state", None));
    }
    let since_ms = *gpu.slow_pstate_since_ms.get_or_insert(now_ms);
    let is_long = now_ms.saturating_sub(since_ms) >= limits.pstate_slow_s.saturating_mul(1000);
    let evidence = format!("It is in P-state {state}, and its driver tells no reason.");
    Some(("p-state", is_long.then_some(evidence)))
}

/// Utilisation without a process, look after look: a counter that got stuck, no work.
fn ghost(reading: &GpuReading, gpu: &mut GpuMemory, limits: &HealthLimits) -> Option<Look> {
    let (busy, processes) = (reading.utilisation_percent?, reading.processes?);
    let is_ghost = busy >= limits.ghost_percent && processes == 0;
    gpu.ghost_looks = in_a_row(gpu.ghost_looks, is_ghost);
    let sign = gpu.ghost_looks >= limits.ghost_looks.max(1);
    Some((
        "ghost-utilisation",
        sign.then(|| format!("It shows {busy} percent, and no process uses it.")),
    ))
}

fn in_a_row(before: u32, is_so: bool) -> u32 {
    if is_so { before.saturating_add(1) } else { 0 }
}
