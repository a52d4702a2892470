//! The cluster's affairs: who is a member, which tokens are good, which version of a document
//! comes next, who has copies of the group that decides it.
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
//! - [`copies`]: who has copies, step by step.
//! - [`births`]: new virtual clusters.
//! - [`recovery`]: what has lost most of its voters, a virtual cluster or the cluster itself.
//! - [`succession`]: the cluster goes on in another group.

pub(crate) mod admission;
mod births;
pub(crate) mod bodies;
pub(crate) mod copies;
pub(crate) mod documents;
pub(crate) mod question;
pub(crate) mod records;
pub(crate) mod recovery;
mod scheduling;
mod succession;
pub(crate) mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use muster_consensus::StoreId;
use muster_control::cluster::{
    Applied, Binding, Briefing, ClusterState, DESCRIPTION, Entry, Progress, Proposer, Rejected,
    Sight, Soak, steps,
};
use muster_control::coordinator::Bindings;
use muster_control::groups::{Error, name};
use muster_gossip::frame::DocumentRef;
use muster_gossip::member::MemberId;
use muster_gossip::record::{DocumentId, Header, MemberBody, Record, RecordKey};
use muster_model::id::{NodeId, VcName};
use muster_model::mesh::ClusterView;

use crate::clock;
use crate::groups::ClusterGroup;
use crate::groups::copies::Copies;
use crate::passwords::PasswordChecks;
use bodies::Bodies;
use question::{Answer, Asker, Question, Rejection};
use records::signed;

/// The log store of a member, by its own word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    /// Which it is.
    pub(crate) id: StoreId,
    /// How many copies of logs are in it.
    pub(crate) copies: usize,
}

