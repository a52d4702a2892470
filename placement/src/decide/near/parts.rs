//! The members of a gang in the order in which they look for a place.

use std::cmp::Reverse;

use muster_model::cluster_spec::Level;

use crate::decide::need::{Need, Wish};

/// Pods that are placed at a time.
#[derive(Debug)]
pub(crate) struct PodBatch {
    /// What they ask for; none: nothing.
    pub(crate) level: Option<Level>,
    pub(crate) pods: Vec<usize>,
    /// Leaves of each, if they ask for something: they are alike then.
    pub(crate) size: u32,
}

/// Who must be on one machine or in one rack first, the largest first; then who asks for a place
/// inside a machine; then everybody else at once.
pub(crate) fn parts(need: &Need) -> Vec<PodBatch> {
    let part = |wish: &Wish| PodBatch {
        level: Some(wish.level),
        size: need.sizes.get(wish.pods.start).copied().unwrap_or(0),
        pods: wish.pods.clone().collect(),
    };
    let mut parts: Vec<PodBatch> = need.wishes.iter().map(part).collect();
    parts.sort_by_key(|part| {
        let inside = part.level.is_some_and(Level::is_inside_node);
        let leaves = u64::from(part.size) * part.pods.len() as u64;
        (
            inside,
            Reverse(if inside { u64::from(part.size) } else { leaves }),
        )
    });
    let others = (0..need.sizes.len()).filter(|pod| need.wish_of(*pod).is_none());
    let others: Vec<usize> = others.collect();
    if !others.is_empty() {
        parts.push(PodBatch {
            level: None,
            pods: others,
            size: 0,
        });
    }
    parts
}

impl PodBatch {
    /// The same as a need of its own that asks for nothing.
    pub(crate) fn need(&self, need: &Need) -> Need {
        Need::new(self.pods.iter().map(|pod| need.sizes[*pod]).collect())
    }
}

impl Need {
    /// `n` pods of `k` leaves each that ask to be near.
    pub(crate) fn near(level: Level, n: usize, k: u32) -> Self {
        Self {
            wishes: vec![Wish { level, pods: 0..n }],
            ..Self::uniform(n, k)
        }
    }
}
