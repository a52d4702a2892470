//! What the state says to the mesh, signed with the cluster's signing key.

use muster_gossip::key::{ClusterId, Sign};
use muster_gossip::member::MemberId;
use muster_gossip::record::{
    self, DocumentId, Header, MemberBody, Record, RecordKey, RecordVersion,
};

use super::{ClusterIdentity, ClusterState};

/// What a record is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// For which cluster.
    pub cluster: ClusterId,
    /// About what.
    pub key: RecordKey,
    /// Higher than that of every statement about the same that says something else.
    pub version: RecordVersion,
    /// What.
    pub body: StatementBody,
}

/// The body of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementBody {
    /// An admission.
    Member(MemberBody),
    /// A document's newest version.
    Document(Header),
}

impl Statement {
    /// The record, signed with the key that signs for the cluster. The same statement and key
    /// give the same bytes.
    ///
    /// # Errors
    /// When the body does not fit into a record, which means a bug.
    pub fn sign(&self, signer: &dyn Sign) -> Result<Record, record::RecordError> {
        let Self {
            cluster,
            key,
            version,
            ref body,
        } = *self;
        match body {
            StatementBody::Member(body) => Record::sign(cluster, key, version, body, signer),
            StatementBody::Document(body) => Record::sign(cluster, key, version, body, signer),
        }
    }
}

impl ClusterState {
    /// All that the state says: every admission, also those that are over, and every document.
    /// The cluster's own record is the certificate.
    pub fn records(&self) -> Vec<Statement> {
        let members = self.members().map(|(id, _)| RecordKey::Member(id));
        let documents = self.documents().map(|(id, _)| RecordKey::Document(id));
        let keys = members.chain(documents);
        keys.filter_map(|key| self.record(key)).collect()
    }

    /// What the state says about one thing. The version's number is the index of the entry that
    /// changed it last, so it grows with every change and is the same on every replica.
    pub fn record(&self, key: RecordKey) -> Option<Statement> {
        let (number, body) = match key {
            RecordKey::Member(id) => self.admission(id)?,
            RecordKey::Document(id) => self.header(id)?,
            RecordKey::Cluster
            | RecordKey::Node(_)
            | RecordKey::Watch(_)
            | RecordKey::Replacement => return None,
        };
        let cluster = self.cluster()?;
        Some(Statement {
            cluster: cluster.id,
            key,
            version: RecordVersion {
                incarnation: ClusterIdentity::GENERATION.into(),
                number,
            },
            body,
        })
    }

    fn admission(&self, id: MemberId) -> Option<(u64, StatementBody)> {
        let member = self.member(id)?;
        Some((member.changed, StatementBody::Member(member.body())))
    }

    fn header(&self, id: DocumentId) -> Option<(u64, StatementBody)> {
        let document = self.document(id)?;
        Some((
            document.changed(),
            StatementBody::Document(document.header()?),
        ))
    }
}
