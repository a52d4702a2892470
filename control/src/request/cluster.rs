//! What the leader of the `cluster` group is asked. Whether its user may ask it was checked by the
//! gateway that took it.

use std::collections::BTreeSet;

use muster_gossip::join;
use muster_model::id::{NodeId, UserName, VcName};
use muster_model::login::LoginTrust;
use muster_model::mesh::{
    ClusterView, CreatedToken, DocumentText, NewToken, RecoveryView, Scheduling, TokenView,
    VersionView,
};
use muster_model::people::{AuditLog, Author, PeopleChange, PeopleDenial};
use muster_model::user_token::{
    IssuedUserToken, NewUserToken, TokenSelection, TokenUse, UserTokenView,
};
use serde::{Deserialize, Serialize};

use super::table::requests;
use super::{Json, Request};
use crate::breaker::{BreakerReview, NodeQuarantines};
use crate::cluster::{Binding, ClusterMap, Hidden};
use crate::coordinator::Bindings;

requests! {
    /// What the leader of the `cluster` group is asked.
    ClusterRequest by OfCluster:
        Admit,
        Leave,
        NameCluster,
        Expel,
        Schedule,
        CreateToken,
        ListTokens,
        RevokeToken,
        EditDocument,
        RollBack,
        GetHistory,
        ReadDocument,
        DescribeCluster,
        GetClusterMap,
        LogIn,
        IssueToken,
        LogInVouched,
        ForgetTokens,
        ListUserTokens,
        NoteTokenUses,
        RotateTokenKey,
        RenewLeases,
        GetSilence,
        Bind,
        Recover,
        ChangePeople,
        ReadAudit,
        ReviewQuarantines,
}

/// A stranger asks to be let in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Admit(
    /// The bytes of an admission request of the join protocol.
    pub Vec<u8>,
);

/// What becomes of a stranger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Admittance {
    /// It is welcome: the bytes of a reply of the join protocol.
    Welcome(Vec<u8>),
    /// It is refused.
    Refused(join::JoinRefusal),
}

impl Request for Admit {
    type Answer = Admittance;
}

/// The asking member leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leave;

impl Request for Leave {
    type Answer = ();

    fn may_repeat(&self) -> bool {
        false
    }
}

/// The cluster is to be called this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NameCluster {
    /// Empty: it has no name any more.
    pub name: String,
}

impl Request for NameCluster {
    type Answer = ClusterView;
}

/// A member is to be expelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expel {
    /// Its name.
    pub member: String,
    /// The user who says so.
    pub by: String,
}

impl Request for Expel {
    type Answer = ();

    /// The name may be another one's by then.
    fn may_repeat(&self) -> bool {
        false
    }
}

/// Jobs are to be kept off a member, or may come again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its name.
    pub member: String,
    /// What is to hold.
    pub scheduling: Json<Scheduling>,
    /// Why.
    pub reason: String,
    /// The user who says so.
    pub by: String,
}

impl Request for Schedule {
    type Answer = ();
}

/// A join token is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateToken {
    /// What kind.
    pub token: NewToken,
    /// The user who wants it.
    pub by: String,
}

impl Request for CreateToken {
    type Answer = CreatedToken;

    fn may_repeat(&self) -> bool {
        false
    }
}

/// All join tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListTokens;

impl Request for ListTokens {
    type Answer = Vec<TokenView>;
}

/// A join token is to be good no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevokeToken {
    /// Its id.
    pub id: String,
}

impl Request for RevokeToken {
    type Answer = ();
}

/// A document is to have a new version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EditDocument {
    /// Its number.
    pub document: u16,
    /// The version that the author saw.
    pub base: u64,
    /// The text.
    pub text: String,
    /// Whether it is in force without steps.
    pub now: bool,
    /// The author.
    pub by: String,
}

impl Request for EditDocument {
    /// The new version.
    type Answer = u64;

    fn may_repeat(&self) -> bool {
        false
    }
}

/// A document is to have an older version's text again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RollBack {
    /// Its number.
    pub document: u16,
    /// The older version.
    pub version: u64,
    /// The user who says so.
    pub by: String,
}

impl Request for RollBack {
    /// The new version.
    type Answer = u64;

    fn may_repeat(&self) -> bool {
        false
    }
}

/// A document's versions, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetHistory {
    /// Its number.
    pub document: u16,
}

impl Request for GetHistory {
    type Answer = Json<Vec<VersionView>>;
}

/// The text of a version that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadDocument {
    /// Its number.
    pub document: u16,
    /// The version.
    pub version: u64,
}

impl Request for ReadDocument {
    type Answer = DocumentText;
}

/// The cluster's name and keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribeCluster;

impl Request for DescribeCluster {
    type Answer = ClusterView;
}

/// What every member has to know although it has no copy of the cluster's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetClusterMap;

impl Request for GetClusterMap {
    type Answer = ClusterMap;
}

