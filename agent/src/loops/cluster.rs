//! The loop of the node that orders the cluster's affairs: who is a member, which tokens are
//! good, which version of a document comes next. It commits entries to the `cluster` group, signs
//! what they say as records, and hands those to the mesh.
//!
//! Until the group has more voters this is the founder, and nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_consensus::Group;
use muster_control::cluster::{
    Applied, BODY_BYTES_MAX, ClusterState, Edit, Entry, Judgement, Name, NewToken, Progress,
    Rejected, Sight, Signer, Soak, Stage, Token, steps,
};
use muster_gossip::frame::DocumentRef;
use muster_gossip::join::{Petition, Refusal, Reply, TokenId, TokenSecret, Welcome};
use muster_gossip::key::{NodeKey, Sign};
use muster_gossip::member::MemberId;
use muster_gossip::record::{BodyId, DocumentId, Record, RecordKey};
use muster_model::mesh::{
    ClusterView, CreatedToken, DocumentText, DocumentVersion, TokenView, VersionView,
};
use tokio::sync::{mpsc, oneshot};

use crate::clock;
use crate::mesh::bodies::Bodies;
use crate::mesh::cluster_machine::ClusterMachine;
use crate::mesh::question::{Answer, Asker, Question, Rejection};

/// Questions that may wait.
const QUEUE_MAX: usize = 256;
/// How often documents are looked at for their next step.
const STEP_PAUSE: Duration = Duration::from_millis(500);
/// Longest life of a token: ten years, in seconds.
const TOKEN_S_MAX: u64 = 10 * 365 * 24 * 3_600;

/// What the loop needs of the mesh.
pub(crate) trait Members: Send + Sync + 'static {
    /// New records that the cluster signed, and bodies that they are about.
    fn publish(&self, records: Vec<Arc<Record>>, bodies: Vec<(DocumentRef, Arc<[u8]>)>);
    /// How members are seen, and how far documents have come.
    fn sights(&self) -> (BTreeMap<MemberId, Sight>, BTreeMap<DocumentId, Progress>);
    /// Records that help a newcomer find its way.
    fn seeds(&self) -> Vec<Arc<Record>>;
    /// Where this node can be joined.
    fn address(&self) -> String;
}

/// A new version of a document, but for its text.
struct Draft<'a> {
    id: DocumentId,
    base: u64,
    forced: bool,
    by: &'a str,
}

/// A question and who waits for its answer.
#[derive(Debug)]
struct Letter {
    from: Asker,
    question: Question,
    reply: oneshot::Sender<Answer>,
}

/// What others hold of the loop.
#[derive(Clone, Debug)]
pub(crate) struct ClusterHandle(mpsc::Sender<Letter>);

impl ClusterHandle {
    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&self, from: Asker, question: Question) -> Answer {
        let (reply, answer) = oneshot::channel();
        let letter = Letter {
            from,
            question,
            reply,
        };
        if self.0.try_send(letter).is_err() {
            return unavailable("the node that orders the cluster's affairs is overloaded");
        }
        let ended = |_| unavailable("the agent is shutting down");
        answer.await.unwrap_or_else(ended)
    }
}

fn unavailable(why: &str) -> Answer {
    Answer::Rejected(Rejection::Unavailable(format!("{why}; try again")))
}

/// The loop itself.
#[derive(Debug)]
pub(crate) struct ClusterLoop<M> {
    group: Group<ClusterMachine>,
    keys: Keys,
    bodies: Bodies,
    members: M,
    soak: Soak,
    queue: mpsc::Receiver<Letter>,
}

/// What the cluster signs with.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Signs the cluster's own record.
    pub(crate) root: Box<dyn Sign + Sync>,
    /// Signs admissions and documents.
    pub(crate) signing: Box<dyn Sign + Sync>,
}

/// A loop over an opened group, to be run.
pub(crate) fn cluster<M: Members>(
    group: Group<ClusterMachine>,
    keys: Keys,
    bodies: Bodies,
    members: M,
    soak: Soak,
) -> (ClusterHandle, ClusterLoop<M>) {
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    let cluster = ClusterLoop {
        group,
        keys,
        bodies,
        members,
        soak,
        queue,
    };
    (ClusterHandle(sender), cluster)
}

