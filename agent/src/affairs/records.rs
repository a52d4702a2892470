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

fn signer(state: &ClusterState) -> Option<Ed25519Signer> {
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

impl Affairs {
    /// Tells the mesh all that the state says: whoever led before may have committed what it
    /// could not tell any more.
    pub(crate) async fn publish_all(&self) {
        let read = self.group.read(|state| {
            let newest = state.documents().filter_map(|(id, document)| {
                let revision = document.newest()?;
                let version = revision.version;
                Some((DocumentRef { id, version }, revision.body.hash))
            });
            let statements = (state.records(), signer(state));
            (statements, certificate(state), newest.collect::<Vec<_>>())
        });
        let Ok(((statements, Some(signer)), certificate, newest)) = read.await else {
            return;
        };
        // Signing thousands takes longer than the loop of the groups may stand still.
        let signing = tokio::task::spawn_blocking(move || {
            let records = statements.iter();
            let records = records.filter_map(|statement| sign(statement, &signer));
            certificate.into_iter().chain(records).collect()
        });
        let records = signing.await.unwrap_or_default();
        self.members.publish(records, Vec::new()).await;
        for (document, hash) in newest {
            match self.find(&hash).await {
                Ok(body) => {
                    let body = vec![(document, body)];
                    self.members.publish(Vec::new(), body).await;
                }
                Err(error) => tracing::warn!(%error, "a document's newest body is nowhere"),
            }
        }
    }
}
