//! Who should have copies of a group, and which of them vote.
//!
//! [`advise`] compares the members with the copies that there are and says what to change next, in
//! one joint change. Whoever leads the group asks again when that is done, until there is nothing
//! left to say. It keeps no state, so a new leader goes on where the old one stopped.
//!
//! A machine that cannot be reached is a member until it leaves or is expelled: a group moves away
//! from it where another one can take its place, and never gets smaller because of it. The same holds for a
//! machine that an admin drains, at once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_gossip::join::Text;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use sha2::{Digest as _, Sha256};

/// A copy whose member was unreachable for so long is replaced, ms.
pub const GONE_MS: u64 = 30_000;
/// Only a member that was alive for so long takes a seat from a healthy voter, ms.
pub const STEADY_MS: u64 = 600_000;

/// What a group should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedCopies {
    /// Names the group: different ones choose different members.
    pub group: u64,
    /// Voters, at most. An even number counts as one less.
    pub voters_max: usize,
    /// Whether it keeps apart from the voters of the cluster group where there are machines enough: what
    /// takes those away then leaves it whole, and either can renew run leases without the other.
    pub apart: bool,
}

/// A member that may get a copy. Leave out who is about to leave: its copy then moves first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyCandidate {
    /// Who.
    pub member: MemberId,
    /// Where it stands. Empty if nobody said; it then shares its rack with nobody.
    pub rack: Text<64>,
    /// Whether it can be reached.
    pub reach: Reach,
    /// For how long that is so, ms.
    pub since_ms: u64,
    /// Whether it may vote. Who may not gets no copy.
    pub votes: bool,
    /// Whether its log store is known and has room, without which nobody can give it a copy.
    pub has_store: bool,
    /// Whether an admin wants it empty: it may be off soon. It has a copy only where nobody else can.
    pub is_drained: bool,
    /// Whether it votes in the cluster group.
    pub votes_in_cluster_group: bool,
}

/// A copy of the group. A member has one at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCopy {
    /// Whose.
    pub member: MemberId,
    /// Whether it is a voter, else a learner.
    pub votes: bool,
    /// How good it is.
    pub condition: Condition,
    /// Whether it leads the group.
    pub leads: bool,
}

/// How good a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It does not have all that is committed yet.
    Behind,
    /// It has.
    CaughtUp,
    /// Its disk is lost, it never comes back.
    Lost,
}

/// A change of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyChange {
    /// A new copy, as a learner.
    Add(MemberId),
    /// A learner that has caught up gets a vote.
    Promote(MemberId),
    /// A voter becomes a learner.
    Demote(MemberId),
    /// A copy goes.
    Remove(MemberId),
}

/// What to change next, all of it in one joint change. Where it removes the leader, that one hands
/// the lead over first if it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice(pub Vec<CopyChange>);

/// The next change of a group's copies, if one is due. Ask when no other change is under way.
/// `nodes` are all members that are to stay.
pub fn advise(
    wanted: &WantedCopies,
    nodes: &[CopyCandidate],
    copies: &[GroupCopy],
) -> Option<Advice> {
    let view = VotersView::new(wanted, nodes, copies)?;
    let swap = view.swap();
    let parts = [
        view.seat_voters(),
        view.keep_learners(swap.as_ref()),
        swap.map_or_else(Vec::new, |swap| view.make(&swap)),
    ];
    let due = parts.into_iter().find(|changes| !changes.is_empty());
    due.map(Advice)
}

/// Who should have the first copies of a group, all of which vote: an odd number of those that can
/// be reached.
pub fn first(wanted: &WantedCopies, nodes: &[CopyCandidate]) -> Vec<MemberId> {
    let Some(view) = VotersView::new(wanted, nodes, &[]) else {
        return Vec::new();
    };
    let mut first = Vec::new();
    view.fill(&mut first, view.voters, view.spare());
    first.truncate(odd(first.len()));
    first
}

