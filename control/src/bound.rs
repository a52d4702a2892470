//! The leaf cells that a virtual cluster is bound to, with their cell epochs.

use std::collections::BTreeMap;

use muster_model::id::NodeId;
use serde::{Deserialize, Serialize};

/// Spans of one machine, at most: more than it can have leaf cells that are not next to each other.
pub const SPANS_MAX: usize = 4_096;
/// Machines, at most.
pub const NODES_MAX: usize = 65_536;

/// Leaf cells of a machine whose addresses follow each other, bound by the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first address.
    pub first: u32,
    /// The last one.
    pub last: u32,
    /// The cell epoch: the place of the entry in the log of the `cluster` group that bound them.
    pub epoch: u64,
}

impl Span {
    const fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// What is left of it without another one.
    fn without(&self, other: &Self) -> impl Iterator<Item = Self> + use<> {
        let before = other.first.checked_sub(1).map(|last| Self {
            last: last.min(self.last),
            ..*self
        });
        let after = other.last.checked_add(1).map(|first| Self {
            first: first.max(self.first),
            ..*self
        });
        let parts = [before, after].into_iter().flatten();
        parts.filter(|part| part.first <= part.last)
    }
}

/// Leaf cells, by machine. No two spans of a machine meet; they are in the order of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundLeaves(BTreeMap<NodeId, Vec<Span>>);

