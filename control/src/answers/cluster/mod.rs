//! The cluster state: which nodes are members, which tokens are good, which version of a document comes
//! next.
//!
//! Every member with a copy of the `cluster` group can be asked; the one that leads it answers,
//! the others name it. What is committed is signed with the cluster's key, which lies in the
//! group's state, and handed to the mesh as records.
//!
//! - `admission`: admission requests, leaving, expelling, tokens.
//! - `documents`: edits, and bodies, which lie beside the log on every copy's node.
//! - `records`: what the state says, signed.
//! - `scheduling`: which members jobs are kept off.
//! - `users`: logins, tokens of users, and what all members are told of them.
//! - `quarantines`: which quarantines of a member are held back.
//! - `people`: users and groups added, changed and removed; the audit log.
//! - `leading`: what the leader does on its own.
//! - `copies`: where copies may lie, for virtual clusters that begin.
//! - `creations`: new virtual clusters.
//! - `recovery`: what has lost most of its voters, a virtual cluster or the cluster itself.
//! - `replacement`: the cluster goes on in another group.
//! - `shown`: what the mesh shows of the members.

mod admission;
mod copies;
mod creations;
mod documents;
pub mod hash;
mod leading;
mod people;
mod quarantines;
mod records;
mod recovery;
mod replacement;
mod scheduling;
mod shown;
mod user_tokens;
mod users;

use std::sync::{Arc, Mutex};

use muster_consensus::GroupId;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_model::mesh::ClusterView;

use super::event::Event;
use super::port::{CopiesPort as _, MemberPort};
use crate::breaker::QuarantineBreaker;
use crate::cluster::{
    ClusterApplied, ClusterEntry, ClusterRejection, ClusterState, Proposer, Soak, steps,
};
use crate::coordinator::Bindings;
use crate::groups::{ApplyOutcome, GroupError, GroupStanding, GroupState, Local, LocalGroup};
use crate::request::cluster::{Bind, DescribeCluster, GetSilence, NameCluster, RenewLeases};
use crate::request::member::OfMember;
use crate::request::{Answers, RequestFailure, decode_answer};

pub use creations::named_vcs;
pub use leading::Leading;
pub use records::root_hash;

/// The service of the cluster at one member: its answers, and what the leader does.
#[derive(Debug)]
pub struct ClusterService<P> {
    cluster: ClusterId,
    me: MemberId,
    port: P,
    /// What this member has counted as the leader.
    breaker: Mutex<QuarantineBreaker>,
}

impl<P: MemberPort> ClusterService<P> {
    /// That of a cluster, at this member of it.
    pub fn new(cluster: ClusterId, me: MemberId, port: P) -> Self {
        Self {
            cluster,
            me,
            port,
            breaker: Mutex::default(),
        }
    }

    /// What it runs on.
    pub const fn port(&self) -> &P {
        &self.port
    }

    /// This member's copies of groups.
    fn copies(&self) -> &P::Copies {
        self.port.copies()
    }

    /// The group that holds the cluster state by now.
    pub fn group(&self) -> GroupId {
        GroupId(self.port.lineage().group)
    }

