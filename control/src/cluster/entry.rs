//! The entries of the cluster's log.

use std::collections::{BTreeMap, BTreeSet};

use muster_gossip::join::{Text, TokenId, TokenKey};
use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::record::{BodyId, DocumentId, RecordKey};
use muster_model::id::{NodeId, UserName, VcName};
use muster_model::user_token::TokenUse;
use serde::{Deserialize, Serialize};

use super::binding::Binding;
use super::document::VersionStage;
use super::people::PeopleEntry;
use super::replacement::Replacement;
use super::scheduling::AdminScheduling;
use super::secret::Secret;
use super::user_tokens::{TokenKeyChange, UserTokenIssue, UserTokensRevocation};
use super::users::{ClusterUser, Keys};
use crate::entry_bytes::{self, DecodeError, EncodeError};

/// First byte of every encoded entry. A changed layout takes the next number.
const VERSION: u8 = 10;

/// A name that a user gave, or a user's own.
pub type GivenName = Text<255>;

/// One committed fact. All times are the proposer's clock, milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterEntry {
    /// The cluster begins, with one member.
    Init(Box<ClusterInit>),
    /// The cluster is called this from now on.
    Named {
        /// Empty: it has no name, and no other machine joins it.
        name: GivenName,
    },
    /// All members understand this from now on.
    FeatureLevel {
        /// Higher than before.
        level: u32,
    },
    /// A token is good from now on.
    TokenCreated(Box<TokenIssue>),
    /// It is good no more.
    TokenRevoked {
        /// Which.
        id: TokenId,
        /// When.
        at_ms: u64,
    },
    /// A node that proved a token becomes a member.
    Admitted(Box<Admission>),
    /// A member leaves by itself.
    Left {
        /// Who.
        member: MemberId,
        /// When.
        at_ms: u64,
    },
    /// An admin expels a member.
    Expelled {
        /// Who.
        member: MemberId,
        /// When.
        at_ms: u64,
    },
    /// An admin keeps jobs off a member, or lets them come again.
    Scheduled {
        /// Which.
        member: MemberId,
        /// What holds from now on.
        scheduling: AdminScheduling,
    },
    /// A document gets a new version.
    DocumentEdited(Box<DocumentEdit>),
    /// A version goes on, or is taken back.
    DocumentStep(Box<ActivationStep>),
    /// A user's token is good from now on.
    UserToken(Box<UserTokenIssue>),
    /// Tokens of users are good no more.
    UserTokensRevoked(Box<UserTokensRevocation>),
    /// Tokens of users were used.
    UserTokensUsed {
        /// Which, at most [`TOKEN_USES_MAX`](super::TOKEN_USES_MAX).
        uses: Vec<TokenUse>,
    },
    /// Another key signs users' tokens from now on.
    TokenKeyChanged(Box<TokenKeyChange>),
    /// A virtual cluster that has lost most of its voters for good goes on from one of its copies: its
    /// creation in the next generation.
    Recovered(Box<VcCreation>),
    /// A virtual cluster asks for leaf cells, or gives some back.
    Bound {
        /// Which.
        vc: VcName,
        /// What.
        binding: Box<Binding>,
    },
    /// These virtual clusters do not say what cells they have by their own logs: nobody waits for that any
    /// longer.
    Unheard {
        /// Which.
        vcs: BTreeSet<VcName>,
    },
    /// The cluster goes on in another group: what those who are left know beyond the copy that it begins
    /// with. The first entry there.
    Replacement(Box<Replacement>),
    /// A user or a group changes.
    People(Box<PeopleEntry>),
}

/// How a cluster begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterInit {
    /// What its admins call it; empty while nobody has named it.
    pub name: GivenName,
    /// The root key.
    pub root: NodeKey,
    /// The key that signs for it.
    pub signing: NodeKey,
    /// The seed of `signing`.
    pub secret: Secret,
    /// The bytes of [`Cluster::certify`](super::ClusterIdentity::certify)'s record, at most
    /// [`CERTIFICATE_BYTES_MAX`](super::CERTIFICATE_BYTES_MAX).
    pub certificate: Vec<u8>,
    /// What the founder's release understands.
    pub feature_level: u32,
    /// The first member.
    pub founder: Founder,
    /// The virtual clusters that it begins with.
    pub vcs: Vec<VcCreation>,
    /// The users that it begins with.
    pub users: BTreeMap<UserName, ClusterUser>,
    /// The keys that all members share.
    pub keys: Keys,
    /// When.
    pub at_ms: u64,
}

