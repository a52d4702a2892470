//! Who signs for the cluster: admissions, expulsions and documents' headers. In the agent that is
//! the cluster's state machine at the founder; here it is told what to sign.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_gossip::frame::CHUNK_BYTES;
use muster_gossip::record::{
    AdmissionState, ClusterBody, DocumentId, Header, HeaderStage, MemberBody, Record, RecordKey,
    RecordVersion,
};
use muster_gossip::{ClusterId, MemberId, NodeKey, Sign as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::keys::{self, SignatureLedger, Signer};

/// The document that is edited.
pub(crate) const RULES: DocumentId = DocumentId(1);
/// The generation of every cluster here.
pub(crate) const GENERATION: u32 = 1;
/// A rack has at most so many nodes.
const RACK_MAX: usize = 20;

/// Who signs for one cluster.
#[derive(Debug)]
pub(crate) struct SimAuthority {
    pub(crate) cluster: ClusterId,
    root: Signer,
    signing: Signer,
    seed: u64,
    nodes: usize,
    /// What the wall clock says of whoever orders edits.
    pub(crate) wall_ms: u64,
    pub(crate) ledger: SignatureLedger,
    numbers: BTreeMap<RecordKey, u64>,
}

impl SimAuthority {
    pub(crate) fn new(nodes: usize, seed: u64) -> Self {
        let ledger = SignatureLedger::default();
        let root = Signer::new(keys::key(seed, 1, 0), ledger.clone());
        Self {
            cluster: ClusterId::of_root(&root.key()),
            signing: Signer::new(keys::key(seed, 2, 0), ledger.clone()),
            root,
            seed,
            nodes,
            wall_ms: 1_800_000_000_000,
            ledger,
            numbers: BTreeMap::new(),
        }
    }

    /// The root key.
    pub(crate) fn root(&self) -> NodeKey {
        self.root.key()
    }

    /// The key of a node.
    pub(crate) fn node_key(&self, node: usize) -> NodeKey {
        keys::key(self.seed, 0, node)
    }

    /// What a node signs with.
    pub(crate) fn signer(&self, node: usize) -> Signer {
        Signer::new(self.node_key(node), self.ledger.clone())
    }

    /// What the cluster signs with.
    pub(crate) const fn cluster_signer(&self) -> &Signer {
        &self.signing
    }

    /// Who alone may write a record.
    pub(crate) fn writer(&self, key: RecordKey) -> NodeKey {
        match key {
            RecordKey::Cluster => self.root.key(),
            RecordKey::Member(_) | RecordKey::Document(_) | RecordKey::Replacement => {
                self.signing.key()
            }
            RecordKey::Node(member) | RecordKey::Watch(member) => self.node_key(member.index()),
        }
    }

    /// The rack of a node: racks are filled in turn, each with a tenth of the nodes.
    pub(crate) fn rack(node: usize, nodes: usize) -> usize {
        node / (nodes / 10).clamp(2, RACK_MAX)
    }

    /// The record of the cluster itself.
    pub(crate) fn founding(&mut self) -> Arc<Record> {
        let body = ClusterBody {
            root: self.root.key(),
            generation: GENERATION,
            signing: self.signing.key(),
        };
        self.sign(RecordKey::Cluster, &body)
    }

    /// A node is a member, or is one no more.
    pub(crate) fn member(&mut self, node: usize, state: AdmissionState) -> Arc<Record> {
        let body = MemberBody {
            key: self.node_key(node),
            name: format!("n{node}"),
            rack: format!("r{}", Self::rack(node, self.nodes)),
            votes: true,
            state,
        };
        self.sign(RecordKey::Member(member(node)), &body)
    }

    /// A document's version is at this stage.
    pub(crate) fn header(&mut self, draft: &VersionDraft) -> Arc<Record> {
        let header = draft.header(self.wall_ms);
        self.sign(RecordKey::Document(RULES), &header)
    }

    fn sign<B: Serialize>(&mut self, key: RecordKey, body: &B) -> Arc<Record> {
        let number = self.numbers.entry(key).or_default();
        *number += 1;
        let version = RecordVersion {
            incarnation: u64::from(GENERATION),
            number: *number,
        };
        let signer = if key == RecordKey::Cluster {
            &self.root
        } else {
            &self.signing
        };
        Arc::new(signed(self.cluster, key, version, body, signer))
    }
}

/// A record that somebody signs, rightly or not.
pub(crate) fn signed<B: Serialize>(
    cluster: ClusterId,
    key: RecordKey,
    version: RecordVersion,
    body: &B,
    signer: &Signer,
) -> Record {
    match Record::sign(cluster, key, version, body, signer) {
        Ok(record) => record,
        Err(error) => panic!("bug in the simulator: {key:?}: {error}"),
    }
}

/// A node's number as a member.
pub(crate) fn member(node: usize) -> MemberId {
    MemberId(u32::try_from(node).unwrap_or(u32::MAX))
}

/// A version of a document, as its header will say.
#[derive(Clone, Debug)]
pub(crate) struct VersionDraft {
    pub(crate) version: u64,
    pub(crate) body: Arc<[u8]>,
    pub(crate) stage: HeaderStage,
    /// The version in force where the stage does not reach.
    pub(crate) active: u64,
}

impl VersionDraft {
    /// A version that nobody has looked at yet.
    pub(crate) const fn new(version: u64, body: Arc<[u8]>) -> Self {
        Self {
            version,
            body,
            stage: HeaderStage::Distribute,
            active: 0,
        }
    }

    pub(crate) fn header(&self, at_ms: u64) -> Header {
        Header {
            version: self.version,
            hash: Sha256::digest(&self.body).into(),
            bytes: self.body.len() as u64,
            chunks: chunk_list_hash(&self.body),
            stage: self.stage.clone(),
            active: self.active,
            active_body: None,
            author: "admin".into(),
            at_ms,
            forced: false,
        }
    }
}

/// SHA-256 of the chunks' hashes, one after the other.
fn chunk_list_hash(body: &[u8]) -> [u8; 32] {
    let mut list = Sha256::new();
    for chunk in body.chunks(CHUNK_BYTES) {
        list.update(Sha256::digest(chunk));
    }
    list.finalize().into()
}
