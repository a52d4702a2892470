//! Users: logins, and what members are told of users.

use muster_gossip::member::MemberId;
use muster_model::id::UserName;
use muster_model::people::{Author, NewPassword};
use muster_model::user_token::{NewUserToken, TokenKind, UserTokenId};

use super::ClusterService;
use super::user_tokens::TokenRequest;
use crate::answers::port::MemberPort;
use crate::cluster::{
    ClusterMap, ClusterRejection, ClusterState, ClusterUser, Hidden, Keys, PeopleEdit, UserFields,
};
use crate::request::cluster::{Denial, GetClusterMap, LogIn, LogInVouched, LoggedIn};
use crate::request::{Answers, RequestFailure};

/// How the hashes begin that were imported.
const IMPORTED_HASH: &str = "$pbkdf2-";

/// A user, with what a login needs.
pub(super) struct FoundUser {
    pub(super) name: UserName,
    pub(super) user: ClusterUser,
    /// Whether they may do everything.
    pub(super) admin: bool,
    pub(super) keys: Keys,
}

impl<P: MemberPort> Answers<GetClusterMap> for ClusterService<P> {
    async fn answer(&self, _: MemberId, _: GetClusterMap) -> Result<ClusterMap, RequestFailure> {
        let cluster_map = self.read(ClusterState::cluster_map).await?;
        cluster_map.ok_or_else(|| ClusterRejection::NotFounded.into())
    }
}

impl<P: MemberPort> Answers<LogIn> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: LogIn,
    ) -> Result<Result<LoggedIn, Denial>, RequestFailure> {
        let LogIn {
            by,
            password,
            trust,
            name,
            at_s,
            number,
        } = request;
        let found = self.user(&by.user).await?;
        let hash = found.as_ref().map(|found| found.user.password_hash.clone());
        let given = password.clone();
        let right = self.port.is_right(hash, password, trust).await;
        let found = match (right, found) {
            (None, _) => return Ok(Err(Denial::Busy)),
            (Some(_), None) => return Ok(Err(Denial::NoUser)),
            (Some(false), Some(_)) => return Ok(Err(Denial::WrongPassword)),
            (Some(true), Some(found)) => found,
        };
        self.renew_hash(&found, given).await;
        let ask = TokenRequest {
            kind: TokenKind::Login,
            token: NewUserToken::named(name),
            by,
            at_s,
            id: UserTokenId(number),
        };
        self.issue(&found, ask).await.map(Ok)
    }
}

impl<P: MemberPort> Answers<LogInVouched> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: LogInVouched,
    ) -> Result<Result<LoggedIn, Denial>, RequestFailure> {
        let LogInVouched {
            by,
            name,
            at_s,
            number,
        } = request;
        let Some(found) = self.user(&by.user).await? else {
            return Ok(Err(Denial::NoUser));
        };
        let ask = TokenRequest {
            kind: TokenKind::Login,
            token: NewUserToken::named(name),
            by,
            at_s,
            id: UserTokenId(number),
        };
        self.issue(&found, ask).await.map(Ok)
    }
}

impl<P: MemberPort> ClusterService<P> {
    /// A user, and the keys.
    pub(super) async fn user(&self, name: &str) -> Result<Option<FoundUser>, RequestFailure> {
        let Ok(name) = name.parse::<UserName>() else {
            return Ok(None);
        };
        let read = self.read(move |state| {
            let user = state.user(&name)?.clone();
            Some(FoundUser {
                name,
                admin: state.rights(&user).admin,
                user,
                keys: state.keys()?.clone(),
            })
        });
        Ok(read.await?)
    }

    /// A hash that was imported becomes one of ours, now that the password is known. If that does not come about,
    /// the next login does it.
    async fn renew_hash(&self, found: &FoundUser, password: Hidden<String>) {
        if !found.user.password_hash.0.starts_with(IMPORTED_HASH) {
            return;
        }
        let hash = self
            .port
            .hash(&found.name, NewPassword::Plain(password))
            .await;
        let Ok(password_hash) = hash else {
            return;
        };
        let edit = PeopleEdit::PutUser {
            name: found.name.clone(),
            fields: UserFields {
                password_hash,
                ..found.user.fields()
            },
            forgets_logins: false,
            seen: Some(found.user.revision),
        };
        let by = Author {
            user: found.name.to_string(),
            address: String::new(),
            node: String::new(),
        };
        let _ = self.edit_people(edit, &by).await;
    }
}
