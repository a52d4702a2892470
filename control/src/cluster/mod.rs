//! The state of the `cluster` group: who is a member, which tokens admit, which version of each
//! document is in force, and how it came there; the users, the keys that all members share, and which
//! virtual clusters there are. What its log says, and nothing else.
//!
//! [`ClusterState::apply`] is the only way to change it. It knows no clock: times are in the
//! entries. What follows for the mesh are [`Statement`]s, which the cluster's key signs: its
//! [`Secret`] is in the state, so that whoever leads the group can sign. The root key signs one
//! thing, the cluster's certificate, before the first entry, and may then go offline.
//! What every member has to know without a copy of the group is its [`ClusterMap`].
//! [`ClusterState::judge`] says whether a stranger may join, [`steps`] what comes next for a
//! document, and [`voters::advise`] which members should have a copy of a group.
//!
//! # Invariants
//! A member's number is never given twice. A use of a token admits one key. A document's version
//! never goes back, and an edit that was made on an older one changes nothing. Every statement
//! that says something new has a higher version than all before it.

mod activation;
mod apply;
mod audit;
mod binding;
mod cluster_map;
mod document;
mod entry;
mod groups;
mod judge;
mod member;
mod people;
mod query;
mod recovery;
mod rejected;
mod replacement;
mod scheduling;
mod secret;
mod statement;
#[cfg(test)]
pub(crate) mod tests;
mod token;
mod user_tokens;
mod users;
pub mod voters;

use std::collections::{BTreeMap, BTreeSet};

use muster_gossip::join::TokenId;
use muster_gossip::key::{ClusterId, NodeKey, Sign};
use muster_gossip::member::MemberId;
use muster_gossip::record::{self, ClusterBody, DocumentId, Record, RecordKey, RecordVersion};
use muster_model::id::{GroupName, UserName, VcName};
use serde::{Deserialize, Serialize};

use crate::bound::BoundLeaves;
pub use crate::entry_bytes::{DecodeError, EncodeError};
pub(crate) use activation::has as is_marked;
pub use activation::{ActivationProgress, MemberHealth, Proposer, Soak, steps};
pub use audit::{AUDIT_AGE_MS, AUDIT_BYTES_MAX, AUDIT_RECORDS_MAX, AuditTrail};
pub use binding::{Binding, CLAIMS_MAX};
pub use cluster_map::ClusterMap;
pub use document::{
    BODY_BYTES_MAX, CANARIES_MAX, Canary, ClusterDocument, DESCRIPTION, DOCUMENTS_MAX, HISTORY_MAX,
    POLICY, Passed, REASON_BYTES_MAX, Revision, VersionStage,
};
pub use entry::{
    ActivationStep, Admission, ClusterApplied, ClusterEntry, ClusterInit, CopyHome, DocumentEdit,
    Founder, GivenName, TokenIssue, VcCreation,
};
pub use groups::{DEFAULT_GROUP, GROUPS_MAX, Rights, UserGroup};
pub use judge::Judgement;
pub use member::AdmittedMember;
pub use people::{PeopleEdit, PeopleEntry, UserFields};
pub use recovery::{Hindrance, Lineage, RecoverableCopy, RecoveryPlan};
pub use rejected::ClusterRejection;
pub use replacement::Replacement;
pub use scheduling::{AdminScheduling, SchedulingMode};
pub use secret::{Hidden, Secret};
pub use statement::{Statement, StatementBody};
pub use token::{IssuedToken, TOKENS_MAX, USES_MAX};
pub use user_tokens::{TOKEN_USES_MAX, TokenKeyChange, UserTokenIssue, UserTokensRevocation};
pub use users::{
    ALL_TOKENS_MAX, APPLICATION_TOKENS_MAX, ClusterUser, Keys, PASSWORD_HASH_MAX, RETIRED_KEYS_MAX,
    RetiredTokenKey, TOKEN_ADDRESS_MAX, TOKEN_KEY_MAX, TOKEN_TEXT_MAX, TooManyApplicationTokens,
    USER_TOKENS_MAX, USERS_MAX, UserToken,
};

use member::Roll;

