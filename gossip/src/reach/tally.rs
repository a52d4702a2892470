//! Votes, counted by whom they are against, and kept up as votes come and go: where a large
//! cluster is cut in two there are tens of thousands, of which few change at a time.

use crate::member::{Incarnation, MemberId};
use crate::member_set::MemberSet;
use crate::record::{RecordKey, SuspicionLevel, Vote};
use crate::roster::{Absent, Roster};
use crate::store::NewestRecords;

/// What the votes are counted by: who is a member, and the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VoteContext<'a> {
    pub(crate) roster: &'a Roster,
    pub(crate) store: &'a NewestRecords,
}

/// What is said of one member. Few bytes: a node of a large cluster has one for every other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberTally {
    /// How many vote against it.
    pub(super) votes: u16,
    /// How many of those say that it is gone.
    pub(super) gone: u16,
    /// Their numbers, combined by exclusive or: of one alone, its number.
    by: u16,
    /// A bit for each of its usual watchers: who of them votes against it, ...
    pub(super) near: u8,
    /// ... and who of them says that it is gone.
    pub(super) near_gone: u8,
}

/// All votes that count, by whom they are against.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    of: Vec<MemberTally>,
    /// Those who have a vote against them.
    voted: MemberSet,
    /// Of whom something else is said than when it was last asked.
    changed: MemberSet,
    /// Votes that do not count: against an earlier life, oneself, or one that is no member.
    void: usize,
    /// Whether all votes are in it.
    whole: bool,
}

impl VoteContext<'_> {
    /// The newest known start of a member.
    pub(crate) fn life(&self, member: MemberId) -> Incarnation {
        Incarnation(self.store.version(RecordKey::Node(member)).incarnation)
    }

    /// Whether a vote counts.
    pub(crate) fn counts(&self, by: MemberId, vote: &Vote) -> bool {
        by != vote.subject
            && self.roster.is_admitted(by)
            && self.roster.is_admitted(vote.subject)
            && vote.incarnation >= self.life(vote.subject)
    }

    /// What `by` holds against `subject`, if it counts.
    pub(crate) fn vote(&self, by: MemberId, subject: MemberId) -> Option<&Vote> {
        find(self.store.votes(by), subject).filter(|vote| self.counts(by, vote))
    }
}

impl MemberTally {
    /// Who votes, if it is one alone.
    pub(super) fn only(&self) -> Option<MemberId> {
        (self.votes == 1).then_some(MemberId(u32::from(self.by)))
    }
}

impl Tallies {
    /// The members changed: all is counted anew.
    pub(crate) fn spoil(&mut self) {
        self.whole = false;
    }

    /// Counts all votes, if that has to be done.
    pub(crate) fn complete(&mut self, on: VoteContext<'_>) {
        if self.whole {
            return;
        }
        let changed = self.voted.union(&self.changed).collect();
        *self = Self {
            changed,
            whole: true,
            ..Self::default()
        };
        for (by, votes) in on.store.cast() {
            votes.iter().for_each(|vote| self.add(on, by, vote));
        }
    }

    /// A watcher has replaced its votes, each list ascending by subject.
    pub(crate) fn recast(
        &mut self,
        on: VoteContext<'_>,
        by: MemberId,
        before: &[Vote],
        after: &[Vote],
    ) {
        if !self.whole {
            return;
        }
        let says = |votes, vote: &Vote| {
            let other = find(votes, vote.subject);
            other.is_some_and(|o| (o.incarnation, o.level) == (vote.incarnation, vote.level))
        };
        for vote in before.iter().filter(|vote| !says(after, vote)) {
            self.take(on, by, vote);
        }
        for vote in after.iter().filter(|vote| !says(before, vote)) {
            self.add(on, by, vote);
        }
    }

    /// A later life of a member than `before` began, and its record is stored: votes against an
    /// earlier one are void.
    pub(crate) fn reborn(&mut self, on: VoteContext<'_>, member: MemberId, before: Incarnation) {
        if !self.whole || !self.voted.contains(member) {
            return;
        }
        let voided = before..on.life(member);
        for by in self.voters(on, member) {
            let vote = find(on.store.votes(by), member);
            let vote = vote.filter(|vote| voided.contains(&vote.incarnation));
            if let Some(vote) = vote.filter(|_| by != member && on.roster.is_admitted(by)) {
                self.count(on, by, vote, false);
                self.void += 1;
            }
        }
    }

