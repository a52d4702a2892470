//! What the votes mean: a pure function, so that equal records give equal views.
//!
//! A member is *accused* if this node's own vote, or those of two watchers, say it is gone. It is
//! unreachable if more than half of its watchers say so, the accused not counted among them: the
//! next in the ring stand in for those. One vote makes it suspect, unless its caster hears hardly
//! anybody whom others hear: then the caster is the suspect.

use std::collections::{BTreeMap, BTreeSet};

use crate::member::{Incarnation, MemberId};
use crate::member_set::MemberSet;
use crate::mesh::Reach;
use crate::record::{Level, Vote};
use crate::roster::{Absent, Roster};

/// Fewer votes than that are nobody's deafness.
const DEAF_VOTES_MIN: usize = 2;

/// Votes as they were cast, by watcher. Watchers without a vote are not in it.
pub(crate) type Cast = BTreeMap<MemberId, Vec<Vote>>;

/// A vote and who cast it.
type By = (MemberId, Vote);

/// What the records say at one time.
pub(crate) struct Votes<'a> {
    roster: &'a Roster,
    /// By subject, then by watcher.
    votes: Vec<By>,
    cast: &'a Cast,
    me: MemberId,
}

impl<'a> Votes<'a> {
    /// The votes that are not void: `life` names the incarnation of each member.
    pub(crate) fn new(
        roster: &'a Roster,
        cast: &'a Cast,
        me: MemberId,
        life: impl Fn(MemberId) -> Incarnation,
    ) -> Self {
        let admitted = cast.iter().filter(|(w, _)| roster.is_admitted(**w));
        let all = admitted.flat_map(|(watcher, votes)| votes.iter().map(|vote| (*watcher, *vote)));
        let mut votes: Vec<By> = all
            .filter(|(watcher, vote)| {
                vote.subject != *watcher
                    && roster.is_admitted(vote.subject)
                    && vote.incarnation >= life(vote.subject)
            })
            .collect();
        votes.sort_unstable_by_key(|(watcher, vote)| (vote.subject, *watcher));
        Self {
            roster,
            votes,
            cast,
            me,
        }
    }

    /// The votes against each subject.
    fn by_subject(&self) -> impl Iterator<Item = (MemberId, &[By])> {
        let groups = self
            .votes
            .chunk_by(|one, other| one.1.subject == other.1.subject);
        groups.filter_map(|votes| Some((votes.first()?.1.subject, votes)))
    }

    /// Those said to be gone by this node, or by two.
    pub(crate) fn accused(&self) -> MemberSet {
        let gone = |(subject, votes): (MemberId, &[By])| {
            let by = votes.iter().filter(|(_, vote)| vote.level == Level::Gone);
            let mut count = 0;
            let mut mine = false;
            for (watcher, _) in by {
                count += 1;
                mine |= *watcher == self.me;
            }
            (subject != self.me && (mine || count >= 2)).then_some(subject)
        };
        self.by_subject().filter_map(gone).collect()
    }

    /// Who is not simply alive.
    pub(crate) fn reach(&self, accused: &Absent) -> BTreeMap<MemberId, Reach> {
        let mut reach = BTreeMap::new();
        let deaf = self.deaf();
        for (subject, votes) in self.by_subject() {
            let near = self.roster.watchers(subject, &Absent::NOBODY);
            let now = self.roster.watchers(subject, accused);
            let gone = |watcher: &&MemberId| {
                votes
                    .iter()
                    .any(|(by, vote)| by == *watcher && vote.level == Level::Gone)
            };
            let against = now.iter().filter(gone).count();
            if accused.contains(subject) && against * 2 > now.len() {
                reach.insert(subject, Reach::Unreachable);
            } else if votes
                .iter()
                .any(|(by, _)| !deaf.contains(by) && (near.contains(by) || now.contains(by)))
            {
                reach.insert(subject, Reach::Suspect);
            }
        }
        for watcher in deaf {
            reach.entry(watcher).or_insert(Reach::Suspect);
        }
        reach
    }

    /// Watchers that hear less than half of those they watch, all of whom the others hear.
    fn deaf(&self) -> BTreeSet<MemberId> {
        let lonely = |watcher: MemberId, vote: &Vote| {
            let against = self.against(vote.subject);
            against.iter().all(|(by, _)| *by == watcher)
        };
        let is_deaf = |(watcher, votes): (&MemberId, &Vec<Vote>)| {
            let silent: Vec<_> = votes.iter().filter(|v| v.level > Level::Sick).collect();
            let many = silent.len() >= DEAF_VOTES_MIN && {
                let watched = self.roster.watched(*watcher, &Absent::NOBODY);
                silent.len() * 2 > watched.len() && watched.len() > DEAF_VOTES_MIN
            };
            (many && silent.iter().all(|vote| lonely(*watcher, vote))).then_some(*watcher)
        };
        self.cast.iter().filter_map(is_deaf).collect()
    }

    /// The votes against `member`.
    pub(crate) fn against(&self, member: MemberId) -> &[(MemberId, Vote)] {
        let first = self
            .votes
            .partition_point(|(_, vote)| vote.subject < member);
        let after = self
            .votes
            .partition_point(|(_, vote)| vote.subject <= member);
        &self.votes[first..after]
    }
}

#[cfg(test)]
mod tests;
