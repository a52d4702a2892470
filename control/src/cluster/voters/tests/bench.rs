//! A group's copies on a few members, in a few lines.

use std::collections::BTreeSet;

use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;

use crate::cluster::voters::{
    Advice, Condition, CopyCandidate, CopyChange, GONE_MS, GroupCopy, STEADY_MS, WantedCopies,
    advise,
};

pub(super) const fn id(number: u32) -> MemberId {
    MemberId(number)
}

/// Members and copies. Advice is checked whenever it is made.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    pub(super) wanted: WantedCopies,
    pub(super) nodes: Vec<CopyCandidate>,
    pub(super) copies: Vec<GroupCopy>,
}

impl Bench {
    /// So many members that have been well for long, without racks.
    pub(super) fn of(members: u32) -> Self {
        let mut bench = Self {
            wanted: WantedCopies {
                group: 7,
                voters_max: 5,
                apart: false,
            },
            nodes: Vec::new(),
            copies: Vec::new(),
        };
        (0..members).for_each(|number| bench.join(number));
        bench
    }

    pub(super) fn join(&mut self, number: u32) {
        self.nodes.push(CopyCandidate {
            member: id(number),
            rack: "".parse().unwrap(),
            reach: Reach::Alive,
            since_ms: STEADY_MS,
            votes: true,
            has_store: true,
            is_drained: false,
            votes_in_cluster_group: false,
        });
    }

    /// These have copies that vote; the first one leads.
    pub(super) fn voters(mut self, numbers: &[u32]) -> Self {
        self.copies.extend(numbers.iter().map(|number| GroupCopy {
            member: id(*number),
            votes: true,
            condition: Condition::CaughtUp,
            leads: *number == numbers[0],
        }));
        self
    }

    /// These have copies that have caught up.
    pub(super) fn learners(mut self, numbers: &[u32]) -> Self {
        self.copies.extend(numbers.iter().map(|number| GroupCopy {
            member: id(*number),
            votes: false,
            condition: Condition::CaughtUp,
            leads: false,
        }));
        self
    }

    pub(super) fn node(&mut self, number: u32) -> &mut CopyCandidate {
        let mut nodes = self.nodes.iter_mut();
        nodes.find(|node| node.member == id(number)).unwrap()
    }

    pub(super) fn copy(&mut self, number: u32) -> &mut GroupCopy {
        let mut copies = self.copies.iter_mut();
        copies.find(|copy| copy.member == id(number)).unwrap()
    }

    pub(super) fn rack(&mut self, number: u32, rack: &str) {
        self.node(number).rack = rack.parse().unwrap();
    }

    pub(super) fn down(&mut self, number: u32, since_ms: u64) {
        let node = self.node(number);
        (node.reach, node.since_ms) = (Reach::Unreachable, since_ms);
    }

    pub(super) fn up(&mut self, number: u32) {
        let node = self.node(number);
        (node.reach, node.since_ms) = (Reach::Alive, 0);
    }

    pub(super) fn leave(&mut self, number: u32) {
        self.nodes.retain(|node| node.member != id(number));
    }

    /// Copies of members that can be reached catch up.
    pub(super) fn learn(&mut self) {
        for copy in &mut self.copies {
            let mut nodes = self.nodes.iter().filter(|node| node.member == copy.member);
            let up = nodes.any(|node| node.reach != Reach::Unreachable);
            if up && copy.condition == Condition::Behind {
                copy.condition = Condition::CaughtUp;
            }
        }
    }

    pub(super) fn changes(&self) -> Vec<CopyChange> {
        let advice = advise(&self.wanted, &self.nodes, &self.copies);
        advice.map_or_else(Vec::new, |Advice(changes)| changes)
    }

    /// Does what is advised; gives whether there was anything.
    pub(super) fn make(&mut self) -> bool {
        let (before, changes) = (self.clone(), self.changes());
        for change in &changes {
            self.change(*change);
        }
        self.look(&before, &changes);
        !changes.is_empty()
    }

