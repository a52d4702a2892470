//! What must be true of a history, whatever was done to the cluster. Pure: the same history gives
//! the same sentences.

mod acceptance;
mod endings;
#[cfg(test)]
mod example;
mod runs;
mod states;

use super::history::ClientHistory;

/// Everything in it that must not be, one sentence each; empty for a history as it should be.
pub fn check(history: &ClientHistory) -> Vec<String> {
    let rules = [
        acceptance::kept,
        acceptance::refused,
        acceptance::once,
        acceptance::found,
        states::forward,
        runs::devices,
        runs::attempts,
        runs::once,
        runs::gangs,
        runs::recorded,
        runs::undisturbed,
        endings::settled,
        endings::as_ordered,
    ];
    rules.iter().flat_map(|rule| rule(history)).collect()
}
