//! Reading the state.

use muster_gossip::join::TokenId;
use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::record::{BodyId, DocumentId};
use muster_model::id::NodeId;

use super::document::ClusterDocument;
use super::entry::VcCreation;
use super::member::AdmittedMember;
use super::secret::Secret;
use super::token::IssuedToken;
use super::{ClusterIdentity, ClusterState};

impl ClusterState {
    /// The cluster, once it is founded.
    pub const fn cluster(&self) -> Option<&ClusterIdentity> {
        self.cluster.as_ref()
    }

    /// What whoever leads the group signs statements with.
    pub fn secret(&self) -> Option<&Secret> {
        self.cluster().map(|cluster| &cluster.secret)
    }

    /// The cluster's own record, as bytes: signed once, by the root key.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.cluster().map(|cluster| cluster.certificate.as_slice())
    }

    /// Every virtual cluster that was ever named, by name.
    pub fn vcs(&self) -> impl Iterator<Item = &VcCreation> {
        self.vcs.values()
    }

    /// Whoever was ever admitted, by ascending number.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &AdmittedMember)> {
        (0..).map(MemberId).zip(&self.members)
    }

    /// Whoever was admitted under this number.
    pub fn member(&self, id: MemberId) -> Option<&AdmittedMember> {
        self.members.get(id.index())
    }

    /// The member of this number, if it is one still.
    pub fn admitted(&self, id: MemberId) -> Option<&AdmittedMember> {
        self.member(id).filter(|member| member.is_admitted())
    }

    /// The member that has this key.
    pub fn member_by_key(&self, key: &NodeKey) -> Option<MemberId> {
        self.roll.keys.get(key).copied()
    }

    /// The member that has this name.
    pub fn member_by_name(&self, name: &NodeId) -> Option<MemberId> {
        self.roll.names.get(name).copied()
    }

    /// How many members there are.
    pub fn size(&self) -> usize {
        self.roll.keys.len()
    }

    /// All tokens, also those that are over.
    pub fn tokens(&self) -> impl Iterator<Item = (TokenId, &IssuedToken)> {
        self.tokens.iter().map(|(id, token)| (*id, token))
    }

    /// A token.
    pub fn token(&self, id: TokenId) -> Option<&IssuedToken> {
        self.tokens.get(&id)
    }

    /// All documents.
    pub fn documents(&self) -> impl Iterator<Item = (DocumentId, &ClusterDocument)> {
        self.documents.iter().map(|(id, document)| (*id, document))
    }

    /// A document.
    pub fn document(&self, id: DocumentId) -> Option<&ClusterDocument> {
        self.documents.get(&id)
    }

    /// Bodies that some remembered version has: what lies beside the log and is not among them
    /// can go.
    pub fn bodies(&self) -> impl Iterator<Item = &BodyId> {
        let revisions = self.documents.values().flat_map(ClusterDocument::history);
        revisions.map(|revision| &revision.body)
    }
}
