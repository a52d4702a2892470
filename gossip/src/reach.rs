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
//!
//! All of it follows from the votes as they are now. What is kept from one time to the next only
//! spares looking again at those of whom nothing else is said.

mod heard;
mod tally;

use crate::member::MemberId;
use crate::member_set::MemberSet;
use crate::mesh::Reach;
use crate::record::{SuspicionLevel, Vote};
use crate::roster::{Absent, RINGS};
use heard::HeardMembers;
pub(crate) use tally::{Tallies, VoteContext};

/// Fewer votes than that are nobody's deafness.
const DEAF_VOTES_MIN: usize = 2;

/// What the records say at one time.
pub(crate) struct Votes<'a> {
    on: VoteContext<'a>,
    tallies: &'a Tallies,
    me: MemberId,
}

/// What was found of the members.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReachFindings {
    /// Those said to be gone by this node, or by two.
    accused: MemberSet,
    /// Of these, those whose places others take for now.
    lost: Absent,
    /// Of the accused, those of whom most of their watchers say so.
    unreachable: MemberSet,
    /// Those whom anybody votes against who is heeded, and who are not unreachable.
    suspects: MemberSet,
}

/// How what was found now differs from what was found before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReachChange {
    /// Others are lost than before, or the members changed.
    pub(crate) moved: bool,
    /// It would be otherwise if nobody had asked this node.
    pub(crate) asked: bool,
}

impl ReachFindings {
    /// Those whose places others take for now.
    pub(crate) const fn lost(&self) -> &Absent {
        &self.lost
    }

    /// Who is not simply alive, ascending.
    pub(crate) fn reach(&self) -> impl Iterator<Item = (MemberId, Reach)> + '_ {
        let all = self.unreachable.union(&self.suspects);
        all.map(|member| match self.unreachable.contains(member) {
            true => (member, Reach::Unreachable),
            false => (member, Reach::Suspect),
        })
    }
}

impl<'a> Votes<'a> {
    /// The votes that are not void. `tallies` are those of the records on this ground.
    pub(crate) const fn new(on: VoteContext<'a>, tallies: &'a Tallies, me: MemberId) -> Self {
        Self { on, tallies, me }
    }

    /// Brings findings up to date: something else is said of `changed` than before, and of nobody
    /// else. `askers` have just asked this node. `anew`: the members changed.
    pub(crate) fn find(
        &self,
        changed: &MemberSet,
        askers: &[MemberId],
        anew: bool,
        findings: &mut ReachFindings,
    ) -> ReachChange {
        for member in changed.iter() {
            findings.accused.set(member, self.is_accused(member));
        }
        let (lost, asked) = self.lost(&findings.accused, askers);
        let moved = anew || lost != *findings.lost.set();
        if moved {
            findings.lost = Absent::new(self.on.roster, lost);
            findings.unreachable = self.unreachable(findings);
        } else {
            for member in changed.iter() {
                let is = self.is_unreachable(member, findings);
                findings.unreachable.set(member, is);
            }
        }
        findings.suspects = self.suspects(findings);
        ReachChange { moved, asked }
    }

    /// Whether this node says that a member is gone, or two do.
    fn is_accused(&self, member: MemberId) -> bool {
        let gone = self.tallies.of(member).gone;
        member != self.me && (gone > 1 || (gone == 1 && self.says_gone(self.me, member)))
    }

    fn says_gone(&self, by: MemberId, subject: MemberId) -> bool {
        let vote = self.on.vote(by, subject);
        vote.is_some_and(|vote| vote.level == SuspicionLevel::Gone)
    }

    /// Of the accused, those whom nobody hears either that this node hears of. `askers` have just
    /// asked it, so it hears them whatever its own questions do. It can be lost itself: the others
    /// then have somebody who watches in its place, and it must know. Also whether it would be
    /// otherwise without the askers.
    fn lost(&self, accused: &MemberSet, askers: &[MemberId]) -> (MemberSet, bool) {
        // Saves following chains where somebody has simply died.
        let unasked = askers.iter().all(|asker| !accused.contains(*asker));
        let unheard = |member| self.is_unheard(member, accused);
        let mut asked = false;
        let mut lost = if unasked && accused.iter().all(unheard) {
            accused.clone()
        } else {
            let mut heard = HeardMembers::from(self, &[self.me]);
            asked = askers.iter().any(|asker| !heard.contains(*asker));
            heard.begin(askers);
            accused.iter().filter(|m| !heard.contains(*m)).collect()
        };
        if self.tallies.of(self.me).gone >= 2 && self.is_unheard(self.me, &lost) {
            lost.insert(self.me);
        }
        (lost, asked)
    }

    /// Whether all watchers of a member say that it is gone, but those that are lost.
    fn is_unheard(&self, member: MemberId, lost: &MemberSet) -> bool {
        let gone = self.tallies.of(member).near_gone;
        let watchers = self.on.roster.usual_watchers(member);
        let mut watchers = (0..).zip(watchers.iter());
        watchers.all(|(at, watcher)| gone >> at & 1 == 1 || lost.contains(*watcher))
    }

