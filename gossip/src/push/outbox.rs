//! What waits for one link.

use crate::member::{MEMBERS_MAX, MemberId};
use crate::record::{DocumentId, RecordKey};

/// Most keys that wait for one link. With more, the link is left to repair.
pub(super) const OUTBOX_MAX: usize = 4_096;
/// For so many an empty list keeps its memory, which is used again and again.
const KEPT: usize = 64;

/// Keys that wait for one link, each once, in the order in which they are sent: what must not wait
/// goes first. A sorted list, in few bytes: thousands wait where two halves of a large cluster
/// meet.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    /// The next one last.
    waiting: Vec<Place>,
}

/// A key as its place in the order: the rank of its kind, then its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u32);

/// Bits of a number.
const NUMBER: u32 = MEMBERS_MAX.ilog2();

impl Place {
    const fn of(key: RecordKey) -> Self {
        let (rank, number) = match key {
            RecordKey::Cluster => (0, 0),
            RecordKey::Member(member) => (1, member.0),
            RecordKey::Watch(member) => (2, member.0),
            RecordKey::Document(id) => (3, id.0 as u32),
            RecordKey::Node(member) => (4, member.0),
        };
        Self(rank << NUMBER | number)
    }

    fn key(self) -> RecordKey {
        let number = self.0 & ((1 << NUMBER) - 1);
        let member = MemberId(number);
        match self.0 >> NUMBER {
            0 => RecordKey::Cluster,
            1 => RecordKey::Member(member),
            2 => RecordKey::Watch(member),
            3 => RecordKey::Document(DocumentId(u16::try_from(number).unwrap_or(u16::MAX))),
            _ => RecordKey::Node(member),
        }
    }
}

impl Outbox {
    /// A key waits. With too many, that is dropped which can wait longest.
    pub(super) fn insert(&mut self, key: RecordKey) {
        let Err(at) = self.place(key) else { return };
        if self.waiting.len() < OUTBOX_MAX {
            self.waiting.insert(at, Place::of(key));
        } else if at > 0 {
            self.waiting.remove(0);
            self.waiting.insert(at - 1, Place::of(key));
        }
    }

    pub(super) fn remove(&mut self, key: RecordKey) {
        if let Ok(at) = self.place(key) {
            self.waiting.remove(at);
            self.rest();
        }
    }

    pub(super) fn first(&self) -> Option<RecordKey> {
        self.waiting.last().map(|place| place.key())
    }

    pub(super) fn pop_first(&mut self) -> Option<RecordKey> {
        let first = self.waiting.pop();
        self.rest();
        first.map(Place::key)
    }

    /// Gives memory back after a storm.
    fn rest(&mut self) {
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT);
        }
    }

    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Where a key is, or belongs.
    fn place(&self, key: RecordKey) -> Result<usize, usize> {
        let place = Place::of(key);
        self.waiting.binary_search_by(|other| place.cmp(other))
    }
}

impl FromIterator<RecordKey> for Outbox {
    fn from_iter<I: IntoIterator<Item = RecordKey>>(keys: I) -> Self {
        let mut outbox = Self::default();
        for key in keys {
            outbox.insert(key);
        }
        outbox
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_goes_once_and_the_urgent_first() {
        let [node, late] = [3, 7].map(|number| RecordKey::Node(MemberId(number)));
        let watch = RecordKey::Watch(MemberId(9));
        let document = RecordKey::Document(DocumentId(u16::MAX));
        let member = RecordKey::Member(MemberId(65_535));
        let keys = [
            late,
            node,
            document,
            watch,
            node,
            member,
            RecordKey::Cluster,
        ];
        let mut outbox: Outbox = keys.into_iter().collect();
        assert_eq!(outbox.first(), Some(RecordKey::Cluster));
        outbox.remove(RecordKey::Cluster);
        outbox.remove(RecordKey::Cluster);
        let order: Vec<_> = std::iter::from_fn(|| outbox.pop_first()).collect();
        assert_eq!(order, [member, watch, document, node, late]);
        assert!(outbox.is_empty());
    }

    #[test]
    fn of_too_many_those_are_dropped_that_can_wait_longest() {
        let most = u32::try_from(OUTBOX_MAX).unwrap();
        let nodes = (1..=most).map(|number| RecordKey::Node(MemberId(number)));
        let mut outbox: Outbox = nodes.collect();
        let watch = RecordKey::Watch(MemberId(9));
        outbox.insert(watch);
        outbox.insert(RecordKey::Node(MemberId(most + 1)));
        let order: Vec<_> = std::iter::from_fn(|| outbox.pop_first()).collect();
        assert_eq!(order.len(), OUTBOX_MAX);
        assert_eq!(order[0], watch);
        assert_eq!(order[OUTBOX_MAX - 1], RecordKey::Node(MemberId(most - 1)));
        assert!(
            outbox.waiting.capacity() <= KEPT,
            "memory was not given back"
        );
    }
}
