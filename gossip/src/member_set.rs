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

    /// Takes a member in. Whether it was not in it.
    pub fn insert(&mut self, member: MemberId) -> bool {
        let at = member.index() / BITS;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        let bit = 1 << (member.index() % BITS);
        let new = self.words[at] & bit == 0;
        self.len += usize::from(new);
        self.words[at] |= bit;
        new
    }

    /// Takes a member out. Whether it was in it.
    pub fn remove(&mut self, member: MemberId) -> bool {
        let is = self.contains(member);
        if is {
            self.words[member.index() / BITS] &= !(1 << (member.index() % BITS));
            self.len -= 1;
        }
        is
    }

    /// Takes a member in or out.
    pub fn set(&mut self, member: MemberId, is_in: bool) {
        if is_in {
            self.insert(member);
        } else {
            self.remove(member);
        }
    }

    /// Its members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = MemberId> + '_ {
        members(self.words.iter().copied())
    }

    /// The members of this one and of another, ascending.
    pub fn union<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = MemberId> + 'a {
        let word = |set: &Self, at| set.words.get(at).copied().unwrap_or(0);
        let length = self.words.len().max(other.words.len());
        members((0..length).map(move |at| word(self, at) | word(other, at)))
    }

    /// The first of its members that is not below this one.
    pub fn first_from(&self, member: MemberId) -> Option<MemberId> {
        let at = member.index() / BITS;
        let word = self.words.get(at)? & (u64::MAX << (member.index() % BITS));
        let rest = self.words.iter().skip(at + 1).copied();
        let mut words = (at..).zip(iter::once(word).chain(rest));
        let (at, word) = words.find(|(_, word)| *word != 0)?;
        let first = u32::try_from(at * BITS).unwrap_or(u32::MAX);
        Some(MemberId(first + word.trailing_zeros()))
    }

    /// The last of its members.
    pub fn last(&self) -> Option<MemberId> {
        let at = self.words.iter().rposition(|word| *word != 0)?;
        let first = u32::try_from(at * BITS).unwrap_or(u32::MAX);
        Some(MemberId(first + self.words[at].ilog2()))
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

/// The members of a bitmap, ascending.
fn members(words: impl Iterator<Item = u64>) -> impl Iterator<Item = MemberId> {
    let words = (0_u32..).step_by(BITS).zip(words);
    words.flat_map(|(first, word)| {
        // Of each word the lowest bit is taken away, until there is none.
        let rest = |word: u64| (word != 0).then_some(word);
        let bits = iter::successors(rest(word), move |word| rest(word & (word - 1)));
        bits.map(move |bits| MemberId(first + bits.trailing_zeros()))
    })
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
        for (from, first) in [(0, 3), (3, 3), (4, 63), (64, 64), (65, 200), (200, 200)] {
            assert_eq!(set.first_from(MemberId(from)), Some(MemberId(first)));
        }
        assert!(set.first_from(MemberId(201)).is_none() && set.first_from(MemberId(999)).is_none());
        assert_eq!(set.last(), Some(MemberId(200)));
        assert!(set.union(&other).eq([3, 4, 63, 64, 200].map(MemberId)));
        let none = MemberSet::new();
        assert!(none.is_empty() && none.first_from(MemberId(0)).is_none() && none.last().is_none());
        let mut less = set.clone();
        for member in [64, 64, 65, 9_999] {
            less.remove(MemberId(member));
        }
        assert!(less.len() == 3 && !less.contains(MemberId(64)));
        less.remove(MemberId(200));
        assert_eq!(less, [3, 63].map(MemberId).into_iter().collect());
    }
}
