//! Users in memory: who comes in, and the record of changes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use muster_model::id::{UserName, VcName};
use muster_model::people::{
    AuditLog, AuditRecord, Author, NewPassword, PeopleChange, PeopleDenial,
};
use muster_model::secret::Hidden;
use muster_model::user_token::{
    IssuedUserToken, LOGIN_LIFE_S, NewUserToken, TokenKind, TokenSelection, UserTokenId,
    UserTokenView,
};

use super::people::{FakePeople, FakeUser, subject};
use super::{FakeCluster, NOW_S};
use crate::port::{Caller, GroupView, Login, LoginTerms, PortError, TokenInfo, UserView, Users};

#[derive(Clone, Debug)]
struct FakeToken {
    caller: Caller,
    view: UserTokenView,
}

impl FakeToken {
    fn is_selected(&self, text: &str, which: &TokenSelection) -> bool {
        let user = &self.caller.user;
        match which {
            TokenSelection::Text(of, wanted) => user == of && wanted.0 == text,
            TokenSelection::Id(of, id) => user == of && self.view.id == *id,
            TokenSelection::OfUser(of) => user == of,
            TokenSelection::All => true,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct FakeUsers {
    people: FakePeople,
    tokens: BTreeMap<String, FakeToken>,
    /// How many tokens were made.
    made: u64,
    /// How often their key was changed.
    key_changes: u32,
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
        let life_s = (!caller.application).then_some(LOGIN_LIFE_S);
        let terms = NewUserToken {
            name: String::new(),
            life_s,
        };
        self.state().users.keep(token, caller, terms);
    }

    /// Right before the next change of here this one comes in from elsewhere.
    pub fn change_first(&self, change: PeopleChange) {
        self.state().users.concurrent.push(change);
    }

    fn let_in(&self, by: &Author, view: UserView, (token, name): (String, String)) -> Login {
        let caller = Caller {
            user: view.name.clone(),
            admin: view.admin,
            application: false,
        };
        let new = NewUserToken {
            name,
            life_s: Some(LOGIN_LIFE_S),
        };
        let users = &mut self.state().users;
        users.keep(&token, caller, new);
        users.record(by, "token.issue", (view.name.as_str(), String::new()));
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
            PeopleChange::RemoveUser { user, .. } => {
                self.tokens.retain(|_, it| it.caller.user != *user);
            }
            PeopleChange::ChangeUser { user, patch } if patch.password.is_some() => self
                .tokens
                .retain(|_, it| it.caller.user != *user || it.caller.application),
            _ => {}
        }
    }

    fn keep(&mut self, text: &str, caller: Caller, new: NewUserToken) -> UserTokenView {
        self.made += 1;
        let ms = |seconds: u64| seconds * 1_000;
        let view = UserTokenView {
            id: UserTokenId(self.made),
            name: new.name,
            kind: match caller.application {
                true => TokenKind::Application,
                false => TokenKind::Login,
            },
            issued_ms: ms(NOW_S),
            expires_ms: new.life_s.map(|life_s| ms(NOW_S + life_s)),
            last_used_ms: None,
            address: "10.0.0.1".to_owned(),
        };
        let token = FakeToken {
            caller,
            view: view.clone(),
        };
        self.tokens.insert(text.to_owned(), token);
        view
    }

    fn record(&mut self, by: &Author, action: &str, (subject, after): (&str, String)) {
        self.audit.push(AuditRecord {
            number: self.audit.len() as u64 + 1,
            at_ms: NOW_S * 1_000,
            by: by.clone(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            before: String::new(),
            after,
        });
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

    async fn login(
        &self,
        by: &Author,
        password: &str,
        terms: LoginTerms,
    ) -> Result<Login, PortError> {
        let user = &by.user;
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
        Ok(self.let_in(by, view, (token, terms.name)))
    }

    async fn login_vouched(&self, by: &Author, name: String) -> Result<Login, PortError> {
        let (_, view) = self.found(&by.user)?;
        let token = format!("vouched-token-of-{}", by.user);
        Ok(self.let_in(by, view, (token, name)))
    }

    async fn check_token(&self, token: &str) -> Result<TokenInfo, PortError> {
        let users = &self.state().users;
        let found = users.tokens.get(token).ok_or(PortError::InvalidToken)?;
        let FakeToken { mut caller, view } = found.clone();
        if let Some(user) = users.people.find(caller.user.as_str()) {
            caller.admin = users.people.view(user).admin;
        }
        Ok(TokenInfo {
            id: view.id,
            issued: NOW_S,
            expires: view.expires_ms.map(|ms| ms / 1_000),
            caller,
        })
    }

    async fn tokens(&self, user: &UserName) -> Result<Vec<String>, PortError> {
        let state = self.state();
        let tokens = state.users.tokens.iter();
        let own = tokens.filter(|(_, it)| it.caller.user == *user);
        Ok(own.map(|(token, _)| token.clone()).collect())
    }

    async fn token_views(&self, user: &UserName) -> Result<Vec<UserTokenView>, PortError> {
        self.found(user.as_str())?;
        let state = self.state();
        let tokens = state.users.tokens.values();
        let own = tokens.filter(|it| it.caller.user == *user);
        let mut views: Vec<UserTokenView> = own.map(|it| it.view.clone()).collect();
        views.sort_by_key(|view| view.id);
        Ok(views)
    }

    async fn issue_token(
        &self,
        by: &Author,
        user: &UserName,
        token: NewUserToken,
    ) -> Result<IssuedUserToken, PortError> {
        let (_, view) = self.found(user.as_str())?;
        let text = match token.name.as_str() {
            "" => format!("application-of-{user}"),
            name => format!("application-of-{user}-{name}"),
        };
        let caller = Caller {
            user: view.name,
            admin: view.admin,
            application: true,
        };
        let users = &mut self.state().users;
        let view = users.keep(&text, caller, token);
        let shown = (user.as_str(), format!(r#"{{"id":"{}"}}"#, view.id));
        users.record(by, "token.issue", shown);
        let text = Hidden(text);
        Ok(IssuedUserToken { text, view })
    }

    async fn revoke_tokens(&self, by: &Author, which: TokenSelection) -> Result<u32, PortError> {
        let users = &mut self.state().users;
        if let TokenSelection::OfUser(user) = &which {
            let found = users.people.find(user.as_str());
            found.ok_or_else(|| PortError::NoUser(user.to_string()))?;
        }
        let before = users.tokens.len();
        users
            .tokens
            .retain(|text, it| !it.is_selected(text, &which));
        let revoked = before - users.tokens.len();
        if revoked > 0 {
            let subject = which.user().map_or("*", UserName::as_str);
            users.record(by, "token.revoke", (subject, String::new()));
        }
        match which {
            TokenSelection::Text(..) | TokenSelection::Id(..) if revoked == 0 => {
                Err(PortError::NoToken)
            }
            _ => Ok(u32::try_from(revoked).unwrap_or(u32::MAX)),
        }
    }

    async fn rotate_token_key(&self, by: &Author) -> Result<u32, PortError> {
        let users = &mut self.state().users;
        users.key_changes += 1;
        users.record(by, "token.rotate-key", ("*", String::new()));
        Ok(users.key_changes + 1)
    }
}
