//! What was measured, in few numbers.

use super::BenchSetup;

/// Every single measurement of the steady state, nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    pub(super) decide_ns: Vec<u64>,
    pub(super) gang_ns: Vec<u64>,
    pub(super) delete_ns: Vec<u64>,
    pub(super) waited: u64,
    pub(super) evicted: u64,
    pub(super) multi_node: u64,
    pub(super) fewest_racks: u64,
}

/// What was measured as a whole, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchTimes {
    pub(super) init_ns: u64,
    pub(super) steady_ns: u64,
    /// One event.
    pub(super) node_ns: u64,
    /// One reservation.
    pub(super) keep_ns: u64,
}

/// The result of a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct BenchFigures {
    /// Devices of the cluster.
    pub gpus: u32,
    /// Decisions in a second of deciding.
    pub decisions_per_s: f64,
    /// Cycles (a gang comes, others go) in a second.
    pub cycles_per_s: f64,
    /// Time of a decision, microseconds, half of them take less.
    pub decide_us_p50: f64,
    /// 99 of 100 take less.
    pub decide_us_p99: f64,
    /// Time to decide on a gang and to commit it.
    pub gang_us_p50: f64,
    /// 99 of 100 take less.
    pub gang_us_p99: f64,
    /// Time to end a gang, 99 of 100 take less.
    pub delete_us_p99: f64,
    /// Seconds to build the cells and to hear of every machine's health.
    pub init_s: f64,
    /// Time to hear of a failed or repaired machine, microseconds.
    pub node_event_us: f64,
    /// Time to find what to keep for an overdue gang of several machines, microseconds, on
    /// average over 64 of them for all of which cells are kept.
    pub keep_us: f64,
    /// Resident memory of the process, MiB; filled in by the caller.
    pub rss_mb: f64,
    /// Gangs of several machines on the fewest racks that could hold them, as a share of 1.
    pub multi_rack_min_share: f64,
    /// Gangs that had to wait.
    pub waited: u64,
    /// Opportunistic gangs that had to go.
    pub evicted: u64,
}

impl BenchFigures {
    pub(super) fn new(samples: &Samples, setup: BenchSetup, times: BenchTimes) -> Self {
        let deciding: u64 = samples.decide_ns.iter().sum();
        Self {
            gpus: setup.gpus,
            decisions_per_s: ratio(samples.decide_ns.len() as u64, deciding) * 1e9,
            cycles_per_s: ratio(setup.cycles, times.steady_ns) * 1e9,
            decide_us_p50: percentile_us(&samples.decide_ns, 50),
            decide_us_p99: percentile_us(&samples.decide_ns, 99),
            gang_us_p50: percentile_us(&samples.gang_ns, 50),
            gang_us_p99: percentile_us(&samples.gang_ns, 99),
            delete_us_p99: percentile_us(&samples.delete_ns, 99),
            init_s: ratio(times.init_ns, 1) / 1e9,
            node_event_us: ratio(times.node_ns, 1) / 1e3,
            keep_us: ratio(times.keep_ns, 1) / 1e3,
            rss_mb: 0.0,
            multi_rack_min_share: ratio(samples.fewest_racks, samples.multi_node),
            waited: samples.waited,
            evicted: samples.evicted,
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

fn percentile_us(samples: &[u64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    ratio(sorted.get(at).copied().unwrap_or(0), 1000)
}