    fn change(&mut self, change: CopyChange) {
        match change {
            CopyChange::Add(member) => {
                let home = self.nodes.iter().find(|node| node.member == member);
                let home = home.expect("a copy for who is no member");
                assert!(home.votes && home.has_store && home.reach != Reach::Unreachable);
                self.copies.push(GroupCopy {
                    member,
                    votes: false,
                    condition: Condition::Behind,
                    leads: false,
                });
            }
            CopyChange::Promote(member) => {
                let home = self.nodes.iter().find(|node| node.member == member);
                assert_ne!(home.unwrap().reach, Reach::Unreachable, "promoted in vain");
                let copy = self.copy(member.0);
                assert_eq!((copy.votes, copy.condition), (false, Condition::CaughtUp));
                copy.votes = true;
            }
            CopyChange::Demote(member) => {
                let copy = self.copy(member.0);
                assert!(copy.votes && !copy.leads);
                copy.votes = false;
            }
            CopyChange::Remove(member) => {
                self.copy(member.0);
                self.copies.retain(|copy| copy.member != member);
            }
        }
    }

    /// What holds for every change.
    fn look(&self, before: &Self, changes: &[CopyChange]) {
        let touched: BTreeSet<_> = changes.iter().map(|change| member(*change)).collect();
        assert_eq!(touched.len(), changes.len(), "changed twice: {changes:?}");
        let members: BTreeSet<_> = self.copies.iter().map(|copy| copy.member).collect();
        assert_eq!(members.len(), self.copies.len(), "two copies on one member");
        let (old, new) = (before.voting(), self.voting());
        assert!(old.is_empty() || !new.is_empty(), "no voter is left");
        let over = old.iter().filter(|id| before.is_over(**id)).count();
        let may_vote = self.nodes.iter().filter(|node| node.votes).count();
        let wanted = before.wanted.voters_max.min(may_vote);
        let enough = (old.len() - over).min(wanted.saturating_sub(1) | 1);
        assert!(
            new.len() >= enough,
            "the group shrank: {before:?} {changes:?}"
        );
        for leader in before.copies.iter().filter(|copy| copy.leads) {
            let stays = new.contains(&leader.member);
            let may_go = before.is_over(leader.member) || before.is_drained(leader.member);
            assert!(stays || may_go, "the leader was removed");
        }
    }

    /// Whether a member's copy is of no use for ever.
    pub(super) fn is_over(&self, member: MemberId) -> bool {
        let mut copies = self.copies.iter().filter(|copy| copy.member == member);
        let lost = copies.any(|copy| copy.condition == Condition::Lost);
        let mut nodes = self.nodes.iter().filter(|node| node.member == member);
        lost || !nodes.any(|node| node.votes)
    }

    pub(super) fn is_drained(&self, member: MemberId) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.member == member && node.is_drained)
    }

    /// Follows advice until there is none, and everybody learns meanwhile; gives how many changes
    /// that took.
    pub(super) fn settle(&mut self) -> usize {
        for steps in 0..STEPS_MAX {
            self.learn();
            if !self.make() {
                return steps;
            }
            self.elect();
        }
        panic!("there is no end to it: {self:?}");
    }

    /// A voter leads that can. One that is about to leave does until its copy is gone.
    pub(super) fn elect(&mut self) {
        let nodes = &self.nodes;
        let can = |copy: &GroupCopy| {
            let mut nodes = nodes.iter().filter(|node| node.member == copy.member);
            let up = nodes.all(|node| node.reach != Reach::Unreachable);
            copy.votes && copy.condition != Condition::Lost && up
        };
        for copy in &mut self.copies {
            copy.leads &= can(copy);
        }
        if self.copies.iter().any(|copy| copy.leads) {
            return;
        }
        if let Some(copy) = self.copies.iter_mut().find(|copy| can(copy)) {
            copy.leads = true;
        }
    }

    /// Time passes for all.
    pub(super) fn wait(&mut self, ms: u64) {
        self.nodes.iter_mut().for_each(|node| node.since_ms += ms);
    }

    pub(super) fn voting(&self) -> Vec<MemberId> {
        let voters = self.copies.iter().filter(|copy| copy.votes);
        voters.map(|copy| copy.member).collect()
    }

    /// The racks that voters stand on.
    pub(super) fn racks(&self) -> BTreeSet<&str> {
        let voting = self.voting();
        let nodes = self
            .nodes
            .iter()
            .filter(|node| voting.contains(&node.member));
        nodes.map(|node| node.rack.as_str()).collect()
    }
}

const fn member(change: CopyChange) -> MemberId {
    match change {
        CopyChange::Add(id)
        | CopyChange::Promote(id)
        | CopyChange::Demote(id)
        | CopyChange::Remove(id) => id,
    }
}

/// From any state to one with nothing left to change, at most.
const STEPS_MAX: usize = 20;
/// Long enough for whoever is gone to be counted as gone.
pub(super) const LONG_MS: u64 = STEADY_MS + GONE_MS;
