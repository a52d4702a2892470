//! What waits for one link.

use crate::record::RecordKey;

/// Keys that wait for one link, each once, in the order in which they are sent: what must not wait
/// goes first. A sorted list, since its memory is used again and again.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    /// The next one last.
    waiting: Vec<(u8, RecordKey)>,
}

const fn rank(key: RecordKey) -> u8 {
    match key {
        RecordKey::Cluster => 0,
        RecordKey::Member(_) => 1,
        RecordKey::Watch(_) => 2,
        RecordKey::Document(_) => 3,
        RecordKey::Node(_) => 4,
    }
}

impl Outbox {
    pub(super) fn insert(&mut self, key: RecordKey) {
        if let Err(at) = self.place(key) {
            self.waiting.insert(at, (rank(key), key));
        }
    }

    pub(super) fn remove(&mut self, key: RecordKey) {
        if let Ok(at) = self.place(key) {
            self.waiting.remove(at);
        }
    }

    pub(super) fn first(&self) -> Option<RecordKey> {
        self.waiting.last().map(|(_, key)| *key)
    }

    pub(super) fn pop_first(&mut self) -> Option<RecordKey> {
        self.waiting.pop().map(|(_, key)| key)
    }

    /// Drops what can wait longest.
    pub(super) fn drop_last(&mut self) {
        self.waiting.remove(0);
    }

    pub(super) const fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Where a key is, or belongs.
    fn place(&self, key: RecordKey) -> Result<usize, usize> {
        let ranked = (rank(key), key);
        self.waiting.binary_search_by(|other| ranked.cmp(other))
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
    use crate::member::MemberId;

    #[test]
    fn each_key_goes_once_and_the_urgent_first() {
        let [node, late] = [3, 7].map(|number| RecordKey::Node(MemberId(number)));
        let watch = RecordKey::Watch(MemberId(9));
        let keys = [late, node, watch, node, RecordKey::Cluster];
        let mut outbox: Outbox = keys.into_iter().collect();
        assert_eq!(outbox.len(), 4);
        assert_eq!(outbox.first(), Some(RecordKey::Cluster));
        outbox.drop_last();
        outbox.remove(RecordKey::Cluster);
        outbox.remove(RecordKey::Cluster);
        let order: Vec<_> = std::iter::from_fn(|| outbox.pop_first()).collect();
        assert_eq!(order, [watch, node]);
        assert!(outbox.is_empty());
    }
}