    /// Whether a usual watcher of a member does not say that it is gone.
    fn hears(&self, watcher: MemberId, member: MemberId) -> bool {
        self.tallies.of(member).near_gone == 0 || self.hearers(member).any(|by| by == watcher)
    }

    /// The usual watchers of a member that do not say that it is gone.
    fn hearers(&self, member: MemberId) -> impl Iterator<Item = MemberId> + '_ {
        let gone = self.tallies.of(member).near_gone;
        let watchers = (0..).zip(self.on.roster.usual_watchers(member).iter());
        let hear = watchers.filter(move |(at, _)| gone >> at & 1 == 0);
        hear.map(|(_, watcher)| *watcher)
    }

    /// Of the accused, those of whom most of those who watch them now say that they are gone.
    fn unreachable(&self, findings: &ReachFindings) -> MemberSet {
        let accused = findings.accused.iter();
        accused
            .filter(|m| self.is_unreachable(*m, findings))
            .collect()
    }

    /// Whether a member is accused, and more than half of those who watch it now say that it is
    /// gone.
    fn is_unreachable(&self, member: MemberId, findings: &ReachFindings) -> bool {
        if !findings.accused.contains(member) {
            return false;
        }
        let lost = &findings.lost;
        let tally = self.tallies.of(member);
        let usual = self.on.roster.usual_watchers(member);
        let near = near(tally.near_gone, usual, lost);
        let others = usize::from(tally.gone) - count(tally.near_gone);
        let stand_ins = usual.iter().filter(|w| lost.contains(**w)).count();
        // Where enough are left somebody stands in for each, and mostly it does not matter who.
        let all = lost.is_empty() || lost.remain() > RINGS;
        let is = |against: usize| against * 2 > usual.len();
        if all && is(near) == is(near + others.min(stand_ins)) {
            return is(near);
        }
        let now = self.on.roster.watchers(member, lost);
        let says_so = |watcher: &&MemberId| self.says_gone(**watcher, member);
        now.iter().filter(says_so).count() * 2 > now.len()
    }

    /// Who is not unreachable, but doubted, or hears hardly anybody.
    fn suspects(&self, findings: &ReachFindings) -> MemberSet {
        let deaf = self.deaf();
        let in_reach = |member: &MemberId| !findings.unreachable.contains(*member);
        // Nobody takes back what one that cannot be reached said last: it would stand for ever.
        let is_heeded = |by: MemberId| in_reach(&by) && !deaf.contains(by);
        let voted = self.tallies.voted().filter(in_reach);
        let doubted = voted.filter(|member| self.is_doubted(*member, &findings.lost, is_heeded));
        doubted.chain(deaf.iter().filter(in_reach)).collect()
    }

    /// Whether anybody who watches a member, usually or now, votes against it and is heeded.
    fn is_doubted(
        &self,
        member: MemberId,
        lost: &Absent,
        is_heeded: impl Fn(MemberId) -> bool,
    ) -> bool {
        let tally = self.tallies.of(member);
        let mut usual = (0..).zip(self.on.roster.usual_watchers(member).iter());
        if usual.any(|(at, by)| tally.near >> at & 1 == 1 && is_heeded(*by)) {
            return true;
        }
        if usize::from(tally.votes) == count(tally.near) {
            return false;
        }
        let now = self.on.roster.watchers(member, lost);
        let votes = |by| self.on.vote(by, member).is_some();
        now.iter().any(|by| is_heeded(*by) && votes(*by))
    }

    /// Watchers that hear less than half of those they watch, all of whom the others hear.
    fn deaf(&self) -> MemberSet {
        if !self.tallies.all_count() {
            let cast = self.on.store.cast();
            return cast
                .map(|(by, _)| by)
                .filter(|by| self.is_deaf(*by))
                .collect();
        }
        // Each of these is the only one who votes against somebody.
        let only = self
            .tallies
            .voted()
            .filter_map(|m| self.tallies.of(m).only());
        let only: MemberSet = only.collect();
        only.iter().filter(|by| self.is_deaf(*by)).collect()
    }

    fn is_deaf(&self, watcher: MemberId) -> bool {
        let votes = self.on.store.votes(watcher).iter();
        let silent = votes.filter(|vote| vote.level > SuspicionLevel::Sick);
        let lonely = |vote: &Vote| {
            let tally = self.tallies.of(vote.subject);
            tally.votes == 0 || tally.only() == Some(watcher)
        };
        let watched = self.on.roster.watched(watcher, &Absent::NOBODY);
        let count = silent.clone().count();
        let many =
            count >= DEAF_VOTES_MIN && count * 2 > watched.len() && watched.len() > DEAF_VOTES_MIN;
        many && silent.into_iter().all(lonely)
    }
}

/// How many of the usual watchers whose bits these are watch now.
fn near(bits: u8, usual: &[MemberId], lost: &Absent) -> usize {
    let watchers = (0..).zip(usual.iter());
    let there = watchers.filter(|(at, by)| bits >> at & 1 == 1 && !lost.contains(**by));
    there.count()
}

const fn count(bits: u8) -> usize {
    bits.count_ones() as usize
}

#[cfg(test)]
mod tests;
