//! Users: logins, tokens, and what members are told of both.

use muster_control::cluster::{
    Briefing, ClusterState, Entry, Hidden, Keys, Rejected, TOKEN_TEXT_MAX, User, UserToken,
};
use muster_control::request::cluster::{
    Denial, ForgetToken, GetBriefing, IssueToken, LogIn, LoggedIn,
};
use muster_control::request::{Answers, Failure};
use muster_gossip::member::MemberId;
use muster_model::id::UserName;
use muster_portal_gateway::token::{Issuer, Kind};

use crate::passwords::Busy;

use super::Affairs;

/// So far, in seconds, the clock of whoever asks may be from this one. Within it a token bears the
/// time of the question, so that a question asked twice gives one token.
const SKEW_S: u64 = 60;

impl Answers<GetBriefing> for Affairs {
    async fn answer(&self, _: MemberId, _: GetBriefing) -> Result<Briefing, Failure> {
        let briefing = self.group.read(ClusterState::briefing).await?;
        briefing.ok_or_else(|| Rejected::NotFounded.into())
    }
}

impl Answers<LogIn> for Affairs {
    async fn answer(
        &self,
        _: MemberId,
        request: LogIn,
    ) -> Result<Result<LoggedIn, Denial>, Failure> {
        let LogIn {
            user,
            password,
            trust,
            at_s,
            number,
        } = request;
        let found = self.user(&user).await?;
        let hash = found.as_ref().map(|(_, user, _)| &user.password_hash);
        let right = self.checks.is_right(hash.cloned(), password, trust).await;
        let (name, user, keys) = match (right, found) {
            (Err(Busy), _) => return Ok(Err(Denial::Busy)),
            (Ok(_), None) => return Ok(Err(Denial::NoUser)),
            (Ok(false), Some(_)) => return Ok(Err(Denial::WrongPassword)),
            (Ok(true), Some(found)) => found,
        };
        let stamp = (at_s, number);
        let issued = self.issue(&name, &user, &keys, (Kind::User, stamp)).await;
        issued.map(Ok)
    }
}

impl Answers<IssueToken> for Affairs {
    async fn answer(
        &self,
        _: MemberId,
        request: IssueToken,
    ) -> Result<Result<LoggedIn, Denial>, Failure> {
        let Some((name, user, keys)) = self.user(&request.user).await? else {
            return Ok(Err(Denial::NoUser));
        };
        let kind = (Kind::Application, (request.at_s, request.number));
        let issued = self.issue(&name, &user, &keys, kind).await;
        issued.map(Ok)
    }
}

impl Answers<ForgetToken> for Affairs {
    async fn answer(
        &self,
        _: MemberId,
        ForgetToken { user, text }: ForgetToken,
    ) -> Result<Result<(), Denial>, Failure> {
        let Ok(user) = user.parse() else {
            return Ok(Err(Denial::NoUser));
        };
        if text.0.len() > TOKEN_TEXT_MAX {
            // Nobody holds it.
            return Ok(Ok(()));
        }
        let forget = Entry::UserTokenRevoked { user, text };
        match self.order(&forget).await? {
            Ok(_) => Ok(Ok(())),
            Err(Rejected::NoUser(_)) => Ok(Err(Denial::NoUser)),
            Err(rejected) => Err(rejected.into()),
        }
    }
}

impl Affairs {
    /// A user, and the keys.
    async fn user(&self, name: &str) -> Result<Option<(UserName, User, Keys)>, Failure> {
        let Ok(name) = name.parse::<UserName>() else {
            return Ok(None);
        };
        let read = self.group.read(move |state| {
            let user = state.user(&name)?.clone();
            Some((name, user, state.keys()?.clone()))
        });
        Ok(read.await?)
    }

    async fn issue(
        &self,
        name: &UserName,
        user: &User,
        keys: &Keys,
        (kind, (at_s, number)): (Kind, (u64, u64)),
    ) -> Result<LoggedIn, Failure> {
        let failed = |error: muster_portal_gateway::token::Error| {
            tracing::error!(%error, "a token cannot be made");
            Failure::unavailable("the cluster's key of tokens cannot be used")
        };
        let now_s = crate::clock::now_s();
        let issuer = Issuer::new(&keys.token.0).map_err(failed)?;
        let text = issuer.issue(name, kind, stamp(at_s, now_s), number);
        let text = text.map_err(failed)?;
        let expires_s = issuer.verify(&text, now_s).map_err(failed)?.exp;
        let text = Hidden(text);
        let entry = Entry::UserToken {
            user: name.clone(),
            token: UserToken {
                text: text.clone(),
                expires_s,
            },
            now_s,
        };
        self.commit(&entry).await?;
        Ok(LoggedIn {
            token: text,
            admin: user.admin,
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
