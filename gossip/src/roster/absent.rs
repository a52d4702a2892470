//! Members that are stepped over for a while: no answer is expected of them.

use super::{RINGS, Roster};
use crate::member::MemberId;
use crate::member_set::MemberSet;

/// Members that are stepped over, and who is left of each ring. Holds for the roster it was made
/// from, until that changes.
#[derive(Clone, Debug, Default)]
pub struct Absent {
    set: MemberSet,
    /// Positions in each ring of those that are left, ascending: where half of a large cluster is
    /// lost, the next one left has to be found without going past all that are not.
    left: [Vec<u32>; RINGS],
}

impl Absent {
    /// Nobody.
    pub const NOBODY: Self = Self {
        set: MemberSet::new(),
        left: [const { Vec::new() }; RINGS],
    };

    /// These members of `roster`.
    pub fn new(roster: &Roster, set: MemberSet) -> Self {
        if set.is_empty() {
            return Self::NOBODY;
        }
        let left = |ring: usize| {
            let mut left = Vec::with_capacity(roster.len().saturating_sub(set.len()));
            let places = (0..).zip(&roster.rings[ring]);
            let there = places.filter(|(_, place)| !set.contains(place.member));
            left.extend(there.map(|(at, _)| at));
            left
        };
        Self {
            left: std::array::from_fn(left),
            set,
        }
    }

    /// Whether this one is stepped over.
    pub fn contains(&self, member: MemberId) -> bool {
        self.set.contains(member)
    }

    /// Whether nobody is.
    pub const fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Those who are.
    pub const fn set(&self) -> &MemberSet {
        &self.set
    }

    /// Positions in a ring of those left, from the nearest before `at` backwards, once around.
    pub(super) fn left_before(&self, ring: usize, at: usize) -> impl Iterator<Item = usize> + '_ {
        let left = &self.left[ring];
        let start = left.partition_point(|other| (*other as usize) < at);
        let before = left[..start].iter().rev();
        before
            .chain(left[start..].iter().rev())
            .map(|at| *at as usize)
    }
}
