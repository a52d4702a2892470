//! Sets of chunks.

use crate::frame::CHUNKS_MAX;

const WORDS: usize = CHUNKS_MAX / 64;

/// A set of chunks of one body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkSet([u64; WORDS]);

impl ChunkSet {
    /// The chunks 0 to `count` - 1.
    pub(super) fn first(count: usize) -> Self {
        let mut set = Self::default();
        (0..count).for_each(|chunk| set.insert(chunk));
        set
    }

    /// From a bitmap as it is sent; chunks beyond `count` are left out.
    pub(super) fn from_bitmap(bitmap: &[u8], count: usize) -> Self {
        let mut set = Self::default();
        for chunk in 0..count.min(bitmap.len() * 8) {
            if bitmap[chunk / 8] & (1 << (chunk % 8)) != 0 {
                set.insert(chunk);
            }
        }
        set
    }

    /// As it is sent, for a body of `count` chunks.
    pub(super) fn to_bitmap(self, count: usize) -> Vec<u8> {
        let bytes = self.0.iter().flat_map(|word| word.to_le_bytes());
        bytes.take(count.div_ceil(8)).collect()
    }

    pub(super) fn insert(&mut self, chunk: usize) {
        if let Some(word) = self.0.get_mut(chunk / 64) {
            *word |= 1 << (chunk % 64);
        }
    }

    pub(super) fn remove(&mut self, chunk: usize) {
        if let Some(word) = self.0.get_mut(chunk / 64) {
            *word &= !(1 << (chunk % 64));
        }
    }

    pub(super) fn contains(&self, chunk: usize) -> bool {
        self.0
            .get(chunk / 64)
            .is_some_and(|word| word & (1 << (chunk % 64)) != 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    #[must_use]
    pub(super) fn minus(mut self, other: Self) -> Self {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(word, other)| *word &= !other);
        self
    }

    /// Ascending.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..CHUNKS_MAX).filter(move |chunk| self.contains(*chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_survives_its_bitmap() {
        for count in [0, 1, 7, 8, 9, 64, 65, 255, 256] {
            let all = ChunkSet::first(count);
            let bitmap = all.to_bitmap(count);
            assert_eq!(bitmap.len(), count.div_ceil(8));
            assert_eq!(ChunkSet::from_bitmap(&bitmap, count), all);
            assert_eq!(ChunkSet::from_bitmap(&[0xff; 40], count), all);
            assert_eq!(
                all.iter().collect::<Vec<_>>(),
                (0..count).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn sets_are_taken_apart() {
        let mut some = ChunkSet::default();
        some.insert(3);
        some.insert(200);
        some.insert(9_999);
        let mut rest = ChunkSet::first(256).minus(some);
        assert!(!rest.contains(3) && !rest.contains(200) && rest.contains(4));
        rest.insert(3);
        some.remove(3);
        some.remove(9_999);
        assert!(rest.contains(3) && !some.contains(3) && some.contains(200));
        some.remove(200);
        assert!(some.is_empty());
    }
}
