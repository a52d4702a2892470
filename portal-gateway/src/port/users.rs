//! Users, and the tokens that they come with.

use async_trait::async_trait;
use muster_model::id::{GroupName, UserName, VcName};
use muster_model::login::LoginTrust;
use muster_model::people::{AuditLog, Author, GroupAcl, PeopleChange};

use super::PortError;

/// Who asks, after their token or the socket they came through was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Their name.
    pub user: UserName,
    /// Member of a group with the admin right.
    pub admin: bool,
    /// Came with an application token, which may not manage tokens.
    pub application: bool,
}

/// A fresh login.
#[derive(Clone, Debug)]
pub struct Login {
    /// Who.
    pub user: UserName,
    /// A JWT.
    pub token: String,
    /// Whether they are an admin.
    pub admin: bool,
}

/// What a token says, as `GET /tokens/check` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    /// Who, and with which rights.
    pub caller: Caller,
    /// Issued, seconds since the epoch.
    pub issued: u64,
    /// Expires, seconds since the epoch; never for an application token.
    pub expires: Option<u64>,
}

/// A user as others may see one.
#[derive(Clone, Debug, PartialEq)]
pub struct UserView {
    /// Their name.
    pub name: UserName,
    /// Their address, may be empty.
    pub email: String,
    /// Groups they belong to.
    pub groups: Vec<GroupName>,
    /// Free-form JSON that clients keep with the user.
    pub extension: serde_json::Value,
    /// Whether they are an admin.
    pub admin: bool,
    /// Virtual clusters they may submit to.
    pub vcs: Vec<VcName>,
    /// Storages they may use, the default ones first.
    pub storages: Vec<String>,
    /// Rises with every change.
    pub revision: u64,
}

/// A group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupView {
    /// Its name.
    pub name: GroupName,
    /// What it is for.
    pub description: String,
    /// Its name in a directory of people elsewhere.
    pub external_name: String,
    /// What its members may do.
    pub acl: GroupAcl,
    /// Free-form JSON that clients keep with the group, without `acls`.
    pub extension: serde_json::Value,
    /// Rises with every change.
    pub revision: u64,
}

/// Users and their tokens. [`PortError::NoUser`] where there is none of that name.
#[async_trait]
pub trait Users: std::fmt::Debug + Send + Sync {
    /// Every user.
    async fn list(&self) -> Result<Vec<UserView>, PortError>;
    /// One user.
    async fn user(&self, name: &str) -> Result<UserView, PortError>;
    /// Every group.
    async fn groups(&self) -> Result<Vec<GroupView>, PortError>;
    /// Changes a user or a group: here before this returns, elsewhere within about a second.
    /// [`PortError::People`] says why not.
    async fn change(&self, by: &Author, change: PeopleChange) -> Result<(), PortError>;
    /// The newest records of changes, at most `limit`; of one user or group if one is named.
    async fn audit(&self, subject: Option<&str>, limit: usize) -> Result<AuditLog, PortError>;
    /// Checks a password and issues a token.
    async fn login(
        &self,
        user: &str,
        password: &str,
        trust: LoginTrust,
    ) -> Result<Login, PortError>;
    /// Issues a token to a user for whom the identity provider vouches.
    async fn login_vouched(&self, user: &UserName) -> Result<Login, PortError>;
    /// Checks a token. [`PortError::InvalidToken`], also when it was revoked.
    async fn check_token(&self, token: &str) -> Result<TokenInfo, PortError>;
    /// A user's valid tokens.
    async fn tokens(&self, user: &UserName) -> Result<Vec<String>, PortError>;
    /// Issues an application token, which does not expire.
    async fn issue_application_token(&self, user: &UserName) -> Result<String, PortError>;
    /// Makes a token of a user's invalid: here before this returns, elsewhere within about a second.
    /// [`PortError::NoToken`] when they hold no such token.
    async fn revoke_token(&self, user: &UserName, token: &str) -> Result<(), PortError>;
}
