//! What the votes mean: a pure function, so that equal records give equal views to those who hear
//! each other.
//!
//! A member is *accused* if this node's own vote, or those of two watchers, say it is gone. An
//! accused one is *lost* if no chain leads to it from this node, each of which watches the next and
//! hears it: where a part of the cluster is cut off, its members hear each other, but nobody else
//! does. A node that misses somebody itself also goes by who has just asked it.
//! A member is unreachable if it is accused and more than half of its watchers say so, the lost not
//! counted among them: the next in the ring stand in for those. One vote makes it suspect, unless
//! its caster is unreachable itself, or hears hardly anybody whom others hear: then the caster is
//! the suspect.

mod by_member;

use std::collections::{BTreeMap, BTreeSet};

use crate::member::{Incarnation, MemberId};
use crate::member_set::MemberSet;
use crate::mesh::Reach;
use crate::record::{Level, Vote};
use crate::roster::{Absent, Roster};
use by_member::ByMember;

/// Fewer votes than that are nobody's deafness.
const DEAF_VOTES_MIN: usize = 2;

/// Votes as they were cast, by watcher. Watchers without a vote are not in it.
pub(crate) type Cast<'a> = Vec<(MemberId, &'a [Vote])>;

/// A vote and who cast it.
type By = (MemberId, Vote);

/// What the records say at one time.
pub(crate) struct Votes<'a> {
    roster: &'a Roster,
    /// By subject; of one subject by watcher.
    votes: ByMember<By>,
    cast: Cast<'a>,
    me: MemberId,
}

impl<'a> Votes<'a> {
    /// The votes that are not void: `life` names the incarnation of each member.
    pub(crate) fn new(
        roster: &'a Roster,
        cast: Cast<'a>,
        me: MemberId,
        life: impl Fn(MemberId) -> Incarnation,
    ) -> Self {
        let admitted = cast.iter().filter(|(w, _)| roster.is_admitted(*w));
        let all = admitted.flat_map(|(watcher, votes)| votes.iter().map(|vote| (*watcher, *vote)));
        let counts =
            |(watcher, vote): &By| *watcher != vote.subject && roster.is_admitted(vote.subject);
        let votes: Vec<By> = all.filter(counts).collect();
        let votes = ByMember::new(&votes, |(_, vote)| vote.subject);
        let votes = without_void(votes, life);
        Self {
            roster,
            votes,
            cast,
            me,
        }
    }

    /// Of the accused, those whom nobody hears either that this node hears of. `askers` have just
    /// asked it, so it hears them whatever its own questions do. It can be lost itself: the others
    /// then have somebody who watches in its place, and it must know. Also whether it would be
    /// otherwise without the askers.
    pub(crate) fn lost(&self, accused: &MemberSet, askers: &[MemberId]) -> (MemberSet, bool) {
        let accused_members = || {
            let members = self.votes.iter().map(|(subject, _)| subject);
            members.filter(|member| accused.contains(*member))
        };
        // Saves following all chains where somebody has simply died.
        let unasked = askers.iter().all(|asker| !accused.contains(*asker));
        let unheard = |member| self.is_unheard(member, accused);
        let mut asked = false;
        let mut lost = if unasked && accused_members().all(unheard) {
            accused.clone()
        } else {
            let mut heard = self.heard(&[self.me]);
            asked = askers.iter().any(|asker| !heard.contains(*asker));
            if asked {
                heard = self.heard(&[askers, &[self.me]].concat());
            }
            accused_members()
                .filter(|member| !heard.contains(*member))
                .collect()
        };
        if gone(self.against(self.me)).count() >= 2 && self.is_unheard(self.me, &lost) {
            lost.insert(self.me);
        }
        (lost, asked)
    }

    /// Whether all watchers of a member say that it is gone, but those that are lost.
    fn is_unheard(&self, member: MemberId, lost: &MemberSet) -> bool {
        let votes = self.against(member);
        let watchers = self.roster.watchers(member, &Absent::NOBODY);
        watchers
            .iter()
            .all(|watcher| lost.contains(*watcher) || gone(votes).any(|by| by == *watcher))
    }

