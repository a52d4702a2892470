//! How long jobs waited, in few numbers.

use super::{GPUS_PER_NODE, ReplayPolicy, TraceJob};

/// Devices from which on a gang counts as large.
const LARGE_GPUS: u32 = 16;

/// What a replay notes down.
#[derive(Clone, Debug)]
pub(super) struct ReplayWaits {
    /// Seconds, by job; none for one that was refused.
    pub(super) by_job: Vec<Option<u64>>,
    pub(super) peak_queue: usize,
    pub(super) refused: u64,
}

impl ReplayWaits {
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            by_job: vec![None; jobs],
            peak_queue: 0,
            refused: 0,
        }
    }
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct ReplayFigures {
    /// The policy's name.
    pub policy: &'static str,
    /// Machines.
    pub nodes: u32,
    /// Jobs that ran.
    pub jobs: u64,
    /// Jobs that the whole cluster could not hold.
    pub refused: u64,
    /// Mean time from coming to starting, seconds.
    pub mean_wait_s: f64,
    /// Half of the jobs waited no longer.
    pub p50_wait_s: u64,
    /// 95 of 100.
    pub p95_wait_s: u64,
    /// 99 of 100.
    pub p99_wait_s: u64,
    /// The longest wait of any job.
    pub max_wait_s: u64,
    /// 99 of 100 jobs with 8 GPUs waited no longer; 0 if there are none.
    pub p99_wait_8gpu_s: u64,
    /// The longest wait of a job with 16 GPUs or more; 0 if there are none.
    pub max_wait_16plus_s: u64,
    /// Mean time from coming to ending, seconds.
    pub mean_jct_s: f64,
    /// Share of the devices in use while jobs came, from the first to the last.
    pub utilisation: f64,
    /// The most jobs that waited at a time.
    pub peak_queue: usize,
    /// Seconds of processor time that the replay took.
    pub cpu_s: f64,
}

impl ReplayFigures {
    pub(super) fn new(
        kind: ReplayPolicy,
        nodes: u32,
        jobs: &[TraceJob],
        waits: ReplayWaits,
        cpu_ns: u64,
    ) -> Self {
        let all: Vec<(&TraceJob, u64)> = ran(jobs, &waits.by_job).collect();
        let waited = |counts: &dyn Fn(u32) -> bool| {
            let chosen = all.iter().filter(|(job, _)| counts(job.gpus));
            let mut waited: Vec<u64> = chosen.map(|(_, wait_s)| *wait_s).collect();
            waited.sort_unstable();
            waited
        };
        let every = waited(&|_| true);
        let total: u64 = every.iter().sum();
        let run: u64 = all.iter().map(|(job, _)| job.duration_s).sum();
        Self {
            policy: kind.name(),
            nodes,
            jobs: all.len() as u64,
            refused: waits.refused,
            mean_wait_s: ratio(total, every.len() as u64),
            p50_wait_s: percentile(&every, 50),
            p95_wait_s: percentile(&every, 95),
            p99_wait_s: percentile(&every, 99),
            max_wait_s: percentile(&every, 100),
            p99_wait_8gpu_s: percentile(&waited(&|gpus| gpus == GPUS_PER_NODE), 99),
            max_wait_16plus_s: percentile(&waited(&|gpus| gpus >= LARGE_GPUS), 100),
            mean_jct_s: ratio(total + run, every.len() as u64),
            utilisation: utilisation(nodes, jobs, &all),
            peak_queue: waits.peak_queue,
            cpu_s: ratio(cpu_ns, 1_000_000) / 1000.0,
        }
    }
}

fn ran<'a>(
    jobs: &'a [TraceJob],
    waits: &'a [Option<u64>],
) -> impl Iterator<Item = (&'a TraceJob, u64)> {
    let all = jobs.iter().zip(waits);
    all.filter_map(|(job, wait_s)| wait_s.map(|wait_s| (job, wait_s)))
}

fn utilisation(nodes: u32, jobs: &[TraceJob], all: &[(&TraceJob, u64)]) -> f64 {
    let first_s = jobs.first().map_or(0, |job| job.submit_s);
    let last_s = jobs.last().map_or(0, |job| job.submit_s);
    let used = all.iter().map(|(job, wait_s)| {
        let start_s = (job.submit_s + wait_s).min(last_s);
        let end_s = (job.submit_s + wait_s + job.duration_s).min(last_s);
        (end_s - start_s) * u64::from(job.gpus)
    });
    let there = (last_s - first_s) * u64::from(nodes * GPUS_PER_NODE);
    ratio(used.sum(), there)
}

/// The value that `percent` of the sorted ones don't exceed; 0 of none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}