/// Members that were ever admitted, at most: numbers are never given twice.
pub const NUMBERS_MAX: usize = 65_536;
/// Virtual clusters that were ever named, at most: each has a log, for good.
pub const VCS_MAX: usize = 256;
/// Bytes of the cluster's certificate, at most.
pub const CERTIFICATE_BYTES_MAX: usize = 4 << 10;

/// First byte of every snapshot. A changed layout takes the next number.
const VERSION: u8 = 9;

/// The cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterIdentity {
    /// What its admins call it; empty while nobody has named it.
    pub name: GivenName,
    /// Its id: the hash of the root key.
    pub id: ClusterId,
    /// The root key.
    pub root: NodeKey,
    /// The key that signs for it.
    pub signing: NodeKey,
    /// Counts the groups that held its state: raised only by disaster recovery.
    pub generation: u32,
    /// What all members understand; only ever raised.
    pub feature_level: u32,
    /// When it was founded, ms since the epoch.
    pub at_ms: u64,
    /// The seed of `signing`.
    secret: Secret,
    /// The cluster's own record, as bytes.
    certificate: Vec<u8>,
}

impl ClusterIdentity {
    /// The generation that a cluster begins with, and that its certificate is of: the root key, which
    /// alone could sign another one, may be lost by then.
    pub const GENERATION: u32 = 1;
    /// Number of the version of the cluster's own record. It is signed before the log has an
    /// entry, so it cannot be an index. Rotation of the signing key will raise it.
    pub const RECORD: u64 = 1;

    /// The certificate of a cluster to be founded: its own record, which says that `signing`
    /// signs for it. Nothing else is ever signed by the root key.
    ///
    /// # Errors
    /// When the record cannot be written, which means a bug.
    pub fn certify(signing: NodeKey, root: &dyn Sign) -> Result<Record, record::RecordError> {
        let body = ClusterBody {
            root: root.key(),
            generation: Self::GENERATION,
            signing,
        };
        let version = RecordVersion {
            incarnation: Self::GENERATION.into(),
            number: Self::RECORD,
        };
        let cluster = ClusterId::of_root(&body.root);
        Record::sign(cluster, RecordKey::Cluster, version, &body, root)
    }
}

/// The state of the `cluster` group.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ClusterState {
    cluster: Option<ClusterIdentity>,
    /// By number.
    members: Vec<AdmittedMember>,
    tokens: BTreeMap<TokenId, IssuedToken>,
    documents: BTreeMap<DocumentId, ClusterDocument>,
    vcs: BTreeMap<VcName, VcCreation>,
    /// What each virtual cluster is bound to.
    bound: BTreeMap<VcName, BoundLeaves>,
    /// Those that wait for cells.
    waiting: BTreeSet<VcName>,
    /// Those that have not said yet, since the cluster goes on from a copy, what they have by their own logs.
    unheard: BTreeSet<VcName>,
    /// Index of the entry that changed any of that last.
    bound_at: u64,
    keys: Option<Keys>,
    users: BTreeMap<UserName, ClusterUser>,
    groups: BTreeMap<GroupName, UserGroup>,
    audit: AuditTrail,
    /// Index of the entry that changed last what a [`ClusterMap`] says.
    map_version: u64,
    #[serde(skip)]
    roll: Roll,
}

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ClusterRestoreError {
    /// Written by another release, or empty.
    #[error("snapshot version {0:?} is not known")]
    Version(Option<u8>),
    /// The bytes are no snapshot.
    #[error("the snapshot cannot be read")]
    Body(#[source] postcard::Error),
}

impl ClusterState {
    /// Number of the member that founded the cluster. It is made by the first entry, and is a
    /// member like any other after that.
    pub const FOUNDER: MemberId = MemberId(0);

    /// The whole state as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        // Encoding plain data into a Vec cannot fail; an empty snapshot is refused at restore.
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// The state that a snapshot holds.
    ///
    /// # Errors
    /// When the bytes are not a snapshot this release can read.
    pub fn restore(snapshot: &[u8]) -> Result<Self, ClusterRestoreError> {
        let [VERSION, body @ ..] = snapshot else {
            return Err(ClusterRestoreError::Version(snapshot.first().copied()));
        };
        let mut state: Self = postcard::from_bytes(body).map_err(ClusterRestoreError::Body)?;
        for (id, member) in (0..).map(MemberId).zip(&state.members) {
            state.roll.add(id, member);
        }
        Ok(state)
    }
}
