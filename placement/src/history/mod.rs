//! Random histories: what can happen to cells in any order, with everything that must hold
//! checked after every step. One seed is one history.

mod check;
mod cluster;
mod step;

use crate::cells::{Bins, Cells};
use crate::decide::Policy;
use crate::random::Random;

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
pub struct Tally {
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
    /// Where all of it led, as a number: equal for equal histories.
    pub digest: u64,
}

/// A history in progress.
struct History {
    random: Random,
    cells: Cells,
    policy: Policy,
    tops: Vec<u32>,
    next_gang: u64,
    tally: Tally,
    action: String,
}

/// Runs one history of so many steps.
///
/// # Errors
/// The first thing that does not hold.
pub fn run(seed: u64, steps: usize) -> Result<Tally, Violation> {
    let mut random = Random::new(seed);
    let tops = cluster::tops(&mut random);
    let spec = cluster::spec(&mut random, &tops);
    let bins = match random.percent(50) {
        true => Bins::Merged,
        false => Bins::PerQuotaCell,
    };
    let policy = match random.percent(50) {
        true => Policy::default(),
        false => Policy::hived(),
    };
    let violation = |step: usize, action: &str, message: String| Violation {
        seed,
        step,
        action: action.to_owned(),
        message,
    };
    let cells = Cells::new(&spec, bins);
    let cells = cells.map_err(|problems| violation(0, "build", format!("{problems:?}")))?;
    let mut history = History {
        random,
        cells,
        policy,
        tops,
        next_gang: 0,
        tally: Tally::default(),
        action: String::new(),
    };
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

    #[test]
    fn nothing_forbidden_happens_in_random_histories() {
        let mut sum = Tally::default();
        for seed in 0..60 {
            let tally = run(seed, 150).unwrap_or_else(|violation| panic!("{violation}"));
            sum.placed += tally.placed;
            sum.preempting += tally.preempting;
            sum.demoted += tally.demoted;
            sum.swaps += tally.swaps;
            sum.reconfigured += tally.reconfigured;
        }
        let least = [
            sum.placed,
            sum.preempting,
            sum.demoted,
            sum.swaps,
            sum.reconfigured,
        ];
        assert!(least.iter().all(|count| *count > 10), "{sum:?}");
    }

    #[test]
    fn the_same_seed_is_the_same_history() {
        assert_eq!(run(7, 150), run(7, 150));
    }
}