    /// Looks at the state as it stands after everything committed so far, if this node leads.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ClusterState) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        let group = self.group();
        let read = |seen: LocalGroup<'_>| state_of(seen.machine).map(read);
        let found = self.copies().read(group, read).await?;
        found.ok_or(GroupError::NoLeader)
    }

    /// Looks at the copy here, as far as it has come; none if there is none.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&ClusterState, GroupStanding) -> T + Send + 'static,
    ) -> Result<Option<T>, GroupError> {
        let group = self.group();
        let look = |local: Local<'_>| {
            let Local { seen, standing } = local;
            state_of(seen.machine).map(|state| look(state, standing))
        };
        Ok(self.copies().look(group, look).await?.flatten())
    }

    /// Commits an entry. The state's own word comes back.
    async fn propose(
        &self,
        entry: &ClusterEntry,
    ) -> Result<Result<ClusterApplied, ClusterRejection>, GroupError> {
        let bytes = entry.encode().map_err(|error| {
            self.copies().tell(Event::Unwritable(error.to_string()));
            GroupError::Unreadable
        })?;
        match self.copies().propose(self.group(), &bytes).await? {
            ApplyOutcome::Cluster(outcome) => Ok(outcome),
            ApplyOutcome::Vc(_) | ApplyOutcome::Unreadable(_) => Err(GroupError::Unreadable),
        }
    }

    /// Milliseconds since the epoch.
    fn now_ms(&self) -> u64 {
        self.copies().now().wall.as_millis()
    }

    /// A number that nobody can guess.
    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.port.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Asks another member.
    async fn ask<R: OfMember>(
        &self,
        member: MemberId,
        request: R,
    ) -> Result<R::Answer, RequestFailure> {
        let answer = self.port.ask(member, request.into()).await?;
        let odd = |error| RequestFailure::unknown(format!("an answer is not understood: {error}"));
        decode_answer(&answer).map_err(odd)?
    }

    /// Takes every step of a document that is due, if this node leads. It goes by the copy here: the state
    /// rejects a step that another leader was faster with.
    async fn step(&self) {
        let shown = self
            .port
            .mesh(|mesh| (shown::sights(mesh), shown::progress(mesh)));
        let (sights, progress) = shown.await.unwrap_or_default();
        let soak = Soak {
            soak_ms: self.port.soak_ms(),
            ..Soak::default()
        };
        let (me, now_ms) = (self.me, self.now_ms());
        let due = move |state: &ClusterState| {
            let proposer = Proposer {
                me,
                progress: &progress,
                sights: &sights,
                soak,
                now_ms,
            };
            steps(state, &proposer)
        };
        let due = Arc::new(due);
        loop {
            let due = Arc::clone(&due);
            let look = self.look(move |state, _| due(state));
            let Ok(Some(Some(entry))) = look.await else {
                return;
            };
            match self.commit(&entry).await {
                Ok(applied) => self.copies().tell(Event::Stepped(applied)),
                Err(error) => return self.copies().tell(Event::NotStepped(error)),
            }
        }
    }

    /// Commits an entry and tells the mesh what it changed.
    async fn commit(&self, entry: &ClusterEntry) -> Result<ClusterApplied, RequestFailure> {
        Ok(self.order(entry).await??)
    }

    /// The same, with the state's own word where it rejects the entry.
    async fn order(
        &self,
        entry: &ClusterEntry,
    ) -> Result<Result<ClusterApplied, ClusterRejection>, RequestFailure> {
        let outcome = self.propose(entry).await?;
        if outcome.as_ref().is_ok_and(|applied| applied.is_briefed()) {
            self.port.brief();
        }
        if let Ok(applied) = outcome
            && let Some(key) = applied.record()
        {
            let record = self.record(key).await;
            let records = record.into_iter().collect();
            self.port.publish(records, Vec::new()).await;
        }
        Ok(outcome)
    }

    async fn describe(&self) -> Result<ClusterView, RequestFailure> {
        let found = self.read(|state| {
            let cluster = state.cluster()?;
            Some(ClusterView {
                id: cluster.id.to_string(),
                name: cluster.name.to_string(),
                root_hash: root_hash(&cluster.root),
                generation: cluster.generation,
                feature_level: cluster.feature_level,
            })
        });
        found
            .await?
            .ok_or_else(|| ClusterRejection::NotFounded.into())
    }
}

impl<P: MemberPort> Answers<RenewLeases> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: RenewLeases) -> Result<(), RequestFailure> {
        Ok(self.copies().renew(self.group(), request.node).await?)
    }
}

impl<P: MemberPort> Answers<GetSilence> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: GetSilence) -> Result<u64, RequestFailure> {
        let silence = move |seen: LocalGroup<'_>| seen.silence_ms(&request.node);
        Ok(self.copies().read(self.group(), silence).await?)
    }
}

impl<P: MemberPort> Answers<Bind> for ClusterService<P> {
    /// Binds a virtual cluster to what it asks for, as far as that is nobody's.
    async fn answer(&self, _: MemberId, request: Bind) -> Result<Option<Bindings>, RequestFailure> {
        let Bind { vc, binding, known } = request;
        if !binding.is_empty() {
            let binding = Box::new(binding);
            self.commit(&ClusterEntry::Bound { vc, binding }).await?;
        }
        let news = self.read(move |state| Bindings::of(state, known));
        Ok(news.await?)
    }
}

impl<P: MemberPort> Answers<NameCluster> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: NameCluster,
    ) -> Result<ClusterView, RequestFailure> {
        let name = admission::author(&request.name)?;
        self.commit(&ClusterEntry::Named { name }).await?;
        self.describe().await
    }
}

impl<P: MemberPort> Answers<DescribeCluster> for ClusterService<P> {
    async fn answer(&self, _: MemberId, _: DescribeCluster) -> Result<ClusterView, RequestFailure> {
        self.describe().await
    }
}

fn state_of(machine: &GroupState) -> Option<&ClusterState> {
    match machine {
        GroupState::Cluster(state) => Some(state),
        GroupState::Vc(_) => None,
    }
}