    /// Whether anybody votes against this one, be it against an earlier life.
    pub(crate) fn is_voted_against(&self, on: VoteContext<'_>, member: MemberId) -> bool {
        if self.whole && (self.void == 0 || self.voted.contains(member)) {
            return self.voted.contains(member);
        }
        let mut cast = on.store.cast();
        cast.any(|(_, votes)| votes.iter().any(|vote| vote.subject == member))
    }

    /// Of whom something else is said than when this was asked before.
    pub(crate) fn take_changed(&mut self) -> MemberSet {
        if self.voted.is_empty() {
            // There are seldom any votes.
            self.of = Vec::new();
        }
        std::mem::take(&mut self.changed)
    }

    /// What is said of a member.
    pub(super) fn of(&self, member: MemberId) -> MemberTally {
        self.of.get(member.index()).copied().unwrap_or_default()
    }

    /// Those who have a vote against them, ascending.
    pub(super) fn voted(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.voted.iter()
    }

    /// Whether all votes count.
    pub(super) const fn all_count(&self) -> bool {
        self.void == 0
    }

    /// Who votes against a member: with a vote that counts, or perhaps with another.
    fn voters(&self, on: VoteContext<'_>, member: MemberId) -> Vec<MemberId> {
        let tally = self.of(member);
        let usual = on.roster.watchers(member, &Absent::NOBODY);
        let near = (0..).zip(usual.iter());
        let near = near.filter(|(at, _)| tally.near >> at & 1 == 1);
        let mut voters: Vec<_> = near.map(|(_, by)| *by).collect();
        match usize::from(tally.votes) - voters.len() {
            0 => {}
            1 => {
                let rest = voters.iter().fold(tally.by, |rest, by| rest ^ short(*by));
                voters.push(MemberId(u32::from(rest)));
            }
            _ => {
                let cast = on.store.cast();
                let against = cast.filter(|(_, votes)| find(votes, member).is_some());
                voters = against.map(|(by, _)| by).collect();
            }
        }
        voters
    }

    fn add(&mut self, on: VoteContext<'_>, by: MemberId, vote: &Vote) {
        if on.counts(by, vote) {
            self.count(on, by, vote, true);
        } else {
            self.void += 1;
        }
    }

    fn take(&mut self, on: VoteContext<'_>, by: MemberId, vote: &Vote) {
        if on.counts(by, vote) {
            self.count(on, by, vote, false);
        } else {
            self.void -= 1;
        }
    }

    /// A vote that counts comes or goes.
    fn count(&mut self, on: VoteContext<'_>, by: MemberId, vote: &Vote, comes: bool) {
        let subject = vote.subject;
        if self.of.len() <= subject.index() {
            self.of.resize(subject.index() + 1, MemberTally::default());
        }
        let tally = &mut self.of[subject.index()];
        let gone = u16::from(vote.level == SuspicionLevel::Gone);
        let usual = on.roster.usual_watchers(subject);
        let near = usual.iter().position(|watcher| *watcher == by);
        let near = near.map_or(0, |at| 1 << at);
        let near_gone = if gone == 1 { near } else { 0 };
        if comes {
            tally.votes += 1;
            tally.gone += gone;
            tally.near |= near;
            tally.near_gone |= near_gone;
        } else {
            tally.votes -= 1;
            tally.gone -= gone;
            tally.near &= !near;
            tally.near_gone &= !near_gone;
        }
        tally.by ^= short(by);
        self.changed.insert(subject);
        self.voted.set(subject, tally.votes > 0);
    }
}

/// A member's number, which is below [`crate::member::MEMBERS_MAX`].
fn short(member: MemberId) -> u16 {
    u16::try_from(member.0).unwrap_or(u16::MAX)
}

/// The vote against `subject` among these, ascending by subject.
fn find(votes: &[Vote], subject: MemberId) -> Option<&Vote> {
    let at = votes.binary_search_by_key(&subject, |vote| vote.subject);
    at.ok().map(|at| &votes[at])
}
