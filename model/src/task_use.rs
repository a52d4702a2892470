//! What a task used over time, as its node keeps it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one attempt of a task used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskUse {
    /// Oldest first: every ten seconds for the last hour, every five minutes for the day before. Empty where the
    /// node keeps nothing of it any more, or nothing yet.
    pub points: Vec<UsePoint>,
    /// How busy its devices were while it held them, those that the node samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
}

/// What one attempt of a task used in all, put together when it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskUsed {
    /// CPU time of all its processes, milliseconds.
    pub cpu_ms: u64,
    /// The most memory of the readings every ten seconds, MiB, without what the kernel can drop at once.
    pub memory_mb: u32,
    /// The most memory that the kernel counted at any time, MiB, with its cache of files. Absent where the kernel does
    /// not count it: before Linux 5.19 with cgroup v2.
    pub memory_peak_mb: Option<u32>,
    /// Those of its devices that the node samples. Counted anew from a restart of the agent.
    pub devices: Vec<DeviceUsed>,
}

/// How busy a device was while a task held it. A figure that the device does not have is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUsed {
    /// Its index on the node.
    pub index: u32,
    /// Percent of time in which it was busy, on average.
    pub utilization: Option<u8>,
    /// The most memory that was used on it, MiB.
    pub memory_mb: Option<u32>,
}

impl TaskUsed {
    /// What several tasks used: the sum of the CPU time, the most memory of one task, and one figure for all devices.
    /// None if there are none.
    pub fn of_all<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let first = all.next()?.clone();
        let mut sum = all.fold(first, |sum, used| Self {
            cpu_ms: sum.cpu_ms.saturating_add(used.cpu_ms),
            memory_mb: sum.memory_mb.max(used.memory_mb),
            memory_peak_mb: sum.memory_peak_mb.max(used.memory_peak_mb),
            devices: [sum.devices, used.devices.clone()].concat(),
        });
        sum.devices = DeviceUsed::of_all(&sum.devices).into_iter().collect();
        Some(sum)
    }
}

impl DeviceUsed {
    /// The mean utilization of several devices, and the most memory of one. None if there are none.
    fn of_all(devices: &[Self]) -> Option<Self> {
        let first = devices.first()?;
        let busy = devices.iter().filter_map(|device| device.utilization);
        let sum: u64 = busy.clone().map(u64::from).sum();
        let mean = sum.checked_div(busy.count() as u64);
        Some(Self {
            index: first.index,
            utilization: mean.map(|mean| u8::try_from(mean).unwrap_or(u8::MAX)),
            memory_mb: devices.iter().filter_map(|device| device.memory_mb).max(),
        })
    }
}

impl fmt::Display for TaskUsed {
    /// `3 h 12 min of CPU, at most 12.0 GiB of memory in a task; devices busy 87 % of the time; at most 70.0 GiB of a
    /// device's memory`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu_s = self.cpu_ms / 1000;
        write!(f, "{} of CPU, at most ", Seconds(cpu_s))?;
        write!(f, "{} of memory in a task", Mebibytes(self.memory_mb))?;
        let Some(devices) = DeviceUsed::of_all(&self.devices) else {
            return Ok(());
        };
        if let Some(busy) = devices.utilization {
            write!(f, "; devices busy {busy} % of the time")?;
        }
        if let Some(memory_mb) = devices.memory_mb {
            write!(f, "; at most {} of a device's memory", Mebibytes(memory_mb))?;
        }
        Ok(())
    }
}

/// `48 s`, `12 min`, `3 h 12 min`
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds @ 0..120 => write!(f, "{seconds} s"),
            seconds @ 120..7200 => write!(f, "{} min", seconds / 60),
            seconds => write!(f, "{} h {} min", seconds / 3600, seconds / 60 % 60),
        }
    }
}

/// `300 MiB`, `12.5 GiB`
struct Mebibytes(u32);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            mebibytes @ 0..1024 => write!(f, "{mebibytes} MiB"),
            mebibytes => write!(f, "{:.1} GiB", f64::from(mebibytes) / 1024.0),
        }
    }
}

/// What a task used at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsePoint {
    /// Milliseconds since the epoch.
    pub at_ms: u64,
    /// Thousandths of a core, on average since the point before.
    pub cpu_milli: u32,
    /// Memory in MiB without what the kernel can drop at once; of several minutes, the most.
    pub memory_mb: u32,
}

/// What a task uses now, as its node read it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskUseNow {
    /// CPU and memory.
    pub point: UsePoint,
    /// CPU time so far, microseconds.
    pub cpu_usec: u64,
    /// What it read from and wrote to disks so far. Absent where the kernel does not count it for each task.
    pub disk: Option<DiskUse>,
}

/// What a task read from and wrote to disks, caches aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes.
    pub read: u64,
    /// Bytes.
    pub written: u64,
}

/// How busy a device was while a task held it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUse {
    /// Its index on the node.
    pub index: u32,
    /// Oldest first, at the times of [`TaskUse::points`] by and large.
    pub points: Vec<DevicePoint>,
}

/// How busy a device was at a time. A figure that the device does not have is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePoint {
    /// Milliseconds since the epoch.
    pub at_ms: u64,
    /// Percent of time in which it was busy; of several minutes, the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<u8>,
    /// Memory that is used, MiB; of several minutes, the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Power that it draws, W; of several minutes, the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<u16>,
    /// Degrees Celsius; of several minutes, the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(cpu_ms: u64, memory_mb: u32, devices: &[(Option<u8>, Option<u32>)]) -> TaskUsed {
        let devices = devices.iter().map(|(utilization, memory_mb)| DeviceUsed {
            index: 0,
            utilization: *utilization,
            memory_mb: *memory_mb,
        });
        TaskUsed {
            cpu_ms,
            memory_mb,
            memory_peak_mb: None,
            devices: devices.collect(),
        }
    }

    #[test]
    fn a_sentence_tells_what_was_used() {
        for (used, expect) in [
            (
                used(1_500, 7, &[]),
                "1 s of CPU, at most 7 MiB of memory in a task",
            ),
            (
                used(600_000, 1536, &[(Some(0), None)]),
                "10 min of CPU, at most 1.5 GiB of memory in a task; devices busy 0 % of the time",
            ),
            (
                used(7_260_000, 1, &[(None, Some(2048))]),
                "2 h 1 min of CPU, at most 1 MiB of memory in a task; at most 2.0 GiB of a device's memory",
            ),
        ] {
            assert_eq!(used.to_string(), expect);
        }
    }

    #[test]
    fn cpu_times_add_up_and_memory_is_that_of_one_task() {
        let tasks = [
            used(10, 300, &[(Some(90), Some(5)), (None, None)]),
            used(20, 100, &[(Some(50), Some(9))]),
        ];
        let all = TaskUsed::of_all(&tasks).unwrap();
        assert_eq!(all, used(30, 300, &[(Some(70), Some(9))]));
        assert_eq!(TaskUsed::of_all(&[]), None);
    }
}
