//! Who comes in: passwords, and tokens issued, checked and revoked.
//!
//! A node looks at what the cluster told it, and asks the member that leads the cluster's affairs
//! for every change.

use std::sync::Arc;

use muster_control::cluster::Hidden;
use muster_control::request::cluster::{
    Denial, ForgetToken, IssueToken, LogIn, LoggedIn, OfCluster,
};
use muster_control::request::{Answers, Failure, Refusal};
use muster_model::id::UserName;
use muster_model::login::Trust;
use muster_portal_gateway::cluster::{Caller, Error, Login, TokenInfo};
use muster_portal_gateway::token::Claims;
use tokio::time::Instant;

use crate::accounts::Accounts;
use crate::affairs::Affairs;
use crate::causes::causes;
use crate::clock;
use crate::mesh;

/// Lets users in. Handles only.
#[derive(Debug)]
pub(crate) struct Logins {
    accounts: Accounts,
    mesh: Arc<mesh::Service>,
}

impl Logins {
    pub(crate) fn new(accounts: Accounts, mesh: Arc<mesh::Service>) -> Self {
        Self { accounts, mesh }
    }

    /// Checks a password and issues a token.
    ///
    /// # Errors
    /// When there is no such user, or the password is wrong, or nobody can say so now.
    pub(crate) async fn login(
        &self,
        name: &str,
        password: &str,
        trust: Trust,
    ) -> Result<Login, Error> {
        let no_user = || Error::NoUser(name.to_owned());
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
            Err(Denial::Busy) => Err(Error::LoginsBusy),
            Err(Denial::WrongPassword) => Err(Error::WrongPassword),
        }
    }

    /// Who came with this token.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], also when it was revoked.
    pub(crate) async fn check(&self, token: &str) -> Result<TokenInfo, Error> {
        let arrived = Instant::now();
        let known = match self.known(token)? {
            Some(known) => Some(known),
            // Perhaps it was issued elsewhere a moment ago.
            None => {
                self.catch_up(arrived, token).await;
                self.known(token)?
            }
        };
        let (claims, admin) = known.ok_or(Error::InvalidToken)?;
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

    /// What a token says whose signature is right, and whether its user may do everything; none
    /// if the user does not hold it.
    fn known(&self, token: &str) -> Result<Option<(Claims, bool)>, Error> {
        let keyring = self.accounts.keyring().map_err(unavailable)?;
        let claims = keyring
            .checked
            .claims(&keyring.issuer, token, clock::now_s())
            .map_err(|_| Error::InvalidToken)?;
        let user = claims.username.as_str();
        let admin = self.accounts.admin_by_token(user, token);
        Ok(admin.map(|admin| (claims, admin)))
    }

    /// A token for a program of the user's.
    ///
    /// # Errors
    /// When there is no such user, or nobody can issue one now.
    pub(crate) async fn issue_application_token(&self, user: &UserName) -> Result<String, Error> {
        let no_user = || Error::NoUser(user.to_string());
        let request = IssueToken {
            user: user.to_string(),
            at_s: clock::now_s(),
            number: rand::random(),
        };
        let issued = self.ask(request).await?;
        issued.map(|issued| issued.token.0).map_err(|_| no_user())
    }

    /// Makes a token invalid, here before this returns, elsewhere within about a second.
    ///
    /// # Errors
    /// When the user holds no such token, or nobody can do so now.
    pub(crate) async fn revoke(&self, user: &UserName, token: &str) -> Result<(), Error> {
        let is_held = || self.accounts.admin_by_token(user.as_str(), token).is_some();
        if !is_held() {
            // Perhaps it was issued elsewhere a moment ago.
            self.catch_up(Instant::now(), token).await;
        }
        if !is_held() {
            return Err(Error::NoToken);
        }
        let request = ForgetToken {
            user: user.to_string(),
            text: Hidden(token.to_owned()),
        };
        // A user that there is not holds no token either.
        self.ask(request).await.map(drop)
    }

    /// Asks for a change, and learns of it before the client does.
    async fn ask<T, R>(&self, request: R) -> Result<Result<T, Denial>, Error>
    where
        R: OfCluster<Answer = Result<T, Denial>>,
        Affairs: Answers<R>,
    {
        let answer = self.mesh.ask(request).await.map_err(unanswered)?;
        if answer.is_ok() {
            // If that fails, the loop does it.
            let member = self.mesh.member();
            let _ = member.briefings().refresh(Instant::now()).await;
        }
        Ok(answer)
    }

    async fn catch_up(&self, since: Instant, token: &str) {
        let is_known = || !matches!(self.known(token), Ok(None));
        let member = self.mesh.member();
        member.briefings().catch_up(since, is_known).await;
    }
}

fn unavailable(error: impl std::error::Error) -> Error {
    Error::Unavailable(causes(&error))
}

/// Nothing that keeps the cluster from answering is the client's fault.
fn unanswered(error: mesh::Error) -> Error {
    match error {
        mesh::Error::Undone(Failure::Refused(Refusal::Invalid(text))) => Error::Invalid(text),
        error => Error::Unavailable(error.to_string()),
    }
}
