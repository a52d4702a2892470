//! The limits that the kernel enforces, in the specification's words.

use muster_model::launch::TaskLimits;
use serde_json::{Value, json};

use super::HostFacts;
use super::device::DeviceRule;

/// The scheduler's accounting period, microseconds; the kernel's default.
const CPU_PERIOD_USEC: u64 = 100_000;
/// Weight of one core, and the bounds that the kernel sets to weights.
const CPU_SHARES: u64 = 1024;
const CPU_SHARES_MIN: u64 = 2;
const CPU_SHARES_MAX: u64 = 262_144;

/// `limits` and the device list. A limit of zero sets none.
pub(super) fn resources(limits: &TaskLimits, devices: &[DeviceRule], host: &HostFacts) -> Value {
    let mut resources = json!({ "devices": devices, "cpu": cpu(limits.cpu) });
    if limits.memory_mb > 0 {
        resources["memory"] = memory(limits.memory_mb, host);
    }
    if limits.pids > 0 {
        resources["pids"] = json!({ "limit": limits.pids });
    }
    resources
}

fn cpu(cores: u32) -> Value {
    let cores = u64::from(cores);
    let shares = (cores * CPU_SHARES).clamp(CPU_SHARES_MIN, CPU_SHARES_MAX);
    if cores == 0 {
        return json!({ "shares": shares });
    }
    json!({ "shares": shares, "quota": cores * CPU_PERIOD_USEC, "period": CPU_PERIOD_USEC })
}

/// Memory and swap together are limited to the same size: a task never swaps.
fn memory(memory_mb: u64, host: &HostFacts) -> Value {
    let bytes = i64::try_from(memory_mb.saturating_mul(1 << 20)).unwrap_or(i64::MAX);
    if host.cgroups.limits_swap() {
        json!({ "limit": bytes, "swap": bytes })
    } else {
        json!({ "limit": bytes })
    }
}
