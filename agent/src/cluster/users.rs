//! Users, and who comes in: passwords, and tokens issued, checked and revoked.
//!
//! A node looks at what the cluster told it, and asks the member that leads the cluster group
//! for every change.

use std::sync::Arc;

use async_trait::async_trait;
use muster_control::cluster::{Hidden, UserGroup};
use muster_control::request::cluster::{
    ChangePeople, Denial, ForgetTokens, IssueToken, ListUserTokens, LogIn, LogInVouched, LoggedIn,
    OfCluster, ReadAudit, RotateTokenKey,
};
use muster_control::request::{Answers, RequestFailure, RequestRefusal};
use muster_model::id::{GroupName, NodeId, UserName};
use muster_model::people::{AuditLog, Author, PeopleChange};
use muster_model::user_token::{
    IssuedUserToken, NewUserToken, TokenSelection, UserTokenId, UserTokenView,
};
use muster_portal_gateway::port::{
    Caller, GroupView, Login, LoginTerms, PortError, TokenInfo, UserView, Users,
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

    async fn catch_up(&self, since: Instant, is_known: impl Fn() -> bool) {
        let member = self.mesh.member();
        member.cluster_maps().catch_up(since, is_known).await;
    }

    /// Someone who asks at this node.
    fn asking_here(&self, by: &Author) -> Author {
        Author {
            node: self.node.to_string(),
            ..by.clone()
        }
    }

    /// Whether a token that is named is one of its user's, as far as is known here.
    fn is_held(&self, which: &TokenSelection) -> bool {
        match which {
            TokenSelection::Text(user, text) => {
                let held = self.accounts.admin_by_token(user.as_str(), &text.0);
                held.is_some()
            }
            TokenSelection::Id(user, id) => self.accounts.has_token(user.as_str(), *id),
            TokenSelection::OfUser(_) | TokenSelection::All => true,
        }
    }

    /// What is shown of a token, with its use here, which the leader may not know yet.
    fn with_use(&self, mut view: UserTokenView) -> UserTokenView {
        let here = self.accounts.uses().last_s(view.id);
        let here = here.map(|at_s| at_s.saturating_mul(1_000));
        view.last_used_ms = view.last_used_ms.max(here);
        view
    }
}

fn no_user(name: &impl ToString) -> PortError {
    PortError::NoUser(name.to_string())
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
        let by = self.asking_here(by);
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
        by: &Author,
        password: &str,
        terms: LoginTerms,
    ) -> Result<Login, PortError> {
        let user: UserName = by.user.parse().map_err(|_| no_user(&by.user))?;
        let request = LogIn {
            by: self.asking_here(by),
            password: Hidden(password.to_owned()),
            trust: terms.trust,
            name: terms.name,
            at_s: clock::now_s(),
            number: rand::random(),
        };
        match self.ask(request).await? {
            Ok(LoggedIn { token, admin }) => Ok(Login {
                user,
                token: token.text.0,
                admin,
            }),
            Err(Denial::NoUser) => Err(no_user(&by.user)),
            Err(Denial::Busy) => Err(PortError::LoginsBusy),
            Err(Denial::WrongPassword) => Err(PortError::WrongPassword),
        }
    }

    async fn login_vouched(&self, by: &Author, name: String) -> Result<Login, PortError> {
        let user: UserName = by.user.parse().map_err(|_| no_user(&by.user))?;
        let request = LogInVouched {
            by: self.asking_here(by),
            name,
            at_s: clock::now_s(),
            number: rand::random(),
        };
        let issued = self.ask(request).await?;
        let LoggedIn { token, admin } = issued.map_err(|_| no_user(&by.user))?;
        Ok(Login {
            user,
            token: token.text.0,
            admin,
        })
    }

    async fn check_token(&self, token: &str) -> Result<TokenInfo, PortError> {
        let arrived = Instant::now();
        let known = match self.known(token)? {
            Some(known) => Some(known),
            // Perhaps it was issued elsewhere a moment ago.
            None => {
                let is_known = || !matches!(self.known(token), Ok(None));
                self.catch_up(arrived, is_known).await;
                self.known(token)?
            }
        };
        let (claims, admin) = known.ok_or(PortError::InvalidToken)?;
        let id: UserTokenId = claims.id().ok_or(PortError::InvalidToken)?;
        self.accounts
            .uses()
            .note(&claims.username, id, clock::now_s());
        Ok(TokenInfo {
            id,
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

    async fn token_views(&self, user: &UserName) -> Result<Vec<UserTokenView>, PortError> {
        let request = ListUserTokens { user: user.clone() };
        let views = self.mesh.ask(request).await.map_err(unanswered)?;
        let views = views.map_err(|_| no_user(user))?.into_iter();
        Ok(views.map(|view| self.with_use(view)).collect())
    }

    async fn issue_token(
        &self,
        by: &Author,
        user: &UserName,
        token: NewUserToken,
    ) -> Result<IssuedUserToken, PortError> {
        let request = IssueToken {
            user: user.clone(),
            token,
            by: self.asking_here(by),
            at_s: clock::now_s(),
            number: rand::random(),
        };
        let issued = self.ask(request).await?;
        issued.map(|it| it.token).map_err(|_| no_user(user))
    }

    async fn revoke_tokens(&self, by: &Author, which: TokenSelection) -> Result<u32, PortError> {
        if !self.is_held(&which) {
            // Perhaps it was issued elsewhere a moment ago.
            self.catch_up(Instant::now(), || self.is_held(&which)).await;
        }
        if !self.is_held(&which) {
            return Err(PortError::NoToken);
        }
        let by = self.asking_here(by);
        let revoked = self
            .ask(ForgetTokens {
                which: which.clone(),
                by,
            })
            .await?;
        match (revoked, which.user()) {
            (Ok(revoked), _) => Ok(revoked),
            (Err(_), Some(user)) => Err(no_user(user)),
            (Err(_), None) => Ok(0),
        }
    }

    async fn rotate_token_key(&self, by: &Author) -> Result<u32, PortError> {
        let by = self.asking_here(by);
        let number = self.mesh.ask(RotateTokenKey { by }).await;
        let number = number.map_err(unanswered)?;
        // If that fails, the loop does it.
        self.mesh.member().cluster_maps().refresh_now().await;
        Ok(number)
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
