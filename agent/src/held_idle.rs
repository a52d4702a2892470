//! Which devices are held by a task that does nothing with them.
//!
//! A device is held and idle from a sample on, if from then to the newest sample the same task held it, its
//! utilization was 0 in every sample, and the memory used on it did not change from one sample to the next, in whole
//! MiB. Utilization alone says too little: a task that loads its data, or that waits for other machines, may run
//! nothing for a while, but its memory changes as soon as it goes on. Where a sample lacks one of the two figures, or
//! none came for a minute, nothing is known and the time begins anew.

use std::collections::BTreeMap;

use muster_exec::figures::DeviceLoad;
use muster_model::id::AttemptUid;

/// Samples further apart than this say nothing of the time between them.
const GAP_MS_MAX: u64 = 60_000;

/// The devices that tasks hold.
#[derive(Debug, Default)]
pub(crate) struct HeldIdle {
    /// By the device's lasting name.
    devices: BTreeMap<String, HeldDevice>,
}

/// A device that a task holds.
#[derive(Debug)]
struct HeldDevice {
    holder: AttemptUid,
    seen_ms: u64,
    utilization: u32,
    memory_mb: u64,
    idle_since_ms: u64,
}

impl HeldIdle {
    /// Takes a round of samples. `holders` says by a device's lasting name which task has it.
    pub(crate) fn note(
        &mut self,
        now_ms: u64,
        loads: &[DeviceLoad],
        holders: &BTreeMap<String, AttemptUid>,
    ) {
        let mut before = std::mem::take(&mut self.devices);
        for load in loads {
            if let Some(holder) = holders.get(&load.id)
                && let (Some(utilization), Some(memory)) = (load.utilization, load.memory_used)
            {
                let mut device = HeldDevice {
                    holder: holder.clone(),
                    seen_ms: now_ms,
                    utilization,
                    memory_mb: memory >> 20,
                    idle_since_ms: now_ms,
                };
                if let Some(last) = before.remove(&load.id)
                    && device.goes_on(&last)
                {
                    device.idle_since_ms = last.idle_since_ms;
                }
                self.devices.insert(load.id.clone(), device);
            }
        }
    }

    /// For how many seconds each device that is held has been idle, by its lasting name; 0 for one that is busy.
    pub(crate) fn seconds(&self) -> BTreeMap<String, u64> {
        let seconds = |(id, device): (&String, &HeldDevice)| {
            let idle_ms = device.seen_ms.saturating_sub(device.idle_since_ms);
            (id.clone(), idle_ms / 1000)
        };
        self.devices.iter().map(seconds).collect()
    }
}

impl HeldDevice {
    /// Whether an idle time that lasted to the sample before lasts to this one.
    fn goes_on(&self, last: &Self) -> bool {
        self.holder == last.holder
            && (self.utilization, last.utilization) == (0, 0)
            && self.memory_mb == last.memory_mb
            && self.seen_ms.saturating_sub(last.seen_ms) <= GAP_MS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of ten seconds of one device: who holds it, its utilization, its memory in MiB. What is told after the
    /// last one.
    fn after(rounds: &[(&str, Option<u32>, u64)]) -> Option<u64> {
        let mut idle = HeldIdle::default();
        for (nth, (holder, utilization, memory_mb)) in (0..).zip(rounds) {
            let load = DeviceLoad {
                id: "GPU-1".to_owned(),
                utilization: *utilization,
                memory_used: Some(memory_mb << 20),
                ..DeviceLoad::default()
            };
            let holder = holder
                .parse()
                .ok()
                .map(|holder| ("GPU-1".to_owned(), holder));
            idle.note(nth * 10_000, &[load], &holder.into_iter().collect());
        }
        idle.seconds().remove("GPU-1")
    }

    #[test]
    fn idle_is_who_computes_nothing_and_moves_no_memory() {
        let still = ("a", Some(0), 500);
        for (rounds, expect, why) in [
            (vec![still], Some(0), "it was only just seen"),
            (vec![still; 4], Some(30), "three rounds of the same"),
            (
                vec![still, still, ("a", Some(1), 500)],
                Some(0),
                "it is busy",
            ),
            (
                vec![still, ("a", Some(1), 500), still, still],
                Some(10),
                "it was busy",
            ),
            (
                vec![still, still, ("a", Some(0), 501)],
                Some(0),
                "its memory changed",
            ),
            (
                vec![still, ("a", Some(0), 501), ("a", Some(0), 501)],
                Some(10),
                "it changed before",
            ),
            (
                vec![still, still, ("b", Some(0), 500)],
                Some(0),
                "another task has it",
            ),
            (vec![still, ("", Some(0), 500)], None, "no task has it"),
            (
                vec![still, ("a", None, 500)],
                None,
                "its utilization is not known",
            ),
            (
                vec![still, ("a", None, 500), still],
                Some(0),
                "it was not known",
            ),
        ] {
            assert_eq!(after(&rounds), expect, "{why}");
        }
    }

    #[test]
    fn a_gap_in_the_samples_counts_for_nothing() {
        let load = DeviceLoad {
            id: "GPU-1".to_owned(),
            utilization: Some(0),
            memory_used: Some(0),
            ..DeviceLoad::default()
        };
        let holders = BTreeMap::from([("GPU-1".to_owned(), "a".parse().unwrap())]);
        let mut idle = HeldIdle::default();
        let mut told = |now_ms| {
            idle.note(now_ms, std::slice::from_ref(&load), &holders);
            idle.seconds()["GPU-1"]
        };
        assert_eq!([told(0), told(60_000), told(120_001)], [0, 60, 0]);
    }
}
