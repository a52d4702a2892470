//! The cluster's affairs: which nodes are members, which tokens are good, which version of a document comes
//! next.
//!
//! Every member with a copy of the `cluster` group can be asked; the one that leads it answers,
//! the others name it. What is committed is signed with the cluster's key, which lies in the
//! group's state, and handed to the mesh as records.
//!
//! - [`admission`]: petitions, leaving, expelling, tokens.
//! - [`documents`]: edits, and bodies, which lie beside the log on every copy's node.
//! - [`records`]: what the state says, signed.
//! - [`scheduling`]: which members jobs are kept off.
//! - [`users`]: logins, tokens of users, and what all members are told of them.
//! - [`leading`]: what the leader does on its own.
//! - [`copies`]: where copies may lie, for virtual clusters that begin.
//! - [`births`]: new virtual clusters.
//! - [`recovery`]: what has lost most of its voters, a virtual cluster or the cluster itself.
//! - [`succession`]: the cluster goes on in another group.

pub(crate) mod admission;
mod births;
pub(crate) mod bodies;
pub(crate) mod copies;
pub(crate) mod documents;
pub(crate) mod leading;
pub(crate) mod records;
pub(crate) mod recovery;
mod scheduling;
mod succession;
pub(crate) mod users;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use muster_control::cluster::{
    Applied, Briefing, ClusterState, Entry, Progress, Proposer, Rejected, Sight, Soak, steps,
};
use muster_control::coordinator::Bindings;
use muster_control::member::MembersSeen;
use muster_control::request::cluster::{Bind, DescribeCluster, NameCluster, RenewLeases, Silence};
use muster_control::request::member::{MemberRequest, OfMember};
use muster_control::request::{Answers, Failure, decode_answer};
use muster_gossip::frame::DocumentRef;
use muster_gossip::member::MemberId;
use muster_gossip::record::{DocumentId, Header, MemberBody, Record, RecordKey};
use muster_model::mesh::ClusterView;

use crate::clock;
use crate::documents::policy::PolicyInForce;
use crate::groups::ClusterGroup;
use crate::passwords::PasswordChecks;
use bodies::Bodies;
use records::signed;

/// What the affairs need of the mesh.
#[async_trait]
pub(crate) trait Members: Send + Sync + 'static {
    /// New records that the cluster signed, and bodies that they are about.
    async fn publish(&self, records: Vec<Arc<Record>>, bodies: Vec<(DocumentRef, Arc<[u8]>)>);
    /// How members are seen, and how far documents have come.
    async fn sights(&self) -> (BTreeMap<MemberId, Sight>, BTreeMap<DocumentId, Progress>);
    /// The members as the mesh sees them; none once that has ended.
    async fn seen(&self) -> Option<MembersSeen>;
    /// Everybody who was ever admitted, as the cluster signed it last.
    async fn admissions(&self) -> BTreeMap<MemberId, MemberBody>;
    /// The newest version of each document, as the cluster signed it last.
    async fn headers(&self) -> BTreeMap<DocumentId, Header>;
    /// The body of a version, if this node has it.
    async fn body(&self, document: DocumentRef) -> Option<Arc<[u8]>>;
    /// What this node was told last as a member.
    fn briefing(&self) -> Option<Arc<Briefing>>;
    /// Records that help a newcomer find its way.
    async fn seeds(&self) -> Vec<Arc<Record>>;
    /// Asks that member, and no other. The answer as bytes.
    async fn ask(&self, member: MemberId, request: MemberRequest) -> Result<Vec<u8>, Failure>;
    /// There is a newer briefing.
    fn brief(&self);
    /// Where this node can be joined.
    fn address(&self) -> String;
}

/// The cluster's affairs, as one member takes part in them.
pub(crate) struct Affairs {
    group: ClusterGroup,
    me: MemberId,
    bodies: Bodies,
    members: Box<dyn Members>,
    policy: PolicyInForce,
    checks: PasswordChecks,
}

impl std::fmt::Debug for Affairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Affairs")
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

impl Affairs {
    pub(crate) fn new(
        group: ClusterGroup,
        me: MemberId,
        bodies: Bodies,
        members: Box<dyn Members>,
        policy: PolicyInForce,
    ) -> Self {
        Self {
            group,
            me,
            bodies,
            members,
            policy,
            checks: PasswordChecks::default(),
        }
    }

