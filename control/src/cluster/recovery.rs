//! How a virtual cluster goes on that has lost most of its voters for good, or the cluster itself: from the
//! copy that knows most, as a group of one, in the next generation.
//!
//! What a group had committed is on most of its voters, and so on each copy that has more than all others
//! that are left, but for what only the lost ones had.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_consensus::{GroupView, ReplicaId};
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::record::ReplacementBody;
use muster_model::id::VcName;
use serde::{Deserialize, Serialize};

use super::ClusterIdentity;
use super::entry::{CopyHome, VcCreation};
use crate::groups::name;

/// A copy of a group, by the word of the member that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverableCopy {
    /// Of which group.
    pub group: u64,
    /// Where it lies.
    pub home: CopyHome,
    /// Term and index of the last entry of its log; zeros if it knows nothing yet.
    pub last: (u64, u64),
    /// Whether it leads.
    pub leads: bool,
    /// Whose copies vote, as far as it knows.
    pub voters: BTreeSet<MemberId>,
    /// While that changes, whose voted before: most of these are needed as well.
    pub outgoing: BTreeSet<MemberId>,
}

impl RecoverableCopy {
    /// What a member says of its copy of a group; none if that is no member's.
    pub fn of(group: u64, view: &GroupView) -> Option<Self> {
        let homes = &view.membership.homes;
        let home = homes.get(&view.replica)?;
        let members = |ids: &BTreeSet<ReplicaId>| {
            let homes = homes.iter().filter(|(id, _)| ids.contains(id));
            let members = homes.filter_map(|(_, home)| name::member(home.node));
            members.collect()
        };
        Some(Self {
            group,
            home: CopyHome {
                member: name::member(home.node)?,
                store: home.store.0,
            },
            last: view.last,
            leads: view.leads,
            voters: members(&view.voters),
            outgoing: members(&view.outgoing),
        })
    }
}

/// The groups that replicated something, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The group of the newest generation.
    pub group: u64,
    /// Counts them, from 1.
    pub generation: u32,
    /// Where its first copies lay. Nobody knows that any more of the group that a cluster began with.
    pub homes: Vec<CopyHome>,
    /// Those of earlier generations, the newest last.
    pub before: Vec<u64>,
}

/// How it would go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// In its next generation.
    pub lineage: Lineage,
    /// The generation of the copy that it goes on from: not always the newest.
    pub from: u32,
    /// Who votes by now, by the word of that copy.
    pub voters: BTreeSet<MemberId>,
    /// Whose copies may be more, and nothing is to be heard of them.
    pub missing: BTreeSet<MemberId>,
}

/// Why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// There is nothing to recover: this member leads it.
    Led(MemberId),
    /// So many voters are there that it gets a leader by itself.
    Majority(BTreeSet<MemberId>),
    /// It was recovered a moment ago: this member is about to begin with it.
    Begins(MemberId),
    /// Nobody who can be reached has a copy.
    NoCopy,
}

/// The generation whose group has an entry at this index: the entries of each count on from a place of
/// their own.
pub(super) const fn generation_at(index: u64) -> u64 {
    (index >> GENERATION_BITS) + 1
}

/// Entries of a generation, as a power of two: more than a group writes in its life.
const GENERATION_BITS: u32 = 32;

impl VcCreation {
    /// The groups that the virtual cluster had.
    pub fn lineage(&self) -> Lineage {
        Lineage {
            group: self.group,
            generation: self.generation,
            homes: self.homes.clone(),
            before: self.before.clone(),
        }
    }
}

impl RecoveryPlan {
    /// How a virtual cluster is born anew by it.
    pub fn creation(&self, vc: VcName) -> VcCreation {
        let Lineage {
            group,
            generation,
            homes,
            before,
        } = self.lineage.clone();
        VcCreation {
            vc,
            group,
            generation,
            homes,
            before,
        }
    }
}

impl Lineage {
    /// The groups that held the state of a cluster: the one that it began with, if nobody said otherwise.
    pub fn of_cluster(id: ClusterId, said: Option<&ReplacementBody>) -> Self {
        let Some(said) = said else {
            return Self {
                group: name::cluster(id).0,
                generation: ClusterIdentity::GENERATION,
                homes: Vec::new(),
                before: Vec::new(),
            };
        };
        Self {
            group: said.group,
            generation: said.generation,
            homes: vec![CopyHome {
                member: said.home,
                store: said.store,
            }],
            before: said.before.clone(),
        }
    }

    /// What the mesh is told of it; none if it has no home.
    pub fn said(&self) -> Option<ReplacementBody> {
        let home = self.homes.first()?;
        Some(ReplacementBody {
            generation: self.generation,
            group: self.group,
            home: home.member,
            store: home.store,
            before: self.before.clone(),
        })
    }

    /// All of its groups, the newest last.
    pub fn groups(&self) -> Vec<u64> {
        let before = self.before.iter().copied();
        before.chain([self.group]).collect()
    }

    /// What entries of the newest group's log count on from. What entries are named by, as jobs are, is so
    /// never named twice: what only lost copies knew of is not taken for something else.
    pub fn begins_after(&self) -> u64 {
        u64::from(self.generation.saturating_sub(1)) << GENERATION_BITS
    }

    /// How it goes on from one of these copies, in a new group. `silent`: members that said that they have
    /// copies, and do not answer.
    ///
    /// # Errors
    /// When it needs no recovery, or cannot have one.
    pub fn recovery(
        &self,
        copies: &[RecoverableCopy],
        silent: &BTreeSet<MemberId>,
        group: u64,
    ) -> Result<RecoveryPlan, Hindrance> {
        let mut newest = copies.iter().filter(|it| it.group == self.group);
        if let Some(leader) = newest.find(|it| it.leads) {
            return Err(Hindrance::Led(leader.home.member));
        }
        let groups = self.groups();
        let known = copies.iter().filter(|it| it.last.1 > 0);
        let place = |copy: &RecoverableCopy| groups.iter().position(|group| *group == copy.group);
        let known = known.filter_map(|it| Some((place(it)?, it)));
        let order = |(place, copy): &(usize, &RecoverableCopy)| {
            (*place, copy.last, Reverse(copy.home.member))
        };
        let (place, best) = known.max_by_key(order).ok_or(Hindrance::NoCopy)?;
        let same = copies.iter().filter(|it| it.group == best.group);
        let there: BTreeSet<_> = same.map(|it| it.home.member).collect();
        if best.group == self.group {
            let most = |of: &BTreeSet<MemberId>| 2 * of.intersection(&there).count() > of.len();
            if most(&best.voters) && (best.outgoing.is_empty() || most(&best.outgoing)) {
                let present = best.voters.intersection(&there);
                return Err(Hindrance::Majority(present.copied().collect()));
            }
        } else if let Some(heir) = copies.iter().find(|it| self.homes.contains(&it.home)) {
            return Err(Hindrance::Begins(heir.home.member));
        }
        let voters: BTreeSet<_> = best.voters.union(&best.outgoing).copied().collect();
        let lost = voters.difference(&there).chain(silent);
        Ok(RecoveryPlan {
            lineage: Self {
                group,
                generation: self.generation + 1,
                homes: vec![best.home],
                before: groups,
            },
            from: u32::try_from(place).unwrap_or(0) + 1,
            missing: lost.copied().collect(),
            voters,
        })
    }
}
