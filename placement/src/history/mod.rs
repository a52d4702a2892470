//! Random histories: what can happen to cells in any order, with everything that must hold
//! checked after every step. One seed is one history.

mod brute;
mod check;
mod cluster;
mod draw;
mod harm;
mod nearness;
mod rebuild;
mod step;

use muster_model::cluster_spec::ClusterSpec;
use muster_model::time::Time;

use crate::cells::{Bins, Cells};
use crate::decide::DecisionPolicy;
use crate::random::SplitMix64;

/// Something that must never happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, step {step} ({action}): {message}")]
pub struct Violation {
    /// The history.
    pub seed: u64,
    /// The step, from 0.
    pub step: usize,
    /// What was done.
    pub action: String,
    /// What does not hold.
    pub message: String,
}

/// What happened in a history, to see that it was worth running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryTally {
    /// Gangs placed at once.
    pub placed: u64,
    /// Gangs that waited.
    pub waited: u64,
    /// Gangs refused.
    pub refused: u64,
    /// Decisions to preempt.
    pub preempting: u64,
    /// Preemptions cancelled.
    pub cancelled: u64,
    /// Gangs lazily preempted.
    pub demoted: u64,
    /// Exchanges of quota cells.
    pub swaps: u64,
    /// Machines and devices that failed or came back.
    pub health: u64,
    /// Reconfigurations.
    pub reconfigured: u64,
    /// Pods that gave their cells back before their gang ended.
    pub released: u64,
    /// Times that everything was adopted by a new leader.
    pub rebuilt: u64,
    /// Gangs that lost their quota by it.
    pub lost: u64,
    /// Gangs whose members ask for several leaf types that were placed or preempted for.
    pub mixed: u64,
    /// Gangs that waited for machines that have enough beside leaf cells.
    pub short: u64,
    /// Gangs that waited only for others' minimum run time.
    pub fixed: u64,
    /// Where all of it led, as a number: equal for equal histories.
    pub digest: u64,
}

impl HistoryTally {
    /// Counts another history as well.
    pub fn add(&mut self, other: &Self) {
        self.placed += other.placed;
        self.waited += other.waited;
        self.refused += other.refused;
        self.preempting += other.preempting;
        self.cancelled += other.cancelled;
        self.demoted += other.demoted;
        self.swaps += other.swaps;
        self.health += other.health;
        self.reconfigured += other.reconfigured;
        self.released += other.released;
        self.rebuilt += other.rebuilt;
        self.lost += other.lost;
        self.mixed += other.mixed;
        self.short += other.short;
        self.fixed += other.fixed;
        self.digest ^= other.digest;
    }
}

/// A history in progress.
struct HistoryRun {
    random: SplitMix64,
    cells: Cells,
    policy: DecisionPolicy,
    tops: Vec<u32>,
    spec: ClusterSpec,
    now: Time,
    next_gang: u64,
    tally: HistoryTally,
    action: String,
}

/// Runs one history of so many steps.
///
/// # Errors
/// The first thing that does not hold.
pub fn run(seed: u64, steps: usize) -> Result<HistoryTally, Violation> {
    let mut random = SplitMix64::new(seed);
    let tops = cluster::tops(&mut random);
    let spec = cluster::spec(&mut random, &tops);
    let bins = match random.percent(50) {
        true => Bins::Merged,
        false => Bins::PerQuotaCell,
    };
    let policy = match random.percent(50) {
        true => DecisionPolicy::default(),
        false => DecisionPolicy::hived(),
    };
    let violation = |step: usize, action: &str, message: String| Violation {
        seed,
        step,
        action: action.to_owned(),
        message,
    };
    let cells = Cells::new(&spec, bins);
    let cells = cells.map_err(|problems| violation(0, "build", format!("{problems:?}")))?;
    let mut history = HistoryRun {
        random,
        cells,
        policy,
        tops,
        spec,
        now: Time(0),
        next_gang: 0,
        tally: HistoryTally::default(),
        action: String::new(),
    };
    let stated = history.state_capacities();
    let stated = stated.and_then(|()| match seed % 2 {
        0 => Ok(()),
        _ => history.stand(),
    });
    stated.map_err(|message| violation(0, &history.action, message))?;
    for number in 0..steps {
        let done = history.step().and_then(|()| history.check());
        done.map_err(|message| violation(number, &history.action, message))?;
    }
    let done = history.end_everything();
    done.map_err(|message| violation(steps, &history.action, message))?;
    Ok(history.tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds of a test run.
    const SEEDS: u64 = 160;

    #[test]
    fn nothing_forbidden_happens_in_random_histories() {
        let mut sum = HistoryTally::default();
        for seed in 0..SEEDS {
            let tally = run(seed, 150).unwrap_or_else(|violation| panic!("{violation}"));
            sum.add(&tally);
        }
        let least = [
            sum.placed,
            sum.preempting,
            sum.demoted,
            sum.swaps,
            sum.reconfigured,
            sum.released,
            sum.rebuilt,
            sum.mixed,
            sum.short,
            sum.fixed,
        ];
        assert!(least.iter().all(|count| *count > 2), "{sum:?}");
    }

    #[test]
    fn the_same_seed_is_the_same_history() {
        assert_eq!(run(7, 150), run(7, 150));
    }
}
