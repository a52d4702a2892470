//! What a node knows before it hears anybody: read from its disk, or told when it joined.

use std::sync::Arc;

use crate::key::{ClusterId, NodeKey, Verify};
use crate::record::{AdmissionState, ClusterBody, MemberBody, Record, RecordKey};
use crate::roster::Roster;
use crate::store::NewestRecords;

use super::accept::{self, RecordRefusal};

/// Verified records in their tables. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct VerifiedRecords {
    pub(super) store: NewestRecords,
    pub(super) roster: Arc<Roster>,
    pub(super) cluster: Option<ClusterBody>,
}

impl VerifiedRecords {
    /// Sorts and verifies records of any kinds, in any order. Says which were not taken, and why:
    /// they are damaged, or not of this cluster.
    pub fn load(
        cluster: ClusterId,
        root: &NodeKey,
        verifier: &dyn Verify,
        mut records: Vec<Arc<Record>>,
    ) -> (Self, Vec<(RecordKey, RecordRefusal)>) {
        // Cluster before members before what members say.
        records.sort_by_key(|record| (record.key, record.version));
        let mut known = Self::default();
        let mut refused = Vec::new();
        let mut members = Vec::new();
        let is_first = |key| matches!(key, RecordKey::Cluster | RecordKey::Member(_));
        let (first, rest): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| is_first(record.key));
        for record in first {
            match known.load_first(cluster, root, verifier, &record) {
                Ok(member) => members.extend(member),
                Err(refusal) => refused.push((record.key, refusal)),
            }
        }
        known.roster = Arc::new(Roster::of(members));
        refused.extend(known.add(cluster, verifier, rest));
        (known, refused)
    }

    /// Takes over more of what the members say, and of documents: newer than what is known of the
    /// same. Who is a member stays as it is. Says which were not taken, and why.
    pub fn add(
        &mut self,
        cluster: ClusterId,
        verifier: &dyn Verify,
        records: impl IntoIterator<Item = Arc<Record>>,
    ) -> Vec<(RecordKey, RecordRefusal)> {
        let mut refused = Vec::new();
        for record in records {
            if let Err(refusal) = self.load_rest(cluster, verifier, &record) {
                refused.push((record.key, refusal));
            }
        }
        refused
    }

    fn load_first(
        &mut self,
        cluster: ClusterId,
        root: &NodeKey,
        verifier: &dyn Verify,
        record: &Arc<Record>,
    ) -> Result<Option<(crate::MemberId, MemberBody)>, RecordRefusal> {
        if let RecordKey::Member(member) = record.key {
            let signing = self.cluster.as_ref().ok_or(RecordRefusal::Unknown)?.signing;
            record.verify(cluster, &signing, verifier)?;
            let body = accept::member_body(record)?;
            self.store.put(record.clone());
            return Ok(Some((member, body)));
        }
        record.verify(cluster, root, verifier)?;
        self.cluster = Some(accept::cluster_body(record, root)?);
        self.store.put(record.clone());
        Ok(None)
    }

    fn load_rest(
        &mut self,
        cluster: ClusterId,
        verifier: &dyn Verify,
        record: &Arc<Record>,
    ) -> Result<(), RecordRefusal> {
        let writer = match record.key {
            RecordKey::Cluster | RecordKey::Member(_) => return Err(RecordRefusal::Unknown),
            RecordKey::Node(member) | RecordKey::Watch(member) => {
                let body = self.roster.body(member).ok_or(RecordRefusal::Unknown)?;
                if body.state != AdmissionState::Admitted {
                    return Err(RecordRefusal::Unknown);
                }
                body.key
            }
            RecordKey::Document(_) | RecordKey::Replacement => {
                self.cluster.as_ref().ok_or(RecordRefusal::Unknown)?.signing
            }
        };
        record.verify(cluster, &writer, verifier)?;
        accept::check_body(record)?;
        self.store.put(record.clone());
        Ok(())
    }

    /// Who is a member.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }
}