    pub(crate) const fn group(&self) -> &ClusterGroup {
        &self.group
    }

    /// Asks another member.
    async fn ask<R: OfMember>(&self, member: MemberId, request: R) -> Result<R::Answer, Failure> {
        let answer = self.members.ask(member, request.into()).await?;
        let odd = |error| Failure::unknown(format!("an answer is not understood: {error}"));
        decode_answer(&answer).map_err(odd)?
    }

    /// Takes every step of a document that is due, if this node leads. It goes by the copy here: the state
    /// rejects a step that another leader was faster with.
    pub(crate) async fn step(&self) {
        let (sights, progress) = self.members.sights().await;
        let soak = Soak {
            soak_ms: u64::from(self.policy.now().documents.soak_s) * 1000,
            ..Soak::default()
        };
        let (me, now_ms) = (self.me, clock::now().as_millis());
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
            let look = self.group.look(move |state, _| due(state));
            let Ok(Some(Some(entry))) = look.await else {
                return;
            };
            match self.commit(&entry).await {
                Ok(applied) => tracing::info!(?applied, "a document took a step"),
                Err(error) => {
                    tracing::warn!(%error, "a document could not take its step");
                    return;
                }
            }
        }
    }

    /// Commits an entry and tells the mesh what it changed.
    async fn commit(&self, entry: &Entry) -> Result<Applied, Failure> {
        Ok(self.order(entry).await??)
    }

    /// The same, with the state's own word where it rejects the entry.
    async fn order(&self, entry: &Entry) -> Result<Result<Applied, Rejected>, Failure> {
        let outcome = self.group.propose(entry).await?;
        if outcome.as_ref().is_ok_and(|applied| applied.is_briefed()) {
            self.members.brief();
        }
        if let Ok(applied) = outcome
            && let Some(key) = applied.record()
        {
            let record = self.record(key).await;
            let records = record.into_iter().collect();
            self.members.publish(records, Vec::new()).await;
        }
        Ok(outcome)
    }

    /// A record of the state, signed.
    async fn record(&self, key: RecordKey) -> Option<Arc<Record>> {
        let look = self.group.look(move |state, _| signed(state, key));
        look.await.ok().flatten().flatten()
    }

    async fn describe(&self) -> Result<ClusterView, Failure> {
        let found = self.group.read(|state| {
            let cluster = state.cluster()?;
            Some(ClusterView {
                id: cluster.id.to_string(),
                name: cluster.name.to_string(),
                root_hash: records::root_hash(&cluster.root),
                generation: cluster.generation,
                feature_level: cluster.feature_level,
            })
        });
        found.await?.ok_or_else(|| Rejected::NotFounded.into())
    }
}

impl Answers<RenewLeases> for Affairs {
    async fn answer(&self, _: MemberId, request: RenewLeases) -> Result<(), Failure> {
        Ok(self.group.renew(request.node).await?)
    }
}

impl Answers<Silence> for Affairs {
    async fn answer(&self, _: MemberId, request: Silence) -> Result<u64, Failure> {
        Ok(self.group.silence_ms(request.node).await?)
    }
}

impl Answers<Bind> for Affairs {
    /// Binds a virtual cluster to what it asks for, as far as that is nobody's.
    async fn answer(&self, _: MemberId, request: Bind) -> Result<Option<Bindings>, Failure> {
        let Bind { vc, binding, known } = request;
        if !binding.is_empty() {
            let binding = Box::new(binding);
            self.commit(&Entry::Bound { vc, binding }).await?;
        }
        let news = self.group.read(move |state| Bindings::of(state, known));
        Ok(news.await?)
    }
}

impl Answers<NameCluster> for Affairs {
    async fn answer(&self, _: MemberId, request: NameCluster) -> Result<ClusterView, Failure> {
        let name = admission::author(&request.name)?;
        self.commit(&Entry::Named { name }).await?;
        self.describe().await
    }
}

impl Answers<DescribeCluster> for Affairs {
    async fn answer(&self, _: MemberId, _: DescribeCluster) -> Result<ClusterView, Failure> {
        self.describe().await
    }
}
