//! What waits, and in which order it is decided.

use muster_model::time::Time;

use crate::gang::Gang;

/// A gang that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The gang.
    pub gang: Gang,
    /// Since when.
    pub since: Time,
}

/// Everything that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// In any order.
    pub gangs: Vec<Queued>,
}

impl Queue {
    /// The most important first, then whoever waits longest.
    pub(crate) fn in_order(&self) -> Vec<&Queued> {
        let mut order: Vec<&Queued> = self.gangs.iter().collect();
        order.sort_by_key(|queued| {
            let priority = std::cmp::Reverse(queued.gang.priority);
            (priority, queued.since, queued.gang.id)
        });
        order
    }
}
