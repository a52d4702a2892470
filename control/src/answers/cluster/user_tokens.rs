//! Tokens of users: issued, listed and revoked; when they were used, and the key that signs them.

use muster_gossip::member::MemberId;
use muster_model::people::Author;
use muster_model::user_token::{
    IssuedUserToken, LOGIN_LIFE_S, NewUserToken, TokenKind, UserTokenId, UserTokenView,
};

use super::ClusterService;
use super::users::FoundUser;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort, WantedToken};
use crate::cluster::{
    ClusterEntry, ClusterRejection, ClusterState, TokenKeyChange, UserToken, UserTokenIssue,
    UserTokensRevocation,
};
use crate::request::cluster::{
    Denial, ForgetTokens, IssueToken, ListUserTokens, LoggedIn, NoteTokenUses, RotateTokenKey,
};
use crate::request::{Answers, RequestFailure};

/// Seconds by which the clock of the asking node may differ from this one. Within them a token bears the
/// time of the question, so that a question asked twice gives one token.
const SKEW_S: u64 = 60;

/// A token that is asked for.
pub(super) struct TokenRequest {
    pub(super) kind: TokenKind,
    pub(super) token: NewUserToken,
    pub(super) by: Author,
    /// When, by the clock of the asking node.
    pub(super) at_s: u64,
    pub(super) id: UserTokenId,
}

impl<P: MemberPort> Answers<IssueToken> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: IssueToken,
    ) -> Result<Result<LoggedIn, Denial>, RequestFailure> {
        let Some(found) = self.user(request.user.as_str()).await? else {
            return Ok(Err(Denial::NoUser));
        };
        let ask = TokenRequest {
            kind: TokenKind::Application,
            token: request.token,
            by: request.by,
            at_s: request.at_s,
            id: UserTokenId(request.number),
        };
        self.issue(&found, ask).await.map(Ok)
    }
}

impl<P: MemberPort> Answers<ForgetTokens> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        ForgetTokens { which, by }: ForgetTokens,
    ) -> Result<Result<u32, Denial>, RequestFailure> {
        let selected = {
            let which = which.clone();
            let read = self.read(move |state| state.selected(&which));
            read.await?
        };
        let revocation = UserTokensRevocation {
            which,
            by,
            now_s: self.now_s(),
        };
        let forget = ClusterEntry::UserTokensRevoked(Box::new(revocation));
        match self.order(&forget).await? {
            Ok(_) => Ok(Ok(u32::try_from(selected).unwrap_or(u32::MAX))),
            Err(ClusterRejection::NoUser(_)) => Ok(Err(Denial::NoUser)),
            Err(rejected) => Err(rejected.into()),
        }
    }
}

impl<P: MemberPort> Answers<ListUserTokens> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        ListUserTokens { user }: ListUserTokens,
    ) -> Result<Result<Vec<UserTokenView>, Denial>, RequestFailure> {
        let now_s = self.now_s();
        let read = move |state: &ClusterState| {
            let user = state.user(&user).ok_or(Denial::NoUser)?;
            Ok(user.valid(now_s).map(UserToken::view).collect())
        };
        Ok(self.read(read).await?)
    }
}

impl<P: MemberPort> Answers<NoteTokenUses> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        NoteTokenUses { mut uses }: NoteTokenUses,
    ) -> Result<(), RequestFailure> {
        let now_s = self.now_s();
        for used in &mut uses {
            // A clock that goes wrong must not hide all later uses.
            used.at_s = used.at_s.min(now_s);
        }
        self.commit(&ClusterEntry::UserTokensUsed { uses }).await?;
        Ok(())
    }
}

impl<P: MemberPort> Answers<RotateTokenKey> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        RotateTokenKey { by }: RotateTokenKey,
    ) -> Result<u32, RequestFailure> {
        let keys = self.read(|state| state.keys().cloned()).await?;
        let keys = keys.ok_or(ClusterRejection::NotFounded)?;
        let next = self.port.next_token_key(&keys);
        let next = next.map_err(|why| self.no_token(why))?;
        let number = keys.token_number.saturating_add(1);
        let change = TokenKeyChange {
            number,
            key: next.key,
            public_before: next.public_before,
            by,
            now_s: self.now_s(),
        };
        self.commit(&ClusterEntry::TokenKeyChanged(Box::new(change)))
            .await?;
        Ok(number)
    }
}

impl<P: MemberPort> ClusterService<P> {
    fn now_s(&self) -> u64 {
        self.now_ms() / 1_000
    }

    fn no_token(&self, why: String) -> RequestFailure {
        self.copies().tell(Event::NoToken(why));
        RequestFailure::unavailable("the cluster's key of tokens cannot be used")
    }

    /// Issues a token. One that this question gave before is given again.
    pub(super) async fn issue(
        &self,
        found: &FoundUser,
        ask: TokenRequest,
    ) -> Result<LoggedIn, RequestFailure> {
        let token = match found.user.token(ask.id) {
            Some(kept) => kept.clone(),
            None => self.issue_new(found, ask).await?,
        };
        Ok(LoggedIn {
            token: IssuedUserToken {
                view: token.view(),
                text: token.text,
            },
            admin: found.admin,
        })
    }

    async fn issue_new(
        &self,
        found: &FoundUser,
        ask: TokenRequest,
    ) -> Result<UserToken, RequestFailure> {
        let now_s = self.now_s();
        let at_s = stamp(ask.at_s, now_s);
        let life_s = match ask.kind {
            TokenKind::Login => Some(LOGIN_LIFE_S),
            TokenKind::Application => ask.token.life_s,
        };
        let wanted = WantedToken {
            user: &found.name,
            kind: ask.kind,
            at_s,
            expires_s: life_s.map(|life_s| at_s.saturating_add(life_s)),
            id: ask.id,
        };
        let text = self.port.token(&found.keys, &wanted);
        let token = UserToken {
            text: text.map_err(|why| self.no_token(why))?,
            id: ask.id,
            kind: ask.kind,
            name: ask.token.name,
            issued_s: at_s,
            expires_s: wanted.expires_s,
            address: ask.by.address.clone(),
            key: found.keys.token_number,
            used_s: 0,
        };
        let issue = UserTokenIssue {
            user: found.name.clone(),
            token: token.clone(),
            by: ask.by,
            now_s,
        };
        self.commit(&ClusterEntry::UserToken(Box::new(issue)))
            .await?;
        Ok(token)
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