/// The largest odd number up to this one: an even number of voters bears no more failures than
/// one less.
const fn odd(count: usize) -> usize {
    match count {
        0 => 0,
        _ => (count - 1) | 1,
    }
}

const fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// What may be expected of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyHealth {
    /// All.
    Sound,
    /// Nothing, unless it comes back.
    Gone,
    /// Nothing, for ever: its member left, or its disk is lost.
    Over,
}

/// A voter that makes room for a better place.
struct VoterSwap {
    out: MemberId,
    into: MemberId,
}

struct VotersView<'a> {
    group: u64,
    apart: bool,
    /// Voters that there should be.
    voters: usize,
    /// Learners that there should be beside them, so that the state has a second copy.
    standby: usize,
    /// Those that may vote.
    nodes: BTreeMap<MemberId, &'a CopyCandidate>,
    copies: &'a [GroupCopy],
}

impl<'a> VotersView<'a> {
    /// Nothing if nobody may vote.
    fn new(
        wanted: &WantedCopies,
        nodes: &'a [CopyCandidate],
        copies: &'a [GroupCopy],
    ) -> Option<Self> {
        let may_vote = nodes.iter().filter(|node| node.votes);
        let nodes: BTreeMap<_, _> = may_vote.map(|node| (node.member, node)).collect();
        let voters = odd(nodes.len().min(wanted.voters_max.max(1)));
        let view = Self {
            group: wanted.group,
            apart: wanted.apart,
            voters,
            standby: usize::from(voters == 1 && nodes.len() > 1),
            nodes,
            copies,
        };
        (voters > 0).then_some(view)
    }

    /// Gives votes to who should have them, and takes them from the others.
    fn seat_voters(&self) -> Vec<CopyChange> {
        let seats = self.seats();
        if seats.is_empty() {
            return Vec::new();
        }
        let learners = self.learners(CopyHealth::Sound);
        let (risen, waiting): (Vec<_>, Vec<_>) =
            learners.into_iter().partition(|id| seats.contains(id));
        let mut changes: Vec<CopyChange> = risen.into_iter().map(CopyChange::Promote).collect();
        let unseated = [CopyHealth::Sound, CopyHealth::Gone].map(|health| self.voters(health));
        let unseated = unseated.into_iter().flatten();
        let unseated = unseated.filter(|id| !seats.contains(id));
        let lacking = self.standby.saturating_sub(waiting.len());
        changes.extend(unseated.enumerate().map(|(at, id)| match at < lacking {
            true => CopyChange::Demote(id),
            false => CopyChange::Remove(id),
        }));
        let over = self.voters(CopyHealth::Over);
        if !self.can_wait(seats.len(), over.len()) {
            changes.extend(over.into_iter().map(CopyChange::Remove));
        }
        changes
    }

    /// Who should vote now, of those that can: the leader first, who is there, who has caught up.
    /// One that is gone keeps its seat while nobody is ready to take it.
    fn seats(&self) -> Vec<MemberId> {
        let (sound, gone) = (
            self.voters(CopyHealth::Sound),
            self.voters(CopyHealth::Gone),
        );
        let ready = self.ready();
        let held = sound.len() + gone.len();
        // More only if the number is odd then.
        let count = held.max(odd(held + ready.len())).min(self.voters);
        let leader = sound.iter().copied().filter(|id| self.leads(*id)).collect();
        let mut seats = Vec::new();
        for pool in [leader, sound, ready, gone] {
            self.fill(&mut seats, count, pool);
        }
        seats
    }

    /// Whether voters that are over stay until their replacements are ready: some are on their
    /// way, and the group bears as many failures until then as it would without.
    fn can_wait(&self, seats: usize, over: usize) -> bool {
        let coming = !self.learners(CopyHealth::Sound).is_empty() || !self.spare().is_empty();
        seats < self.voters && coming && majority(seats) == majority(seats + over)
    }