impl BoundLeaves {
    /// These leaves, each by its machine and address.
    pub fn of<'a>(leaves: impl IntoIterator<Item = (&'a NodeId, u32)>, epoch: u64) -> Self {
        let mut bound = Self::default();
        for (node, leaf) in leaves {
            bound.put(node, leaf, epoch);
        }
        bound
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every span.
    pub fn spans(&self) -> impl Iterator<Item = (&NodeId, &Span)> {
        let nodes = self.0.iter();
        nodes.flat_map(|(node, spans)| spans.iter().map(move |span| (node, span)))
    }

    /// The machines.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.0.keys()
    }

    /// The epoch of a leaf, if it is there.
    pub fn epoch_of(&self, node: &NodeId, leaf: u32) -> Option<u64> {
        let spans = self.0.get(node)?;
        let at = spans.partition_point(|span| span.last < leaf);
        let span = spans.get(at).filter(|span| span.first <= leaf)?;
        Some(span.epoch)
    }

    /// Whether any leaf is of both.
    pub fn meets(&self, other: &Self) -> bool {
        self.spans().any(|(node, span)| {
            let others = other.0.get(node);
            others.is_some_and(|others| others.iter().any(|other| other.meets(span)))
        })
    }

    /// Adds a leaf in this epoch.
    pub fn put(&mut self, node: &NodeId, leaf: u32, epoch: u64) {
        let (first, last) = (leaf, leaf);
        self.add(node, Span { first, last, epoch });
    }

    /// Adds a span; what it meets has its epoch from now on.
    pub fn add(&mut self, node: &NodeId, span: Span) {
        self.cut(node, &span);
        let spans = self.0.entry(node.clone()).or_default();
        let at = spans.partition_point(|known| known.first < span.first);
        spans.insert(at, span);
        let follows = |a: &Span, b: &Span| {
            a.epoch == b.epoch && a.last.checked_add(1).is_some_and(|next| next == b.first)
        };
        let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans.iter() {
            match merged.last_mut().filter(|last| follows(last, span)) {
                Some(last) => last.last = span.last,
                None => merged.push(*span),
            }
        }
        *spans = merged;
    }

    /// Adds all of another, with its epochs.
    pub fn extend(&mut self, other: &Self) {
        for (node, span) in other.spans() {
            self.add(node, *span);
        }
    }

    /// All leaves in one epoch.
    #[must_use]
    pub fn in_epoch(&self, epoch: u64) -> Self {
        let mut bound = Self::default();
        for (node, span) in self.spans() {
            bound.add(node, Span { epoch, ..*span });
        }
        bound
    }

    /// What is left of it without the leaves of another.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.without_if(other, |_, _| true)
    }

    /// What is left of it without those leaves of another whose epoch is not lower there.
    #[must_use]
    pub fn without_newer(&self, other: &Self) -> Self {
        self.without_if(other, |own, other| own <= other)
    }

    fn without_if(&self, other: &Self, is_out: impl Fn(u64, u64) -> bool) -> Self {
        let mut left = self.clone();
        for (node, span) in other.spans() {
            let Some(spans) = left.0.get_mut(node) else {
                continue;
            };
            let cut = |own: &Span| match own.meets(span) && is_out(own.epoch, span.epoch) {
                true => own.without(span).collect(),
                false => vec![*own],
            };
            *spans = spans.iter().flat_map(cut).collect();
            if spans.is_empty() {
                left.0.remove(node);
            }
        }
        left
    }

    /// The leaves of it that are of another too and have the same epoch there.
    #[must_use]
    pub fn kept_of(&self, other: &Self) -> Self {
        let gone = self.without_if(other, |own, other| own == other);
        self.without(&gone)
    }

    /// Why it cannot be taken from somebody else, if it cannot.
    pub fn problem(&self) -> Option<String> {
        if self.0.len() > NODES_MAX {
            return Some(format!("more than {NODES_MAX} machines"));
        }
        let is_wrong = |spans: &Vec<Span>| {
            let is_in_order = spans.windows(2).all(|pair| pair[0].last < pair[1].first);
            let is_right = spans.iter().all(|span| span.first <= span.last);
            spans.is_empty() || spans.len() > SPANS_MAX || !is_in_order || !is_right
        };
        let wrong = self.0.iter().find(|(_, spans)| is_wrong(spans));
        wrong.map(|(node, _)| format!("the cells of {node} are not spans in their order"))
    }

    fn cut(&mut self, node: &NodeId, span: &Span) {
        let Some(spans) = self.0.get_mut(node) else {
            return;
        };
        let left = |own: &Span| match own.meets(span) {
            true => own.without(span).collect(),
            false => vec![*own],
        };
        *spans = spans.iter().flat_map(left).collect();
        if spans.is_empty() {
            self.0.remove(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        name.parse().unwrap()
    }

    fn bound(spans: &[(&str, u32, u32, u64)]) -> BoundLeaves {
        let mut bound = BoundLeaves::default();
        for (name, first, last, epoch) in spans {
            let (first, last, epoch) = (*first, *last, *epoch);
            bound.add(&node(name), Span { first, last, epoch });
        }
        assert_eq!(bound.problem(), None);
        bound
    }

    #[test]
    fn leaves_that_follow_each_other_are_one_span() {
        let n1 = node("n1");
        let leaves = [3, 1, 2, 7].map(|leaf| (&n1, leaf));
        let all = BoundLeaves::of(leaves, 5);
        assert_eq!(all, bound(&[("n1", 1, 3, 5), ("n1", 7, 7, 5)]));
        assert_eq!(all.epoch_of(&n1, 2), Some(5));
        assert_eq!(all.epoch_of(&n1, 4), None);
        assert_eq!(all.epoch_of(&node("n2"), 2), None);
        let ends = bound(&[("n1", 0, 0, 5), ("n1", u32::MAX, u32::MAX, 5)]);
        assert_eq!(ends.spans().count(), 2);
    }

    #[test]
    fn what_is_added_has_its_own_epoch() {
        let all = bound(&[("n1", 0, 7, 1), ("n1", 2, 3, 2)]);
        let apart = [("n1", 0, 1, 1), ("n1", 2, 3, 2), ("n1", 4, 7, 1)];
        assert_eq!(all, bound(&apart));
        assert_eq!(all.in_epoch(9), bound(&[("n1", 0, 7, 9)]));
    }

    #[test]
    fn leaves_are_taken_away_by_epoch_or_all() {
        let all = bound(&[("n1", 0, 3, 1), ("n1", 4, 7, 3), ("n2", 0, 7, 1)]);
        let some = bound(&[("n1", 2, 5, 2), ("n2", 0, 9, 2)]);
        assert!(all.meets(&some));
        let left = bound(&[("n1", 0, 1, 1), ("n1", 6, 7, 3)]);
        assert_eq!(all.without(&some), left);
        let newer = bound(&[("n1", 0, 1, 1), ("n1", 4, 7, 3)]);
        assert_eq!(all.without_newer(&some), newer);
        let same = bound(&[("n1", 1, 5, 1)]);
        assert_eq!(all.kept_of(&same), bound(&[("n1", 1, 3, 1)]));
        assert!(!left.meets(&bound(&[("n1", 2, 5, 1)])));
    }

    #[test]
    fn what_no_honest_node_says_is_refused() {
        let spans = |spans: &[(u32, u32)]| {
            let span = |(first, last): &(u32, u32)| Span {
                first: *first,
                last: *last,
                epoch: 1,
            };
            BoundLeaves([(node("n1"), spans.iter().map(span).collect())].into())
        };
        assert_eq!(spans(&[(0, 1), (3, 3)]).problem(), None);
        for wrong in [&[(2, 1)][..], &[(0, 2), (2, 3)], &[(4, 5), (1, 2)], &[]] {
            assert!(spans(wrong).problem().is_some(), "{wrong:?}");
        }
    }
}
