//! From a root hash to everything the cluster says.

use crate::key::{ClusterId, NodeKey, Verify};
use crate::member::MemberId;
use crate::record::{
    self, AdmissionState, ClusterBody, MemberBody, Record, RecordKey, RecordVersion,
    ReplacementBody,
};

/// Why what a node shows is not to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// The root key is not the one that the token names.
    #[error("the node belongs to cluster {found}, the token is for {expected}; check the address")]
    OtherCluster {
        /// The token's.
        expected: ClusterId,
        /// The node's.
        found: ClusterId,
    },
    /// A record of another kind than the message promises.
    #[error("the node shows {0:?} where something else is due")]
    Kind(RecordKey),
    /// A record that is forged, damaged or of another cluster.
    #[error("the node shows a record that is not genuine ({0})")]
    Record(#[from] record::RecordError),
    /// A record of a generation that is not the cluster's.
    #[error("the node shows a record of generation {found}, the cluster is at {expected}")]
    Generation {
        /// The cluster's.
        expected: u32,
        /// The record's.
        found: u64,
    },
    /// An admission of somebody else.
    #[error("the node shows the admission of somebody else")]
    OtherKey,
    /// An admission that is over.
    #[error("the node is a member no more; ask another one")]
    Over,
}

/// A cluster whose key was followed back to a root hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTrust {
    cluster: ClusterId,
    version: RecordVersion,
    body: ClusterBody,
}

impl ClusterTrust {
    /// Believes the cluster's record, if the root key that signed it has this hash.
    ///
    /// # Errors
    /// When it has not, or the record is not genuine.
    pub fn new(
        expected: ClusterId,
        record: &Record,
        verifier: &dyn Verify,
    ) -> Result<Self, TrustError> {
        if record.key != RecordKey::Cluster {
            return Err(TrustError::Kind(record.key));
        }
        let body: ClusterBody = record.body()?;
        let found = ClusterId::of_root(&body.root);
        if found != expected {
            return Err(TrustError::OtherCluster { expected, found });
        }
        record.verify(expected, &body.root, verifier)?;
        let trust = Self {
            cluster: expected,
            version: record.version,
            body,
        };
        trust.generation(record)?;
        Ok(trust)
    }

    /// What the record says.
    pub const fn body(&self) -> &ClusterBody {
        &self.body
    }

    /// Which version of it was believed: an older one must not follow.
    pub const fn version(&self) -> RecordVersion {
        self.version
    }

    /// Believes an admission, also one that is over.
    ///
    /// # Errors
    /// When the record is none, or not genuine.
    pub fn member(
        &self,
        record: &Record,
        verifier: &dyn Verify,
    ) -> Result<(MemberId, MemberBody), TrustError> {
        let RecordKey::Member(id) = record.key else {
            return Err(TrustError::Kind(record.key));
        };
        record.verify(self.cluster, &self.body.signing, verifier)?;
        self.generation(record)?;
        Ok((id, record.body()?))
    }

    /// Believes the admission of this key, which must hold still.
    ///
    /// # Errors
    /// When it is somebody else's, over, or not genuine.
    pub fn admission(
        &self,
        record: &Record,
        key: &NodeKey,
        verifier: &dyn Verify,
    ) -> Result<(MemberId, MemberBody), TrustError> {
        let (id, body) = self.member(record, verifier)?;
        if body.key != *key {
            return Err(TrustError::OtherKey);
        }
        match body.state {
            AdmissionState::Admitted => Ok((id, body)),
            AdmissionState::Left | AdmissionState::Expelled => Err(TrustError::Over),
        }
    }

    /// Believes which group holds the cluster state.
    ///
    /// # Errors
    /// When the record says something else, or is not genuine.
    pub fn replacement(&self, record: &Record, verifier: &dyn Verify) -> Result<(), TrustError> {
        if record.key != RecordKey::Replacement {
            return Err(TrustError::Kind(record.key));
        }
        record.verify(self.cluster, &self.body.signing, verifier)?;
        self.generation(record)?;
        let _: ReplacementBody = record.body()?;
        Ok(())
    }

    /// Believes what a node says of itself, if its own key signed it.
    ///
    /// # Errors
    /// When it did not.
    pub fn said_by(
        &self,
        record: &Record,
        key: &NodeKey,
        verifier: &dyn Verify,
    ) -> Result<(), TrustError> {
        Ok(record.verify(self.cluster, key, verifier)?)
    }

    fn generation(&self, record: &Record) -> Result<(), TrustError> {
        let (expected, found) = (self.body.generation, record.version.incarnation);
        if u64::from(expected) == found {
            Ok(())
        } else {
            Err(TrustError::Generation { expected, found })
        }
    }
}
