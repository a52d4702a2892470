//! What follows from the votes, put as plainly as can be and found anew each time: what the rest
//! must agree with.

use std::collections::{BTreeMap, BTreeSet};

use crate::member::MemberId;
use crate::mesh::Reach;
use crate::reach::{DEAF_VOTES_MIN, VoteContext};
use crate::record::{SuspicionLevel, Vote};
use crate::roster::Absent;

type Members = BTreeSet<MemberId>;

/// The votes that count, by subject, then by watcher.
pub(super) struct Plain<'a> {
    on: VoteContext<'a>,
    against: BTreeMap<MemberId, BTreeMap<MemberId, Vote>>,
    me: MemberId,
}

impl<'a> Plain<'a> {
    pub(super) fn new(on: VoteContext<'a>, me: MemberId) -> Self {
        let mut against = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (by, votes) in on.store.cast() {
            for vote in votes.iter().filter(|vote| on.counts(by, vote)) {
                against.entry(vote.subject).or_default().insert(by, *vote);
            }
        }
        Self { on, against, me }
    }

    fn gone(&self, subject: MemberId) -> Members {
        let votes = self.against.get(&subject).into_iter().flatten();
        let gone = votes.filter(|(_, vote)| vote.level == SuspicionLevel::Gone);
        gone.map(|(by, _)| *by).collect()
    }

    fn voters(&self, subject: MemberId) -> Members {
        let votes = self.against.get(&subject).into_iter();
        votes.flat_map(|votes| votes.keys().copied()).collect()
    }

    pub(super) fn accused(&self) -> Members {
        let is = |subject: &MemberId| {
            let gone = self.gone(*subject);
            *subject != self.me && (gone.contains(&self.me) || gone.len() > 1)
        };
        self.against.keys().copied().filter(is).collect()
    }

    pub(super) fn lost(&self, askers: &[MemberId]) -> (Members, bool) {
        let accused = self.accused();
        let lost = |heard: &Members| -> Members { accused.difference(heard).copied().collect() };
        let unasked = askers.iter().all(|asker| !accused.contains(asker));
        let mut asked = false;
        let mut lost = if unasked && accused.iter().all(|m| self.is_unheard(*m, &accused)) {
            accused.clone()
        } else {
            let heard = self.heard(&[self.me]);
            asked = askers.iter().any(|asker| !heard.contains(asker));
            lost(&self.heard(&[askers, &[self.me]].concat()))
        };
        if self.gone(self.me).len() >= 2 && self.is_unheard(self.me, &lost) {
            lost.insert(self.me);
        }
        (lost, asked)
    }

    fn is_unheard(&self, member: MemberId, lost: &Members) -> bool {
        let gone = self.gone(member);
        let watchers = self.on.roster.watchers(member, &Absent::NOBODY);
        let mut watchers = watchers.iter();
        watchers.all(|by| lost.contains(by) || gone.contains(by))
    }

    fn heard(&self, first: &[MemberId]) -> Members {
        let mut heard: Members = first.iter().copied().collect();
        let mut next = first.to_vec();
        while let Some(watcher) = next.pop() {
            for member in self.on.roster.watched(watcher, &Absent::NOBODY).iter() {
                if !self.gone(*member).contains(&watcher) && heard.insert(*member) {
                    next.push(*member);
                }
            }
        }
        heard
    }

    pub(super) fn reach(&self, lost: &Absent) -> Vec<(MemberId, Reach)> {
        let accused = self.accused();
        let is_unreachable = |subject: &MemberId| {
            let now = self.on.roster.watchers(*subject, lost);
            let gone = self.gone(*subject);
            let against = now.iter().filter(|by| gone.contains(by)).count();
            accused.contains(subject) && against * 2 > now.len()
        };
        let voted = self.against.keys().copied();
        let (out, open): (Members, Members) = voted.partition(is_unreachable);
        let deaf = self.deaf();
        let is_doubted = |subject: &MemberId| {
            let near = self.on.roster.watchers(*subject, &Absent::NOBODY);
            let now = self.on.roster.watchers(*subject, lost);
            let voters = self.voters(*subject);
            let mut voters = voters.difference(&out).filter(|by| !deaf.contains(by));
            voters.any(|by| near.contains(by) || now.contains(by))
        };
        let mut reach = BTreeMap::new();
        reach.extend(
            open.into_iter()
                .filter(is_doubted)
                .map(|m| (m, Reach::Suspect)),
        );
        reach.extend(deaf.iter().map(|m| (*m, Reach::Suspect)));
        reach.extend(out.iter().map(|m| (*m, Reach::Unreachable)));
        reach.into_iter().collect()
    }

    fn deaf(&self) -> Members {
        let is_deaf = |(by, votes): (MemberId, &[Vote])| {
            let silent = votes
                .iter()
                .filter(|vote| vote.level > SuspicionLevel::Sick);
            let silent: Vec<_> = silent.collect();
            let watched = self.on.roster.watched(by, &Absent::NOBODY).len();
            let many = silent.len() >= DEAF_VOTES_MIN
                && silent.len() * 2 > watched
                && watched > DEAF_VOTES_MIN;
            let lonely = |vote: &&Vote| self.voters(vote.subject).iter().all(|other| *other == by);
            (many && silent.iter().all(lonely)).then_some(by)
        };
        self.on.store.cast().filter_map(is_deaf).collect()
    }
}
