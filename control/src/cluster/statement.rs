//! What the state says to the mesh. Who holds the keys signs it.

use muster_gossip::key::{ClusterId, Sign};
use muster_gossip::member::MemberId;
use muster_gossip::record::{
    self, ClusterBody, DocumentId, Header, MemberBody, Record, RecordKey, Version,
};

use super::ClusterState;

/// What a record is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// For which cluster.
    pub cluster: ClusterId,
    /// About what.
    pub key: RecordKey,
    /// Higher than that of every statement about the same that says something else.
    pub version: Version,
    /// What.
    pub body: Body,
}

/// The body of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Keys and generation.
    Cluster(ClusterBody),
    /// An admission.
    Member(MemberBody),
    /// A document's newest version.
    Document(Header),
}

/// Which key signs a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The root key, which may be offline.
    Root,
    /// The key that signs for the cluster.
    Signing,
}

impl Statement {
    /// Which key has to sign it.
    pub const fn signer(&self) -> Signer {
        match self.body {
            Body::Cluster(_) => Signer::Root,
            Body::Member(_) | Body::Document(_) => Signer::Signing,
        }
    }

    /// The record, signed. The same statement and key give the same bytes.
    ///
    /// # Errors
    /// When the body does not fit into a record, which means a bug.
    pub fn sign(&self, signer: &dyn Sign) -> Result<Record, record::Error> {
        let Self {
            cluster,
            key,
            version,
            ref body,
        } = *self;
        match body {
            Body::Cluster(body) => Record::sign(cluster, key, version, body, signer),
            Body::Member(body) => Record::sign(cluster, key, version, body, signer),
            Body::Document(body) => Record::sign(cluster, key, version, body, signer),
        }
    }
}

impl ClusterState {
    /// All that the state says: the cluster's keys, every admission, also those that are over,
    /// and every document.
    pub fn records(&self) -> Vec<Statement> {
        let members = self.members().map(|(id, _)| RecordKey::Member(id));
        let documents = self.documents().map(|(id, _)| RecordKey::Document(id));
        let keys = std::iter::once(RecordKey::Cluster)
            .chain(members)
            .chain(documents);
        keys.filter_map(|key| self.record(key)).collect()
    }

    /// What the state says about one thing. The version's number is the index of the entry that
    /// changed it last, so it grows with every change and is the same on every replica.
    pub fn record(&self, key: RecordKey) -> Option<Statement> {
        let (number, body) = match key {
            RecordKey::Cluster => self.keys()?,
            RecordKey::Member(id) => self.admission(id)?,
            RecordKey::Document(id) => self.header(id)?,
            RecordKey::Node(_) | RecordKey::Watch(_) => return None,
        };
        let cluster = self.cluster()?;
        Some(Statement {
            cluster: cluster.id,
            key,
            version: Version {
                incarnation: cluster.generation.into(),
                number,
            },
            body,
        })
    }

    fn keys(&self) -> Option<(u64, Body)> {
        let cluster = self.cluster()?;
        let body = ClusterBody {
            root: cluster.root,
            generation: cluster.generation,
            signing: cluster.signing,
        };
        Some((cluster.changed, Body::Cluster(body)))
    }

    fn admission(&self, id: MemberId) -> Option<(u64, Body)> {
        let member = self.member(id)?;
        Some((member.changed, Body::Member(member.body())))
    }

    fn header(&self, id: DocumentId) -> Option<(u64, Body)> {
        let document = self.document(id)?;
        Some((document.changed(), Body::Document(document.header()?)))
    }
}
