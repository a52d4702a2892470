//! Users in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use muster_model::id::UserName;
use muster_model::login::LoginTrust;

use super::{FakeCluster, NOW_S};
use crate::port::{Caller, Login, PortError, TokenInfo, UserView, Users};

/// How long tokens work, in seconds.
const LIFE_S: u64 = 604_800;

#[derive(Debug, Default)]
pub(super) struct FakeUsers {
    /// With their passwords.
    users: BTreeMap<String, (String, UserView)>,
    tokens: BTreeMap<String, Caller>,
    is_crowded: bool,
}

impl FakeCluster {
    /// Adds a user.
    pub fn add_user(&self, password: &str, user: UserView) {
        let entry = (password.to_owned(), user);
        let name = entry.1.name.to_string();
        self.state().users.users.insert(name, entry);
    }

    /// From now on there are too many logins at a time.
    pub fn crowd(&self) {
        self.state().users.is_crowded = true;
    }

    /// Makes a token valid for a caller.
    pub fn add_token(&self, token: &str, caller: Caller) {
        self.state().users.tokens.insert(token.to_owned(), caller);
    }

    fn found(&self, name: &str) -> Result<(String, UserView), PortError> {
        let found = self.state().users.users.get(name).cloned();
        found.ok_or_else(|| PortError::NoUser(name.to_owned()))
    }
}

#[async_trait]
impl Users for FakeCluster {
    async fn list(&self) -> Result<Vec<UserView>, PortError> {
        let state = self.state();
        let users = state.users.users.values();
        Ok(users.map(|(_, user)| user.clone()).collect())
    }

    async fn user(&self, name: &str) -> Result<UserView, PortError> {
        Ok(self.found(name)?.1)
    }

    async fn login(&self, user: &str, password: &str, _: LoginTrust) -> Result<Login, PortError> {
        if self.state().users.is_crowded {
            return Err(PortError::LoginsBusy);
        }
        let (right, view) = self.found(user)?;
        if right != password {
            return Err(PortError::WrongPassword);
        }
        let (user, admin) = (view.name, view.admin);
        let token = format!("token-of-{user}");
        let caller = Caller {
            user: user.clone(),
            admin,
            application: false,
        };
        self.add_token(&token, caller);
        Ok(Login { user, token, admin })
    }

    async fn check_token(&self, token: &str) -> Result<TokenInfo, PortError> {
        let caller = self.state().users.tokens.get(token).cloned();
        let caller = caller.ok_or(PortError::InvalidToken)?;
        Ok(TokenInfo {
            issued: NOW_S,
            expires: (!caller.application).then_some(NOW_S + LIFE_S),
            caller,
        })
    }

    async fn tokens(&self, user: &UserName) -> Result<Vec<String>, PortError> {
        let state = self.state();
        let tokens = state.users.tokens.iter();
        let own = tokens.filter(|(_, of)| of.user == *user);
        Ok(own.map(|(token, _)| token.clone()).collect())
    }

    async fn issue_application_token(&self, user: &UserName) -> Result<String, PortError> {
        let (_, view) = self.found(user.as_str())?;
        let token = format!("application-of-{user}");
        let caller = Caller {
            user: view.name,
            admin: view.admin,
            application: true,
        };
        self.add_token(&token, caller);
        Ok(token)
    }

    async fn revoke_token(&self, user: &UserName, token: &str) -> Result<(), PortError> {
        let tokens = &mut self.state().users.tokens;
        if tokens.get(token).is_none_or(|of| of.user != *user) {
            return Err(PortError::NoToken);
        }
        tokens.remove(token);
        Ok(())
    }
}
