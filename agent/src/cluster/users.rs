//! Users, and who comes in: passwords, and tokens issued, checked and revoked.
//!
//! A node looks at what the cluster told it, and asks the member that leads the cluster group
//! for every change.

use std::sync::Arc;

use async_trait::async_trait;
use muster_control::cluster::{Hidden, UserGroup};
use muster_control::request::cluster::{
    ChangePeople, Denial, ForgetToken, IssueToken, LogIn, LogInVouched, LoggedIn, OfCluster,
    ReadAudit,
};
use muster_control::request::{Answers, RequestFailure, RequestRefusal};
use muster_model::id::{GroupName, NodeId, UserName};
use muster_model::login::LoginTrust;
use muster_model::people::{AuditLog, Author, PeopleChange};
use muster_portal_gateway::port::{
    Caller, GroupView, Login, PortError, TokenInfo, UserView, Users,
};
use muster_portal_gateway::token::TokenClaims;
use tokio::time::Instant;

use super::errors::{invalid, unavailable};
use crate::accounts::{Account, Accounts};
use crate::clock;
use crate::cluster_service::NodeClusterService;
use crate::description::Descriptions;
use crate::mesh::{self, Service};

/// The users of this cluster.
#[derive(Debug)]
pub(super) struct LocalUsers {
    pub(super) accounts: Accounts,
    pub(super) descriptions: Descriptions,
    pub(super) mesh: Arc<Service>,
    /// This node.
    pub(super) node: NodeId,
}

impl LocalUsers {
    fn user_view(&self, name: &str, user: Account) -> Result<UserView, PortError> {
        let mut vcs = self.descriptions.vcs();
        vcs.retain(|vc| user.rights.admin || user.rights.vcs.contains(vc));
        Ok(UserView {
            name: name.parse().map_err(invalid)?,
            email: user.email,
            groups: user.groups.into_iter().collect(),
            extension: user.extension,
            admin: user.rights.admin,
            vcs,
            storages: user.rights.storages,
            revision: user.revision,
        })
    }

    /// What a token says whose signature is right, and whether its user may do everything; none
    /// if the user does not hold it.
    fn known(&self, token: &str) -> Result<Option<(TokenClaims, bool)>, PortError> {
        let keyring = self.accounts.keyring().map_err(unavailable)?;
        let claims = keyring
            .checked
            .claims(&keyring.issuer, token, clock::now_s())
            .map_err(|_| PortError::InvalidToken)?;
        let user = claims.username.as_str();
        let admin = self.accounts.admin_by_token(user, token);
        Ok(admin.map(|admin| (claims, admin)))
    }

    /// Asks for a change, and learns of it before the client does.
    async fn ask<T, D, R>(&self, request: R) -> Result<Result<T, D>, PortError>
    where
        R: OfCluster<Answer = Result<T, D>>,
        NodeClusterService: Answers<R>,
    {
        let answer = self.mesh.ask(request).await.map_err(unanswered)?;
        if answer.is_ok() {
            // If that fails, the loop does it.
            self.mesh.member().cluster_maps().refresh_now().await;
        }
        Ok(answer)
    }

    async fn catch_up(&self, since: Instant, token: &str) {
        let is_known = || !matches!(self.known(token), Ok(None));
        let member = self.mesh.member();
        member.cluster_maps().catch_up(since, is_known).await;
    }
}

#[async_trait]
impl Users for LocalUsers {
    async fn list(&self) -> Result<Vec<UserView>, PortError> {
        self.accounts
            .names()
            .iter()
            .filter_map(|name| Some((name, self.accounts.account(name)?)))
            .map(|(name, user)| self.user_view(name, user))
            .collect()
    }

    async fn user(&self, name: &str) -> Result<UserView, PortError> {
        let account = self.accounts.account(name);
        let missing = || PortError::NoUser(name.to_owned());
        self.user_view(name, account.ok_or_else(missing)?)
    }

    async fn groups(&self) -> Result<Vec<GroupView>, PortError> {
        let groups = self.accounts.groups().into_iter();
        let view = |(name, group): (GroupName, UserGroup)| GroupView {
            name,
            description: group.description,
            external_name: group.external_name,
            acl: group.acl,
            extension: serde_json::from_str(&group.extension).unwrap_or_default(),
            revision: group.revision,
        };
        Ok(groups.map(view).collect())
    }

