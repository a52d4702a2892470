//! Members that are stepped over for a while: no answer is expected of them.

use super::{RINGS, Roster};
use crate::member::MemberId;
use crate::member_set::MemberSet;

/// While one of so many is left, the next one in a ring is near.
const NEAR: usize = 4;

/// Members that are stepped over, and, where few are left, who is left of each ring. Holds for the
/// roster it was made from, until that changes.
#[derive(Clone, Debug, Default)]
pub struct Absent {
    set: MemberSet,
    /// How many of the roster are left.
    remain: usize,
    /// Positions in each ring of those that are left, ascending, where these are few: on a small
    /// island of a large cluster the next one left has to be found without going past all that are
    /// not.
    left: Option<[Vec<u32>; RINGS]>,
}

impl Absent {
    /// Nobody.
    pub const NOBODY: Self = Self {
        set: MemberSet::new(),
        remain: 0,
        left: None,
    };

    /// These members of `roster`.
    pub fn new(roster: &Roster, set: MemberSet) -> Self {
        if set.is_empty() {
            return Self::NOBODY;
        }
        let remain = roster.admitted.iter().filter(|m| !set.contains(*m)).count();
        let left = |ring: usize| {
            let mut left = Vec::with_capacity(remain);
            let order = (0..).zip(&roster.orders[ring]);
            let there = order.filter(|(_, member)| !set.contains(**member));
            left.extend(there.map(|(at, _)| at));
            left
        };
        let few = remain * NEAR < roster.len();
        Self {
            left: few.then(|| std::array::from_fn(left)),
            remain,
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

    /// How many are not stepped over; of nobody it is not known.
    pub(crate) const fn remain(&self) -> usize {
        self.remain
    }

    /// Positions in a ring of those left, from the nearest before `at` backwards, once around;
    /// `None` where so many are left that the next is near.
    pub(super) fn left_before(
        &self,
        ring: usize,
        at: usize,
    ) -> Option<impl Iterator<Item = usize> + '_> {
        let left = &self.left.as_ref()?[ring];
        let start = left.partition_point(|other| (*other as usize) < at);
        let before = left[..start].iter().rev();
        let around = before.chain(left[start..].iter().rev());
        Some(around.map(|at| *at as usize))
    }
}
