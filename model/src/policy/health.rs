//! What a cluster's policy says of quarantines.

use serde::{Deserialize, Serialize};

use crate::cluster_spec::SpecProblem;

/// Longest time in which quarantines are counted, seconds.
const WINDOW_S_MAX: u64 = 24 * 3600;

/// What rules of health may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthPolicy {
    /// How many devices they may take out of use.
    pub breaker: BreakerPolicy,
}

/// When further quarantines of rules are held back: beyond both the share and the number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerPolicy {
    /// The time in which quarantines are counted, seconds.
    pub window_s: u64,
    /// The share of the cluster's devices that rules may quarantine in that time, percent.
    pub share_percent: u32,
    /// How many devices rules may quarantine in that time, whatever their share is.
    pub devices_free: u32,
    /// Clusters with fewer devices have no breaker: one machine is a large share of them.
    pub cluster_devices_min: u32,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            window_s: 300,
            share_percent: 20,
            devices_free: 8,
            cluster_devices_min: 32,
        }
    }
}

/// What is wrong with it.
pub(super) fn problems(policy: &HealthPolicy) -> Vec<SpecProblem> {
    let breaker = &policy.breaker;
    let mut problems = Vec::new();
    if !(1..=WINDOW_S_MAX).contains(&breaker.window_s) {
        let what = format!("must be from 1 to {WINDOW_S_MAX}, which is a day");
        problems.push(SpecProblem::new("health.breaker.window_s", what));
    }
    if breaker.share_percent > 100 {
        let what = "must be at most 100";
        problems.push(SpecProblem::new("health.breaker.share_percent", what));
    }
    problems
}
