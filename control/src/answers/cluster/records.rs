//! What the cluster's state says, as records that its key has signed.

use std::sync::Arc;

use muster_gossip::frame::DocumentRef;
use muster_gossip::key::{ClusterId, NodeKey, Sign};
use muster_gossip::record::{Record, RecordKey};

use super::ClusterService;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::cluster::{ClusterState, Secret, Statement};

/// What a token pins.
pub fn root_hash(root: &NodeKey) -> String {
    ClusterId::of_root(root).to_string()
}

/// Signed once by the root key, which may be offline since.
fn certificate(state: &ClusterState) -> Option<Arc<Record>> {
    Record::decode(state.certificate()?).ok().map(Arc::new)
}

/// What the state says of one thing, and the key that signs it.
fn said(state: &ClusterState, key: RecordKey) -> Option<(Statement, Secret)> {
    Some((state.record(key)?, state.secret()?.clone()))
}

/// What the state says that it did not say when it had applied the log up to `since`.
struct NewStatements {
    /// How far it has now.
    applied: u64,
    secret: Secret,
    statements: Vec<Statement>,
    certificate: Option<Arc<Record>>,
    documents: Vec<(DocumentRef, [u8; 32])>,
}

impl NewStatements {
    fn of(state: &ClusterState, applied: u64, since: u64) -> Option<Self> {
        let mut statements = state.records();
        statements.retain(|statement| statement.version.number > since);
        let new = |id| {
            statements
                .iter()
                .any(|one| one.key == RecordKey::Document(id))
        };
        let documents = state.documents().filter_map(|(id, document)| {
            let revision = document.newest().filter(|_| new(id))?;
            let version = revision.version;
            Some((DocumentRef { id, version }, revision.body.hash))
        });
        Some(Self {
            applied,
            secret: state.secret()?.clone(),
            documents: documents.collect(),
            statements,
            certificate: certificate(state).filter(|_| since == 0),
        })
    }
}

/// The records, and what could not be signed.
fn signed(
    statements: &[Statement],
    signer: &dyn Sign,
) -> (Vec<Arc<Record>>, Vec<(RecordKey, String)>) {
    let (mut records, mut failed) = (Vec::new(), Vec::new());
    for statement in statements {
        match statement.sign(signer) {
            Ok(record) => records.push(Arc::new(record)),
            Err(error) => failed.push((statement.key, error.to_string())),
        }
    }
    (records, failed)
}

impl<P: MemberPort> ClusterService<P> {
    /// A record of the state, signed. The same on every copy, byte for byte.
    pub(super) async fn record(&self, key: RecordKey) -> Option<Arc<Record>> {
        if key == RecordKey::Cluster {
            let look = self.look(|state, _| certificate(state));
            return look.await.ok().flatten().flatten();
        }
        let look = self.look(move |state, _| said(state, key));
        let (statement, secret) = look.await.ok().flatten().flatten()?;
        let signer = self.port.signer(&secret)?;
        let (records, failed) = signed(&[statement], &signer);
        self.tell_unsigned(failed);
        records.into_iter().next()
    }

    fn tell_unsigned(&self, failed: Vec<(RecordKey, String)>) {
        for (key, why) in failed {
            self.copies().tell(Event::Unsigned { key, why });
        }
    }

    /// Tells the mesh what the log changed after `since`, if this node leads: also what an earlier
    /// leader committed and could not tell, and what was committed after its proposer was told that
    /// nobody knows. Gives how far the mesh is told now; `None`: no further than before.
    pub(super) async fn publish_since(&self, since: u64) -> Option<u64> {
        let look = self.look(move |state, standing| {
            let applied = standing.view.applied;
            let due = standing.view.leads && applied > since;
            due.then(|| NewStatements::of(state, applied, since))
        });
        let news = look.await.ok().flatten().flatten().flatten()?;
        let signer = self.port.signer(&news.secret)?;
        // Signing thousands takes longer than the loop of the groups may stand still.
        let statements = news.statements;
        let signing = self.copies().aside(move || signed(&statements, &signer));
        let (records, failed) = signing.await?;
        self.tell_unsigned(failed);
        let records = news.certificate.into_iter().chain(records).collect();
        self.port.publish(records, Vec::new()).await;
        for (document, hash) in news.documents {
            match self.find(&hash).await {
                Ok(body) => {
                    let body = vec![(document, body)];
                    self.port.publish(Vec::new(), body).await;
                }
                Err(why) => {
                    let document = Some(document.id);
                    let why = Some(why);
                    self.copies().tell(Event::BodyNowhere { document, why });
                    return None;
                }
            }
        }
        Some(news.applied)
    }
}
