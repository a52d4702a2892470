//! The cluster goes on in another group, from one copy of the group that it had.
//!
//! What the lost ones decided last may be missing in the copy and known to others all the same: the cluster's
//! key signed it for the mesh, and every member was told of it. It is put into the state by the first entry of the
//! new group, before which nothing else is taken. A number, a version or a cell that the copy does not know
//! of would be given again.

use muster_gossip::join::Text;
use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::record::{AdmissionState, MemberBody};
use serde::{Deserialize, Serialize};

use super::cluster_map::ClusterMap;
use super::document::DOCUMENTS_MAX;
use super::entry::{ClusterApplied, DocumentEdit};
use super::member::AdmittedMember;
use super::recovery::generation_at;
use super::rejected::ClusterRejection;
use super::{ClusterState, NUMBERS_MAX, VCS_MAX};

/// What those who are left know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The generation that begins.
    pub generation: u32,
    /// Admissions as the mesh has them, by ascending number, where the copy says something else.
    pub members: Vec<(MemberId, MemberBody)>,
    /// What is to be in force of documents of which the mesh has newer versions than the copy: the base is
    /// the newest of these.
    pub documents: Vec<DocumentEdit>,
    /// What a member was told last.
    pub told: Option<Box<ClusterMap>>,
    /// When, ms since the epoch.
    pub at_ms: u64,
}

impl ClusterState {
    pub(super) fn succeed(
        &mut self,
        index: u64,
        replacement: &Replacement,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let cluster = self.cluster.as_mut().ok_or(ClusterRejection::NotFounded)?;
        let generation = replacement.generation;
        if generation <= cluster.generation || u64::from(generation) != generation_at(index) {
            return Err(ClusterRejection::Succeeded(cluster.generation));
        }
        cluster.generation = generation;
        for (id, body) in &replacement.members {
            self.catch_up(*id, body, (index, replacement.at_ms));
        }
        let told = replacement.told.as_deref();
        if let Some(told) = told.filter(|told| told.version > self.map_version) {
            self.go_by(told);
        }
        self.restate(index, replacement);
        Ok(ClusterApplied::Replacement)
    }

    /// Somebody was admitted, or is a member no more, by the word of the mesh.
    fn catch_up(&mut self, id: MemberId, body: &MemberBody, at: (u64, u64)) {
        if let Some(known) = self.members.get_mut(id.index()) {
            let has_ended = known.is_admitted() && body.state != AdmissionState::Admitted;
            if has_ended && known.key == body.key {
                known.state = body.state;
                (known.changed, known.ended_ms) = (at.0, Some(at.1));
                self.roll.remove(known);
            }
            return;
        }
        let Some(member) = admitted(body, at).filter(|_| id.index() < NUMBERS_MAX) else {
            return;
        };
        while self.members.len() < id.index() {
            self.enter(unknown(&member, at));
        }
        self.enter(member);
    }

    /// Gives the next number. Whose name or key another member has is none.
    fn enter(&mut self, mut member: AdmittedMember) {
        let is_taken =
            self.roll.names.contains_key(&member.name) || self.roll.keys.contains_key(&member.key);
        if member.is_admitted() && is_taken {
            member.state = AdmissionState::Left;
            member.ended_ms = Some(member.admitted_ms);
        }
        let id = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        self.roll.add(MemberId(id), &member);
        self.members.push(member);
    }

    /// Takes over what a member was told and the copy does not know.
    fn go_by(&mut self, told: &ClusterMap) {
        for creation in &told.vcs {
            let known = self.vcs.get(&creation.vc);
            let is_newer = known.is_none_or(|known| known.generation < creation.generation);
            if is_newer && (known.is_some() || self.vcs.len() < VCS_MAX) {
                self.vcs.insert(creation.vc.clone(), creation.clone());
            }
        }
        for member in self.members.iter_mut().filter(|it| it.is_admitted()) {
            match told.closed.get(&member.name) {
                Some(scheduling) => member.scheduling = Some(scheduling.clone()),
                None if member.is_closed() => member.scheduling = None,
                None => {}
            }
        }
        self.groups.clone_from(&told.groups);
        // Tokens may be signed by a key that the copy does not know.
        self.keys = Some(told.keys.clone());
        // A cluster map holds no passwords and no uses of tokens: those of the copy stay.
        let before = std::mem::replace(&mut self.users, told.users.clone());
        for (name, known) in before {
            if let Some(user) = self.users.get_mut(&name) {
                for token in &mut user.tokens {
                    token.used_s = known.token(token.id).map_or(0, |it| it.used_s);
                }
                user.password_hash = known.password_hash;
            }
        }
    }

    /// All that the state says is said anew: it counts for more than whatever the lost ones said.
    fn restate(&mut self, index: u64, replacement: &Replacement) {
        // What is over has been said for good.
        for member in self.members.iter_mut().filter(|it| it.is_admitted()) {
            member.changed = index;
        }
        for edit in &replacement.documents {
            if self.documents.len() < DOCUMENTS_MAX {
                self.documents.entry(edit.id).or_default();
            }
        }
        for (id, document) in &mut self.documents {
            let heard = replacement.documents.iter().find(|edit| edit.id == *id);
            document.restate(index, heard, replacement.at_ms);
        }
        self.unheard = self.vcs.keys().cloned().collect();
        self.bound_at = index;
        self.map_version = index;
    }
}

/// A member by the word of the mesh, at this index and time.
fn admitted(body: &MemberBody, (index, at_ms): (u64, u64)) -> Option<AdmittedMember> {
    let has_ended = body.state != AdmissionState::Admitted;
    Some(AdmittedMember {
        key: body.key,
        name: body.name.parse().ok()?,
        rack: body.rack.parse().ok()?,
        votes: body.votes,
        state: body.state,
        token: None,
        admitted_ms: at_ms,
        ended_ms: has_ended.then_some(at_ms),
        scheduling: None,
        changed: index,
    })
}

/// Somebody of whom nothing is known but that there was one, for a higher number was given.
fn unknown(next: &AdmittedMember, (index, at_ms): (u64, u64)) -> AdmittedMember {
    AdmittedMember {
        key: NodeKey([0; 32]),
        name: next.name.clone(),
        rack: Text::default(),
        votes: false,
        state: AdmissionState::Left,
        token: None,
        admitted_ms: at_ms,
        ended_ms: Some(at_ms),
        scheduling: None,
        changed: index,
    }
}