    /// One learner for each seat whose voter is not there, and what else is wanted: adds those
    /// that are missing and removes what is of no use.
    fn keep_learners(&self, swap: Option<&VoterSwap>) -> Vec<CopyChange> {
        let mut kept = self.voters(CopyHealth::Sound);
        let empty = self.voters.saturating_sub(kept.len());
        let count = kept.len() + empty + self.standby + usize::from(swap.is_some());
        let into = swap.map(|swap| swap.into).into_iter().collect();
        let sound = self.learners(CopyHealth::Sound);
        // One that is gone is better than none: it may come back, and be the last copy.
        let gone = self.learners(CopyHealth::Gone);
        for pool in [into, self.ready(), sound, self.spare(), gone] {
            self.fill(&mut kept, count, pool);
        }
        let learners = self.copies.iter().filter(|copy| !copy.votes);
        let useless = learners.filter(|copy| !kept.contains(&copy.member));
        let useless: Vec<_> = useless
            .map(|copy| CopyChange::Remove(copy.member))
            .collect();
        let missing = kept.iter().filter(|id| self.copy(**id).is_none());
        let missing = missing.map(|id| CopyChange::Add(*id));
        missing.chain(useless).collect()
    }

    /// A healthy voter makes room only when all seats are taken, and it is drained, or the racks are
    /// strictly better used then, or as well and it votes in the cluster group too; and who comes has been
    /// well for long. A copy that is there already goes first, so that what was begun is ended.
    fn swap(&self) -> Option<VoterSwap> {
        let voters = self.voters(CopyHealth::Sound);
        if voters.len() != self.voters {
            return None;
        }
        let may_go = |id: &MemberId| self.is_drained(*id) || !self.leads(*id);
        let mut out: Vec<MemberId> = voters.iter().copied().filter(may_go).collect();
        out.sort_by_cached_key(|id| Reverse((self.place(*id, &voters), self.rank(*id, &voters))));
        out.into_iter().find_map(|out| self.swap_of(out, &voters))
    }

    /// The best place for a voter's copy, if there is a better one than it has.
    fn swap_of(&self, out: MemberId, voters: &[MemberId]) -> Option<VoterSwap> {
        let others: Vec<MemberId> = voters.iter().copied().filter(|id| *id != out).collect();
        let is_urgent = self.is_drained(out);
        let better = |id: &MemberId| match is_urgent {
            true => !self.is_drained(*id) && self.is_reachable(*id),
            false => self.is_steady(*id) && self.place(*id, &others) < self.place(out, &others),
        };
        let best = |pool: Vec<MemberId>| {
            let pool = pool.into_iter().filter(better);
            pool.min_by_key(|id| self.rank(*id, &others))
        };
        let into = best(self.learners(CopyHealth::Sound)).or_else(|| best(self.spare()))?;
        Some(VoterSwap { out, into })
    }

    /// The lower, the better it is for the group that a copy is there, beside the others.
    fn place(&self, id: MemberId, others: &[MemberId]) -> (bool, usize, bool) {
        let is_shared = self.apart && self.votes_in_cluster_group(id);
        (self.is_drained(id), self.neighbours(id, others), is_shared)
    }

    fn make(&self, swap: &VoterSwap) -> Vec<CopyChange> {
        match self.ready().contains(&swap.into) {
            true => vec![CopyChange::Promote(swap.into), CopyChange::Remove(swap.out)],
            false => Vec::new(),
        }
    }

    /// Adds the best of `pool` until there are `count`.
    fn fill(&self, chosen: &mut Vec<MemberId>, count: usize, mut pool: Vec<MemberId>) {
        pool.retain(|id| !chosen.contains(id));
        while chosen.len() < count {
            let best = pool.iter().copied();
            let Some(best) = best.min_by_key(|id| self.rank(*id, chosen)) else {
                return;
            };
            pool.retain(|id| *id != best);
            chosen.push(best);
        }
    }