/// What the affairs need of the mesh.
#[async_trait]
pub(crate) trait Members: Send + Sync + 'static {
    /// New records that the cluster signed, and bodies that they are about.
    async fn publish(&self, records: Vec<Arc<Record>>, bodies: Vec<(DocumentRef, Arc<[u8]>)>);
    /// How members are seen, and how far documents have come.
    async fn sights(&self) -> (BTreeMap<MemberId, Sight>, BTreeMap<DocumentId, Progress>);
    /// The log store of each member that says so.
    async fn stores(&self) -> BTreeMap<MemberId, Store>;
    /// Who said that it has a copy of one of these groups.
    async fn holders(&self, groups: &[u64]) -> BTreeSet<MemberId>;
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
    /// Asks that member, and no other.
    async fn ask(&self, member: MemberId, question: Question) -> Answer;
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
    soak: Soak,
    checks: PasswordChecks,
    /// Of the group that it is by now.
    copies: Mutex<Arc<Copies>>,
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
        soak: Soak,
    ) -> Self {
        let copies = Copies::new(group.groups().clone(), group.id());
        Self {
            copies: Mutex::new(Arc::new(copies)),
            group,
            me,
            bodies,
            members,
            soak,
            checks: PasswordChecks::default(),
        }
    }

    pub(crate) const fn group(&self) -> &ClusterGroup {
        &self.group
    }

    /// Answers, if this node leads; names who does, if not.
    pub(crate) async fn answer(&self, from: Asker, question: Question) -> Answer {
        let now = clock::now().as_millis();
        let result = match question {
            Question::Petition(bytes) => self.petition(from, &bytes, now).await,
            Question::Leave => self.leave(from.0, now).await,
            Question::Name { name } => self.name_cluster(&name).await,
            Question::Expel { member, by } => self.expel(&member, &by, now).await,
            Question::Schedule {
                member,
                scheduling,
                reason,
                by,
            } => {
                let word = scheduling::Word {
                    scheduling,
                    reason: &reason,
                    by: &by,
                    at_ms: now,
                };
                self.schedule(&member, &word).await
            }
            Question::CreateToken { token, by } => self.create_token(token, &by, now).await,
            Question::Tokens => self.tokens().await,
            Question::RevokeToken { id } => self.revoke(&id, now).await,
            Question::Edit {
                document,
                base,
                text,
                now: forced,
                by,
            } => {
                let draft = documents::Draft {
                    id: DocumentId(document),
                    base,
                    forced,
                    by: &by,
                };
                self.edit(&draft, &text).await
            }
            Question::Rollback {
                document,
                version,
                by,
            } => self.rollback(DocumentId(document), version, &by).await,
            Question::History { document } => self.history(DocumentId(document)).await,
            Question::Text { document, version } => self.text(DocumentId(document), version).await,
            Question::Cluster => self.cluster_view().await,
            Question::Keep { body } => self.keep(from, &body).await,
            Question::Body { hash } => self.body(&hash).await,
            Question::Briefing => self.briefing().await,
            Question::Login {
                user,
                password,
                trust,
                at_s,
                number,
            } => {
                let stamp = (at_s, number);
                self.login(&user, password, trust, stamp).await
            }
            Question::IssueToken { user, at_s, number } => {
                self.issue_token(&user, (at_s, number)).await
            }
            Question::ForgetToken { user, text } => self.forget_token(&user, text).await,
            Question::Renew { node } => self.renew(node).await,
            Question::Silence { node } => self.silence(node).await,
            Question::Recover { vc, lost, by } => self.recover(&vc, &lost, &by).await,
            Question::RecoverCluster { lost, by } => self.recover_cluster(&lost, &by).await,
            Question::Told { known } => self.told(known),
            Question::Succeed { succession, by } => self.take_over(&succession, &by).await,
            Question::Bind { vc, binding, known } => self.bind(vc, binding, known).await,
            // Answered before they come here.
            Question::Copies { .. }
            | Question::RenewAll { .. }
            | Question::Committed { .. }
            | Question::CopyAge { .. }
            | Question::Pulls
            | Question::OfCopy { .. }
            | Question::Vc { .. } => Ok(Answer::Done),
        };
        result.unwrap_or_else(Answer::Rejected)
    }

    /// Takes every step of a document that is due, if this node leads. Mostly none is, and the copy
    /// here says so: the others are asked only where one seems to be.
    pub(crate) async fn step(&self) {
        let (sights, progress) = self.members.sights().await;
        let (soak, me, now_ms) = (self.soak, self.me, clock::now().as_millis());
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
            let (here, there) = (Arc::clone(&due), Arc::clone(&due));
            let seems = self.group.look(move |state, _| here(state).is_some());
            if !matches!(seems.await, Ok(Some(true))) {
                return;
            }
            let Ok(Some(entry)) = self.group.read(move |state| there(state)).await else {
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
    async fn commit(&self, entry: &Entry) -> Result<Applied, Rejection> {
        self.order(entry).await?.map_err(rejection)
    }

    /// The same, with the state's own word where it rejects the entry.
    async fn order(&self, entry: &Entry) -> Result<Result<Applied, Rejected>, Rejection> {
        let outcome = self.group.propose(entry).await?;
        if outcome.as_ref().is_ok_and(is_briefed) {
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

    async fn renew(&self, node: NodeId) -> Result<Answer, Rejection> {
        self.group.renew(node).await?;
        Ok(Answer::Done)
    }

    async fn silence(&self, node: NodeId) -> Result<Answer, Rejection> {
        let ms = self.group.silence_ms(node).await?;
        Ok(Answer::Silence { ms })
    }

    /// Binds a virtual cluster to what it asks for, as far as that is nobody's.
    async fn bind(
        &self,
        vc: VcName,
        binding: Box<Binding>,
        known: u64,
    ) -> Result<Answer, Rejection> {
        if !binding.is_empty() {
            self.commit(&Entry::Bound { vc, binding }).await?;
        }
        let news = self.group.read(move |state| Bindings::of(state, known));
        Ok(Answer::Bound(news.await?))
    }

    async fn name_cluster(&self, name: &str) -> Result<Answer, Rejection> {
        let name = admission::author(name)?;
        self.commit(&Entry::Named { name }).await?;
        self.cluster_view().await
    }

    async fn cluster_view(&self) -> Result<Answer, Rejection> {
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
        let founded = || Rejection::Invalid(Rejected::NotFounded.to_string());
        Ok(Answer::Cluster(found.await?.ok_or_else(founded)?))
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Elsewhere(node) => match name::member(node) {
                Some(member) => Self::Elsewhere { member: member.0 },
                None => Self::Unavailable(text),
            },
            Error::Unknown(_) | Error::Ended => Self::Unknown(error.to_string()),
            Error::On(_) => Self::Invalid(text),
            _ => Self::Unavailable(text),
        }
    }
}

/// Whether members have to be told.
fn is_briefed(applied: &Applied) -> bool {
    match applied {
        // Who is no member any more may have been closed to jobs.
        Applied::Users
        | Applied::Scheduled(_)
        | Applied::Member(_)
        | Applied::Recovered
        | Applied::Succession => true,
        Applied::Document { id, .. } => *id == DESCRIPTION,
        _ => false,
    }
}

fn rejection(rejected: Rejected) -> Rejection {
    match rejected {
        Rejected::Conflict { current, .. } => Rejection::Conflict { current },
        Rejected::NoToken(_)
        | Rejected::NoMember(_)
        | Rejected::NoDocument(_)
        | Rejected::NoVc(_) => Rejection::Missing(rejected.to_string()),
        Rejected::Succession => Rejection::Unavailable(rejected.to_string()),
        _ => Rejection::Invalid(rejected.to_string()),
    }
}
