//! What the cluster's state says, as records that its key has signed.

use std::sync::Arc;

use muster_control::cluster::{ClusterState, Statement};
use muster_gossip::frame::DocumentRef;
use muster_gossip::key::NodeKey;
use muster_gossip::net::keys::Ed25519Signer;
use muster_gossip::record::{Record, RecordKey};

use super::Affairs;

/// A record of the state, signed. The same on every copy, byte for byte.
pub(super) fn signed(state: &ClusterState, key: RecordKey) -> Option<Arc<Record>> {
    if key == RecordKey::Cluster {
        return certificate(state);
    }
    sign(&state.record(key)?, &signer(state)?)
}

/// Signed once by the root key, which may be offline since.
fn certificate(state: &ClusterState) -> Option<Arc<Record>> {
    Record::decode(state.certificate()?).ok().map(Arc::new)
}

pub(super) fn signer(state: &ClusterState) -> Option<Ed25519Signer> {
    Ed25519Signer::from_bytes(&state.secret()?.0).ok()
}

fn sign(statement: &Statement, signer: &Ed25519Signer) -> Option<Arc<Record>> {
    let record = statement.sign(signer);
    let failed = |error: &_| tracing::error!(key = ?statement.key, %error, "cannot be signed");
    record.inspect_err(failed).ok().map(Arc::new)
}

/// What a token pins.
pub(crate) fn root_hash(root: &NodeKey) -> String {
    muster_gossip::ClusterId::of_root(root).to_string()
}

/// What the state says that it did not say when it had applied the log up to `since`.
struct News {
    /// How far it has now.
    applied: u64,
    signer: Ed25519Signer,
    statements: Vec<Statement>,
    certificate: Option<Arc<Record>>,
    documents: Vec<(DocumentRef, [u8; 32])>,
}

impl News {
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
            signer: signer(state)?,
            documents: documents.collect(),
            statements,
            certificate: certificate(state).filter(|_| since == 0),
        })
    }

    fn records(&self) -> Vec<Arc<Record>> {
        let statements = self.statements.iter();
        let records = statements.filter_map(|statement| sign(statement, &self.signer));
        self.certificate.iter().cloned().chain(records).collect()
    }
}

impl Affairs {
    /// Tells the mesh what the log changed after `since`, if this node leads: also what an earlier
    /// leader committed and could not tell, and what was committed after its proposer was told that
    /// nobody knows. Gives how far the mesh is told now; `None`: no further than before.
    pub(crate) async fn publish_since(&self, since: u64) -> Option<u64> {
        let look = self.group.look(move |state, standing| {
            let applied = standing.view.applied;
            let due = standing.view.leads && applied > since;
            due.then(|| News::of(state, applied, since))
        });
        let news = look.await.ok().flatten().flatten().flatten()?;
        // Signing thousands takes longer than the loop of the groups may stand still.
        let signing = tokio::task::spawn_blocking(move || (news.records(), news));
        let (records, news) = signing.await.ok()?;
        self.members.publish(records, Vec::new()).await;
        for (document, hash) in news.documents {
            match self.find(&hash).await {
                Ok(body) => {
                    let body = vec![(document, body)];
                    self.members.publish(Vec::new(), body).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "a document's newest body is nowhere");
                    return None;
                }
            }
        }
        Some(news.applied)
    }
}
