//! Frames on their way: late, lost, doubled, cut off.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::NodeId;
use muster_model::time::Time;
use rand::Rng;
use rand::rngs::StdRng;

/// A frame that will arrive.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) bytes: Vec<u8>,
}

/// The network of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// By arrival, then by order of sending.
    frames: BTreeMap<(Time, u64), Frame>,
    sent: u64,
    /// Percent of frames that are lost; a tenth of that is doubled.
    pub(crate) loss: u32,
    /// One-way links that carry nothing.
    cuts: BTreeSet<(NodeId, NodeId)>,
}

impl Network {
    pub(crate) fn send(&mut self, now: Time, frame: Frame, rng: &mut StdRng) {
        let lost = rng.random_range(0..100) < self.loss;
        if lost || self.cuts.contains(&(frame.from, frame.to)) {
            return;
        }
        if rng.random_range(0..1000) < self.loss {
            self.carry(now, frame.clone(), rng);
        }
        self.carry(now, frame, rng);
    }

    fn carry(&mut self, now: Time, frame: Frame, rng: &mut StdRng) {
        let slow = self.loss > 0 && rng.random_range(0..50) == 0;
        let most = if slow { 400_000 } else { 1_000 };
        let at = Time(now.0 + rng.random_range(100..=most));
        self.sent += 1;
        self.frames.insert((at, self.sent), frame);
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.frames.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn take(&mut self, now: Time) -> Option<Frame> {
        let entry = self.frames.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// Lets it arrive later.
    pub(crate) fn put_off(&mut self, at: Time, frame: Frame) {
        self.sent += 1;
        self.frames.insert((at, self.sent), frame);
    }

    /// Cuts a node off, wholly or in one direction.
    pub(crate) fn cut(&mut self, node: NodeId, all: &[NodeId], rng: &mut StdRng) {
        let ways = rng.random_range(0..3);
        for other in all {
            if ways != 0 {
                self.cuts.insert((node, *other));
            }
            if ways != 1 {
                self.cuts.insert((*other, node));
            }
        }
    }

    /// Splits the nodes in two.
    pub(crate) fn split(&mut self, all: &[NodeId], rng: &mut StdRng) {
        let left: BTreeSet<NodeId> = all.iter().filter(|_| rng.random()).copied().collect();
        for one in all {
            for other in all {
                if left.contains(one) != left.contains(other) {
                    self.cuts.insert((*one, *other));
                }
            }
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
    }
}
