//! Who has a copy of a group, and how that changes: itself replicated, by the group's own log.

use std::collections::BTreeMap;

use protobuf::Message as _;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
};
use serde::{Deserialize, Serialize};

use crate::id::{NodeId, ReplicaHome, ReplicaId};

/// A change of one replica. Several together happen at once: no majority in between is one of
/// neither the old nor the new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaChange {
    /// A new copy, which learns and has no vote yet.
    Add(ReplicaId, ReplicaHome),
    /// A copy that has learnt gets a vote.
    Promote(ReplicaId),
    /// A voter becomes a learner.
    Demote(ReplicaId),
    /// A copy goes, for ever.
    Remove(ReplicaId),
}

/// Why a change of membership cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Numbers are given once.
    #[error("replica {0:?} was there before; take a number from {1:?} on")]
    Used(ReplicaId, ReplicaId),
    /// One copy a node.
    #[error("node {0:?} has a copy already")]
    Housed(NodeId),
    /// There is none of that number.
    #[error("there is no replica {0:?}")]
    Unknown(ReplicaId),
    /// Somebody has to vote.
    #[error("no voter would be left")]
    NoVoter,
    /// Nothing to do.
    #[error("it changes nothing")]
    Empty,
}

/// The members of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMembership {
    /// Where every copy is.
    pub homes: BTreeMap<ReplicaId, ReplicaHome>,
    /// The first number that was never given.
    pub next: ReplicaId,
}

impl GroupMembership {
    /// Of a group that is born: all of them vote.
    pub fn born(homes: BTreeMap<ReplicaId, ReplicaHome>) -> Self {
        let last = homes.keys().next_back().map_or(0, |id| id.0);
        Self {
            homes,
            next: ReplicaId(last + 1),
        }
    }

    /// Whether this number was given and its copy is no more.
    pub fn is_gone(&self, replica: ReplicaId) -> bool {
        replica < self.next && !self.homes.contains_key(&replica)
    }

    /// Checks changes against this membership and `voters`, in their order.
    ///
    /// # Errors
    /// [`Unfit`], and then none of them may be made.
    pub fn check(&self, changes: &[ReplicaChange], voters: &ConfState) -> Result<(), Unfit> {
        if changes.is_empty() {
            return Err(Unfit::Empty);
        }
        let mut after = self.clone();
        let mut voting: Vec<u64> = voters.voters.clone();
        for change in changes {
            after.check_one(*change)?;
            after.make(*change);
            if let ReplicaChange::Remove(id) = change {
                after.homes.remove(id);
            }
            match change {
                ReplicaChange::Add(..) => {}
                ReplicaChange::Promote(id) => voting.push(id.0),
                ReplicaChange::Demote(id) | ReplicaChange::Remove(id) => {
                    voting.retain(|voter| *voter != id.0)
                }
            }
        }
        if voting.is_empty() {
            return Err(Unfit::NoVoter);
        }
        Ok(())
    }

    fn check_one(&self, change: ReplicaChange) -> Result<(), Unfit> {
        match change {
            ReplicaChange::Add(id, _) if id < self.next => Err(Unfit::Used(id, self.next)),
            ReplicaChange::Add(_, home)
                if self.homes.values().any(|other| other.node == home.node) =>
            {
                Err(Unfit::Housed(home.node))
            }
            ReplicaChange::Add(..) => Ok(()),
            ReplicaChange::Promote(id) | ReplicaChange::Demote(id) | ReplicaChange::Remove(id) => {
                let there = self.homes.contains_key(&id);
                there.then_some(()).ok_or(Unfit::Unknown(id))
            }
        }
    }

    /// Makes the part of a change that Raft does not know: where a new copy is.
    pub(crate) fn make(&mut self, change: ReplicaChange) {
        if let ReplicaChange::Add(id, home) = change {
            self.homes.insert(id, home);
            self.next = ReplicaId(id.0 + 1);
        }
    }

    /// Forgets who is in none of the group's majorities any more.
    pub(crate) fn keep_only(&mut self, conf: &ConfState) {
        let there = [
            &conf.voters,
            &conf.voters_outgoing,
            &conf.learners,
            &conf.learners_next,
        ];
        let is_there = |id: &ReplicaId| there.iter().any(|part| part.contains(&id.0));
        self.homes.retain(|id, _| is_there(id));
    }
}

/// The changes as Raft knows them; what they say of homes goes along as context.
pub(crate) fn to_raft(changes: &[ReplicaChange]) -> Option<ConfChangeV2> {
    let mut raft = ConfChangeV2::default();
    raft.set_transition(ConfChangeTransition::Auto);
    for change in changes {
        let (id, kind) = match change {
            ReplicaChange::Add(id, _) | ReplicaChange::Demote(id) => {
                (id, ConfChangeType::AddLearnerNode)
            }
            ReplicaChange::Promote(id) => (id, ConfChangeType::AddNode),
            ReplicaChange::Remove(id) => (id, ConfChangeType::RemoveNode),
        };
        let mut single = ConfChangeSingle {
            node_id: id.0,
            ..ConfChangeSingle::default()
        };
        single.set_change_type(kind);
        raft.mut_changes().push(single);
    }
    raft.context = postcard::to_stdvec(changes).ok()?.into();
    Some(raft)
}

/// A committed change, and what it changes; nothing when Raft leaves a joint configuration.
pub(crate) fn from_raft(bytes: &[u8]) -> Option<(ConfChangeV2, Vec<ReplicaChange>)> {
    let mut raft = ConfChangeV2::default();
    raft.merge_from_bytes(bytes).ok()?;
    if raft.get_changes().is_empty() {
        return Some((raft, Vec::new()));
    }
    let changes = postcard::from_bytes(&raft.context).ok()?;
    Some((raft, changes))
}

#[cfg(test)]
mod tests;
