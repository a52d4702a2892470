//! Who comes in: passwords, and tokens issued, checked and revoked.
//!
//! On its own, a node does all that with its own users. A member looks at what the cluster told
//! it, and asks the member that leads the cluster's affairs for every change.

use std::sync::Arc;

use muster_control::cluster::Hidden;
use muster_model::id::UserName;
use muster_portal_gateway::cluster::{Caller, Error, Login, TokenInfo, Trust};
use muster_portal_gateway::token::{Claims, Kind};
use tokio::time::Instant;

use crate::accounts::Accounts;
use crate::affairs::question::{Answer, Denial, Question, Rejection};
use crate::causes::causes;
use crate::clock;
use crate::mesh;
use crate::passwords::{Busy, PasswordChecks};
use crate::users::{self, Users};

/// Lets users in. Handles only.
#[derive(Debug)]
pub(crate) struct Logins {
    accounts: Accounts,
    mesh: Arc<mesh::Service>,
    checks: PasswordChecks,
}

impl Logins {
    pub(crate) fn new(accounts: Accounts, mesh: Arc<mesh::Service>) -> Self {
        Self {
            accounts,
            mesh,
            checks: PasswordChecks::default(),
        }
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
        if let Some(own) = self.accounts.own() {
            let hash = own.look(name, |user| user.password_hash.clone());
            let is_user = hash.is_some();
            let right = self.checks.is_right(hash, password, trust).await;
            if !right.map_err(|Busy| Error::LoginsBusy)? {
                return Err(if is_user {
                    Error::WrongPassword
                } else {
                    no_user()
                });
            }
            let token = self.issue_own(own, &user, Kind::User)?;
            let admin = own.look(name, |user| user.admin).unwrap_or_default();
            return Ok(Login { user, token, admin });
        }
        let question = Question::Login {
            user: name.to_owned(),
            password,
            trust,
            at_s: clock::now_s(),
            number: rand::random(),
        };
        match self.ask(question).await? {
            Answer::LoggedIn { token, admin } => Ok(Login {
                user,
                token: token.0,
                admin,
            }),
            Answer::Denied(Denial::NoUser) => Err(no_user()),
            Answer::Denied(Denial::Busy) => Err(Error::LoginsBusy),
            Answer::Denied(Denial::WrongPassword) => Err(Error::WrongPassword),
            answer => Err(odd(&answer)),
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
            None if self.accounts.own().is_none() => {
                self.catch_up(arrived, token).await;
                self.known(token)?
            }
            None => None,
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
        if let Some(own) = self.accounts.own() {
            own.look(user.as_str(), |_| ()).ok_or_else(no_user)?;
            return self.issue_own(own, user, Kind::Application);
        }
        let question = Question::IssueToken {
            user: user.to_string(),
            at_s: clock::now_s(),
            number: rand::random(),
        };
        match self.ask(question).await? {
            Answer::LoggedIn { token, .. } => Ok(token.0),
            Answer::Denied(_) => Err(no_user()),
            answer => Err(odd(&answer)),
        }
    }

    /// Makes a token invalid, here before this returns, elsewhere within about a second.
    ///
    /// # Errors
    /// When the user holds no such token, or nobody can do so now.
    pub(crate) async fn revoke(&self, user: &UserName, token: &str) -> Result<(), Error> {
        let is_held = || self.accounts.admin_by_token(user.as_str(), token).is_some();
        if !is_held() && self.accounts.own().is_none() {
            // Perhaps it was issued elsewhere a moment ago.
            self.catch_up(Instant::now(), token).await;
        }
        if !is_held() {
            return Err(Error::NoToken);
        }
        if let Some(own) = self.accounts.own() {
            let removed = || own.remove_token(user.as_str(), token);
            return tokio::task::block_in_place(removed).map_err(unavailable);
        }
        let question = Question::ForgetToken {
            user: user.to_string(),
            text: Hidden(token.to_owned()),
        };
        match self.ask(question).await? {
            Answer::Done | Answer::Denied(_) => Ok(()),
            answer => Err(odd(&answer)),
        }
    }

    fn issue_own(&self, own: &Users, user: &UserName, kind: Kind) -> Result<String, Error> {
        let now_s = clock::now_s();
        let keyring = self.accounts.keyring().map_err(unavailable)?;
        let token = keyring.issuer.issue(user, kind, now_s, rand::random());
        let token = token.map_err(unavailable)?;
        let expires = keyring.issuer.verify(&token, now_s).map_err(unavailable)?;
        let add = || own.add_token(user.as_str(), &token, expires.exp, now_s);
        tokio::task::block_in_place(add).map_err(not_kept)?;
        Ok(token)
    }

    /// Asks for a change, and learns of it before the client does.
    async fn ask(&self, question: Question) -> Result<Answer, Error> {
        let answer = self.mesh.ask(question).await.map_err(unanswered)?;
        if !matches!(answer, Answer::Denied(_))
            && let Some(member) = self.mesh.member().await
        {
            // If that fails, the loop does it.
            let _ = member.briefings().refresh(Instant::now()).await;
        }
        Ok(answer)
    }

    async fn catch_up(&self, since: Instant, token: &str) {
        let is_known = || !matches!(self.known(token), Ok(None));
        if let Some(member) = self.mesh.member().await {
            member.briefings().catch_up(since, is_known).await;
        }
    }
}

fn not_kept(error: users::Error) -> Error {
    match error {
        users::Error::TooMany(error) => Error::Invalid(error.to_string()),
        error => unavailable(error),
    }
}

fn unavailable(error: impl std::error::Error) -> Error {
    Error::Unavailable(causes(&error))
}

/// Nothing that keeps the cluster from answering is the client's fault.
fn unanswered(error: mesh::Error) -> Error {
    match error {
        mesh::Error::Rejected(Rejection::Invalid(text)) => Error::Invalid(text),
        error => Error::Unavailable(error.to_string()),
    }
}

fn odd(answer: &Answer) -> Error {
    tracing::error!(?answer, "the answer does not fit the question");
    Error::Unavailable("the node that leads the cluster's affairs answered nonsense".to_owned())
}