/// A user's password is to be checked, and a token issued. The same request gives the same token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogIn {
    /// The user, and where they ask from.
    pub by: Author,
    /// The password.
    pub password: Hidden<String>,
    /// Whether the client that gave it was wrong lately.
    pub trust: LoginTrust,
    /// What the token is to be called, may be empty.
    pub name: String,
    /// When, in seconds since the epoch.
    pub at_s: u64,
    /// Tells its token from others of the same second.
    pub number: u64,
}

/// A token was issued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedIn {
    /// The token.
    pub token: IssuedUserToken,
    /// Whether its user may do everything.
    pub admin: bool,
}

/// Why a user gets no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Denial {
    /// There is no such user.
    NoUser,
    /// It is not their password.
    WrongPassword,
    /// It was not looked at: too many are being checked.
    Busy,
}

impl Request for LogIn {
    type Answer = Result<LoggedIn, Denial>;
}

/// A token for a program of a user's is to be issued. The same request gives the same token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IssueToken {
    /// The user.
    pub user: UserName,
    /// What it is like.
    pub token: NewUserToken,
    /// Who wants it.
    pub by: Author,
    /// As with a login.
    pub at_s: u64,
    /// As with a login.
    pub number: u64,
}

impl Request for IssueToken {
    type Answer = Result<LoggedIn, Denial>;
}

/// A token is to be issued to a user for whom the identity provider vouches: the asking member has checked that.
/// The same request gives the same token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogInVouched {
    /// The user, and where they ask from.
    pub by: Author,
    /// What the token is called.
    pub name: String,
    /// As with a login.
    pub at_s: u64,
    /// As with a login.
    pub number: u64,
}

impl Request for LogInVouched {
    type Answer = Result<LoggedIn, Denial>;
}

/// Tokens of users are to be good no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForgetTokens {
    /// Which.
    pub which: TokenSelection,
    /// Who says so.
    pub by: Author,
}

impl Request for ForgetTokens {
    /// How many there were.
    type Answer = Result<u32, Denial>;
}

/// The tokens of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListUserTokens {
    /// Whose.
    pub user: UserName,
}

impl Request for ListUserTokens {
    /// The oldest first.
    type Answer = Result<Vec<UserTokenView>, Denial>;
}

/// Tokens of users were used at the asking node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoteTokenUses {
    /// Which, at most [`TOKEN_USES_MAX`](crate::cluster::TOKEN_USES_MAX).
    pub uses: Vec<TokenUse>,
}

impl Request for NoteTokenUses {
    type Answer = ();
}

/// Another key is to sign users' tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RotateTokenKey {
    /// Who says so.
    pub by: Author,
}

impl Request for RotateTokenKey {
    /// The number of the new key.
    type Answer = u32;

    fn may_repeat(&self) -> bool {
        false
    }
}

/// A node asks for renewal of its run leases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenewLeases {
    /// Its name.
    pub node: NodeId,
}

impl Request for RenewLeases {
    type Answer = ();
}

/// How long has a node not asked for that?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GetSilence {
    /// Its name.
    pub node: NodeId,
}

impl Request for GetSilence {
    /// Milliseconds, counted from the election of the one that answers at the earliest.
    type Answer = u64;
}

/// A virtual cluster asks for cells and gives some back; then, what is each bound to?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bind {
    /// The virtual cluster.
    pub vc: VcName,
    /// What it asks for and gives back.
    pub binding: Binding,
    /// The version that it knows; 0 for none.
    pub known: u64,
}

impl Request for Bind {
    /// None if nothing is newer than what it knows.
    type Answer = Option<Bindings>;
}

/// A virtual cluster is to go on without most of its voters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recover {
    /// Its name.
    pub vc: String,
    /// The voters that are lost for good; none named: only tell how it would go on.
    pub lost: BTreeSet<String>,
    /// The user who says so.
    pub by: String,
}

impl Request for Recover {
    type Answer = RecoveryView;

    /// How it would go on can be told as often as anybody likes.
    fn may_repeat(&self) -> bool {
        self.lost.is_empty()
    }

    fn is_slow(&self) -> bool {
        true
    }
}

/// Users or groups are to change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangePeople {
    /// What.
    pub change: PeopleChange,
    /// The user who says so.
    pub by: Author,
}

impl Request for ChangePeople {
    type Answer = Result<(), PeopleDenial>;

    /// What is added, and is there, would be refused the second time.
    fn may_repeat(&self) -> bool {
        false
    }
}

/// The newest records of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadAudit {
    /// Of one user or group alone.
    pub subject: Option<String>,
    /// At most so many.
    pub limit: u32,
}

impl Request for ReadAudit {
    type Answer = AuditLog;
}

/// Rules of health quarantine parts of the asking member: which of that does the cluster's breaker
/// hold back?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewQuarantines(
    /// All of them.
    pub NodeQuarantines,
);

impl Request for ReviewQuarantines {
    type Answer = BreakerReview;
}