    /// Those to whom a chain leads from these, each of which watches the next and hears it.
    fn heard(&self, first: &[MemberId]) -> MemberSet {
        let gone = self.gone();
        let mut next = first.to_vec();
        let mut heard: MemberSet = next.iter().copied().collect();
        while let Some(watcher) = next.pop() {
            let misses = gone.of(watcher);
            for member in self.roster.watched(watcher, &Absent::NOBODY).iter() {
                if !heard.contains(*member) && !misses.contains(&(watcher, *member)) {
                    heard.insert(*member);
                    next.push(*member);
                }
            }
        }
        heard
    }

    /// Watchers and whom they hold for gone, by watcher.
    fn gone(&self) -> ByMember<(MemberId, MemberId)> {
        let votes = self.votes.all().iter();
        let gone = votes.filter(|(_, vote)| vote.level == Level::Gone);
        let gone: Vec<_> = gone.map(|(by, vote)| (*by, vote.subject)).collect();
        ByMember::new(&gone, |(by, _)| *by)
    }

    /// Those said to be gone by this node, or by two.
    pub(crate) fn accused(&self) -> MemberSet {
        let accused = |(subject, votes): (MemberId, &[By])| {
            let mine = gone(votes).any(|by| by == self.me);
            let said = mine || gone(votes).count() >= 2;
            (subject != self.me && said).then_some(subject)
        };
        self.votes.iter().filter_map(accused).collect()
    }

    /// Who is not simply alive. `lost` of the accused have somebody who stands in for them.
    pub(crate) fn reach(&self, accused: &MemberSet, lost: &Absent) -> BTreeMap<MemberId, Reach> {
        let mut reach = BTreeMap::new();
        let mut doubted = Vec::new();
        let deaf = self.deaf();
        for (subject, votes) in self.votes.iter() {
            let near = self.roster.watchers(subject, &Absent::NOBODY);
            let now = self.roster.watchers(subject, lost);
            let says_so = |watcher: &&MemberId| gone(votes).any(|by| by == **watcher);
            let against = now.iter().filter(says_so).count();
            if accused.contains(subject) && against * 2 > now.len() {
                reach.insert(subject, Reach::Unreachable);
                continue;
            }
            let counts =
                |by: &MemberId| !deaf.contains(by) && (near.contains(by) || now.contains(by));
            let by = votes.iter().map(|(by, _)| *by).filter(counts);
            doubted.extend(by.map(|by| (by, subject)));
        }
        // Nobody takes back what one that cannot be reached said last: it would stand for ever.
        doubted.retain(|(by, _)| !reach.contains_key(by));
        let suspects = doubted.into_iter().map(|(_, subject)| subject).chain(deaf);
        for suspect in suspects {
            reach.entry(suspect).or_insert(Reach::Suspect);
        }
        reach
    }

    /// Watchers that hear less than half of those they watch, all of whom the others hear.
    fn deaf(&self) -> BTreeSet<MemberId> {
        let lonely = |watcher: MemberId, vote: &Vote| {
            let against = self.against(vote.subject);
            against.iter().all(|(by, _)| *by == watcher)
        };
        let is_deaf = |(watcher, votes): &(MemberId, &[Vote])| {
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
        self.votes.of(member)
    }
}

/// Without the votes against an earlier life; usually there are none.
fn without_void(votes: ByMember<By>, life: impl Fn(MemberId) -> Incarnation) -> ByMember<By> {
    let valid = |(subject, votes): (MemberId, &[By])| {
        let life = life(subject);
        let valid = votes.iter().filter(|(_, vote)| vote.incarnation >= life);
        valid.copied().collect::<Vec<_>>()
    };
    let has_void = |(subject, votes): (MemberId, &[By])| {
        let life = life(subject);
        votes.iter().any(|(_, vote)| vote.incarnation < life)
    };
    if !votes.iter().any(has_void) {
        return votes;
    }
    let valid: Vec<By> = votes.iter().flat_map(valid).collect();
    ByMember::new(&valid, |(_, vote)| vote.subject)
}

/// Those of these who say that it is gone.
fn gone(votes: &[By]) -> impl Iterator<Item = MemberId> + '_ {
    let gone = votes.iter().filter(|(_, vote)| vote.level == Level::Gone);
    gone.map(|(by, _)| *by)
}

#[cfg(test)]
mod tests;
