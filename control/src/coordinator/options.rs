//! What a coordinator is made with, and what it goes by.

use std::sync::Arc;

use muster_model::id::VcName;
use muster_model::policy::JobPolicy;

use crate::usage_rules::UsageRules;

/// What a leader goes by: times, limits and whose turn it is. All times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderPolicy {
    /// A reservation that is not launched ends by itself after this.
    pub reserve_ttl_ms: u64,
    /// A round that is not placed within this is given up and planned again.
    pub round_timeout_ms: u64,
    /// An order without an answer is sent again after this, then after twice as long.
    pub resend_ms: u64,
    /// The longest time between two sendings.
    pub resend_max_ms: u64,
    /// How long a ready task waits for the rest of its gang (OpenPAI's barrier).
    pub barrier_ms: u64,
    /// How long a placed gang may take to have its first ready task, image pulls included.
    pub launch_ms: u64,
    /// Between the polite and the hard signal of a stop.
    pub stop_grace_ms: u64,
    /// Each node is asked for a report this often while it matters.
    pub report_ms: u64,
    /// Writable layer of a task, MiB; 0 for no limit.
    pub disk_mb: u64,
    /// Who comes first and who may pass whom.
    pub placement: muster_placement::decide::DecisionPolicy,
    /// How long a gang may run before one of its own virtual cluster may evict it.
    pub min_run_ms: u64,
    /// How much users and groups may have.
    pub limits: Arc<UsageRules>,
    /// How long jobs may run.
    pub jobs: Arc<JobPolicy>,
}

impl Default for LeaderPolicy {
    fn default() -> Self {
        Self {
            reserve_ttl_ms: 30_000,
            round_timeout_ms: 10_000,
            resend_ms: 1_000,
            resend_max_ms: 30_000,
            barrier_ms: 600_000,
            launch_ms: 7_200_000,
            stop_grace_ms: 20_000,
            report_ms: 30_000,
            disk_mb: 0,
            placement: muster_placement::decide::DecisionPolicy::default(),
            min_run_ms: 0,
            limits: Arc::default(),
            jobs: Arc::default(),
        }
    }
}

/// What a coordinator is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorOptions {
    /// The virtual cluster it leads.
    pub vc: VcName,
    /// The virtual cluster's generation.
    pub generation: u32,
    /// Seeds the jitter of pauses.
    pub seed: u64,
    /// What it goes by, until [`Input::Policy`](super::CoordinatorInput::Policy) changes that.
    pub policy: LeaderPolicy,
}
