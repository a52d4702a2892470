//! Sets of members.

use std::iter;

use crate::member::MemberId;

/// A set of members, as a bitmap over their numbers: looked into very often, small to keep.
#[derive(Clone, Debug, Default)]
pub struct MemberSet {
    words: Vec<u64>,
    len: usize,
}

const BITS: usize = 64;

impl MemberSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self {
            words: Vec::new(),
            len: 0,
        }
    }

    /// Whether it has this member.
    pub fn contains(&self, member: MemberId) -> bool {
        let word = self.words.get(member.index() / BITS);
        word.is_some_and(|word| word >> (member.index() % BITS) & 1 == 1)
    }

    /// Takes a member in.
    pub fn insert(&mut self, member: MemberId) {
        let at = member.index() / BITS;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        let bit = 1 << (member.index() % BITS);
        self.len += usize::from(self.words[at] & bit == 0);
        self.words[at] |= bit;
    }

    /// Takes a member out.
    pub fn remove(&mut self, member: MemberId) {
        if self.contains(member) {
            self.words[member.index() / BITS] &= !(1 << (member.index() % BITS));
            self.len -= 1;
        }
    }

    /// Its members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = MemberId> + '_ {
        let words = (0_u32..).step_by(BITS).zip(&self.words);
        words.flat_map(|(first, word)| {
            // Of each word the lowest bit is taken away, until there is none.
            let rest = |word: u64| (word != 0).then_some(word);
            let bits = iter::successors(rest(*word), move |word| rest(word & (word - 1)));
            bits.map(move |bits| MemberId(first + bits.trailing_zeros()))
        })
    }

    /// How many members it has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for MemberSet {
    fn eq(&self, other: &Self) -> bool {
        let both = self.words.len().min(other.words.len());
        self.len == other.len && self.words[..both] == other.words[..both]
    }
}

impl Eq for MemberSet {}

impl FromIterator<MemberId> for MemberSet {
    fn from_iter<I: IntoIterator<Item = MemberId>>(members: I) -> Self {
        let mut set = Self::new();
        for member in members {
            set.insert(member);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_taken_in_once() {
        let members = [3, 200, 64, 3, 63].map(MemberId);
        let set: MemberSet = members.into_iter().collect();
        assert_eq!(set.len(), 4);
        assert!(members.iter().all(|member| set.contains(*member)));
        assert!(set.iter().eq([3, 63, 64, 200].map(MemberId)));
        assert!(!set.contains(MemberId(65)) && !set.contains(MemberId(9_999)));
        let same: MemberSet = [64, 200, 63, 3].map(MemberId).into_iter().collect();
        assert_eq!(set, same);
        let other: MemberSet = [64, 200, 63, 4].map(MemberId).into_iter().collect();
        assert_ne!(set, other);
        assert!(MemberSet::new().is_empty());
        let mut less = set.clone();
        for member in [64, 64, 65, 9_999] {
            less.remove(MemberId(member));
        }
        assert!(less.len() == 3 && !less.contains(MemberId(64)));
        less.remove(MemberId(200));
        assert_eq!(less, [3, 63].map(MemberId).into_iter().collect());
    }
}
