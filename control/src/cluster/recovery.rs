//! How a virtual cluster goes on that has lost most of its voters for good: from the copy that knows most,
//! as a group of one, in the next generation.
//!
//! What a group had committed is on most of its voters, and so on each copy that has more than all others
//! that are left, but for what only the lost ones had.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_gossip::member::MemberId;
use serde::{Deserialize, Serialize};

use super::entry::{Birth, Home};

/// A copy of a group, by the word of the member that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    /// Of which group.
    pub group: u64,
    /// Where it lies.
    pub home: Home,
    /// Term and index of the last entry of its log; zeros if it knows nothing yet.
    pub last: (u64, u64),
    /// Whether it leads.
    pub leads: bool,
    /// Whose copies vote, as far as it knows.
    pub voters: BTreeSet<MemberId>,
}

/// How it would go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In its next generation.
    pub birth: Birth,
    /// Who votes by now.
    pub voters: BTreeSet<MemberId>,
    /// Those of them of whose copies nothing is to be heard.
    pub missing: BTreeSet<MemberId>,
}

/// Why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// There is nothing to recover: this member leads it.
    Led(MemberId),
    /// So many voters are there that it gets a leader by itself.
    Majority(BTreeSet<MemberId>),
    /// Nobody who can be reached has a copy.
    NoCopy,
}

impl Birth {
    /// How the virtual cluster goes on from one of these copies, in a new group.
    ///
    /// # Errors
    /// When it needs no recovery, or cannot have one.
    pub fn recovery(&self, copies: &[Copy], group: u64) -> Result<Plan, Hindrance> {
        if let Some(leader) = copies.iter().find(|it| it.group == self.group && it.leads) {
            return Err(Hindrance::Led(leader.home.member));
        }
        let groups: Vec<u64> = self.before.iter().copied().chain([self.group]).collect();
        let age = |copy: &Copy| groups.iter().rev().position(|group| *group == copy.group);
        let known = copies.iter().filter(|it| it.last.1 > 0);
        let known = known.filter_map(|it| Some((Reverse(age(it)?), it)));
        let order = |(age, copy): &(_, &Copy)| (*age, copy.last, Reverse(copy.home.member));
        let (_, best) = known.max_by_key(order).ok_or(Hindrance::NoCopy)?;
        let same = copies.iter().filter(|it| it.group == best.group);
        let there: BTreeSet<_> = same.map(|it| it.home.member).collect();
        let present: BTreeSet<_> = best.voters.intersection(&there).copied().collect();
        if 2 * present.len() > best.voters.len() {
            return Err(Hindrance::Majority(present));
        }
        Ok(Plan {
            birth: Self {
                vc: self.vc.clone(),
                group,
                generation: self.generation + 1,
                homes: vec![best.home],
                before: groups,
                heir_of: Some(best.group),
            },
            voters: best.voters.clone(),
            missing: best.voters.difference(&there).copied().collect(),
        })
    }
}