    async fn change(&self, by: &Author, change: PeopleChange) -> Result<(), PortError> {
        let by = Author {
            node: self.node.to_string(),
            ..by.clone()
        };
        let changed = self.ask(ChangePeople { change, by }).await?;
        Ok(changed?)
    }

    async fn audit(&self, subject: Option<&str>, limit: usize) -> Result<AuditLog, PortError> {
        let request = ReadAudit {
            subject: subject.map(str::to_owned),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
        };
        self.mesh.ask(request).await.map_err(unanswered)
    }

    async fn login(
        &self,
        name: &str,
        password: &str,
        trust: LoginTrust,
    ) -> Result<Login, PortError> {
        let no_user = || PortError::NoUser(name.to_owned());
        let user: UserName = name.parse().map_err(|_| no_user())?;
        let password = Hidden(password.to_owned());
        let request = LogIn {
            user: name.to_owned(),
            password,
            trust,
            at_s: clock::now_s(),
            number: rand::random(),
        };
        match self.ask(request).await? {
            Ok(LoggedIn { token, admin }) => Ok(Login {
                user,
                token: token.0,
                admin,
            }),
            Err(Denial::NoUser) => Err(no_user()),
            Err(Denial::Busy) => Err(PortError::LoginsBusy),
            Err(Denial::WrongPassword) => Err(PortError::WrongPassword),
        }
    }

    async fn login_vouched(&self, user: &UserName) -> Result<Login, PortError> {
        let request = LogInVouched {
            user: user.to_string(),
            at_s: clock::now_s(),
            number: rand::random(),
        };
        let issued = self.ask(request).await?;
        let LoggedIn { token, admin } = issued.map_err(|_| PortError::NoUser(user.to_string()))?;
        Ok(Login {
            user: user.clone(),
            token: token.0,
            admin,
        })
    }

    async fn check_token(&self, token: &str) -> Result<TokenInfo, PortError> {
        let arrived = Instant::now();
        let known = match self.known(token)? {
            Some(known) => Some(known),
            // Perhaps it was issued elsewhere a moment ago.
            None => {
                self.catch_up(arrived, token).await;
                self.known(token)?
            }
        };
        let (claims, admin) = known.ok_or(PortError::InvalidToken)?;
        Ok(TokenInfo {
            caller: Caller {
                user: claims.username,
                admin,
                application: claims.application,
            },
            issued: claims.iat,
            expires: claims.exp,
        })
    }

    async fn tokens(&self, user: &UserName) -> Result<Vec<String>, PortError> {
        Ok(self.accounts.tokens(user.as_str(), clock::now_s()))
    }

    async fn issue_application_token(&self, user: &UserName) -> Result<String, PortError> {
        let no_user = || PortError::NoUser(user.to_string());
        let request = IssueToken {
            user: user.to_string(),
            at_s: clock::now_s(),
            number: rand::random(),
        };
        let issued = self.ask(request).await?;
        issued.map(|issued| issued.token.0).map_err(|_| no_user())
    }

    async fn revoke_token(&self, user: &UserName, token: &str) -> Result<(), PortError> {
        let is_held = || self.accounts.admin_by_token(user.as_str(), token).is_some();
        if !is_held() {
            // Perhaps it was issued elsewhere a moment ago.
            self.catch_up(Instant::now(), token).await;
        }
        if !is_held() {
            return Err(PortError::NoToken);
        }
        let request = ForgetToken {
            user: user.to_string(),
            text: Hidden(token.to_owned()),
        };
        // A user that there is not holds no token either.
        self.ask(request).await.map(drop)
    }
}

/// Nothing that keeps the cluster from answering is the client's fault.
fn unanswered(error: mesh::MeshError) -> PortError {
    match error {
        mesh::MeshError::Undone(RequestFailure::Refused(RequestRefusal::Invalid(text))) => {
            PortError::Invalid(text)
        }
        error => PortError::Unavailable(error.to_string()),
    }
}