/// A virtual cluster is born.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcCreation {
    /// Its name.
    pub vc: VcName,
    /// The number of its group.
    pub group: u64,
    /// Raised only by disaster recovery.
    pub generation: u32,
    /// Who has the first copies of its log, which all vote: the first is replica 1, and so on.
    pub homes: Vec<CopyHome>,
    /// The groups that it had before, the newest last: one in each earlier generation.
    pub before: Vec<u64>,
}

/// Where a copy of a log lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyHome {
    /// Whose it is.
    pub member: MemberId,
    /// Names the member's log store: an empty one after it is not taken for it.
    pub store: u64,
}

/// The first member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founder {
    /// Its key.
    pub key: NodeKey,
    /// Its name.
    pub name: NodeId,
    /// Where it stands; empty if nobody said.
    pub rack: Text<64>,
}

/// A token as it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenIssue {
    /// Its name.
    pub id: TokenId,
    /// What proofs are checked with.
    pub key: TokenKey,
    /// Until when it is good.
    pub expires_ms: u64,
    /// How many nodes it admits.
    pub uses: u32,
    /// Whether they may vote.
    pub votes: bool,
    /// Who made it.
    pub author: GivenName,
    /// When.
    pub at_ms: u64,
}

/// An admission by a token whose proof was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The token.
    pub token: TokenId,
    /// The node's key.
    pub key: NodeKey,
    /// Its name.
    pub name: NodeId,
    /// Where it stands; empty if nobody said.
    pub rack: Text<64>,
    /// When.
    pub at_ms: u64,
}

/// An edit. A rollback is an edit with the body of an older version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentEdit {
    /// Which document.
    pub id: DocumentId,
    /// The version that the author had before the eyes; 0 for none.
    pub base: u64,
    /// The new body, which lies beside the log.
    pub body: BodyId,
    /// Who.
    pub author: GivenName,
    /// When.
    pub at_ms: u64,
    /// Whether it is in force at once, without the steps.
    pub forced: bool,
    /// The virtual clusters that a [`DESCRIPTION`](super::DESCRIPTION) names and that there were
    /// not when it was proposed: none is in force without its virtual clusters.
    pub creations: Vec<VcCreation>,
}

/// A step of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivationStep {
    /// Which document.
    pub id: DocumentId,
    /// Which version of it.
    pub version: u64,
    /// Where it comes to.
    pub stage: VersionStage,
    /// Whether an admin skips what would come before.
    pub forced: bool,
    /// When.
    pub at_ms: u64,
}

impl ClusterEntry {
    /// The entry as bytes for the log.
    ///
    /// # Errors
    /// When the encoder fails, which means a bug.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        entry_bytes::encode(VERSION, self)
    }

    /// Reads an entry from the log.
    ///
    /// # Errors
    /// When the bytes are not an entry of a known version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        entry_bytes::decode(VERSION, bytes)
    }
}

/// What applying an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterApplied {
    /// The cluster began, has another name, or its feature level rose.
    Cluster,
    /// This member was admitted (now, or by the same entry before), left or was expelled.
    Member(MemberId),
    /// This token was made or revoked.
    Token(TokenId),
    /// This version of a document was made or went on.
    Document {
        /// Which document.
        id: DocumentId,
        /// Which version.
        version: u64,
    },
    /// Users, their tokens or groups are as the entry says.
    Users,
    /// When tokens were used last is as the entry says.
    TokenUses,
    /// Whether jobs may come to this member is as the entry says.
    Scheduled(MemberId),
    /// A virtual cluster has another group.
    Recovered,
    /// The cluster has another group, and says everything anew.
    Replacement,
    /// A virtual cluster is bound to what was nobody's of what it asked for.
    Bound,
}

impl ClusterApplied {
    /// The record that may say something new now. The cluster's own is the certificate, all
    /// others are statements.
    pub const fn record(self) -> Option<RecordKey> {
        match self {
            Self::Cluster => Some(RecordKey::Cluster),
            Self::Member(id) => Some(RecordKey::Member(id)),
            Self::Token(_)
            | Self::Users
            | Self::TokenUses
            | Self::Scheduled(_)
            | Self::Recovered
            | Self::Replacement
            | Self::Bound => None,
            Self::Document { id, .. } => Some(RecordKey::Document(id)),
        }
    }

    /// Whether the cluster map of all members may say something new now.
    pub fn is_briefed(self) -> bool {
        match self {
            // A member that is gone may have been closed to jobs.
            Self::Users
            | Self::Scheduled(_)
            | Self::Member(_)
            | Self::Recovered
            | Self::Replacement => true,
            Self::Document { id, .. } => super::document::is_in_map(id),
            Self::Cluster | Self::Token(_) | Self::TokenUses | Self::Bound => false,
        }
    }
}
