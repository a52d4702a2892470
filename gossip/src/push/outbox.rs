//! What waits for one link.

use crate::member::MemberId;
use crate::member_set::MemberSet;
use crate::record::{DocumentId, RecordKey};

/// Most keys that wait for one link. With more, the link is left to repair.
pub(super) const OUTBOX_MAX: usize = 4_096;
/// Kinds of keys.
const KINDS: usize = 6;

/// Keys that wait for one link, each once, in the order in which they are sent: what must not wait
/// goes first. Sets of numbers, one for each kind, by rank: thousands come and go where two halves
/// of a large cluster meet.
///
/// Of one kind every link begins elsewhere and goes round: of the same thousands a node gets
/// different ones from each of its upstream neighbours, not the same from all.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkOutbox {
    waiting: [MemberSet; KINDS],
    /// Of each kind: what goes first if it waits.
    from: [MemberId; KINDS],
    len: usize,
}

/// A key's place in the order: the rank of its kind, then its number.
const fn place(key: RecordKey) -> (usize, MemberId) {
    match key {
        RecordKey::Cluster => (0, MemberId(0)),
        RecordKey::Replacement => (1, MemberId(0)),
        RecordKey::Member(member) => (2, member),
        RecordKey::Watch(member) => (3, member),
        RecordKey::Document(id) => (4, MemberId(id.0 as u32)),
        RecordKey::Node(member) => (5, member),
    }
}

/// The key that has this place.
fn key((rank, number): (usize, MemberId)) -> RecordKey {
    match rank {
        0 => RecordKey::Cluster,
        1 => RecordKey::Replacement,
        2 => RecordKey::Member(number),
        3 => RecordKey::Watch(number),
        4 => RecordKey::Document(DocumentId(u16::try_from(number.0).unwrap_or(u16::MAX))),
        _ => RecordKey::Node(number),
    }
}

impl LinkOutbox {
    /// Nothing waits; of each kind what is asked for first is `from` or the next that waits.
    pub(super) fn new(from: MemberId) -> Self {
        Self {
            from: [from; KINDS],
            ..Self::default()
        }
    }

    /// A key waits. With too many, that is dropped which can wait longest.
    pub(super) fn insert(&mut self, key: RecordKey) {
        let place = place(key);
        if self.len >= OUTBOX_MAX {
            let Some(last) = self.last().filter(|last| *last > place) else {
                return;
            };
            if self.waiting[place.0].contains(place.1) {
                return;
            }
            self.take(last);
        }
        let (rank, number) = place;
        self.len += usize::from(self.waiting[rank].insert(number));
    }

    pub(super) fn remove(&mut self, key: RecordKey) {
        self.take(place(key));
    }

    pub(super) fn first(&self) -> Option<RecordKey> {
        self.first_place().map(key)
    }

    pub(super) fn pop_first(&mut self) -> Option<RecordKey> {
        let first = self.first_place()?;
        self.take(first);
        self.from[first.0] = first.1;
        Some(key(first))
    }

    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn take(&mut self, (rank, number): (usize, MemberId)) {
        self.len -= usize::from(self.waiting[rank].remove(number));
    }

    fn first_place(&self) -> Option<(usize, MemberId)> {
        let mut kinds = self.waiting.iter().zip(self.from).enumerate();
        kinds.find_map(|(rank, (numbers, from))| {
            let there = (!numbers.is_empty()).then_some(numbers)?;
            let first = there.first_from(from);
            Some((rank, first.or_else(|| there.first_from(MemberId(0)))?))
        })
    }

    fn last(&self) -> Option<(usize, MemberId)> {
        let mut kinds = self.waiting.iter().enumerate().rev();
        kinds.find_map(|(rank, numbers)| Some((rank, numbers.last()?)))
    }
}

impl Extend<RecordKey> for LinkOutbox {
    fn extend<I: IntoIterator<Item = RecordKey>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
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
        let mut outbox = LinkOutbox::default();
        outbox.extend(keys);
        assert_eq!(outbox.first(), Some(RecordKey::Cluster));
        outbox.remove(RecordKey::Cluster);
        outbox.remove(RecordKey::Cluster);
        let order: Vec<_> = std::iter::from_fn(|| outbox.pop_first()).collect();
        assert_eq!(order, [member, watch, document, node, late]);
        assert!(outbox.is_empty());
    }

    #[test]
    fn each_link_begins_elsewhere_and_goes_round() {
        let node = |number| RecordKey::Node(MemberId(number));
        let mut outbox = LinkOutbox::new(MemberId(5));
        outbox.extend([1, 4, 6, 9].map(node));
        assert_eq!(outbox.pop_first(), Some(node(6)));
        // What comes meanwhile waits for its place, so that nobody waits for ever.
        outbox.extend([5, 7].map(node));
        let order: Vec<_> = std::iter::from_fn(|| outbox.pop_first()).collect();
        assert_eq!(order, [7, 9, 1, 4, 5].map(node));
    }

    #[test]
    fn of_too_many_those_are_dropped_that_can_wait_longest() {
        let most = u32::try_from(OUTBOX_MAX).unwrap();
        let nodes = (1..=most).map(|number| RecordKey::Node(MemberId(number)));
        let mut outbox = LinkOutbox::default();
        outbox.extend(nodes);
        let watch = RecordKey::Watch(MemberId(9));
        outbox.insert(watch);
        outbox.insert(RecordKey::Node(MemberId(most + 1)));
        let order: Vec<_> = std::iter::from_fn(|| outbox.pop_first()).collect();
        assert_eq!(order.len(), OUTBOX_MAX);
        assert_eq!(order[0], watch);
        assert_eq!(order[OUTBOX_MAX - 1], RecordKey::Node(MemberId(most - 1)));
    }
}
