//! Why an entry changed nothing.

use muster_gossip::join::{JoinRefusal, TokenId};
use muster_gossip::member::MemberId;
use muster_gossip::record::DocumentId;
use muster_model::id::{NodeId, UserName, VcName};
use muster_model::people::PeopleDenial;
use muster_model::vc::unknown;

use super::document::{BODY_BYTES_MAX, CANARIES_MAX, DOCUMENTS_MAX, REASON_BYTES_MAX};
use super::token::{TOKENS_MAX, USES_MAX};
use super::user_tokens::TOKEN_USES_MAX;
use super::users::{
    ALL_TOKENS_MAX, APPLICATION_TOKENS_MAX, RETIRED_KEYS_MAX, TOKEN_KEY_MAX, TOKEN_TEXT_MAX,
    USERS_MAX,
};
use super::{CERTIFICATE_BYTES_MAX, NUMBERS_MAX, VCS_MAX};

/// Why an entry changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterRejection {
    /// There is a cluster already.
    #[error("this node is in a cluster already")]
    Founded,
    /// There is none yet.
    #[error("there is no cluster yet; make one by `muster cluster init`")]
    NotFounded,
    /// The certificate is too long.
    #[error("a cluster's certificate has at most {CERTIFICATE_BYTES_MAX} bytes, this one has {0}")]
    Certificate(usize),
    /// The feature level does not rise.
    #[error("the cluster is at feature level {0} already")]
    FeatureLevel(u32),
    /// A token of that name exists.
    #[error("token {0} exists already; make another one")]
    TokenExists(TokenId),
    /// No such token.
    #[error("token {0} is not found")]
    NoToken(TokenId),
    /// It could never be used.
    #[error("a token has 1 to {USES_MAX} uses and expires later than it is made")]
    UselessToken,
    /// A limit is reached.
    #[error("the cluster has {TOKENS_MAX} tokens that are good; revoke some")]
    TooManyTokens,
    /// Its time is over.
    #[error("token {0} has expired; make a new one")]
    Expired(TokenId),
    /// It was revoked.
    #[error("token {0} was revoked; make a new one")]
    Revoked(TokenId),
    /// It admitted as many as it may.
    #[error("token {0} is used up; make a new one")]
    UsedUp(TokenId),
    /// Another member has the name.
    #[error("the name {name} is taken by member {}; choose another one", .member.0)]
    NameTaken {
        /// The name.
        name: NodeId,
        /// Whose it is.
        member: MemberId,
    },
    /// The key is a member's, by another token or under another name or rack.
    #[error("the key is that of member {}, {name}; expel it first", .member.0)]
    KeyAdmitted {
        /// Its name.
        name: NodeId,
        /// Who.
        member: MemberId,
    },
    /// The key was expelled after the token was made.
    #[error("the node was expelled; make a new token to let it in again")]
    Expelled,
    /// No number is left.
    #[error("a cluster admits {NUMBERS_MAX} nodes in its life, which is the limit")]
    Full,
    /// No such member, or one no more.
    #[error("member {} is not found, or has left or was expelled already", .0.0)]
    NoMember(MemberId),
    /// Nobody could order the entries of the cluster group after that.
    #[error(
        "member {} is the last one that may vote, so it cannot leave or be expelled; first admit \
         another node by a token made without `--no-vote`",
        .0.0
    )]
    LastVoter(MemberId),
    /// No such document.
    #[error("document {} is not found", .0.0)]
    NoDocument(DocumentId),
    /// A limit is reached.
    #[error("the cluster has {DOCUMENTS_MAX} documents, which is the limit")]
    TooManyDocuments,
    /// The body is too long.
    #[error("a document has at most {BODY_BYTES_MAX} bytes, this one has {0}")]
    TooLong(u64),
    /// Somebody else edited the document meanwhile.
    #[error(
        "the document is at version {current}, the edit was made on version {base}; look at \
             the newer one and edit again"
    )]
    Conflict {
        /// What the edit was made on.
        base: u64,
        /// What there is.
        current: u64,
    },
    /// The version is not the newest.
    #[error("version {version} is not the newest, which is {current}")]
    NotCurrent {
        /// What the step is for.
        version: u64,
        /// What there is.
        current: u64,
    },
    /// A step that is not the next one.
    #[error("version {version} is {from}; it cannot become {to}")]
    NotForward {
        /// Which version.
        version: u64,
        /// Where it is.
        from: &'static str,
        /// Where it was to come.
        to: &'static str,
    },
    /// A canary list that is empty, too long, not ascending, or names who is no member.
    #[error("canaries are 1 to {CANARIES_MAX} members, each once, by ascending number")]
    Canaries,
    /// A reason that is too long.
    #[error("a reason has at most {REASON_BYTES_MAX} bytes")]
    Reason,
    /// A virtual cluster without a log of its own.
    #[error(
        "virtual cluster {0} has another one's log, or none at members, or two at one; propose it \
         again"
    )]
    Creation(VcName),
    /// No such virtual cluster.
    #[error("{}", unknown(.0.as_str()))]
    NoVc(VcName),
    /// Somebody else was faster.
    #[error(
        "virtual cluster {0} is in generation {1}: it was recovered meanwhile; look at it again"
    )]
    OtherGeneration(VcName, u32),
    /// What those who are left know is not in the state yet.
    #[error(
        "the cluster goes on from one copy of what it knew, and begins to; try again in a moment"
    )]
    Replacement,
    /// It is in that generation already, or the group is of another one.
    #[error("the cluster goes on in generation {0} already")]
    Succeeded(u32),
    /// A limit is reached.
    #[error(
        "a cluster has at most {VCS_MAX} virtual clusters in its life, these would be {0}; use \
         names again that no description has any more"
    )]
    TooManyVcs(usize),
    /// No such user.
    #[error("user {0} is not found")]
    NoUser(UserName),
    /// A limit is reached.
    #[error("a cluster has at most {USERS_MAX} users, these are {0}")]
    TooManyUsers(usize),
    /// A limit is reached.
    #[error("a cluster's users have at most {ALL_TOKENS_MAX} tokens; revoke some")]
    TooManyUserTokens,
    /// A limit is reached.
    #[error(
        "user {0} has {APPLICATION_TOKENS_MAX} application tokens, as many as may be; revoke some"
    )]
    TooManyApplicationTokens(UserName),
    /// Something of a user is longer than it may be, or it has too many tokens.
    #[error("what is kept of user {0} is too long; shorten its extension or revoke tokens")]
    UserTooLong(UserName),
    /// Cells that no node of this release would name so.
    #[error("the cells cannot be bound: {0}")]
    Binding(String),
    /// The token is empty or too long.
    #[error("a user's token has 1 to {TOKEN_TEXT_MAX} bytes, this one has {0}")]
    TokenText(usize),
    /// The keys of tokens are too long or too many.
    #[error(
        "a key of tokens has at most {TOKEN_KEY_MAX} bytes, and at most {RETIRED_KEYS_MAX} older ones are kept"
    )]
    TokenKeys,
    /// A token is signed by a key that is not known any more.
    #[error("key {0} signs no tokens any more; ask for a token again")]
    NoTokenKey(u32),
    /// The key of tokens was changed meanwhile.
    #[error(
        "the key of tokens was changed meanwhile: it is number {0} now; look whether that is enough"
    )]
    OtherTokenKey(u32),
    /// As many older keys are kept as may be, and each has tokens.
    #[error(
        "{RETIRED_KEYS_MAX} older keys are kept, and there are tokens of each; revoke the application tokens \
         issued longest ago, or wait until logins of the oldest key expire"
    )]
    TooManyTokenKeys,
    /// A limit is reached.
    #[error("at most {TOKEN_USES_MAX} uses of tokens are taken at a time, these are {0}")]
    TooManyTokenUses(usize),
    /// A change of users or groups that may not be made.
    #[error(transparent)]
    People(#[from] PeopleDenial),
}

