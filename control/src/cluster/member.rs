//! Members, and who has which name and key.

use std::collections::BTreeMap;

use muster_gossip::join::{Text, TokenId};
use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::record::{AdmissionState, MemberBody};
use muster_model::id::NodeId;
use serde::{Deserialize, Serialize};

use super::scheduling::AdminScheduling;

/// Somebody who was admitted once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmittedMember {
    /// Its key.
    pub key: NodeKey,
    /// Its name.
    pub name: NodeId,
    /// Where it stands; empty if nobody said.
    pub rack: Text<64>,
    /// Whether it may vote in consensus groups.
    pub votes: bool,
    /// Whether it is a member still.
    pub state: AdmissionState,
    /// The token that admitted it; none for the founder.
    pub token: Option<TokenId>,
    /// When it was admitted, ms since the epoch.
    pub admitted_ms: u64,
    /// When it left or was expelled.
    pub ended_ms: Option<u64>,
    /// What an admin said last of jobs there; none: nothing yet, they may come.
    pub scheduling: Option<AdminScheduling>,
    /// Index of the entry that changed it last.
    pub(super) changed: u64,
}

impl AdmittedMember {
    /// Whether it is a member still.
    pub fn is_admitted(&self) -> bool {
        self.state == AdmissionState::Admitted
    }

    pub(super) fn body(&self) -> MemberBody {
        MemberBody {
            key: self.key,
            name: self.name.to_string(),
            rack: self.rack.to_string(),
            votes: self.votes,
            state: self.state,
        }
    }
}

/// Follows from the members; made anew when a snapshot is restored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Roll {
    pub(super) names: BTreeMap<NodeId, MemberId>,
    pub(super) keys: BTreeMap<NodeKey, MemberId>,
    /// Keys that were expelled, with the index of the newest such entry.
    pub(super) expelled: BTreeMap<NodeKey, u64>,
}

impl Roll {
    /// Members are added in the order of their numbers.
    pub(super) fn add(&mut self, id: MemberId, member: &AdmittedMember) {
        match member.state {
            AdmissionState::Admitted => {
                self.names.insert(member.name.clone(), id);
                self.keys.insert(member.key, id);
            }
            AdmissionState::Left => {}
            AdmissionState::Expelled => self.expel(member),
        }
    }

    /// Takes a member out that has left or was expelled.
    pub(super) fn remove(&mut self, member: &AdmittedMember) {
        self.names.remove(&member.name);
        self.keys.remove(&member.key);
        if member.state == AdmissionState::Expelled {
            self.expel(member);
        }
    }

    fn expel(&mut self, member: &AdmittedMember) {
        let newest = self.expelled.entry(member.key).or_default();
        *newest = member.changed.max(*newest);
    }
}