impl<M: Members> ClusterLoop<M> {
    /// Answers until nobody can ask any more.
    pub(crate) async fn run(mut self) {
        tokio::task::block_in_place(|| self.publish_all());
        let mut pause = tokio::time::interval(STEP_PAUSE);
        pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                letter = self.queue.recv() => match letter {
                    Some(letter) => {
                        let answer =
                            tokio::task::block_in_place(|| self.answer(letter.from, letter.question));
                        // Whoever went away can ask again.
                        let _ = letter.reply.send(answer);
                    }
                    None => return,
                },
                _ = pause.tick() => tokio::task::block_in_place(|| self.step()),
            }
        }
    }

    fn state(&self) -> &ClusterState {
        &self.group.machine().0
    }

    /// Everything that the state says, for a mesh that may have lost it.
    fn publish_all(&self) {
        let keys = self
            .state()
            .records()
            .into_iter()
            .map(|s| s.key)
            .collect::<Vec<_>>();
        let records = keys.iter().filter_map(|key| self.record(*key)).collect();
        let documents = self.state().documents();
        let newest = documents.filter_map(|(id, document)| {
            let revision = document.newest()?;
            let version = revision.version;
            let body = self.bodies.read(&revision.body.hash).ok()??;
            Some((DocumentRef { id, version }, body))
        });
        self.members.publish(records, newest.collect());
    }

    /// A record of the state, signed.
    fn record(&self, key: RecordKey) -> Option<Arc<Record>> {
        let statement = self.state().record(key)?;
        let signer = match statement.signer() {
            Signer::Root => &self.keys.root,
            Signer::Signing => &self.keys.signing,
        };
        let record = statement.sign(&**signer);
        let record = record.inspect_err(|error| tracing::error!(?key, %error, "cannot be signed"));
        record.ok().map(Arc::new)
    }

    /// Commits an entry and tells the mesh what it changed.
    fn commit(&mut self, entry: &Entry) -> Result<Applied, Rejection> {
        self.order(entry)?.map_err(rejection)
    }

    /// The same, with the state's own word where it rejects the entry.
    fn order(&mut self, entry: &Entry) -> Result<Result<Applied, Rejected>, Rejection> {
        let storage = |error: &dyn std::fmt::Display| {
            Rejection::Unavailable(format!("the cluster's log cannot be written: {error}"))
        };
        let bytes = entry.encode().map_err(|error| storage(&error))?;
        self.group
            .commit(vec![bytes])
            .map_err(|error| storage(&error))?;
        let outcome = self.group.apply_next().flatten();
        if self.group.wants_compaction()
            && let Err(error) = self.group.compact()
        {
            tracing::warn!(%error, "the cluster's log cannot be cut");
        }
        let missing = || Rejection::Unavailable("the entry was not applied".to_owned());
        let outcome = outcome.ok_or_else(missing)?;
        if let Ok(applied) = outcome {
            let record = applied.record().and_then(|key| self.record(key));
            self.members
                .publish(record.into_iter().collect(), Vec::new());
        }
        Ok(outcome)
    }

    /// Takes every step that is due.
    fn step(&mut self) {
        let (sights, progress) = self.members.sights();
        for _ in 0..self.state().documents().count() {
            let now = clock::now().as_millis();
            let Some(entry) = steps(self.state(), &progress, &sights, self.soak, now) else {
                return;
            };
            match self.commit(&entry) {
                Ok(applied) => tracing::info!(?applied, "a document took a step"),
                Err(error) => {
                    tracing::warn!(%error, "a document could not take its step");
                    return;
                }
            }
        }
    }

    fn answer(&mut self, from: Asker, question: Question) -> Answer {
        let now = clock::now().as_millis();
        let result = match question {
            Question::Petition(bytes) => return self.petition(from, &bytes, now),
            Question::Leave => self.leave(from.0, now),
            Question::Expel { member, by } => self.expel(&member, &by, now),
            Question::CreateToken { token, by } => self.create_token(token, &by, now),
            Question::Tokens => Ok(Answer::Tokens(self.tokens())),
            Question::RevokeToken { id } => self.revoke(&id, now),
            Question::Edit {
                document,
                base,
                text,
                now: forced,
                by,
            } => {
                let draft = Draft {
                    id: DocumentId(document),
                    base,
                    forced,
                    by: &by,
                };
                self.edit(&draft, &text)
            }
            Question::Rollback {
                document,
                version,
                by,
            } => self.rollback(DocumentId(document), version, &by),
            Question::History { document } => self.history(DocumentId(document)),
            Question::Text { document, version } => self.text(DocumentId(document), version),
            Question::Cluster => self.cluster_view(),
            // Answered before it comes here.
            Question::Echo { .. } => Ok(Answer::Done),
        };
        result.unwrap_or_else(Answer::Rejected)
    }

    /// Lets a stranger in whose proof holds. `from` handed it on: the claim has to name it.
    fn petition(&mut self, from: Asker, bytes: &[u8], now: u64) -> Answer {
        let Ok(petition) = Petition::decode(bytes) else {
            return Answer::Refused(Refusal::Malformed);
        };
        let asked = self.state().member_by_key(&petition.claim.node);
        if asked != Some(from.0) {
            return Answer::Refused(Refusal::Malformed);
        }
        let member = match self.state().judge(&petition, now) {
            Err(refusal) => return Answer::Refused(refusal),
            Ok(Judgement::Admitted(member)) => member,
            Ok(Judgement::Propose(entry)) => match self.admit(&entry) {
                Ok(member) => member,
                Err(refusal) => return Answer::Refused(refusal),
            },
        };
        self.welcome(member)
    }

    fn admit(&mut self, entry: &Entry) -> Result<MemberId, Refusal> {
        match self.order(entry) {
            Ok(Ok(Applied::Member(member))) => Ok(member),
            Ok(Ok(_)) => Err(Refusal::Unavailable),
            Ok(Err(rejected)) => Err(rejected.refusal()),
            Err(error) => {
                tracing::warn!(%error, "an admission failed");
                Err(Refusal::Unavailable)
            }
        }
    }

    fn welcome(&self, member: MemberId) -> Answer {
        let records = [RecordKey::Member(member), RecordKey::Cluster].map(|key| self.record(key));
        let [Some(admission), Some(cluster)] = records else {
            return Answer::Refused(Refusal::Unavailable);
        };
        let welcome = Welcome::new(admission, cluster, self.members.seeds());
        match Reply::Welcome(welcome).encode() {
            Ok(bytes) => Answer::Welcome(bytes),
            Err(_) => Answer::Refused(Refusal::Unavailable),
        }
    }

    fn leave(&mut self, member: MemberId, at_ms: u64) -> Result<Answer, Rejection> {
        self.commit(&Entry::Left { member, at_ms })?;
        tracing::info!(member = member.0, "a member left");
        Ok(Answer::Done)
    }

    fn expel(&mut self, name: &str, by: &str, at_ms: u64) -> Result<Answer, Rejection> {
        let missing = || {
            let text = format!("no member is called {name:?}; see `muster cluster members`");
            Rejection::Missing(text)
        };
        let known = name.parse().ok();
        let member = known.and_then(|name| self.state().member_by_name(&name));
        let member = member.ok_or_else(missing)?;
        self.commit(&Entry::Expelled { member, at_ms })?;
        tracing::info!(name, by, "a member was expelled");
        Ok(Answer::Done)
    }

    fn create_token(
        &mut self,
        wanted: muster_model::mesh::NewToken,
        by: &str,
        now: u64,
    ) -> Result<Answer, Rejection> {
        let founded = || Rejection::Invalid(Rejected::NotFounded.to_string());
        let cluster = self.state().cluster().ok_or_else(founded)?.id;
        let token = muster_gossip::join::Token {
            id: TokenId(rand::random()),
            secret: TokenSecret(rand::random()),
            cluster,
        };
        let life_ms = wanted.expires_s.min(TOKEN_S_MAX) * 1_000;
        let new = NewToken {
            id: token.id,
            key: token.key(),
            expires_ms: now + life_ms,
            uses: wanted.uses,
            votes: wanted.votes,
            author: name(by)?,
            at_ms: now,
        };
        self.commit(&Entry::TokenCreated(Box::new(new)))?;
        let kept = self.state().token(token.id);
        let view = kept
            .map(|kept| token_view(token.id, kept))
            .ok_or_else(founded)?;
        Ok(Answer::Created(CreatedToken {
            text: token.text(),
            address: self.members.address(),
            token: view,
        }))
    }

    fn tokens(&self) -> Vec<TokenView> {
        let tokens = self.state().tokens();
        tokens.map(|(id, token)| token_view(id, token)).collect()
    }

    fn revoke(&mut self, id: &str, at_ms: u64) -> Result<Answer, Rejection> {
        let id = id
            .parse()
            .map_err(|error| Rejection::Missing(format!("{id:?} is no token's id: {error}")))?;
        self.commit(&Entry::TokenRevoked { id, at_ms })?;
        Ok(Answer::Done)
    }

    fn edit(&mut self, draft: &Draft<'_>, text: &str) -> Result<Answer, Rejection> {
        let body: Arc<[u8]> = text.as_bytes().into();
        if body.len() as u64 > BODY_BYTES_MAX {
            let error = Rejected::TooLong(body.len() as u64);
            return Err(Rejection::Invalid(error.to_string()));
        }
        let reference = BodyId::of(&body);
        // The body is on disk before the log names it.
        let kept = self.bodies.keep(&reference.hash, &body);
        kept.map_err(|error| Rejection::Unavailable(error.to_string()))?;
        self.commit_edit(draft, reference, body)
    }

    fn commit_edit(
        &mut self,
        draft: &Draft<'_>,
        reference: BodyId,
        body: Arc<[u8]>,
    ) -> Result<Answer, Rejection> {
        let edit = Edit {
            id: draft.id,
            base: draft.base,
            body: reference,
            author: name(draft.by)?,
            at_ms: clock::now().as_millis(),
            forced: draft.forced,
        };
        let applied = self.commit(&Entry::DocumentEdited(Box::new(edit)))?;
        let Applied::Document { id, version } = applied else {
            return Err(Rejection::Unavailable(
                "the edit was not applied".to_owned(),
            ));
        };
        self.members
            .publish(Vec::new(), vec![(DocumentRef { id, version }, body)]);
        let wanted: Vec<_> = self.state().bodies().map(|body| body.hash).collect();
        self.bodies.retain(&wanted);
        Ok(Answer::Version(version))
    }

    fn rollback(&mut self, id: DocumentId, to: u64, by: &str) -> Result<Answer, Rejection> {
        let (reference, body) = self.revision(id, to)?;
        let base = self.state().document(id).map_or(0, |d| d.version());
        let draft = Draft {
            id,
            base,
            forced: false,
            by,
        };
        self.commit_edit(&draft, reference, body)
    }

    fn revision(&self, id: DocumentId, version: u64) -> Result<(BodyId, Arc<[u8]>), Rejection> {
        let missing = || {
            let text = format!("version {version} is not kept; see `muster rules history`");
            Rejection::Missing(text)
        };
        let document = self.state().document(id).ok_or_else(missing)?;
        let revision = document.revision(version).ok_or_else(missing)?;
        let body = self.bodies.read(&revision.body.hash);
        let body = body.map_err(|error| Rejection::Unavailable(error.to_string()))?;
        Ok((revision.body, body.ok_or_else(missing)?))
    }

    fn history(&self, id: DocumentId) -> Result<Answer, Rejection> {
        let document = self.state().document(id);
        let versions = document
            .into_iter()
            .flat_map(|document| document.history().rev());
        Ok(Answer::History(
            versions.map(|r| self.version_view(r)).collect(),
        ))
    }

    fn version_view(&self, revision: &muster_control::cluster::Revision) -> VersionView {
        let named = |member: &MemberId| {
            let member = self.state().member(*member);
            member.map_or_else(String::new, |member| member.name.to_string())
        };
        let (stage, note) = match revision.stage() {
            Stage::Distribute => (muster_model::mesh::Stage::Distribute, String::new()),
            Stage::Canary(canaries) => {
                let nodes = canaries
                    .iter()
                    .map(|canary| named(&canary.member))
                    .collect();
                (muster_model::mesh::Stage::Canary { nodes }, String::new())
            }
            Stage::Active => (muster_model::mesh::Stage::Active, String::new()),
            Stage::Withdrawn(reason) => {
                let reason = reason.clone();
                let stage = muster_model::mesh::Stage::Withdrawn {
                    reason: reason.clone(),
                };
                (stage, reason)
            }
        };
        VersionView {
            version: DocumentVersion {
                version: revision.version,
                stage,
                hash: hex(&revision.body.hash),
                bytes: revision.body.bytes,
                author: revision.author.to_string(),
                at_ms: revision.at_ms,
                forced: revision.forced,
            },
            note,
        }
    }

    fn text(&self, id: DocumentId, version: u64) -> Result<Answer, Rejection> {
        let (_, body) = self.revision(id, version)?;
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer::Text(DocumentText { version, text }))
    }

    fn cluster_view(&self) -> Result<Answer, Rejection> {
        let founded = || Rejection::Invalid(Rejected::NotFounded.to_string());
        let cluster = self.state().cluster().ok_or_else(founded)?;
        Ok(Answer::Cluster(ClusterView {
            id: cluster.id.to_string(),
            name: cluster.name.to_string(),
            root_hash: root_hash(&cluster.root),
            generation: cluster.generation,
            feature_level: cluster.feature_level,
        }))
    }
}

/// What a token pins.
pub(crate) fn root_hash(root: &NodeKey) -> String {
    muster_gossip::ClusterId::of_root(root).to_string()
}

fn token_view(id: TokenId, token: &Token) -> TokenView {
    TokenView {
        id: id.to_string(),
        expires_ms: token.expires_ms,
        uses_left: token.uses_left,
        votes: token.votes,
        created_by: token.author.to_string(),
        revoked: token.revoked_ms.is_some(),
    }
}

fn name(text: &str) -> Result<Name, Rejection> {
    Name::try_from(text.to_owned()).map_err(|error| Rejection::Invalid(error.to_string()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn rejection(rejected: Rejected) -> Rejection {
    match rejected {
        Rejected::Conflict { current, .. } => Rejection::Conflict { current },
        Rejected::NoToken(_) | Rejected::NoMember(_) | Rejected::NoDocument(_) => {
            Rejection::Missing(rejected.to_string())
        }
        _ => Rejection::Invalid(rejected.to_string()),
    }
}