impl ClusterRejection {
    /// What a joiner is told when its admission was rejected with this.
    pub const fn refusal(&self) -> JoinRefusal {
        match self {
            Self::NoToken(_) => JoinRefusal::UnknownToken,
            Self::Expired(_) => JoinRefusal::Expired,
            Self::Revoked(_) => JoinRefusal::Revoked,
            Self::UsedUp(_) => JoinRefusal::UsedUp,
            Self::NameTaken { .. } => JoinRefusal::NameTaken,
            Self::KeyAdmitted { .. } => JoinRefusal::KeyAdmitted,
            Self::Expelled => JoinRefusal::Expelled,
            Self::Full => JoinRefusal::Full,
            Self::Founded
            | Self::NotFounded
            | Self::Certificate(_)
            | Self::FeatureLevel(_)
            | Self::TokenExists(_)
            | Self::UselessToken
            | Self::TooManyTokens
            | Self::NoMember(_)
            | Self::LastVoter(_)
            | Self::NoDocument(_)
            | Self::TooManyDocuments
            | Self::TooLong(_)
            | Self::Conflict { .. }
            | Self::NotCurrent { .. }
            | Self::NotForward { .. }
            | Self::Canaries
            | Self::Reason
            | Self::Creation(_)
            | Self::NoVc(_)
            | Self::Binding(_)
            | Self::OtherGeneration(..)
            | Self::Replacement
            | Self::Succeeded(_)
            | Self::TooManyVcs(_)
            | Self::NoUser(_)
            | Self::TooManyUsers(_)
            | Self::TooManyUserTokens
            | Self::TooManyApplicationTokens(_)
            | Self::UserTooLong(_)
            | Self::TokenText(_)
            | Self::TokenKeys
            | Self::NoTokenKey(_)
            | Self::OtherTokenKey(_)
            | Self::TooManyTokenKeys
            | Self::TooManyTokenUses(_)
            | Self::People(_) => JoinRefusal::Unavailable,
        }
    }
}
