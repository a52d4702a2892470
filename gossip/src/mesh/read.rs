//! What a mesh tells of itself to whoever asks.

use super::{Mesh, Reach};
use muster_model::time::Time;

use crate::counters::Counters;
use crate::documents::{self, KnownDocument};
use crate::key::NodeKey;
use crate::member::{Incarnation, MemberId};
use crate::reach::VoteContext;
use crate::record::{ClusterBody, DocumentId, MemberBody, NodeBody, Record, RecordKey, Vote};

/// One member, as this node sees it.
#[derive(Clone, Debug)]
pub struct KnownMember<'a> {
    /// Its number.
    pub id: MemberId,
    /// Its admission.
    pub body: &'a MemberBody,
    /// What it says of itself; `None` if nothing came yet.
    pub node: Option<NodeBody>,
    /// Age of that, ms; `None` if it was known before this start.
    pub said_ms: Option<u64>,
    /// Its newest known start.
    pub incarnation: Incarnation,
    /// Whether it can be reached.
    pub reach: Reach,
    /// For how long, if it is not simply alive, ms.
    pub reach_ms: Option<u64>,
    /// What its watchers hold against it.
    pub votes: Vec<(MemberId, Vote)>,
    /// Records with a wrong signature that it sent to this node.
    pub forged: u64,
}

impl Mesh {
    /// This node's number.
    pub const fn me(&self) -> MemberId {
        self.identity.member
    }

    /// This node's incarnation, which rises when somebody else wrote in its name.
    pub const fn incarnation(&self) -> Incarnation {
        self.own.incarnation()
    }

    /// The cluster's key and generation.
    pub const fn cluster(&self) -> Option<&ClusterBody> {
        self.writers.cluster()
    }

    /// The member with this key.
    pub fn member_of(&self, key: &NodeKey) -> Option<MemberId> {
        self.roster.member_of(key)
    }

    /// Whether this is a member now.
    pub fn is_member(&self, id: MemberId) -> bool {
        self.roster.is_admitted(id)
    }

    /// One who is or was a member.
    pub fn member(&self, id: MemberId) -> Option<KnownMember<'_>> {
        let body = self.roster.body(id)?;
        let node = self.store.get(RecordKey::Node(id));
        Some(KnownMember {
            id,
            body,
            node: node.and_then(|record| record.body().ok()),
            said_ms: self.said_at.get(&id).map(|at| self.ms_since(*at)),
            incarnation: Incarnation(self.store.version(RecordKey::Node(id)).incarnation),
            reach: self.reach(id),
            reach_ms: self.view.since(id).map(|at| self.ms_since(at)),
            votes: self.votes_against(id),
            forged: self.forged.get(&id).copied().unwrap_or(0),
        })
    }

    /// What votes are counted by.
    pub(super) fn ground(&self) -> VoteContext<'_> {
        VoteContext {
            roster: &self.roster,
            store: &self.store,
        }
    }

    fn votes_against(&self, member: MemberId) -> Vec<(MemberId, Vote)> {
        let on = self.ground();
        let voters = self.store.cast().map(|(by, _)| by);
        let vote = |by| on.vote(by, member).map(|vote| (by, *vote));
        voters.filter_map(vote).collect()
    }

    const fn ms_since(&self, at: Time) -> u64 {
        self.now.micros_since(at) / 1000
    }

    /// The members, ascending.
    pub fn members(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.roster.admitted()
    }

    /// All who ever were members, ascending.
    pub fn ever(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.roster.ever()
    }

    /// Whether a member can be reached.
    pub fn reach(&self, member: MemberId) -> Reach {
        self.view.reach(member)
    }

    /// Those that are not simply alive.
    pub fn troubled(&self) -> impl Iterator<Item = (MemberId, Reach)> + '_ {
        let troubled = self.view.troubled().iter();
        troubled.map(|trouble| (trouble.member, trouble.reach))
    }

    /// Whom this node keeps a connection with, ascending: those it watches, and its watchers.
    pub fn links(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.links.iter().copied()
    }

    /// Whom it watches, those that are lost too.
    pub fn watched(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.watch.watched()
    }

    /// The record of a key.
    pub fn record(&self, key: RecordKey) -> Option<&std::sync::Arc<Record>> {
        self.store.get(key)
    }

    /// All records.
    pub fn all_records(&self) -> impl Iterator<Item = &std::sync::Arc<Record>> {
        self.store.all()
    }

    /// Digest of all that is known: equal on two nodes that know the same.
    pub fn root(&self) -> u64 {
        self.store.root() ^ self.documents.digest()
    }

    /// Every document that the cluster has.
    pub fn documents(&self) -> impl Iterator<Item = (DocumentId, KnownDocument)> + '_ {
        let ids = self.documents.ids();
        ids.filter_map(|id| Some((id, self.documents.view(id)?)))
    }

    /// What was dropped of documents, and why.
    pub fn document_counters(&self) -> &documents::Counters {
        self.documents.counters()
    }

    /// A member's newest known start.
    pub fn incarnation_of(&self, member: MemberId) -> Incarnation {
        Incarnation(self.store.version(RecordKey::Node(member)).incarnation)
    }

    /// Who watches a member, those that are lost themselves left out.
    pub fn watchers(&self, member: MemberId) -> Vec<MemberId> {
        self.roster.watchers(member, self.view.lost()).to_vec()
    }

    /// Whether another machine writes with this node's key.
    pub const fn is_cloned(&self) -> bool {
        self.own.is_cloned()
    }

    /// What was dropped, and why.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Entries in tables that outsiders can make grow, by name.
    pub fn sizes(&self) -> [(&'static str, usize); 4] {
        [
            ("records", self.store.all().count()),
            ("deferred", self.writers.deferred()),
            ("senders", self.senders.len()),
            ("voters", self.store.voters()),
        ]
    }
}
