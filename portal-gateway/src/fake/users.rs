//! Users in memory: who comes in, and the record of changes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use muster_model::id::{UserName, VcName};
use muster_model::login::LoginTrust;
use muster_model::people::{
    AuditLog, AuditRecord, Author, NewPassword, PeopleChange, PeopleDenial,
};
use muster_model::secret::Hidden;

use super::people::{FakePeople, FakeUser, subject};
use super::{FakeCluster, NOW_S};
use crate::port::{Caller, GroupView, Login, PortError, TokenInfo, UserView, Users};

/// How long tokens work, in seconds.
const LIFE_S: u64 = 604_800;

#[derive(Debug, Default)]
pub(super) struct FakeUsers {
    people: FakePeople,
    tokens: BTreeMap<String, Caller>,
    /// The oldest first.
    audit: Vec<AuditRecord>,
    /// Changes that come in from elsewhere, each before the next one of here.
    concurrent: Vec<PeopleChange>,
    is_crowded: bool,
}

impl FakeCluster {
    /// Adds a user, with what their groups allow.
    pub fn add_user(&self, password: &str, user: UserView) {
        let password = NewPassword::Plain(Hidden(password.to_owned()));
        self.state().users.people.put_user(password, user);
    }

    /// Adds a virtual cluster that users may be granted, with its group.
    pub fn grant_vc(&self, vc: VcName) {
        self.state().users.people.add_vc(vc);
    }

    /// From now on there are too many logins at a time.
    pub fn crowd(&self) {
        self.state().users.is_crowded = true;
    }

    /// Makes a token valid for a caller.
    pub fn add_token(&self, token: &str, caller: Caller) {
        self.state().users.tokens.insert(token.to_owned(), caller);
    }

    /// Right before the next change of here this one comes in from elsewhere.
    pub fn change_first(&self, change: PeopleChange) {
        self.state().users.concurrent.push(change);
    }

    fn let_in(&self, view: UserView, token: String) -> Login {
        let caller = Caller {
            user: view.name.clone(),
            admin: view.admin,
            application: false,
        };
        self.add_token(&token, caller);
        Login {
            user: view.name,
            token,
            admin: view.admin,
        }
    }

    fn found(&self, name: &str) -> Result<(FakeUser, UserView), PortError> {
        let people = &self.state().users.people;
        let found = people.find(name);
        let found = found.ok_or_else(|| PortError::NoUser(name.to_owned()))?;
        Ok((found.clone(), people.view(found)))
    }
}

impl FakeUsers {
    /// What a user may do, if there is one.
    pub(super) fn rights(&self, user: &UserName) -> Option<UserView> {
        let found = self.people.find(user.as_str())?;
        Some(self.people.view(found))
    }

    fn change(&mut self, by: &Author, change: &PeopleChange) -> Result<(), PeopleDenial> {
        let (action, subject) = subject(change);
        let mut people = self.people.clone();
        people.apply(change)?;
        if self.people.has_admin() && !people.has_admin() {
            return Err(PeopleDenial::LastAdmin(subject.to_owned()));
        }
        let (before, after) = (self.people.record(change), people.record(change));
        self.people = people;
        self.revoke(change);
        self.audit.push(AuditRecord {
            number: self.audit.len() as u64 + 1,
            at_ms: NOW_S * 1_000,
            by: by.clone(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            before,
            after,
        });
        Ok(())
    }

    /// Ends the tokens that do not outlive a change.
    fn revoke(&mut self, change: &PeopleChange) {
        match change {
            PeopleChange::RemoveUser { user, .. } => self.tokens.retain(|_, of| of.user != *user),
            PeopleChange::ChangeUser { user, patch } if patch.password.is_some() => self
                .tokens
                .retain(|_, of| of.user != *user || of.application),
            _ => {}
        }
    }
}

#[async_trait]
impl Users for FakeCluster {
    async fn list(&self) -> Result<Vec<UserView>, PortError> {
        Ok(self.state().users.people.users())
    }

    async fn user(&self, name: &str) -> Result<UserView, PortError> {
        Ok(self.found(name)?.1)
    }

    async fn groups(&self) -> Result<Vec<GroupView>, PortError> {
        Ok(self.state().users.people.groups())
    }

    async fn change(&self, by: &Author, change: PeopleChange) -> Result<(), PortError> {
        let users = &mut self.state().users;
        if users.is_crowded {
            return Err(PeopleDenial::Busy.into());
        }
        if let Some(first) = users.concurrent.pop() {
            users.change(by, &first)?;
        }
        Ok(users.change(by, &change)?)
    }

    async fn audit(&self, subject: Option<&str>, limit: usize) -> Result<AuditLog, PortError> {
        let users = &self.state().users;
        let of_subject = |record: &&AuditRecord| subject.is_none_or(|it| it == record.subject);
        let newest = users.audit.iter().rev().filter(of_subject).take(limit);
        Ok(AuditLog {
            records: newest.cloned().collect(),
            dropped: 0,
        })
    }

    async fn login(&self, user: &str, password: &str, _: LoginTrust) -> Result<Login, PortError> {
        if self.state().users.is_crowded {
            return Err(PortError::LoginsBusy);
        }
        let (kept, view) = self.found(user)?;
        if !kept.is_password(password) {
            return Err(PortError::WrongPassword);
        }
        let token = match kept.passwords {
            1 => format!("token-of-{}", view.name),
            nth => format!("token-of-{}-{nth}", view.name),
        };
        Ok(self.let_in(view, token))
    }

    async fn login_vouched(&self, user: &UserName) -> Result<Login, PortError> {
        let (_, view) = self.found(user.as_str())?;
        Ok(self.let_in(view, format!("vouched-token-of-{user}")))
    }

    async fn check_token(&self, token: &str) -> Result<TokenInfo, PortError> {
        let users = &self.state().users;
        let mut caller = users.tokens.get(token).cloned();
        if let Some(caller) = &mut caller
            && let Some(user) = users.people.find(caller.user.as_str())
        {
            caller.admin = users.people.view(user).admin;
        }
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
