//! Users: logins, tokens, and what members are told of both.

use muster_gossip::member::MemberId;
use muster_model::id::UserName;
use muster_model::people::{Author, NewPassword};

use super::ClusterService;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort, WantedToken, WantedTokenKind};
use crate::cluster::{
    ClusterEntry, ClusterMap, ClusterRejection, ClusterState, ClusterUser, Hidden, Keys,
    PeopleEdit, TOKEN_TEXT_MAX, UserFields, UserToken,
};
use crate::request::cluster::{
    Denial, ForgetToken, GetClusterMap, IssueToken, LogIn, LogInVouched, LoggedIn,
};
use crate::request::{Answers, RequestFailure};

/// Seconds by which the clock of the asking node may differ from this one. Within them a token bears the
/// time of the question, so that a question asked twice gives one token.
const SKEW_S: u64 = 60;
/// How the hashes begin that were imported.
const IMPORTED_HASH: &str = "$pbkdf2-";

/// A user, with what a login needs.
struct FoundUser {
    name: UserName,
    user: ClusterUser,
    /// Whether they may do everything.
    admin: bool,
    keys: Keys,
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
            user,
            password,
            trust,
            at_s,
            number,
        } = request;
        let found = self.user(&user).await?;
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
        let kind = (WantedTokenKind::Person, (at_s, number));
        self.issue(&found, kind).await.map(Ok)
    }
}

impl<P: MemberPort> Answers<IssueToken> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: IssueToken,
    ) -> Result<Result<LoggedIn, Denial>, RequestFailure> {
        let Some(found) = self.user(&request.user).await? else {
            return Ok(Err(Denial::NoUser));
        };
        let kind = (WantedTokenKind::Program, (request.at_s, request.number));
        self.issue(&found, kind).await.map(Ok)
    }
}

impl<P: MemberPort> Answers<LogInVouched> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: LogInVouched,
    ) -> Result<Result<LoggedIn, Denial>, RequestFailure> {
        let Some(found) = self.user(&request.user).await? else {
            return Ok(Err(Denial::NoUser));
        };
        let kind = (WantedTokenKind::Person, (request.at_s, request.number));
        self.issue(&found, kind).await.map(Ok)
    }
}

impl<P: MemberPort> Answers<ForgetToken> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        ForgetToken { user, text }: ForgetToken,
    ) -> Result<Result<(), Denial>, RequestFailure> {
        let Ok(user) = user.parse() else {
            return Ok(Err(Denial::NoUser));
        };
        if text.0.len() > TOKEN_TEXT_MAX {
            // Nobody holds it.
            return Ok(Ok(()));
        }
        let forget = ClusterEntry::UserTokenRevoked { user, text };
        match self.order(&forget).await? {
            Ok(_) => Ok(Ok(())),
            Err(ClusterRejection::NoUser(_)) => Ok(Err(Denial::NoUser)),
            Err(rejected) => Err(rejected.into()),
        }
    }
}

impl<P: MemberPort> ClusterService<P> {
    /// A user, and the keys.
    async fn user(&self, name: &str) -> Result<Option<FoundUser>, RequestFailure> {
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

    async fn issue(
        &self,
        found: &FoundUser,
        (kind, (at_s, number)): (WantedTokenKind, (u64, u64)),
    ) -> Result<LoggedIn, RequestFailure> {
        let now_s = self.now_ms() / 1_000;
        let wanted = WantedToken {
            user: &found.name,
            kind,
            at_s: stamp(at_s, now_s),
            number,
            now_s,
        };
        let issued = self.port.token(&found.keys, &wanted).map_err(|why| {
            self.copies().tell(Event::NoToken(why));
            RequestFailure::unavailable("the cluster's key of tokens cannot be used")
        })?;
        let entry = ClusterEntry::UserToken {
            user: found.name.clone(),
            token: UserToken {
                text: issued.text.clone(),
                expires_s: issued.expires_s,
            },
            now_s,
        };
        self.commit(&entry).await?;
        Ok(LoggedIn {
            token: issued.text,
            admin: found.admin,
        })
    }
}

/// When a token is issued that was asked for at `at_s`.
const fn stamp(at_s: u64, now_s: u64) -> u64 {
    if at_s.abs_diff(now_s) <= SKEW_S {
        at_s
    } else {
        now_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_bears_the_time_of_the_question_unless_that_clock_is_wrong() {
        for (at_s, expect) in [
            (1_000, 1_000),
            (940, 940),
            (1_060, 1_060),
            (939, 1_000),
            (1_061, 1_000),
            (0, 1_000),
        ] {
            assert_eq!(stamp(at_s, 1_000), expect, "{at_s}");
        }
    }
}
