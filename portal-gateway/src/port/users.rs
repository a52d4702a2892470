//! Users, and the tokens that they come with.

use async_trait::async_trait;
use muster_model::id::{GroupName, UserName, VcName};
use muster_model::login::LoginTrust;
use muster_model::people::{AuditLog, Author, GroupAcl, PeopleChange};
use muster_model::user_token::{
    IssuedUserToken, NewUserToken, TokenSelection, UserTokenId, UserTokenView,
};

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

/// How a login is to be treated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginTerms {
    /// Whether the client was wrong lately.
    pub trust: LoginTrust,
    /// What the token is to be called, may be empty.
    pub name: String,
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
    /// Names the token.
    pub id: UserTokenId,
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
    /// Checks the password of `by` and issues a token.
    async fn login(
        &self,
        by: &Author,
        password: &str,
        terms: LoginTerms,
    ) -> Result<Login, PortError>;
    /// Issues a token of this name to `by`, for whom the identity provider vouches.
    async fn login_vouched(&self, by: &Author, name: String) -> Result<Login, PortError>;
    /// Checks a token. [`PortError::InvalidToken`], also when it was revoked.
    async fn check_token(&self, token: &str) -> Result<TokenInfo, PortError>;
    /// A user's valid tokens.
    async fn tokens(&self, user: &UserName) -> Result<Vec<String>, PortError>;
    /// The records of a user's valid tokens, without their texts, the oldest first.
    async fn token_views(&self, user: &UserName) -> Result<Vec<UserTokenView>, PortError>;
    /// Issues an application token.
    async fn issue_token(
        &self,
        by: &Author,
        user: &UserName,
        token: NewUserToken,
    ) -> Result<IssuedUserToken, PortError>;
    /// Makes tokens invalid: here before this returns, elsewhere within about a second. How many there were.
    /// [`PortError::NoToken`] when one is named that its user does not hold.
    async fn revoke_tokens(&self, by: &Author, which: TokenSelection) -> Result<u32, PortError>;
    /// Has another key sign tokens from now on. What is signed stays valid. The number of the new key.
    async fn rotate_token_key(&self, by: &Author) -> Result<u32, PortError>;
}