    /// The lower, the better beside the others: who is to stay, who answers, on a rack with few of them, who
    /// does not vote in the cluster group, then by lot.
    fn rank(&self, id: MemberId, others: &[MemberId]) -> (bool, Reach, (usize, bool), [u8; 32]) {
        let reach = self
            .nodes
            .get(&id)
            .map_or(Reach::Unreachable, |node| node.reach);
        let (is_drained, neighbours, is_shared) = self.place(id, others);
        (is_drained, reach, (neighbours, is_shared), self.lot(id))
    }

    fn lot(&self, id: MemberId) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.group.to_le_bytes());
        hash.update(id.0.to_le_bytes());
        hash.finalize().into()
    }

    /// How many of the others stand on its rack.
    fn neighbours(&self, id: MemberId, others: &[MemberId]) -> usize {
        let rack = |id: &MemberId| self.nodes.get(id).map_or("", |node| node.rack.as_str());
        let here = rack(&id);
        let beside = |other: &&MemberId| **other != id && !here.is_empty() && rack(other) == here;
        others.iter().filter(beside).count()
    }

    /// Learners that may get a vote.
    fn ready(&self) -> Vec<MemberId> {
        let caught_up = |id: &MemberId| {
            let copy = self.copy(*id);
            copy.is_some_and(|copy| copy.condition == Condition::CaughtUp)
        };
        let learners = self.learners(CopyHealth::Sound).into_iter();
        learners
            .filter(|id| caught_up(id) && self.is_reachable(*id))
            .collect()
    }

    /// Members that may get a copy.
    fn spare(&self) -> Vec<MemberId> {
        let nodes = self.nodes.values().filter(|node| node.has_store);
        nodes
            .map(|node| node.member)
            .filter(|id| self.is_reachable(*id) && self.copy(*id).is_none())
            .collect()
    }

    fn voters(&self, health: CopyHealth) -> Vec<MemberId> {
        let copies = self.copies.iter().filter(|copy| copy.votes);
        let copies = copies.filter(|copy| self.health(copy) == health);
        copies.map(|copy| copy.member).collect()
    }

    fn learners(&self, health: CopyHealth) -> Vec<MemberId> {
        let copies = self.copies.iter().filter(|copy| !copy.votes);
        let copies = copies.filter(|copy| self.health(copy) == health);
        copies.map(|copy| copy.member).collect()
    }

    fn health(&self, copy: &GroupCopy) -> CopyHealth {
        let Some(node) = self.nodes.get(&copy.member) else {
            return CopyHealth::Over;
        };
        if copy.condition == Condition::Lost {
            return CopyHealth::Over;
        }
        // Who leads is heard by a majority, whatever its watchers say.
        let heard = copy.leads || node.reach != Reach::Unreachable;
        match heard || node.since_ms < GONE_MS {
            true => CopyHealth::Sound,
            false => CopyHealth::Gone,
        }
    }

    fn copy(&self, id: MemberId) -> Option<&GroupCopy> {
        self.copies.iter().find(|copy| copy.member == id)
    }

    fn leads(&self, id: MemberId) -> bool {
        self.copy(id).is_some_and(|copy| copy.leads)
    }

    fn is_reachable(&self, id: MemberId) -> bool {
        let node = self.nodes.get(&id);
        node.is_some_and(|node| node.reach != Reach::Unreachable)
    }

    fn is_drained(&self, id: MemberId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.is_drained)
    }

    fn votes_in_cluster_group(&self, id: MemberId) -> bool {
        self.nodes
            .get(&id)
            .is_some_and(|node| node.votes_in_cluster_group)
    }

    fn is_steady(&self, id: MemberId) -> bool {
        let node = self.nodes.get(&id);
        node.is_some_and(|node| node.reach == Reach::Alive && node.since_ms >= STEADY_MS)
    }
}

#[cfg(test)]
mod tests;
