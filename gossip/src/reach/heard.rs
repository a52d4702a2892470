//! Whom a node hears of: those to whom a chain leads from it, each of which watches the next and
//! hears it.

use super::Votes;
use crate::member::MemberId;
use crate::member_set::MemberSet;
use crate::roster::Absent;

/// Chains are first followed to so many members. From there nearly everybody is few steps away,
/// seen from the other end, even in a very large cluster.
const CLOSE: usize = 256;

/// Those to whom chains lead, as far as they have been followed.
pub(super) struct HeardMembers<'v> {
    votes: &'v Votes<'v>,
    members: MemberSet,
    /// Those of them whose chains have not been followed on.
    next: Vec<MemberId>,
    /// Steps backwards that may be taken before it is cheaper to follow all chains to their ends.
    steps: usize,
}

impl<'v> HeardMembers<'v> {
    /// Chains begin at these.
    pub(super) fn from(votes: &'v Votes<'v>, first: &[MemberId]) -> Self {
        let mut heard = Self {
            votes,
            members: MemberSet::new(),
            next: Vec::new(),
            steps: votes.on.roster.len(),
        };
        heard.begin(first);
        heard.follow(CLOSE);
        heard
    }

    /// Chains begin at these too.
    pub(super) fn begin(&mut self, first: &[MemberId]) {
        for member in first {
            self.reach(*member);
        }
    }

    /// Whether a chain leads to this one.
    pub(super) fn contains(&mut self, member: MemberId) -> bool {
        if self.members.contains(member) || self.next.is_empty() {
            return self.members.contains(member);
        }
        let mut before: MemberSet = [member].into_iter().collect();
        let mut last = vec![member];
        while let Some(one) = last.pop() {
            for watcher in self.votes.hearers(one) {
                if self.members.contains(watcher) {
                    return true;
                }
                if before.insert(watcher) {
                    last.push(watcher);
                }
            }
            if self.steps == 0 {
                self.follow(usize::MAX);
                return self.members.contains(member);
            }
            self.steps -= 1;
        }
        false
    }

    fn reach(&mut self, member: MemberId) {
        if self.members.insert(member) {
            self.next.push(member);
        }
    }

    /// Follows chains until there are so many members, or all.
    fn follow(&mut self, most: usize) {
        while self.members.len() < most
            && let Some(watcher) = self.next.pop()
        {
            for member in self
                .votes
                .on
                .roster
                .watched(watcher, &Absent::NOBODY)
                .iter()
            {
                if !self.members.contains(*member) && self.votes.hears(watcher, *member) {
                    self.reach(*member);
                }
            }
        }
    }
}
